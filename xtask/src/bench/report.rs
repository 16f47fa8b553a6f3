//! The result of a benchmark: one model for the JSON file and the terminal.
//!
//! A row sets Catena's value beside one peer's. What could not be measured stays a row: its value
//! is null and `error` names what is missing and why.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::io::{self, Write};

use serde::Serialize;

use super::machine::Machine;
use super::series::{Series, digits};

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
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) metric: String,
    /// Catena's median, or a peer's own figure where the metric names the peer.
    pub(crate) value: Option<f64>,
    pub(crate) unit: &'static str,
    pub(crate) peer: Option<String>,
    pub(crate) peer_value: Option<f64>,
    /// `value / peer_value`.
    pub(crate) ratio: Option<f64>,
    pub(crate) target: Option<String>,
    /// Null where there is no target or a value that it needs is missing.
    pub(crate) met: Option<bool>,
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
            Self::RatioAtLeast(bound) => format!(">= {bound}x peer"),
            Self::RatioAtMost(bound) => format!("<= {bound}x peer"),
        }
    }

    fn is_met(self, value: Option<f64>, ratio: Option<f64>) -> Option<bool> {
        match self {
            Self::AtLeast(bound) => value.map(|v| v >= bound),
            Self::AtMost(bound) => value.map(|v| v <= bound),
            Self::RatioAtLeast(bound) => ratio.map(|r| r >= bound),
            Self::RatioAtMost(bound) => ratio.map(|r| r <= bound),
        }
    }
}

impl Row {
    /// Catena's series beside a peer's, by their medians.
    pub(crate) fn new(
        metric: impl Into<String>,
        unit: &'static str,
        own: &Series,
        peer: Option<(&str, &Series)>,
        target: Option<Target>,
    ) -> Self {
        let value = own.median();
        let peer_value = peer.and_then(|(_, series)| series.median());
        let ratio = value
            .zip(peer_value)
            .filter(|(_, p)| *p > 0.0)
            .map(|(v, p)| v / p);
        let errors: Vec<&str> = [own.error(), peer.and_then(|(_, s)| s.error())]
            .into_iter()
            .flatten()
            .collect();
        Self {
            metric: metric.into(),
            value,
            unit,
            peer: peer.map(|(name, _)| name.to_owned()),
            peer_value,
            ratio,
            target: target.map(|t| t.text(unit)),
            met: target.and_then(|t| t.is_met(value, ratio)),
            error: (!errors.is_empty()).then(|| errors.join("; ")),
        }
    }

    /// What the table says of the target.
    fn verdict(&self) -> &'static str {
        match (&self.target, self.met) {
            (None, _) => "",
            (Some(_), Some(true)) => "yes",
            (Some(_), Some(false)) => "no",
            (Some(_), None) => "not measured",
        }
    }
}

impl Report {
    /// A heading, then a line of text for each row.
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
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), digits);
    let has_peer = row.peer.is_some();
    [
        row.metric.clone(),
        number(row.value),
        row.unit.to_owned(),
        row.peer.clone().unwrap_or_default(),
        if has_peer {
            number(row.peer_value)
        } else {
            String::new()
        },
        row.ratio
            .map_or_else(String::new, |ratio| format!("{}x", digits(ratio))),
        row.target.clone().unwrap_or_default(),
        row.verdict().to_owned(),
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
    use super::*;

    fn series(values: &[f64]) -> Series {
        let mut series = Series::default();
        for value in values {
            series.push(Ok::<_, String>(*value));
        }
        series
    }

    #[test]
    fn ratios_decide_ratio_targets() {
        let (own, peer) = (series(&[80.0]), series(&[20.0, 19.0, 21.0]));
        let peer = Some(("memif", &peer));
        let row = Row::new("link", "Mpps", &own, peer, Some(Target::RatioAtLeast(4.0)));
        assert_eq!((row.ratio, row.met), (Some(4.0), Some(true)));
        let row = Row::new("link", "Mpps", &own, peer, Some(Target::RatioAtLeast(4.1)));
        assert_eq!(row.met, Some(false));
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
