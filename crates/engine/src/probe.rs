//! Probes in the path: what they note of a packet, and how much of it.
//!
//! Beside a packet's life. The same code passes a packet through a node whether its worker is a
//! thread, a process or a container, and whatever kind the port is; so are the points where time is
//! taken:
//!
//! ```text
//!  port RX   begin --rx--> entered = left --send--> sent
//!  NF        begin --pull--> entered --process--> left --send--> sent
//!  port TX   begin --pull--> entered --tx--> left = sent
//! ```
//!
//! Between `sent` at one node and `begin` at the next the packet waits in a ring, or in a queue
//! within a worker. A [`Visit`] is what happened to one packet at one node, in 32 bytes; the times
//! are of the burst that it was in. `docs/adr/0015-probes-note-visits.md` has the reasons.
//!
//! Tiers: 0 times one turn in [`TURNS_PER_TIMED`] and adds up, always; 1 follows packets at random
//! gaps through the chain; 2 follows all.

pub mod moments;

use catena_shm::pmc::Counted;
use catena_shm::record_ring::Record;
use serde::{Deserialize, Serialize};

use crate::chain::limits::{LINK_COUNT_MAX, NODE_COUNT_MAX};

/// One turn in so many, at random, is timed for the sums of tier 0.
pub const TURNS_PER_TIMED: u32 = 64;
/// Mean distance of the random moments at which waiting packets are counted.
pub const COUNT_DISTANCE_NS: u64 = 250_000;

/// How much is noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Sums per node only; always on.
    #[default]
    Sums,
    /// Packets at random gaps.
    Sampled,
    /// Every packet.
    Full,
}

/// What probes are to note, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeSettings {
    /// How much.
    pub tier: Tier,
    /// Packets from one followed to the next, on average, where packets enter the chain.
    pub gap: u32,
    /// For so long; then the worker turns it off by itself, should whoever asked be gone.
    pub duration_ns: u64,
    /// First mark of this worker, from 1, and from one to the next: so that no two packets in the
    /// chain have the same.
    pub marks: (u16, u16),
}

/// Sums of tier 0 over the bursts of timed turns, at one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCost {
    /// Bursts that were timed.
    pub bursts: u64,
    /// Packets in them.
    pub packets: u64,
    /// Taking them out of a link, or receiving them from the world, in ns.
    pub take_ns: u64,
    /// The NF, or sending to the world.
    pub work_ns: u64,
    /// Passing them on: copying, packing, publishing.
    pub send_ns: u64,
}

impl NodeCost {
    /// Number of words in a counters page.
    pub const WORDS: usize = 5;

    /// Adds what another node cost.
    pub fn add(&mut self, other: &Self) {
        let sums = self.words().into_iter().zip(other.words());
        let mut words = [0; Self::WORDS];
        for (word, (one, two)) in words.iter_mut().zip(sums) {
            *word = one.saturating_add(two);
        }
        *self = Self::from_words(&words);
    }

    /// The words, in page order.
    pub fn words(&self) -> [u64; Self::WORDS] {
        [
            self.bursts,
            self.packets,
            self.take_ns,
            self.work_ns,
            self.send_ns,
        ]
    }

    /// From the words.
    pub fn from_words([bursts, packets, take_ns, work_ns, send_ns]: &[u64; Self::WORDS]) -> Self {
        Self {
            bursts: *bursts,
            packets: *packets,
            take_ns: *take_ns,
            work_ns: *work_ns,
            send_ns: *send_ns,
        }
    }

    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            bursts: self.bursts.saturating_sub(earlier.bursts),
            packets: self.packets.saturating_sub(earlier.packets),
            take_ns: self.take_ns.saturating_sub(earlier.take_ns),
            work_ns: self.work_ns.saturating_sub(earlier.work_ns),
            send_ns: self.send_ns.saturating_sub(earlier.send_ns),
        }
    }
}

/// How many packets waited in a ring, at moments drawn at random.
///
/// What a receiver sees when it looks has come since it last looked. A random moment is between
/// two looks, and half of what came had come: the sum is kept in halves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Twice the packets, added up.
    pub halves: u64,
    /// Moments.
    pub samples: u64,
}

impl Occupancy {
    /// Number of words in a counters page.
    pub const WORDS: usize = 2;

    /// Adds what was seen in another link: the mean is then that of both.
    pub fn add(&mut self, other: &Self) {
        self.halves = self.halves.saturating_add(other.halves);
        self.samples = self.samples.saturating_add(other.samples);
    }

    /// The words, in page order.
    pub fn words(&self) -> [u64; Self::WORDS] {
        [self.halves, self.samples]
    }

    /// From the words.
    pub fn from_words([halves, samples]: &[u64; Self::WORDS]) -> Self {
        Self {
            halves: *halves,
            samples: *samples,
        }
    }

    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            halves: self.halves.saturating_sub(earlier.halves),
            samples: self.samples.saturating_sub(earlier.samples),
        }
    }

    /// Packets waiting, on average.
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    pub fn mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.halves as f64 / 2.0 / self.samples as f64)
    }
}

/// What became of a packet at a node, and how its worker came to look at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VisitFlags(u8);

impl VisitFlags {
    /// It came from the world.
    pub const ORIGIN: u8 = 1;
    /// It went to the world.
    pub const TERMINAL: u8 = 2;
    /// It was dropped here.
    pub const DROPPED: u8 = 4;
    /// The worker had slept.
    pub const SLEPT: u8 = 8;
    /// The worker had given way to others.
    pub const YIELDED: u8 = 16;
    /// The link it left by packs small packets into bundles.
    pub const PACKED: u8 = 32;
    /// No visit: what the processor counted in the visit whose record lies before this one.
    pub const COUNTS: u8 = 64;
    /// No visit: how far an end of a link was at some moments ([`moments`]).
    pub const CURSOR: u8 = 128;

    /// From the bits.
    pub const fn new(bits: u8) -> Self {
        Self(bits)
    }

    /// Whether any of `bits` is set.
    pub const fn has(self, bits: u8) -> bool {
        self.0 & bits != 0
    }
}

/// One packet at one node: times in ns on the chain's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visit {
    /// The packet's mark.
    pub mark: u16,
    /// The node, by index in the chain.
    pub node: u16,
    /// The link it came by plus one; 0 from the world or from a node of the same worker.
    pub input: u16,
    /// The link it left by plus one; 0 likewise, or if it was dropped.
    pub output: u16,
    /// Packets in the burst.
    pub burst: u16,
    /// What happened.
    pub flags: VisitFlags,
    /// When the worker began to take the burst.
    pub begin: u64,
    /// When it had it, and the node's work began.
    pub entered: u64,
    /// When that was done.
    pub left: u64,
    /// When the burst had been passed on.
    pub sent: u64,
    /// When the worker had slept, or given way: when it went on.
    pub resumed: Option<u64>,
    /// What the processor counted; nothing where it does not, or may not be read.
    pub counts: StageCounts,
}

/// Cycles and instructions of the burst that a packet was in. Taking bursts is not counted: which
/// of them hold a packet that is followed is known only afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageCounts {
    /// From `entered` to `left`.
    pub work: Option<Counted>,
    /// From `left` to `sent`.
    pub send: Option<Counted>,
}

impl StageCounts {
    /// Whether there is nothing.
    pub const fn is_empty(&self) -> bool {
        self.work.is_none() && self.send.is_none()
    }

    /// As it lies in the ring of records, behind the record of its visit: that one's first two
    /// words, then cycles and instructions of both stages plus one, each in 32 bits, where it
    /// saturates; 0 is nothing.
    #[inline]
    pub fn to_record(&self, visit: &Record) -> Record {
        let coded = |count: u64| (count.min(u64::from(u32::MAX) - 1)) + 1;
        let word = |stage: Option<Counted>| {
            stage.map_or(0, |found| {
                coded(found.cycles) | coded(found.instructions) << 32
            })
        };
        let begin = visit[0] | u64::from(VisitFlags::COUNTS) << FLAGS_SHIFT;
        [begin, visit[1], word(self.work), word(self.send)]
    }

    /// From a record, which anybody may have written.
    pub fn from_record([_, _, work, send]: &Record) -> Self {
        let stage = |word: &u64| {
            let (cycles, instructions) = (word & 0xffff_ffff, word >> 32);
            Some(Counted {
                cycles: cycles.checked_sub(1)?,
                instructions: instructions.checked_sub(1)?,
            })
        };
        Self {
            work: stage(work),
            send: stage(send),
        }
    }
}

/// Widths of the names in a record, behind the mark: as much as a chain may have.
const NODE_BITS: u32 = 11;
const LINK_BITS: u32 = 14;
const BURST_BITS: u32 = 9;
const NODE_SHIFT: u32 = u16::BITS;
const INPUT_SHIFT: u32 = NODE_SHIFT + NODE_BITS;
const OUTPUT_SHIFT: u32 = INPUT_SHIFT + LINK_BITS;
const BURST_SHIFT: u32 = OUTPUT_SHIFT + LINK_BITS;

const _: () = assert!(BURST_SHIFT + BURST_BITS == u64::BITS);
const _: () = assert!(NODE_COUNT_MAX <= 1 << NODE_BITS && LINK_COUNT_MAX < 1 << LINK_BITS);

/// A number in so many bits, in which it saturates.
#[inline]
fn within(number: u16, bits: u32) -> u64 {
    u64::from(number.min((1 << bits) - 1))
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "takes less than 16 bits")]
fn taken(word: u64, bits: u32) -> u16 {
    (word & ((1 << bits) - 1)) as u16
}

const FLAGS_SHIFT: u32 = 56;
const TIME_MASK: u64 = (1 << FLAGS_SHIFT) - 1;

impl Visit {
    /// As it lies in the ring of records: `begin` and flags; mark, node, links and burst; and the
    /// other times as 32-bit differences, which saturate at 4.3 s.
    #[inline]
    pub fn to_record(&self) -> Record {
        let delta = |later: u64, earlier: u64| {
            u64::from(u32::try_from(later.saturating_sub(earlier)).unwrap_or(u32::MAX))
        };
        let begin = self.begin & TIME_MASK | u64::from(self.flags.0) << FLAGS_SHIFT;
        let names = u64::from(self.mark)
            | within(self.node, NODE_BITS) << NODE_SHIFT
            | within(self.input, LINK_BITS) << INPUT_SHIFT
            | within(self.output, LINK_BITS) << OUTPUT_SHIFT
            | within(self.burst, BURST_BITS) << BURST_SHIFT;
        let work = delta(self.entered, self.begin) | delta(self.left, self.entered) << 32;
        let resumed = self.resumed.map_or(0, |resumed| {
            delta(self.begin, resumed).min(u64::from(u32::MAX) - 1) + 1
        });
        [
            begin,
            names,
            work,
            delta(self.sent, self.left) | resumed << 32,
        ]
    }

    /// From a record, which anybody may have written: any record is some visit.
    #[expect(clippy::cast_possible_truncation, reason = "takes fields out of words")]
    pub fn from_record([begin, names, work, rest]: &Record) -> Self {
        let time = begin & TIME_MASK;
        let (low, high) = (|word: &u64| word & 0xffff_ffff, |word: &u64| word >> 32);
        let entered = time + low(work);
        let left = entered + high(work);
        Self {
            mark: *names as u16,
            node: taken(*names >> NODE_SHIFT, NODE_BITS),
            input: taken(*names >> INPUT_SHIFT, LINK_BITS),
            output: taken(*names >> OUTPUT_SHIFT, LINK_BITS),
            burst: taken(*names >> BURST_SHIFT, BURST_BITS),
            flags: VisitFlags((begin >> FLAGS_SHIFT) as u8),
            begin: time,
            entered,
            left,
            sent: left + low(rest),
            resumed: high(rest)
                .checked_sub(1)
                .map(|ago| time.saturating_sub(ago)),
            counts: StageCounts::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn visits_survive_the_ring(
            (mark, flags) in any::<(u16, u8)>(),
            (node, burst) in (0_u16..1 << NODE_BITS, 0_u16..1 << BURST_BITS),
            (input, output) in (0_u16..1 << LINK_BITS, 0_u16..1 << LINK_BITS),
            begin in 0_u64..1 << 55,
            steps in any::<[u32; 3]>(),
            resumed in prop::option::of(0_u64..u64::from(u32::MAX)),
        ) {
            let entered = begin + u64::from(steps[0]);
            let left = entered + u64::from(steps[1]);
            let visit = Visit {
                mark,
                node,
                input,
                output,
                burst,
                flags: VisitFlags(flags),
                begin,
                entered,
                left,
                sent: left + u64::from(steps[2]),
                resumed: resumed.map(|ago| begin.saturating_sub(ago)),
                counts: StageCounts::default(),
            };
            prop_assert_eq!(Visit::from_record(&visit.to_record()), visit);
        }

        #[test]
        fn counts_survive_the_ring_behind_their_visit(
            stages in any::<[Option<(u32, u32)>; 2]>(), record in any::<Record>(),
        ) {
            let [work, send] = stages.map(|stage| {
                let (cycles, instructions) = stage?;
                let most = u32::MAX - 1;
                Some(Counted {
                    cycles: cycles.min(most).into(),
                    instructions: instructions.min(most).into(),
                })
            });
            let counts = StageCounts { work, send };
            let behind = counts.to_record(&record);
            prop_assert_eq!(StageCounts::from_record(&behind), counts);
            let (visit, named) = (Visit::from_record(&record), Visit::from_record(&behind));
            prop_assert_eq!((visit.mark, visit.node), (named.mark, named.node));
            prop_assert_eq!(visit.begin, named.begin);
            prop_assert!(named.flags.has(VisitFlags::COUNTS));
        }

        #[test]
        fn any_record_is_some_visit(record in any::<Record>()) {
            let visit = Visit::from_record(&record);
            prop_assert!(visit.begin <= visit.entered && visit.left <= visit.sent);
            let _ = visit.to_record();
        }
    }
}
