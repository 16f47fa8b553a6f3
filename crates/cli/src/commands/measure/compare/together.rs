//! `compare --together`: both chains stay up and take turns in slices; those that the machine
//! disturbed are measured again.

use std::collections::BTreeMap;

use catena_engine::chain::{Mode, WaitChoice};
use catena_measure::compare::power::Power;
use catena_measure::compare::{Interleaving, Side};
use catena_measure::device::{Device, DeviceError, Taken, TrialProfile, Turns, take_turns};
use catena_measure::traffic::conditions::Disturbance;

use super::{Args, FALSE_ALARMS, PILOT_SLICES, SLICE, STRAYS_MAX, baselines, describe};
use crate::commands::Failure;
use crate::measuring::bench::Bench;

/// What slices gave, or why they gave nothing.
type Slices = Result<Sliced, String>;

/// What slices gave.
#[derive(Debug, Default)]
struct Sliced {
    /// Rates of both sides as they arrived, in pairs that count.
    rates: Vec<(f64, f64)>,
    /// Pairs without a value, because nothing came on either side.
    empty: usize,
    /// Pairs that were disturbed, and how many by each cause.
    disturbed: usize,
    causes: BTreeMap<Disturbance, usize>,
}

impl Sliced {
    /// Of pairs as they arrived and what disturbed them; `least` stands where nothing came.
    fn of(taken: Taken, least: f64) -> Self {
        let mut sliced = Self::default();
        let [a, b] = taken.rates_pps;
        for ((a, b), found) in a.into_iter().zip(b).zip(taken.disturbances) {
            if !found.is_empty() {
                sliced.disturbed += 1;
                for cause in found {
                    *sliced.causes.entry(cause).or_default() += 1;
                }
            } else if a > 0.0 || b > 0.0 {
                sliced.rates.push((a.max(least), b.max(least)));
            } else {
                sliced.empty += 1;
            }
        }
        sliced
    }

    fn add(&mut self, more: Self) {
        self.rates.extend(more.rates);
        self.empty += more.empty;
        self.disturbed += more.disturbed;
        for (cause, count) in more.causes {
            *self.causes.entry(cause).or_default() += count;
        }
    }

    /// Pairs that were not disturbed.
    const fn done(&self) -> usize {
        self.rates.len() + self.empty
    }

    /// Pairs that are still to be measured of so many. A machine that stands still for two slices
    /// leaves an empty pair: up to a tenth of them is measured again.
    fn left(&self, planned: usize) -> usize {
        planned.saturating_sub(self.done() - self.empty.min(planned / 10))
    }

    /// How many pairs were disturbed, by cause.
    fn disturbed_text(&self) -> String {
        let causes = self.causes.iter();
        let causes: Vec<_> = causes
            .map(|(cause, count)| format!("{count} by {cause:?}"))
            .collect();
        match self.disturbed {
            0 => "0".to_owned(),
            count => format!("{count}: {}", causes.join(", ")),
        }
    }
}

/// Lets both devices take turns in `pairs` slices each.
fn slices(
    bench: &mut Bench,
    devices: &mut [Device; 2],
    names: &[String; 2],
    profile: &TrialProfile,
    turns: Turns,
) -> Result<Slices, Failure> {
    let whole = turns.slice * 2 * (turns.pairs + turns.left_out());
    let text = format!("{} pairs of slices of {:?}", turns.pairs, turns.slice);
    bench.progress.show_left(&text, Some(whole));
    let [a, b] = devices;
    let taken = match take_turns([a, b], profile, &turns) {
        Ok(taken) => taken,
        Err(DeviceError::Interrupted) => return Ok(Err("interrupted".to_owned())),
        Err(error) => return Err(Failure::running(error)),
    };
    for (name, share) in names.iter().zip(taken.stray_shares) {
        if share > STRAYS_MAX {
            let row = format!("{name}'s packets that came in the other's turn");
            let text = format!("{:.1} %: its queues do not drain in a slice", share * 100.0);
            bench.document.results.push((row, text));
        }
    }
    // Half a packet in the counted half of a slice, where none came.
    let least = 1.0 / turns.slice.as_secs_f64();
    Ok(Ok(Sliced::of(taken, least)))
}

/// Measures as many pairs as planned, those that were disturbed again, and some empty ones, as
/// often as trials are repeated; gives what there is by then.
fn rounds(
    bench: &mut Bench,
    devices: &mut [Device; 2],
    names: &[String; 2],
    profile: &TrialProfile,
    (turns, repeats): (Turns, u32),
) -> Result<Slices, Failure> {
    let planned = turns.pairs as usize;
    let mut all = Sliced::default();
    for round in 0..=repeats {
        let left = all.left(planned);
        if left == 0 {
            break;
        }
        let turns = Turns {
            pairs: u32::try_from(left).unwrap_or(u32::MAX),
            seed: turns.seed.wrapping_add(u64::from(round)),
            ..turns
        };
        match slices(bench, devices, names, profile, turns)? {
            Ok(more) => all.add(more),
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(Ok(all))
}

/// Keeps both chains up while they take turns; gives why there is no verdict, if there is none.
pub(super) fn together(
    bench: &mut Bench,
    devices: &mut [Device; 2],
    names: &[String; 2],
    profile: &TrialProfile,
    args: &Args,
) -> Result<Option<String>, Failure> {
    let is_contained = |device: &Device| {
        let mut nodes = device.chain().nodes.iter();
        nodes.any(|node| node.mode == Mode::Container)
    };
    if devices.iter().any(is_contained) {
        let why = "--together starts both chains at once, which containers are too slow for; leave \
                   it out";
        return Err(Failure::input(why));
    }
    baselines(bench, devices, Some(WaitChoice::Sleep), profile, None)?;
    let slice = args.trial.unwrap_or(SLICE);
    let repeats = args.common.repeats;
    let pilot = (bench.turns(PILOT_SLICES, slice, !args.seed), repeats);
    let pilot = match rounds(bench, devices, names, profile, pilot)? {
        Ok(pilot) if pilot.done() < PILOT_SLICES / 2 => return Ok(Some(too_few(&pilot))),
        Ok(pilot) => pilot,
        Err(why) => return Ok(Some(why)),
    };
    let ratios: Vec<_> = pilot.rates.iter().map(|(a, b)| b / a).collect();
    let Ok(power) = Power::of(&ratios, FALSE_ALARMS) else {
        return Ok(Some("nothing came through in a pilot's slices".to_owned()));
    };
    let left_out = bench.turns(PILOT_SLICES, slice, args.seed).left_out();
    let mut plan = args.planned(bench, &power, (slice * 2, left_out));
    let whole = (bench.turns(plan.pairs, slice, args.seed), repeats);
    let found = match rounds(bench, devices, names, profile, whole)? {
        Ok(found) => found,
        Err(why) => return Ok(Some(why)),
    };
    // Where nothing came on either side there is no ratio.
    for (row, text) in [
        (
            "pairs without a value, because nothing came on either side",
            found.empty.to_string(),
        ),
        (
            "pairs that do not count, because the machine disturbed them",
            found.disturbed_text(),
        ),
    ] {
        bench.document.results.push((row.to_owned(), text));
    }
    if found.done() < plan.pairs / 2 {
        return Ok(Some(too_few(&found)));
    }
    plan.pairs = found.rates.len();
    let mut interleaving = match Interleaving::new(plan) {
        Ok(interleaving) => interleaving,
        Err(error) => return Ok(Some(error.to_string())),
    };
    for (a, b) in found.rates {
        for _ in 0..2 {
            let value = match interleaving.next() {
                Some(Side::A) => a,
                Some(Side::B) => b,
                None => break,
            };
            interleaving.report(value).map_err(Failure::running)?;
        }
    }
    describe(
        bench,
        &interleaving,
        names,
        "back-pressured capacity, as it arrives, in slices",
    )
}

/// Why there is no verdict where most pairs do not count.
fn too_few(found: &Sliced) -> String {
    format!(
        "fewer than half of the pairs were undisturbed, however often they were repeated ({}); find what runs beside, or allow it by --rivals",
        found.disturbed_text()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four pairs: one that counts, one of which half came, an empty one, and one beside a hog.
    #[test]
    fn pairs_beside_other_work_do_not_count_and_are_told_by_cause() {
        let taken = Taken {
            rates_pps: [vec![10.0, 0.0, 0.0, 5.0], vec![20.0, 7.0, 0.0, 1.0]],
            stray_shares: [0.0; 2],
            disturbances: vec![
                vec![],
                vec![],
                vec![],
                vec![Disturbance::Steal, Disturbance::Preemption],
            ],
        };
        let mut sliced = Sliced::of(taken.clone(), 0.5);
        assert_eq!(sliced.rates, [(10.0, 20.0), (0.5, 7.0)]);
        assert_eq!((sliced.empty, sliced.done()), (1, 3));
        // It is measured again where it is one of ten.
        assert_eq!([3, 9, 10].map(|planned| sliced.left(planned)), [0, 6, 8]);
        assert_eq!(sliced.disturbed_text(), "1: 1 by Steal, 1 by Preemption");
        sliced.add(Sliced::of(taken, 0.5));
        assert_eq!(sliced.done(), 6);
        assert_eq!(sliced.disturbed_text(), "2: 2 by Steal, 2 by Preemption");
        assert_eq!(Sliced::default().disturbed_text(), "0");
    }
}
