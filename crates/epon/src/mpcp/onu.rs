//! Multipoint control of an ONU (IEEE 802.3-2022, 77.3.3, 77.3.4 and 77.3.5, the ONU's parts).
//!
//! | state | left for | when |
//! |---|---|---|
//! | unregistered | requested | a discovery GATE: a REGISTER_REQ is sent at a random time in it |
//! | requested | confirming | REGISTER with the ONU's address and ACK |
//! | requested | requested | another discovery GATE after the slot: the request was lost |
//! | requested | unregistered | REGISTER with NACK |
//! | confirming | registered | a GATE for the new LLID: REGISTER_ACK is sent in it |
//! | confirming, registered | unregistered | told; no GATE for long; the OLT's clock drifted |
//!
//! Forbidden: a burst in any state without a grant for it; a data frame before REGISTER_ACK is
//! sent; taking a registration that was not asked for.
//!
//! The clock follows the timestamp of every MPCPDU (77.2.1.1). A GATE that comes too late for its
//! slot, asks for more than the ONU keeps, or leaves no room for a frame is counted and ignored.

use std::collections::VecDeque;

use catena_port::random::Random;
use catena_wire::ethernet::MacAddr;
use catena_wire::mpcp::{
    DiscoveryInformation, Gate, Header, Message, Register, RegisterAck, RegisterReq, Report,
};

use super::burst_time::{frame_octets, octets_in, quanta_for};
use super::{Ending, QUANTA_PER_SECOND, quanta_between};

/// LLID of discovery, without mode bit.
pub const BROADCAST_LLID: u16 = catena_pcs::llid::BROADCAST;

/// Properties of an ONU. Times are in quanta.
#[derive(Clone, Debug)]
pub struct Params {
    /// Its address.
    pub mac: MacAddr,
    /// Time its laser takes to turn on.
    pub laser_on: u8,
    /// Time its laser takes to turn off.
    pub laser_off: u8,
    /// How many grants it keeps.
    pub pending_grants: u8,
    /// Time it needs between a GATE and its slot (77.3.5.1: 1024 quanta).
    pub processing: u32,
    /// How far the OLT's clock may be off its own at an MPCPDU (77.2.2.1: 8 quanta).
    pub drift_max: u32,
    /// After how long without a GATE it is no longer registered (77.3.4.1: 1 s).
    pub timeout: u64,
    /// Seed of its random waits.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            laser_on: 32,
            laser_off: 32,
            pending_grants: 8,
            processing: 1024,
            drift_max: 8,
            timeout: QUANTA_PER_SECOND,
            seed: 0,
        }
    }
}

/// What an ONU is up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits for a discovery window.
    Unregistered,
    /// It has asked, or will in its slot.
    Requested,
    /// It has an LLID that it has not confirmed.
    Confirming,
    /// It may send frames.
    Registered,
}

/// What an ONU has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Grants taken.
    pub grants: u64,
    /// Grants that came too late.
    pub grants_late: u64,
    /// Grants beyond what it keeps, on top of others, or with no room for a frame.
    pub grants_refused: u64,
    /// REGISTER_REQ sent.
    pub requests: u64,
    /// Registrations completed.
    pub registrations: u64,
    /// Registrations ended because nothing was heard.
    pub timeouts: u64,
    /// Registrations ended because the clock was off.
    pub drifts: u64,
    /// Registrations ended or refused by the OLT.
    pub deregistrations: u64,
    /// MPCPDUs that make no sense in its state.
    pub unexpected: u64,
}

/// What a burst is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A REGISTER_REQ in a discovery window.
    Request,
    /// A REGISTER_ACK.
    Confirm,
    /// Frames, with a REPORT in front.
    Frames,
}

/// A burst to send. Instants are of the ONU's oscillator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// What it is for.
    pub purpose: Purpose,
    /// When the laser goes on.
    pub laser_on: u64,
    /// When the first frame's first octet leaves.
    pub first_octet: u64,
    /// When the laser is off again at the latest.
    pub laser_off: u64,
    /// Octets of frames that there is room for, see [`frame_octets`].
    pub octets: u64,
}

/// A grant that waits for its time.
#[derive(Clone, Copy, Debug)]
struct Slot {
    start: u64,
    length: u32,
    is_discovery: bool,
}

/// Multipoint control of one ONU.
#[derive(Debug)]
pub struct Onu {
    params: Params,
    state: State,
    /// What is added to the oscillator for the clock of MPCP.
    offset: u32,
    llid: u16,
    sync_time: u16,
    slots: VecDeque<Slot>,
    /// When the burst that was taken last ends.
    busy_until: u64,
    last_gate: u64,
    random: Random,
    counters: Counters,
}

impl Onu {
    /// An ONU that has just been switched on.
    pub fn new(params: Params) -> Self {
        Self {
            random: Random::new(params.seed),
            state: State::Unregistered,
            offset: 0,
            llid: BROADCAST_LLID,
            sync_time: 0,
            slots: VecDeque::with_capacity(usize::from(params.pending_grants)),
            busy_until: 0,
            last_gate: 0,
            counters: Counters::default(),
            params,
        }
    }

    /// What it is up to.
    pub const fn state(&self) -> State {
        self.state
    }

    /// What it has counted.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Its LLID, once it has one.
    pub fn llid(&self) -> Option<u16> {
        matches!(self.state, State::Confirming | State::Registered).then_some(self.llid)
    }

    /// The clock of MPCP when the oscillator shows `now`.
    pub const fn clock(&self, now: u64) -> u32 {
        (now as u32).wrapping_add(self.offset)
    }

    /// Takes an MPCPDU that came with `llid` (without mode bit) and destination `dst`. Gives why
    /// the registration ended, if it did.
    pub fn handle(&mut self, llid: u16, dst: MacAddr, pdu: &Header, now: u64) -> Option<Ending> {
        let is_own = self.llid() == Some(llid);
        if is_own {
            let off = quanta_between(self.clock(now), pdu.timestamp);
            if off.unsigned_abs() > self.params.drift_max {
                self.counters.drifts += 1;
                return self.end(Ending::Drift);
            }
            self.set_clock(pdu.timestamp, now);
        }
        match &pdu.message {
            Message::Gate(gate) if gate.discovery.is_some() && llid == BROADCAST_LLID => {
                self.discover(gate, pdu.timestamp, now);
                None
            }
            Message::Gate(gate) if gate.discovery.is_none() && is_own => {
                self.last_gate = now;
                for grant in gate.grants() {
                    self.accept(grant.start_time, u32::from(grant.length), now);
                }
                None
            }
            Message::Register(register) if dst == self.params.mac => self.register(register, now),
            _ => {
                self.counters.unexpected += 1;
                None
            }
        }
    }

    /// Looks at the timers. Gives why the registration ended, if it did.
    pub fn poll(&mut self, now: u64) -> Option<Ending> {
        let waits = matches!(self.state, State::Confirming | State::Registered);
        if waits && now.saturating_sub(self.last_gate) > self.params.timeout {
            self.counters.timeouts += 1;
            return self.end(Ending::Timeout);
        }
        None
    }

    /// When the laser goes on next.
    pub fn next_slot(&self) -> Option<u64> {
        self.slots.front().map(|slot| slot.start)
    }

    /// The burst whose time has come. What it holds is asked for with [`Onu::message`].
    pub fn take_burst(&mut self, now: u64) -> Option<Burst> {
        if self.next_slot()? > now {
            return None;
        }
        let slot = self.slots.pop_front()?;
        let purpose = match self.state {
            State::Requested if slot.is_discovery => Purpose::Request,
            State::Confirming => Purpose::Confirm,
            State::Registered => Purpose::Frames,
            State::Requested | State::Unregistered => return None,
        };
        let lead = u32::from(self.params.laser_on) + u32::from(self.sync_time);
        let tail = u32::from(self.params.laser_off);
        match purpose {
            Purpose::Request => self.counters.requests += 1,
            Purpose::Confirm => {
                self.state = State::Registered;
                self.counters.registrations += 1;
            }
            Purpose::Frames => {}
        }
        self.busy_until = slot.start + u64::from(slot.length);
        Some(Burst {
            purpose,
            laser_on: slot.start,
            first_octet: slot.start + u64::from(lead),
            laser_off: self.busy_until,
            octets: octets_in(u64::from(slot.length.saturating_sub(lead + tail))),
        })
    }

    /// The MPCPDU that opens `burst`; `queued` is what will be left in the queue behind the burst,
    /// in octets of [`frame_octets`].
    pub fn message(&self, burst: &Burst, queued: u64) -> Header {
        let message = match burst.purpose {
            Purpose::Request => Message::RegisterReq(RegisterReq {
                flags: RegisterReq::REGISTER,
                pending_grants: self.params.pending_grants,
                information: DiscoveryInformation::UPSTREAM_10G
                    .with(DiscoveryInformation::WINDOW_10G),
                laser_on_time: self.params.laser_on,
                laser_off_time: self.params.laser_off,
            }),
            Purpose::Confirm => Message::RegisterAck(RegisterAck {
                flags: RegisterAck::ACK,
                echoed_assigned_port: self.llid,
                echoed_sync_time: self.sync_time,
            }),
            Purpose::Frames => {
                let quanta = u16::try_from(quanta_for(queued)).unwrap_or(u16::MAX);
                let mut report = Report::new();
                report.push(&[Some(quanta), None, None, None, None, None, None, None]);
                Message::Report(report)
            }
        };
        Header {
            timestamp: self.clock(burst.first_octet),
            message,
        }
    }

    /// Quanta of a burst that holds one MPCPDU.
    fn request_length(&self, sync_time: u16) -> u32 {
        let frame = quanta_for(frame_octets(0)) as u32;
        let laser = u32::from(self.params.laser_on) + u32::from(self.params.laser_off);
        laser + u32::from(sync_time) + frame
    }

    fn set_clock(&mut self, timestamp: u32, now: u64) {
        self.offset = timestamp.wrapping_sub(now as u32);
    }

    /// A discovery window: asks at a random time in it (77.3.3.2).
    fn discover(&mut self, gate: &Gate, timestamp: u32, now: u64) {
        let is_waiting = self.next_slot().is_some();
        let (Some(discovery), [grant]) = (gate.discovery, gate.grants()) else {
            self.counters.unexpected += 1;
            return;
        };
        let wanted = DiscoveryInformation::UPSTREAM_10G.with(DiscoveryInformation::WINDOW_10G);
        match self.state {
            State::Confirming | State::Registered => return,
            State::Requested if is_waiting => return,
            _ if !discovery.information.has(wanted) => return,
            State::Requested | State::Unregistered => {}
        }
        let length = self.request_length(discovery.sync_time);
        let Some(slack) = u32::from(grant.length).checked_sub(length) else {
            self.counters.grants_refused += 1;
            return;
        };
        self.set_clock(timestamp, now);
        let wait = self.random.below(u64::from(slack) + 1) as u32;
        self.sync_time = discovery.sync_time;
        if self.add_slot(grant.start_time.wrapping_add(wait), length, true, now) {
            self.state = State::Requested;
        }
    }

    fn register(&mut self, register: &Register, now: u64) -> Option<Ending> {
        match (self.state, register.flags) {
            (State::Requested, Register::ACK) if register.assigned_port < BROADCAST_LLID => {
                self.state = State::Confirming;
                self.llid = register.assigned_port;
                self.sync_time = register.sync_time;
                self.last_gate = now;
                self.slots.clear();
                None
            }
            (State::Requested, Register::NACK) => {
                self.counters.deregistrations += 1;
                self.end(Ending::Told)
            }
            // An OLT that repeats itself has not heard REGISTER_ACK.
            (State::Registered, Register::ACK) if register.assigned_port == self.llid => {
                self.state = State::Confirming;
                self.slots.clear();
                None
            }
            (
                State::Confirming | State::Registered,
                Register::DEREGISTER | Register::REREGISTER,
            ) if register.assigned_port == self.llid => {
                self.counters.deregistrations += 1;
                self.end(Ending::Told)
            }
            _ => {
                self.counters.unexpected += 1;
                None
            }
        }
    }

    fn accept(&mut self, start_time: u32, length: u32, now: u64) {
        if length < self.request_length(self.sync_time) {
            self.counters.grants_refused += 1;
            return;
        }
        self.add_slot(start_time, length, false, now);
    }

    /// Keeps a grant until its time; false if it cannot be met.
    fn add_slot(&mut self, start_time: u32, length: u32, is_discovery: bool, now: u64) -> bool {
        let wait = quanta_between(self.clock(now), start_time);
        let Some(wait) = u32::try_from(wait)
            .ok()
            .filter(|wait| *wait >= self.params.processing)
        else {
            self.counters.grants_late += 1;
            return false;
        };
        let start = now + u64::from(wait);
        let is_free = start >= self.busy_until
            && self.slots.iter().all(|slot| {
                start + u64::from(length) <= slot.start
                    || slot.start + u64::from(slot.length) <= start
            });
        if !is_free || self.slots.len() >= usize::from(self.params.pending_grants) {
            self.counters.grants_refused += 1;
            return false;
        }
        let at = self.slots.partition_point(|slot| slot.start < start);
        self.slots.insert(
            at,
            Slot {
                start,
                length,
                is_discovery,
            },
        );
        self.counters.grants += 1;
        true
    }

    fn end(&mut self, ending: Ending) -> Option<Ending> {
        self.state = State::Unregistered;
        self.llid = BROADCAST_LLID;
        self.slots.clear();
        Some(ending)
    }
}

#[cfg(test)]
#[path = "onu_tests.rs"]
pub(super) mod tests;
