//! Associations: which SMFs may have sessions here.
//!
//! Beside a packet's life. They lie in the memory that outlives the NF, so that sessions of a
//! killed UPF still have an owner. Limits: [`ASSOCIATION_COUNT`]; a node's name has at most
//! [`NAME_LEN_MAX`] octets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_wire::pfcp::value::address::NodeId;

use crate::stored;
use crate::stored::List;

/// Most associations.
pub const ASSOCIATION_COUNT: usize = 64;
/// Longest Node ID, as the octets of the IE.
pub const NAME_LEN_MAX: usize = 128;

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
