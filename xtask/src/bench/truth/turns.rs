//! Known truths of two chains that take turns.
//!
//! SPDX-License-Identifier: Apache-2.0

use serde_json::Value;

use super::super::extent::Extent;
use super::Case;
use super::binary::{Binary, SWAP, chain, policer, row};

/// What a comparison found: the ratio, 1 for higher, -1 for lower, 0 for neither, and the least
/// difference that it said before the run it would show.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Found {
    ratio: f64,
    sign: f64,
    detectable: f64,
}

/// Shares at which A and B are told apart in 4 of 5 cases only, by what is said before the run.
const POWER: &str = "power, said before the run";

/// How two chains are compared unless there is a reason.
const fn usual(extent: Extent) -> &'static str {
    match extent {
        Extent::Brief => "--trial 4ms --pairs 400",
        Extent::Quick => "--trial 10ms --within 4s",
        Extent::Whole => "--trial 10ms --within 20s",
    }
}

fn compare(binary: &Binary, how: &str, a: &str, b: &str) -> Result<Found, String> {
    let (a, b) = (binary.write("a.yaml", a)?, binary.write("b.yaml", b)?);
    let mut all = vec!["compare".to_owned(), a, b];
    all.extend(["--together", "--rivals", "1"].map(str::to_owned));
    all.extend(how.split(' ').map(str::to_owned));
    found(&binary.measure(&all)?)
}

/// What a report says.
fn found(document: &Value) -> Result<Found, String> {
    let found = &document["comparisons"][0][1];
    let ratio = found["ratio"]["estimate"].as_f64();
    let ratio = ratio.ok_or_else(|| document["summary"].to_string())?;
    let sign = match found["verdict"].as_str() {
        Some("higher") => 1.0,
        Some("lower") => -1.0,
        _ => 0.0,
    };
    let said = row(document, POWER)?;
    let detectable = said
        .split_once("show differences from ")
        .and_then(|(_, rest)| rest.split_once(" %"))
        .and_then(|(percent, _)| percent.parse::<f64>().ok())
        .ok_or_else(|| format!("no power in: {said}"))?;
    Ok(Found {
        ratio,
        sign,
        detectable: detectable / 100.0,
    })
}

/// The ratio of B over A, and its sign where they differ.
fn both(what: &str, truth: f64, right: (f64, f64), found: &Result<Found, String>) -> Vec<Case> {
    let name = format!("compare --together: {what}");
    let mut cases = Vec::new();
    if truth != 1.0 {
        cases.push(signed(&name, truth, found));
    }
    cases.push(Case {
        name,
        unit: "ratio",
        truth,
        said: found.clone().map(|found| found.ratio),
        right,
    });
    cases
}

/// The sign; none is right as well where it was said before the run that so little may not show.
fn signed(name: &str, truth: f64, found: &Result<Found, String>) -> Case {
    let sign = if truth > 1.0 { 1.0 } else { -1.0_f64 };
    let difference = truth.max(1.0 / truth) - 1.0;
    let is_beneath = |found: &Found| found.detectable > difference;
    let may_miss = found.as_ref().is_ok_and(is_beneath);
    let right = match may_miss {
        true => (sign.min(0.0), sign.max(0.0)),
        false => (sign, sign),
    };
    let beneath = if may_miss {
        ", too little to be seen as it said before"
    } else {
        ""
    };
    Case {
        name: format!("{name}: sign{beneath}"),
        unit: "",
        truth: sign,
        said: found.clone().map(|found| found.sign),
        right,
    }
}

/// A policer of a rate. Its burst is what a millisecond brings: whoever gets no core for as long
/// spoils no tokens, and what has gathered while the other had its turn has passed long before a
/// slice's arrivals count.
fn policed(name: &str, kpps: f64) -> String {
    policer(name, kpps, kpps.max(8.0), "pace: { tx: 1Mpps }")
}

/// A chain that is paced.
fn paced(name: &str, kpps: f64) -> String {
    let wrap = format!("pace: {{ tx: {}pps }}", kpps * 1e3);
    chain(name, SWAP, "swap", &wrap)
}

/// Two chains in turns: policed, paced at known rates, and with functions added.
pub(super) fn cases(binary: &Binary, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    let usual = usual(extent);
    let is_brief = extent == Extent::Brief;
    for (a, b) in [(500.0, 10.0), (10.0, 500.0)] {
        let truth: f64 = b / a;
        let found = compare(binary, usual, &policed("a", a), &policed("b", b));
        // A busy machine lets less of either pass; fifty times as little it does not.
        let right = match (is_brief, truth < 1.0) {
            (true, true) => (0.0, 1.0),
            (true, false) => (1.0, f64::INFINITY),
            (false, _) => (0.75 * truth, 1.25 * truth),
        };
        let what = format!("a policer of {b} kpps over one of {a} kpps");
        let mut both = both(&what, truth, right, &found);
        if is_brief {
            // Nor does it tell the wrong one for faster, though it may hide which it is.
            let (least, most) = both[0].right;
            both[0].right = (least.min(0.0), most.max(0.0));
        }
        cases.extend(both);
    }
    if is_brief {
        return cases;
    }
    // Windows in which arrivals count have five packets of the slow one.
    for (a, b) in [(500.0, 0.5), (0.5, 500.0)] {
        let truth: f64 = b / a;
        let how = usual.replace("10ms", "20ms");
        let found = compare(binary, &how, &policed("a", a), &policed("b", b));
        let what = format!("a policer of {b} kpps over one of {a} kpps");
        let right = (0.75 * truth, 1.25 * truth);
        cases.extend(both(&what, truth, right, &found));
    }
    cases.extend(shares(binary, extent));
    let three = "one: { type: macswap }, two: { type: macswap }, three: { type: macswap }";
    let (one, more) = (
        inline(&chain("a", SWAP, "swap", "")),
        inline(&chain("b", three, "one -> two -> three", "")),
    );
    let found = compare(binary, usual, &one, &more);
    // How much two functions take differs by machine; more of them never make a chain faster.
    cases.extend(both("two functions more", 0.955, (0.5, 0.999), &found));
    let found = compare(binary, usual, &more, &one);
    cases.extend(both("two functions fewer", 1.047, (1.001, 2.0), &found));
    if extent == Extent::Whole {
        cases.push(equals(binary));
    }
    cases
}

/// Differences of known shares: 20, 5, 2 and 0.2 %, and none.
fn shares(binary: &Binary, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    let all = [
        (100.0, 80.0),
        (100.0, 95.0),
        (100.0, 98.0),
        (100.0, 99.8),
        (100.0, 100.0),
    ];
    for (slow, fast) in all.map(|(fast, slow)| (slow, fast)) {
        let truth: f64 = slow / fast;
        // What 0.2 % take is 60 s of machine time at most.
        let is_small = truth > 0.99 && truth < 1.0;
        let how = match (is_small, extent) {
            (true, Extent::Whole) => "--trial 10ms --resolve 0.2% --margin 0.05% --within 60s",
            _ => usual(extent),
        };
        let error = if is_small { 0.002 } else { 0.01 };
        let orders = [(fast, slow), (slow, fast)];
        let orders = &orders[..if slow == fast { 1 } else { 2 }];
        for (a, b) in orders {
            let truth = b / a;
            let found = compare(binary, how, &paced("a", *a), &paced("b", *b));
            let what = format!("{b} kpps over {a} kpps");
            cases.extend(both(&what, truth, (truth - error, truth + error), &found));
        }
    }
    cases
}

/// Short comparisons of equals.
const EQUALS: u64 = 40;
/// How often a verdict of difference between equals may come.
const ALARMS: f64 = 0.07;

/// Verdicts of difference among short comparisons of chains that are paced alike. The margin is so
/// small that none may hide in it.
fn equals(binary: &Binary) -> Case {
    let mut alarms = Ok(0.0);
    for seed in 0..EQUALS {
        let how = format!("--trial 5ms --pairs 100 --margin 0.001% --seed {seed}");
        let found = compare(binary, &how, &paced("a", 100.0), &paced("b", 100.0));
        alarms = alarms.and_then(|count| Ok(count + found?.sign.abs()));
    }
    Case {
        name: format!("compare --together: alarms of {EQUALS} comparisons of equals"),
        unit: "",
        truth: ALARMS * EQUALS as f64,
        said: alarms,
        right: (0.0, most_hits(EQUALS, ALARMS) as f64),
    }
}

/// The least number that so many independent tries of a chance do not exceed in 95 of 100 cases.
fn most_hits(tries: u64, chance: f64) -> u64 {
    let (mut hits, mut below) = (0, 0.0);
    let mut exactly = (1.0 - chance).powf(tries as f64);
    loop {
        below += exactly;
        if below >= 0.95 || hits == tries {
            return hits;
        }
        exactly *= (tries - hits) as f64 / (hits + 1) as f64 * chance / (1.0 - chance);
        hits += 1;
    }
}

/// The same chain as one loop.
fn inline(chain: &str) -> String {
    format!("{chain}run: {{ mode: inline }}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(verdict: &str, percent: &str) -> Value {
        serde_json::json!({
            "comparisons": [["b over a", { "ratio": { "estimate": 0.999 }, "verdict": verdict }]],
            "results": [[POWER, format!(
                "300 pairs, some 6 s, show differences from {percent} % on in 4 of 5 cases"
            )]],
        })
    }

    /// Binomial tables: of 40 at 7 %, 5 or fewer come in 94.9 % of cases, 6 or fewer in 98.2 %.
    #[test]
    fn alarms_are_held_against_the_binomial_distribution() {
        assert_eq!((most_hits(40, 0.07), most_hits(1, 0.01)), (6, 0));
        assert_eq!(most_hits(3, 0.99), 3);
    }

    #[test]
    fn no_sign_is_right_only_where_it_was_said_before() {
        let lower = found(&said("lower", "0.10")).unwrap();
        assert_eq!((lower.sign, lower.detectable), (-1.0, 0.001));
        let is_right = |verdict: &str, percent: &str| {
            let found = found(&said(verdict, percent));
            signed("x", 0.998, &found).is_right()
        };
        assert_eq!(is_right("lower", "0.10"), Some(true));
        assert_eq!(is_right("same", "0.10"), Some(false));
        assert_eq!(is_right("inconclusive", "0.50"), Some(true));
        assert_eq!(is_right("higher", "0.50"), Some(false));
        assert!(found(&serde_json::json!({ "summary": "No verdict" })).is_err());
    }
}
