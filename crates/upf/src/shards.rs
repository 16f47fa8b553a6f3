//! Which shard a frame belongs to: that of its session.
//!
//! In front of the UPF, in the loops of those that send to it. TEIDs and UE addresses are drawn
//! from a part of their ranges for each shard (`ranges`), SEIDs and sequence numbers begin with its
//! number, so both directions of a session and its messages meet in one. What SMFs choose
//! themselves decides where its session is established. Messages about nodes go to all shards, of
//! which the first answers. Limit: fragments of tunnels and of N4 go to the first shard, which
//! cannot forward what is another's.

use std::net::IpAddr;

use catena_engine::config::ConfigErrors;
use catena_engine::shard::{ALL_SHARDS, Choice, Chooser};
use catena_wire::gtpu;
use catena_wire::pfcp::value::address::{Allocation, FTeid};
use catena_wire::pfcp::{self, Group, IeType, MessageType, View, key};

use crate::config;
use crate::headers::{self, Outer, outer};
use crate::model::Key;
use crate::ranges::{Pool, teid_bits};
use crate::settings::Settings;

/// Bits of a SEID below the number of its shard.
pub const SEID_SHIFT: u32 = 56;
/// Bits of a sequence number below the number of its shard.
pub const SEQUENCE_SHIFT: u32 = 16;

/// What decides.
#[derive(Clone, Debug)]
pub struct Shards {
    count: u16,
    tunnel_ends: Vec<IpAddr>,
    n4: Vec<IpAddr>,
    pools: Vec<Pool>,
}

impl Shards {
    /// For `count` shards of a UPF with these settings.
    pub fn new(settings: &Settings, count: u16) -> Self {
        let interfaces = settings.interfaces.iter();
        let ends = interfaces.flat_map(|one| [one.v4.map(IpAddr::V4), one.v6.map(IpAddr::V6)]);
        let n4 = [
            settings.n4_v4.map(IpAddr::V4),
            settings.n4_v6.map(IpAddr::V6),
        ];
        Self {
            count: count.max(1),
            tunnel_ends: ends.flatten().collect(),
            n4: n4.into_iter().flatten().collect(),
            pools: settings.pools.clone(),
        }
    }

    fn number(&self, number: u64) -> u8 {
        u8::try_from(number % u64::from(self.count)).unwrap_or(0)
    }

    /// The shard of a key; tunnels that end elsewhere may be any shard's.
    pub fn of_key(&self, key: Key) -> Option<u8> {
        match key {
            // Framed routes and Ethernet sessions are for UPFs of one shard.
            Key::Route(..) | Key::Remote(..) | Key::Mac(_) => None,
            Key::Teid(teid) => {
                let part = u64::from(teid) >> (32 - teid_bits(self.count));
                Some(self.number(part))
            }
            Key::V4(_) | Key::V6(_) => {
                let of_pool = self
                    .pools
                    .iter()
                    .find_map(|pool| pool.part_of(key, self.count));
                let [_, word] = key.words();
                let mixed = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                Some(of_pool.unwrap_or_else(|| self.number(mixed)))
            }
        }
    }

    fn of_address(&self, address: IpAddr) -> Option<u8> {
        self.of_key(match address {
            IpAddr::V4(address) => Key::V4(address),
            IpAddr::V6(address) => Key::of_v6(address),
        })
    }

    /// The shard of a frame: its number, [`ALL_SHARDS`], or none if nothing says so.
    pub fn of_frame(&self, frame: &[u8]) -> Option<u8> {
        match outer(frame) {
            Outer::Udp {
                src,
                dst,
                dst_port: pfcp::PORT,
                from,
                to,
                ..
            } if self.n4.contains(&dst) => self.of_message(&frame[from..to], src),
            Outer::Udp {
                dst,
                dst_port: gtpu::PORT,
                from,
                to,
                ..
            } if self.tunnel_ends.contains(&dst) => {
                let view = gtpu::View::parse(&frame[from..to]).ok()?;
                match view.message_type() {
                    gtpu::MessageType::G_PDU | gtpu::MessageType::END_MARKER => {
                        self.of_key(Key::Teid(view.teid()))
                    }
                    // Of a tunnel that ends elsewhere: whoever sends into it knows.
                    gtpu::MessageType::ERROR_INDICATION => Some(ALL_SHARDS),
                    // Each shard asks the peers of its sessions, and knows its request.
                    gtpu::MessageType::ECHO_RESPONSE => Some(ALL_SHARDS),
                    _ => Some(0),
                }
            }
            Outer::Wrapped { dst, at, end, .. } if self.tunnel_ends.contains(&dst) => {
                let inner = frame.get(at..end).and_then(headers::inner)?;
                self.of_address(inner.dst)
            }
            Outer::Udp { dst, .. }
            | Outer::Wrapped { dst, .. }
            | Outer::Ip { dst, .. }
            | Outer::Part { dst, .. } => {
                let is_own = self.tunnel_ends.contains(&dst) || self.n4.contains(&dst);
                if is_own {
                    Some(0)
                } else {
                    self.of_address(dst)
                }
            }
            Outer::Other | Outer::Malformed => None,
        }
    }

    /// The shard of a message of N4.
    fn of_message(&self, datagram: &[u8], from: IpAddr) -> Option<u8> {
        let view = View::parse(datagram).ok()?;
        let header = view.header();
        let of_word = |word: u64| u8::try_from(word).ok();
        match (header.message_type, header.seid) {
            (MessageType::SESSION_ESTABLISHMENT_REQUEST, _) => {
                // The same for a repetition, which is to find the answer.
                let mixed = u64::from(header.sequence).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let from = match from {
                    IpAddr::V4(from) => from.to_bits().into(),
                    IpAddr::V6(from) => (from.to_bits() >> 64) as u64,
                };
                let free = self.number((mixed ^ from) >> 32);
                Some(self.of_rules(&view.ies()).unwrap_or(free))
            }
            // Who does not know the session answers without its SEID.
            (MessageType::SESSION_REPORT_RESPONSE, Some(0)) => {
                of_word(u64::from(header.sequence) >> SEQUENCE_SHIFT)
            }
            (_, Some(seid)) => of_word(seid >> SEID_SHIFT),
            (_, None) => Some(ALL_SHARDS),
        }
    }

    /// The shard of what an SMF chose itself.
    fn of_rules(&self, ies: &Group<'_>) -> Option<u8> {
        let given = |ends: Group<'_>| {
            if let Ok(Some(FTeid::Given { teid, .. })) = ends.get(key::F_TEID) {
                return self.of_key(Key::Teid(teid));
            }
            let address = ends.get(key::UE_IP_ADDRESS).ok().flatten()?;
            let v4 = match address.v4 {
                Some(Allocation::Given(v4)) => Some(Key::V4(v4)),
                _ => None,
            };
            let v6 = match address.v6 {
                Some(Allocation::Given(v6)) => Some(Key::of_v6(v6)),
                _ => None,
            };
            self.of_key(v4.or(v6)?)
        };
        let pdrs = ies.groups(IeType::CREATE_PDR);
        let pdis = pdrs.filter_map(|pdr| pdr.group(IeType::PDI));
        let endpoints = ies.groups(IeType::CREATE_TRAFFIC_ENDPOINT);
        pdis.chain(endpoints).find_map(given)
    }
}

impl Chooser for Shards {
    fn shard_of(&mut self, packet: &[u8]) -> Option<u8> {
        self.of_frame(packet)
    }
}

/// Makes what splits frames among the shards of a UPF with these settings.
///
/// # Errors
/// What is wrong with the settings.
pub fn chooser(
    value: &serde_json::Value,
    choice: Choice,
) -> Result<Box<dyn Chooser>, ConfigErrors> {
    let (_, settings, _) = config::read(value)?;
    Ok(Box::new(Shards::new(&settings, choice.shards)))
}

#[cfg(test)]
mod tests;
