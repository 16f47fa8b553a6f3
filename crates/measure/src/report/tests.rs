//! A document with everything, and what must hold of all that is written of it.

use std::time::Duration;

use super::*;
use crate::blame::{Blame, Trace};
use crate::compare::{Comparison, Verdict};
use crate::latency::stall::{Attribution, Flight, NoiseBracket, NoiseFloor, Stall, StallCause};
use crate::latency::{Direction, Latency, Sample};
use crate::search::mlr::{Input, MlrSearch};
use crate::search::preset::{Conditions, Preset};
use crate::search::simulated_device::{Curve, SimulatedDevice};
use crate::stats::Interval;
use crate::stats::histogram::Histogram;

fn throughput(system: &str, capacity_pps: f64) -> Throughput {
    let mut device = SimulatedDevice::new(capacity_pps, Curve::Hard, 1);
    let search = MlrSearch::new(Input {
        goals: Preset::Vm.goals(),
        min_load_pps: 1e4,
        max_load_pps: 1e7,
        warmup: None,
        duration_limit: Some(Duration::from_secs(600)),
    });
    let outcome = crate::search::run(search.unwrap(), |trial| device.measure(trial)).unwrap();
    Throughput {
        system: system.to_owned(),
        traffic: String::from("64 B"),
        preset: Preset::Vm,
        standing: Preset::Vm.standing(&Conditions::default(), &outcome),
        goals: outcome.goals,
        interval: None,
    }
}

fn latency() -> LatencyResult {
    let mut histogram = Histogram::new();
    let samples: Vec<_> = (0..20_000u64)
        .map(|sequence| {
            let sent_ns = sequence * 1000;
            let delay = 500 + sequence * 7919 % 400;
            histogram.record(delay);
            Sample {
                sequence,
                intended_ns: sent_ns,
                sent_ns,
                received_ns: sent_ns + delay,
            }
        })
        .collect();
    let flights: Vec<_> = samples
        .iter()
        .map(|sample| Flight {
            begin: sample.intended_ns,
            end: sample.received_ns,
        })
        .collect();
    let stalls = [Stall {
        begin: 5_000_000,
        end: 5_060_000,
        core: 0,
        cause: StallCause::Steal,
        is_source: false,
    }];
    LatencyResult {
        name: String::from("thread <at 50 %>"),
        latency: Latency::of(Direction::OneWay, &samples),
        histogram,
        intervals_ns: vec![(
            0.99,
            Interval {
                estimate: 895.0,
                low: 890.0,
                high: 899.0,
                confidence: 0.95,
            },
        )],
        attribution: Some(Attribution::of(&flights, &stalls, &[0], 0)),
        over_time: Some(OverTime {
            time_edges_s: vec![0.0, 0.01, 0.02],
            delay_edges_ns: vec![100.0, 1000.0],
            counts: vec![10_000.0, 10_000.0],
            stalls_s: vec![(0.005, 0.006)],
        }),
    }
}

fn document() -> Document {
    let comparison = Comparison {
        ratio: Interval {
            estimate: 0.99,
            low: 0.985,
            high: 0.995,
            confidence: 0.95,
        },
        verdict: Verdict::Lower,
        pairs: 1000,
        detectable: 0.005,
    };
    let traces: Vec<_> = (0..2000)
        .map(|index| Trace {
            parts_ns: vec![100.0 + f64::from(index % 7), 50.0],
            residence_ns: 150.0 + f64::from(index % 7),
        })
        .collect();
    let floor = || NoiseFloor::of(&[], 0, 1_000_000_000);
    let mut document = Document::new("CNF & BNF", "2026-11-22T00:00:00Z");
    document.environment = vec![(String::from("kernel"), String::from("6.18"))];
    document.unsupported = vec![(String::from("RAPL"), String::from("no powercap"))];
    document.commands = vec![String::from("catena measure run study.yaml > out 2>&1")];
    document.throughput = vec![throughput("inline", 7e6), throughput("container", 1e9)];
    document.latency = vec![latency()];
    let counts = vec![vec![None, Some((321.0, 654.0))]; traces.len()];
    let blame = Blame::of(&["ring wait", "nf"], &traces).unwrap();
    let blame = blame.with_counts(&counts);
    document.blame = vec![(String::from("thread"), blame)];
    document.comparisons = vec![(String::from("new over old"), comparison)];
    document.values = vec![
        Valued {
            name: String::from("MRR"),
            unit: Unit::PacketsPerSecond,
            value: 7_123_000.0,
            interval: Some(comparison.ratio),
        },
        Valued {
            name: String::from("loss of a soak"),
            unit: Unit::Share,
            value: 0.25,
            interval: None,
        },
    ];
    document.noise = vec![(String::from("1"), NoiseBracket::of(floor(), floor()))];
    document.probe_tax = Some(comparison);
    document.trials = vec![TrialRow {
        name: String::from("a, \"b\""),
        load_pps: 1e6,
        duration_s: 0.2,
        intended: 200_000,
        forwarded: 199_800,
        invalid: None,
    }];
    document
}

#[test]
fn a_document_survives_json() {
    let document = document();
    let json = document.to_json().unwrap();
    let back = Document::from_json(&json).unwrap();
    // Not assert_eq!, which would print both.
    assert!(back == document && back.to_json().unwrap() == json);
    assert!(html(&back) == html(&document));
}

#[test]
fn other_versions_and_other_files_are_refused() {
    let other = document()
        .to_json()
        .unwrap()
        .replace(SCHEMA, "catena.measure.report/0");
    let error = Document::from_json(&other).unwrap_err().to_string();
    assert!(error.contains("report/0"), "{error}");
    for text in ["", "{}", "[1]", "{\"schema\":\"catena.measure.report/1\"}"] {
        let error = Document::from_json(text).unwrap_err().to_string();
        assert!(error.contains("measure-report.md"), "{error}");
    }
}

/// The page must not ask the network for anything, nor run anything.
#[test]
fn a_page_is_self_contained_and_names_what_is_irregular() {
    let page = html(&document());
    let plain = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for foreign in [
        "http:", "https:", "<script", "<link", "@import", "url(", "src=",
    ] {
        assert!(!plain.contains(foreign), "{foreign}");
    }
    for part in [
        "<h1>CNF &amp; BNF</h1>",
        "prefers-color-scheme:dark",
        "IRREGULAR: MaxLoadIsLowerBound",
        "PARTIAL: the error of the offered load is not known",
        "thread &lt;at 50 %&gt;",
        "Latency over time",
        "PDV: p99.9 - min (RFC 8219)",
        "Where the time goes",
        "890 ns to 899 ns",
        "with probes over without",
        "<th>cycles</th><th>instructions</th>",
        "<td class=\"n\">321</td><td class=\"n\">654</td>",
        "study.yaml &gt; out 2&gt;&amp;1",
        "no powercap",
        "Every trial",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(page.matches("<figure>").count(), 8);
    assert_eq!(page.matches("<svg xmlns").count(), 8);
    assert_eq!(
        page.matches("<table>").count(),
        page.matches("</table>").count()
    );
}

#[test]
fn a_page_says_what_was_not_measured() {
    let page = html(&Document::new("empty", "now"));
    assert!(!page.contains("Comparisons") && !page.contains("cost of the probes"));
    assert!(!page.contains("<figure>"));
    let mut broken = document();
    broken.probe_tax = None;
    let marked = "<p class=\"mark\">The cost of the probes was not measured.</p>";
    assert!(html(&broken).contains(marked));
    broken.blame.clear();
    assert!(!html(&broken).contains("cost of the probes"));
    broken.latency[0].over_time.as_mut().unwrap().counts.pop();
    let page = html(&broken);
    assert!(page.contains("needs 2 values, 1 were given"));
}

#[test]
fn csv_quotes_what_it_must() {
    let text = csv(&document());
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("name,load_pps"));
    assert_eq!(
        lines.next(),
        Some("\"a, \"\"b\"\"\",1000000,0.2,200000,199800,0.001,")
    );
}

/// The reference page shows a document; it must be one.
#[test]
fn the_example_of_the_reference_page_is_read() {
    let page = include_str!("../../../../docs/reference/measure-report.md");
    let (_, rest) = page.split_once("```json\n").unwrap();
    let (json, _) = rest.split_once("```").unwrap();
    let document = Document::from_json(json).unwrap();
    assert!(html(&document).contains(&document.title));
    let written = serde_json::to_value(&document).unwrap();
    for key in written.as_object().unwrap().keys() {
        assert!(
            page.contains(&format!("| `{key}` |")),
            "{key} is not described"
        );
    }
}

#[test]
fn figures_and_their_data_are_files_of_their_own() {
    let document = document();
    let drawn = figures(&document);
    assert_eq!(drawn.len(), html(&document).matches("<figure>").count());
    assert!(drawn.len() > 1);
    let page = html(&document);
    for (number, (figure, data)) in (1..).zip(&drawn) {
        assert!(
            figure.starts_with("<svg") && figure.contains("<style>"),
            "{figure:.80}"
        );
        assert!(figure.trim_end().ends_with("</svg>"));
        // A line of heads, and values under all of them.
        let widths: Vec<_> = data.lines().map(|line| line.split(',').count()).collect();
        assert!(
            widths.len() > 1 && widths.iter().all(|width| *width == 5),
            "{data}"
        );
        for ending in ["svg", "csv"] {
            let link = format!("href=\"{}\"", figure_file(number, ending));
            assert!(page.contains(&link), "{link}");
        }
    }
    for (number, data) in [
        (
            0,
            "category,group,rate (packets/s),low,high\nMRR,measured,7123000,0.985,0.995\n",
        ),
        (
            1,
            "category,group,share of packets (share of 1),low,high\nloss of a soak,measured,0.25,,\n",
        ),
    ] {
        assert_eq!(drawn[number].1, data);
    }
    let difference = drawn.last().unwrap();
    assert!(difference.0.contains("B over A less 1"));
    assert!(
        difference.1.contains("new over old,B over A,-0.01"),
        "{}",
        difference.1
    );
    let bars = &drawn[2].1;
    let capacity = document.throughput[0].goals[0].conditional_throughput_pps;
    assert!(bars.starts_with("category,group,conditional throughput (packets/s),low,high\n"));
    assert!(bars.contains(&format!(",{},", capacity.unwrap())), "{bars}");
    let data = latency_csv(&document).unwrap();
    let packets = data.lines().skip(1).map(|line| {
        let count = line.rsplit(',').next().unwrap();
        count.parse::<u64>().unwrap()
    });
    let all: u64 = document
        .latency
        .iter()
        .map(|one| one.histogram.count())
        .sum();
    assert_eq!(packets.sum::<u64>(), all);
    assert_eq!(latency_csv(&Document::new("", "")), None);
}

#[test]
fn times_have_three_digits_and_a_unit() {
    for (ns, text) in [
        (0.0, "0 ns"),
        (391.4, "391 ns"),
        (999.6, "1.00 us"),
        (48_552.0, "48.6 us"),
        (7_085_595.0, "7.09 ms"),
        (-1_500_000.0, "-1.50 ms"),
        (999_600_000.0, "1.00 s"),
        (123_456.0, "123 us"),
    ] {
        assert_eq!(time(ns), text);
    }
}

#[test]
fn rates_have_four_digits_and_a_unit() {
    for (pps, text) in [
        (0.0, "0 pps"),
        (12.0, "12.00 pps"),
        (999.96, "1.000 kpps"),
        (20_000.0, "20.00 kpps"),
        (250_189.0, "250.2 kpps"),
        (6_980_123.0, "6.980 Mpps"),
        (1_234_567_890.0, "1235 Mpps"),
    ] {
        assert_eq!(rate(pps), text);
    }
}

/// The page is for people, the JSON for programs.
#[test]
fn a_page_has_scaled_units_and_json_has_not() {
    let mut document = document();
    let interval = &mut document.latency[0].intervals_ns[0].1;
    interval.estimate = 1_234_567.0;
    document.latency[0].latency.delay.mean_ns = Some(34_567.0);
    document.blame[0].1.shares[0].mean_ns = 2_345.6;
    document.throughput[0].goals[0].conditional_throughput_pps = Some(6_980_123.0);
    document.trials[0].load_pps = 123_456.0;
    document.noise[0].1.after.longest = 2_345_678;
    let page = html(&document);
    let json = document.to_json().unwrap();
    for (scaled, raw) in [
        ("2.35 ms", "2345678"),
        ("1.23 ms", "1234567.0"),
        ("34.6 us", "34567.0"),
        ("2.35 us", "2345.6"),
        ("6.980 Mpps", "6980123.0"),
        ("123.5 kpps", "123456.0"),
    ] {
        let cell = format!("<td class=\"n\">{scaled}</td>");
        assert!(page.contains(&cell), "{scaled}");
        let bare = raw.trim_end_matches(".0");
        assert!(!page.contains(&format!(">{bare}")), "{raw} on the page");
        assert!(json.contains(raw), "{raw} in the JSON");
    }
}
