//! What probes found, as text: tables of costs, paths and checks.

use std::fmt::Write;

use catena_engine::probe::Tier;
use catena_measure::blame::{Blame, CLOSURE_ERROR_MAX, LITTLE_ERROR_MAX};
use catena_measure::probes::report::{PathReport, ProbeReport, RingCheck, Spread};

/// The report for people.
pub(crate) fn report(report: &ProbeReport) -> String {
    let mut text = String::new();
    let what = match report.tier {
        Tier::Sums => "sums only".to_owned(),
        Tier::Sampled => format!("one packet in {} followed", report.gap),
        Tier::Full => "every packet followed".to_owned(),
    };
    let _ = writeln!(
        text,
        "chain {}, {:.2} s, {what}",
        report.chain, report.seconds
    );
    costs(&mut text, report);
    for path in &report.paths {
        path_text(&mut text, path);
    }
    if report.tier > Tier::Sums {
        let _ = writeln!(text, "\npackets followed: {}", journeys(report));
        let _ = writeln!(text, "cycles and instructions: {}", report.counters);
        if !report.rings.is_empty() {
            let _ = writeln!(text, "\nLittle's law (packets in the ring):");
        }
        for ring in &report.rings {
            let _ = writeln!(text, "  {}", ring_text(ring));
        }
    }
    if let Some(tax) = &report.tax {
        let share = tax.share() * 100.0;
        let _ = writeln!(
            text,
            "\ncost of the probes: {share:+.2} %; {}",
            tax.describe()
        );
    }
    text
}

fn costs(text: &mut String, report: &ProbeReport) {
    let _ = writeln!(
        text,
        "\n{:<20} {:>7} {:>8} {:>14}",
        "WORKER", "BUSY", "ASLEEP", "BUSY TURNS/s"
    );
    for worker in &report.workers {
        let (busy, asleep) = (worker.busy * 100.0, worker.asleep * 100.0);
        let (name, turns) = (&worker.name, worker.busy_turns);
        let _ = writeln!(text, "{name:<20} {busy:>6.1}% {asleep:>7.1}% {turns:>14.0}");
    }
    let _ = writeln!(
        text,
        "\n{:<20} {:<12} {:>7} {:>9} {:>9} {:>9}   ns a packet, one turn in 64 timed",
        "NODE", "TYPE", "BURST", "TAKE", "WORK", "SEND"
    );
    for node in &report.nodes {
        let _ = writeln!(
            text,
            "{:<20} {:<12} {:>7.1} {:>9.1} {:>9.1} {:>9.1}",
            node.name, node.type_name, node.burst, node.take_ns, node.work_ns, node.send_ns
        );
    }
}

fn path_text(text: &mut String, path: &PathReport) {
    let end = if path.is_dropped {
        ", dropped there"
    } else {
        ""
    };
    let _ = writeln!(
        text,
        "\npath {}{end}: {} journeys, {} in the chain",
        path.nodes.join(" -> "),
        path.journeys,
        spread(&path.residence_ns)
    );
    let counts = |cycles: &str, instructions: &str| {
        if path.blame.has_counts() {
            format!(" {cycles:>9} {instructions:>9}")
        } else {
            String::new()
        }
    };
    let _ = writeln!(
        text,
        "{:<36} {:>9} {:>9} {:>9} {:>7} {:>7} {:>7}{}",
        "COMPONENT",
        "MEAN ns",
        "P50",
        "P99",
        "MEAN",
        "P99",
        "VAR",
        counts("CYCLES", "INSTR")
    );
    let spreads = path.parts.iter().map(|part| Some(&part.ns));
    for (share, ns) in path.blame.shares.iter().zip(spreads.chain([None])) {
        if share.mean_ns.abs() < 0.05 && ns.is_some() {
            continue;
        }
        let (p50, p99) = ns.map_or((None, None), |ns| (Some(ns.p50), ns.p99));
        let _ = writeln!(
            text,
            "{:<36} {:>9.1} {:>9} {:>9} {:>7} {:>7} {:>7}{}",
            share.component,
            share.mean_ns,
            number(p50),
            number(p99),
            percent(Some(share.of_mean)),
            percent(share.of_p99),
            percent(share.of_variance),
            counts(&number(share.cycles), &number(share.instructions))
        );
    }
    let _ = writeln!(text, "by kind: {}", kinds(&path.by_kind));
    let _ = writeln!(
        text,
        "sum of components against residence: {}",
        closure(&path.blame)
    );
}

fn closure(blame: &Blame) -> String {
    format!(
        "{}, {:.2} % apart (at most {:.0} %)",
        if blame.closes() {
            "closes"
        } else {
            "DOES NOT CLOSE"
        },
        blame.closure_error * 100.0,
        CLOSURE_ERROR_MAX * 100.0
    )
}

fn journeys(report: &ProbeReport) -> String {
    format!(
        "{} to their end, {} without an end, {} visits of none, {} records lost, {} refused",
        report.journeys, report.unfinished, report.broken, report.lost, report.refused
    )
}

/// Kinds by their share of the mean, the largest first.
fn kinds(blame: &Blame) -> String {
    let mut shares: Vec<_> = blame.shares.iter().collect();
    shares.sort_by(|a, b| b.of_mean.total_cmp(&a.of_mean));
    let shown = shares.iter().filter(|share| share.of_mean >= 0.005);
    let words = shown.map(|share| format!("{} {:.0} %", share.component, share.of_mean * 100.0));
    words.collect::<Vec<_>>().join(", ")
}

fn ring_text(ring: &RingCheck) -> String {
    match (&ring.check, &ring.why_not) {
        (Some(check), _) => {
            let noise = ring.residency_error_ns / ring.residency_ns.max(1.0);
            let verdict = if check.holds() {
                "holds".to_owned()
            } else if check.error <= LITTLE_ERROR_MAX + noise {
                format!(
                    "holds within the {:.0} % that sampling leaves open",
                    noise * 100.0
                )
            } else {
                "DOES NOT HOLD".to_owned()
            };
            format!(
                "{}: counted {:.2}, rate x residency {:.2}: {verdict}, {:.1} % apart (at most {:.0} %)",
                ring.link,
                check.counted,
                check.implied,
                check.error * 100.0,
                LITTLE_ERROR_MAX * 100.0
            )
        }
        (None, why) => format!(
            "{}: n/a, {}",
            ring.link,
            why.as_deref().unwrap_or("not counted")
        ),
    }
}

fn spread(spread: &Spread) -> String {
    format!(
        "median {:.0} ns, p99 {} ns, longest {:.0} ns",
        spread.p50,
        number(spread.p99),
        spread.max
    )
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.0}"))
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(
        || "n/a".to_owned(),
        |share| format!("{:.1}%", share * 100.0),
    )
}

/// What a report of trials says of one of them.
pub(crate) fn rows(trial: &str, report: &ProbeReport) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut add = |what: &str, value: String| rows.push((format!("{trial}: {what}"), value));
    if let Some(path) = report.paths.first() {
        add("residence by probes", {
            let mean = path.blame.residence_ns;
            format!("mean {mean:.0} ns, {}", spread(&path.residence_ns))
        });
        add("time by kind of component", kinds(&path.by_kind));
        add("sum of components", closure(&path.blame));
    }
    add("packets followed", journeys(report));
    add("cycles and instructions", report.counters.clone());
    for ring in &report.rings {
        add("Little's law", ring_text(ring));
    }
    rows
}
