//! What a device is, in the words of its chain file with the defaults filled in that schemas tell:
//! what a reader needs to build it again.

use catena_engine::chain::{NodeKind, WrapSpec};
use serde_json::{Value, json};

use super::defaults::filled;
use super::under_test::Device;
use crate::profile::Profile;

/// Adds to what a report says of a part: its settings by this name, and what of them is not set.
fn tell(value: &mut Value, name: &str, config: &Value, schema: &schemars::Schema) {
    let filled = filled(config, schema);
    value[name] = filled.settings;
    if !filled.not_set.is_empty() {
        value["not set"] = json!(filled.not_set);
    }
}

/// Wrappers with their settings.
fn wrapped(wraps: &[WrapSpec]) -> Vec<Value> {
    let wraps = wraps.iter().map(|wrap| {
        let mut value = json!({});
        tell(
            &mut value,
            wrap.kind.name,
            &wrap.config,
            &(wrap.kind.schema)(),
        );
        value
    });
    wraps.collect()
}

impl Device {
    /// Name and value of everything that the chain sets: each port and NF with its settings, each
    /// link with slots, overflow, trust and hand-over, how workers wait and on which cores, what
    /// waits at the device's entry.
    pub fn description(&self) -> Vec<(String, String)> {
        let chain = self.chain();
        let mut rows = Vec::new();
        for (index, node) in chain.nodes.iter().enumerate() {
            if index == self.traffic || index == self.receiver {
                continue;
            }
            let (what, config, schema, wraps) = match &node.kind {
                NodeKind::Port {
                    kind,
                    config,
                    wraps,
                    ..
                } => ("port", config, (kind.schema)(), wrapped(wraps)),
                NodeKind::Nf { kind, config, .. } => ("NF", config, (kind.schema)(), Vec::new()),
            };
            let mut value = json!({
                "type": node.type_name(), "mode": node.mode, "group": node.group,
                "on_death": node.on_death,
            });
            tell(&mut value, "settings", config, &schema);
            if let Some(core) = node.core {
                value["core"] = json!(core);
            }
            if !wraps.is_empty() {
                value["wrap"] = json!(wraps);
            }
            rows.push((format!("{what} {}", node.name), value.to_string()));
        }
        for link in &chain.links {
            let value = json!({
                "overflow": link.overflow, "slots": link.slot_count, "trust": link.trust,
                "protocol": link.protocol, "aggregate": link.aggregate,
            });
            rows.push((format!("link {}", link.name), value.to_string()));
        }
        rows.push(("run".to_owned(), json!(chain.run).to_string()));
        if let Some(waiting) = &self.waiting {
            rows.push(("wait policy".to_owned(), waiting.clone()));
        }
        for (name, port) in [
            ("tester's traffic", self.traffic),
            ("tester's receiver", self.receiver),
        ] {
            if let NodeKind::Port {
                kind,
                config,
                wraps,
                ..
            } = &chain.nodes[port].kind
            {
                let mut value = json!({ "wrap": wrapped(wraps) });
                tell(&mut value, "settings", config, &(kind.schema)());
                let settings = &mut value["settings"];
                if let Some(entry) = settings.get("entry") {
                    rows.push(("entry buffer".to_owned(), format!("{entry} packets")));
                }
                if let Some(map) = settings.as_object_mut() {
                    // Given on the command line, and told apart.
                    map.remove("profile");
                }
                rows.push((name.to_owned(), value.to_string()));
            }
        }
        if let Some(profile) = &self.profile {
            let profile = filled(profile, &(Profile::KIND.schema)());
            let name = "profile of the last trial";
            rows.push((name.to_owned(), profile.settings.to_string()));
            if !profile.not_set.is_empty() {
                let not_set = json!(profile.not_set).to_string();
                rows.push((format!("{name}: not set"), not_set));
            }
        }
        rows
    }
}
