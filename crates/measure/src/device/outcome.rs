//! What came of a trial of a device, judged by what both of its ports wrote. Pure.

use crate::flow_quality::Quality;
use crate::flow_quality::sink::FlowResult;
use crate::latency::Sample;
use crate::latency::stall::{Flight, Stall, StallCause};
use crate::search::TrialResult;
use crate::search::held::Held;
use crate::traffic::TickRate;
use crate::traffic::conditions::Disturbance;
use crate::traffic::generator::SendResults;
use crate::traffic::receiver::ReceiveResults;
use crate::traffic::send_record::Shortfall;
use crate::traffic::stall_recorder::StallInterval;

use super::offer::Offer;
use super::spent::Spent;
use crate::doctor::energy::Energy;

/// Numbers of the flow in [`Sample::sequence`] begin at this bit, so that packets of two flows are
/// never neighbours.
const FLOW_SHIFT: u32 = 40;
/// Most packets, as a share, that ports of the tester may drop in a trial at a load.
const TESTER_LOSS_MAX: f64 = 0.001;
/// The loops whose stalls are known: that of the generator and that of the receiver.
pub const LOOPS: [u16; 2] = [0, 1];

/// A stall of the generator begins when a packet is due, told in ticks by two ways that may round
/// differently.
const DUE_ROUNDING_NS: u64 = 100;

/// Whether a trial says something of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It does.
    Valid,
    /// The machine disturbed it; it is to be repeated.
    Disturbed(Vec<Disturbance>),
    /// The generator offered less than it was told to: its result, not the device's.
    GeneratorLimited,
    /// The tester's own ports lost packets: what the device lost is not known.
    TesterLoss(u64),
    /// The counts contradict each other.
    Contradictory(String),
}

impl Fate {
    /// The name by which reports call it, unless it is valid.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Valid => None,
            Self::Disturbed(what) => {
                let names = what.iter().map(|one| format!("{one:?}"));
                Some(format!(
                    "disturbed: {}",
                    names.collect::<Vec<_>>().join(", ")
                ))
            }
            Self::GeneratorLimited => Some("generator-limited".to_owned()),
            Self::TesterLoss(count) => Some(format!(
                "tester-limited: its own ports lost {count} packets"
            )),
            Self::Contradictory(why) => Some(why.clone()),
        }
    }
}

/// What came of a trial.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was asked for.
    pub offer: Offer,
    /// What the port `traffic` wrote.
    pub sent: SendResults,
    /// What the port `receiver` wrote.
    pub received: ReceiveResults,
    /// What disturbed it.
    pub disturbances: Vec<Disturbance>,
    /// Packets that ports of the tester dropped, where it reaches the device over such.
    pub tester_lost: u64,
    /// Energy that the machine's meters counted meanwhile, if it has any.
    pub energy: Option<Energy>,
    /// What the device's workers spent meanwhile, if they are processes of their own.
    pub spent: Option<Spent>,
    rate: TickRate,
    is_over_ports: bool,
}

impl Outcome {
    pub(super) fn new(
        offer: Offer,
        sent: SendResults,
        received: ReceiveResults,
        disturbances: Vec<Disturbance>,
    ) -> Self {
        Self {
            is_over_ports: false,
            tester_lost: 0,
            energy: None,
            spent: None,
            rate: TickRate::from_ns_per_tick(sent.ns_per_tick),
            offer,
            sent,
            received,
            disturbances,
        }
    }

    /// The same, offered over ports of the tester, which dropped `lost`: what its first link would
    /// not take is then the tester's own limit, and nothing else tells how the device does.
    pub(super) const fn over_ports(mut self, lost: u64) -> Self {
        self.is_over_ports = true;
        self.tester_lost = lost + self.sent.record.entry_lost;
        self
    }

    /// Packets that should have been offered: all that were due.
    pub const fn intended(&self) -> u64 {
        self.sent.record.intended()
    }

    /// Whole packets that came back, each once.
    pub fn forwarded(&self) -> u64 {
        let duplicates: u64 = self
            .flows()
            .iter()
            .map(|flow| flow.quality.duplicates)
            .sum();
        self.received.record.stamped.saturating_sub(duplicates)
    }

    /// What became of the flows that were followed.
    pub fn flows(&self) -> &[FlowResult] {
        &self.received.flows
    }

    /// Sum over the flows that were followed.
    pub fn quality(&self) -> Quality {
        let mut total = Quality::default();
        self.flows()
            .iter()
            .for_each(|flow| total.add(&flow.quality));
        total.corrupted = self.received.record.corrupted;
        total
    }

    /// Lost packets of each flow that was followed, of those that were sent or due.
    pub fn lost_by_flow(&self) -> impl Iterator<Item = (u32, u64)> {
        self.flows().iter().filter_map(|flow| {
            let offered = self.sent.offered_by_flow.get(flow.flow as usize)?;
            Some((flow.flow, flow.quality.lost(*offered)))
        })
    }

    /// Whether it says something of the device.
    pub fn fate(&self) -> Fate {
        let (intended, forwarded) = (self.intended(), self.forwarded());
        if !self.disturbances.is_empty() {
            Fate::Disturbed(self.disturbances.clone())
        } else if self.is_generator_limited() {
            Fate::GeneratorLimited
        } else if self.offer.load_pps.is_some()
            && self.tester_lost as f64 > intended as f64 * TESTER_LOSS_MAX
        {
            Fate::TesterLoss(self.tester_lost)
        } else if intended == 0 {
            Fate::Contradictory(
                "no stamped packet was due; raise the load or the duration".to_owned(),
            )
        } else if forwarded > intended {
            Fate::Contradictory(format!(
                "negative loss: {forwarded} packets came back of {intended}; the device copies \
                 packets of flows that the receiver does not follow (see its `flows`)"
            ))
        } else {
            Fate::Valid
        }
    }

    fn is_generator_limited(&self) -> bool {
        match self.sent.shortfall {
            Shortfall::None => false,
            Shortfall::Chain => self.is_over_ports,
            Shortfall::Generator => true,
        }
    }

    /// For a search.
    pub fn result(&self) -> TrialResult {
        TrialResult {
            intended_packets: self.intended(),
            forwarded_packets: self.forwarded(),
            effective_duration: self.offer.duration,
        }
    }

    /// What the device held when the trial began and when it ended.
    pub const fn held(&self) -> Held {
        Held {
            before: self.received.record.held_before,
            after: self.received.record.held_after,
        }
    }

    /// Packets per second that came back.
    pub fn forwarding_rate_pps(&self) -> f64 {
        self.forwarded() as f64 / self.offer.duration.as_secs_f64().max(1e-9)
    }

    /// Relative error of the offered load that is the generator's.
    pub fn offered_load_error(&self) -> f64 {
        if self.offer.load_pps.is_none() {
            return 0.0;
        }
        let stalls = self.sent.stalls.iter();
        let stalled: u64 = stalls.map(|stall| stall.end - stall.start).sum();
        let end_ns = u64::try_from(self.offer.duration.as_nanos()).unwrap_or(u64::MAX);
        self.sent
            .record
            .shortfall_share(end_ns, self.rate.ns(stalled))
    }

    /// Nanoseconds from the start of the traffic to a tick.
    fn since_start_ns(&self, tick: u64) -> u64 {
        self.rate.ns(tick.saturating_sub(self.sent.record.start))
    }

    /// Latency samples in the order of arrival, in ns from the start, each packet once.
    pub fn samples(&self) -> Vec<Sample> {
        // A second copy says nothing of how long the packet took.
        let mut seen = std::collections::HashSet::new();
        let has_copies = self.quality().duplicates > 0;
        let samples = self.received.samples.iter();
        let samples =
            samples.filter(move |found| !has_copies || seen.insert((found.flow, found.sequence)));
        let sample = |found: &crate::traffic::latency_recorder::LatencySample| {
            let intended = found.received.wrapping_add_signed(-found.latency);
            let intended_ns = self.since_start_ns(intended);
            let latency_ns = self.rate.ns(found.latency.max(0).cast_unsigned());
            Sample {
                sequence: (u64::from(found.flow) << FLOW_SHIFT) | found.sequence,
                intended_ns,
                sent_ns: intended_ns + self.rate.ns(found.late),
                received_ns: intended_ns + latency_ns,
            }
        };
        samples.map(sample).collect()
    }

    /// When each sample was under way, in ns from the start.
    pub fn flights(&self) -> Vec<Flight> {
        let samples = self.samples();
        let flights = samples.iter().map(|sample| Flight {
            begin: sample.intended_ns,
            end: sample.received_ns,
        });
        flights.collect()
    }

    /// Gaps of the generator's and the receiver's loops, in ns from the start; `core` is one of
    /// [`LOOPS`].
    pub fn stalls(&self) -> Vec<Stall> {
        let of = |stalls: &[StallInterval], core: u16| {
            let ended = stalls
                .iter()
                .filter(|stall| stall.end > self.sent.record.start);
            ended
                .map(|stall| {
                    let begin = self.since_start_ns(stall.start);
                    let is_source = core == LOOPS[0];
                    let rounding = if is_source { DUE_ROUNDING_NS } else { 0 };
                    Stall {
                        begin: begin.saturating_sub(rounding),
                        end: self.since_start_ns(stall.end),
                        core,
                        cause: StallCause::Unknown,
                        is_source,
                    }
                })
                .collect::<Vec<_>>()
        };
        let mut stalls = of(&self.sent.stalls, LOOPS[0]);
        stalls.extend(of(&self.received.stalls, LOOPS[1]));
        stalls
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::traffic::latency_recorder::LatencySample;
    use crate::traffic::receiver::ReceiveRecord;
    use crate::traffic::send_record::SendRecord;

    fn outcome(sent: u64, unsent: u64, stamped: u64) -> Outcome {
        let offer = Offer {
            load_pps: Some(1000.0),
            duration: Duration::from_millis(100),
            warmup: Duration::ZERO,
            packet_count: None,
            samples: 10,
        };
        let sent = SendResults {
            record: SendRecord {
                sent,
                unsent,
                start: 1000,
                last: 99_001_000,
                ..SendRecord::default()
            },
            shortfall: Shortfall::None,
            stalls: vec![StallInterval {
                start: 2000,
                end: 3000,
            }],
            stalls_missed: 0,
            ns_per_tick: 1.0,
            offered_by_flow: vec![sent + unsent],
        };
        let flow = FlowResult {
            flow: 0,
            quality: Quality {
                received: stamped,
                unique: stamped,
                ..Quality::default()
            },
        };
        let received = ReceiveResults {
            record: ReceiveRecord {
                stamped,
                ..ReceiveRecord::default()
            },
            counters: std::collections::BTreeMap::new(),
            flows: vec![flow],
            samples: vec![LatencySample {
                received: 2500,
                latency: 700,
                late: 200,
                flow: 1,
                sequence: 5,
            }],
            stride: 1,
            mean: None,
            range: None,
            stalls: Vec::new(),
            ns_per_tick: 1.0,
            slice_rates_pps: Vec::new(),
            slice_strays: 0,
        };
        Outcome::new(offer, sent, received, Vec::new())
    }

    #[test]
    fn loss_is_what_was_due_and_did_not_come() {
        let found = outcome(90, 10, 85);
        assert_eq!((found.intended(), found.forwarded()), (100, 85));
        assert_eq!(found.lost_by_flow().collect::<Vec<_>>(), [(0, 15)]);
        assert_eq!(found.fate(), Fate::Valid);
        assert!((found.result().loss_ratio().unwrap() - 0.15).abs() < 1e-12);
    }

    #[test]
    fn what_the_entry_had_no_room_for_is_lost_and_a_slow_generator_is_no_device() {
        let mut held = outcome(93, 0, 93);
        held.sent.record.entry_lost = 7;
        held.sent.shortfall = Shortfall::Chain;
        assert_eq!((held.intended(), held.forwarded()), (100, 93));
        assert_eq!(held.fate(), Fate::Valid);
        let reached = held.clone().over_ports(0);
        assert_eq!(
            (reached.fate(), reached.tester_lost),
            (Fate::GeneratorLimited, 7)
        );
        held.sent.shortfall = Shortfall::Generator;
        assert_eq!(held.fate(), Fate::GeneratorLimited);
        held.disturbances = vec![Disturbance::Steal];
        assert_eq!(held.fate().name().unwrap(), "disturbed: Steal");
        assert!(matches!(outcome(1, 0, 2).fate(), Fate::Contradictory(_)));
        assert!(matches!(outcome(0, 0, 0).fate(), Fate::Contradictory(_)));
    }

    #[test]
    fn times_count_from_the_start_of_the_traffic() {
        let found = outcome(100, 0, 100);
        let sample = found.samples()[0];
        assert_eq!((sample.intended_ns, sample.received_ns), (800, 1500));
        assert_eq!(
            (sample.lateness_ns(), sample.delay_from_sent_ns()),
            (200, 500)
        );
        assert_eq!(sample.sequence, (1 << FLOW_SHIFT) + 5);
        let stall = found.stalls()[0];
        assert_eq!((stall.begin, stall.end, stall.core), (900, 2000, LOOPS[0]));
        assert!(stall.is_source);
        assert_eq!(found.flights()[0].end - found.flights()[0].begin, 700);
    }
}
