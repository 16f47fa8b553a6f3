//! Fragments of IP packets, until there is a whole one.
//!
//! First step of a packet's way through the UPF, for parts of tunnels' packets and messages of N4,
//! and for parts of users' packets where a filter wants to see more than they have. The engine has
//! the packets, this has their tickets. A datagram whose parts overlap is refused, with all that
//! come of it later (RFC 5722); the same part again is not needed. Limits: so many fragments, so
//! long, [`PARTS_MAX`] parts of one; the oldest datagram goes for a new one. One tunnel has an
//! eighth of them at most and one host, which may be a gNB, a half; then its own oldest goes.
//! Specification: RFC 791 3.2, RFC 8200 4.5.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;

use catena_wire::ip::Protocol;
use catena_wire::{ipv4, ipv6};

/// Most fragments of one packet.
pub const PARTS_MAX: usize = 64;
/// Of all fragments, one tunnel has one in so many at most, and one host.
const TUNNEL_SHARE: usize = 8;
const HOST_SHARE: usize = 2;
/// Longest payload of a packet.
const PAYLOAD_BYTES_MAX: usize = 65_535;

/// Which fragments belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    src: IpAddr,
    dst: IpAddr,
    ident: u32,
    protocol: u8,
    /// The tunnel they came by; 0 for none.
    teid: u32,
}

/// Who sends fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sender {
    Tunnel(u32),
    Host(IpAddr),
}

impl Key {
    const fn sender(&self) -> Sender {
        match self.teid {
            0 => Sender::Host(self.src),
            teid => Sender::Tunnel(teid),
        }
    }
}

/// What of all is one sender's.
#[derive(Debug, Default)]
struct Share {
    held: usize,
    by_age: BTreeMap<u64, Key>,
}

/// What a fragment is of its packet, and where it lies in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Whose it is.
    pub key: Key,
    from: usize,
    to: usize,
    is_last: bool,
    /// Where the IP packet begins in its frame.
    at: usize,
    /// Bytes of it that a whole one has too, and of its headers in all.
    kept_len: usize,
    header_len: usize,
    /// Of IPv6: where the number of the Fragment header stands, and the number it has.
    next: (usize, u8),
}

impl Part {
    /// What the IP packet at `at` of a frame is; none if it is no fragment. `teid` is the tunnel by
    /// which it came, 0 for none.
    pub fn of(frame: &[u8], at: usize, teid: u32) -> Option<Self> {
        let packet = frame.get(at..)?;
        if packet.first()? >> 4 == 6 {
            return Self::of_v6(packet, at, teid);
        }
        let view = ipv4::View::parse(packet).ok()?;
        let from = usize::from(view.fragment_offset());
        let header_len = view.header_len();
        let part = Self {
            key: Key {
                src: view.src().into(),
                dst: view.dst().into(),
                ident: view.ident().into(),
                protocol: view.protocol().0,
                teid,
            },
            from,
            to: from + view.payload().len(),
            is_last: !view.more_fragments(),
            at,
            kept_len: header_len,
            header_len,
            next: (0, 0),
        };
        view.is_fragment().then_some(part)
    }

    fn of_v6(packet: &[u8], at: usize, teid: u32) -> Option<Self> {
        let view = ipv6::View::parse(packet).ok()?;
        let mut next_at = 6;
        for header in view.extensions() {
            let header = header.ok()?;
            let header_at = ipv6::HEADER_LEN + header.offset;
            let Some(fragment) = header.fragment().filter(|one| !one.is_atomic()) else {
                next_at = header_at;
                continue;
            };
            let header_len = header_at + header.bytes.len();
            let from = usize::from(fragment.offset);
            return Some(Self {
                key: Key {
                    src: view.src().into(),
                    dst: view.dst().into(),
                    ident: fragment.ident,
                    protocol: Protocol::FRAGMENT.0,
                    teid,
                },
                from,
                to: from + ipv6::HEADER_LEN + view.payload_len() - header_len,
                is_last: !fragment.more,
                at,
                kept_len: header_at,
                header_len,
                next: (next_at, header.next_header.0),
            });
        }
        None
    }

    /// Whether it can be a part of anything.
    const fn is_right(&self) -> bool {
        let len = self.to - self.from;
        len > 0 && (self.is_last || len.is_multiple_of(8)) && self.to <= PAYLOAD_BYTES_MAX
    }
}

/// All parts of a packet, in order.
#[derive(Debug)]
pub struct Whole<T> {
    /// Each with its ticket; there is one at least.
    pub parts: Vec<(Part, T)>,
}

impl<T> Whole<T> {
    /// Appends the packet to `to`, given the frames of its parts, in order. False if one is too
    /// short to be it.
    pub fn write<'a>(&self, to: &mut Vec<u8>, frames: impl IntoIterator<Item = &'a [u8]>) -> bool {
        let start = to.len();
        for (number, ((part, _), frame)) in self.parts.iter().zip(frames).enumerate() {
            let end = part.at + part.header_len + part.to - part.from;
            let Some(bytes) = frame.get(part.at..end) else {
                return false;
            };
            if number == 0 {
                to.extend_from_slice(&bytes[..part.kept_len]);
            }
            to.extend_from_slice(&bytes[part.header_len..]);
        }
        let packet = &mut to[start..];
        let Some(((first, _), len)) = self.parts.first().zip(Some(packet.len())) else {
            return false;
        };
        let word = |len: usize| u16::try_from(len).ok().map(u16::to_be_bytes);
        if first.key.src.is_ipv4() {
            let Some(total) = word(len) else { return false };
            packet[2..4].copy_from_slice(&total);
            packet[6..8].fill(0);
            if let Ok(mut view) = ipv4::View::parse(packet) {
                view.fill_checksum();
            }
            return true;
        }
        let Some(payload) = word(len - ipv6::HEADER_LEN) else {
            return false;
        };
        packet[4..6].copy_from_slice(&payload);
        packet[first.next.0] = first.next.1;
        true
    }
}

/// What became of fragments: `stored = joined + refused + late + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Fragments that came.
    pub stored: u64,
    /// Fragments that became whole packets.
    pub joined: u64,
    /// Fragments that contradict others, or went for new ones.
    pub refused: u64,
    /// Fragments whose packet did not become whole in time.
    pub late: u64,
    /// Packets that became whole.
    pub packets: u64,
}

#[derive(Debug)]
struct Datagram<T> {
    /// Its number in the order of their beginnings, and when it is given up.
    number: u64,
    until_ns: u64,
    /// In order, without overlap.
    parts: Vec<(Part, T)>,
    bytes: usize,
    end: Option<usize>,
    /// Whether it contradicted itself: nothing of it is taken any more.
    is_refused: bool,
}

/// Fragments with tickets of type `T`.
#[derive(Debug)]
pub struct Reassembly<T> {
    by_key: HashMap<Key, Datagram<T>>,
    by_age: BTreeMap<u64, Key>,
    by_sender: HashMap<Sender, Share>,
    next_number: u64,
    held: usize,
    limit: usize,
    time_ns: u64,
    dropped: VecDeque<T>,
    account: Account,
}

impl<T> Reassembly<T> {
    /// Of so many fragments and packets, each for so long.
    pub fn new(limit: usize, time_ns: u64) -> Self {
        Self {
            by_key: HashMap::new(),
            by_age: BTreeMap::new(),
            by_sender: HashMap::new(),
            next_number: 0,
            held: 0,
            limit,
            time_ns,
            dropped: VecDeque::new(),
            account: Account::default(),
        }
    }

    /// What became of all.
    pub const fn account(&self) -> Account {
        self.account
    }

    /// Fragments that wait for others.
    pub const fn held(&self) -> usize {
        self.held
    }

    /// Tickets that are of no more use.
    pub fn next_dropped(&mut self) -> Option<T> {
        self.dropped.pop_front()
    }

    /// Gives up all fragments, each with the instant at which its packet began, oldest packets
    /// first; none of them ends by that.
    pub fn give_up_all(&mut self) -> Vec<(u64, Part, T)> {
        let mut all = Vec::with_capacity(self.held);
        while let Some((_, key)) = self.by_age.pop_first() {
            let Some(datagram) = self.by_key.remove(&key) else {
                continue;
            };
            let came_ns = datagram.until_ns.saturating_sub(self.time_ns);
            let parts = datagram.parts.into_iter();
            all.extend(parts.map(|(part, ticket)| (came_ns, part, ticket)));
        }
        self.held = 0;
        self.by_sender.clear();
        all
    }

    /// Goes on counting where another one has ended, whose fragments are added next.
    pub fn begin_with(&mut self, account: Account) {
        let Account {
            joined,
            refused,
            late,
            ..
        } = account;
        let stored = joined + refused + late;
        self.account = Account { stored, ..account };
    }

    /// Takes a fragment; gives the packet that it makes whole.
    pub fn add(&mut self, part: Part, ticket: T, now_ns: u64) -> Option<Whole<T>> {
        self.account.stored += 1;
        let is_known = self.by_key.contains_key(&part.key);
        if !self.make_room(&part.key, is_known) {
            self.account.refused += 1;
            self.dropped.push_back(ticket);
            return None;
        }
        if !is_known {
            self.begin(part.key, now_ns);
        }
        let datagram = self.by_key.get_mut(&part.key)?;
        let place = datagram.place(&part);
        match place {
            Place::Known => {}
            Place::At(at) => {
                datagram.parts.insert(at, (part, ticket));
                datagram.bytes += part.to - part.from;
                if part.is_last {
                    datagram.end = Some(part.to);
                }
                self.held += 1;
                if let Some(share) = self.by_sender.get_mut(&part.key.sender()) {
                    share.held += 1;
                }
                if datagram.end != Some(datagram.bytes) {
                    return None;
                }
                return self.finish(part.key);
            }
            Place::None => {
                datagram.is_refused = true;
                let parts = std::mem::take(&mut datagram.parts);
                self.held -= parts.len();
                if let Some(share) = self.by_sender.get_mut(&part.key.sender()) {
                    share.held -= parts.len();
                }
                self.account.refused += parts.len() as u64;
                let tickets = parts.into_iter().map(|(_, ticket)| ticket);
                self.dropped.extend(tickets);
            }
        }
        self.account.refused += 1;
        self.dropped.push_back(ticket);
        None
    }

    /// Whether there is room for a fragment, once the sender's oldest datagrams have gone where it
    /// has its share, and the oldest of all where there are too many.
    fn make_room(&mut self, key: &Key, is_known: bool) -> bool {
        let parts = match key.sender() {
            Sender::Tunnel(_) => TUNNEL_SHARE,
            Sender::Host(_) => HOST_SHARE,
        };
        let limit = (self.limit / parts).max(PARTS_MAX).min(self.limit);
        let is_full = |held, datagrams, limit| held >= limit || !is_known && datagrams >= limit;
        while let Some(own) = self.by_sender.get(&key.sender())
            && is_full(own.held, own.by_age.len(), limit)
        {
            let oldest = own.by_age.values().find(|oldest| **oldest != *key).copied();
            let Some(oldest) = oldest else {
                break;
            };
            self.account.refused += self.give_up(oldest);
        }
        while is_full(self.held, self.by_key.len(), self.limit) {
            let oldest = self.by_age.first_key_value().map(|(_, key)| *key);
            let Some(oldest) = oldest.filter(|oldest| oldest != key) else {
                break;
            };
            self.account.refused += self.give_up(oldest);
        }
        self.held < self.limit
    }

    fn begin(&mut self, key: Key, now_ns: u64) {
        let number = self.next_number;
        self.next_number += 1;
        let share = self.by_sender.entry(key.sender()).or_default();
        share.by_age.insert(number, key);
        self.by_age.insert(number, key);
        let datagram = Datagram {
            number,
            until_ns: now_ns.saturating_add(self.time_ns),
            parts: Vec::new(),
            bytes: 0,
            end: None,
            is_refused: false,
        };
        self.by_key.insert(key, datagram);
    }

    fn remove(&mut self, key: Key) -> Option<Datagram<T>> {
        let datagram = self.by_key.remove(&key)?;
        self.by_age.remove(&datagram.number);
        self.held -= datagram.parts.len();
        let sender = key.sender();
        if let Some(share) = self.by_sender.get_mut(&sender) {
            share.by_age.remove(&datagram.number);
            share.held -= datagram.parts.len();
            if share.by_age.is_empty() {
                self.by_sender.remove(&sender);
            }
        }
        Some(datagram)
    }

    fn finish(&mut self, key: Key) -> Option<Whole<T>> {
        let Datagram { parts, .. } = self.remove(key)?;
        self.account.joined += parts.len() as u64;
        self.account.packets += 1;
        Some(Whole { parts })
    }

    /// Drops a datagram; how many fragments it had.
    fn give_up(&mut self, key: Key) -> u64 {
        let parts = self.remove(key).map_or(Vec::new(), |one| one.parts);
        let count = parts.len() as u64;
        self.dropped
            .extend(parts.into_iter().map(|(_, ticket)| ticket));
        count
    }

    /// Gives up what is too old; gives when to do so again.
    pub fn expire(&mut self, now_ns: u64) -> Option<u64> {
        while let Some((_, key)) = self.by_age.first_key_value() {
            let key = *key;
            let until_ns = self.by_key.get(&key).map_or(0, |one| one.until_ns);
            if until_ns > now_ns {
                return Some(until_ns);
            }
            self.account.late += self.give_up(key);
        }
        None
    }
}

/// Where a part belongs among those that are there.
enum Place {
    At(usize),
    /// It is there.
    Known,
    /// Nowhere: it contradicts them.
    None,
}

impl<T> Datagram<T> {
    fn place(&self, part: &Part) -> Place {
        if self.is_refused || !part.is_right() || self.parts.len() >= PARTS_MAX {
            return Place::None;
        }
        let at = self.parts.partition_point(|(one, _)| one.from < part.from);
        let next = self.parts.get(at).map(|(one, _)| one);
        let is_same = |one: &Part| (one.to, one.is_last) == (part.to, part.is_last);
        if next.is_some_and(|next| next.from == part.from && is_same(next)) {
            return Place::Known;
        }
        let is_behind = self.parts[..at]
            .last()
            .is_none_or(|(one, _)| one.to <= part.from);
        let is_before = next.is_none_or(|next| part.to <= next.from);
        let is_end = match self.end {
            Some(end) => part.to <= end && !part.is_last,
            None => !part.is_last || next.is_none(),
        };
        if is_behind && is_before && is_end {
            Place::At(at)
        } else {
            Place::None
        }
    }
}

#[cfg(test)]
mod tests;
