//! Addresses and ports outside: which block is whose, and which of its ports are in use.
//!
//! Asked by `translator` when a mapping begins or ends, never for other packets. A block is a run
//! of ports of one address, which one subscriber has to itself, for all protocols (RFC 7422 and
//! RFC 6888 section 4: whoever knows the block knows the subscriber). Nothing is allocated after
//! the start. Bounds: [`ADDRESS_TRIES_MAX`] addresses are looked at for a block, one block's bits
//! for a port.

use std::collections::VecDeque;

use super::config::{PORTS_PER_WORD, Settings};
use super::endpoint::{PROTOCOL_COUNT, protocol_index};

/// Addresses that are looked at for a block: when all blocks wait for their time, many would be.
const ADDRESS_TRIES_MAX: usize = 8;
/// Ports of even number, as bits of a word that begins with one.
const EVEN: u64 = 0x5555_5555_5555_5555;

/// A block that nobody has.
#[derive(Clone, Copy, Debug)]
struct Free {
    block: u32,
    /// When it may be somebody's.
    from_ns: u64,
}

/// All blocks.
#[derive(Debug)]
pub(super) struct Pool {
    addresses: Vec<u32>,
    first_port: u16,
    block_size: u32,
    blocks_per_address: u32,
    hold_down_ns: u64,
    /// Of each block, bitmaps of its ports by protocol.
    used: Vec<u64>,
    /// Of each block, ports in use, and the subscriber that has it, 0 for none.
    counts: Vec<u32>,
    owners: Vec<u32>,
    /// Of each address, blocks that nobody has, the one that is free for longest first.
    free: Vec<VecDeque<Free>>,
    /// Addresses with free blocks, each once, in the order in which they are asked.
    turn: VecDeque<u32>,
    is_listed: Vec<bool>,
    /// Blocks in use.
    assigned: u32,
    random: u64,
}

impl Pool {
    /// One of which nobody has anything; `seed` decides where ports are looked for first. Blocks
    /// can be claimed ([`Pool::claim`]) until [`Pool::open`] is called, and had from then on.
    pub(super) fn new(settings: &Settings, seed: u64) -> Self {
        let addresses = settings.outside.len();
        let blocks = addresses * settings.blocks_per_address as usize;
        let words = settings.block_size / PORTS_PER_WORD;
        let free = || VecDeque::with_capacity(settings.blocks_per_address as usize);
        Self {
            addresses: settings.outside.clone(),
            first_port: settings.first_port,
            block_size: settings.block_size,
            blocks_per_address: settings.blocks_per_address,
            hold_down_ns: settings.hold_down_ns,
            used: vec![0; blocks * PROTOCOL_COUNT * words as usize],
            counts: vec![0; blocks],
            owners: vec![0; blocks],
            free: (0..addresses).map(|_| free()).collect(),
            turn: VecDeque::with_capacity(addresses),
            is_listed: vec![false; addresses],
            assigned: 0,
            random: seed,
        }
    }

    /// Makes free what nobody has claimed.
    pub(super) fn open(&mut self) {
        for block in 0..self.block_count() {
            if self.owner(block).is_none() {
                self.give_free(Free { block, from_ns: 0 });
            }
        }
    }

    fn block_count(&self) -> u32 {
        self.owners.len() as u32
    }

    /// Blocks that subscribers have.
    pub(super) fn assigned(&self) -> u32 {
        self.assigned
    }

    /// Whether the world sends to this address what is for a subscriber.
    #[inline]
    pub(super) fn has(&self, address: u32) -> bool {
        self.index_of(address).is_some()
    }

    #[inline]
    fn index_of(&self, address: u32) -> Option<u32> {
        let found = self.addresses.binary_search(&address).ok()?;
        Some(found as u32)
    }

    fn address_index(&self, block: u32) -> usize {
        (block / self.blocks_per_address) as usize
    }

    /// The address of a block.
    pub(super) fn address(&self, block: u32) -> u32 {
        let address = self.addresses.get(self.address_index(block));
        address.copied().unwrap_or(0)
    }

    /// First and last port of a block.
    pub(super) fn ports(&self, block: u32) -> [u16; 2] {
        let offset = block % self.blocks_per_address * self.block_size;
        let first = u32::from(self.first_port) + offset;
        [first, first + self.block_size - 1].map(|port| port as u16)
    }

    /// Who has a block.
    pub(super) fn owner(&self, block: u32) -> Option<u32> {
        let owner = self.owners.get(block as usize).copied()?;
        (owner != 0).then_some(owner)
    }

    /// The block that a port is of, and which of its ports it is.
    pub(super) fn place(&self, address: u32, port: u16) -> Option<(u32, u32)> {
        let index = self.index_of(address)?;
        let offset = u32::from(port.checked_sub(self.first_port)?);
        let block = offset / self.block_size;
        (block < self.blocks_per_address).then(|| {
            let block = index * self.blocks_per_address + block;
            (block, offset % self.block_size)
        })
    }

    /// Gives `owner` a block: of the address of `like`, one that it has, or, without, of any.
    pub(super) fn assign(&mut self, owner: u32, like: Option<u32>, now_ns: u64) -> Option<u32> {
        let free = match like {
            Some(like) => self.take_free(self.address_index(like), now_ns),
            None => self.take_any(now_ns),
        }?;
        self.own(free, owner);
        Some(free)
    }

    fn own(&mut self, block: u32, owner: u32) {
        if let Some(place) = self.owners.get_mut(block as usize) {
            *place = owner;
            self.assigned += 1;
        }
    }

    /// From the address whose turn it is, so that addresses have about as many subscribers each.
    fn take_any(&mut self, now_ns: u64) -> Option<u32> {
        for _ in 0..self.turn.len().min(ADDRESS_TRIES_MAX) {
            let index = self.turn.pop_front()?;
            self.turn.push_back(index);
            if let Some(block) = self.take_free(index as usize, now_ns) {
                return Some(block);
            }
        }
        None
    }

    fn take_free(&mut self, index: usize, now_ns: u64) -> Option<u32> {
        let free = self.free.get_mut(index)?;
        let first = free.front().filter(|free| free.from_ns <= now_ns)?.block;
        free.pop_front();
        if free.is_empty() {
            self.turn.retain(|one| *one as usize != index);
            self.is_listed[index] = false;
        }
        Some(first)
    }

    fn give_free(&mut self, free: Free) {
        let index = self.address_index(free.block);
        if let Some(list) = self.free.get_mut(index) {
            list.push_back(free);
            if !std::mem::replace(&mut self.is_listed[index], true) {
                self.turn.push_back(index as u32);
            }
        }
    }

    /// Takes back a block in which no port is in use. Nobody has it for the hold-down time.
    pub(super) fn give_back(&mut self, block: u32, now_ns: u64) {
        if let Some(owner) = self.owners.get_mut(block as usize)
            && *owner != 0
        {
            *owner = 0;
            self.assigned = self.assigned.saturating_sub(1);
            let from_ns = now_ns.saturating_add(self.hold_down_ns);
            self.give_free(Free { block, from_ns });
        }
    }

    fn bits(&mut self, block: u32, protocol: u8) -> Option<&mut [u64]> {
        let words = (self.block_size / PORTS_PER_WORD) as usize;
        let at = (block as usize * PROTOCOL_COUNT + protocol_index(protocol)?) * words;
        self.used.get_mut(at..at + words)
    }

    /// A port of a block that a protocol does not use, at random; of the parity of `like` where
    /// there is one (RFC 4787 REQ-4).
    pub(super) fn take_port(&mut self, block: u32, protocol: u8, like: u16) -> Option<u16> {
        let random = self.next_random();
        let [first, _] = self.ports(block);
        let same = if (like ^ first) & 1 == 0 { EVEN } else { !EVEN };
        let bits = self.bits(block, protocol)?;
        let offset = find_zero(bits, same, random).or_else(|| find_zero(bits, !same, random))?;
        bits[offset / 64] |= 1 << (offset % 64);
        if let Some(count) = self.counts.get_mut(block as usize) {
            *count += 1;
        }
        Some(first + offset as u16)
    }

    /// Marks a port as in use, of a block of `owner`'s or of nobody's, which is `owner`'s from now
    /// on; whether it was free. For ports that a predecessor gave; before [`Pool::open`].
    pub(super) fn claim(&mut self, place: (u32, u32), protocol: u8, owner: u32) -> bool {
        let (block, offset) = (place.0, place.1 as usize);
        let holder = self.owner(block);
        if holder.is_some_and(|holder| holder != owner) {
            return false;
        }
        let Some(word) = self
            .bits(block, protocol)
            .and_then(|bits| bits.get_mut(offset / 64))
        else {
            return false;
        };
        let bit = 1 << (offset % 64);
        if *word & bit != 0 {
            return false;
        }
        *word |= bit;
        self.counts[block as usize] += 1;
        if holder.is_none() {
            self.own(block, owner);
        }
        true
    }

    /// Gives a port back; gives how many of its block are still in use.
    pub(super) fn give_port(&mut self, place: (u32, u32), protocol: u8) -> u32 {
        let (block, offset) = (place.0, place.1 as usize);
        let Some(word) = self
            .bits(block, protocol)
            .and_then(|bits| bits.get_mut(offset / 64))
        else {
            return 0;
        };
        let bit = 1 << (offset % 64);
        let was_used = u32::from(*word & bit != 0);
        *word &= !bit;
        let count = &mut self.counts[block as usize];
        *count = count.saturating_sub(was_used);
        *count
    }

    /// Ports of a block that are in use, of all protocols.
    pub(super) fn used(&self, block: u32) -> u32 {
        self.counts.get(block as usize).copied().unwrap_or(0)
    }

    /// Blocks from number `from` on that somebody has, of `budget` that are looked at; and where to
    /// go on, none at the end.
    pub(super) fn walk(
        &self,
        from: u32,
        budget: u32,
        mut visit: impl FnMut(u32, u32),
    ) -> Option<u32> {
        let until = from.saturating_add(budget).min(self.block_count());
        for block in from..until {
            if let Some(owner) = self.owner(block) {
                visit(block, owner);
            }
        }
        (until < self.block_count()).then_some(until)
    }

    /// SplitMix64: outsiders do not know its seed (RFC 6056 section 3.3).
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A bit of `mask` in any word that is 0, looked for from a random one on.
fn find_zero(words: &[u64], mask: u64, random: u64) -> Option<usize> {
    let start = (random >> 32) as usize % words.len().max(1);
    let turn = random as u32 % 64;
    let mut order = (start..words.len()).chain(0..start);
    order.find_map(|at| {
        let free = !words[at] & mask;
        let bit = (free.rotate_right(turn).trailing_zeros() + turn) % 64;
        (free != 0).then_some(at * 64 + bit as usize)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::super::config::settings;
    use super::*;

    fn pool() -> Pool {
        let config = json!({
            "inside": ["10.0.0.0/8"], "outside": ["192.0.2.0/31"],
            "ports": {"first": 1024, "last": 1423}, "block_size": 128, "hold_down": "1s",
        });
        let mut pool = Pool::new(&settings(&config).unwrap(), 7);
        pool.open();
        pool
    }

    #[test]
    fn every_port_of_a_block_is_given_once_and_half_of_them_in_its_parity() {
        let mut pool = pool();
        let block = pool.assign(9, None, 0).unwrap();
        let [first, last] = pool.ports(block);
        let mut given = BTreeSet::new();
        for number in 0..128 {
            let port = pool.take_port(block, 17, 5001).unwrap();
            assert!((first..=last).contains(&port) && given.insert(port));
            assert_eq!(port % 2 == 1, number < 64, "{port}");
        }
        assert_eq!(pool.take_port(block, 17, 0), None);
        assert!(pool.take_port(block, 6, 0).is_some(), "of another protocol");
        let place = pool.place(pool.address(block), last).unwrap();
        assert_eq!(pool.give_port(place, 17), 128);
        assert_eq!(pool.take_port(block, 17, 0), Some(last));
    }

    #[test]
    fn blocks_come_of_all_addresses_in_turn_and_wait_when_they_are_given_back() {
        let mut pool = pool();
        let blocks: Vec<u32> = (1..=6)
            .map(|who| pool.assign(who, None, 0).unwrap())
            .collect();
        assert_eq!(blocks, [0, 3, 1, 4, 2, 5]);
        assert_eq!(pool.assign(7, None, 0), None);
        pool.give_back(4, 100);
        assert_eq!(pool.assign(7, None, 1_000_000_099), None);
        assert_eq!(
            pool.assign(7, Some(0), 1_000_000_100),
            None,
            "another address"
        );
        assert_eq!(pool.assign(7, Some(3), 1_000_000_100), Some(4));
        assert_eq!((pool.owner(4), pool.assigned()), (Some(7), 6));
    }

    #[test]
    fn ports_lead_to_their_block_and_those_beside_blocks_to_none() {
        let pool = pool();
        for block in 0..6 {
            let [first, last] = pool.ports(block);
            let address = pool.address(block);
            assert_eq!(pool.place(address, first), Some((block, 0)));
            assert_eq!(pool.place(address, last), Some((block, 127)));
        }
        let address = pool.address(0);
        for port in [0, 1023, 1024 + 3 * 128, u16::MAX] {
            assert_eq!(pool.place(address, port), None, "{port}");
        }
        assert_eq!(pool.place(address - 1, 1024), None);
    }
}
