//! Known truths of whole studies: a factor that matters by a known ratio, and one that does not.
//!
//! SPDX-License-Identifier: Apache-2.0

use serde_json::Value;

use super::super::extent::Extent;
use super::binary::Binary;
use super::{Case, LEFT_OUT};

/// A policer of bits lets half as many frames pass if they are twice as long; one of packets does
/// not look at sizes. Their bursts are long enough that a busy machine spoils no tokens.
pub(super) fn cases(binary: &Binary, extent: Extent) -> Vec<Case> {
    let blocks = if extent == Extent::Brief { 4 } else { 8 };
    let ratio = |policer: &str| {
        let text = format!(
            "name: known\nblocks: {blocks}\ntrial: 200ms\nnf: {{ type: policer, {policer} }}\n\
             factors: {{ size: [128, 256], rate: max }}\n"
        );
        let study = binary.write("study.yaml", &text)?;
        let options = ["--rivals", "1", "--repeats", "20", "--warmup", "200ms"];
        let mut all = vec!["study".to_owned(), study];
        all.extend(options.map(str::to_owned));
        let document = binary.measure(&all)?;
        effect(&document)
    };
    let bits = ratio("rate: 10Mbps, burst: 256KiB");
    let packets = match extent {
        Extent::Brief => Err(LEFT_OUT.to_owned()),
        _ => ratio("rate: 10kpps, burst: 2000"),
    };
    let case = |name: &str, unit, truth, said, right| Case {
        name: format!("study: {name}"),
        unit,
        truth,
        said,
        right,
    };
    let share = |found: &Result<(f64, String), String>| found.clone().map(|(ratio, _)| ratio);
    let is_said = |found: &Result<(f64, String), String>, verdicts: &[&str]| {
        let found = found.clone();
        found.map(|(_, verdict)| f64::from(u8::from(verdicts.contains(&verdict.as_str()))))
    };
    // Lengths count without FCS: 252 against 124 bytes.
    let truth = 124.0 / 252.0;
    let within = |truth: f64, error: f64| (truth - error, truth + error);
    if extent == Extent::Brief {
        let name = "frames twice as long, policed by bits";
        // Other work may hold back either of the two; twice as much as is offered it is not.
        let right = (truth / 2.0, 0.95);
        return vec![case(name, "ratio", truth, share(&bits), right)];
    }
    let none = ["same", "inconclusive"];
    vec![
        case(
            "frames twice as long, policed by bits",
            "ratio",
            truth,
            share(&bits),
            within(truth, 0.03),
        ),
        case(
            "that is named as a difference",
            "of 1",
            1.0,
            is_said(&bits, &["lower"]),
            (1.0, 1.0),
        ),
        case(
            "frames twice as long, policed by packets",
            "ratio",
            1.0,
            share(&packets),
            within(1.0, 0.03),
        ),
        case(
            "that is named as none",
            "of 1",
            1.0,
            is_said(&packets, &none),
            (1.0, 1.0),
        ),
    ]
}

/// Ratio and verdict of the second size over the first, in rate.
fn effect(document: &Value) -> Result<(f64, String), String> {
    let effects = document["study"]["effects"]
        .as_array()
        .into_iter()
        .flatten();
    let mut found = effects.filter(|one| one["factor"] == "size" && one["metric"] == "rate at max");
    let found = found
        .next()
        .ok_or_else(|| document["summary"].to_string())?;
    let ratio = found["ratio"]["estimate"].as_f64();
    let verdict = found["verdict"].as_str();
    ratio
        .zip(verdict)
        .map(|(ratio, verdict)| (ratio, verdict.to_owned()))
        .ok_or_else(|| found.to_string())
}
