//! The plan: packet after packet, when it is due and what it is.
//!
//! A pure function of profile and seed: asking for packets never waits, reads no clock and does
//! not depend on when they are sent. [`Plan::write`] turns a planned packet into bytes.

use std::path::Path;
use std::sync::Arc;

use catena_port::random::Random;

use super::flow_picker::FlowPicker;
use super::replay::Capture;
use super::schedule::Schedule;
use super::template::Template;
use crate::profile::{FCS_LEN, Profile, SizeOrder, Timing};
use crate::stamp::{SEQUENCE_END, Stamp};

/// A packet that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Nanoseconds from the start at which it should be sent.
    pub due_ns: u64,
    /// Bytes without FCS.
    pub len: usize,
    /// Flow; `None` if it carries no stamp.
    pub flow: Option<u32>,
    /// Number within its flow.
    pub sequence: u64,
    content: usize,
}

/// Packets, one after the other, without end.
#[derive(Clone, Debug)]
pub struct Plan {
    schedule: Schedule,
    content: Content,
    /// Next sequence number, by flow.
    sequences: Vec<u64>,
    random: Random,
}

#[derive(Clone, Debug)]
enum Content {
    Made {
        templates: Vec<Template>,
        /// Which template, in turn or drawn from.
        order: Vec<u8>,
        next: usize,
        is_random: bool,
        flows: FlowPicker,
    },
    Replay {
        /// Shared by all copies of the plan: it may be large.
        capture: Arc<Capture>,
        next: usize,
        recorded: Option<Recorded>,
    },
}

/// Recorded gaps, over and over.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    speed: f64,
    /// Recorded length of a lap, with a mean gap at its end.
    lap_ns: u64,
    laps: u64,
}

impl Plan {
    /// The plan of a profile; `dir` is the folder of the profile, where its capture lies.
    ///
    /// # Errors
    /// Why the capture cannot be replayed.
    pub fn new(profile: &Profile, dir: &Path) -> Result<Self, String> {
        let (content, flow_end) = match &profile.replay {
            None => (made(profile), profile.flow_number_end()),
            Some(replay) => {
                let capture = Capture::read(&dir.join(&replay.file), replay.stamp)?;
                let flow_end = capture.flow_count;
                let recorded = (replay.timing == Timing::Recorded).then(|| {
                    let last = capture.frames.last().map_or(0, |frame| frame.at_ns);
                    let gaps = capture.frames.len() as u64 - 1;
                    Recorded {
                        speed: replay.speed,
                        // A lone frame, or frames of one instant, come once in a microsecond.
                        lap_ns: (last + last / gaps.max(1)).max(1000),
                        laps: 0,
                    }
                });
                let content = Content::Replay {
                    capture: Arc::new(capture),
                    next: 0,
                    recorded,
                };
                (content, flow_end)
            }
        };
        Ok(Self {
            schedule: Schedule::new(profile),
            content,
            sequences: vec![0; flow_end as usize],
            random: Random::new(profile.seed),
        })
    }

    /// Whether packets are due whenever there is room.
    pub fn is_max(&self) -> bool {
        let by_record = matches!(
            &self.content,
            Content::Replay {
                recorded: Some(_),
                ..
            }
        );
        self.schedule.is_max() && !by_record
    }

    /// Packets taken of each flow, by its number.
    pub fn taken_by_flow(&self) -> &[u64] {
        &self.sequences
    }

    /// How many flow numbers stamps may carry.
    pub fn flow_number_end(&self) -> u32 {
        // Fits: profile and capture limit it.
        self.sequences.len() as u32
    }

    /// When the next packet is due, in nanoseconds from the start.
    #[inline]
    pub fn due_ns(&self) -> u64 {
        match &self.content {
            Content::Replay {
                capture,
                next,
                recorded: Some(recorded),
            } => {
                let at_ns = capture.frames[*next].at_ns + recorded.laps * recorded.lap_ns;
                (at_ns as f64 / recorded.speed) as u64
            }
            _ => self.schedule.due_ns(),
        }
    }

    /// Bytes of the next packet without FCS, if that is known before it is taken.
    #[inline]
    pub fn len_max(&self) -> usize {
        match &self.content {
            Content::Made {
                templates,
                order,
                next,
                is_random,
                ..
            } if !is_random => templates[usize::from(order[*next])].len(),
            Content::Made { templates, .. } => {
                templates.iter().map(Template::len).max().unwrap_or(0)
            }
            Content::Replay { capture, next, .. } => capture.frames[*next].bytes.len(),
        }
    }

    /// Takes the next packet.
    // Once per packet of 30 ns: as a call of its own it costs an eighth of that.
    #[inline(always)]
    pub fn take(&mut self) -> Planned {
        let due_ns = self.due_ns();
        let (content, len, flow) = match &mut self.content {
            Content::Made {
                templates,
                order,
                next,
                is_random,
                flows,
            } => {
                let place = if *is_random {
                    // Fits: below the length of a list.
                    self.random.below(order.len() as u64) as usize
                } else {
                    let place = *next;
                    *next += 1;
                    if *next == order.len() {
                        *next = 0;
                    }
                    place
                };
                let content = usize::from(order[place]);
                let flow = flows.pick(due_ns, &mut self.random);
                (content, templates[content].len(), Some(flow))
            }
            Content::Replay {
                capture,
                next,
                recorded,
            } => {
                let content = *next;
                *next += 1;
                if *next == capture.frames.len() {
                    *next = 0;
                    if let Some(recorded) = recorded {
                        recorded.laps += 1;
                    }
                }
                let frame = &capture.frames[content];
                (content, frame.bytes.len(), frame.flow)
            }
        };
        self.schedule.advance(len + FCS_LEN, &mut self.random);
        let sequence = flow.map_or(0, |flow| {
            let next = &mut self.sequences[flow as usize];
            let sequence = *next;
            *next = (*next + 1) & (SEQUENCE_END - 1);
            sequence
        });
        Planned {
            due_ns,
            len,
            flow,
            sequence,
            content,
        }
    }

    /// Writes a planned packet into `to`, which has its length. It was due at tick `intended` and
    /// goes `late` ticks after that.
    #[inline]
    pub fn write(&self, planned: &Planned, trial: u8, (intended, late): (u64, u64), to: &mut [u8]) {
        match &self.content {
            Content::Made { templates, .. } => {
                templates[planned.content].write(to, planned.flow.unwrap_or(0));
            }
            Content::Replay { capture, .. } => {
                to.copy_from_slice(&capture.frames[planned.content].bytes);
            }
        }
        if let Some(flow) = planned.flow {
            Stamp {
                trial,
                flow,
                sequence: planned.sequence,
                intended,
                late,
            }
            .write(to);
        }
    }
}

fn made(profile: &Profile) -> Content {
    let flow_end = profile.flow_number_end();
    let templates = profile.sizes.0.iter();
    let shape = &profile.packet;
    Content::Made {
        templates: templates
            .map(|share| Template::new(shape, share.size, flow_end))
            .collect(),
        order: spread(profile),
        next: 0,
        is_random: profile.size_order == SizeOrder::Random,
        flows: FlowPicker::new(&profile.flows),
    }
}

/// Sizes spread evenly over a cycle: each time the one that is furthest behind its share.
fn spread(profile: &Profile) -> Vec<u8> {
    let parts: Vec<i64> = profile
        .sizes
        .0
        .iter()
        .map(|share| i64::from(share.parts))
        .collect();
    let sum: i64 = parts.iter().sum();
    let mut behind = vec![0_i64; parts.len()];
    (0..sum)
        .map(|_| {
            for (behind, part) in behind.iter_mut().zip(&parts) {
                *behind += part;
            }
            let most =
                (0..parts.len()).max_by_key(|&index| (behind[index], std::cmp::Reverse(index)));
            let index = most.unwrap_or(0);
            behind[index] -= sum;
            // Fits: a profile has at most 64 sizes.
            index as u8
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plan(document: &serde_json::Value) -> Plan {
        Plan::new(&Profile::from_json(document).unwrap(), Path::new(".")).unwrap()
    }

    #[test]
    fn a_mix_is_spread_evenly() {
        let profile = Profile::from_json(&json!({ "sizes": "imix" })).unwrap();
        assert_eq!(spread(&profile), [0, 1, 0, 0, 1, 0, 2, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn each_flow_counts_for_itself() {
        let mut plan = plan(&json!({ "flows": { "count": 2 }, "load": { "rate": "1kpps" } }));
        let taken: Vec<_> = (0..4).map(|_| plan.take()).collect();
        let numbers: Vec<_> = taken.iter().map(|p| (p.flow, p.sequence)).collect();
        let expected = [(Some(0), 0), (Some(1), 0), (Some(0), 1), (Some(1), 1)];
        assert_eq!(numbers, expected);
        assert_eq!(taken[3].due_ns, 3_000_000);
    }

    #[test]
    fn a_capture_is_replayed_by_its_gaps_lap_after_lap() {
        use catena_port::capture::{CaptureFormat, CaptureWriter};
        let dir = tempfile::tempdir().unwrap();
        let mut made = plan(&json!({}));
        let mut writer =
            CaptureWriter::create(dir.path().join("a.pcap"), CaptureFormat::Pcap).unwrap();
        for at in [7_000, 7_600, 7_800] {
            let planned = made.take();
            let mut frame = vec![0; planned.len];
            made.write(&planned, 0, (0, 0), &mut frame);
            writer.write(at, &frame, frame.len() as u32).unwrap();
        }
        writer.finish().unwrap();
        let replay = json!({ "file": "a.pcap", "timing": "recorded", "speed": 2 });
        let profile = Profile::from_json(&json!({ "replay": replay })).unwrap();
        let mut plan = Plan::new(&profile, dir.path()).unwrap();
        assert!(!plan.is_max());
        let taken: Vec<_> = (0..6).map(|_| plan.take()).collect();
        // The mean gap is 400 ns; a lap takes 1,200, at twice the speed half of that.
        let due: Vec<_> = taken.iter().map(|planned| planned.due_ns).collect();
        assert_eq!(due, [0, 300, 400, 600, 900, 1000]);
        assert_eq!((taken[5].flow, taken[5].sequence), (Some(0), 5));
        let mut frame = vec![0; taken[5].len];
        plan.write(&taken[5], 9, (77, 3), &mut frame);
        let stamp = Stamp::read(&frame).unwrap();
        let (intended, late) = (stamp.intended, stamp.late);
        assert_eq!((stamp.trial, stamp.sequence, intended, late), (9, 5, 77, 3));
    }

    #[test]
    fn the_seed_decides_and_nothing_else() {
        let of = |seed: u64| {
            let mut plan = plan(&json!({
                "seed": seed, "sizes": "csit-imix", "size_order": "random",
                "flows": { "count": 100, "pick": "zipf" },
                "load": { "rate": "1Gbps", "pattern": "poisson" },
            }));
            (0..1000).map(|_| plan.take()).collect::<Vec<_>>()
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
