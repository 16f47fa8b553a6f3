//! The port `traffic` itself: what is due is sent, and what could not be is noted.
//!
//! First step of a packet's life; `config` makes it of what a chain file says.

use std::path::PathBuf;

use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::packet::Packet;
use catena_engine::port::{Port, PortError, RxBurst, RxState};
use catena_port::buffer_wait::Buffer;
use catena_shm::tsc;
use serde::{Deserialize, Serialize};

use crate::flow_quality::sink::FLOW_COUNT_MAX;
use crate::traffic::entry_buffer::{ENTRY_SIZE, ENTRY_SIZE_MAX, EntryBuffer, Refused};
use crate::traffic::plan::Plan;
use crate::traffic::send_record::{SendRecord, Shortfall};
use crate::traffic::slices::{Moment, Slices};
use crate::traffic::source::{Due, Source};
use crate::traffic::stall_recorder::{
    STALL_COUNT_MAX, STALL_THRESHOLD_NS, StallInterval, StallRecorder,
};
use crate::traffic::tick_rate::TickRate;

/// How long after the planned end packets that are due are still sent.
pub const GRACE_NS: u64 = 20_000_000;
/// How long after the planned end what waits at the device's entry may still go in: the wait for
/// residual frames of RFC 2544 section 23.
pub const ENTRY_GRACE_NS: u64 = 2_000_000_000;
/// Gaps from this on are no work of the loop's, however long its bursts: the thread did not run.
const ABSENCE_NS: u64 = 50_000;

/// The port.
#[derive(Debug)]
pub struct TrafficPort {
    pub(super) source: Source,
    entry: EntryBuffer,
    trial: u8,
    pub(super) rate: TickRate,
    start: Option<u64>,
    pub(super) delay_ns: u64,
    /// Tick before which nothing is due: the engine sleeps or gives way until then, which is no
    /// stall, whatever else runs on its core meanwhile.
    idle_until: Option<u64>,
    /// The most room that a call ever had.
    room_max: usize,
    record: SendRecord,
    stalls: StallRecorder,
    pub(super) results: Option<PathBuf>,
    pub(super) slices: Option<Slices>,
}

/// A call's time.
#[derive(Clone, Copy, Debug)]
struct Call {
    /// Tick at which the traffic began.
    start: u64,
    /// Tick of the call.
    now: u64,
    /// Nanoseconds between them.
    elapsed_ns: u64,
}

impl TrafficPort {
    /// A port that sends `plan` for ever; see [`Self::until`].
    pub fn new(plan: Plan, trial: u8, rate: TickRate) -> Self {
        Self {
            source: Source::new(plan),
            entry: EntryBuffer::new(ENTRY_SIZE as usize),
            trial,
            rate,
            start: None,
            delay_ns: 0,
            idle_until: None,
            room_max: 0,
            record: SendRecord::default(),
            stalls: StallRecorder::new(rate.ticks(STALL_THRESHOLD_NS), STALL_COUNT_MAX),
            results: None,
            slices: None,
        }
    }

    /// Ends the traffic `end_ns` after its beginning, which is that of the trial's own packets.
    #[must_use]
    pub fn until(mut self, end_ns: u64) -> Self {
        self.source.end_at(end_ns);
        self
    }

    /// Sends for `warmup_ns` before.
    #[must_use]
    pub fn after(mut self, warmup_ns: u64) -> Self {
        self.source.warm_up(warmup_ns);
        self
    }

    /// Lets `size` packets wait at the device's entry.
    #[must_use]
    pub fn with_entry(mut self, size: u32) -> Self {
        self.entry = EntryBuffer::new(size.min(ENTRY_SIZE_MAX) as usize);
        self
    }

    /// What was sent so far.
    pub const fn record(&self) -> &SendRecord {
        &self.record
    }

    /// Gaps between calls.
    pub const fn stalls(&self) -> &StallRecorder {
        &self.stalls
    }

    /// Whether the offered load fell short of the plan, and whose fault that is.
    pub fn shortfall(&self) -> Shortfall {
        let Some(end_ns) = self.source.end_ns().filter(|_| !self.source.is_max()) else {
            return Shortfall::None;
        };
        let duration_ns = end_ns - self.source.warmup_ns();
        let stalled_ns = self.rate.ns(self.stalls.stalled());
        self.record.shortfall(duration_ns, stalled_ns)
    }

    fn note_refused(&mut self, refused: Refused) {
        self.record.entry_lost += refused.lost;
        self.record.unsent += refused.unsent;
    }

    /// Counts what was due before the end and is not going to be sent.
    fn give_up(&mut self) {
        let Some(end_ns) = self.source.end_ns().filter(|_| !self.source.is_max()) else {
            return;
        };
        if self.entry.is_used() {
            let refused = self.entry.admit(&mut self.source, end_ns);
            self.note_refused(refused);
            let refused = self.entry.give_up();
            self.note_refused(refused);
        }
        while let Some(due) = self.source.take_due(end_ns) {
            self.record.unsent += u64::from(!due.is_warmup);
        }
    }

    /// The time of a call, if the traffic has begun; otherwise how long to wait.
    fn begin(&mut self, now: u64) -> Result<Call, u64> {
        let start = match self.start {
            Some(start) => start,
            None => {
                let start = now + self.rate.ticks(self.delay_ns);
                self.start = Some(start);
                self.record.start = start + self.rate.ticks(self.source.warmup_ns());
                start
            }
        };
        if now < start {
            return Err(self.rate.ns(start - now));
        }
        Ok(Call {
            start,
            now,
            elapsed_ns: self.rate.ns(now - start),
        })
    }

    /// Notes for how long this call comes too late: since the last call, or since something was
    /// due. Says whether this thread was absent meanwhile, though it wanted to run.
    fn note_gap(&mut self, now: u64) -> bool {
        let idle_until = self.idle_until.take();
        // The chain held it back: that is the device's.
        if self.entry.is_blocked() {
            self.stalls.resume(now);
            return false;
        }
        if let Some(until) = idle_until {
            self.stalls.resume(until.min(now));
        }
        let gap = self.stalls.poll(now);
        gap.is_some_and(|gap| self.rate.ns(gap.end - gap.start) > ABSENCE_NS)
    }

    /// Nothing is to be done for `wait_ns` from tick `now` on.
    fn wait(&mut self, now: u64, engine_now: Nanos, wait_ns: u64) -> RxState {
        self.idle_until = Some(now.saturating_add(self.rate.ticks(wait_ns)));
        RxState::Until(engine_now.plus(wait_ns))
    }

    /// The chain takes nothing at tick `now`.
    pub fn held_back(&mut self, now: u64) {
        // From the last call on, if that used up what room there was.
        self.entry.block();
        self.note_gap(now);
        if self.source.is_max() || self.slices.is_some() {
            return;
        }
        if let Ok(call) = self.begin(now) {
            let refused = self.entry.admit(&mut self.source, call.elapsed_ns);
            self.note_refused(refused);
        }
    }

    /// Sends what is due at tick `now`, into `burst`; `engine_now` is the same instant on the
    /// engine's clock.
    pub fn send_due(&mut self, burst: &mut RxBurst<'_>, now: u64, engine_now: Nanos) -> RxState {
        let was_absent = self.note_gap(now);
        match self.slices.as_ref().map(|slices| slices.at(now)) {
            Some(Moment::Over) => return RxState::Finished,
            Some(Moment::Wait(tick)) => {
                let wait_ns = self.rate.ns(tick - now);
                return self.wait(now, engine_now, wait_ns);
            }
            Some(Moment::Own) | None => {}
        }
        let call = match self.begin(now) {
            Ok(call) => call,
            Err(wait_ns) => return self.wait(now, engine_now, wait_ns),
        };
        if was_absent {
            self.entry.ready(call.elapsed_ns);
        }
        if self.entry.is_used() && !self.source.is_max() {
            let refused = self.entry.admit(&mut self.source, call.elapsed_ns);
            self.note_refused(refused);
        }
        self.entry.unblock();
        let room = burst.room();
        self.room_max = self.room_max.max(room);
        let mut is_out_of_buffers = false;
        while burst.room() > 0 {
            if self.entry.is_empty() {
                let due_ns = self.source.due_ns(call.elapsed_ns);
                if self.source.is_over(due_ns) {
                    return RxState::Finished;
                }
                if due_ns > call.elapsed_ns {
                    self.entry.ready(call.elapsed_ns);
                    return self.wait(now, engine_now, due_ns - call.elapsed_ns);
                }
            }
            if self.is_past_grace(call.elapsed_ns) {
                self.give_up();
                return RxState::Finished;
            }
            if self.send_next(burst, call).is_none() {
                is_out_of_buffers = true;
                break;
            }
        }
        self.note_backlog(call.elapsed_ns, is_out_of_buffers || room < self.room_max);
        RxState::More
    }

    fn is_past_grace(&self, elapsed_ns: u64) -> bool {
        let grace_ns = if self.entry.is_empty() {
            GRACE_NS
        } else {
            ENTRY_GRACE_NS
        };
        let end_ns = self.source.end_ns();
        end_ns.is_some_and(|end_ns| elapsed_ns >= end_ns + grace_ns)
    }

    /// Sends the packet whose turn it is; `None` if there is no buffer for it now.
    #[inline]
    fn send_next(&mut self, burst: &mut RxBurst<'_>, call: Call) -> Option<()> {
        let waiting = self.entry.pop();
        let len = match &waiting {
            Some(waiting) => waiting.due.planned.len,
            None => self.source.plan().len_max(),
        };
        // Before a packet is taken from the plan: what cannot be sent now stays there.
        let Some(packet) = burst.try_alloc(len) else {
            let answer = Buffer::ask(burst, len);
            if answer == Buffer::Never {
                let due = waiting.map(|waiting| waiting.due);
                let due = due.or_else(|| self.source.take_due(call.elapsed_ns))?;
                self.record.unsent += u64::from(!due.is_warmup);
                return Some(());
            }
            if let Some(waiting) = waiting {
                self.entry.put_back(waiting);
            }
            return (answer == Buffer::Ready).then_some(());
        };
        let found = match waiting {
            Some(waiting) => Some((waiting.due, waiting.late_ns)),
            None => {
                let due = self.source.take_due(call.elapsed_ns);
                due.map(|due| (due, call.elapsed_ns - due.planned.due_ns))
            }
        };
        match found {
            Some((due, late_ns)) => {
                self.send_one(burst, packet, due, call, late_ns);
                Some(())
            }
            None => {
                burst.discard(packet);
                None
            }
        }
    }

    /// Fills `packet` with `due`, with which the tester is `late_ns` late.
    #[inline]
    fn send_one(
        &mut self,
        burst: &mut RxBurst<'_>,
        mut packet: Packet,
        Due { planned, is_warmup }: Due,
        call: Call,
        late_ns: u64,
    ) {
        if planned.len != packet.len() && packet.set_len(planned.len).is_err() {
            // A plan never gives a longer packet than it announced.
            burst.discard(packet);
            self.record.unsent += 1;
            return;
        }
        let intended = if self.source.is_max() {
            call.now
        } else {
            call.start + self.rate.ticks(planned.due_ns)
        };
        let times = (intended, self.rate.ticks(late_ns));
        let trial = Source::trial_number(self.trial, is_warmup);
        self.source
            .plan()
            .write(&planned, trial, times, packet.bytes_mut());
        burst.push(packet);
        if is_warmup {
            self.record.warmup += 1;
            return;
        }
        let ready_ns = planned.due_ns + late_ns;
        self.record.last = call.now;
        self.record
            .note_ready(ready_ns.saturating_sub(self.source.warmup_ns()));
        self.record.note_held(call.elapsed_ns - ready_ns);
        self.record
            .note_sent(planned.len, late_ns, planned.flow.is_some());
    }

    /// Notes that a call ended with its room used up, and why if something is still due.
    fn note_backlog(&mut self, elapsed_ns: u64, is_held_back: bool) {
        if self.source.is_max() {
            return;
        }
        let is_behind = !self.entry.is_empty() || self.source.due_ns(elapsed_ns) <= elapsed_ns;
        if is_behind && is_held_back {
            self.entry.block();
            self.record.behind_by_chain += 1;
        } else if self.entry.is_empty() {
            self.entry.ready(elapsed_ns);
            self.record.behind_by_generator += u64::from(is_behind);
        }
    }
}

/// What a `traffic` port writes to its results file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SendResults {
    /// What was sent.
    pub record: SendRecord,
    /// Whether that is less than planned, and why.
    pub shortfall: Shortfall,
    /// Gaps between calls, in ticks.
    pub stalls: Vec<StallInterval>,
    /// Gaps that the list did not hold.
    pub stalls_missed: u64,
    /// Nanoseconds in a tick.
    pub ns_per_tick: f64,
    /// Packets of each flow that were sent or due, from flow 0; of the first flows only.
    pub offered_by_flow: Vec<u64>,
}

impl Port for TrafficPort {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        self.send_due(burst, tsc::ticks(), now)
    }

    fn blocked(&mut self, _now: Nanos) {
        self.held_back(tsc::ticks());
    }

    fn close(&mut self) -> Result<(), PortError> {
        self.give_up();
        let Some(path) = &self.results else {
            return Ok(());
        };
        let offered = self.source.taken_by_flow();
        let results = SendResults {
            record: self.record.clone(),
            shortfall: self.shortfall(),
            stalls: self.stalls.intervals().to_vec(),
            stalls_missed: self.stalls.missed(),
            ns_per_tick: self.rate.ns_per_tick(),
            offered_by_flow: offered.iter().take(FLOW_COUNT_MAX).copied().collect(),
        };
        crate::traffic::receiver::write_results(path, &results)
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        out.extend([
            ("made", self.record.sent),
            ("unsent", self.record.unsent),
            ("entry_lost", self.record.entry_lost),
            ("warmup", self.record.warmup),
            ("unstamped", self.record.unstamped),
            ("late_max_ns", self.record.late_max_ns),
            ("held_max_ns", self.record.held_max_ns),
            ("behind_by_chain", self.record.behind_by_chain),
            ("behind_by_generator", self.record.behind_by_generator),
            ("stalled_ns", self.rate.ns(self.stalls.stalled())),
            (
                "flow_numbers",
                u64::from(self.source.plan().flow_number_end()),
            ),
        ]);
    }
}

#[cfg(test)]
#[path = "../generator_tests.rs"]
mod tests;
