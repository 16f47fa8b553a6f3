//! The event loop of a simulation: stations are told of frames and instants, without a clock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use catena_port::random::Random;
use catena_wire::ethernet::MacAddr;
use catena_wire::mpcp::Header;

use super::super::burst_time::{CODEWORD_OCTETS, OPENING_OCTETS, frame_octets};
use super::super::ipact::SettingsError;
use super::super::olt::{Event as OltEvent, Olt, Outgoing};
use super::super::onu::{self, BROADCAST_LLID, Burst, Onu, Purpose, State};
use super::clock::{Oscillator, QUANTUM_PS, SECOND_PS};
use super::line::Line;
use super::report::{Delays, OnuReport, Report};
use super::scenario::{FIBRE_PS_PER_M, OnuScenario, REGISTRATION_PS_MAX, Scenario};
use super::traffic::{Frame, Source};

/// Picoseconds of a codeword: 2046 bits.
const CODEWORD_PS: u64 = 198_400;
/// How often an ONU looks at its timers.
const ONU_TIMER_PS: u64 = 10_000_000_000;
/// Where a station's oscillator starts, at most.
const PHASE_MAX_PS: u64 = 100 * SECOND_PS;

/// What happens at an instant.
#[derive(Debug)]
enum Happening {
    /// The OLT may have something to send.
    OltPolls,
    /// An MPCPDU reaches an ONU.
    OnuHears(usize, Outgoing, u32),
    /// The time of an ONU's slot may have come.
    OnuSends(usize),
    /// An ONU looks at its timers.
    OnuTimer(usize),
    /// The MPCPDU that opens a burst reaches the OLT.
    OltHears(Box<Heard>),
    /// An ONU is switched on or off.
    Power(usize, bool),
    /// The OLT is switched off and on.
    OltRestarts,
}

/// The MPCPDU that opens a burst.
#[derive(Debug)]
struct Heard {
    onu: usize,
    burst: u64,
    llid: u16,
    pdu: Header,
    arrival_ps: u64,
    purpose: Purpose,
    /// From laser on to laser off.
    span_ps: (u64, u64),
}

struct Entry {
    at_ps: u64,
    order: u64,
    what: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at_ps, self.order) == (other.at_ps, other.order)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ps, self.order).cmp(&(other.at_ps, other.order))
    }
}

/// One ONU with its fibre, oscillator, traffic and queue.
struct Station {
    onu: Onu,
    is_on: bool,
    /// How often it was switched on.
    lives: u64,
    mac: MacAddr,
    fibre_ps: u64,
    oscillator: Oscillator,
    source: Source,
    coming: Option<Frame>,
    queue: VecDeque<Frame>,
    queue_octets: u64,
    delays_ns: Vec<u32>,
    report: OnuReport,
    offered_octets: u64,
    delivered_octets: u64,
    last_slot_ps: Option<u64>,
    grants_before: u64,
    requests_before: u64,
}

struct Simulation<'a> {
    scenario: &'a Scenario,
    now_ps: u64,
    events: BinaryHeap<Reverse<Entry>>,
    order: u64,
    olt: Olt,
    oscillator: Oscillator,
    /// Until when an MPCPDU is on its way out.
    olt_busy_ps: u64,
    /// When the OLT polls next, so that it is not told twice.
    olt_poll_ps: u64,
    stations: Vec<Station>,
    line: Line,
    random: Random,
    report: Report,
    cycles: (u64, u64),
    /// From when on frames are counted, and until when; far away while ONUs register.
    counted_ps: (u64, u64),
    /// Quanta that were granted before.
    granted_before: Option<u64>,
}

/// Simulates a PON.
///
/// # Errors
/// If the OLT's settings cannot be met.
pub fn run(scenario: &Scenario) -> Result<Report, SettingsError> {
    let mut simulation = Simulation::new(scenario)?;
    while let Some(Reverse(entry)) = simulation.events.pop() {
        if entry.at_ps > REGISTRATION_PS_MAX {
            simulation.begin_warm_up();
        }
        if entry.at_ps > simulation.counted_ps.1 {
            break;
        }
        simulation.now_ps = entry.at_ps;
        if entry.at_ps >= simulation.counted_ps.0 {
            let granted = simulation.olt.counters().granted_quanta;
            simulation.granted_before.get_or_insert(granted);
        }
        simulation.happen(entry.what);
    }
    Ok(simulation.finish())
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario) -> Result<Self, SettingsError> {
        let mut random = Random::new(scenario.seed);
        let oscillator = Oscillator::new(random.below(PHASE_MAX_PS), 0);
        let mut simulation = Self {
            scenario,
            now_ps: 0,
            events: BinaryHeap::new(),
            order: 0,
            olt: Olt::new(scenario.olt.clone(), oscillator.quanta(0))?,
            oscillator,
            olt_busy_ps: 0,
            olt_poll_ps: u64::MAX,
            stations: Vec::new(),
            line: Line::default(),
            random: Random::new(random.next()),
            report: empty_report(scenario),
            cycles: (0, 0),
            counted_ps: match scenario.awaits_all {
                true => (u64::MAX, u64::MAX),
                false => (scenario.warm_up_ps, scenario.duration_ps),
            },
            granted_before: None,
        };
        for (index, onu) in scenario.onus.iter().enumerate() {
            let station = Station::new(index, onu, scenario, &mut random);
            simulation.stations.push(station);
            simulation.at(onu.on_at_ps, Happening::Power(index, true));
            if let Some(off) = onu.off_at_ps {
                simulation.at(off, Happening::Power(index, false));
            }
        }
        if let Some(at) = scenario.olt_restart_ps {
            simulation.at(at, Happening::OltRestarts);
        }
        simulation.poll_olt_at(0);
        Ok(simulation)
    }

    /// All ONUs are there: counting begins when the warm-up is over. Once only.
    fn begin_warm_up(&mut self) {
        if self.counted_ps.0 == u64::MAX {
            let scenario = self.scenario;
            let counted_ps = scenario.duration_ps.saturating_sub(scenario.warm_up_ps);
            let from = self.now_ps + scenario.warm_up_ps;
            self.counted_ps = (from, from + counted_ps);
        }
    }

    fn at(&mut self, at_ps: u64, what: Happening) {
        self.order += 1;
        self.events.push(Reverse(Entry {
            at_ps: at_ps.max(self.now_ps),
            order: self.order,
            what,
        }));
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::OltPolls => self.poll_olt(),
            Happening::OnuHears(onu, out, timestamp) => self.onu_hears(onu, out, timestamp),
            Happening::OnuSends(onu) => self.onu_sends(onu),
            Happening::OnuTimer(onu) => {
                let station = &mut self.stations[onu];
                if station.is_on {
                    let now = station.oscillator.quanta(self.now_ps);
                    station.onu.poll(now);
                    self.at(self.now_ps + ONU_TIMER_PS, Happening::OnuTimer(onu));
                }
            }
            Happening::OltHears(heard) => self.olt_hears(&heard),
            Happening::Power(onu, on) => self.power(onu, on),
            Happening::OltRestarts => self.restart_olt(),
        }
    }

    fn restart_olt(&mut self) {
        self.report.add_olt(self.olt.counters());
        let mut params = self.scenario.olt.clone();
        params.first_llid = params.first_llid.wrapping_add(1000);
        let now = self.oscillator.quanta(self.now_ps);
        if let Ok(olt) = Olt::new(params, now) {
            self.olt = olt;
        }
        self.poll_olt_at(self.now_ps);
    }

    fn power(&mut self, onu: usize, on: bool) {
        let station = &mut self.stations[onu];
        station.is_on = on;
        if !on {
            station.queue.clear();
            station.queue_octets = 0;
            return;
        }
        station.lives += 1;
        let seed = station.lives << 32 ^ self.scenario.seed << 8 ^ onu as u64;
        station.grants_before += station.onu.counters().grants;
        station.requests_before += station.onu.counters().requests;
        station.onu = Onu::new(params(station.mac, seed, self.scenario.laser));
        self.at(self.now_ps + ONU_TIMER_PS, Happening::OnuTimer(onu));
    }

    /// Makes sure that the OLT polls at `at_ps` or before.
    fn poll_olt_at(&mut self, at_ps: u64) {
        let at_ps = at_ps.max(self.olt_busy_ps);
        if at_ps < self.olt_poll_ps || self.olt_poll_ps <= self.now_ps {
            self.olt_poll_ps = at_ps;
            self.at(at_ps, Happening::OltPolls);
        }
    }

    fn poll_olt(&mut self) {
        if self.now_ps < self.olt_busy_ps {
            return;
        }
        self.olt_poll_ps = u64::MAX;
        let now = self.oscillator.quanta(self.now_ps);
        let sent = self.olt.poll(now);
        self.note_events();
        let Some(out) = sent else {
            let due = self.oscillator.time_ps(self.olt.next_due().max(now + 1));
            return self.poll_olt_at(due);
        };
        // It leaves when the clock shows the next whole quantum, as its timestamp says.
        let timestamp = now + 1;
        let left_ps = self.oscillator.time_ps(timestamp);
        self.olt_busy_ps = left_ps + CODEWORD_PS;
        for onu in 0..self.stations.len() {
            if !self.is_lost() {
                let at = left_ps + self.stations[onu].fibre_ps;
                self.at(at, Happening::OnuHears(onu, out, timestamp as u32));
            }
        }
        self.poll_olt_at(self.olt_busy_ps);
    }

    fn is_lost(&mut self) -> bool {
        let share = self.scenario.loss;
        share > 0.0 && (self.random.below(1 << 53) as f64) < share * (1_u64 << 53) as f64
    }

    fn note_events(&mut self) {
        while let Some(event) = self.olt.next_event() {
            if let OltEvent::Registered { mac, rtt, .. } = event {
                let at_ms = self.now_ps as f64 / 1e9;
                if let Some(station) = self.stations.iter_mut().find(|here| here.mac == mac) {
                    station.report.registered_ms.get_or_insert(at_ms);
                    station.report.rtt_quanta = Some(rtt);
                }
                let is_on = self.stations.iter().filter(|station| station.is_on);
                if self.olt.registered() == is_on.count() {
                    self.begin_warm_up();
                }
            }
        }
    }

    fn onu_hears(&mut self, index: usize, out: Outgoing, timestamp: u32) {
        let station = &mut self.stations[index];
        let is_for_it = out.llid == BROADCAST_LLID || station.onu.llid() == Some(out.llid);
        if !station.is_on || !is_for_it {
            return;
        }
        let pdu = Header {
            timestamp,
            message: out.message,
        };
        let now = station.oscillator.quanta(self.now_ps);
        station.onu.handle(out.llid, out.dst, &pdu, now);
        if let Some(slot) = station.onu.next_slot() {
            let at = station.oscillator.time_ps(slot);
            self.at(at, Happening::OnuSends(index));
        }
    }

    fn onu_sends(&mut self, index: usize) {
        let station = &mut self.stations[index];
        let now = station.oscillator.quanta(self.now_ps);
        if !station.is_on {
            return;
        }
        let Some(burst) = station.onu.take_burst(now) else {
            return;
        };
        let (from, to) = (
            station.oscillator.time_ps(burst.laser_on) + station.fibre_ps,
            station.oscillator.time_ps(burst.laser_off) + station.fibre_ps,
        );
        let first_ps = station.oscillator.time_ps(burst.first_octet);
        let counted_from = self.counted_ps.0;
        station.arrive(self.now_ps, self.scenario, counted_from);
        if burst.purpose != Purpose::Frames {
            station.forget(counted_from);
        }
        let pdu = station.fill(&burst, first_ps, counted_from);
        if burst.purpose == Purpose::Frames
            && self.now_ps >= counted_from
            && let Some(last) = station.last_slot_ps.replace(self.now_ps)
        {
            self.cycles.0 += self.now_ps - last;
            self.cycles.1 += 1;
        }
        let arrival_ps = first_ps + station.fibre_ps;
        let llid = station.onu.llid().unwrap_or(BROADCAST_LLID);
        if let Some(slot) = station.onu.next_slot() {
            let at = station.oscillator.time_ps(slot);
            self.at(at, Happening::OnuSends(index));
        }
        let hits = self.line.hits;
        let id = self.line.add(index, from, to, self.now_ps);
        let hits = self.line.hits - hits;
        if burst.purpose == Purpose::Request {
            self.report.requests_hit += hits;
        } else {
            self.report.frame_bursts_hit += hits;
        }
        if self.is_lost() {
            return;
        }
        let heard = Heard {
            onu: index,
            burst: id,
            llid,
            pdu,
            arrival_ps,
            purpose: burst.purpose,
            span_ps: (from, to),
        };
        // A request is judged when its burst is over, since another may still hit it.
        let at = match burst.purpose {
            Purpose::Request => to,
            _ => arrival_ps + CODEWORD_PS,
        };
        self.at(at, Happening::OltHears(Box::new(heard)));
    }

    fn olt_hears(&mut self, heard: &Heard) {
        if !self.line.is_whole(heard.burst) {
            return;
        }
        let arrival = self.oscillator.quanta(heard.arrival_ps);
        if heard.purpose != Purpose::Request && self.olt.station(heard.llid).is_some() {
            let from = self.oscillator.quanta(heard.span_ps.0);
            let to = self.oscillator.quanta(heard.span_ps.1);
            let is_inside = self.olt.is_granted(heard.llid, from, to);
            self.report.bursts_outside_slot += u64::from(!is_inside);
        }
        let now = self.oscillator.quanta(self.now_ps);
        let src = self.stations[heard.onu].mac;
        self.olt.handle(heard.llid, src, &heard.pdu, arrival, now);
        self.poll_olt_at(self.now_ps);
    }

    fn finish(mut self) -> Report {
        self.note_events();
        let (from_ps, end_ps) = self.counted_ps;
        let counted_ps = end_ps.saturating_sub(from_ps);
        let seconds = counted_ps as f64 / SECOND_PS as f64;
        self.report.seconds = end_ps as f64 / SECOND_PS as f64;
        self.report.warm_up_ms = from_ps as f64 / 1e9;
        self.report.add_olt(self.olt.counters());
        self.report.registered = self.olt.registered();
        let line = counted_ps / QUANTUM_PS;
        let granted = self.olt.counters().granted_quanta;
        let granted = granted.saturating_sub(self.granted_before.unwrap_or(granted));
        self.report.granted_share = granted as f64 / line.max(1) as f64;
        if self.cycles.1 > 0 {
            self.report.cycle_mean_us = self.cycles.0 as f64 / self.cycles.1 as f64 / 1e6;
        }
        let mut all = Vec::new();
        for mut station in self.stations {
            // What came after its last burst is offered, too.
            if station.is_on {
                station.arrive(end_ps, self.scenario, from_ps);
            }
            let counters = *station.onu.counters();
            let mac = station.mac;
            let known = self.olt.stations().find(|here| here.mac == mac);
            all.extend_from_slice(&station.delays_ns);
            let offered_bps = station.offered_octets as f64 * 8.0 / seconds;
            let delivered_bps = station.delivered_octets as f64 * 8.0 / seconds;
            self.report.offered_load += Report::share(offered_bps);
            self.report.utilisation += Report::share(delivered_bps);
            self.report.onus.push(OnuReport {
                llid: known.filter(|here| here.registered).map(|here| here.llid),
                offered_bps,
                delivered_bps,
                grants: station.grants_before + counters.grants,
                requests: station.requests_before + counters.requests,
                delay: Delays::of(&mut station.delays_ns),
                ..station.report
            });
        }
        self.report.delay = Delays::of(&mut all);
        self.report
    }
}

fn params(mac: MacAddr, seed: u64, laser: u8) -> onu::Params {
    onu::Params {
        mac,
        seed,
        laser_on: laser,
        laser_off: laser,
        ..onu::Params::default()
    }
}

/// Address of an ONU by its number in the scenario.
pub fn mac_of(onu: usize) -> MacAddr {
    let [high, low] = (onu as u16).to_be_bytes();
    MacAddr([2, 0, 0, 1, high, low])
}

impl Station {
    fn new(index: usize, scenario: &OnuScenario, whole: &Scenario, random: &mut Random) -> Self {
        let mac = mac_of(index);
        let fibre_ps = scenario.distance_m * FIBRE_PS_PER_M;
        let phase_ps = random.below(PHASE_MAX_PS);
        let mut source = Source::new(scenario.traffic, scenario.load_bps, random.next());
        Self {
            onu: Onu::new(params(mac, whole.seed ^ index as u64, whole.laser)),
            is_on: false,
            lives: 0,
            mac,
            fibre_ps,
            oscillator: Oscillator::new(phase_ps, scenario.clock_ppb),
            coming: source.next_frame(),
            source,
            queue: VecDeque::new(),
            queue_octets: 0,
            delays_ns: Vec::new(),
            report: empty_onu(index, scenario),
            offered_octets: 0,
            delivered_octets: 0,
            last_slot_ps: None,
            grants_before: 0,
            requests_before: 0,
        }
    }

    /// Queues the frames that have come until `now_ps`. Only bursts take frames out, so that this
    /// is soon enough at each of them.
    fn arrive(&mut self, now_ps: u64, scenario: &Scenario, counted_from_ps: u64) {
        while let Some(frame) = self.coming.filter(|frame| frame.at_ps <= now_ps) {
            self.coming = self.source.next_frame();
            let octets = frame_octets(usize::from(frame.len));
            let counts = frame.at_ps >= counted_from_ps;
            self.report.offered_frames += u64::from(counts);
            self.offered_octets += if counts { octets } else { 0 };
            if self.queue_octets + octets > scenario.queue_octets {
                self.report.dropped_frames += u64::from(counts);
                continue;
            }
            self.queue_octets += octets;
            self.queue.push_back(frame);
        }
    }

    /// It was not registered until now: what its users sent is gone.
    fn forget(&mut self, counted_from_ps: u64) {
        let counted = self.queue.iter();
        let counted = counted.filter(|frame| frame.at_ps >= counted_from_ps);
        self.report.dropped_frames += counted.count() as u64;
        self.queue.clear();
        self.queue_octets = 0;
    }

    /// Fills a burst whose first octet leaves at `first_ps`; gives the MPCPDU that opens it.
    fn fill(&mut self, burst: &Burst, first_ps: u64, warm_up_ps: u64) -> Header {
        let mut used = frame_octets(0);
        while let Some(frame) = self.queue.front().copied() {
            let octets = frame_octets(usize::from(frame.len));
            if burst.purpose != Purpose::Frames || used + octets > burst.octets {
                break;
            }
            used += octets;
            self.queue.pop_front();
            self.queue_octets -= octets;
            let last_ps = first_ps + self.fibre_ps + until_received(used);
            let delay_ns = last_ps.saturating_sub(frame.at_ps) / 1000;
            if last_ps >= warm_up_ps {
                self.delivered_octets += octets;
            }
            if frame.at_ps >= warm_up_ps {
                self.report.delivered_frames += 1;
                self.delays_ns
                    .push(u32::try_from(delay_ns).unwrap_or(u32::MAX));
            }
        }
        debug_assert!(burst.purpose != Purpose::Frames || self.onu.state() == State::Registered);
        self.onu.message(burst, self.queue_octets)
    }
}

/// Picoseconds from the first octet of a burst until the codeword with octet `offset` is received.
const fn until_received(offset: u64) -> u64 {
    (offset + OPENING_OCTETS).div_ceil(CODEWORD_OCTETS) * CODEWORD_PS
}

fn empty_report(scenario: &Scenario) -> Report {
    Report {
        seed: scenario.seed,
        seconds: 0.0,
        warm_up_ms: 0.0,
        offered_load: 0.0,
        utilisation: 0.0,
        granted_share: 0.0,
        registered: 0,
        frame_bursts_hit: 0,
        bursts_outside_slot: 0,
        requests_hit: 0,
        cycle_mean_us: 0.0,
        windows: 0,
        grants: 0,
        reports: 0,
        reports_missed: 0,
        registrations: 0,
        deregistrations: 0,
        delay: Delays::default(),
        onus: Vec::new(),
    }
}

fn empty_onu(onu: usize, scenario: &OnuScenario) -> OnuReport {
    let rtt_ps = 2 * scenario.distance_m * FIBRE_PS_PER_M;
    OnuReport {
        onu,
        distance_m: scenario.distance_m,
        llid: None,
        registered_ms: None,
        rtt_quanta: None,
        rtt_true_quanta: rtt_ps as f64 / QUANTUM_PS as f64,
        offered_frames: 0,
        offered_bps: 0.0,
        delivered_frames: 0,
        delivered_bps: 0.0,
        dropped_frames: 0,
        grants: 0,
        requests: 0,
        delay: Delays::default(),
    }
}

#[cfg(test)]
mod tests;
