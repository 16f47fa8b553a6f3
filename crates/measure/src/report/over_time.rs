//! Delay over time as counts, for a heat map in a report: from samples of trials.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::latency::Sample;
use crate::latency::stall::Stall;

/// Columns and rows.
const CELLS: [usize; 2] = [60, 30];

/// Counts of delays by time and delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverTime {
    /// Borders of columns, seconds from the start.
    pub time_edges_s: Vec<f64>,
    /// Borders of rows, ns.
    pub delay_edges_ns: Vec<f64>,
    /// Packets, row by row from the lowest delay.
    pub counts: Vec<f64>,
    /// Stalls, as beginning and end in seconds.
    pub stalls_s: Vec<(f64, f64)>,
}

impl OverTime {
    /// Of the samples of a trial of this length; `None` without any.
    pub fn of(samples: &[Sample], stalls: &[Stall], duration: Duration) -> Option<Self> {
        let delays = samples.iter().map(|sample| sample.delay_ns().max(1));
        let (least, most) = (delays.clone().min()? as f64, delays.max()? as f64 * 1.01);
        let seconds = duration.as_secs_f64();
        let [columns, rows] = CELLS;
        let factor = (most / least).max(1.1).ln();
        let mut counts = vec![0.0; columns * rows];
        for sample in samples {
            let time = sample.intended_ns as f64 / 1e9 / seconds;
            let height = (sample.delay_ns().max(1) as f64 / least).ln() / factor;
            let column = ((time * columns as f64) as usize).min(columns - 1);
            let row = ((height * rows as f64) as usize).min(rows - 1);
            counts[row * columns + column] += 1.0;
        }
        let edges = |count: usize, at: &dyn Fn(f64) -> f64| -> Vec<f64> {
            (0..=count)
                .map(|edge| at(edge as f64 / count as f64))
                .collect()
        };
        let stalls = stalls.iter();
        let stalls = stalls.map(|stall| (stall.begin as f64 / 1e9, stall.end as f64 / 1e9));
        Some(Self {
            time_edges_s: edges(columns, &|share| share * seconds),
            delay_edges_ns: edges(rows, &|share| {
                (least * (share * factor).exp() * 10.0).round() / 10.0
            }),
            counts,
            // What cannot be seen at this width only makes the page larger.
            stalls_s: stalls
                .filter(|(from, to)| to - from > seconds / 2000.0)
                .collect(),
        })
    }
}
