//! What a `pktgenrcv` says at the end: counters for the chain's status, histograms for a file.

use std::path::Path;

use catena_engine::port::PortError;
use catena_measure::stats::histogram::Histogram;
use catena_pcs::params::CODEWORD_BITS;
use serde_json::{Map, Value, json};

use super::arriving::Arriving;
use super::sending::Sending;

/// Names of a histogram's figures, with their quantiles.
type Names = [(&'static str, f64); 4];

const CHUNK: Names = [
    ("latency_ns_p50", 0.5),
    ("latency_ns_p90", 0.9),
    ("latency_ns_p99", 0.99),
    ("latency_ns_p999", 0.999),
];
const CLEAN: Names = [
    ("clean_latency_ns_p50", 0.5),
    ("clean_latency_ns_p90", 0.9),
    ("clean_latency_ns_p99", 0.99),
    ("clean_latency_ns_p999", 0.999),
];
const STALLED: Names = [
    ("stalled_latency_ns_p50", 0.5),
    ("stalled_latency_ns_p90", 0.9),
    ("stalled_latency_ns_p99", 0.99),
    ("stalled_latency_ns_p999", 0.999),
];
const NET: Names = [
    ("net_latency_ns_p50", 0.5),
    ("net_latency_ns_p90", 0.9),
    ("net_latency_ns_p99", 0.99),
    ("net_latency_ns_p999", 0.999),
];
const FRAME: Names = [
    ("frame_latency_ns_p50", 0.5),
    ("frame_latency_ns_p90", 0.9),
    ("frame_latency_ns_p99", 0.99),
    ("frame_latency_ns_p999", 0.999),
];

/// How many of its counters are known at any time.
const COUNT: usize = 20;

/// Names of those, in the order of [`counts`].
pub(super) const COUNTERS: &[&str; COUNT] = &[
    "chunks",
    "chunks_idle",
    "chunks_returned",
    "chunks_lost",
    "chunks_stale",
    "chunks_malformed",
    "chunks_foreign",
    "frames",
    "frames_returned",
    "frames_lost",
    "frames_duplicated",
    "frames_reordered",
    "frames_corrupted",
    "octets",
    "octets_returned",
    "octets_compared",
    "bit_errors",
    "chunks_measured",
    "chunks_stalled",
    "stalled_ns",
];

/// What it has counted so far, by name: loads and a few sums, for the data path.
pub(super) fn counts(
    sending: &Sending,
    arriving: &Arriving,
) -> impl Iterator<Item = (&'static str, u64)> {
    let (sent, back) = (&sending.counts, &arriving.counts);
    let quality = arriving.quality();
    let values = [
        sent.chunks,
        sent.idle_chunks,
        back.returned,
        back.lost,
        back.stale,
        back.malformed,
        back.foreign,
        sent.frames,
        quality.unique,
        quality.lost(sent.frames),
        quality.duplicates,
        quality.reordered,
        back.corrupted,
        sent.octets,
        back.octets,
        back.octets_compared,
        back.bit_errors,
        back.measured,
        back.stalled,
        back.stalled_ns,
    ];
    COUNTERS.iter().copied().zip(values)
}

/// Counters and figures by name. Figures for which there are too few samples are left out.
pub(super) fn report(sending: &Sending, arriving: &Arriving) -> Vec<(&'static str, u64)> {
    let back = &arriving.counts;
    let mut report: Vec<_> = counts(sending, arriving).collect();
    let span_ns = u128::from(arriving.span_ns());
    let line_bits = u128::from(back.measured) * sending.codewords() as u128 * CODEWORD_BITS as u128;
    if let Some(rate) = (line_bits * 1_000_000_000).checked_div(span_ns) {
        report.push(("line_bps", u64::try_from(rate).unwrap_or(u64::MAX)));
    }
    figures(&mut report, &arriving.chunk_ns, CHUNK);
    ends(
        &mut report,
        &arriving.chunk_ns,
        "latency_ns_min",
        "latency_ns_max",
    );
    figures(&mut report, &arriving.clean_ns, CLEAN);
    let most = arriving.clean_ns.max();
    report.extend(most.map(|most| ("clean_latency_ns_max", most)));
    figures(&mut report, &arriving.stalled_ns, STALLED);
    figures(&mut report, &arriving.net_ns, NET);
    figures(&mut report, &arriving.frame_ns, FRAME);
    ends(
        &mut report,
        &arriving.frame_ns,
        "frame_latency_ns_min",
        "frame_latency_ns_max",
    );
    report
}

fn figures(report: &mut Vec<(&'static str, u64)>, histogram: &Histogram, names: Names) {
    let figures = names.map(|(name, quantile)| Some((name, histogram.quantile(quantile)?)));
    report.extend(figures.into_iter().flatten());
}

fn ends(
    report: &mut Vec<(&'static str, u64)>,
    histogram: &Histogram,
    least: &'static str,
    most: &'static str,
) {
    report.extend(histogram.min().map(|value| (least, value)));
    report.extend(histogram.max().map(|value| (most, value)));
}

/// Writes the results file, all of it or none.
///
/// # Errors
/// What the file system refused.
pub(super) fn write(path: &Path, sending: &Sending, arriving: &Arriving) -> Result<(), PortError> {
    let failed = |error: String| PortError(format!("{}: {error}", path.display()));
    let counts: Map<String, Value> = report(sending, arriving)
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    let (samples, stride) = arriving.samples();
    let results = json!({
        "counts": counts,
        "codewords": sending.codewords(),
        "chunk_ns": arriving.chunk_ns,
        "clean_ns": arriving.clean_ns,
        "stalled_ns": arriving.stalled_ns,
        "net_ns": arriving.net_ns,
        "frame_ns": arriving.frame_ns,
        "samples": samples,
        "stride": stride,
        "ns_per_tick": arriving.rate().ns_per_tick(),
    });
    let text = serde_json::to_string(&results).map_err(|error| failed(error.to_string()))?;
    let part = path.with_extension("part");
    std::fs::write(&part, text)
        .and_then(|()| std::fs::rename(&part, path))
        .map_err(|error| failed(error.to_string()))
}
