//! Known truths of two chains that take turns.
//!
//! SPDX-License-Identifier: Apache-2.0

use super::super::extent::Extent;
use super::Case;
use super::binary::{Binary, SWAP, chain};

/// What a comparison found: the ratio, and 1 for higher, -1 for lower, 0 for neither.
#[derive(Clone, Copy)]
struct Found {
    ratio: f64,
    sign: f64,
}

fn compare(binary: &Binary, extent: Extent, a: &str, b: &str) -> Result<Found, String> {
    let (a, b) = (binary.write("a.yaml", a)?, binary.write("b.yaml", b)?);
    let how = match extent {
        Extent::Brief => "--trial 4ms --pairs 150",
        Extent::Quick => "--trial 10ms --within 4s",
        Extent::Whole => "--trial 10ms --within 20s",
    };
    let mut all = vec!["compare".to_owned(), a, b];
    all.extend(["--together", "--rivals", "1"].map(str::to_owned));
    all.extend(how.split(' ').map(str::to_owned));
    let document = binary.measure(&all)?;
    let found = &document["comparisons"][0][1];
    let ratio = found["ratio"]["estimate"].as_f64();
    let ratio = ratio.ok_or_else(|| document["summary"].to_string())?;
    let sign = match found["verdict"].as_str() {
        Some("higher") => 1.0,
        Some("lower") => -1.0,
        _ => 0.0,
    };
    Ok(Found { ratio, sign })
}

/// The ratio of B over A, and its sign where they differ.
fn both(
    what: &str,
    truth: f64,
    right: (f64, f64),
    found: &Result<Found, String>,
) -> impl Iterator<Item = Case> {
    let name = format!("compare --together: {what}");
    let sign = if truth > 1.0 { 1.0 } else { -1.0 };
    let (ratio, said) = (
        found.clone().map(|found| found.ratio),
        found.clone().map(|found| found.sign),
    );
    let signed = (truth != 1.0).then(|| Case {
        name: format!("{name}: sign"),
        unit: "",
        truth: sign,
        said,
        right: (sign, sign),
    });
    let ratio = Case {
        name,
        unit: "ratio",
        truth,
        said: ratio,
        right,
    };
    std::iter::once(ratio).chain(signed)
}

/// Two chains in turns: policed, paced at known rates, and with functions added.
pub(super) fn cases(binary: &Binary, extent: Extent) -> Vec<Case> {
    let policer = |name: &str, rate: &str| {
        let nf = format!("police: {{ type: policer, rate: {rate}, burst: 8 }}");
        chain(name, &nf, "police", "pace: { tx: 1Mpps }")
    };
    let mut cases = Vec::new();
    let is_brief = extent == Extent::Brief;
    for (a, b) in [(500.0, 10.0), (10.0, 500.0)] {
        let truth: f64 = b / a;
        let found = compare(
            binary,
            extent,
            &policer("a", &format!("{a}kpps")),
            &policer("b", &format!("{b}kpps")),
        );
        // A busy machine lets less of the faster one pass, so that the two come closer.
        let right = match (is_brief, truth < 1.0) {
            (true, true) => (0.0, 0.5),
            (true, false) => (2.0, f64::INFINITY),
            (false, _) => (0.75 * truth, 1.25 * truth),
        };
        let what = format!("a policer of {b} kpps over one of {a} kpps");
        cases.extend(both(&what, truth, right, &found));
    }
    if is_brief {
        return cases;
    }
    let paced = |name: &str, kpps: f64| {
        let wrap = format!("pace: {{ tx: {}pps }}", kpps * 1e3);
        chain(name, SWAP, "swap", &wrap)
    };
    for (a, b) in [
        (100.0, 98.0),
        (98.0, 100.0),
        (100.0, 80.0),
        (80.0, 100.0),
        (100.0, 100.0),
    ] {
        let truth = b / a;
        let found = compare(binary, extent, &paced("a", a), &paced("b", b));
        let right = (truth - 0.01, truth + 0.01);
        cases.extend(both(
            &format!("{b} kpps over {a} kpps"),
            truth,
            right,
            &found,
        ));
    }
    let three = "one: { type: macswap }, two: { type: macswap }, three: { type: macswap }";
    let (one, more) = (
        inline(&chain("a", SWAP, "swap", "")),
        inline(&chain("b", three, "one -> two -> three", "")),
    );
    let found = compare(binary, extent, &one, &more);
    // How much two functions take differs by machine; more of them never make a chain faster.
    cases.extend(both("two functions more", 0.955, (0.5, 0.999), &found));
    let found = compare(binary, extent, &more, &one);
    cases.extend(both("two functions fewer", 1.047, (1.001, 2.0), &found));
    cases
}

/// The same chain as one loop.
fn inline(chain: &str) -> String {
    format!("{chain}run: {{ mode: inline }}\n")
}
