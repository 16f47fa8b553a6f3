//! What the packets of a burst will need, fetched before the first of them is handled.
//!
//! Before a packet's way through the UPF. A packet's session is a few lines at a random place of
//! the memory, behind two lines of the index: fetched one after the other they are most of a
//! packet's time once sessions fill more than the caches. Here the key of each packet is guessed
//! from where it lies in most frames, all keys are looked up together, and the sessions' records
//! are asked for. Nothing is decided: a guess that is wrong costs a line.
//! JUSTIFICATION: `cargo xtask bench upf`.

use catena_wire::{ethernet, gtpu, ipv4, ipv6, udp};

use crate::model::Key;
use crate::upf::Upf;

/// Packets that are looked ahead of; those behind them in a burst are not.
pub const PACKET_COUNT_MAX: usize = 64;
/// Below so many sessions all that is needed is in the caches, and looking ahead costs more than it
/// gains.
const SESSION_COUNT_MIN: u32 = 4096;

/// Keys of a burst's packets.
#[derive(Debug, Default)]
pub struct Ahead {
    words: Vec<u64>,
}

impl Ahead {
    /// Notes a packet of the burst at hand.
    #[inline]
    pub fn note(&mut self, frame: &[u8]) {
        if self.words.len() < 2 * PACKET_COUNT_MAX
            && let Some(key) = guess(frame)
        {
            self.words.extend(key.words());
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
}

/// By which key its session may be found.
#[inline]
fn guess(frame: &[u8]) -> Option<Key> {
    const V4: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN_MIN;
    const V6: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN;
    let (l4, protocol) = match frame.get(12..15)? {
        [8, 0, 0x45] => (V4, *frame.get(23)?),
        [0x86, 0xdd, _] => (V6, *frame.get(20)?),
        _ => return None,
    };
    let [high, low] = gtpu::PORT.to_be_bytes();
    if protocol == 17 && frame.get(l4 + 2..l4 + 4)? == [high, low] {
        return word(frame, l4 + udp::HEADER_LEN + 4).map(Key::Teid);
    }
    if l4 == V4 {
        return word(frame, V4 - 4).map(|address| Key::V4(address.into()));
    }
    let prefix = (word(frame, V6 - 16)?, word(frame, V6 - 12)?);
    Some(Key::V6(u64::from(prefix.0) << 32 | u64::from(prefix.1)))
}

impl Upf {
    /// Whether it pays to look ahead.
    #[inline]
    pub fn looks_ahead(&self) -> bool {
        self.session_count() >= SESSION_COUNT_MIN
    }

    /// Fetches what the noted packets will need, and forgets them.
    pub fn fetch(&mut self, ahead: &mut Ahead, now_ns: u64) {
        let mut slots = [None; PACKET_COUNT_MAX];
        let slots = &mut slots[..ahead.words.len() / 2];
        self.index.find_all(&ahead.words, slots, now_ns);
        for slot in slots.iter().flatten() {
            self.store.fetch(*slot);
        }
        ahead.words.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use super::*;
    use crate::floods::in_tunnel;
    use crate::smf::wire;

    #[test]
    fn keys_are_guessed_where_they_lie_in_most_frames() {
        assert_eq!(guess(&in_tunnel(0x0102_0304)), Some(Key::Teid(0x0102_0304)));
        let ue = Ipv4Addr::new(10, 45, 0, 7);
        let host = (IpAddr::V4(Ipv4Addr::new(9, 9, 9, 9)), 53);
        let frame = wire::datagram(host, (ue.into(), 53), &[0; 8]);
        assert_eq!(guess(&frame), Some(Key::V4(ue)));
        let [host, ue] = ["2001:db8:9::9", "2001:db8:45:7::99"].map(|text| text.parse().unwrap());
        let ends = [host, ue].map(|address: Ipv6Addr| (IpAddr::V6(address), 53));
        let frame = wire::datagram(ends[0], ends[1], &[0; 8]);
        assert_eq!(guess(&frame), Some(Key::of_v6(ue)));
        let tunnel = wire::datagram(ends[0], (ends[1].0, gtpu::PORT), &[7; 8]);
        assert_eq!(guess(&tunnel), Some(Key::Teid(0x0707_0707)));
    }

    #[test]
    fn no_frame_is_too_short_to_be_looked_at() {
        let frame = in_tunnel(5);
        for len in 0..frame.len() {
            let mut ahead = Ahead::default();
            ahead.note(&frame[..len]);
            assert!(ahead.words.len() <= 2);
        }
        let mut ahead = Ahead::default();
        (0..2 * PACKET_COUNT_MAX).for_each(|_| ahead.note(&frame));
        assert_eq!(ahead.words.len(), 2 * PACKET_COUNT_MAX);
    }
}
