//! Tables for people: the status of a chain on a terminal.

use std::fmt::Write;

use catena_engine::supervisor::status::{LinkStatus, NodeStatus, Status, WorkerStatus};

/// The status as tables: workers, ports and NFs, links.
pub(crate) fn status(status: &Status) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "chain {} (process {}), {:.1} s",
        status.chain, status.pid, status.uptime_s
    );
    let _ = writeln!(text, "wait policy: {}\n", status.wait);
    let rows = status.workers.iter().map(worker_row);
    table(
        &mut text,
        &[
            "WORKER",
            "MODE",
            "PID",
            "STATE",
            "RESTARTS",
            "BUSY TURNS",
            "SLEEPS",
            "VIOLATIONS",
        ],
        rows,
    );
    let rows = status.nodes.iter().map(node_row);
    table(
        &mut text,
        &[
            "NODE",
            "TYPE",
            "RX PACKETS",
            "RX BYTES",
            "TX PACKETS",
            "TX BYTES",
            "DROPS",
        ],
        rows,
    );
    counters(&mut text, &status.nodes);
    let rows = status.links.iter().map(link_row);
    table(
        &mut text,
        &[
            "LINK", "KIND", "TRUST", "FULL", "PACKETS", "BYTES", "IN IT", "PER PULL", "WAKES",
        ],
        rows,
    );
    let buffers = status.buffers;
    let _ = write!(
        text,
        "buffers: {} allocated = {} free + {} in flight",
        buffers.allocated, buffers.free, buffers.in_flight
    );
    for (count, place) in [
        (buffers.held, "held"),
        (buffers.unread, "whose ledger cannot be read"),
    ] {
        let _ = match count {
            0 => Ok(()),
            _ => write!(text, " + {count} {place}"),
        };
    }
    text.push('\n');
    if status.recovery.kept_buffers > 0 {
        let kept = status.recovery.kept_buffers;
        let _ = writeln!(
            text,
            "buffers that dead workers had kept: {kept}, home again"
        );
    }
    for (node, count) in &status.left {
        let _ = writeln!(
            text,
            "left the chain: {node}; {count} packets were killed with its workers, in all its lives"
        );
    }
    for (node, count) in &status.amended {
        let _ = writeln!(
            text,
            "amended: {node}, by {count} control requests that are kept (catena export writes \
             them out)"
        );
    }
    for who in &status.detached {
        let _ = writeln!(text, "detached: {who}");
    }
    for who in &status.accusations {
        let _ = writeln!(text, "without evidence: {who}");
    }
    text
}

/// Running chains as a table.
pub(crate) fn chains(statuses: &[Status]) -> String {
    let mut text = String::new();
    let rows = statuses.iter().map(|status| {
        vec![
            status.chain.clone(),
            status.pid.to_string(),
            duration(status.uptime_s),
            status.workers.len().to_string(),
            status.nodes.len().to_string(),
            status.links.len().to_string(),
            status.deaths.to_string(),
        ]
    });
    let titles = [
        "CHAIN", "PID", "UPTIME", "WORKERS", "NODES", "LINKS", "DEATHS",
    ];
    table(&mut text, &titles, rows);
    text.pop();
    text
}

/// A time as people say it: `12.3 s`, `4 min 05 s`, `3 h 12 min`, `2 d 03 h`.
pub(crate) fn duration(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number of whole seconds, saturated"
    )]
    let whole = seconds as u64;
    match whole {
        0..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {:02} h", whole / 86_400, whole / 3600 % 24),
    }
}

fn worker_row(worker: &WorkerStatus) -> Vec<String> {
    vec![
        worker.name.clone(),
        worker.mode.clone(),
        worker
            .pid
            .map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
        worker.state.clone(),
        worker.restarts.to_string(),
        worker.busy_turns.to_string(),
        worker.sleeps.to_string(),
        worker.violations.to_string(),
    ]
}

fn node_row(node: &NodeStatus) -> Vec<String> {
    let mut drops: Vec<String> = node
        .drops
        .iter()
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    if node.held > 0 {
        drops.push(format!("held {}", node.held));
    }
    if node.killed > 0 {
        drops.push(format!("killed {}", node.killed));
    }
    vec![
        node.name.clone(),
        node.type_name.clone(),
        node.rx_packets.to_string(),
        node.rx_bytes.to_string(),
        node.tx_packets.to_string(),
        node.tx_bytes.to_string(),
        if drops.is_empty() {
            "-".to_owned()
        } else {
            drops.join(", ")
        },
    ]
}

/// What ports and NFs count themselves, one counter in a line.
fn counters(text: &mut String, nodes: &[NodeStatus]) {
    let mut rows = Vec::new();
    for node in nodes {
        // NFs have many counters, most of them of what rarely happens.
        let is_shown = |value: u64| node.kind == "port" || value > 0;
        let shown = node.counters.iter().filter(|(_, value)| is_shown(**value));
        let before = rows.len();
        rows.extend(
            shown.map(|(name, value)| vec![node.name.clone(), (*name).clone(), value.to_string()]),
        );
        let hidden = node.counters.len() - (rows.len() - before);
        if hidden > 0 {
            let others = format!("({hidden} that are 0)");
            rows.push(vec![node.name.clone(), others, String::new()]);
        }
    }
    if !rows.is_empty() {
        table(text, &["COUNTS OF", "COUNTER", "TOTAL"], rows.into_iter());
    }
}

fn link_row(link: &LinkStatus) -> Vec<String> {
    if link.kind == "inline" {
        let dash = || "-".to_owned();
        let mut row = vec![link.name.clone(), "inline".to_owned()];
        row.extend(std::iter::repeat_with(dash).take(7));
        return row;
    }
    let pulls: u64 = link.pulls.iter().sum();
    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    let per_pull = if pulls == 0 {
        0.0
    } else {
        link.rx_packets as f64 / pulls as f64
    };
    let mut notes = link.occupancy.to_string();
    if link.violations > 0 {
        let _ = write!(notes, " ({} violations)", link.violations);
    }
    if link.discarded > 0 {
        let _ = write!(notes, " ({} discarded)", link.discarded);
    }
    if link.aggregation.bundles > 0 {
        let per_bundle = link.aggregation.packets_per_bundle;
        let _ = write!(notes, " ({per_bundle:.1} packets per bundle)");
    }
    vec![
        link.name.clone(),
        format!("{} {}", link.kind, link.slot_count),
        link.trust.clone(),
        link.overflow.clone(),
        link.rx_packets.to_string(),
        link.rx_bytes.to_string(),
        notes,
        format!("{per_pull:.1}"),
        link.wakes.to_string(),
    ]
}

/// A table with columns as wide as they need to be; numbers stand on the right.
pub(crate) fn table(text: &mut String, titles: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let rows: Vec<Vec<String>> = rows.collect();
    let width = |column: usize| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count());
        cells.chain([titles[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    let line = |text: &mut String, cells: &[String]| {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(&widths) {
            let is_number = cell.chars().all(|c| c.is_ascii_digit() || c == '.');
            let width = *width;
            let _ = if is_number {
                write!(line, "{cell:>width$}  ")
            } else {
                write!(line, "{cell:<width$}  ")
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    };
    let titles: Vec<String> = titles.iter().map(ToString::to_string).collect();
    line(text, &titles);
    for row in &rows {
        line(text, row);
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stand_in_a_table_those_of_ports_with_what_is_0() {
        let mut status = crate::sample::status();
        let count = |name: &str, value| (name.to_owned(), value);
        status.nodes[0].counters = [count("cut_short", 0), count("laps", 1)].into();
        status.nodes[2].counters = [count("marked", 3), count("never", 0)].into();
        let text = super::status(&status);
        let table = text
            .split("\n\n")
            .find(|part| part.starts_with("COUNTS OF"))
            .unwrap();
        let wanted = "COUNTS OF  COUNTER         TOTAL\n\
                      in         cut_short           0\n\
                      in         laps                1\n\
                      police     marked              3\n\
                      police     (1 that are 0)";
        assert_eq!(table, wanted);
        assert!(!text.contains('['), "{text}");
    }

    #[test]
    fn durations_are_told_with_two_units() {
        assert_eq!(duration(0.04), "0.0 s");
        assert_eq!(duration(59.94), "59.9 s");
        assert_eq!(duration(245.9), "4 min 05 s");
        assert_eq!(duration(11_520.0), "3 h 12 min");
        assert_eq!(duration(183_600.0), "2 d 03 h");
    }
}
