//! Endpoints of IPv4 as single words, which are keys of tables: address, port, protocol.
//!
//! Between the packet's headers and every table of the translator. Of ICMP the port is the
//! identifier of a query inside and outside, and 0 where the world is.

use std::net::Ipv4Addr;

use catena_wire::ip::Protocol;

/// An address, a port and a protocol: 32, 16 and 8 bits, and 8 that are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) address: u32,
    pub(super) port: u16,
    pub(super) protocol: u8,
}

impl Endpoint {
    pub(super) const fn word(self) -> u64 {
        (self.address as u64) << 32 | (self.port as u64) << 16 | self.protocol as u64
    }

    /// What [`Endpoint::word`] gave, whatever else its second byte says.
    pub(super) const fn of_word(word: u64) -> Self {
        Self {
            address: (word >> 32) as u32,
            port: (word >> 16) as u16,
            protocol: word as u8,
        }
    }

    /// The address alone: of whoever may send from any port.
    pub(super) const fn any_port(self) -> Self {
        Self { port: 0, ..self }
    }
}

/// Which bitmap of a block's ports is a protocol's; none of what is not translated.
pub(super) const fn protocol_index(protocol: u8) -> Option<usize> {
    const UDP: u8 = Protocol::UDP.0;
    const TCP: u8 = Protocol::TCP.0;
    const ICMP: u8 = Protocol::ICMP.0;
    match protocol {
        UDP => Some(0),
        TCP => Some(1),
        ICMP => Some(2),
        _ => None,
    }
}

/// How many bitmaps there are.
pub(super) const PROTOCOL_COUNT: usize = 3;

/// The name of a protocol that is translated.
pub(super) const fn protocol_name(protocol: u8) -> &'static str {
    match protocol_index(protocol) {
        Some(0) => "udp",
        Some(1) => "tcp",
        Some(_) => "icmp",
        None => "other",
    }
}

/// An address as people read it.
pub(super) fn shown(address: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(address)
}

/// A network: what its addresses have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    first: u32,
    len: u32,
}

impl Network {
    /// Reads `10.0.0.0/8`, or an address alone; none if bits stand behind the length.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, len.parse().ok()?),
            None => (text, 32),
        };
        let first = address.parse::<Ipv4Addr>().ok()?.to_bits();
        let network = Self { first, len };
        let is_right = len <= 32 && u64::from(first).is_multiple_of(network.count());
        is_right.then_some(network)
    }

    pub(super) const fn count(&self) -> u64 {
        1 << (32 - self.len)
    }

    pub(super) const fn has(&self, address: u32) -> bool {
        (address ^ self.first) as u64 >> (32 - self.len) == 0
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = u32> + use<> {
        let first = self.first;
        (0..self.count()).map(move |offset| first | offset as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_survives_its_word() {
        let endpoint = Endpoint {
            address: 0xc633_6401,
            port: 65_535,
            protocol: 17,
        };
        assert_eq!(Endpoint::of_word(endpoint.word()), endpoint);
        assert_eq!(Endpoint::of_word(endpoint.word() | 0xff00), endpoint);
        assert_eq!(endpoint.word() & 0xff00, 0);
    }

    #[test]
    fn networks_have_their_addresses_and_no_others() {
        let network = Network::parse("198.51.100.4/30").unwrap();
        let all: Vec<u32> = network.addresses().collect();
        assert_eq!(all.len(), 4);
        assert!(all.iter().all(|one| network.has(*one)));
        assert!(!network.has(all[0] - 1) && !network.has(all[3] + 1));
        assert_eq!(Network::parse("1.2.3.4").unwrap().count(), 1);
        assert!(Network::parse("0.0.0.0/0").unwrap().has(u32::MAX));
        for wrong in [
            "198.51.100.4/29",
            "1.2.3.4/33",
            "1.2.3/8",
            "::/0",
            "",
            "1.2.3.4/-1",
        ] {
            assert_eq!(Network::parse(wrong), None, "{wrong}");
        }
    }
}
