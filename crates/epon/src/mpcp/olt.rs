//! Multipoint control of the OLT (IEEE 802.3-2022, 77.3.3, 77.3.4 and 77.3.5, the OLT's parts).
//!
//! Per ONU:
//!
//! | state | left for | when |
//! |---|---|---|
//! | absent | registering | REGISTER_REQ in a discovery window; REGISTER and a GATE are sent |
//! | registering | registered | REGISTER_ACK in the slot of that GATE |
//! | registering | absent | no REGISTER_ACK in [`CONFIRM_TRIES`] slots |
//! | registered | registering | REGISTER_REQ of the same address: the ONU was switched off and on |
//! | registered | absent | it asks; nothing heard for the timeout; its clock drifted |
//!
//! The upstream is one line of time at the OLT's receiver. [`Olt`] hands out parts of it, a guard
//! apart. Where it would be idle until a far ONU can send, nearer ones are given slots. An ONU that
//! is `rtt` away is told to turn its laser on `rtt` earlier. Slots of one ONU follow its REPORTs:
//! one REPORT, one next slot. A slot from which no REPORT came (GATE or REPORT was lost) is
//! followed by one for a REPORT only. So an ONU has one slot outstanding at most, and what it says
//! can cost the others no more than its limit per cycle.
//!
//! A discovery window takes its part of the line of time, and the round trip of the farthest ONU
//! behind it. What arrives there may collide; what collided is not given to [`Olt::handle`].

use std::collections::VecDeque;

use catena_wire::ethernet::MacAddr;
use catena_wire::mpcp::{
    self, DiscoveryInformation, Gate, GateDiscovery, Grant, Header, Message, Register, RegisterAck,
    RegisterReq, Report,
};

use super::burst_time::GRANT_LENGTH_MAX;
use super::ipact::{Ipact, SettingsError};
use super::onu::BROADCAST_LLID;
use super::{Ending, ONU_COUNT_MAX, quanta_between};

#[cfg(test)]
mod limit_tests;
mod params;
mod station;
#[cfg(test)]
mod tests;
mod timeline;

use params::report_length;

pub use params::{GUARD_MIN, Params};
pub use station::{Slot, Station};
use timeline::Timeline;

/// Slots that an ONU gets to confirm its registration.
pub const CONFIRM_TRIES: u32 = 3;
/// MPCPDUs that wait to be sent, at most: two for each ONU, and discovery.
const QUEUE_MAX: usize = 2 * ONU_COUNT_MAX + 8;

/// Quanta from one MPCPDU to the next downstream: a codeword, and what rounding takes.
const MPCPDU_QUANTA: u64 = 14;

/// An MPCPDU to send. Its timestamp is the OLT's clock when its first octet leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// LLID of the preamble, without mode bit.
    pub llid: u16,
    /// Destination address.
    pub dst: MacAddr,
    /// What it says.
    pub message: Message,
}

/// Something that an operator wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An ONU may send frames.
    Registered {
        /// Its LLID.
        llid: u16,
        /// Its address.
        mac: MacAddr,
        /// Its round trip in quanta.
        rtt: u32,
    },
    /// An ONU may no longer.
    Deregistered {
        /// The LLID it had.
        llid: u16,
        /// Why.
        ending: Ending,
    },
}

/// What an OLT has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Discovery windows opened.
    pub windows: u64,
    /// Grants given, discovery windows not among them.
    pub grants: u64,
    /// Quanta granted, all overhead included.
    pub granted_quanta: u64,
    /// REPORTs answered.
    pub reports: u64,
    /// Slots from which no REPORT came.
    pub reports_missed: u64,
    /// REPORTs outside the sender's slot, or from who has none.
    pub reports_unsolicited: u64,
    /// Registrations completed.
    pub registrations: u64,
    /// Registrations ended, for whatever reason.
    pub deregistrations: u64,
    /// Requests refused because all places were taken.
    pub refused: u64,
    /// MPCPDUs that make no sense: no such ONU, a wrong address, a round trip out of range.
    pub unexpected: u64,
}

/// Multipoint control of an OLT.
#[derive(Debug)]
pub struct Olt {
    params: Params,
    ipact: Ipact,
    /// By index; the LLID is that of the first, plus the index.
    stations: Vec<Option<Station>>,
    upstream: Timeline,
    next_window: u64,
    /// The last discovery window at the receiver, from the first to the last possible arrival.
    window: Option<(u64, u64)>,
    queue: VecDeque<Outgoing>,
    events: VecDeque<Event>,
    counters: Counters,
}

impl Olt {
    /// An OLT that knows no ONU yet; `now` is its clock.
    ///
    /// # Errors
    /// If the cycle has no room for the ONUs, or not for what they are guaranteed.
    pub fn new(params: Params, now: u64) -> Result<Self, SettingsError> {
        let ipact = Ipact::new(params.dba.clone(), params.onus_max, params.overhead())?;
        Ok(Self {
            stations: (0..params.onus_max).map(|_| None).collect(),
            upstream: Timeline::new(now, params.guard),
            next_window: now,
            window: None,
            queue: VecDeque::with_capacity(QUEUE_MAX),
            events: VecDeque::new(),
            counters: Counters::default(),
            ipact,
            params,
        })
    }

    /// Starts its clock at `now`, and takes LLIDs that follow from it: an OLT that was restarted
    /// has others than in its life before. To be called once, before anything else.
    pub fn start(&mut self, now: u64) {
        self.upstream = Timeline::new(now, self.params.guard);
        self.next_window = now;
        let lives = (u64::from(BROADCAST_LLID) - 1) / ONU_COUNT_MAX as u64;
        // Lives that begin within 4 ms of each other may share theirs, which costs a timeout.
        let life = (now >> 18) % lives;
        self.params.first_llid = 1 + ONU_COUNT_MAX as u16 * life as u16;
    }

    /// Its properties.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// What it has counted.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Its bandwidth allocation.
    pub const fn ipact(&self) -> &Ipact {
        &self.ipact
    }

    /// The ONUs it knows.
    pub fn stations(&self) -> impl Iterator<Item = &Station> {
        self.stations.iter().flatten()
    }

    /// The ONU with this LLID.
    pub fn station(&self, llid: u16) -> Option<&Station> {
        self.stations.get(self.index_of(llid)?)?.as_ref()
    }

    /// How many ONUs may send frames.
    pub fn registered(&self) -> usize {
        self.stations().filter(|station| station.registered).count()
    }

    /// What happened since it was last asked, the oldest first.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Until when the upstream is handed out, on its clock at its receiver.
    pub const fn granted_until(&self) -> u64 {
        self.upstream.end()
    }

    /// Whether a discovery window is open for what arrives at `arrival`.
    pub fn is_in_window(&self, arrival: u64) -> bool {
        self.window
            .is_some_and(|(from, to)| (from..=to).contains(&arrival))
    }

    /// The end of the last discovery window: what arrived in it can then be judged.
    pub fn window_end(&self) -> Option<u64> {
        self.window.map(|(_, to)| to)
    }

    /// Whether what arrives from `from` to `to` lies in a slot of the ONU, off by at most the drift
    /// that its clock may have.
    pub fn is_granted(&self, llid: u16, from: u64, to: u64) -> bool {
        let drift = u64::from(self.params.drift_max);
        self.station(llid).is_some_and(|station| {
            station
                .slots()
                .any(|slot| from + drift >= slot.from && to <= slot.to + drift)
        })
    }

    /// Takes an MPCPDU from the ONU with `llid`, whose first octet came at `arrival`.
    pub fn handle(&mut self, llid: u16, src: MacAddr, pdu: &Header, arrival: u64, now: u64) {
        let rtt = quanta_between(pdu.timestamp, arrival as u32);
        let rtt = u32::try_from(rtt)
            .ok()
            .filter(|rtt| *rtt <= self.params.rtt_max);
        if let (Message::RegisterReq(request), Some(rtt), true) =
            (&pdu.message, rtt, llid == BROADCAST_LLID)
        {
            return self.request(src, request, rtt, arrival, now);
        }
        let drift_max = self.params.drift_max;
        let Some(station) = self.station_mut(llid).filter(|station| station.mac == src) else {
            return self.disown(llid, src);
        };
        let index = station.index;
        if rtt.is_none_or(|rtt| rtt.abs_diff(station.rtt) > drift_max) {
            return self.deregister(index, Ending::Drift);
        }
        if let (Some(station), Some(rtt)) = (self.stations[index].as_mut(), rtt) {
            // The clock of the ONU may wander slowly; each step is within the threshold.
            station.rtt = rtt;
            station.last_heard = now;
        }
        match &pdu.message {
            Message::Report(report) => self.report(index, report, arrival, now),
            Message::RegisterAck(ack) => self.confirm(index, *ack, arrival, now),
            Message::RegisterReq(request) if request.flags == RegisterReq::DEREGISTER => {
                self.deregister(index, Ending::Told);
            }
            _ => self.counters.unexpected += 1,
        }
    }

    /// Looks at the timers and gives the next MPCPDU to send, if there is one now.
    pub fn poll(&mut self, now: u64) -> Option<Outgoing> {
        if let Some(next) = self.queue.pop_front() {
            return Some(next);
        }
        if now >= self.next_window {
            self.open_window(now);
            return self.queue.pop_front();
        }
        let margin = u64::from(self.params.report_margin);
        // The one that waits longest first, so that nobody is overtaken for ever.
        let due = self
            .stations()
            .map(|station| (station.due(margin), station.index))
            .filter(|(due, _)| *due <= now)
            .min()?;
        self.serve(due.1, now);
        self.queue.pop_front()
    }

    /// When [`Olt::poll`] has something to do, if nothing arrives before.
    pub fn next_due(&self) -> u64 {
        if !self.queue.is_empty() {
            return 0;
        }
        let margin = u64::from(self.params.report_margin);
        let due = self.stations().map(|station| station.due(margin)).min();
        due.map_or(self.next_window, |due| due.min(self.next_window))
    }

    /// Forgets an ONU and tells it.
    pub fn deregister(&mut self, index: usize, ending: Ending) {
        let Some(station) = self.stations.get_mut(index).and_then(Option::take) else {
            return;
        };
        self.counters.deregistrations += 1;
        let register = Register {
            assigned_port: station.llid,
            flags: Register::DEREGISTER,
            sync_time: self.params.sync_time,
            ..Register::default()
        };
        self.send(station.llid, station.mac, Message::Register(register));
        self.tell(Event::Deregistered {
            llid: station.llid,
            ending,
        });
        self.share();
    }

    /// Who sends under an LLID that is not its own has missed the end of its registration.
    fn disown(&mut self, llid: u16, src: MacAddr) {
        self.counters.unexpected += 1;
        let register = Register {
            assigned_port: llid,
            flags: Register::DEREGISTER,
            sync_time: self.params.sync_time,
            ..Register::default()
        };
        self.send(BROADCAST_LLID, src, Message::Register(register));
    }

    fn station_mut(&mut self, llid: u16) -> Option<&mut Station> {
        let index = self.index_of(llid)?;
        self.stations.get_mut(index)?.as_mut()
    }

    /// Place of the ONU with this LLID.
    fn index_of(&self, llid: u16) -> Option<usize> {
        llid.checked_sub(self.params.first_llid).map(usize::from)
    }

    fn send(&mut self, llid: u16, dst: MacAddr, message: Message) {
        if self.queue.len() < QUEUE_MAX {
            self.queue.push_back(Outgoing { llid, dst, message });
        }
    }

    fn tell(&mut self, event: Event) {
        if self.events.len() == 4 * ONU_COUNT_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    fn share(&mut self) {
        let present = self.stations().fold(0, |set, here| set | 1 << here.index);
        self.ipact.share_among(present);
    }

    /// Earliest instant at which light of an ONU `rtt` away can answer a GATE of now.
    fn earliest(&self, rtt: u32, now: u64) -> u64 {
        // A GATE leaves behind the MPCPDUs that wait before it.
        let ahead = (self.queue.len() as u64 + 1) * MPCPDU_QUANTA;
        now + u64::from(self.params.processing + self.params.lead + rtt) + ahead
    }

    fn open_window(&mut self, now: u64) {
        let length = u64::from(self.params.discovery_window) + u64::from(self.params.rtt_max);
        let from = self.upstream.take_last(self.earliest(0, now), length);
        let to = from + length;
        self.window = Some((from, to));
        // Only one is remembered: the next opens once what came in this one is judged.
        let judged = to + u64::from(self.params.lead) + 1;
        self.next_window = judged.max(now + self.params.discovery_period);
        self.counters.windows += 1;
        let grant = Grant {
            start_time: from as u32,
            length: self.params.discovery_window,
            force_report: false,
        };
        let discovery = GateDiscovery {
            sync_time: self.params.sync_time,
            information: DiscoveryInformation::UPSTREAM_10G.with(DiscoveryInformation::WINDOW_10G),
        };
        let gate = Gate::of_discovery(grant, discovery);
        self.send(BROADCAST_LLID, mpcp::DST, Message::Gate(gate));
    }

    fn request(&mut self, mac: MacAddr, request: &RegisterReq, rtt: u32, arrival: u64, now: u64) {
        let slow = request.laser_on_time.max(request.laser_off_time) > self.params.laser_max;
        if !self.is_in_window(arrival) || request.flags != RegisterReq::REGISTER || slow {
            self.counters.unexpected += 1;
            return;
        }
        let Some(index) = self.place_for(mac) else {
            self.counters.refused += 1;
            let register = Register {
                flags: Register::NACK,
                ..Register::default()
            };
            return self.send(BROADCAST_LLID, mac, Message::Register(register));
        };
        if let Some(old) = self.stations[index].take().filter(|old| old.registered) {
            // It was switched off and on; what it had is void.
            self.counters.deregistrations += 1;
            self.tell(Event::Deregistered {
                llid: old.llid,
                ending: Ending::Told,
            });
        }
        let llid = self.params.first_llid + index as u16;
        self.stations[index] = Some(Station::new(index, llid, mac, rtt, request, now));
        self.share();
        self.register(index, now);
    }

    /// The place that an ONU has, or can have.
    fn place_for(&self, mac: MacAddr) -> Option<usize> {
        let is_its_own = |station: &Option<Station>| {
            let station = station.as_ref();
            station.is_some_and(|station| station.mac == mac)
        };
        let known = self.stations.iter().position(is_its_own);
        let reserved = || self.params.reserved.iter().position(|other| *other == mac);
        let others = self.params.reserved.len();
        let free = || (others..self.stations.len()).find(|&index| self.stations[index].is_none());
        known.or_else(reserved).or_else(free)
    }

    /// REGISTER, and a slot for REGISTER_ACK.
    fn register(&mut self, index: usize, now: u64) {
        let Some(station) = self.stations[index].as_ref() else {
            return;
        };
        let register = Register {
            assigned_port: station.llid,
            flags: Register::ACK,
            sync_time: self.params.sync_time,
            echoed_pending_grants: station.pending_grants,
            target_laser_on_time: station.laser_on,
            target_laser_off_time: station.laser_off,
        };
        self.send(BROADCAST_LLID, station.mac, Message::Register(register));
        self.grant(index, 0, now);
    }

    fn confirm(&mut self, index: usize, ack: RegisterAck, arrival: u64, now: u64) {
        let drift = u64::from(self.params.drift_max);
        let Some(station) = self.stations[index].as_mut() else {
            return;
        };
        let is_right = !station.registered
            && ack.echoed_assigned_port == station.llid
            && station.take_outstanding(arrival, drift);
        if !is_right {
            self.counters.unexpected += 1;
            return;
        }
        if ack.flags != RegisterAck::ACK {
            return self.deregister(index, Ending::Told);
        }
        station.registered = true;
        let (llid, mac, rtt) = (station.llid, station.mac, station.rtt);
        self.counters.registrations += 1;
        self.tell(Event::Registered { llid, mac, rtt });
        self.grant(index, 0, now);
    }

    /// A REPORT: the ONU's next slot becomes due.
    fn report(&mut self, index: usize, report: &Report, arrival: u64, now: u64) {
        let drift = u64::from(self.params.drift_max);
        let cycle_min = u64::from(self.params.cycle_min);
        let answer = u64::from(self.params.processing + self.params.lead);
        let Some(station) = self.stations[index].as_mut() else {
            return;
        };
        if !station.registered || !station.take_outstanding(arrival, drift) {
            self.counters.reports_unsolicited += 1;
            return;
        }
        self.counters.reports += 1;
        station.demand = demand_of(report);
        // The next slot begins no earlier than the shortest cycle after this one.
        let slot = station.slots().last().map_or(now, |slot| slot.from);
        let lead = answer + u64::from(station.rtt);
        station.wait_until((slot + cycle_min).saturating_sub(lead).max(now));
    }

    /// A station whose time has come: it gets its slot, or has lost what it had.
    fn serve(&mut self, index: usize, now: u64) {
        let margin = u64::from(self.params.report_margin);
        let timeout = self.params.timeout;
        let Some(station) = self.stations[index].as_mut() else {
            return;
        };
        if station.is_silent(now, margin) {
            station.forget_outstanding();
            self.counters.reports_missed += 1;
            if now.saturating_sub(station.last_heard) > timeout {
                return self.deregister(index, Ending::Timeout);
            }
            if !station.registered {
                station.tries += 1;
                if station.tries == CONFIRM_TRIES {
                    return self.deregister(index, Ending::Unconfirmed);
                }
                return self.register(index, now);
            }
            // What it reported last may be gone; it is asked again.
            station.demand = 0;
        }
        let demand = station.demand;
        let quanta = self.ipact.grant(index, demand);
        self.grant(index, quanta, now);
    }

    /// Hands out the next part of the line of time: `quanta` for frames, and a REPORT.
    fn grant(&mut self, index: usize, quanta: u32, now: u64) {
        let sync_time = u32::from(self.params.sync_time);
        let Some(rtt) = self.stations[index].as_ref().map(|station| station.rtt) else {
            return;
        };
        let earliest = self.earliest(rtt, now);
        let Some(station) = self.stations[index].as_mut() else {
            return;
        };
        let fixed = station.laser_time() + sync_time + report_length();
        let length = (fixed + quanta).min(GRANT_LENGTH_MAX);
        let from = self.upstream.take(earliest, length.into(), now);
        let to = from + u64::from(length);
        station.give(Slot { from, to });
        let grant = Grant {
            start_time: (from as u32).wrapping_sub(rtt),
            length: length as u16,
            force_report: station.registered,
        };
        let llid = station.llid;
        self.counters.grants += 1;
        self.counters.granted_quanta += u64::from(length);
        if let Some(gate) = Gate::new(&[grant]) {
            self.send(llid, mpcp::DST, Message::Gate(gate));
        }
    }
}

/// Quanta that an ONU asks for: the largest of its queue sets.
fn demand_of(report: &Report) -> u32 {
    let sums = report
        .queue_sets()
        .map(|set| set.iter().flatten().map(|&length| u32::from(length)).sum());
    sums.max().unwrap_or(0)
}
