//! Keys: what of a packet decides which shard it belongs to.
//!
//! | key | packets that belong together |
//! |---|---|
//! | [`ShardKey::Flow`] | both directions of a flow: addresses, protocol, ports |
//! | [`ShardKey::InnerFlow`] | the same of what GTP-U carries; of any other packet, its own |
//! | [`ShardKey::Session`] | those of one UE, whose TEIDs and address are of one part of their ranges |
//! | [`ShardKey::Own`] | as the NF that is sharded says |
//!
//! A packet that has no such key, one that is not IP above all, is the first shard's. So is one
//! whose headers are malformed.

use std::net::IpAddr;

use catena_wire::dissect::{Dissected, Transport};
use catena_wire::gtpu;
use catena_wire::ip::Addresses;
use serde::{Deserialize, Serialize};

use super::hash::FlowHash;
use super::table::{Buckets, part_of};

/// What decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShardKey {
    /// Addresses, protocol and ports, whichever the direction.
    Flow,
    /// The same of the packet inside GTP-U, where there is one.
    InnerFlow,
    /// The TEID of GTP-U, or the address of the UE: who allocates both from the same part of their
    /// ranges has both directions of a session in one shard.
    Session(UeSpace),
    /// A function of the NF's own.
    Own,
}

/// The words for keys without settings in chain files.
pub const KEY_WORDS: [&str; 3] = ["flow", "inner_flow", "own"];

/// Ranges that sessions are allocated from, each divided among the shards in equal parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UeSpace {
    /// First TEID, and how many leading bits of it all have in common.
    pub teids: (u32, u32),
    /// Prefixes of the UEs' addresses: address and length. Of IPv6 the first 64 bits count, which
    /// one UE has to itself.
    pub ue: Vec<(IpAddr, u32)>,
}

impl UeSpace {
    /// Bits of the range of TEIDs that are free.
    pub fn teid_bits(&self) -> u32 {
        u32::BITS - self.teids.1.min(u32::BITS)
    }

    fn part_of_teid(&self, teid: u32, count: u16) -> Option<u8> {
        let bits = self.teid_bits();
        let offset = u64::from(teid ^ self.teids.0);
        (offset >> bits == 0).then(|| part_of(offset, bits, count))
    }

    fn part_of_address(&self, address: IpAddr, count: u16) -> Option<u8> {
        self.ue.iter().find_map(|&(prefix, len)| {
            let (differs, bits) = match (prefix, address) {
                (IpAddr::V4(prefix), IpAddr::V4(address)) => {
                    let differs = prefix.to_bits() ^ address.to_bits();
                    (u64::from(differs), 32_u32.saturating_sub(len))
                }
                (IpAddr::V6(prefix), IpAddr::V6(address)) => {
                    let differs = (prefix.to_bits() ^ address.to_bits()) >> 64;
                    let differs = differs as u64;
                    (differs, 64_u32.saturating_sub(len))
                }
                _ => return None,
            };
            let is_inside = differs.checked_shr(bits).unwrap_or(0) == 0;
            is_inside.then(|| part_of(differs, bits, count))
        })
    }
}

/// Reads keys of packets, and says whose they are.
#[derive(Debug)]
pub struct KeyReader {
    key: ShardKey,
    count: u16,
    hash: FlowHash,
    buckets: Buckets,
}

impl KeyReader {
    /// For `count` shards by `key`, which is not [`ShardKey::Own`]; `seed` is the chain's.
    pub fn new(key: ShardKey, count: u16, seed: u64) -> Self {
        Self {
            key,
            count,
            hash: FlowHash::new(seed),
            buckets: Buckets::of(count),
        }
    }

    /// The shard of a packet, from its Ethernet header on; none if it has no key.
    #[inline]
    pub fn shard_of(&self, packet: &[u8]) -> Option<u8> {
        let outer = Dissected::parse(packet).ok()?;
        match &self.key {
            ShardKey::Flow => self.hashed(&outer),
            ShardKey::InnerFlow => match tunnelled(&outer, packet) {
                Some(tunnel) => self.hashed(&Dissected::parse_ip(tunnel.payload()).ok()?),
                None => self.hashed(&outer),
            },
            ShardKey::Session(space) => match tunnelled(&outer, packet) {
                Some(tunnel) => space.part_of_teid(tunnel.teid(), self.count),
                None => self.part_of_addresses(space, outer.addresses()?),
            },
            ShardKey::Own => None,
        }
    }

    #[inline]
    fn hashed(&self, packet: &Dissected) -> Option<u8> {
        self.hash.of(packet).map(|hash| self.buckets.shard_of(hash))
    }

    /// What goes to a UE is its shard's; else what comes from one.
    fn part_of_addresses(&self, space: &UeSpace, addresses: &Addresses) -> Option<u8> {
        let part = |address| space.part_of_address(address, self.count);
        part(addresses.dst()).or_else(|| part(addresses.src()))
    }
}

/// The GTP-U header of a packet that carries another one, or says something of a tunnel.
#[inline]
fn tunnelled<'p>(outer: &Dissected, packet: &'p [u8]) -> Option<gtpu::View<&'p [u8]>> {
    let Transport::Udp { dst_port, .. } = outer.transport else {
        return None;
    };
    if dst_port != gtpu::PORT {
        return None;
    }
    gtpu::View::parse(&packet[outer.payload..outer.end]).ok()
}

#[cfg(test)]
#[path = "key_tests.rs"]
mod tests;
