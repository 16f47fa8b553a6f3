//! Results that are too much alike: rates that stay the same over factors that must matter.
//!
//! A frame of 1518 bytes, three functions instead of one, or another mode take more work; a rate at
//! the highest load that does not move with them is the rate of something else. What it may be is
//! named, so that nobody publishes a timer's frequency as a device's throughput.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::FACTORS;
use super::cell_result::CellResult;

/// Factors that a device's rate must move with.
const MUST_MATTER: [&str; 3] = ["mode", "size", "nfs"];
/// Rates within this share of each other are the same.
const SAME: f64 = 0.005;
/// Name of the value that is looked at.
const RATE: &str = "rate at max";
/// Lengths of queues that kernels use.
const QUEUES: [f64; 6] = [100.0, 128.0, 256.0, 500.0, 512.0, 1000.0];
/// Ticks a second that kernels use, where this kernel's is not known.
const TICKS: [f64; 4] = [100.0, 250.0, 300.0, 1000.0];

/// A rate that does not move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspicion {
    /// The factor that it should move with.
    pub factor: String,
    /// The levels of it over which it stays the same.
    pub over: Vec<String>,
    /// Levels of the other factors, as far as they are more than one.
    pub within: Vec<(String, String)>,
    /// Least and highest rate, packets per second.
    pub rates_pps: (f64, f64),
    /// What it may be instead of the device.
    pub suspects: Vec<String>,
}

impl Suspicion {
    /// The suspicion as a sentence.
    pub fn sentence(&self) -> String {
        let within: Vec<_> = self
            .within
            .iter()
            .map(|(factor, level)| format!("{factor} {level}"))
            .collect();
        let place = if within.is_empty() {
            String::new()
        } else {
            format!(" ({})", within.join(", "))
        };
        format!(
            "{:.0} to {:.0} packets/s over {} {}{place}: this is hardly the device's; suspects: {}",
            self.rates_pps.0,
            self.rates_pps.1,
            self.factor,
            self.over.join(", "),
            self.suspects.join("; ")
        )
    }
}

/// What a rate may be if it is not the device's.
fn suspects(rate: f64, tick_hz: Option<f64>) -> Vec<String> {
    let known = tick_hz.map(|hz| vec![hz]);
    let ticks = known.unwrap_or_else(|| TICKS.to_vec());
    let mut found = Vec::new();
    for hz in ticks {
        for queue in QUEUES {
            if (rate / (queue * hz) - 1.0).abs() < SAME {
                found.push(format!(
                    "a queue of {queue:.0} packets that is emptied {hz:.0} times a second, once in \
                     a tick of the kernel (txqueuelen x HZ)"
                ));
            }
        }
    }
    found.push("a limit of the tester or of what lies between it and the device".to_owned());
    found
}

/// Every set of combinations that differ in one factor alone and whose rates do not differ.
pub fn suspicions(
    factors: &[(String, Vec<String>)],
    cells: &[CellResult],
    tick_hz: Option<f64>,
) -> Vec<Suspicion> {
    let mut found = Vec::new();
    for factor in MUST_MATTER {
        let Some(place) = FACTORS.iter().position(|name| *name == factor) else {
            continue;
        };
        let mut groups: BTreeMap<Vec<&str>, Vec<(&str, f64)>> = BTreeMap::new();
        for cell in cells {
            let (Some(level), Some(rate)) = (cell.levels.get(place), cell.values.get(RATE)) else {
                continue;
            };
            let others = cell.levels.iter().enumerate();
            let others = others.filter(|(at, _)| *at != place);
            let key = others.map(|(_, level)| level.as_str()).collect();
            groups.entry(key).or_default().push((level, rate.estimate));
        }
        for (others, rates) in groups {
            let low = rates
                .iter()
                .map(|(_, rate)| *rate)
                .fold(f64::INFINITY, f64::min);
            let high = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
            if rates.len() < 2 || low <= 0.0 || high > low * (1.0 + SAME) {
                continue;
            }
            let names = FACTORS.iter().filter(|name| **name != factor);
            let within = names.zip(others).filter(|(name, _)| {
                let levels = factors.iter().find(|(known, _)| known == *name);
                levels.is_some_and(|(_, levels)| levels.len() > 1)
            });
            found.push(Suspicion {
                factor: factor.to_owned(),
                over: rates.iter().map(|(level, _)| (*level).to_owned()).collect(),
                within: within
                    .map(|(name, level)| ((*name).to_owned(), level.to_owned()))
                    .collect(),
                rates_pps: (low, high),
                suspects: suspects(f64::midpoint(low, high), tick_hz),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::summary::Spread;
    use super::*;

    fn cell(port: &str, size: &str, rate: f64) -> CellResult {
        let levels = FACTORS.iter().map(|factor| match *factor {
            "port" => port.to_owned(),
            "size" => size.to_owned(),
            _ => "one".to_owned(),
        });
        let spread = Spread {
            estimate: rate,
            interval: None,
        };
        CellResult {
            levels: levels.collect(),
            trials: 5,
            values: BTreeMap::from([(RATE.to_owned(), spread)]),
            latency: None,
            over_time: None,
            failure: None,
            probe_tax: None,
            steadiness: None,
        }
    }

    /// Figures of a study over kernel ports, and of one over links.
    #[test]
    fn a_rate_that_is_a_queue_by_a_tick_is_suspected_and_a_device_is_not() {
        let cells = [
            cell("packet_socket", "64", 250_189.0),
            cell("packet_socket", "1518", 250_367.0),
            cell("link", "64", 9_000_000.0),
            cell("link", "1518", 6_000_000.0),
        ];
        let two =
            |name: &str, levels: [&str; 2]| (name.to_owned(), levels.map(str::to_owned).to_vec());
        let factors = [
            two("port", ["link", "packet_socket"]),
            two("size", ["64", "1518"]),
        ];
        let found = suspicions(&factors, &cells, Some(250.0));
        assert_eq!(found.len(), 1, "{found:#?}");
        let sentence = found[0].sentence();
        for part in [
            "250189 to 250367 packets/s over size 64, 1518 (port packet_socket)",
            "a queue of 1000 packets that is emptied 250 times a second",
        ] {
            assert!(sentence.contains(part), "{sentence}");
        }
        // The same without a word of the kernel's tick; with another tick it is something else.
        assert_eq!(suspicions(&factors, &cells, None)[0].suspects.len(), 2);
        assert_eq!(
            suspicions(&factors, &cells, Some(300.0))[0].suspects.len(),
            1
        );
    }

    #[test]
    fn one_level_or_no_rate_is_no_ground() {
        let mut cells = vec![cell("link", "64", 1e6)];
        assert!(suspicions(&[], &cells, None).is_empty());
        cells.push(cell("link", "1518", 1.02e6));
        assert!(suspicions(&[], &cells, None).is_empty());
        cells[1].values.clear();
        assert!(suspicions(&[], &cells, None).is_empty());
    }
}
