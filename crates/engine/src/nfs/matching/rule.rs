//! What one rule asks of a packet: the checked form of its fields.

use std::ops::RangeInclusive;

use catena_wire::ethernet::EtherType;
use catena_wire::ip::Protocol;

use super::fields::{EtherTypeName, PortRange, Prefix, ProtocolName};
use super::key::{ANY, FIELD_COUNT};
use crate::config::{ConfigError, ConfigErrors};

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
    pub(super) fn check(&self, path: &str, errors: &mut ConfigErrors) {
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

    /// The answers that fit, in the order of [`Key::fields`](super::Key).
    pub(super) fn field_ranges(&self) -> [RangeInclusive<u32>; FIELD_COUNT] {
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
