//! Rates as lines for a terminal of any size, 80x24 included. Pure: the same rates and look give
//! the same lines, none longer than the width, never more than the height.
//!
//! ```text
//! title, wait policy                     fixed
//! workers, nodes, links, drops, counters scrolled
//! keys                                   fixed
//! ```

use std::cmp::Ordering;

use catena_engine::supervisor::status::AggregationStatus;

use super::columns::{Cell, Kind, Table, fit, wrapped};
use super::history::History;
use super::line::{Line, Style, Tint};
use super::rates::{CounterRates, DropRates, LinkRates, NodeRates, Rates, WorkerRates};
use crate::render::duration;

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
    /// Whether the terminal knows ASCII only.
    pub(crate) is_ascii: bool,
}

/// Columns of a frame that is printed once.
pub(crate) const PAPER_WIDTH: usize = 100;

impl Look {
    /// How far the middle part of this frame can be scrolled.
    pub(crate) fn scroll_max(&self, rates: &Rates) -> usize {
        let room = self.room(rates);
        self.middle(rates, &History::default())
            .len()
            .saturating_sub(room)
    }

    /// Lines for the middle part.
    fn room(&self, rates: &Rates) -> usize {
        let fixed = head(rates, self.width).len() + 1;
        self.height.unwrap_or(usize::MAX).saturating_sub(fixed)
    }

    /// The frame.
    pub(crate) fn frame(&self, rates: &Rates, history: &History) -> Vec<Line> {
        let mut lines = head(rates, self.width);
        let middle = self.middle(rates, history);
        match self.height {
            None => lines.extend(middle),
            Some(height) => {
                let room = self.room(rates);
                let scroll = self.scroll.min(middle.len().saturating_sub(room));
                let total = middle.len();
                let head_len = lines.len();
                lines.extend(middle.into_iter().skip(scroll).take(room));
                lines.resize(room + head_len, Line::new(Style::Plain, ""));
                lines.push(self.foot(scroll, room, total));
                lines.truncate(height);
            }
        }
        for line in &mut lines {
            line.text = fit(&line.text, self.width).trim_end().to_owned();
        }
        lines
    }

    /// What keys do, as much of it as there is room for; what matters most comes first.
    fn foot(&self, scroll: usize, room: usize, total: usize) -> Line {
        let pause = if self.is_paused { "PAUSED  " } else { "" };
        let sort = format!("s sort: {}", self.sort.name());
        let place = match total > room {
            true => format!("  {}-{}/{total}", scroll + 1, scroll + room),
            false => String::new(),
        };
        let mut text = format!("{pause}q quit  ? help");
        for key in ["j/k scroll", &sort, "space pause"] {
            let len = text.chars().count() + 2 + key.chars().count() + place.len();
            if len <= self.width {
                text = format!("{text}  {key}");
            }
        }
        Line::new(Style::Title, text + &place)
    }

    fn middle(&self, rates: &Rates, history: &History) -> Vec<Line> {
        if self.shows_help {
            let help = HELP.iter().map(|text| Line::new(Style::Plain, *text));
            return help.collect();
        }
        let drops = drop_table(&rates.drops);
        let counters = counter_table(&rates.counters);
        let tables = [
            worker_table(&rates.workers),
            self.node_table(rates, history),
            self.link_table(rates, history),
            drops,
            counters,
        ];
        let mut lines = Vec::new();
        for table in tables.iter().filter(|table| !table.is_empty()) {
            if !lines.is_empty() {
                lines.push(Line::new(Style::Plain, ""));
            }
            lines.extend(table.lines(self.width));
        }
        lines
    }

    fn node_table(&self, rates: &Rates, history: &History) -> Table {
        let mut table = Table::new(&[
            ("NODE", Kind::Name(8)),
            ("TYPE", Kind::Name(6)),
            ("RX PPS", Kind::Number),
            ("RX BPS", Kind::Number),
            ("TX PPS", Kind::Number),
            ("TX BPS", Kind::Number),
            ("DROPS/S", Kind::Number),
            ("DROPS", Kind::Number),
            ("TREND", Kind::Spark(5)),
        ]);
        for node in self.sorted(&rates.nodes, node_rank, |node| &node.name) {
            let trend = history.rate(&node.name, self.is_ascii);
            table.row(node_style(node), node_cells(node, trend));
        }
        table
    }

    fn link_table(&self, rates: &Rates, history: &History) -> Table {
        let mut table = Table::new(&[
            ("LINK", Kind::Name(12)),
            ("KIND", Kind::Text),
            ("TRUST", Kind::Text),
            ("PPS", Kind::Number),
            ("BPS", Kind::Number),
            ("OCCUPANCY", Kind::Text),
            ("", Kind::Number),
            ("TREND", Kind::Spark(5)),
            ("FULL", Kind::Text),
            ("", Kind::Note),
        ]);
        for link in self.sorted(&rates.links, link_rank, |link| &link.name) {
            let trend = history.fill(&link.name, self.is_ascii);
            table.row(link_style(link), link_cells(link, trend));
        }
        table
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

fn node_rank(node: &NodeRates, sort: Sort) -> f64 {
    match sort {
        Sort::Trouble => node.drops_pps,
        _ => node.rx_pps.max(node.tx_pps),
    }
}

fn link_rank(link: &LinkRates, sort: Sort) -> f64 {
    match sort {
        Sort::Trouble => link.fill(),
        _ => link.pps,
    }
}

fn head(rates: &Rates, width: usize) -> Vec<Line> {
    let deaths = match rates.deaths {
        0 => String::new(),
        1 => "  1 death".to_owned(),
        deaths => format!("  {deaths} deaths"),
    };
    let buffers = rates.buffers;
    let title = format!(
        "catena top: {}  pid {}  up {}  sample {:.2} s  {}/{} buffers free{deaths}",
        rates.chain,
        rates.pid,
        duration(rates.uptime_s),
        rates.interval_s,
        buffers.free,
        buffers.allocated
    );
    let mut lines = vec![Line::new(Style::Title, title)];
    let wait = wrapped(&format!("wait: {}", rates.wait), width);
    lines.extend(wait.into_iter().map(|text| Line::new(Style::Plain, text)));
    lines
}

fn worker_table(workers: &[WorkerRates]) -> Table {
    let mut table = Table::new(&[
        ("WORKER", Kind::Name(8)),
        ("MODE", Kind::Text),
        ("STATE", Kind::Text),
        ("RESTARTS", Kind::Number),
        ("AWAKE", Kind::Text),
        ("", Kind::Number),
        ("BUSY", Kind::Number),
        ("SLEEPS/S", Kind::Number),
        ("PID", Kind::Number),
        ("", Kind::Note),
    ]);
    for worker in workers {
        let is_well = worker.state == "running" && worker.restarts == 0 && worker.violations == 0;
        let style = if is_well { Style::Plain } else { Style::Alert };
        table.row(style, worker_cells(worker));
    }
    table
}

fn worker_cells(worker: &WorkerRates) -> Vec<Cell> {
    let percent = |share: Option<f64>| {
        share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0))
    };
    let pid = worker
        .pid
        .map_or_else(|| "-".to_owned(), |pid| pid.to_string());
    vec![
        worker.name.as_str().into(),
        worker.mode.as_str().into(),
        worker.state.as_str().into(),
        worker.restarts.to_string().into(),
        bar(worker.awake_share.unwrap_or(0.0), 8).into(),
        percent(worker.awake_share).into(),
        percent(worker.busy_share).into(),
        quantity(worker.sleeps_per_s),
        pid.into(),
        violations_note(worker.violations).into(),
    ]
}

fn node_style(node: &NodeRates) -> Style {
    match node.drops_pps == 0.0 {
        true => Style::Plain,
        false => Style::Alert,
    }
}

fn node_cells(node: &NodeRates, trend: String) -> Vec<Cell> {
    vec![
        node.name.as_str().into(),
        node.type_name.as_str().into(),
        quantity(node.rx_pps),
        quantity(node.rx_l2_bps),
        quantity(node.tx_pps),
        quantity(node.tx_l2_bps),
        quantity(node.drops_pps),
        total(node.drops),
        Cell::from(trend).tinted(Tint::Past),
    ]
}

fn link_style(link: &LinkRates) -> Style {
    match link.kind == "inline" || (link.violations == 0 && link.fill() < 0.9) {
        true => Style::Plain,
        false => Style::Alert,
    }
}

fn link_cells(link: &LinkRates, trend: String) -> Vec<Cell> {
    if link.kind == "inline" {
        let cells = [link.name.as_str(), "inline", "-"];
        return cells.map(Cell::from).to_vec();
    }
    let tint = match link.fill() {
        0.0..0.5 => Tint::Good,
        0.5..0.9 => Tint::Warm,
        _ => Tint::Hot,
    };
    let note = violations_note(link.violations) + &aggregation_note(&link.aggregation);
    vec![
        link.name.as_str().into(),
        link.kind.as_str().into(),
        link.trust.as_str().into(),
        quantity(link.pps),
        quantity(link.l2_bps),
        Cell::from(bar(link.fill(), 8)).tinted(tint),
        total(link.occupancy),
        Cell::from(trend).tinted(Tint::Past),
        link.overflow.as_str().into(),
        note.trim().into(),
    ]
}

/// A rate; nothing is dim.
fn quantity(value: f64) -> Cell {
    let cell = Cell::from(si(value));
    if value == 0.0 {
        cell.tinted(Tint::Dim)
    } else {
        cell
    }
}

/// A count; nothing is dim.
fn total(value: u64) -> Cell {
    let cell = Cell::from(count(value));
    if value == 0 {
        cell.tinted(Tint::Dim)
    } else {
        cell
    }
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

fn counter_table(counters: &[CounterRates]) -> Table {
    let mut table = Table::new(&[
        ("COUNTS OF", Kind::Name(8)),
        ("COUNTER", Kind::Text),
        ("PER S", Kind::Number),
        ("TOTAL", Kind::Number),
    ]);
    for counter in counters {
        let names = [
            counter.node.as_str().into(),
            counter.counter.as_str().into(),
        ];
        let numbers = [quantity(counter.per_s), total(counter.total)];
        table.row(Style::Plain, [names, numbers].concat());
    }
    table
}

fn drop_table(drops: &[DropRates]) -> Table {
    let mut table = Table::new(&[
        ("DROPS OF", Kind::Name(8)),
        ("REASON", Kind::Text),
        ("PPS", Kind::Number),
        ("TOTAL", Kind::Number),
    ]);
    for drop in drops {
        let style = if drop.pps == 0.0 {
            Style::Plain
        } else {
            Style::Alert
        };
        let names = [drop.node.as_str().into(), drop.reason.as_str().into()];
        let numbers = [quantity(drop.pps), total(drop.total)];
        table.row(style, [names, numbers].concat());
    }
    table
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
    "TREND          rate of a node from nothing to its highest here, occupancy of a link from",
    "               empty to full; one character a sample, the newest on the right",
    "FULL           what happens to a packet when the link is full",
];

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
