//! How far a throughput is what the device did, and how far what it had taken in and not yet done.
//!
//! A device that blocks takes in more than it passes on until it is full. What it holds when
//! sending ends comes all the same (RFC 2544 section 23 waits for it) and counts as forwarded, so
//! that a short trial says more than the device sustains. Counted at the receiver: what passed
//! while packets were sent is what counts, less what came behind the end, plus what came of the
//! warm-up behind the beginning. Pure.

use super::TrialResult;
use super::mlr::GoalResult;

/// Packets that a device held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// When the trial began; the warm-up's.
    pub before: u64,
    /// When it ended.
    pub after: u64,
}

/// What was held in trials at their loads.
#[derive(Clone, Debug, Default)]
pub struct HeldLoads(Vec<(f64, TrialResult, Held)>);

/// What was held at a load, over all of its longest trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldAt {
    /// Packets when a trial began, on average.
    pub before: f64,
    /// When it ended.
    pub after: f64,
    /// Share of what was forwarded by which this is more than what passed while packets were sent;
    /// below 0 where more was held at the beginning.
    pub excess: f64,
}

impl HeldAt {
    /// In words, of a throughput in packets per second.
    pub fn describe(&self) -> String {
        format!(
            "{:.0} packets when sending began, {:.0} when it ended: {:.2} % of this throughput \
             came behind the end",
            self.before,
            self.after,
            self.excess.max(0.0) * 100.0
        )
    }

    /// Why a goal's result is one of its trials' length, if it is.
    pub fn reason(&self, goal: &GoalResult) -> Option<String> {
        let width = goal.goal.width();
        (self.excess > width).then(|| {
            format!(
                "at {} % loss, {:.1} % of the throughput is what the device held when sending \
                 ended, more than the width of {:.1} %: trials of {:?} are too short for it",
                goal.goal.loss_ratio * 100.0,
                self.excess * 100.0,
                width * 100.0,
                goal.goal.final_trial_duration
            )
        })
    }
}

impl HeldLoads {
    /// Notes a trial at `load_pps`.
    pub fn add(&mut self, load_pps: f64, result: TrialResult, held: Held) {
        self.0.push((load_pps, result, held));
    }

    /// Over the longest trials at `load_pps`; `None` where nothing came.
    pub fn at(&self, load_pps: f64) -> Option<HeldAt> {
        let near = |load: f64| (load / load_pps - 1.0).abs() < 1e-9;
        let trials = || self.0.iter().filter(|(load, ..)| near(*load));
        let longest = trials()
            .map(|(_, trial, _)| trial.effective_duration)
            .max()?;
        let (mut count, mut forwarded, mut before, mut after) = (0.0, 0.0, 0.0, 0.0);
        for (_, trial, held) in trials() {
            if trial.effective_duration == longest {
                count += 1.0;
                forwarded += trial.forwarded_packets as f64;
                before += held.before as f64;
                after += held.after as f64;
            }
        }
        (forwarded > 0.0).then(|| HeldAt {
            before: before / count,
            after: after / count,
            excess: (after - before) / forwarded,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::search::preset::Preset;

    /// A device of 20 kpps that holds at most 1,536 packets, offered 25 kpps for 0.2 s behind 0.1 s
    /// of warm-up: 500 are in it when the trial begins, 1,500 when it ends.
    #[test]
    fn a_device_that_fills_up_in_a_trial_passes_less_than_comes() {
        let mut loads = HeldLoads::default();
        let trial = |ms, packets| TrialResult {
            intended_packets: packets,
            forwarded_packets: packets,
            effective_duration: Duration::from_millis(ms),
        };
        let full = Held {
            before: 500,
            after: 1500,
        };
        loads.add(25e3, trial(200, 5000), full);
        loads.add(25e3, trial(200, 5000), full);
        // A shorter trial of an early phase, and another load.
        loads.add(
            25e3,
            trial(10, 250),
            Held {
                before: 0,
                after: 250,
            },
        );
        loads.add(10e3, trial(200, 2000), Held::default());
        let found = loads.at(25e3).unwrap();
        let expected = HeldAt {
            before: 500.0,
            after: 1500.0,
            excess: 0.2,
        };
        assert_eq!(found, expected);
        // What passed in 0.2 s is the device's rate.
        assert!((25e3 * (1.0 - found.excess) - 20e3_f64).abs() < 1e-6);
        assert_eq!(loads.at(10e3).unwrap().excess, 0.0);
        assert_eq!(loads.at(11e3), None);
        let goal = |width| GoalResult {
            goal: crate::search::goal::Goal {
                width: Some(width),
                ..Preset::Vm.goals()[0]
            },
            relevant_upper_bound_pps: None,
            relevant_lower_bound_pps: Some(25e3),
            conditional_throughput_pps: Some(25e3),
            irregularities: Vec::new(),
        };
        let reason = found.reason(&goal(0.01)).unwrap();
        assert!(
            reason.contains("20.0 % of the throughput") && reason.contains("200ms are too short"),
            "{reason}"
        );
        assert_eq!(found.reason(&goal(0.5)), None);
        assert!(found.describe().contains("20.00 %"), "{}", found.describe());
    }

    /// A line that delays holds as much at both ends, and passes what it is offered.
    #[test]
    fn what_is_held_all_the_time_is_no_excess() {
        let mut loads = HeldLoads::default();
        let trial = TrialResult {
            intended_packets: 1000,
            forwarded_packets: 1000,
            effective_duration: Duration::from_millis(100),
        };
        let held = |before, after| Held { before, after };
        loads.add(1e4, trial, held(400, 400));
        assert_eq!(loads.at(1e4).unwrap().excess, 0.0);
        loads.add(1e4, trial, held(400, 300));
        let found = loads.at(1e4).unwrap();
        assert!(found.excess < 0.0 && found.describe().contains(" 0.00 %"));
    }
}
