//! Rates as lines for a terminal of any size, 80x24 included. Pure: the same rates and look give
//! the same lines, none longer than the width, never more than the height.
//!
//! ```text
//! title, wait policy           fixed
//! workers, nodes, links, drops scrolled
//! keys                         fixed
//! ```

use std::cmp::Ordering;

use catena_engine::supervisor::status::AggregationStatus;

use super::rates::{CounterRates, DropRates, LinkRates, NodeRates, Rates, WorkerRates};
use crate::render::duration;

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    /// Headings.
    Title,
    /// Something an operator should look at.
    Alert,
}

/// One line, without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) style: Style,
    pub(crate) text: String,
}

impl Line {
    fn new(style: Style, text: impl Into<String>) -> Self {
        Self {
            style,
            text: text.into(),
        }
    }
}

/// In which order nodes and links stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// The chain file's.
    #[default]
    File,
    /// By packets per second, most first.
    Rate,
    /// By drops per second of nodes and occupancy of links, most first.
    Trouble,
    /// By name.
    Name,
}

impl Sort {
    pub(crate) fn next(self) -> Self {
        match self {
            Self::File => Self::Rate,
            Self::Rate => Self::Trouble,
            Self::Trouble => Self::Name,
            Self::Name => Self::File,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::File => "file order",
            Self::Rate => "rate",
            Self::Trouble => "drops",
            Self::Name => "name",
        }
    }
}

/// What the person who watches has chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// Columns.
    pub(crate) width: usize,
    /// Lines; without it as many as there are, for paper.
    pub(crate) height: Option<usize>,
    /// Lines of the middle part that are scrolled away.
    pub(crate) scroll: usize,
    pub(crate) sort: Sort,
    pub(crate) is_paused: bool,
    pub(crate) shows_help: bool,
}

/// Columns of a frame that is printed once.
pub(crate) const PAPER_WIDTH: usize = 100;

const FIXED_LINES: usize = 3;

impl Look {
    /// How far the middle part of this frame can be scrolled.
    pub(crate) fn scroll_max(&self, rates: &Rates) -> usize {
        let room = self
            .height
            .unwrap_or(usize::MAX)
            .saturating_sub(FIXED_LINES);
        self.middle(rates).len().saturating_sub(room)
    }

    /// The frame.
    pub(crate) fn frame(&self, rates: &Rates) -> Vec<Line> {
        let mut lines = head(rates);
        let middle = self.middle(rates);
        match self.height {
            None => lines.extend(middle),
            Some(height) => {
                let room = height.saturating_sub(FIXED_LINES);
                let scroll = self.scroll.min(middle.len().saturating_sub(room));
                let total = middle.len();
                lines.extend(middle.into_iter().skip(scroll).take(room));
                lines.resize(room + 2, Line::new(Style::Plain, ""));
                lines.push(self.foot(scroll, room, total));
                lines.truncate(height);
            }
        }
        for line in &mut lines {
            line.text = fit(&line.text, self.width).trim_end().to_owned();
        }
        lines
    }

    fn foot(&self, scroll: usize, room: usize, total: usize) -> Line {
        let pause = if self.is_paused { "PAUSED  " } else { "" };
        let sort = self.sort.name();
        let place = if total > room {
            format!("  {}-{}/{total}", scroll + 1, scroll + room)
        } else {
            String::new()
        };
        Line::new(
            Style::Title,
            format!("{pause}q quit  j/k scroll  s sort: {sort}  space pause  ? help{place}"),
        )
    }

    fn middle(&self, rates: &Rates) -> Vec<Line> {
        if self.shows_help {
            return HELP
                .iter()
                .map(|text| Line::new(Style::Plain, *text))
                .collect();
        }
        let name_width = self.name_width(rates);
        let mut lines = vec![Line::new(
            Style::Title,
            format!(
                "{} MODE      STATE    RESTARTS AWAKE           BUSY SLEEPS/S     PID",
                fit("WORKER", name_width)
            ),
        )];
        lines.extend(
            rates
                .workers
                .iter()
                .map(|worker| worker_line(worker, name_width)),
        );
        lines.push(Line::new(Style::Plain, ""));
        lines.push(Line::new(
            Style::Title,
            format!(
                "{} TYPE       RX PPS  RX BPS  TX PPS  TX BPS DROPS/S    DROPS",
                fit("NODE", name_width)
            ),
        ));
        let nodes = self.sorted(&rates.nodes, node_rank, |node| &node.name);
        lines.extend(nodes.into_iter().map(|node| node_line(node, name_width)));
        lines.push(Line::new(Style::Plain, ""));
        lines.push(Line::new(
            Style::Title,
            format!(
                "{} KIND   TRUST     PPS    BPS  OCCUPANCY        FULL",
                fit("LINK", name_width + LINK_EXTRA)
            ),
        ));
        let links = self.sorted(&rates.links, link_rank, |link| &link.name);
        let link_width = name_width + LINK_EXTRA;
        lines.extend(links.into_iter().map(|link| link_line(link, link_width)));
        if !rates.drops.is_empty() {
            lines.push(Line::new(Style::Plain, ""));
            lines.push(Line::new(
                Style::Title,
                format!(
                    "{} REASON                PPS     TOTAL",
                    fit("DROPS OF", name_width)
                ),
            ));
            lines.extend(rates.drops.iter().map(|drop| drop_line(drop, name_width)));
        }
        if !rates.counters.is_empty() {
            lines.push(Line::new(Style::Plain, ""));
            lines.push(Line::new(
                Style::Title,
                format!(
                    "{} COUNTER                 PER S     TOTAL",
                    fit("COUNTS", name_width)
                ),
            ));
            let counters = rates.counters.iter();
            lines.extend(counters.map(|counter| counter_line(counter, name_width)));
        }
        lines
    }

    /// Names get what the other columns leave, within reason.
    fn name_width(&self, rates: &Rates) -> usize {
        let names = rates.nodes.iter().map(|node| &node.name);
        let names = names.chain(rates.workers.iter().map(|worker| &worker.name));
        let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
        let links = rates.links.iter().map(|link| link.name.chars().count());
        let longest = links
            .map(|len| len.saturating_sub(LINK_EXTRA))
            .fold(longest, usize::max);
        let room = self.width.saturating_sub(66);
        longest.clamp(8, room.clamp(8, 32))
    }

    fn sorted<'a, T>(
        &self,
        all: &'a [T],
        rank: fn(&T, Sort) -> f64,
        name: fn(&T) -> &str,
    ) -> Vec<&'a T> {
        let mut all: Vec<&T> = all.iter().collect();
        match self.sort {
            Sort::File => {}
            Sort::Name => all.sort_by(|a, b| name(a).cmp(name(b))),
            sort => all.sort_by(|a, b| {
                let order = rank(b, sort).partial_cmp(&rank(a, sort));
                order.unwrap_or(Ordering::Equal)
            }),
        }
        all
    }
}

/// How much wider names of links are than those of nodes: they have two.
const LINK_EXTRA: usize = 10;

fn node_rank(node: &NodeRates, sort: Sort) -> f64 {
    match sort {
        Sort::Trouble => node.drops_pps,
        _ => node.rx_pps.max(node.tx_pps),
    }
}

#[expect(clippy::cast_precision_loss, reason = "an order for people")]
fn link_rank(link: &LinkRates, sort: Sort) -> f64 {
    match sort {
        Sort::Trouble => link.occupancy as f64 / f64::from(link.slot_count.max(1)),
        _ => link.pps,
    }
}

fn head(rates: &Rates) -> Vec<Line> {
    let deaths = match rates.deaths {
        0 => String::new(),
        1 => "  1 death".to_owned(),
        deaths => format!("  {deaths} deaths"),
    };
    let buffers = rates.buffers;
    vec![
        Line::new(
            Style::Title,
            format!(
                "catena top: {}  pid {}  up {}  sample {:.2} s  {}/{} buffers free{deaths}",
                rates.chain,
                rates.pid,
                duration(rates.uptime_s),
                rates.interval_s,
                buffers.free,
                buffers.allocated
            ),
        ),
        Line::new(Style::Plain, format!("wait: {}", rates.wait)),
    ]
}

fn worker_line(worker: &WorkerRates, name_width: usize) -> Line {
    let is_well = worker.state == "running" && worker.restarts == 0 && worker.violations == 0;
    let note = violations_note(worker.violations);
    let style = if is_well { Style::Plain } else { Style::Alert };
    let percent = |share: Option<f64>| {
        share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0))
    };
    let pid = worker
        .pid
        .map_or_else(|| "-".to_owned(), |pid| pid.to_string());
    Line::new(
        style,
        format!(
            "{} {:<9} {:<8} {:>8} {}{:>5} {:>4} {:>8} {pid:>7}{note}",
            fit(&worker.name, name_width),
            worker.mode,
            worker.state,
            worker.restarts,
            bar(worker.awake_share.unwrap_or(0.0), 8),
            percent(worker.awake_share),
            percent(worker.busy_share),
            si(worker.sleeps_per_s),
        ),
    )
}

fn node_line(node: &NodeRates, name_width: usize) -> Line {
    let is_well = node.drops_pps == 0.0;
    Line::new(
        if is_well { Style::Plain } else { Style::Alert },
        format!(
            "{} {} {:>6}  {:>6}  {:>6}  {:>6}  {:>6} {:>8}",
            fit(&node.name, name_width),
            fit(&node.type_name, 10),
            si(node.rx_pps),
            si(node.rx_l2_bps),
            si(node.tx_pps),
            si(node.tx_l2_bps),
            si(node.drops_pps),
            count(node.drops),
        ),
    )
}

fn link_line(link: &LinkRates, name_width: usize) -> Line {
    let name = fit(&link.name, name_width);
    if link.kind == "inline" {
        return Line::new(Style::Plain, format!("{name} inline -"));
    }
    #[expect(clippy::cast_precision_loss, reason = "a bar for people")]
    let full = link.occupancy as f64 / f64::from(link.slot_count.max(1));
    let note = violations_note(link.violations) + &aggregation_note(&link.aggregation);
    let is_well = link.violations == 0 && full < 0.9;
    Line::new(
        if is_well { Style::Plain } else { Style::Alert },
        format!(
            "{name} {:<6} {:<6} {:>6} {:>6}  {} {:>5} {}{note}",
            link.kind,
            link.trust,
            si(link.pps),
            si(link.l2_bps),
            bar(full, 8),
            link.occupancy,
            link.overflow,
        ),
    )
}

/// Packets per bundle, bytes copied for that, and why; nothing while packets go one by one.
fn aggregation_note(aggregation: &AggregationStatus) -> String {
    if aggregation.bundles == 0 {
        return String::new();
    }
    #[expect(clippy::cast_precision_loss, reason = "bytes for people")]
    let copied = aggregation.packed_bytes as f64;
    let now = if aggregation.is_packing {
        ""
    } else {
        "not now: "
    };
    format!(
        "  {:.1}/bundle, {}B copied ({now}{})",
        aggregation.packets_per_bundle,
        si(copied),
        aggregation.reason,
    )
}

fn violations_note(violations: u64) -> String {
    match violations {
        0 => String::new(),
        count => format!("  {count} violations"),
    }
}

fn counter_line(counter: &CounterRates, name_width: usize) -> Line {
    Line::new(
        Style::Plain,
        format!(
            "{} {:<20} {:>8}  {:>8}",
            fit(&counter.node, name_width),
            counter.counter,
            si(counter.per_s),
            count(counter.total)
        ),
    )
}

fn drop_line(drop: &DropRates, name_width: usize) -> Line {
    let is_well = drop.pps == 0.0;
    Line::new(
        if is_well { Style::Plain } else { Style::Alert },
        format!(
            "{} {:<16} {:>8}  {:>8}",
            fit(&drop.node, name_width),
            drop.reason,
            si(drop.pps),
            count(drop.total)
        ),
    )
}

/// Exactly `width` columns; what is cut off is told by a `~`.
fn fit(text: &str, width: usize) -> String {
    let len = text.chars().count();
    if len <= width {
        return format!("{text:<width$}");
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain((width > 0).then_some('~')).collect()
}

/// `[###---]`, `cells` wide inside; something is never drawn as nothing.
fn bar(share: f64, cells: usize) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of at most 1 of a few cells"
    )]
    let filled = (share.clamp(0.0, 1.0) * cells as f64).ceil() as usize;
    let filled = filled.min(cells);
    format!("[{}{}]", "#".repeat(filled), "-".repeat(cells - filled))
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn count(value: u64) -> String {
    if value < 100_000 {
        value.to_string()
    } else {
        si(value as f64)
    }
}

/// Three digits and a prefix of a thousand: `0`, `7.25`, `12.3k`, `999M`.
fn si(value: f64) -> String {
    let mut value = value;
    for prefix in ["", "k", "M", "G", "T"] {
        // What would be rounded up to 1000 belongs to the next prefix.
        if value < 999.5 {
            return match value {
                v if v == v.round() && prefix.is_empty() => format!("{v:.0}"),
                v if v < 9.995 => format!("{v:.2}{prefix}"),
                v if v < 99.95 => format!("{v:.1}{prefix}"),
                v => format!("{v:.0}{prefix}"),
            };
        }
        value /= 1000.0;
    }
    format!("{value:.0}P")
}

const HELP: &[&str] = &[
    "q, Ctrl-C      quit; the chain goes on",
    "j, down        scroll down; page down: half a page",
    "k, up          scroll up; page up: half a page",
    "g, G           first line, last line",
    "s              sort: as in the file, by rate, by drops and occupancy, by name",
    "space          pause: the numbers stay; again: go on",
    "?              this help; again: back",
    "",
    "PPS, BPS       packets and bits per second in the interval between two samples;",
    "               bits of frames without FCS, preamble and gap",
    "AWAKE          part of the interval in which the worker did not sleep: what it",
    "               took of its core at most",
    "BUSY           part of its turns that moved packets",
    "OCCUPANCY      packets waiting in the link now",
    "TRUST          shared: both sides may write packets; ro: the receiver may only read;",
    "               copy: nothing is shared, packets are copied",
    "FULL           what happens to a packet when the link is full",
];

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
