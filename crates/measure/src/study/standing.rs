//! How far a study's latencies may call themselves after the documents that define them.

use std::time::Duration;

use super::record::Record;
use crate::latency::standing;

/// The standing of a study's latencies, over the trials of each combination at a load; none without
/// one.
pub fn rows(blocks: u32, length: Duration, records: &[Record]) -> Vec<(String, String)> {
    let measured = records
        .iter()
        .filter_map(|record| record.result.as_ref().ok());
    let trials = measured.filter_map(|found| Some((found.forwarded, found.latency.as_ref()?)));
    // Of packets that came back, so many have a latency.
    let counts = trials.map(|(came, latency)| {
        let tagged = latency.raw.count();
        (tagged, came.div_ceil(tagged.max(1)))
    });
    let counts: Vec<_> = counts.collect();
    let tagged = counts.iter().map(|(tagged, _)| *tagged).min();
    let stride = counts.iter().map(|(_, stride)| *stride).max();
    let (Some(tagged), Some(stride)) = (tagged, stride) else {
        return Vec::new();
    };
    let tagged = usize::try_from(tagged).unwrap_or(usize::MAX);
    standing::rows(blocks as usize, length, tagged, stride)
}
