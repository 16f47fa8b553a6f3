//! Associations: which SMFs may have sessions here.
//!
//! Beside a packet's life. They lie in the memory that outlives the NF, so that sessions of a
//! killed UPF still have an owner. Limits: [`ASSOCIATION_COUNT`]; a node's name has at most
//! [`NAME_LEN_MAX`] octets; [`OTHERS_MAX`] other addresses of its SMF or its set are known.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_wire::pfcp::value::address::NodeId;

use crate::stored;
use crate::stored::List;

/// Most associations.
pub const ASSOCIATION_COUNT: usize = 64;
/// Longest Node ID, as the octets of the IE.
pub const NAME_LEN_MAX: usize = 128;

/// Most addresses of each version beside the one that messages come from.
pub const OTHERS_MAX: usize = 4;

stored! {
    /// An association with an SMF.
    pub struct Association {
        /// Its Node ID: the type, then the address or the name. Empty where there is none.
        pub name: List<u8, NAME_LEN_MAX>,
        /// Where its messages come from.
        pub peer_v4: Option<Ipv4Addr>,
        /// Where its messages come from.
        pub peer_v6: Option<Ipv6Addr>,
        /// CP Function Features.
        pub features: u16,
        /// Its Recovery Time Stamp.
        pub recovery: u32,
        /// SMF Set ID, as labels; empty for none.
        pub set: List<u8, NAME_LEN_MAX>,
        /// Alternative SMF IP Addresses, those that are preferred first.
        pub others_v4: List<u32, OTHERS_MAX>,
        /// Alternative SMF IP Addresses, those that are preferred first.
        pub others_v6: List<[u8; 16], OTHERS_MAX>,
    }
}

impl Association {
    /// No association.
    pub fn none() -> Self {
        Self {
            name: List::default(),
            peer_v4: None,
            peer_v6: None,
            features: 0,
            recovery: 0,
            set: List::default(),
            others_v4: List::default(),
            others_v6: List::default(),
        }
    }

    /// Whether there is one.
    pub fn is_some(&self) -> bool {
        !self.name.as_slice().is_empty()
    }

    /// Where requests to it go.
    pub fn peer(&self) -> Option<IpAddr> {
        let v4 = self.peer_v4.map(IpAddr::V4);
        v4.or(self.peer_v6.map(IpAddr::V6))
    }

    /// Other addresses of its SMF, or of others of the set.
    pub fn others(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let v4 = self.others_v4.as_slice().iter();
        let v4 = v4.map(|bits| IpAddr::V4(Ipv4Addr::from_bits(*bits)));
        let v6 = self.others_v6.as_slice().iter();
        v4.chain(v6.map(|octets| IpAddr::V6(Ipv6Addr::from(*octets))))
    }

    /// Whether its messages may come from an address.
    pub fn speaks_from(&self, address: IpAddr) -> bool {
        self.peer() == Some(address) || self.others().any(|other| other == address)
    }

    /// Whether its SMF is of the same set as another one's.
    pub fn is_of_set_of(&self, other: &Self) -> bool {
        !self.set.as_slice().is_empty() && self.set == other.set
    }

    /// Notes where its messages come from.
    pub fn set_peer(&mut self, peer: IpAddr) {
        (self.peer_v4, self.peer_v6) = match peer {
            IpAddr::V4(address) => (Some(address), None),
            IpAddr::V6(address) => (None, Some(address)),
        };
    }
}

/// The octets by which a node is known; none if they are too many.
pub fn name_of(node: &NodeId<'_>) -> Option<List<u8, NAME_LEN_MAX>> {
    let mut name = List::default();
    let mut fill = |kind: u8, octets: &[u8]| {
        let mut octets = [kind].into_iter().chain(octets.iter().copied());
        octets.all(|octet| name.push(octet))
    };
    let is_whole = match node {
        NodeId::V4(address) => fill(0, &address.octets()),
        NodeId::V6(address) => fill(1, &address.octets()),
        NodeId::Fqdn(labels) => fill(2, labels.as_bytes()),
    };
    is_whole.then_some(name)
}

/// The name as text.
pub fn shown(name: &[u8]) -> String {
    match name {
        [0, a, b, c, d] => Ipv4Addr::new(*a, *b, *c, *d).to_string(),
        [1, octets @ ..] => <[u8; 16]>::try_from(octets)
            .map(|octets| Ipv6Addr::from(octets).to_string())
            .unwrap_or_default(),
        [2, labels @ ..] => catena_wire::pfcp::value::Name::new(labels)
            .map(|name| name.to_string())
            .unwrap_or_default(),
        _ => String::new(),
    }
}
