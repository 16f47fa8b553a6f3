//! A run of the command that measures a study: what a report says of all its trials together, and
//! what no trial has.

use serde::{Deserialize, Serialize};

use crate::latency::stall::{NoiseBracket, NoiseFloor};

/// A run of the command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Which run of the study this is, from 0.
    pub number: usize,
    /// Machine, kernel, versions, settings, and how trials were run: name and value.
    pub environment: Vec<(String, String)>,
    /// What this machine does not have, and why.
    pub unsupported: Vec<(String, String)>,
    /// Ticks of its kernel in a second, where they are known.
    pub tick_hz: Option<f64>,
    /// The reading of a wattmeter that stands for the machine's own.
    pub wattmeter: Option<f64>,
    /// The noise floor before its first trial, if it was watched.
    pub noise_before: Option<NoiseFloor>,
    /// The noise floor behind its last; none as long as it runs, and where it was killed.
    pub noise_after: Option<NoiseFloor>,
}

impl Run {
    /// Adds it to runs that were read before, in the place of what was noted when it began.
    pub(super) fn join(self, runs: &mut Vec<Self>) {
        match runs.iter_mut().find(|known| known.number == self.number) {
            Some(known) => *known = self,
            None => runs.push(self),
        }
    }
}

/// Rows of all runs, by the name that each row has: what differs is told side by side.
fn together<'a>(
    rows: impl Iterator<Item = &'a (String, String)>,
    between: &str,
) -> Vec<(String, String)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, value) in rows {
        let known = found.iter_mut().find(|(known, _)| known == name);
        match known {
            Some((_, values)) if values.contains(&value.as_str()) => {}
            Some((_, values)) => values.push(value),
            None => found.push((name, vec![value])),
        }
    }
    let rows = found.into_iter();
    rows.map(|(name, values)| (name.to_owned(), values.join(between)))
        .collect()
}

/// What the machine was in all runs.
pub fn environment(runs: &[Run]) -> Vec<(String, String)> {
    together(runs.iter().flat_map(|run| &run.environment), "; or ")
}

/// What it did not have.
pub fn unsupported(runs: &[Run]) -> Vec<(String, String)> {
    together(runs.iter().flat_map(|run| &run.unsupported), "; ")
}

/// The noise floors around each run in which they were watched.
pub fn noise(runs: &[Run]) -> Vec<(String, NoiseBracket)> {
    let brackets = runs.iter().filter_map(|run| {
        let (before, after) = (run.noise_before.clone()?, run.noise_after.clone()?);
        let name = match runs.len() {
            1 => "all".to_owned(),
            all => format!("run {} of {all}", run.number + 1),
        };
        Some((name, NoiseBracket::of(before, after)))
    });
    brackets.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: usize, kernel: &str) -> Run {
        let row = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Run {
            number,
            environment: vec![row("kernel", kernel), row("cores", "2")],
            unsupported: vec![row("RAPL", "no powercap")],
            tick_hz: Some(250.0),
            wattmeter: None,
            noise_before: Some(NoiseFloor::of(&[], 0, 1000)),
            noise_after: None,
        }
    }

    #[test]
    fn runs_that_differ_are_told_side_by_side_and_ended_ones_replace_begun_ones() {
        let mut runs = Vec::new();
        run(0, "6.1").join(&mut runs);
        let killed = run(1, "6.2");
        let ended = Run {
            noise_after: Some(NoiseFloor::of(&[], 0, 1000)),
            ..run(2, "6.2")
        };
        for run in [killed, run(2, "6.2"), ended.clone()] {
            run.join(&mut runs);
        }
        assert_eq!((runs.len(), &runs[2]), (3, &ended));
        let rows = environment(&runs);
        assert_eq!(rows[0], ("kernel".to_owned(), "6.1; or 6.2".to_owned()));
        assert_eq!(rows[1], ("cores".to_owned(), "2".to_owned()));
        assert_eq!(unsupported(&runs), runs[0].unsupported);
        let noise: Vec<_> = noise(&runs).into_iter().map(|(name, _)| name).collect();
        assert_eq!(noise, ["run 3 of 3"]);
    }
}
