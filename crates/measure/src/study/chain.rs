//! The chain and the profile of a combination, as the documents that their own checkers read.
//!
//! ```text
//! link:      traffic -> nf1 -> ... -> receiver
//! others:    traffic -> tester-tx ~wire~ device-rx -> nf1 -> ... -> device-tx ~wire~ tester-rx
//!            -> receiver
//! ```
//!
//! The tester is a process of its own on the first core; the device has the others. In mode
//! `inline` over `link` everything is one loop, and the generator's work part of the result.

use std::path::Path;

use catena_engine::chain::{Chain, ChainErrors, Checked, Registry};
use serde_json::{Map, Value, json};

use super::cell::{AGGREGATE, Cell, LoadLevel, MODE, NFS, PORT, PROTOCOL, RATE, SIZE, TRUST};
use super::document::{LINK, PortTemplate, Study};
use super::wire::{ENDS, WireKind};

/// Names of the tester's ports at the wires: what is lost there is not lost by the device.
pub const TESTER_PORTS: [&str; 2] = ["tester-tx", "tester-rx"];

/// What a chain is made of.
struct Parts<'a> {
    mode: &'a str,
    port: &'a str,
    count: usize,
    aggregate: &'a str,
    trust: &'a str,
    protocol: &'a str,
}

impl Study {
    /// Functions in a cell's chain.
    pub(super) fn count_of(&self, cell: &Cell) -> usize {
        self.level(cell, NFS).parse().unwrap_or(1)
    }

    /// The wire that a cell needs.
    pub fn wire_of(&self, cell: &Cell) -> WireKind {
        let template = self.ports.get(self.level(cell, PORT));
        template.map_or(WireKind::None, |template| template.wire)
    }

    /// A cell's chain.
    ///
    /// # Errors
    /// What its checker refuses.
    pub fn chain_of(&self, cell: &Cell, registry: &Registry) -> Result<Checked, ChainErrors> {
        Chain::parse(&self.text_of(cell), Path::new("."), registry, None)
    }

    /// A cell's chain as a document.
    pub(super) fn text_of(&self, cell: &Cell) -> String {
        self.chain_text(&Parts {
            mode: self.level(cell, MODE),
            port: self.level(cell, PORT),
            count: self.count_of(cell),
            aggregate: self.level(cell, AGGREGATE),
            trust: self.level(cell, TRUST),
            protocol: self.level(cell, PROTOCOL),
        })
    }

    /// A chain in processes over a kind of port, all else as usual.
    pub(super) fn simplest(&self, port: &str, count: usize) -> String {
        self.chain_text(&Parts {
            mode: "process",
            port,
            count,
            aggregate: "auto",
            trust: "copy",
            protocol: "ring",
        })
    }

    /// The chain as JSON, which is YAML.
    fn chain_text(&self, parts: &Parts<'_>) -> String {
        let is_inline = parts.mode == "inline";
        let tester_mode = if is_inline && parts.port == LINK {
            "inline"
        } else {
            "process"
        };
        let tester = |key: &str, value: Value| json!({ key: value, "mode": tester_mode });
        let mut ports = Map::new();
        ports.insert(
            "traffic".into(),
            tester("traffic", json!({ "profile": {} })),
        );
        ports.insert("receiver".into(), tester("receiver", json!({})));
        let mut nfs = Map::new();
        let mut way = Vec::new();
        for number in 0..parts.count {
            let name = format!("nf{}", number + 1);
            let mut nf = self.nfs[number % self.nfs.len()].clone();
            nf.insert("mode".into(), json!(parts.mode));
            nfs.insert(name.clone(), Value::Object(nf));
            way.push(name);
        }
        let mut links = Vec::new();
        match self.ports.get(parts.port) {
            None => {
                way.insert(0, "traffic".to_owned());
                way.push("receiver".to_owned());
            }
            Some(template) => {
                add_wired(&mut ports, template, parts.mode);
                way.insert(0, "device-rx".to_owned());
                way.push("device-tx".to_owned());
                let [tx, rx] = TESTER_PORTS;
                links.push(json!(format!("traffic -> {tx}")));
                links.push(json!(format!("{rx} -> receiver")));
            }
        }
        let mut device = json!({ "link": way.join(" -> ") });
        // Between nodes of one loop there is no ring to set.
        if !is_inline {
            device["protocol"] = json!(parts.protocol);
            // A connection has neither bundles nor shared memory, a flag no bundles.
            if parts.protocol == "ring" {
                device["aggregate"] = json!(parts.aggregate);
            }
            if parts.protocol != "tcp" {
                device["trust"] = json!(parts.trust);
            }
        }
        links.push(device);
        let mut run = json!({ "mode": "process" });
        if let Some(image) = &self.image {
            run["image"] = json!(image);
        }
        let name = format!("study-{}", std::process::id());
        json!({ "name": name, "ports": ports, "nfs": nfs, "links": links, "run": run }).to_string()
    }

    /// A profile of a size and a rate; shares and `max` have no rate of their own.
    pub(super) fn profile_of(
        &self,
        size: &Value,
        rate: &str,
        load_pps: Option<f64>,
    ) -> Map<String, Value> {
        let mut profile = self.profile.clone();
        profile.insert("sizes".into(), size.clone());
        let rate = match (LoadLevel::parse(rate), load_pps) {
            (_, Some(pps)) => Some(format!("{pps}pps")),
            (Ok(LoadLevel::Rate(_)), None) => Some(rate.to_owned()),
            _ => None,
        };
        if let Some(rate) = rate {
            let load = profile.entry("load").or_insert_with(|| json!({}));
            if load.is_object() {
                load["rate"] = json!(rate);
            }
        } else {
            // At max there are no gaps to shape.
            profile.remove("load");
        }
        profile
    }

    /// The profile of a cell, whose load is set by each trial.
    pub fn cell_profile(&self, cell: &Cell) -> Value {
        let size = &self.levels[SIZE][cell[SIZE]].value;
        Value::Object(self.profile_of(size, self.level(cell, RATE), None))
    }
}

/// Replaces the names of interfaces in all texts.
fn named(value: &Value, device: &str, tester: &str) -> Value {
    match value {
        Value::String(text) => {
            let text = text.replace("$device", device).replace("$tester", tester);
            // The names of both ends end with the number of their wire.
            match device.trim_start_matches(|letter: char| !letter.is_ascii_digit()) {
                "" => json!(text),
                number => json!(text.replace("$number", number)),
            }
        }
        Value::Array(items) => items
            .iter()
            .map(|item| named(item, device, tester))
            .collect(),
        Value::Object(map) => {
            let entries = map.iter();
            let entries = entries.map(|(key, value)| (key.clone(), named(value, device, tester)));
            Value::Object(entries.collect())
        }
        other => other.clone(),
    }
}

fn add_wired(ports: &mut Map<String, Value>, template: &PortTemplate, mode: &str) {
    // Ports belong outside of containers.
    let device_mode = if mode == "container" { "process" } else { mode };
    let cores = crate::doctor::noise::cores();
    let device = Value::Object(template.device.clone());
    let tester = match (&template.tester, template.wire) {
        (Some(tester), _) => Value::Object(tester.clone()),
        // The same kind of port, at the other end.
        (None, _) => named(&device, "$tester", "$tester"),
    };
    let sides = [("device-rx", "tester-tx"), ("device-tx", "tester-rx")];
    for ((device_name, tester_name), (device_end, tester_end)) in sides.into_iter().zip(ENDS) {
        let mut one = named(&device, device_end, tester_end);
        one["mode"] = json!(device_mode);
        let mut other = named(&tester, device_end, tester_end);
        other["mode"] = json!("process");
        if let [first, second, ..] = cores.as_slice() {
            other["core"] = json!(first);
            if device_mode != "inline" {
                one["core"] = json!(second);
            }
        }
        ports.insert(device_name.to_owned(), one);
        ports.insert(tester_name.to_owned(), other);
    }
    if let [first, _, ..] = cores.as_slice() {
        for name in ["traffic", "receiver"] {
            ports[name]["core"] = json!(first);
        }
    }
}
