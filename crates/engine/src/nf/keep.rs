//! Packets that an NF holds from one turn to the next, and what it makes of its own.
//!
//! Beside the path of a packet: [`Burst::keep`](super::Burst::keep) takes one out of it and
//! [`Emission::send_kept`] puts it back. The engine has the packets, the NF has tickets: so what is
//! held is known at every instant, and is given back when the NF goes. All of it lies in pools that
//! the worker owns, whose ledger calls it home: should the worker be killed, not one buffer is
//! lost.

use std::fmt;

use crate::drop_reason::DropReason;
use crate::packet::Packet;
use crate::pools::Pools;

/// A packet that an NF holds: its ticket, good for this NF, and whoever takes its place, until
/// it is sent or dropped. One
/// that is forgotten keeps its buffer until the NF ends.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the packet is held until it is sent or dropped"]
pub struct Kept(pub(super) u32);

/// What became of a packet whose verdict says that it stays with the NF.
#[derive(Debug)]
pub enum Moved {
    /// It is held.
    Held,
    /// A copy of it is held: this one is of no more use.
    Copied(Packet),
    /// It was not taken out of the burst.
    NotTaken(Packet),
}

/// What one NF holds; the engine's.
#[derive(Debug, Default)]
pub struct Hold {
    /// By ticket; none if the ticket is free, or the packet still lies in a burst.
    pub(super) packets: Vec<Option<Packet>>,
    free: Vec<u32>,
    /// Packets of the burst at hand that were taken out of it: position, and ticket of those that
    /// are moved and not copied.
    pub(super) taken: Vec<(u32, Option<u32>)>,
    /// Packets that leave, with their outputs.
    pub(super) leaving: Vec<(u8, Packet)>,
    /// Packets among them that were made, not kept, and their bytes; then all that were made.
    made: u64,
    made_bytes: u64,
    /// Why packets were let go of, and copies could not be made.
    pub(super) dropped: Vec<DropReason>,
}

impl Hold {
    /// Room for tickets of `count` packets, so that keeping them allocates nothing.
    pub fn reserve(&mut self, count: usize) {
        self.packets
            .reserve(count.saturating_sub(self.packets.len()));
        self.free.reserve(count.saturating_sub(self.free.len()));
    }

    /// Packets that are held.
    pub fn count(&self) -> u64 {
        (self.packets.len() - self.free.len()) as u64
    }

    /// Whether anything is to be carried out for the burst at hand.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.taken.is_empty() & self.leaving.is_empty() & self.dropped.is_empty() & (self.made == 0)
    }

    /// Packets made since this was last asked, and their bytes.
    pub fn take_made(&mut self) -> (u64, u64) {
        (
            std::mem::take(&mut self.made),
            std::mem::take(&mut self.made_bytes),
        )
    }

    /// Packets that leave, with their outputs.
    pub fn leaving(&mut self) -> impl Iterator<Item = (u8, Packet)> {
        self.leaving.drain(..)
    }

    /// Why packets were dropped.
    pub fn dropped(&mut self) -> impl Iterator<Item = DropReason> {
        self.dropped.drain(..)
    }

    /// What was taken out of the burst at hand: calls `mark` for each position; those that were
    /// moved come by [`Hold::move_in`] then.
    pub fn begin_moves(&mut self, mut mark: impl FnMut(usize)) {
        self.taken.sort_unstable();
        self.taken.iter().for_each(|(at, _)| mark(*at as usize));
    }

    /// Takes over the packet at `position` of the burst, if the NF took it out of it.
    pub fn move_in(&mut self, position: usize, packet: Packet) -> Moved {
        let found = self
            .taken
            .binary_search_by_key(&position, |(at, _)| *at as usize);
        match found.map(|at| self.taken[at].1) {
            Ok(Some(ticket)) => {
                self.packets[ticket as usize] = Some(packet);
                Moved::Held
            }
            Ok(None) => Moved::Copied(packet),
            Err(_) => Moved::NotTaken(packet),
        }
    }

    /// Everything that was taken out of the burst has been moved.
    pub fn end_moves(&mut self) {
        self.taken.clear();
    }

    /// Lets go of all that is held.
    pub fn drain(&mut self) -> impl Iterator<Item = Packet> {
        self.free.clear();
        self.packets.drain(..).flatten()
    }

    fn ticket(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.packets.push(None);
            #[expect(clippy::cast_possible_truncation, reason = "a pool has 2^26 buffers")]
            let ticket = self.packets.len() as u32 - 1;
            ticket
        })
    }

    fn put(&mut self, packet: Packet) -> Kept {
        let ticket = self.ticket();
        self.packets[ticket as usize] = Some(packet);
        Kept(ticket)
    }

    pub(super) fn take(&mut self, kept: &Kept) -> Option<Packet> {
        let packet = self.packets.get_mut(kept.0 as usize)?.take()?;
        self.free.push(kept.0);
        Some(packet)
    }

    pub(super) fn get(&self, kept: &Kept) -> Option<&Packet> {
        self.packets.get(kept.0 as usize)?.as_ref()
    }

    /// Takes `packet`, which lies at `position` of a burst, out of it.
    pub(super) fn keep(
        &mut self,
        pools: &mut Pools,
        position: usize,
        packet: &Packet,
    ) -> Option<Kept> {
        #[expect(clippy::cast_possible_truncation, reason = "bursts are small")]
        let at = position as u32;
        // Most often in order: then none has to be looked for.
        let in_order = self.taken.last().is_none_or(|(last, _)| *last < at);
        if !in_order && self.taken.iter().any(|(taken, _)| *taken == at) {
            return None;
        }
        // One of many in a buffer would hold all of the buffer: it is copied.
        if pools.owns(packet.pool()) && !packet.is_bundled() {
            let ticket = self.ticket();
            self.taken.push((at, Some(ticket)));
            return Some(Kept(ticket));
        }
        let copy = pools.copy_like(packet).ok()?;
        self.taken.push((at, None));
        Some(self.put(copy))
    }

    /// A packet of the NF's own making.
    pub(super) fn make(
        &mut self,
        pools: &mut Pools,
        (len, tag): (usize, u16),
        fill: impl FnOnce(&mut [u8]),
    ) -> Option<Kept> {
        let mut packet = pools.alloc(len).ok()?;
        fill(packet.bytes_mut());
        packet.set_tag(tag);
        self.note_made(len);
        Some(self.put(packet))
    }

    pub(super) fn copy(&mut self, pools: &mut Pools, packet: &Packet) -> Option<Kept> {
        let copy = pools.copy_like(packet).ok()?;
        self.note_made(copy.len());
        Some(self.put(copy))
    }

    /// Copies a packet and has the copy leave by `output`.
    pub(super) fn copy_out(&mut self, pools: &mut Pools, packet: &Packet, output: u8) -> bool {
        self.note_made(packet.len());
        match pools.copy_of(packet) {
            Ok(copy) => self.leaving.push((output, copy)),
            Err(reason) => {
                // It was received, and dropped.
                self.dropped.push(reason);
                return false;
            }
        }
        true
    }

    fn note_made(&mut self, len: usize) {
        self.made += 1;
        self.made_bytes += len as u64;
    }
}

/// What an NF sends at an instant: packets that it holds, and such as it makes
/// ([`Nf::emit`](super::Nf::emit)).
pub struct Emission<'a> {
    pools: &'a mut Pools,
    hold: &'a mut Hold,
    /// Packets that each output still takes.
    rooms: &'a mut [usize],
    /// Whether packets that leave by different outputs share room.
    shares_room: bool,
    is_draining: bool,
    waits: bool,
}

impl<'a> Emission<'a> {
    /// What `hold` has and `pools` give, as many packets as `rooms` says for each output.
    pub fn new(
        pools: &'a mut Pools,
        hold: &'a mut Hold,
        rooms: &'a mut [usize],
        is_draining: bool,
    ) -> Self {
        Self {
            pools,
            hold,
            rooms,
            shares_room: false,
            is_draining,
            waits: false,
        }
    }

    /// As it is, but what leaves by one output takes room of all.
    pub fn with_shared_room(mut self, shares: bool) -> Self {
        self.shares_room = shares;
        self
    }

    /// Whether the chain comes to its end: what is held goes out, nothing new is begun.
    pub fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Whether it was asked for room, or a buffer, that was not there: the NF is called again.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// How many more packets can leave by `output` now. If that is none, the NF is called again
    /// when there is room.
    pub fn room(&mut self, output: u8) -> usize {
        let room = self.rooms.get(usize::from(output)).copied().unwrap_or(0);
        self.waits |= room == 0;
        room
    }

    fn use_room(&mut self, output: u8) {
        if self.shares_room {
            self.rooms
                .iter_mut()
                .for_each(|room| *room = room.saturating_sub(1));
        } else if let Some(room) = self.rooms.get_mut(usize::from(output)) {
            *room -= 1;
        }
    }

    /// Whether any buffer, free or not, has room for a packet of `len` bytes: if not, there is no
    /// use in trying again.
    pub fn can_make(&self, len: usize) -> bool {
        len <= self.pools.packet_len_max()
    }

    /// Sends a packet of `len` bytes with `tag` by `output`, once `fill` has written its bytes.
    /// Returns false, and sends nothing, if there is no room or no buffer: it can be tried again.
    pub fn send(&mut self, output: u8, len: usize, tag: u16, fill: impl FnOnce(&mut [u8])) -> bool {
        if self.room(output) == 0 {
            return false;
        }
        let Ok(mut packet) = self.pools.alloc(len) else {
            self.waits = true;
            return false;
        };
        self.use_room(output);
        fill(packet.bytes_mut());
        packet.set_tag(tag);
        self.hold.note_made(len);
        self.hold.leaving.push((output, packet));
        true
    }

    /// As [`Emission::send`], for a packet that is made of one that is held: it has its tag, and
    /// `fill` is given the bytes of that one, too.
    pub fn send_from(
        &mut self,
        kept: &Kept,
        output: u8,
        len: usize,
        fill: impl FnOnce(&[u8], &mut [u8]),
    ) -> bool {
        if self.room(output) == 0 {
            return false;
        }
        let Some(from) = self.hold.get(kept) else {
            return false;
        };
        let Ok(mut packet) = self.pools.alloc(len) else {
            self.waits = true;
            return false;
        };
        fill(from.bytes(), packet.bytes_mut());
        packet.set_tag(from.tag());
        self.use_room(output);
        self.hold.note_made(len);
        self.hold.leaving.push((output, packet));
        true
    }

    /// Sends a packet that is held by `output`.
    ///
    /// # Errors
    /// The ticket, if there is no room: the packet is still held.
    pub fn send_kept(&mut self, kept: Kept, output: u8) -> Result<(), Kept> {
        if self.room(output) == 0 {
            return Err(kept);
        }
        if let Some(packet) = self.hold.take(&kept) {
            self.use_room(output);
            self.hold.leaving.push((output, packet));
        }
        Ok(())
    }

    /// Drops a packet that is held, and counts it under the reason.
    pub fn drop_kept(&mut self, kept: Kept, reason: DropReason) {
        if let Some(packet) = self.hold.take(&kept) {
            self.pools.free(packet);
            self.hold.dropped.push(reason);
        }
    }

    /// A packet that is held.
    pub fn kept(&self, kept: &Kept) -> Option<&Packet> {
        self.hold.get(kept)
    }

    /// A packet that is held, to be edited.
    pub fn kept_mut(&mut self, kept: &mut Kept) -> Option<&mut Packet> {
        self.hold.packets.get_mut(kept.0 as usize)?.as_mut()
    }

    /// Makes a packet of `len` bytes with `tag` that `fill` writes, and holds it. None if there is
    /// no buffer for it.
    pub fn make(&mut self, len: usize, tag: u16, fill: impl FnOnce(&mut [u8])) -> Option<Kept> {
        self.hold.make(self.pools, (len, tag), fill)
    }

    /// Makes a copy of a packet that is held, and holds it too. None if there is no buffer for it.
    pub fn clone_kept(&mut self, kept: &Kept) -> Option<Kept> {
        let packet = self.hold.packets.get_mut(kept.0 as usize)?.take()?;
        let copy = self.hold.copy(self.pools, &packet);
        self.hold.packets[kept.0 as usize] = Some(packet);
        copy
    }
}

impl fmt::Debug for Emission<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emission")
            .field("rooms", &self.rooms)
            .field("is_draining", &self.is_draining)
            .finish_non_exhaustive()
    }
}
