//! Whose Ethernet addresses are whose: learned from what UEs send, and forgotten again.
//!
//! `path` has the source of each frame of a UE noted here, and `ethernet` asks whose a frame of the
//! data network is. Limits: [`SESSIONS_MAX`] sessions, [`STATIONS_MAX`] learned addresses of each,
//! behind which frames from others are dropped; [`BROADCASTS_PER_S`] broadcasts.

use catena_flow::{Fate, FlowTable, HeapMemory, Inserted, Shape, Timeouts};

use crate::decision::Why;
use crate::frame::GROUP;
use crate::limiter::Limiter;

/// Most Ethernet sessions: each gets a copy of every broadcast.
pub const SESSIONS_MAX: usize = 256;
/// Most addresses of a session that are learned.
pub const STATIONS_MAX: usize = 16;
/// After so long without a frame from it an address is nobody's.
pub const IDLE_NS: u64 = 300_000_000_000;
/// Most broadcasts and multicasts per second that are copied.
pub const BROADCASTS_PER_S: u64 = 1000;
/// Addresses that are looked at for their end at once.
const EXPIRED_COUNT_MAX: u32 = 64;

/// A session, and what was learned of it.
#[derive(Debug)]
struct Member {
    seid: u64,
    slot: u32,
    stations: Vec<u64>,
}

/// Whose addresses are whose. What was learned passes on to a UPF that
/// takes over, and is learned anew after a kill.
#[derive(Debug)]
pub struct Stations {
    table: FlowTable<HeapMemory>,
    members: Vec<Member>,
    broadcasts: Limiter,
    /// What another one has learned of sessions that are not here: a UPF that is tried at `apply`
    /// has none, and hands it on.
    handed: Vec<(u64, u64)>,
    /// When something was learned last.
    now_ns: u64,
}

impl Stations {
    /// Nothing yet.
    ///
    /// # Errors
    /// A count that no table has.
    pub fn new(seed: [u64; 2], now_ns: u64) -> Result<Self, String> {
        let count = SESSIONS_MAX * STATIONS_MAX;
        let shape = Shape::new(1, 2, u32::try_from(count).unwrap_or(u32::MAX));
        let table = FlowTable::on_heap(&shape, seed, now_ns);
        Ok(Self {
            table: table.map_err(|error| error.to_string())?,
            members: Vec::with_capacity(SESSIONS_MAX),
            broadcasts: Limiter::new(BROADCASTS_PER_S),
            handed: Vec::new(),
            now_ns,
        })
    }

    /// Whether there is no Ethernet session.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether there is room for one more session.
    pub const fn has_room(&self) -> bool {
        self.members.len() < SESSIONS_MAX
    }

    /// How many Ethernet sessions there are.
    pub const fn session_count(&self) -> usize {
        self.members.len()
    }

    /// The slot of one of them, by its place below their count.
    pub fn slot(&self, at: usize) -> u32 {
        self.members[at].slot
    }

    /// Whether one more broadcast is copied in this second.
    pub fn may_broadcast(&mut self, now_ns: u64) -> bool {
        self.broadcasts.passes(now_ns)
    }

    /// A session begins.
    pub fn enter(&mut self, seid: u64, slot: u32) {
        if self.has_room() {
            self.members.push(Member {
                seid,
                slot,
                stations: Vec::with_capacity(STATIONS_MAX),
            });
        }
    }

    /// A session ends, and what was learned of it.
    pub fn leave(&mut self, seid: u64) {
        let Some(at) = self.members.iter().position(|one| one.seid == seid) else {
            return;
        };
        for station in self.members.swap_remove(at).stations {
            if let Some(flow) = self.table.find(&[station]) {
                self.table.remove(flow);
            }
        }
    }

    /// The slot of the session that has an address.
    pub fn find(&self, address: u64) -> Option<u32> {
        let flow = self.table.find(&[address])?;
        u32::try_from(self.table.state(flow, 1)).ok()
    }

    /// A frame of a session came from an address.
    ///
    /// # Errors
    /// Why it is dropped: the address is another one's, or the session has too many.
    pub fn learn(&mut self, seid: u64, address: u64, now_ns: u64) -> Result<(), Why> {
        if address & GROUP != 0 {
            return Err(Why::Spoofed);
        }
        self.now_ns = now_ns;
        self.expire(now_ns);
        if let Some(flow) = self.table.find(&[address]) {
            if self.table.state(flow, 0) != seid {
                return Err(Why::Spoofed);
            }
            self.table.touch(flow, now_ns);
            return Ok(());
        }
        let member = self.members.iter_mut().find(|one| one.seid == seid);
        let member = member.filter(|one| one.stations.len() < STATIONS_MAX);
        let member = member.ok_or(Why::TooManyStations)?;
        match self
            .table
            .insert(&[address], Timeouts::idle(IDLE_NS), now_ns)
        {
            Ok(Inserted::New(flow)) => {
                self.table.set_state(flow, 0, seid);
                self.table.set_state(flow, 1, member.slot.into());
                member.stations.push(address);
                Ok(())
            }
            _ => Err(Why::TooManyStations),
        }
    }

    /// What was learned: sessions by SEID, and their addresses.
    pub fn learned(&self) -> Vec<(u64, u64)> {
        let of = |one: &Member| {
            let seid = one.seid;
            let stations = one.stations.iter();
            stations.map(|station| (seid, *station)).collect::<Vec<_>>()
        };
        let learned = self.members.iter().flat_map(of);
        learned.chain(self.handed.iter().copied()).collect()
    }

    /// Learns what another one has learned, as if now.
    pub fn learn_all(&mut self, learned: &[(u64, u64)]) {
        for (seid, station) in learned {
            match self.members.iter().any(|one| one.seid == *seid) {
                // One that was its session's is nobody else's, and there was room.
                true => _ = self.learn(*seid, *station, self.now_ns),
                false => self.handed.push((*seid, *station)),
            }
        }
    }

    /// Forgets addresses that were idle for long.
    fn expire(&mut self, now_ns: u64) {
        let Self { table, members, .. } = self;
        table.expire(now_ns, EXPIRED_COUNT_MAX, |ended| {
            let (address, seid) = (ended.entry.key(0), ended.entry.state(0));
            if let Some(member) = members.iter_mut().find(|one| one.seid == seid) {
                member.stations.retain(|one| *one != address);
            }
            Fate::Remove
        });
    }
}

#[cfg(test)]
mod tests;
