//! TCP links of a chain: their words, and where their receivers listen.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use crate::placement::Placement;
use crate::protocol::{LinkSecret, RingSpec};
use crate::supervisor::runtime_dir::random_token;

/// TCP links of a chain.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    pub(super) secrets: Vec<LinkSecret>,
    /// Where receivers listen, as far as they have said so.
    pub(super) addresses: BTreeMap<usize, SocketAddrV4>,
}

impl Sockets {
    /// Words for every TCP link.
    pub(super) fn new(placement: &Placement) -> Self {
        let word = || random_token() + &random_token();
        let secret = |ring: &RingSpec| LinkSecret {
            link: ring.link,
            question: word(),
            answer: word(),
        };
        Self {
            secrets: tcp_links(placement).map(secret).collect(),
            addresses: BTreeMap::new(),
        }
    }

    /// As a former supervisor had them.
    pub(super) fn written(
        secrets: Vec<LinkSecret>,
        addresses: BTreeMap<usize, SocketAddrV4>,
    ) -> Self {
        Self { secrets, addresses }
    }
}

/// TCP links of a placement.
pub(super) fn tcp_links(placement: &Placement) -> impl Iterator<Item = &RingSpec> {
    placement.rings.iter().filter(|ring| ring.tcp.is_some())
}

/// Whether a worker has an end of a TCP link.
pub(super) fn has_sockets(placement: &Placement, worker: usize) -> bool {
    tcp_links(placement).any(|ring| ring.from == worker || ring.to == worker)
}
