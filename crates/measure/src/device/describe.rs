//! What a device is, in the words of its chain file with every default filled in: what a reader
//! needs to build it again.

use catena_engine::chain::NodeKind;
use serde_json::json;

use super::under_test::Device;

impl Device {
    /// Name and value of everything that the chain sets: each port and NF with its settings, each
    /// link with slots, overflow, trust and hand-over, how workers wait and on which cores.
    pub fn description(&self) -> Vec<(String, String)> {
        let chain = self.chain();
        let mut rows = Vec::new();
        for (index, node) in chain.nodes.iter().enumerate() {
            if index == self.traffic || index == self.receiver {
                continue;
            }
            let (what, config, wraps) = match &node.kind {
                NodeKind::Port { config, wraps, .. } => {
                    let wraps = wraps
                        .iter()
                        .map(|wrap| json!({ wrap.kind.name: wrap.config }));
                    ("port", config, wraps.collect())
                }
                NodeKind::Nf { config, .. } => ("NF", config, Vec::new()),
            };
            let mut value = json!({
                "type": node.type_name(), "settings": config, "mode": node.mode,
                "group": node.group, "on_death": node.on_death,
            });
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
            if let NodeKind::Port { config, wraps, .. } = &chain.nodes[port].kind {
                let mut config = config.clone();
                if let Some(map) = config.as_object_mut() {
                    // Given on the command line, and told apart.
                    map.remove("profile");
                }
                let wraps: Vec<_> = wraps
                    .iter()
                    .map(|wrap| json!({ wrap.kind.name: wrap.config }))
                    .collect();
                let value = json!({ "settings": config, "wrap": wraps });
                rows.push((name.to_owned(), value.to_string()));
            }
        }
        if let Some(profile) = &self.profile {
            rows.push(("profile of the last trial".to_owned(), profile.to_string()));
        }
        rows
    }
}
