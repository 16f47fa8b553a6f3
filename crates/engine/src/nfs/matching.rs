//! What a rule asks of a packet, in one place for every NF that has rules.
//!
//! A [`Match`] is the checked form of the fields of one rule: those left out ask nothing. A [`Key`]
//! is what one packet answers. A [`RuleSet`] finds the first rule, by priority and then by file
//! order, that all of a key's answers fit; how, is the matter of [`search`].
//!
//! A packet has no answer to a field that it lacks, and then fits only rules that do not ask:
//! - addresses, protocol and DSCP: packets that are not IPv4 or IPv6;
//! - ports: all but TCP and UDP, and fragments other than the first, which carry no ports;
//! - VLAN: untagged frames. Of several tags the outermost is asked for.

use std::ops::RangeInclusive;

use catena_wire::ParseError;
use catena_wire::dissect::Dissected;
use catena_wire::ethernet::EtherType;
use catena_wire::ip::{Addresses, Protocol};

use crate::config::{ConfigError, ConfigErrors};

mod fields;
mod search;
pub(crate) use fields::{EtherTypeName, PortRange, Prefix, ProtocolName};
use search::{RULE_COUNT_MAX, Search};

/// What one rule asks. `None` asks nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Match {
    pub(crate) src: Option<Prefix>,
    pub(crate) dst: Option<Prefix>,
    pub(crate) src_port: Option<PortRange>,
    pub(crate) dst_port: Option<PortRange>,
    pub(crate) protocol: Option<ProtocolName>,
    pub(crate) ether_type: Option<EtherTypeName>,
    pub(crate) vlan: Option<u16>,
    pub(crate) dscp: Option<u8>,
}

impl Match {
    /// Adds what is wrong with the fields together: each by itself was checked when it was read.
    fn check(&self, path: &str, errors: &mut ConfigErrors) {
        let mut refuse = |field: &str, message: &str, repair: &str| {
            errors.push(ConfigError::new(format!("{path}.{field}"), message, repair));
        };
        let prefixes = [self.src, self.dst].into_iter().flatten();
        let is_v4 = prefixes.clone().any(|prefix| prefix.address.is_ipv4());
        let is_v6 = prefixes.clone().any(|prefix| prefix.address.is_ipv6());
        if is_v4 && is_v6 {
            let message = "src and dst are of different IP versions";
            refuse("dst", message, "write one rule for each version");
        }
        let lacks_ports = !matches!(
            self.protocol,
            None | Some(ProtocolName(Protocol::TCP | Protocol::UDP))
        );
        for (field, port) in [("src_port", self.src_port), ("dst_port", self.dst_port)] {
            if port.is_some() && lacks_ports {
                let repair = "leave the port out, or write protocol: tcp or udp";
                refuse(
                    field,
                    "only TCP and UDP packets are matched by port",
                    repair,
                );
            }
        }
        if self.vlan.is_some_and(|vlan| vlan > 4095) {
            refuse(
                "vlan",
                "a VLAN identifier is at most 4095",
                "write 0 to 4095",
            );
        }
        if self.dscp.is_some_and(|dscp| dscp > 63) {
            refuse("dscp", "a code point is at most 63", "write 0 to 63");
        }
        let asks_ip = is_v4
            || is_v6
            || self.src_port.or(self.dst_port).is_some()
            || self.protocol.is_some()
            || self.dscp.is_some();
        match self.ether_type {
            Some(EtherTypeName(EtherType::IPV4)) if is_v6 => {
                refuse(
                    "ether_type",
                    "the addresses are IPv6",
                    "leave ether_type out",
                );
            }
            Some(EtherTypeName(EtherType::IPV6)) if is_v4 => {
                refuse(
                    "ether_type",
                    "the addresses are IPv4",
                    "leave ether_type out",
                );
            }
            None | Some(EtherTypeName(EtherType::IPV4 | EtherType::IPV6)) => {}
            Some(EtherTypeName(tag)) if tag.is_vlan() => {
                let message = "the EtherType asked for is the one behind VLAN tags";
                refuse("ether_type", message, "write vlan: 100 to ask for a tag");
            }
            Some(_) if asks_ip => {
                let message =
                    "packets of this EtherType have no addresses, ports, protocol or DSCP";
                refuse("ether_type", message, "leave either out");
            }
            Some(_) => {}
        }
    }
}

/// The fields of a packet other than its addresses, in the order of [`Key::fields`].
const FIELD_COUNT: usize = 6;
/// The answer of a packet that lacks the field; no field's value is as large.
const LACKING: u32 = u32::MAX;
/// Fits every answer, [`LACKING`] too.
const ANY: RangeInclusive<u32> = 0..=u32::MAX;

/// What one packet answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Both addresses, if it is IP.
    pub(crate) addresses: Option<Addresses>,
    /// Source port, destination port, protocol, EtherType, VLAN, DSCP.
    fields: [u32; FIELD_COUNT],
}

impl Key {
    /// The key of the packet in `frame`.
    ///
    /// # Errors
    /// That of [`Dissected::parse`]: no rule should guess what a malformed packet is.
    #[inline]
    pub(crate) fn of(frame: &[u8]) -> Result<Self, ParseError> {
        let dissected = Dissected::parse(frame)?;
        let (src_port, dst_port) = dissected
            .ports()
            .map_or((LACKING, LACKING), |(src, dst)| (src.into(), dst.into()));
        let vlan_ids = dissected.vlan_ids();
        let vlan = vlan_ids.first().map_or(LACKING, |vlan| u32::from(*vlan));
        let (protocol, dscp) = dissected.ip.map_or((LACKING, LACKING), |ip| {
            // The dissection has read a whole IP header here.
            let word = u32::from(frame[dissected.l3]) << 8 | u32::from(frame[dissected.l3 + 1]);
            let dscp = match ip.addresses {
                Addresses::V4 { .. } => word >> 2 & 0x3f,
                Addresses::V6 { .. } => word >> 6 & 0x3f,
            };
            (ip.protocol.0.into(), dscp)
        });
        let ether_type = dissected.ether_type.0.into();
        Ok(Self {
            addresses: dissected.ip.map(|ip| ip.addresses),
            fields: [src_port, dst_port, protocol, ether_type, vlan, dscp],
        })
    }
}

impl Match {
    /// The answers that fit, in the order of [`Key::fields`].
    fn field_ranges(&self) -> [RangeInclusive<u32>; FIELD_COUNT] {
        let one = |value: u32| value..=value;
        let ports = |ports: PortRange| ports.first.into()..=ports.last.into();
        [
            self.src_port.map_or(ANY, ports),
            self.dst_port.map_or(ANY, ports),
            self.protocol
                .map_or(ANY, |protocol| one(protocol.0.0.into())),
            self.ether_type
                .map_or(ANY, |ether_type| one(ether_type.0.0.into())),
            self.vlan.map_or(ANY, |vlan| one(vlan.into())),
            self.dscp.map_or(ANY, |dscp| one(dscp.into())),
        ]
    }
}

/// Rules, ready to search, and how often each was the first to match.
#[derive(Debug)]
pub(crate) struct RuleSet {
    search: Search,
    /// Index in the file of each rule, in the order of the search.
    file_indices: Vec<usize>,
    hits: Vec<u64>,
}

impl RuleSet {
    /// Checks and compiles rules, given in file order with their priorities. Those of greater
    /// priority come first, equal ones in file order. Control path: tens of
    /// milliseconds for thousands.
    ///
    /// # Errors
    /// All that is wrong, with paths under `rules`.
    pub(crate) fn new(rules: &[(u32, Match)]) -> Result<Self, ConfigErrors> {
        Self::check(rules)?;
        let mut file_indices: Vec<usize> = (0..rules.len()).collect();
        // Stable, so that equal priorities stay in file order.
        file_indices.sort_by_key(|index| std::cmp::Reverse(rules[*index].0));
        let ordered: Vec<Match> = file_indices.iter().map(|index| rules[*index].1).collect();
        Ok(Self {
            search: Search::new(&ordered),
            file_indices,
            hits: vec![0; rules.len()],
        })
    }

    /// Checks rules without compiling them.
    ///
    /// # Errors
    /// All that is wrong, with paths under `rules`.
    pub(crate) fn check(rules: &[(u32, Match)]) -> Result<(), ConfigErrors> {
        let mut errors = Vec::new();
        for (index, (_, rule)) in rules.iter().enumerate() {
            rule.check(&format!("rules[{index}]"), &mut errors);
        }
        if rules.len() > RULE_COUNT_MAX {
            let message = format!("there are {} rules", rules.len());
            let repair = format!("write at most {RULE_COUNT_MAX}; NFs may follow one another");
            errors.push(ConfigError::new("rules", message, repair));
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(errors),
        }
    }

    /// Index in the file of the first rule that `key` fits; counts the hit.
    #[inline]
    pub(crate) fn first_match(&mut self, key: &Key) -> Option<usize> {
        let index = self.file_indices[self.search.first(key)?];
        self.hits[index] += 1;
        Some(index)
    }

    /// How often each rule, in file order, was the first to match.
    pub(crate) fn hits(&self) -> &[u64] {
        &self.hits
    }
}

#[cfg(test)]
mod tests;
