//! What the UPF chooses: TEIDs, UE addresses; and what finds sessions by them.
//!
//! Beside a packet's life, but for [`Index::find`], which is its first step. A shard draws from a
//! range of its own, so that both directions of a session meet in it. All of this is made anew from
//! the slots by whoever takes them over. Limits: the ranges; [`PREFIX_COUNT_MAX`] IPv6 prefixes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_flow::{BURST_MAX, FlowTable, HeapMemory, Inserted, Shape, Timeouts};

use crate::model::Key;
use crate::routes::{Lengths, Route};

/// Most prefixes of an IPv6 pool.
pub const PREFIX_COUNT_MAX: u64 = 1 << 24;

/// Keys that the index has room for, for each session that there may be: a tunnel of its own, a UE
/// address of either version and a tunnel of another node, or what other sessions leave free.
pub const KEYS_PER_SESSION: u32 = 4;

/// Finds the slot of a session.
#[derive(Debug)]
pub struct Index {
    table: FlowTable<HeapMemory>,
    /// Of framed routes.
    lengths: Lengths,
}

/// The key is another session's, or there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another session has it.
    Taken,
    /// The table is full.
    Full,
}

impl Index {
    /// An empty one for `capacity` keys. `seed` are random numbers that nobody outside knows.
    ///
    /// # Errors
    /// A capacity that no table has.
    pub fn new(capacity: u32, seed: [u64; 2]) -> Result<Self, String> {
        let shape = Shape::new(2, 1, capacity);
        let table = FlowTable::on_heap(&shape, seed, 0);
        let table = table.map_err(|error| error.to_string())?;
        Ok(Self {
            table,
            lengths: Lengths::default(),
        })
    }

    /// The slot of the session with this key.
    #[inline]
    pub fn find(&self, key: Key) -> Option<u32> {
        let flow = self.table.find(&key.words())?;
        u32::try_from(self.table.state(flow, 0)).ok()
    }

    /// The slot of the session whose UE is in front of an address's network.
    #[inline]
    pub fn find_route(&self, address: IpAddr) -> Option<u32> {
        let mut lengths = self.lengths.of(address);
        lengths.find_map(|bits| {
            let (is_v6, bits, net) = Route::around(address, bits);
            self.find(Key::Route(is_v6, bits, net))
        })
    }

    /// The slots of sessions by keys of two words each, as many as fit into `slots`, all at once.
    pub fn find_all(&self, keys: &[u64], slots: &mut [Option<u32>]) {
        let mut found = [None; BURST_MAX];
        let count = slots.len().min(BURST_MAX);
        let found = &mut found[..count];
        self.table.peek(keys, found);
        for (slot, flow) in slots.iter_mut().zip(found) {
            *slot = flow.and_then(|flow| u32::try_from(self.table.state(flow, 0)).ok());
        }
    }

    /// Notes that a key leads to a slot.
    ///
    /// # Errors
    /// Why it does not; nothing has changed then.
    pub fn insert(&mut self, key: Key, slot: u32) -> Result<(), Refused> {
        match self.table.insert(&key.words(), Timeouts::NONE, 0) {
            Ok(Inserted::New(flow)) => {
                self.table.set_state(flow, 0, slot.into());
                self.count(key, true);
                Ok(())
            }
            Ok(Inserted::Present(_)) => Err(Refused::Taken),
            Err(_) => Err(Refused::Full),
        }
    }

    /// Forgets a key.
    pub fn remove(&mut self, key: Key) {
        if let Some(flow) = self.table.find(&key.words()) {
            self.table.remove(flow);
            self.count(key, false);
        }
    }

    fn count(&mut self, key: Key, is_more: bool) {
        if let Key::Route(is_v6, bits, _) = key {
            self.lengths.count(is_v6, bits, is_more);
        }
    }

    /// Forgets a key, if it leads to this slot.
    pub fn remove_of(&mut self, key: Key, slot: u32) {
        if self.find(key) == Some(slot) {
            self.remove(key);
        }
    }

    /// Keys.
    pub fn len(&self) -> u32 {
        self.table.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

/// Leading bits of a TEID that name one of so many shards.
pub fn teid_bits(shards: u16) -> u32 {
    u32::from(shards.max(1))
        .next_power_of_two()
        .trailing_zeros()
}

/// TEIDs of one shard, in an order that cannot be guessed from a few of them.
#[derive(Clone, Copy, Debug)]
pub struct Teids {
    base: u32,
    mask: u32,
    next: u32,
    seed: u32,
}

impl Teids {
    /// Those of `shard` among `shards`, which is rounded up to a power of two.
    pub fn new(shard: u16, shards: u16, seed: u32) -> Self {
        let bits = teid_bits(shards);
        Self {
            base: u32::from(shard).checked_shl(32 - bits).unwrap_or(0),
            mask: u32::MAX.checked_shr(bits).unwrap_or(0),
            next: 0,
            seed,
        }
    }

    /// The next one of the range, whether it is in use or not; never 0.
    pub fn draw(&mut self) -> u32 {
        loop {
            // A product with an odd number meets every number below a power of two once.
            let mixed = self.next.wrapping_mul(0x9e37_79b1) ^ self.seed;
            self.next = self.next.wrapping_add(1);
            let teid = self.base | mixed & self.mask;
            if teid != 0 {
                return teid;
            }
        }
    }
}

/// Addresses of one kind, numbered from `first`; which are in use.
#[derive(Clone, Debug)]
struct Numbers {
    /// The first one in its network, and how many there are in all parts of it.
    first: u64,
    all: u64,
    used: Vec<u64>,
    count: u64,
    next: u64,
    live: u64,
}

impl Numbers {
    fn new(count: u64) -> Self {
        Self {
            first: 0,
            all: count,
            used: vec![0; count.div_ceil(64) as usize],
            count,
            next: 0,
            live: 0,
        }
    }

    /// Where the part of a shard begins among all.
    const fn start(all: u64, shard: u16, shards: u16) -> u64 {
        (all as u128 * shard as u128 / shards as u128) as u64
    }

    /// Part `shard` of `shards` equal ones.
    fn part(&self, shard: u16, shards: u16) -> Self {
        let first = Self::start(self.all, shard, shards);
        Self {
            first,
            all: self.all,
            ..Self::new(Self::start(self.all, shard + 1, shards) - first)
        }
    }

    /// Which of `shards` parts an address of the whole network is in.
    fn part_of(&self, number: u64, shards: u16) -> Option<u8> {
        let next = u128::from(number) + 1;
        let part = (next * u128::from(shards)).checked_sub(1)? / u128::from(self.all.max(1));
        u8::try_from(part).ok().filter(|_| number < self.all)
    }

    fn take(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        let is_free = number < self.count && self.used[word] & bit == 0;
        if is_free {
            self.used[word] |= bit;
            self.live += 1;
        }
        is_free
    }

    fn give_back(&mut self, number: u64) {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if number < self.count && self.used[word] & bit != 0 {
            self.used[word] &= !bit;
            self.live -= 1;
        }
    }

    /// The next free one behind the last that was drawn: one that was given back rests longest.
    fn draw(&mut self) -> Option<u64> {
        if self.live == self.count {
            return None;
        }
        // Words that are full are passed 64 numbers at a time.
        let mut number = self.next;
        loop {
            if number >= self.count {
                number = 0;
            }
            let free = !self.used[(number / 64) as usize] >> (number % 64);
            match free {
                0 => number = (number / 64 + 1) * 64,
                free => {
                    number += u64::from(free.trailing_zeros());
                    if self.take(number) {
                        self.next = number + 1;
                        return Some(number);
                    }
                    number += 1;
                }
            }
        }
    }
}

/// UE addresses of a network instance, or a part of them.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Its name: what UE IP Address Pool Identity names.
    pub name: String,
    /// The network instance, by place in the settings.
    pub instance: u8,
    v4: Option<(Ipv4Addr, u8, Numbers)>,
    v6: Option<(Ipv6Addr, u8, Numbers)>,
}

impl Pool {
    /// A pool of all addresses of an IPv4 network but the first and the last, and of all prefixes
    /// of 64 bits of an IPv6 network.
    pub fn new(
        name: String,
        instance: u8,
        v4: Option<(Ipv4Addr, u8)>,
        v6: Option<(Ipv6Addr, u8)>,
    ) -> Self {
        let v4 = v4.map(|(net, bits)| {
            let hosts = (1u64 << (32 - u32::from(bits.min(32)))).saturating_sub(2);
            (net, bits, Numbers::new(hosts))
        });
        let v6 = v6.map(|(net, bits)| {
            let shift = 64u32.saturating_sub(bits.into());
            let count = 1u64.checked_shl(shift).unwrap_or(u64::MAX);
            (net, bits, Numbers::new(count.min(PREFIX_COUNT_MAX)))
        });
        Self {
            name,
            instance,
            v4,
            v6,
        }
    }

    /// Number of an address in its network.
    fn v4_number(&self, address: Ipv4Addr) -> Option<u64> {
        let (net, _, numbers) = self.v4.as_ref()?;
        let number = u64::from(address.to_bits()).checked_sub(u64::from(net.to_bits()) + 1)?;
        (number < numbers.all).then_some(number)
    }

    fn v6_number(&self, address: Ipv6Addr) -> Option<u64> {
        let (net, _, numbers) = self.v6.as_ref()?;
        let prefix = |address: Ipv6Addr| address.to_bits() >> 64;
        let number = u64::try_from(prefix(address).checked_sub(prefix(*net))?).ok()?;
        (number < numbers.all).then_some(number)
    }

    /// Its part for a shard: one of `shards` equal ones.
    pub fn part(&self, shard: u16, shards: u16) -> Self {
        let v4 = self.v4.as_ref();
        let v6 = self.v6.as_ref();
        Self {
            name: self.name.clone(),
            instance: self.instance,
            v4: v4.map(|(net, bits, numbers)| (*net, *bits, numbers.part(shard, shards))),
            v6: v6.map(|(net, bits, numbers)| (*net, *bits, numbers.part(shard, shards))),
        }
    }

    /// Which of `shards` parts an address is in, if it is one of the whole pool.
    pub fn part_of(&self, key: Key, shards: u16) -> Option<u8> {
        match key {
            Key::Teid(_) | Key::Route(..) | Key::Remote(..) | Key::Mac(_) => None,
            Key::V4(address) => {
                let number = self.v4_number(address)?;
                self.v4.as_ref()?.2.part_of(number, shards)
            }
            Key::V6(prefix) => {
                let number = self.v6_number(Ipv6Addr::from_bits(u128::from(prefix) << 64))?;
                self.v6.as_ref()?.2.part_of(number, shards)
            }
        }
    }

    /// Draws a free IPv4 address.
    pub fn draw_v4(&mut self) -> Option<Ipv4Addr> {
        let (net, _, numbers) = self.v4.as_mut()?;
        let number = u32::try_from(numbers.first + numbers.draw()?).ok()?;
        Some(Ipv4Addr::from_bits(net.to_bits() + 1 + number))
    }

    /// Draws a free prefix of 64 bits.
    pub fn draw_v6(&mut self) -> Option<Ipv6Addr> {
        let (net, _, numbers) = self.v6.as_mut()?;
        let number = u128::from(numbers.first + numbers.draw()?);
        Some(Ipv6Addr::from_bits(net.to_bits() + (number << 64)))
    }

    /// Notes that an address is in use; addresses of other pools are nothing to it.
    pub fn take(&mut self, key: Key) {
        if let Some((numbers, number)) = self.place(key) {
            numbers.take(number);
        }
    }

    /// Notes that an address is free.
    pub fn give_back(&mut self, key: Key) {
        if let Some((numbers, number)) = self.place(key) {
            numbers.give_back(number);
        }
    }

    fn place(&mut self, key: Key) -> Option<(&mut Numbers, u64)> {
        match key {
            Key::Teid(_) | Key::Route(..) | Key::Remote(..) | Key::Mac(_) => None,
            Key::V4(address) => {
                let number = self.v4_number(address)?;
                let (_, _, numbers) = self.v4.as_mut()?;
                let number = number.checked_sub(numbers.first)?;
                Some((numbers, number))
            }
            Key::V6(prefix) => {
                let number = self.v6_number(Ipv6Addr::from_bits(u128::from(prefix) << 64))?;
                let (_, _, numbers) = self.v6.as_mut()?;
                let number = number.checked_sub(numbers.first)?;
                Some((numbers, number))
            }
        }
    }

    /// In use and in all, of IPv4 and of IPv6.
    pub fn fill(&self) -> [Option<(u64, u64)>; 2] {
        let fill = |numbers: &Numbers| (numbers.live, numbers.count);
        [
            self.v4.as_ref().map(|(_, _, numbers)| fill(numbers)),
            self.v6.as_ref().map(|(_, _, numbers)| fill(numbers)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn many_keys_are_found_at_once_as_one_by_one() {
        let mut index = Index::new(100, [1, 2]).unwrap();
        let keys: Vec<Key> = (0..64).map(Key::Teid).collect();
        for (slot, key) in keys.iter().enumerate().filter(|(slot, _)| slot % 3 != 0) {
            index.insert(*key, slot as u32).unwrap();
        }
        let words: Vec<u64> = keys.iter().flat_map(|key| key.words()).collect();
        let mut slots = [None; 64];
        index.find_all(&words, &mut slots);
        let one_by_one: Vec<_> = keys.iter().map(|key| index.find(*key)).collect();
        assert_eq!(slots.as_slice(), one_by_one);
        assert_eq!(slots.iter().flatten().count(), 42);
    }

    #[test]
    fn a_pool_gives_every_address_once_and_then_none() {
        let net = Some((Ipv4Addr::new(10, 45, 0, 0), 28));
        let mut pool = Pool::new("a".into(), 0, net, None);
        let drawn: BTreeSet<_> = std::iter::from_fn(|| pool.draw_v4()).collect();
        assert_eq!(drawn.len(), 14);
        assert_eq!(drawn.first(), Some(&Ipv4Addr::new(10, 45, 0, 1)));
        assert_eq!(drawn.last(), Some(&Ipv4Addr::new(10, 45, 0, 14)));
        pool.give_back(Key::V4(Ipv4Addr::new(10, 45, 0, 7)));
        pool.give_back(Key::V4(Ipv4Addr::new(10, 45, 0, 7)));
        pool.give_back(Key::V4(Ipv4Addr::new(10, 46, 0, 7)));
        assert_eq!(pool.fill()[0], Some((13, 14)));
        assert_eq!(pool.draw_v4(), Some(Ipv4Addr::new(10, 45, 0, 7)));
        assert_eq!(pool.draw_v4(), None);
        assert_eq!(pool.draw_v6(), None);
    }

    #[test]
    fn prefixes_are_of_64_bits_and_rest_before_they_are_used_again() {
        let net = Some(("2001:db8:45::".parse().unwrap(), 62));
        let mut pool = Pool::new("a".into(), 0, None, net);
        let first = pool.draw_v6().unwrap();
        assert_eq!(first, "2001:db8:45::".parse::<Ipv6Addr>().unwrap());
        pool.give_back(Key::of_v6(first));
        let second = pool.draw_v6().unwrap();
        assert_eq!(second, "2001:db8:45:1::".parse::<Ipv6Addr>().unwrap());
        pool.take(Key::of_v6("2001:db8:45:2::99".parse().unwrap()));
        assert_eq!(
            pool.draw_v6().unwrap(),
            "2001:db8:45:3::".parse::<Ipv6Addr>().unwrap()
        );
        assert_eq!(pool.draw_v6().unwrap(), first);
        assert_eq!(pool.draw_v6(), None);
    }

    #[test]
    fn shards_draw_teids_of_their_own_and_each_once() {
        let mut all = BTreeSet::new();
        for shard in 0..3 {
            let mut teids = Teids::new(shard, 3, 0x1234_5678);
            for _ in 0..10_000 {
                let teid = teids.draw();
                assert_eq!(teid >> 30, u32::from(shard));
                assert!(teid != 0 && all.insert(teid));
            }
        }
        let mut alone = Teids::new(0, 1, 0);
        assert!((0..1000).all(|_| alone.draw() != 0));
    }

    #[test]
    fn an_address_finds_its_own_session_and_then_the_longest_route() {
        let mut index = Index::new(10, [1, 2]).unwrap();
        let route = |text: &str| Route::parse(1, text.as_bytes(), text.contains(':')).unwrap();
        let routes = ["192.0.2.0/24", "192.0.0.0/16", "2001:db8:7::/48"].map(route);
        for (slot, route) in routes.iter().enumerate() {
            index.insert(Key::of_route(route), slot as u32).unwrap();
        }
        index.insert(Key::V4([192, 0, 2, 9].into()), 7).unwrap();
        let find = |index: &Index, text: &str| {
            let address = text.parse().unwrap();
            let own = index.find(Key::of_ue(address));
            own.or_else(|| index.find_route(address))
        };
        assert_eq!(find(&index, "192.0.2.9"), Some(7));
        assert_eq!(find(&index, "192.0.2.10"), Some(0));
        assert_eq!(find(&index, "192.0.3.10"), Some(1));
        assert_eq!(find(&index, "192.1.3.10"), None);
        assert_eq!(find(&index, "2001:db8:7:1::1"), Some(2));
        index.remove_of(Key::of_route(&routes[0]), 5);
        assert_eq!(find(&index, "192.0.2.10"), Some(0), "another slot's");
        index.remove(Key::of_route(&routes[0]));
        assert_eq!(find(&index, "192.0.2.10"), Some(1));
        assert_eq!(
            index.insert(Key::of_route(&routes[1]), 3),
            Err(Refused::Taken)
        );
    }

    /// 16.64 M sessions in 24 GiB are 1,549 bytes each, of which this is a part.
    #[test]
    fn the_keys_of_a_session_take_less_than_three_hundred_bytes() {
        let shape = Shape::new(2, 1, KEYS_PER_SESSION * 1_000_000);
        assert_eq!(shape.words().unwrap() * 8 / 1_000_000, 292);
    }

    #[test]
    fn a_key_is_one_sessions() {
        let mut index = Index::new(2, [1, 2]).unwrap();
        let key = Key::Teid(5);
        assert_eq!(index.insert(key, 9), Ok(()));
        assert_eq!(index.insert(key, 8), Err(Refused::Taken));
        assert_eq!(index.find(key), Some(9));
        assert_eq!(index.insert(Key::V4(Ipv4Addr::from_bits(5)), 1), Ok(()));
        assert_eq!(index.insert(Key::V6(5), 1), Err(Refused::Full));
        index.remove(key);
        assert_eq!((index.find(key), index.len()), (None, 1));
    }
}
