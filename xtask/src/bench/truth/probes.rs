//! Known truths of probes: a delay that lies outside the nodes, and Little's law on links between
//! workers.
//!
//! SPDX-License-Identifier: Apache-2.0

use serde_json::Value;

use super::super::extent::Extent;
use super::binary::{Binary, SWAP, chain};
use super::{Case, LEFT_OUT};

/// Delay of the box, us.
const BOX_US: f64 = 250.0;
/// Packets are followed in one trial, whatever a busy machine does to it.
const TRIALS: &str = "--probes --trials 1 --rivals 1 --repeats 20";

pub(super) fn cases(binary: &Binary, extent: Extent) -> Vec<Case> {
    let is_brief = extent == Extent::Brief;
    let seconds = if is_brief { 1 } else { 4 };
    let arguments = format!("latency --rate 10kpps --trial {seconds}s {TRIALS}");
    let wrap = format!("fault: {{ tx: {{ delay: {{ fixed: {BOX_US}us }} }} }}");
    // What lies outside is the mean of all packets less that of those that are followed. Where a
    // busy machine holds some up for milliseconds, the two are of different packets.
    let boxed = match extent {
        Extent::Brief => Err(LEFT_OUT.to_owned()),
        _ => binary.of_chain(
            &chain("truth", SWAP, "swap", &wrap),
            &format!("{arguments} --gap 8"),
        ),
    };
    let outside = Case {
        name: format!("probes: outside residence of a box of {BOX_US} us"),
        unit: "us",
        truth: BOX_US,
        said: boxed.as_ref().map_err(Clone::clone).and_then(outside_us),
        // Followed packets are a sample of all: a twentieth below is chance.
        right: (BOX_US * 0.95, BOX_US * 1.02 + 100.0),
    };
    let text = chain("truth", SWAP, "swap", "");
    let found = binary.of_chain(&text, &format!("{arguments} --gap 8 --mode thread"));
    let links = found.as_ref().map_err(Clone::clone).and_then(checked);
    let (held, of) = links.clone().unwrap_or_default();
    // Where following costs time on a busy machine, the law need not hold: it is the whole form
    // that asks for all of them.
    let least = if is_brief { 0.0 } else { 100.0 };
    let law = Case {
        name: format!("probes: Little's law holds ({held} of {of} links of three workers)"),
        unit: "%",
        truth: 100.0,
        said: links.map(|(held, of)| f64::from(held) / f64::from(of) * 100.0),
        right: (least, 100.0),
    };
    vec![outside, law]
}

/// What lies outside the probes of the first trial.
fn outside_us(document: &Value) -> Result<f64, String> {
    let shares = document["blame"][0][1]["shares"].as_array();
    let mut shares = shares.into_iter().flatten();
    let found = shares.find(|share| share["component"] == "outside residence");
    let ns = found.and_then(|share| share["mean_ns"].as_f64());
    ns.map(|ns| ns / 1e3)
        .ok_or_else(|| "no packet was followed".to_owned())
}

/// Links for which the law holds, within what sampling leaves open, of those that were checked.
fn checked(document: &Value) -> Result<(u32, u32), String> {
    let rows = document["results"].as_array().into_iter().flatten();
    let is_law = |row: &&Value| row[0].as_str().is_some_and(|n| n.ends_with("Little's law"));
    let said = rows.filter(is_law).filter_map(|row| row[1].as_str());
    let (mut held, mut of) = (0, 0);
    for text in said {
        of += 1;
        held += u32::from(text.contains(": holds"));
    }
    match of {
        0 => Err("no link was checked".to_owned()),
        _ => Ok((held, of)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_report_says_of_probes_is_read() {
        let document = serde_json::json!({
            "blame": [["x", { "shares": [
                { "component": "NF", "mean_ns": 5.0 },
                { "component": "outside residence", "mean_ns": 251_000.0 },
            ] }]],
            "results": [
                ["x, trial 1: Little's law", "a -> b: counted 1, rate x residency 1: holds, 1 %"],
                ["x, trial 1: Little's law", "b -> c: counted 1: DOES NOT HOLD, 9 %"],
                ["lost", "0"],
            ],
        });
        assert_eq!(outside_us(&document), Ok(251.0));
        assert_eq!(checked(&document), Ok((1, 2)));
        let none = serde_json::json!({ "results": [] });
        assert!(outside_us(&none).is_err() && checked(&none).is_err());
    }
}
