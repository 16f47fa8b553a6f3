//! `bench truth`: known truths, and what each tool of ours says of them.
//!
//! Statistics are put to simulated machines whose difference is known ([`simulated`]); the binary
//! is put to devices whose delay, loss and rate are known ([`devices`]), to devices that freeze and
//! machines that others use ([`disturbed`]), to pairs of chains ([`turns`]) and to studies
//! ([`studies`]). Each row has what was said beside the truth, and whether that is right; at the
//! end stands the fraction that is.
//!
//! The brief form holds on a busy machine: other work makes a delay longer and a loss larger, never
//! the other way round, so that only the sides of the truth that it cannot move are judged.
//!
//! SPDX-License-Identifier: Apache-2.0

mod binary;
mod devices;
mod disturbed;
mod simulated;
mod studies;
mod turns;

use super::Session;
use super::extent::Extent;
use super::report::Row;
use binary::Binary;

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
        }
        Err(error) => session.notes.push(format!("binary: {error}")),
    }
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
