//! A worker's probes: when the clock is read in a turn, and what is noted of it.
//!
//! Called by `turn` at the borders of a burst. Off, which is what all turns but one in
//! [`TURNS_PER_TIMED`] are until a packet with a mark comes, each border is one branch on a flag.
//! The clock is read only for bursts that are timed, or that hold a packet with a mark; where a
//! burst is taken after others that were not, once before it; and, while packets are chosen, behind
//! each burst that is sent into a ring.

mod cursors;

use catena_shm::pmc::{Counted, ThreadCounters};
use catena_shm::record_ring::{RecordPage, RecordWriter};
use catena_shm::tsc::Clock;

use crate::load::Load;
use crate::nf::{Nanos, Verdict};
use crate::packet::Packet;
use crate::probe::{
    COUNT_DISTANCE_NS, NodeCost, ProbeSettings, StageCounts, TURNS_PER_TIMED, Tier, Visit,
    VisitFlags,
};

/// Most random moments between two turns; a worker that was away for longer is counted as if it was
/// for so long.
const MOMENTS_MAX: u64 = 1000;
/// How long packets that are under way when tracing ends are followed.
const REST_NS: u64 = 100_000_000;

/// A packet that is followed, while its burst is at a node.
#[derive(Clone, Copy, Debug)]
struct Followed {
    mark: u16,
    /// Where it goes; `None` if it is dropped.
    output: Option<u8>,
}

/// What a visit ends with: where each output leads, and what else is to be said of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exit {
    /// Link plus one; 0 within the worker.
    pub link: u16,
    /// Whether it packs.
    pub is_packing: bool,
}

/// The probes of one worker.
#[derive(Debug)]
pub struct Probe {
    clock: Clock,
    records: Option<RecordWriter<RecordPage>>,
    settings: ProbeSettings,
    /// When no more packets are chosen; those under way are still followed for [`REST_NS`].
    ends_at: u64,
    random: u64,
    turns_left: u32,
    /// The next random moment, and how many of them lie before this turn.
    next_moment: u64,
    moments: u64,
    packets_left: u64,
    /// Logarithm of the chance that a packet is passed over.
    keep_ln: f64,
    next_mark: u16,
    /// Whether this turn's bursts are timed for tier 0.
    is_timed: bool,
    is_tracing: bool,
    is_choosing: bool,
    /// Which time it is that packets are followed.
    tracing: u64,
    /// Whether anything is to be noted from here on in this turn: it is timed, or a packet with a
    /// mark has come. Without one of those none that comes from another
    /// node of it has a mark, but such as an NF held: these are seen where they go on.
    is_on: bool,
    /// The last reading of the clock in this turn, and whether something was done since.
    last: u64,
    is_stale: bool,
    /// Why the worker did not look before this turn, and when it went on.
    pause: u8,
    resumed: u64,
    /// The burst at hand.
    visit: Visit,
    is_seen: bool,
    followed: Vec<Followed>,
    /// The processor's counters, while packets are followed and if it has any, and what they said
    /// last of the burst at hand.
    counters: Option<ThreadCounters>,
    counted: Option<Counted>,
}

impl Probe {
    /// Probes that read `clock` and write into `page`; `seed` decides which turns and packets.
    pub fn new(clock: Clock, page: Option<RecordPage>, seed: u64) -> Self {
        let mut probe = Self {
            clock,
            records: page.map(RecordWriter::new),
            settings: ProbeSettings::default(),
            ends_at: 0,
            random: seed,
            turns_left: 1,
            next_moment: 0,
            moments: 0,
            keep_ln: 0.0,
            packets_left: 0,
            next_mark: 1,
            is_timed: false,
            is_tracing: false,
            is_choosing: false,
            tracing: 0,
            is_on: false,
            last: 0,
            is_stale: false,
            pause: 0,
            resumed: 0,
            visit: Visit::default(),
            is_seen: false,
            followed: Vec::with_capacity(256),
            counters: None,
            counted: None,
        };
        probe.turns_left = probe.draw_turns();
        probe
    }

    /// What to note from now on. Called by the worker's own thread, whose counters these are.
    pub fn set(&mut self, settings: ProbeSettings, now: Nanos) {
        self.is_tracing = settings.tier > Tier::Sums && self.records.is_some();
        self.counters = match self.counters.take() {
            _ if !self.is_tracing => None,
            // Most often there are none; reports say why.
            None => ThreadCounters::open().ok(),
            open => open,
        };
        self.is_choosing = self.is_tracing;
        self.tracing += 1;
        self.settings = settings;
        self.ends_at = now.0.saturating_add(settings.duration_ns);
        self.next_mark = settings.marks.0.max(1);
        self.keep_ln = (1.0 - 1.0 / f64::from(settings.gap.max(2))).ln();
        self.packets_left = self.draw_gap();
    }

    /// Ends tracing whose time has come; for the tick.
    pub fn tick(&mut self, now: Nanos) {
        self.is_choosing &= now.0 < self.ends_at;
        self.is_tracing &= now.0 < self.ends_at.saturating_add(REST_NS);
        if !self.is_tracing {
            self.counters = None;
        }
    }

    /// Whether this turn is timed: the sums have to be stored behind it.
    #[inline]
    pub fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// How many random moments lie between the turn before and this one.
    #[inline]
    pub fn moments(&self) -> u64 {
        self.moments
    }

    /// Whether the worker has slept since its last turn with work.
    #[inline]
    pub fn has_slept(&self) -> bool {
        self.pause == VisitFlags::SLEPT
    }

    /// Counts random moments up to `now`, which are at exponential distances.
    #[cold]
    fn draw_moments(&mut self, now: u64) {
        if self.next_moment == 0 {
            self.next_moment = now;
        } else {
            self.moments = 1;
        }
        for _ in 0..MOMENTS_MAX {
            let unit = self.draw_unit();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "a time from a logarithm"
            )]
            let distance = (-unit.ln() * COUNT_DISTANCE_NS as f64) as u64;
            self.next_moment += distance;
            if self.next_moment > now {
                return;
            }
            self.moments += 1;
        }
        self.next_moment = now;
    }

    /// SplitMix64.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Above 0, at most 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits")]
    fn draw_unit(&mut self) -> f64 {
        ((self.draw() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Turns to the next timed one: 1 to twice the mean, all alike, less one.
    fn draw_turns(&mut self) -> u32 {
        let span = 2 * u64::from(TURNS_PER_TIMED) - 1;
        let turns = ((self.draw() >> 32) * span) >> 32;
        u32::try_from(turns).unwrap_or(0) + 1
    }

    /// Packets that are passed over before the next one that is followed: geometric, so that what
    /// went before says nothing of what comes, and no rhythm of bursts can hide.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of packets from a logarithm"
    )]
    fn draw_gap(&mut self) -> u64 {
        if self.settings.tier == Tier::Full || self.settings.gap <= 1 {
            return 0;
        }
        (self.draw_unit().ln() / self.keep_ln) as u64
    }

    #[inline]
    fn now(&self) -> u64 {
        self.clock.now_ns()
    }

    /// A turn begins, at the time that its worker has just read.
    #[inline]
    pub fn begin_turn(&mut self, now: Nanos) {
        self.turns_left -= 1;
        self.is_timed = self.turns_left == 0;
        if self.is_timed {
            self.turns_left = self.draw_turns();
        }
        self.is_on = self.is_timed;
        self.moments = 0;
        if now.0 >= self.next_moment {
            self.draw_moments(now.0);
        }
        (self.last, self.is_stale) = (now.0, false);
        if self.pause != 0 && self.resumed == 0 {
            self.resumed = now.0;
        }
    }

    /// The turn moved something, so what kept the worker before it is over.
    #[inline]
    pub fn end_busy_turn(&mut self) {
        (self.pause, self.resumed) = (0, 0);
    }

    /// The worker has nothing to do and gives way; the next turn begins when it goes on.
    #[inline]
    pub fn gave_way(&mut self) {
        (self.pause, self.resumed) = (VisitFlags::YIELDED, 0);
    }

    /// The worker has slept until `now`.
    #[inline]
    pub fn woke(&mut self, now: u64) {
        (self.pause, self.resumed) = (VisitFlags::SLEPT, now);
    }

    /// Something is about to be taken from a link or from the world.
    #[inline]
    pub fn before_taking(&mut self) {
        if (self.is_on | self.is_tracing) && self.is_stale {
            (self.last, self.is_stale) = (self.now(), false);
        }
    }

    /// A burst has come from the world: some of it will be followed.
    #[inline]
    pub fn received(&mut self, load: &mut Load) {
        if self.is_on | self.is_tracing {
            let count = load.packets.len() as u64;
            if self.is_choosing && self.packets_left < count {
                self.choose(&mut load.packets);
                self.is_on = true;
                self.note_received(load, self.next_mark);
            } else {
                self.packets_left = self.packets_left.saturating_sub(count);
                self.note_received(load, 0);
            }
        }
    }

    #[inline]
    fn note_received(&mut self, load: &Load, marks: u16) {
        self.note_arrival(load.count(), marks, false);
        if self.is_seen {
            self.visit.left = self.visit.entered;
            self.visit.flags = VisitFlags::new(VisitFlags::ORIGIN);
            self.follow(load, usize::MAX, |_| Some(0));
        }
    }

    /// Marks packets of a burst of which at least one is to be followed.
    #[cold]
    fn choose(&mut self, packets: &mut [Packet]) {
        let count = packets.len() as u64;
        while self.packets_left < count {
            #[expect(clippy::cast_possible_truncation, reason = "below a length")]
            let chosen = &mut packets[self.packets_left as usize];
            chosen.set_mark(self.next_mark);
            let (first, step) = self.settings.marks;
            let next = self.next_mark.checked_add(step.max(1));
            self.next_mark = next.unwrap_or(first.max(1));
            self.packets_left += 1 + self.draw_gap();
        }
        self.packets_left -= count;
    }

    /// A burst has been taken out of a link (`from_link`) or a queue; the node's work begins.
    #[inline]
    pub fn arrived(&mut self, load: &Load, from_link: bool) {
        if self.is_on | self.is_tracing {
            if !(self.is_on | from_link) {
                self.is_unseen();
                return;
            }
            let marks = if self.is_tracing { load.any_mark() } else { 0 };
            self.is_on |= marks != 0;
            self.note_arrival(load.count(), marks, !from_link);
        }
    }

    /// The port of a link has brought `load`, or sent it: from here on packets with a mark are
    /// followed. Gives how long it took, if this turn is timed.
    #[inline]
    pub fn carried(&mut self, load: &Load) -> u64 {
        self.is_on |= self.is_tracing && load.any_mark() != 0;
        if !self.is_on {
            self.is_stale = true;
            return 0;
        }
        let now = self.now();
        let before = std::mem::replace(&mut self.last, now);
        self.is_stale = false;
        if self.is_timed { now - before } else { 0 }
    }

    /// What is done now is no burst that is looked at.
    #[inline]
    pub(super) fn is_unseen(&mut self) {
        (self.is_seen, self.is_stale) = (false, true);
    }

    fn note_arrival(&mut self, count: usize, marks: u16, from_queue: bool) {
        self.is_seen = self.is_timed || (self.is_tracing && marks != 0);
        if !self.is_seen {
            self.is_stale = true;
            return;
        }
        self.followed.clear();
        self.visit.mark = marks;
        self.visit.counts = StageCounts::default();
        self.counted = self.count();
        let entered = self.now();
        self.visit.begin = if from_queue { entered } else { self.last };
        self.visit.entered = entered;
        self.visit.flags = VisitFlags::default();
        self.visit.burst = u16::try_from(count).unwrap_or(u16::MAX);
    }

    /// What the processor has counted, if the burst at hand holds a packet that is followed.
    #[inline]
    fn count(&self) -> Option<Counted> {
        match &self.counters {
            Some(counters) if self.visit.mark != 0 => counters.read(),
            _ => None,
        }
    }

    /// What was counted since the last time, of this burst.
    #[inline]
    fn counted_since(&mut self) -> Option<Counted> {
        let earlier = self.counted.take()?;
        self.counted = self.count();
        Some(self.counted?.since(&earlier))
    }

    /// An NF is done with the burst.
    #[inline]
    pub fn processed(&mut self, load: &Load, verdicts: &[Verdict]) {
        if self.is_on && self.is_seen {
            self.visit.left = self.now();
            self.visit.counts.work = self.counted_since();
            self.follow(load, usize::MAX, |at| match verdicts.get(at) {
                Some(Verdict::Drop(_) | Verdict::Kept) => None,
                Some(Verdict::Output(output)) => Some(*output),
                None => Some(0),
            });
        }
    }

    /// Finds those of the first `count` packets of the burst that have a mark; `output` says where
    /// each goes. Bundles stay whole: marks are read in their tables.
    fn follow(&mut self, load: &Load, count: usize, output: impl Fn(usize) -> Option<u8>) {
        if !(self.is_tracing && self.is_seen && self.visit.mark != 0) {
            return;
        }
        load.each_mark(|at, mark| {
            if at < count {
                let output = output(at);
                self.followed.push(Followed { mark, output });
            }
        });
    }

    /// A port has sent the first `sent` packets of the burst to the world.
    #[inline]
    pub fn transmitted(&mut self, load: &Load, sent: usize) {
        if self.is_on && self.is_seen {
            self.visit.left = self.now();
            self.visit.counts.work = self.counted_since();
            self.visit.flags = VisitFlags::new(VisitFlags::TERMINAL);
            self.follow(load, sent, |_| Some(0));
        }
    }

    /// Behind [`Probe::transmitted`]: the port has kept packets with these marks, to send them.
    #[inline]
    pub fn kept(&mut self, marks: &mut Vec<u16>) {
        let is_followed = self.is_tracing && self.is_seen && self.visit.mark != 0;
        for mark in marks.drain(..).filter(|_| is_followed) {
            let output = Some(0);
            self.followed.push(Followed { mark, output });
        }
    }

    /// The burst has been passed on by node `node`, which it had reached by link `input` minus one;
    /// `exit` says where an output leads.
    #[inline]
    pub fn sent(
        &mut self,
        node: usize,
        input: u16,
        cost: &mut NodeCost,
        exit: impl Fn(usize) -> Exit,
    ) {
        if !(self.is_on && self.is_seen) {
            return;
        }
        let is_terminal = self.visit.flags.has(VisitFlags::TERMINAL);
        let sent = if is_terminal {
            self.visit.left
        } else {
            self.visit.counts.send = self.counted_since();
            self.now()
        };
        self.visit.sent = sent;
        (self.last, self.is_stale) = (sent, false);
        let visit = &self.visit;
        if self.is_timed {
            cost.bursts += 1;
            cost.packets += u64::from(visit.burst);
            cost.take_ns += visit.entered - visit.begin.min(visit.entered);
            cost.work_ns += visit.left - visit.entered;
            cost.send_ns += sent - visit.left;
        }
        if !self.followed.is_empty() {
            self.write(node, input, exit);
        }
    }

    fn write(&mut self, node: usize, input: u16, exit: impl Fn(usize) -> Exit) {
        let Some(records) = &mut self.records else {
            return;
        };
        let base = self.visit.flags;
        let pause = if input == 0 { 0 } else { self.pause };
        for followed in self.followed.drain(..) {
            let exit = followed.output.map(|output| exit(usize::from(output)));
            let mut flags = pause;
            for (bit, is_set) in [
                (VisitFlags::ORIGIN, base.has(VisitFlags::ORIGIN)),
                (VisitFlags::TERMINAL, base.has(VisitFlags::TERMINAL)),
                (VisitFlags::DROPPED, exit.is_none()),
                (VisitFlags::PACKED, exit.is_some_and(|exit| exit.is_packing)),
            ] {
                flags |= if is_set { bit } else { 0 };
            }
            let visit = Visit {
                mark: followed.mark,
                node: u16::try_from(node).unwrap_or(u16::MAX),
                input,
                output: exit.map_or(0, |exit| exit.link),
                flags: VisitFlags::new(flags),
                resumed: (pause != 0).then_some(self.resumed),
                ..self.visit
            };
            let record = visit.to_record();
            records.push(record);
            if !visit.counts.is_empty() {
                records.push(visit.counts.to_record(&record));
            }
        }
    }
}
