//! What the packets of a burst will need, fetched before the first of them is handled.
//!
//! Before a packet's way through the UPF. A packet's session is a few lines at a random place of
//! the memory, behind two lines of the index: fetched one after the other they are most of a
//! packet's time once sessions fill more than the caches. Here the key of each packet is guessed
//! from where it lies in most frames, all keys are looked up together, and the sessions' records
//! are asked for: their heads at once, their rules a few packets ahead of each, and then what these
//! name. A guess decides nothing: it is used only where a packet turns out to have that very key,
//! and no message has come in between.
//! JUSTIFICATION: `cargo xtask bench upf`.

use catena_wire::{ethernet, gtpu, ipv4, ipv6, udp};

use crate::model::Key;
use crate::upf::Upf;

/// Packets that are looked ahead of; those behind them in a burst are not.
pub const PACKET_COUNT_MAX: usize = 64;
/// Below so many sessions all that is needed is in the caches, and looking ahead costs more than it
/// gains.
const SESSION_COUNT_MIN: u32 = 4096;

/// So many packets ahead of one its session's rules are asked for: what several of them need is on
/// its way at once, and is used before it has to go again.
const RULES_DISTANCE: usize = 12;
/// As [`RULES_DISTANCE`], of what only a PDR says where it lies: its FAR and filters.
const EXITS_DISTANCE: usize = 6;

/// Keys of a burst's packets, and the slots that they led to before the first was handled.
#[derive(Debug, Default)]
pub struct Ahead {
    words: Vec<u64>,
    slots: Vec<Option<u32>>,
    /// The state of the index at which they did.
    changes: u64,
    /// The packet whose session's rules are asked for next, and that whose FAR and filters are.
    next: usize,
    next_exit: usize,
}

impl Ahead {
    /// Notes a packet of the burst at hand; all are noted, in their order.
    #[inline]
    pub fn note(&mut self, frame: &[u8]) {
        if self.words.len() < 2 * PACKET_COUNT_MAX {
            // No key has these words.
            let words = guess(frame).map_or([0; 2], Key::words);
            self.words.extend(words);
        }
    }

    /// The words of a packet's key.
    #[inline]
    fn key(&self, place: usize) -> Option<[u64; 2]> {
        self.words.as_chunks::<2>().0.get(place).copied()
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

    /// Looks up the noted packets' sessions, and asks for what says which rules they have.
    pub fn fetch(&self, ahead: &mut Ahead) {
        ahead.slots.clear();
        ahead.slots.resize(ahead.words.len() / 2, None);
        ahead.changes = self.changes;
        (ahead.next, ahead.next_exit) = (0, 0);
        self.index.find_all(&ahead.words, &mut ahead.slots);
        // All at once: what costs most is to find a session's page, and many are found together.
        for slot in ahead.slots.iter().flatten() {
            self.store.fetch_head(*slot);
        }
    }

    /// Asks for what packets behind the one at `place` need, and notes what was found for it: it is
    /// handled next, by [`Upf::packet`].
    #[inline]
    pub fn come_to(&mut self, ahead: &mut Ahead, place: usize) {
        let until = ahead.slots.len().min(place + RULES_DISTANCE);
        while ahead.next < until {
            if let Some(Some(slot)) = ahead.slots.get(ahead.next) {
                self.store.fetch_rules(*slot);
            }
            ahead.next += 1;
        }
        let until = ahead.slots.len().min(place + EXITS_DISTANCE);
        while ahead.next_exit < until {
            let at = ahead.next_exit;
            if let (Some(Some(slot)), Some(words)) = (ahead.slots.get(at), ahead.key(at)) {
                self.store.fetch_exits(*slot, Key::teid_of(words));
            }
            ahead.next_exit += 1;
        }
        // A message in the burst may have changed where keys lead to.
        let slot = ahead.slots.get(place).copied().flatten();
        let slot = slot.filter(|_| ahead.changes == self.changes);
        self.hint = ahead.key(place).zip(slot);
    }

    /// The burst is over: what was noted of it is forgotten.
    pub fn leave_behind(&mut self, ahead: &mut Ahead) {
        ahead.words.clear();
        ahead.slots.clear();
        self.hint = None;
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use catena_wire::pfcp::MessageType;

    use super::*;
    use crate::floods::in_tunnel;
    use crate::public_failures::{Smf, nothing};
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

    /// What was found ahead holds for the packet with that key, until a message comes.
    #[test]
    fn what_was_found_ahead_is_asked_for_once_and_not_behind_a_message() {
        let mut smf = Smf::new();
        let (cause, _, seid) = smf.establish(nothing, nothing);
        assert_eq!(cause, catena_wire::pfcp::Cause::REQUEST_ACCEPTED);
        let slot = smf.upf.store.slot_of(seid).unwrap();
        let teid = smf.upf.store.session(slot).unwrap().pdrs[0].pdr.teid;
        let (key, mut ahead) = (Key::Teid(teid), Ahead::default());
        for frame in [in_tunnel(teid), in_tunnel(teid ^ 1), vec![0; 60]] {
            ahead.note(&frame);
        }
        smf.upf.fetch(&mut ahead);
        smf.upf.come_to(&mut ahead, 0);
        assert_eq!(smf.upf.hint, Some((key.words(), slot)));
        assert_eq!(smf.upf.slot_of(key), Some(slot));
        assert_eq!(smf.upf.slot_of(Key::Teid(teid ^ 1)), None);
        for place in 1..4 {
            smf.upf.come_to(&mut ahead, place);
            assert_eq!(smf.upf.hint, None, "{place}");
        }
        assert_eq!(smf.upf.slot_of(key), Some(slot), "by the index");
        let deletion = MessageType::SESSION_DELETION_REQUEST;
        assert_eq!(smf.ask(deletion, Some(seid), nothing).0, cause);
        smf.upf.come_to(&mut ahead, 0);
        assert_eq!((smf.upf.hint, smf.upf.slot_of(key)), (None, None));
        smf.upf.leave_behind(&mut ahead);
        assert!(ahead.words.is_empty() && ahead.slots.is_empty());
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
