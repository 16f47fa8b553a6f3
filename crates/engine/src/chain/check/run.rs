//! The `run` section of a chain file, one step of checking it: modes, waiting, cores, buffers.

use catena_shm::staging;

use super::fields::{choice, core, entry, integer, known_keys, map};
use crate::chain::diagnostic::Report;
use crate::chain::model::{BURST, BURST_LIMITS, ORPHAN_MS, ORPHAN_MS_MAX, Run};
use crate::chain::parse::{Entry, Tree, Value};
use crate::placement::{BUFFER_COUNT_MAX, size_classes};
use crate::units::{ByteSize, Span};

/// Keys of the `run` section.
pub(crate) const RUN_KEYS: &[&str] = &[
    "mode", "wait", "burst", "cores", "image", "buffers", "orphan",
];
pub(crate) const MODES: &[&str] = &["inline", "thread", "process", "container"];
pub(crate) const WAITS: &[&str] = &["auto", "spin", "yield", "sleep"];

/// Image for `container` mode unless the file names one.
pub const DEFAULT_IMAGE: &str = "catena-worker";

/// Smallest and largest buffer: 128 bytes and 16 MiB, headroom included.
pub(crate) const BUFFER_BYTES_LIMITS: (u32, u32) = (1 << 7, 1 << 24);

/// Reads the section, with defaults for what is missing or wrong.
pub(super) fn run(report: &mut Report<'_>, tree: Option<&Tree>, available: &[usize]) -> Run {
    let mut run = Run::default();
    let Some(entries) = tree.and_then(|tree| map(report, tree, "run")) else {
        return run;
    };
    known_keys(report, entries, "run", RUN_KEYS);
    // Of what cannot be read that has been said.
    let is_read = |entry: &&Entry| !matches!(entry.tree.value, Value::Broken);
    let entry = |key| entry(entries, key).filter(is_read);
    if let Some(entry) = entry("mode") {
        run.mode = choice(report, entry, MODES).unwrap_or_default();
    }
    if let Some(entry) = entry("wait") {
        run.wait = choice(report, entry, WAITS).unwrap_or_default();
    }
    if let Some(entry) = entry("burst") {
        let limits = u64::from(BURST_LIMITS.0)..=u64::from(BURST_LIMITS.1);
        let burst = integer(report, &entry.tree, "burst", limits);
        run.burst = burst.and_then(|n| u16::try_from(n).ok()).unwrap_or(BURST);
    }
    if let Some(entry) = entry("cores") {
        run.cores = cores(report, &entry.tree, available);
    }
    if let Some(entry) = entry("image") {
        run.image = image(report, &entry.tree);
    }
    if let Some(entry) = entry("orphan") {
        run.orphan_ms = orphan(report, &entry.tree).unwrap_or_default();
    }
    if let Some(entry) = entry("buffers") {
        run.buffers = buffers(report, &entry.tree);
        burst_fits(report, &entry.tree, &run);
    }
    run
}

/// A `copy` link must be able to take a burst of the largest packets.
fn burst_fits(report: &mut Report<'_>, tree: &Tree, run: &Run) {
    let classes = size_classes(&run.buffers);
    let largest = classes.last().map_or(0, |(bytes, _)| *bytes);
    if staging::bytes_for(run.burst.into(), largest).is_none() {
        report.error(
            tree.at,
            format!(
                "links cannot hold {} packets of up to {}",
                run.burst,
                size(largest)
            ),
            format!("write smaller buffers, or burst: {}", (1 << 29) / largest),
        );
    }
}

fn cores(report: &mut Report<'_>, tree: &Tree, available: &[usize]) -> Vec<usize> {
    let Value::List(items) = &tree.value else {
        report.error(
            tree.at,
            format!("cores must be a list, not {}", tree.noun()),
            "write it like [0, 1]",
        );
        return Vec::new();
    };
    let mut cores = Vec::new();
    for item in items {
        match core(report, item, available) {
            Some(core) if cores.contains(&core) => {
                report.error(item.at, format!("core {core} occurs twice"), "remove one");
            }
            Some(core) => cores.push(core),
            None => {}
        }
    }
    cores
}

fn image(report: &mut Report<'_>, tree: &Tree) -> Option<String> {
    match &tree.value {
        Value::Text(image) if !image.is_empty() && !image.contains(char::is_whitespace) => {
            Some(image.clone())
        }
        _ => {
            report.error(
                tree.at,
                "image is not the name of a container image",
                format!("write one like {DEFAULT_IMAGE}"),
            );
            None
        }
    }
}

fn orphan(report: &mut Report<'_>, tree: &Tree) -> Option<u64> {
    let Value::Text(text) = &tree.value else {
        report.error(
            tree.at,
            format!("orphan must be stop, keep or a time, not {}", tree.noun()),
            ORPHAN_FORM,
        );
        return None;
    };
    match text.as_str() {
        "stop" => return Some(0),
        "keep" => return Some(ORPHAN_MS),
        _ => {}
    }
    let time = Span::parse(text).map(|span| span.ns / 1_000_000);
    match time {
        Ok(ms) if (1..=ORPHAN_MS_MAX).contains(&ms) => Some(ms),
        Ok(_) => {
            let why = "workers go on without a supervisor for 1ms to 60min";
            report.error(tree.at, why, ORPHAN_FORM);
            None
        }
        Err(_) => {
            let why = format!("\"{text}\" is neither stop nor keep, nor a time");
            report.error(tree.at, why, ORPHAN_FORM);
            None
        }
    }
}

const ORPHAN_FORM: &str = "write stop, keep (which is 10min), or a time like 30s";

fn buffers(report: &mut Report<'_>, tree: &Tree) -> Vec<(u32, u32)> {
    let mut buffers: Vec<(u32, u32)> = Vec::new();
    for entry in map(report, tree, "buffers").unwrap_or_default() {
        let Some(bytes) = buffer_bytes(report, entry) else {
            continue;
        };
        let limit = (1_u64 << 32) / u64::from(bytes);
        let what = format!("the number of {} buffers", entry.key);
        let count = integer(report, &entry.tree, &what, 1..=limit);
        if buffers.iter().any(|&(other, _)| other == bytes) {
            report.error(
                entry.at,
                format!("there are two entries for buffers of {bytes} bytes"),
                "remove one of the two",
            );
        } else if let Some(count) = count.and_then(|count| u32::try_from(count).ok()) {
            buffers.push((bytes, count));
        }
    }
    buffers.sort_unstable();
    let sum: u64 = size_classes(&buffers)
        .iter()
        .map(|(_, count)| u64::from(*count))
        .sum();
    if sum > u64::from(BUFFER_COUNT_MAX) {
        report.error(
            tree.at,
            format!(
                "each worker that makes packets would have {sum} buffers, and {BUFFER_COUNT_MAX} \
                 is the most"
            ),
            "write smaller numbers; sizes that are not written have their usual ones",
        );
    }
    buffers
}

fn buffer_bytes(report: &mut Report<'_>, entry: &Entry) -> Option<u32> {
    let (low, high) = BUFFER_BYTES_LIMITS;
    match ByteSize::parse(&entry.key).map(|size| u32::try_from(size.bytes)) {
        Err(message) => {
            let message = message.split(';').next().unwrap_or_default();
            report.error(entry.at, message, "write sizes like 128B or 2KiB");
            None
        }
        Ok(Ok(bytes)) if bytes.is_power_of_two() && (low..=high).contains(&bytes) => Some(bytes),
        Ok(wanted) => {
            report.error(
                entry.at,
                format!("buffers cannot have {}", entry.key),
                match wanted {
                    Ok(bytes) if bytes > low && bytes < high => {
                        let above = bytes.next_power_of_two();
                        format!("write {} or {}", size(above / 2), size(above))
                    }
                    _ => "use a power of two from 128B to 16MiB".to_owned(),
                },
            );
            None
        }
    }
}

/// A power of two of bytes, as it is written in chain files.
fn size(bytes: u32) -> String {
    match bytes.trailing_zeros() {
        exponent @ 0..10 => format!("{}B", 1 << exponent),
        exponent @ 10..20 => format!("{}KiB", 1 << (exponent - 10)),
        exponent => format!("{}MiB", 1 << (exponent - 20)),
    }
}
