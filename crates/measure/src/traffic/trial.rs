//! One trial: a profile for a while out of one port, and what came back by another.
//!
//! Generator and receiver share one loop and one core, so that both stamp by the same counter; the
//! device under test has its own. After the planned end the loop drains, and counts are taken only
//! then. The outcome tells apart what nobody may mix up: what the generator did not offer, what
//! the receiver dropped itself, and what the device lost.
//!
//! Chains measure with the ports `traffic` and `receiver` instead, which write the same records.

use std::path::PathBuf;
use std::time::Duration;

use catena_engine::nf::{DropReason, Nanos};
use catena_engine::packet::Packet;
use catena_engine::pools::Pools;
use catena_engine::port::{Port, RxBurst, RxState, TxBurst};
use catena_shm::tsc;

use super::conditions::{Conditions, Disturbance};
use super::generator::TrafficPort;
use super::latency_recorder::LatencyRecorder;
use super::plan::Plan;
use super::receiver::{ArrivalSink, ReceiveRecord, ReceiverPort, SAMPLE_COUNT};
use super::send_record::{SendRecord, Shortfall};
use super::stall_recorder::{STALL_COUNT_MAX, STALL_THRESHOLD_NS, StallRecorder};
use super::tick_rate::TickRate;
use crate::doctor::Tree;
use crate::profile::Profile;

/// Counters of ports that count what the receiving side itself dropped.
const RECEIVER_DROPS: &[&str] = &["kernel_drops"];
/// Packets in a burst.
const BURST: usize = 64;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What to send.
    pub profile: Profile,
    /// Folder of the profile, where its capture lies.
    pub dir: PathBuf,
    /// Number in the stamps. Give trials that follow each other different ones.
    pub number: u8,
    /// How long to send.
    pub duration: Duration,
    /// How long to wait for what is still under way.
    pub drain: Duration,
    /// Most samples of latency to keep.
    pub samples: usize,
}

impl Trial {
    /// A trial of `profile` for `duration`.
    pub fn new(profile: Profile, number: u8, duration: Duration) -> Self {
        Self {
            profile,
            dir: PathBuf::from("."),
            number,
            duration,
            drain: Duration::from_millis(10),
            samples: SAMPLE_COUNT,
        }
    }
}

/// What came of a trial.
#[derive(Clone, Debug)]
pub struct TrialOutcome<S> {
    /// What was sent.
    pub sent: SendRecord,
    /// What arrived.
    pub received: ReceiveRecord,
    /// How long it took.
    pub latencies: LatencyRecorder,
    /// Gaps between the loop's polls.
    pub stalls: StallRecorder,
    /// Whether less was offered than planned, and whose fault that is.
    pub shortfall: Shortfall,
    /// Packets that the sending port did not take.
    pub refused: u64,
    /// Packets that arrived and that the receiving port had no room for.
    pub receiver_lost: u64,
    /// What makes the trial invalid; it should be repeated then.
    pub disturbances: Vec<Disturbance>,
    /// The clock of all ticks.
    pub rate: TickRate,
    /// Where arrivals went.
    pub sink: S,
}

impl<S> TrialOutcome<S> {
    /// Whether the generator offered less than planned, so that the trial is none of the device.
    pub fn is_generator_limited(&self) -> bool {
        self.shortfall == Shortfall::Generator
    }

    /// Whether the receiver lost packets, so that not all loss is the device's.
    pub const fn is_receiver_limited(&self) -> bool {
        self.receiver_lost > 0
    }

    /// Packets that the device took or should have taken, and that did not come back whole.
    /// Below 0 where more came back than was sent: the trial is invalid, or the device copies.
    pub const fn device_lost(&self) -> i64 {
        self.sent.intended().cast_signed()
            - self.received.stamped.cast_signed()
            - self.receiver_lost.cast_signed()
    }

    /// Share of the offered packets that the device lost.
    pub fn loss_ratio(&self) -> f64 {
        self.device_lost() as f64 / self.sent.intended().max(1) as f64
    }
}

/// The ports of a trial.
pub struct Ways<'a> {
    /// Takes what is sent.
    pub out: &'a mut dyn Port,
    /// Gives what comes back; where `None`, `out` does.
    pub back: Option<&'a mut dyn Port>,
}

impl std::fmt::Debug for Ways<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ways").finish_non_exhaustive()
    }
}

impl Ways<'_> {
    fn back(&mut self) -> &mut dyn Port {
        match &mut self.back {
            Some(back) => *back,
            None => self.out,
        }
    }

    fn receiver_drops(&mut self) -> u64 {
        let report = self.back().report().into_iter();
        let dropped = report.filter(|(name, _)| RECEIVER_DROPS.contains(name));
        dropped.map(|(_, count)| count).sum()
    }
}

/// Runs a trial in the calling thread, which should have a core of its own.
///
/// # Errors
/// Why the profile's capture cannot be replayed, or which port failed.
pub fn run<S: ArrivalSink>(
    trial: &Trial,
    ways: &mut Ways<'_>,
    pools: &mut Pools,
    sink: S,
) -> Result<TrialOutcome<S>, String> {
    let rate = TickRate::measure(Duration::from_millis(10));
    let plan = Plan::new(&trial.profile, &trial.dir)?;
    let end_ns = u64::try_from(trial.duration.as_nanos()).unwrap_or(u64::MAX);
    let drain = rate.ticks(u64::try_from(trial.drain.as_nanos()).unwrap_or(u64::MAX));
    let mut looped = Loop {
        generator: TrafficPort::new(plan, trial.number, rate).until(end_ns),
        receiver: ReceiverPort::new(Some(trial.number), rate, trial.samples, sink),
        stalls: StallRecorder::new(rate.ticks(STALL_THRESHOLD_NS), STALL_COUNT_MAX),
        packets: Vec::with_capacity(BURST),
        drops: [0; DropReason::COUNT],
        refused: 0,
        rate,
    };
    let drops_before = ways.receiver_drops();
    let tree = Tree::new("/");
    let conditions = Conditions::read(&tree);
    let mut finished_at = None;
    loop {
        let now = tsc::ticks();
        looped.stalls.poll(now);
        if finished_at.is_none() && looped.send(ways, pools, now) {
            finished_at = Some(now);
        }
        if !looped.receive(ways, pools, now)? {
            return Err("the receiving port has failed; see its report".to_owned());
        }
        if finished_at.is_some_and(|at| now.saturating_sub(at) > drain) {
            break;
        }
    }
    let mut receiver_lost = looped.drops[DropReason::NoBuffer.index()];
    receiver_lost += ways.receiver_drops() - drops_before;
    Ok(TrialOutcome {
        disturbances: conditions.disturbances(&Conditions::read(&tree), rate),
        shortfall: looped.generator.shortfall(),
        sent: looped.generator.record().clone(),
        received: *looped.receiver.record(),
        latencies: looped.receiver.latencies().clone(),
        stalls: looped.stalls,
        refused: looped.refused,
        receiver_lost,
        rate,
        sink: looped.receiver.into_sink(),
    })
}

/// The generator and the receiver of a trial, and what their loop keeps.
struct Loop<S> {
    generator: TrafficPort,
    receiver: ReceiverPort<S>,
    stalls: StallRecorder,
    packets: Vec<Packet>,
    drops: [u64; DropReason::COUNT],
    refused: u64,
    rate: TickRate,
}

impl<S: ArrivalSink> Loop<S> {
    /// Sends what is due; says whether all was.
    fn send(&mut self, ways: &mut Ways<'_>, pools: &mut Pools, now: u64) -> bool {
        // What the generator has no buffer for stays due; it is not dropped.
        let mut drops = [0; DropReason::COUNT];
        let mut burst = RxBurst::new(pools, &mut self.packets, BURST, &mut drops);
        let engine_now = Nanos(self.rate.ns(now));
        let state = self.generator.send_due(&mut burst, now, engine_now);
        if !self.packets.is_empty() || ways.out.holds_packets() {
            let taken = ways.out.tx(&mut TxBurst::of(&mut self.packets), engine_now);
            self.refused += (self.packets.len() - taken.min(self.packets.len())) as u64;
            self.packets.drain(..).for_each(|packet| pools.free(packet));
        }
        state == RxState::Finished
    }

    /// Receives what has come; says whether the port still works.
    fn receive(
        &mut self,
        ways: &mut Ways<'_>,
        pools: &mut Pools,
        now: u64,
    ) -> Result<bool, String> {
        let mut burst = RxBurst::new(pools, &mut self.packets, BURST, &mut self.drops);
        let state = ways.back().rx(&mut burst, Nanos(self.rate.ns(now)));
        if !self.packets.is_empty() {
            let received = tsc::ticks();
            let bytes = self.packets.iter().map(Packet::bytes);
            self.receiver.take_burst(bytes, received);
            self.packets.drain(..).for_each(|packet| pools.free(packet));
        }
        Ok(state != RxState::Failed)
    }
}

#[cfg(test)]
mod tests {
    use catena_engine::own_counters::CounterSink;

    use super::*;
    use std::collections::VecDeque;

    use catena_shm::pool::{PoolGeometry, PoolOwner};
    use catena_shm::region::Sharing;
    use serde_json::json;

    /// A device that gives back what it takes, but for what the test lets it lose.
    #[derive(Default)]
    struct Device {
        queue: VecDeque<Vec<u8>>,
        taken: u64,
        /// Loses every so many packets.
        loses: u64,
        /// Damages every so many packets.
        damages: u64,
        /// Drops in the receiver's own ring.
        ring_drops: u64,
        /// Spins so long per call.
        slow_ticks: u64,
        queue_max: usize,
    }

    impl Port for Device {
        fn rx(&mut self, burst: &mut RxBurst<'_>, _now: Nanos) -> RxState {
            while burst.room() > 0 {
                let Some(frame) = self.queue.pop_front() else {
                    return RxState::Idle;
                };
                burst.push_copy(&frame);
            }
            RxState::More
        }

        fn tx(&mut self, burst: &mut TxBurst<'_>, _now: Nanos) -> usize {
            let start = tsc::ticks();
            for packet in burst.packets().iter() {
                self.taken += 1;
                if self.loses > 0 && self.taken.is_multiple_of(self.loses) {
                    continue;
                }
                let mut frame = packet.bytes().to_vec();
                if self.damages > 0 && self.taken.is_multiple_of(self.damages) {
                    frame[50] ^= 1;
                }
                if self.queue.len() == self.queue_max {
                    self.ring_drops += 1;
                } else {
                    self.queue.push_back(frame);
                }
            }
            while tsc::ticks() - start < self.slow_ticks {
                std::hint::spin_loop();
            }
            burst.count()
        }

        fn counters(&self, out: &mut CounterSink<'_>) {
            out.put("kernel_drops", self.ring_drops);
        }
    }

    #[derive(Default)]
    struct Damaged(u64);

    impl ArrivalSink for Damaged {
        fn arrived(&mut self, arrival: &crate::traffic::receiver::Arrival) {
            self.0 += u64::from(!arrival.is_valid);
        }
    }

    fn measure(device: &mut Device, rate: &str, ms: u64) -> TrialOutcome<Damaged> {
        let geometry = PoolGeometry {
            log2_stride: 7,
            buffer_count: 512,
            headroom: 0,
            bundles: false,
        };
        let owner = PoolOwner::create(1, geometry, Sharing::ReadWrite).unwrap();
        let mut pools = Pools::new(vec![owner]);
        let profile = Profile::from_json(&json!({ "load": { "rate": rate } })).unwrap();
        let trial = Trial::new(profile, 3, Duration::from_millis(ms));
        let mut ways = Ways {
            out: device,
            back: None,
        };
        run(&trial, &mut ways, &mut pools, Damaged::default()).unwrap()
    }

    #[test]
    fn injected_loss_and_damage_are_found_exactly() {
        let mut device = Device {
            loses: 10,
            damages: 7,
            queue_max: 100_000,
            ..Device::default()
        };
        let outcome = measure(&mut device, "100kpps", 20);
        let offered = outcome.sent.sent + outcome.sent.unsent;
        assert_eq!(offered, 2000);
        let sent = outcome.sent.sent;
        let lost = sent / 10;
        let damaged = sent / 7 - sent / 70;
        assert_eq!(outcome.received.stamped, sent - lost - damaged);
        assert_eq!(outcome.received.corrupted, damaged);
        assert_eq!(outcome.sink.0, damaged);
        let whole = i64::try_from(outcome.received.stamped).unwrap();
        assert_eq!(outcome.device_lost(), 2000 - whole);
        assert_eq!(outcome.latencies.count(), outcome.received.stamped);
        assert!(!outcome.is_receiver_limited());
        assert!(
            outcome
                .latencies
                .range()
                .is_some_and(|(least, _)| least >= 0)
        );
    }

    #[test]
    fn a_receiver_that_drops_is_told_apart_from_the_device() {
        let mut device = Device {
            queue_max: 1,
            ..Device::default()
        };
        let outcome = measure(&mut device, "max", 2);
        assert!(outcome.is_receiver_limited());
        assert_eq!(outcome.receiver_lost, device.ring_drops);
        assert_eq!(outcome.device_lost(), 0);
    }

    #[test]
    fn a_generator_that_is_too_slow_is_not_a_device_that_loses() {
        let mut device = Device {
            queue_max: 1_000_000,
            slow_ticks: 200_000,
            ..Device::default()
        };
        let outcome = measure(&mut device, "50Mpps", 5);
        assert!(outcome.is_generator_limited(), "{:?}", outcome.sent);
        assert!(outcome.sent.unsent > 0);
        assert!(outcome.stalls.polls() > 0);
    }
}
