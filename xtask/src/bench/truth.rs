//! `bench truth`: known truths, and what each tool of ours says of them.
//!
//! Statistics are put to simulated machines whose difference is known ([`simulated`]); the binary
//! is put to devices whose delay, loss and rate are known ([`devices`]), to devices that freeze and
//! machines that others use ([`disturbed`]), to pairs of chains ([`turns`]), to studies
//! ([`studies`]) and to what packets were followed through ([`probes`]). Each row has what was said
//! beside the truth, and whether that is right; at the end stands the fraction that is.
//!
//! The brief form holds on a busy machine: other work makes a delay longer and a loss larger, never
//! the other way round, so that only the sides of the truth that it cannot move are judged. Where
//! it moves both, as with ratios, what is judged is wide enough for it, and a sign is only not to
//! be the wrong one. So a brief row that is not right is a fault, and the tests of this repository
//! say so; a whole run that has one ends with an error.
//!
//! SPDX-License-Identifier: Apache-2.0

pub(super) mod binary;
mod devices;
mod disturbed;
mod probes;
mod simulated;
mod studies;
mod turns;

use super::Session;
use super::extent::Extent;
use super::report::Row;
use binary::Binary;

/// The row on all signs, which is made of the others.
const SIGNS: &str = "signs right, all of them";

/// Why a tool says nothing of a trial that was disturbed as often as it was tried.
const NO_TRIAL: &str = "no trial counts";

/// Why a brief run does not ask.
const LEFT_OUT: &str = "left out of a brief run";

/// One truth.
struct Case {
    name: String,
    unit: &'static str,
    truth: f64,
    said: Result<f64, String>,
    /// From and to what is right.
    right: (f64, f64),
}

impl Case {
    fn is_right(&self) -> Option<bool> {
        let said = self.said.as_ref().ok()?;
        Some((self.right.0..=self.right.1).contains(said))
    }

    /// What other work can make longer or more, in a brief run: no more than the least is judged.
    fn at_least(mut self, extent: Extent) -> Self {
        if extent == Extent::Brief {
            self.right.1 = f64::INFINITY;
        }
        self
    }

    fn target(&self) -> String {
        match self.right {
            (least, f64::INFINITY) => format!(">= {least:.4}"),
            (least, most) => format!("{least:.4} to {most:.4}"),
        }
    }

    /// Whether it is a sign of a difference that was asked for.
    fn is_sign(&self) -> bool {
        self.name.contains("sign") && !self.is_left_out()
    }

    fn is_left_out(&self) -> bool {
        self.said
            .as_ref()
            .is_err_and(|why| why.starts_with(LEFT_OUT))
    }

    fn row(self) -> Row {
        Row {
            met: self.is_right(),
            target: Some(self.target()),
            metric: self.name,
            value: self.said.as_ref().ok().copied(),
            unit: self.unit,
            peer: Some("truth".to_owned()),
            peer_value: Some(self.truth),
            error: self.said.err(),
            ..Row::default()
        }
    }
}

/// Puts all truths to the tools, and adds the rows.
pub(super) fn run(session: &mut Session) {
    let extent = session.extent;
    let progress = |what: &str| eprintln!("truths: {what}");
    progress("simulated");
    let mut cases = simulated::cases(extent);
    let dir = session.own.work_dir().path().to_owned();
    match session.own.binary() {
        Ok(path) => {
            let binary = Binary::new(path, dir);
            progress("delays");
            cases.extend(devices::delays(&binary, extent));
            progress("losses");
            cases.extend(devices::losses(&binary, extent));
            progress("policers, by search");
            cases.extend(devices::throughputs(&binary, extent));
            progress("freezes");
            cases.extend(disturbed::freezes(&binary, extent));
            progress("a hog on each core");
            cases.extend(disturbed::hogs(&binary, extent, session.cores));
            progress("studies");
            cases.extend(studies::cases(&binary, extent));
            progress("chains in turns");
            cases.extend(turns::cases(&binary, extent));
            progress("probes");
            cases.extend(probes::cases(&binary, extent));
        }
        Err(error) => session.notes.push(format!("binary: {error}")),
    }
    cases.push(signs(&cases, extent));
    // A tool that says nothing is not right; what a brief run leaves out is not asked.
    let asked = cases.iter().filter(|case| !case.is_left_out());
    let (count, right) = asked.fold((0, 0), |(count, right), case| {
        (count + 1, right + u32::from(case.is_right() == Some(true)))
    });
    let share = f64::from(right) / f64::from(count.max(1)) * 100.0;
    session.notes.push(format!(
        "{right} of {count} right ({share:.0} %), of {} cases",
        cases.len()
    ));
    session.rows.extend(cases.into_iter().map(Case::row));
}

/// All signs as one row: of how many the tools said the right one. On a busy machine, that is in a
/// brief run, those are left out of which nothing was said.
fn signs(cases: &[Case], extent: Extent) -> Case {
    let is_asked = |case: &&Case| extent != Extent::Brief || case.said.is_ok();
    let signs = || cases.iter().filter(|case| case.is_sign()).filter(is_asked);
    let right = signs().filter(|case| case.is_right() == Some(true)).count();
    let share = right as f64 / signs().count().max(1) as f64 * 100.0;
    Case {
        name: format!("{SIGNS} ({right} of {})", signs().count()),
        unit: "%",
        truth: 100.0,
        said: Ok(share),
        right: (100.0, 100.0),
    }
}

/// What a run whose rows are these ends with: a whole one only with all of them right.
///
/// # Errors
///
/// Rows of a whole run that are not right, or of which nothing was said.
pub(super) fn verdict(rows: &[Row], extent: Extent) -> Result<(), String> {
    let wrong: Vec<_> = rows
        .iter()
        .filter(|row| row.met != Some(true))
        .map(|row| row.metric.as_str())
        .collect();
    if extent != Extent::Whole || wrong.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} of {} truths are not told right: {}",
        wrong.len(),
        rows.len(),
        wrong.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, said: Result<f64, String>) -> Case {
        Case {
            name: name.to_owned(),
            unit: "",
            truth: 1.0,
            said,
            right: (1.0, 1.0),
        }
    }

    #[test]
    fn a_whole_run_with_a_row_that_is_not_right_is_an_error() {
        let right = || case("right", Ok(1.0)).row();
        assert_eq!(verdict(&[right()], Extent::Whole), Ok(()));
        for said in [Ok(2.0), Err("no packet came back".to_owned())] {
            let rows = [right(), case("other", said).row()];
            let error = verdict(&rows, Extent::Whole).unwrap_err();
            assert!(
                error.starts_with("1 of 2 truths") && error.ends_with("other"),
                "{error}"
            );
            assert_eq!(verdict(&rows, Extent::Brief), Ok(()));
        }
    }

    #[test]
    fn signs_are_one_row_and_those_not_asked_for_are_none() {
        let all = [
            case("a: sign", Ok(1.0)),
            case("b: sign", Ok(-1.0)),
            case("c: sign", Err(LEFT_OUT.to_owned())),
            case("a", Ok(0.5)),
        ];
        let found = signs(&all, Extent::Whole);
        assert_eq!(found.name, format!("{SIGNS} (1 of 2)"));
        assert_eq!(
            (found.said.clone(), found.is_right()),
            (Ok(50.0), Some(false))
        );
        assert_eq!(signs(&all[..1], Extent::Whole).is_right(), Some(true));
        let silent = [
            case("a: sign", Ok(1.0)),
            case("b: sign", Err("too few".to_owned())),
        ];
        let of = |extent| signs(&silent, extent).is_right();
        assert_eq!(
            (of(Extent::Whole), of(Extent::Brief)),
            (Some(false), Some(true))
        );
    }
}
