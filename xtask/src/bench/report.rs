//! The result of a benchmark: one model for the JSON file and the terminal.
//!
//! A row sets Catena's value beside one peer's: medians over the rounds with intervals of 95 %, and
//! the ratio of both with its own. What could not be measured stays a row: its value is null and
//! `error` names what is missing and why.
//!
//! A target is met if all of an interval is on its side, and missed if none of it is. Where it lies
//! on both sides, or where there are fewer than three rounds, the target is not decided, and the
//! row says why. Two sides whose ratio's interval holds 1 are not told apart.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::io::{self, Write};

use serde::Serialize;

use super::machine::Machine;
use super::series::{Estimate, ROUNDS_MIN, Series, digits};

/// A whole result.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) bench: String,
    pub(crate) machine: Machine,
    pub(crate) kernel: String,
    pub(crate) commit: String,
    pub(crate) command: String,
    /// RFC 3339, UTC.
    pub(crate) started: String,
    pub(crate) quick: bool,
    pub(crate) results: Vec<Row>,
    pub(crate) notes: Vec<String>,
}

/// One comparison.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) metric: String,
    /// Catena's median, or a peer's own figure where the metric names the peer.
    pub(crate) value: Option<f64>,
    /// Lower and upper end of the interval of 95 %; null with one round.
    pub(crate) interval: Option<(f64, f64)>,
    /// Rounds that gave a value.
    pub(crate) rounds: usize,
    pub(crate) unit: &'static str,
    pub(crate) peer: Option<String>,
    pub(crate) peer_value: Option<f64>,
    pub(crate) peer_interval: Option<(f64, f64)>,
    /// `value / peer_value`: the median of the ratios round by round, where both were measured in
    /// the same rounds.
    pub(crate) ratio: Option<f64>,
    pub(crate) ratio_interval: Option<(f64, f64)>,
    /// Whether the two sides differ; null with fewer than three rounds.
    pub(crate) is_told_apart: Option<bool>,
    pub(crate) target: Option<String>,
    /// Null where there is no target, a value that it needs is missing, or it is not decided.
    pub(crate) met: Option<bool>,
    /// Why the target is not decided, though there are values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) undecided: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// What a row must reach.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// Value at least this, in the row's unit.
    AtLeast(f64),
    /// Value at most this, in the row's unit.
    AtMost(f64),
    /// Value less peer value at most this, in the row's unit.
    AbovePeerAtMost(f64),
    /// Value over peer value at least this.
    RatioAtLeast(f64),
    /// Value over peer value at most this.
    RatioAtMost(f64),
}

impl Target {
    fn text(self, unit: &str) -> String {
        match self {
            Self::AtLeast(bound) => format!(">= {bound} {unit}"),
            Self::AtMost(bound) => format!("<= {bound} {unit}"),
            Self::AbovePeerAtMost(bound) => format!("<= peer + {bound} {unit}"),
            Self::RatioAtLeast(bound) => format!(">= {bound}x peer"),
            Self::RatioAtMost(bound) => format!("<= {bound}x peer"),
        }
    }

    /// Which of the three it is about.
    fn subject(self, compared: &Compared) -> Option<Estimate> {
        match self {
            Self::AtLeast(_) | Self::AtMost(_) => compared.value,
            Self::AbovePeerAtMost(_) => compared.difference,
            Self::RatioAtLeast(_) | Self::RatioAtMost(_) => compared.ratio,
        }
    }

    fn is_reached(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) | Self::RatioAtLeast(bound) => value >= bound,
            Self::AtMost(bound) | Self::RatioAtMost(bound) | Self::AbovePeerAtMost(bound) => {
                value <= bound
            }
        }
    }
}

/// What the rounds say of Catena's side, and of both.
struct Compared {
    value: Option<Estimate>,
    ratio: Option<Estimate>,
    difference: Option<Estimate>,
}

impl Row {
    /// Catena's series beside a peer's.
    pub(crate) fn new(
        metric: impl Into<String>,
        unit: &'static str,
        own: &Series,
        peer: Option<(&str, &Series)>,
        target: Option<Target>,
    ) -> Self {
        let compared = Compared {
            value: own.estimate(),
            ratio: peer.and_then(|(_, series)| own.ratio_to(series)),
            difference: peer.and_then(|(_, series)| own.difference_to(series)),
        };
        let (value, ratio) = (compared.value, compared.ratio);
        let peer_value = peer.and_then(|(_, series)| series.estimate());
        let errors: Vec<&str> = [own.error(), peer.and_then(|(_, s)| s.error())]
            .into_iter()
            .flatten()
            .collect();
        let subject = target.and_then(|target| Some((target, target.subject(&compared)?)));
        let met = subject.and_then(|(target, found)| found.decides(|v| target.is_reached(v)));
        let undecided = subject.filter(|_| met.is_none());
        Self {
            metric: metric.into(),
            value: value.map(|value| value.median),
            interval: value.and_then(|value| value.interval),
            rounds: value.map_or(0, |value| value.rounds),
            unit,
            peer: peer.map(|(name, _)| name.to_owned()),
            peer_value: peer_value.map(|value| value.median),
            peer_interval: peer_value.and_then(|value| value.interval),
            ratio: ratio.map(|ratio| ratio.median),
            ratio_interval: ratio.and_then(|ratio| ratio.interval),
            is_told_apart: ratio.and_then(|ratio| ratio.differs_from(1.0)),
            target: target.map(|t| t.text(unit)),
            met,
            undecided: undecided.map(|(_, found)| why_undecided(&found)),
            error: (!errors.is_empty()).then(|| errors.join("; ")),
        }
    }

    /// A value that is known and not measured, such as a size in bytes; its target is decided.
    pub(crate) fn known(
        metric: impl Into<String>,
        unit: &'static str,
        value: Result<f64, String>,
        target: Target,
    ) -> Self {
        Self {
            metric: metric.into(),
            value: value.as_ref().ok().copied(),
            unit,
            target: Some(target.text(unit)),
            met: value.as_ref().ok().map(|value| target.is_reached(*value)),
            error: value.err(),
            ..Self::default()
        }
    }

    /// What the table says of the target.
    fn verdict(&self) -> String {
        match (&self.target, self.met, &self.undecided) {
            (None, ..) => String::new(),
            (Some(_), Some(true), _) => "yes".to_owned(),
            (Some(_), Some(false), _) => "no".to_owned(),
            (Some(_), None, Some(why)) => format!("not decided: {why}"),
            (Some(_), None, None) => "not measured".to_owned(),
        }
    }
}

fn why_undecided(found: &Estimate) -> String {
    match found.rounds {
        1 => "1 round".to_owned(),
        rounds if rounds < ROUNDS_MIN => format!("{rounds} rounds"),
        _ => "the interval holds the target".to_owned(),
    }
}

impl Report {
    /// A heading, then a line of text for each row; intervals stand in brackets.
    pub(crate) fn table(&self) -> Vec<[String; 8]> {
        let header = [
            "metric",
            "value",
            "unit",
            "peer",
            "peer value",
            "ratio",
            "target",
            "met",
        ];
        let mut table = vec![header.map(str::to_owned)];
        table.extend(self.results.iter().map(cells));
        table
    }

    /// What was not measured, or not in each round; each reason once.
    pub(crate) fn errors(&self) -> Vec<&str> {
        let mut errors: Vec<&str> = Vec::new();
        for error in self.results.iter().filter_map(|row| row.error.as_deref()) {
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
        errors
    }

    /// Prints the report as a table, with what is missing and the notes below.
    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let machine = &self.machine;
        let memory_gib = machine.memory_bytes as f64 / f64::from(1 << 30);
        writeln!(
            out,
            "bench {}  {}  commit {}",
            self.bench, self.started, self.commit
        )?;
        writeln!(
            out,
            "{}, {} cores, {memory_gib:.1} GiB, kernel {}\n",
            machine.cpu_model, machine.cores, self.kernel
        )?;
        print_columns(out, &self.table())?;
        print_list(out, "not measured, or not in each round", &self.errors())?;
        let notes: Vec<&str> = self.notes.iter().map(String::as_str).collect();
        print_list(out, "notes", &notes)
    }
}

fn cells(row: &Row) -> [String; 8] {
    let within = |(low, high)| format!(" ({} to {})", digits(low), digits(high));
    let number = |value: Option<f64>, interval: Option<(f64, f64)>| {
        value.map_or_else(|| "-".to_owned(), digits) + &interval.map_or_else(String::new, within)
    };
    let ratio = row.ratio.map(|ratio| {
        let apart = match row.is_told_apart {
            Some(false) => ", not told apart",
            _ => "",
        };
        let interval = row.ratio_interval.map_or_else(String::new, within);
        format!("{}x{interval}{apart}", digits(ratio))
    });
    let has_peer = row.peer.is_some();
    [
        row.metric.clone(),
        number(row.value, row.interval),
        row.unit.to_owned(),
        row.peer.clone().unwrap_or_default(),
        if has_peer {
            number(row.peer_value, row.peer_interval)
        } else {
            String::new()
        },
        ratio.unwrap_or_default(),
        row.target.clone().unwrap_or_default(),
        row.verdict(),
    ]
}

/// Columns as wide as their widest cell; numbers to the right.
fn print_columns(out: &mut impl Write, table: &[[String; 8]]) -> io::Result<()> {
    const NUMBERS: [usize; 3] = [1, 4, 5];
    let width = |column: usize| table.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; 8] = std::array::from_fn(width);
    for row in table {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            line += &match NUMBERS.contains(&column) {
                true => format!("{cell:>width$}  "),
                false => format!("{cell:<width$}  "),
            };
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn print_list(out: &mut impl Write, title: &str, items: &[&str]) -> io::Result<()> {
    if items.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}:")?;
    for item in items {
        writeln!(out, "  {item}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::series::series;
    use super::*;

    fn link(own: &[f64], peer: &[f64], target: Target) -> Row {
        let (own, peer) = (series(own), series(peer));
        Row::new("link", "Mpps", &own, Some(("memif", &peer)), Some(target))
    }

    #[test]
    fn ratios_decide_ratio_targets() {
        let (own, peer) = ([80.0, 81.0, 79.0], [20.0, 20.1, 19.9]);
        let row = link(&own, &peer, Target::RatioAtLeast(3.8));
        assert_eq!(
            (row.ratio.map(f64::round), row.met),
            (Some(4.0), Some(true))
        );
        assert_eq!(row.is_told_apart, Some(true));
        let row = link(&own, &peer, Target::RatioAtLeast(4.2));
        assert_eq!((row.met, row.verdict().as_str()), (Some(false), "no"));
        let row = link(&own, &peer, Target::RatioAtMost(4.0));
        assert_eq!(row.verdict(), "not decided: the interval holds the target");
        assert_eq!(row.met, None);
        let row = link(&own, &peer, Target::AtLeast(70.0));
        assert_eq!(row.met, Some(true));
        let row = link(&own, &peer, Target::AbovePeerAtMost(59.0));
        assert_eq!(
            (row.met, row.target.as_deref()),
            (None, Some("<= peer + 59 Mpps"))
        );
    }

    /// The fairest of ratios decides nothing in one round or two.
    #[test]
    fn fewer_than_three_rounds_decide_nothing() {
        let row = link(&[100.0], &[1.0], Target::RatioAtLeast(2.0));
        assert_eq!((row.met, row.is_told_apart), (None, None));
        assert_eq!(row.verdict(), "not decided: 1 round");
        let row = link(&[100.0, 100.0], &[1.0, 1.0], Target::RatioAtLeast(2.0));
        assert_eq!(row.verdict(), "not decided: 2 rounds");
        let row = link(&[100.0; 3], &[1.0; 3], Target::RatioAtLeast(2.0));
        assert_eq!(row.verdict(), "yes");
    }

    #[test]
    fn the_table_has_intervals_and_what_is_not_told_apart() {
        let row = link(&[8.0, 12.0, 10.0], &[10.0; 3], Target::AtLeast(1.0));
        let [_, value, _, _, peer_value, ratio, ..] = cells(&row);
        assert!(value.starts_with("10.00 (5.96 to "), "{value}");
        assert_eq!(peer_value, "10.00 (10.00 to 10.00)");
        assert!(ratio.starts_with("1.00x (0.5") && ratio.ends_with("), not told apart"));
        let [_, value, .., ratio, _, _] = cells(&link(&[8.0], &[2.0], Target::AtLeast(1.0)));
        assert_eq!((value.as_str(), ratio.as_str()), ("8.00", "4.00x"));
    }

    #[test]
    fn what_is_known_needs_no_rounds() {
        let row = Row::known("state", "B", Ok(32.0), Target::AtMost(32.0));
        assert_eq!(row.verdict(), "yes");
        let row = Row::known("state", "B", Err("gone".to_owned()), Target::AtMost(32.0));
        assert_eq!((row.verdict().as_str(), row.value), ("not measured", None));
    }

    #[test]
    fn a_missing_side_stays_a_row_with_its_name() {
        let mut own = Series::default();
        own.push(Err("catena bench link: no such command"));
        let peer = series(&[20.0]);
        let row = Row::new(
            "link",
            "Mpps",
            &own,
            Some(("memif", &peer)),
            Some(Target::AtLeast(1.0)),
        );
        assert_eq!(
            (row.value, row.peer_value, row.met),
            (None, Some(20.0), None)
        );
        assert_eq!(row.verdict(), "not measured");
        assert!(
            row.error
                .is_some_and(|error| error.contains("no such command"))
        );
    }
}
