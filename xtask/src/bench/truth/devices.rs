//! Known truths of single devices: how late, how lossy and how fast they are.
//!
//! SPDX-License-Identifier: Apache-2.0

use super::super::extent::Extent;
use super::binary::{Binary, SWAP, chain, number, policer};
use super::{Case, NO_TRIAL};

/// Takes what a busy machine does to a trial for what it is, and goes on.
const PATIENT: &str = "--trials 1 --rivals 1 --repeats 20";

/// Delay boxes, and delays of a known distribution.
pub(super) fn delays(binary: &Binary, extent: Extent) -> Vec<Case> {
    let boxes: &[f64] = if extent == Extent::Brief {
        &[4.0]
    } else {
        &[1.0, 4.0, 10.0]
    };
    let mut cases: Vec<_> = boxes.iter().map(|ms| delay_box(binary, *ms)).collect();
    cases.extend(spread(binary, extent));
    cases
        .into_iter()
        .map(|case| case.at_least(extent))
        .collect()
}

/// The least latency behind a delay box. It is the box's and what the way takes, never less.
fn delay_box(binary: &Binary, ms: f64) -> Case {
    let said = || {
        let wrap = format!("fault: {{ tx: {{ delay: {{ fixed: {ms}ms }} }} }}");
        let arguments = format!("latency --rate 5kpps --trial 500ms {PATIENT}");
        let document = binary.of_chain(&chain("truth", SWAP, "swap", &wrap), &arguments)?;
        let least = document["latency"][0]["latency"]["delay"]["min_ns"].as_f64();
        let least = least.ok_or_else(|| "no packet came back".to_owned())?;
        Ok(least / 1e6)
    };
    Case {
        name: format!("latency: least behind a delay box of {ms} ms"),
        unit: "ms",
        truth: ms,
        said: said(),
        right: (ms, ms * 1.02 + 0.1),
    }
}

/// Delays between 1 ms and 5 ms, each as likely, of packets that are further apart than that, so
/// that none waits for the one before.
fn spread(binary: &Binary, extent: Extent) -> Vec<Case> {
    let wrap = "fault: { tx: { delay: { fixed: 1ms, jitter: 4ms } } }";
    let seconds = if extent == Extent::Brief { 2 } else { 4 };
    let arguments = format!("latency --rate 200pps --trial {seconds}s {PATIENT}");
    let document = binary.of_chain(&chain("truth", SWAP, "swap", wrap), &arguments);
    let quantile = |q: f64| {
        let document = document.as_ref().map_err(Clone::clone)?;
        let delay = &document["latency"][0]["latency"]["delay"];
        let all = delay["quantiles_ns"].as_array().into_iter().flatten();
        let mut found = all.filter(|pair| pair[0].as_f64() == Some(q));
        let ns = found.next().and_then(|pair| pair[1].as_f64());
        ns.map(|ns| ns / 1e6)
            .ok_or_else(|| "too few packets".to_owned())
    };
    // Four deviations of such a quantile of 400 packets; the way takes a little.
    let case = |(q, name, truth, error): (f64, &str, f64, f64)| Case {
        name: format!("latency: {name} of delays of 1 to 5 ms"),
        unit: "ms",
        truth,
        said: quantile(q),
        right: (truth - error, truth + error + 0.2),
    };
    let all = [(0.5, "p50", 3.0, 0.4), (0.9, "p90", 4.6, 0.24)];
    all.map(case).into()
}

/// Share that a chain loses of what it is offered, in percent.
fn share_lost(binary: &Binary, chain: &str, kpps: u32) -> Result<f64, String> {
    let arguments = format!("latency --rate {kpps}kpps --trial 1s {PATIENT}");
    let document = binary.of_chain(chain, &arguments)?;
    let all = number(&document, "packets of trials that count")?;
    if all == 0.0 {
        return Err(NO_TRIAL.to_owned());
    }
    Ok(number(&document, "lost")? / all * 100.0)
}

/// Loss by chance, by a device that takes less than it is offered though its links block, and by
/// policers over their load.
pub(super) fn losses(binary: &Binary, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    let is_brief = extent == Extent::Brief;
    let shares: &[f64] = if is_brief { &[5.0] } else { &[1.0, 5.0] };
    for percent in shares {
        let wrap = format!("fault: {{ tx: {{ loss: {percent}% }} }}");
        // Three standard deviations of 20,000 packets.
        let error = 3.0 * (percent * (100.0 - percent) / 20_000.0).sqrt();
        cases.push(Case {
            name: format!("loss: {percent} % by chance"),
            unit: "%",
            truth: *percent,
            said: share_lost(binary, &chain("truth", SWAP, "swap", &wrap), 20),
            right: (percent - error, percent + error),
        });
    }
    // What it takes and what it is offered, kpps. Buffers hold more than 1 % before they are full.
    let held: &[(u32, u32)] = if is_brief {
        &[(4, 20)]
    } else {
        &[(20, 100), (50, 100), (90, 100)]
    };
    for (taken, offered) in held {
        let wrap = format!("pace: {{ tx: {taken}kpps }}");
        let truth = 100.0 - f64::from(*taken) / f64::from(*offered) * 100.0;
        let early = if is_brief { 5.0 } else { 1.0 };
        cases.push(Case {
            name: format!("loss: {taken} of {offered} kpps taken, links block"),
            unit: "%",
            truth,
            said: share_lost(binary, &chain("truth", SWAP, "swap", &wrap), *offered),
            right: (truth - early, truth + 3.0),
        });
    }
    // A curve: a policer of 10 kpps by its load. It lets its burst of 32 pass besides, and what a
    // late end of a trial adds.
    let loads: &[u32] = if is_brief {
        &[20]
    } else {
        &[5, 12, 20, 50, 100]
    };
    for load in loads {
        let truth = (100.0 - 1000.0 / f64::from(*load)).max(0.0);
        cases.push(Case {
            name: format!("loss: a policer of 10 kpps at {load} kpps"),
            unit: "%",
            truth,
            said: share_lost(binary, &policer("truth", 10.0, 32.0, ""), *load),
            right: ((truth - 1.5).max(0.0), truth + 1.0),
        });
    }
    cases
        .into_iter()
        .map(|case| case.at_least(extent))
        .collect()
}

/// Burst of these policers, by time. Whatever holds packets up for longer makes them come in a
/// burst of which a policer drops some at any load: its rate is then none without loss.
const BURST_MS: u32 = 10;

/// Policers of known rate, found by MLRsearch at no loss.
pub(super) fn throughputs(binary: &Binary, extent: Extent) -> Vec<Case> {
    let is_brief = extent == Extent::Brief;
    let (rates, how): (&[u32], _) = match extent {
        Extent::Brief => (&[10], "--trial 100ms --sum 200ms --width 5%"),
        Extent::Quick => (&[20], "--trial 500ms --sum 1500ms --width 1%"),
        Extent::Whole => (&[10, 20, 50], "--trial 500ms --sum 2500ms --width 1%"),
    };
    let case = |kpps: &u32| {
        let said = || {
            let how = format!("search {how} --min 1kpps --max 100kpps --rivals 1 --repeats 20");
            let (kpps, burst) = (f64::from(*kpps), f64::from(kpps * BURST_MS));
            let document = binary.of_chain(&policer("truth", kpps, burst, ""), &how)?;
            let goal = &document["throughput"][0]["goals"][0];
            let found = goal["conditional_throughput_pps"].as_f64();
            found
                .map(|pps| pps / 1e3)
                .ok_or_else(|| document["summary"].to_string())
        };
        let truth = f64::from(*kpps);
        // More than the rate passes without loss by as much as the burst holds in a trial.
        let (least, seconds) = if is_brief {
            (0.0, 0.1)
        } else {
            (truth * 0.98, 0.5)
        };
        Case {
            name: format!("search: a policer of {kpps} kpps, no loss"),
            unit: "kpps",
            truth,
            said: said(),
            // A trial that ends late by as much as its burst lasts lets as much more pass.
            right: (
                least,
                truth * (if is_brief { 1.5 } else { 1.01 } + f64::from(BURST_MS) / 1e3 / seconds),
            ),
        }
    };
    rates.iter().map(case).collect()
}
