//! Which packets a device itself tells apart (`rte_flow`): what a chain file says of a rule, and
//! the rule that the device is given.
//!
//! Control path. What a rule says together is checked here; whether a device can do it, the device
//! is asked when the port is opened.

use std::net::IpAddr;

use catena_engine::config::{ConfigError, ConfigErrors};
use schemars::JsonSchema;
use serde::Deserialize;

use super::sys::{ANY, Rule};

/// Rules of a port, at most.
const FLOWS_MAX: usize = 256;
const VLAN_MAX: u16 = 4094;

/// A protocol with ports, by its number (IANA).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Transport {
    Tcp = 6,
    Udp = 17,
    Sctp = 132,
}

/// Which packets. What is left out is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Match {
    /// EtherType, behind a VLAN tag if one is asked for; any if left out.
    ether_type: Option<u16>,
    /// VLAN number of the outer tag; any frame if left out.
    vlan: Option<u16>,
    /// Version of IP, 4 or 6; addresses say it, too. Any packet if left out.
    ip: Option<u8>,
    /// Source address; any if left out.
    source: Option<IpAddr>,
    /// Destination address; any if left out.
    destination: Option<IpAddr>,
    /// `tcp`, `udp` or `sctp`; any if left out.
    protocol: Option<Transport>,
    /// Source port; any packet if left out.
    source_port: Option<u16>,
    /// Destination port; any packet if left out.
    destination_port: Option<u16>,
}

/// A rule for the device.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Flow {
    /// Which packets.
    #[serde(rename = "match")]
    matches: Match,
    /// The queue that they come by; without it, any.
    queue: Option<u16>,
    /// The tag that they have in the chain, 1 to 65535; none if left out.
    mark: Option<u16>,
    /// Which rule comes first where several match: the lowest number.
    #[serde(default)]
    priority: u32,
}

impl Match {
    /// The version of IP that it says, if it does; an error where it says two.
    fn version(&self) -> Result<Option<u32>, ()> {
        let of = |address: IpAddr| if address.is_ipv4() { 4 } else { 6 };
        let addresses = [self.source, self.destination]
            .into_iter()
            .flatten()
            .map(of);
        let mut said = self.ip.map(u32::from).into_iter().chain(addresses);
        let first = said.next();
        match said.all(|other| Some(other) == first) {
            true => Ok(first),
            false => Err(()),
        }
    }
}

/// What is wrong with a rule: where, what, and what to write.
type Wrong = (&'static str, &'static str, &'static str);

impl Flow {
    fn wrong(&self, queues: u16) -> Option<Wrong> {
        let of = &self.matches;
        let version = of.version();
        let has_ports = of.source_port.or(of.destination_port).is_some();
        let ip = "give 4 or 6, the version of all addresses";
        let cases: [(bool, Wrong); 9] = [
            (
                *of == Match::default(),
                ("match", "it matches everything", "name what is matched"),
            ),
            (
                of.vlan.is_some_and(|vlan| vlan > VLAN_MAX),
                ("match/vlan", "no VLAN has this number", "give 0 to 4094"),
            ),
            (
                version.is_err() || of.ip.is_some_and(|ip| ip != 4 && ip != 6),
                ("match/ip", "no packet is of this version of IP", ip),
            ),
            (
                of.ether_type.is_some() && (version != Ok(None) || of.protocol.is_some()),
                (
                    "match/ether_type",
                    "IP has EtherTypes of its own",
                    "leave it out",
                ),
            ),
            (
                of.protocol.is_some() && version == Ok(None),
                (
                    "match/protocol",
                    "a device has a rule for each version of IP",
                    "write `ip: 4` or `ip: 6` beside it, in two rules for both",
                ),
            ),
            (
                has_ports && of.protocol.is_none(),
                (
                    "match",
                    "ports are those of a protocol",
                    "write `protocol: udp`, `tcp` or `sctp` beside them",
                ),
            ),
            (
                self.queue.is_none() && self.mark.is_none(),
                (
                    "mark",
                    "nothing is said of the packets that match",
                    "write `queue` or `mark`",
                ),
            ),
            (
                self.queue.is_some_and(|queue| queue >= queues),
                (
                    "queue",
                    "the port has no such queue",
                    "give a number below its `queues`",
                ),
            ),
            (
                self.mark == Some(0),
                (
                    "mark",
                    "0 is the tag of packets without a mark",
                    "give 1 to 65535",
                ),
            ),
        ];
        let mut found = cases.into_iter().filter(|(is_wrong, _)| *is_wrong);
        found.next().map(|(_, wrong)| wrong)
    }

    fn rule(&self) -> Rule {
        let of = &self.matches;
        let bytes = |address: Option<IpAddr>| {
            let mut bytes = [0; 16];
            match address {
                Some(IpAddr::V4(address)) => bytes[..4].copy_from_slice(&address.octets()),
                Some(IpAddr::V6(address)) => bytes = address.octets(),
                None => {}
            }
            bytes
        };
        let number = |number: Option<u16>| number.map_or(ANY, u32::from);
        Rule {
            source: bytes(of.source),
            destination: bytes(of.destination),
            has_source: of.source.is_some().into(),
            has_destination: of.destination.is_some().into(),
            ip: of.version().ok().flatten().unwrap_or(0),
            protocol: of.protocol.map_or(0, |protocol| protocol as u32),
            ether_type: number(of.ether_type),
            vlan: number(of.vlan),
            source_port: number(of.source_port),
            destination_port: number(of.destination_port),
            queue: number(self.queue),
            mark: self.mark.unwrap_or(0).into(),
            priority: self.priority,
        }
    }
}

/// What is wrong with the rules of a port with that many queues.
pub(super) fn check(flows: &[Flow], queues: u16, errors: &mut ConfigErrors) {
    if flows.len() > FLOWS_MAX {
        let repair = format!("give at most {FLOWS_MAX}");
        errors.push(ConfigError::new("flows", "there are too many", repair));
    }
    for (at, flow) in flows.iter().enumerate() {
        if let Some((place, what, repair)) = flow.wrong(queues) {
            errors.push(ConfigError::new(
                format!("flows/{at}/{place}"),
                what,
                repair,
            ));
        }
    }
}

/// The rules, in their order.
pub(super) fn rules(flows: &[Flow]) -> Vec<Rule> {
    flows.iter().map(Flow::rule).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_that_say_too_little_or_too_much_name_the_field() {
        for (flow, place) in [
            (json!({ "match": {}, "mark": 1 }), "match"),
            (json!({ "match": { "vlan": 4095 }, "mark": 1 }), "vlan"),
            (json!({ "match": { "ip": 5 }, "mark": 1 }), "ip"),
            (
                json!({ "match": { "source": "10.0.0.1", "destination": "::1" }, "mark": 1 }),
                "ip",
            ),
            (
                json!({ "match": { "ip": 6, "source": "10.0.0.1" }, "mark": 1 }),
                "ip",
            ),
            (
                json!({ "match": { "ether_type": 0x800, "ip": 4 }, "mark": 1 }),
                "ether_type",
            ),
            (
                json!({ "match": { "protocol": "udp" }, "mark": 1 }),
                "protocol",
            ),
            (
                json!({ "match": { "ip": 4, "source_port": 1 }, "mark": 1 }),
                "match",
            ),
            (json!({ "match": { "ip": 4 } }), "mark"),
            (json!({ "match": { "ip": 4 }, "mark": 0 }), "mark"),
            (json!({ "match": { "ip": 4 }, "queue": 2 }), "queue"),
        ] {
            let flow: Flow = serde_json::from_value(flow.clone()).unwrap();
            let mut errors = Vec::new();
            check(std::slice::from_ref(&flow), 2, &mut errors);
            assert_eq!(errors.len(), 1, "{flow:?}");
            assert!(
                errors[0].path.ends_with(place),
                "{flow:?}: {:?}",
                errors[0].path
            );
        }
    }

    #[test]
    fn a_rule_is_what_the_chain_file_says() {
        let flow: Flow = serde_json::from_value(json!({
            "match": {
                "vlan": 5, "destination": "10.0.0.1", "protocol": "udp", "destination_port": 2152,
            },
            "queue": 1, "mark": 7, "priority": 3,
        }))
        .unwrap();
        let rule = &rules(&[flow])[0];
        assert_eq!(rule.destination[..5], [10, 0, 0, 1, 0]);
        assert_eq!((rule.has_source, rule.has_destination), (0, 1));
        assert_eq!((rule.ip, rule.protocol, rule.vlan), (4, 17, 5));
        assert_eq!((rule.source_port, rule.destination_port), (ANY, 2152));
        assert_eq!((rule.queue, rule.mark, rule.priority), (1, 7, 3));
    }
}
