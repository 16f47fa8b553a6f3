//! `catena measure compare`: chains that are the same, and a machine that does something else
//! meanwhile.

use std::process::{Child, Command};

use serde_json::Value;

use super::harness::Place;
use super::measure::{measure, place, report, result};

/// Work without end, in so many processes.
struct Hogs(Vec<Child>);

impl Hogs {
    fn new(count: usize) -> Self {
        let hog = || {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]).spawn().unwrap()
        };
        Self((0..count).map(|_| hog()).collect())
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

/// Work beside a trial, which raises its latency, is found, by cause, however workers are placed;
/// nothing is said of the device.
#[test]
fn latency_beside_a_hog_does_not_count() {
    let place = place();
    let cores = std::thread::available_parallelism().unwrap().get();
    for mode in ["process", "inline"] {
        // More than the share that other work may take of all cores.
        let hogs = Hogs::new(1 + cores / 16);
        let arguments = format!(
            "measure latency profile.yaml --nf count --mode {mode} --rate 20kpps --trial 60ms \
             --trials 2 --warmup 20ms --noise 0s --repeats 0 --out out --force"
        );
        let ended = place.catena(&arguments.split_whitespace().collect::<Vec<_>>());
        drop(hogs);
        ended.assert_code(1);
        let document: Value = serde_json::from_str(&report(&place, "report.json")).unwrap();
        assert_ne!(result(&document, "trials that do not count"), "0", "{mode}");
        assert_eq!(result(&document, "packets of trials that count"), "0");
        let rows = document["results"].as_array().unwrap();
        let is_named = ["Preemption", "Contention"].iter().any(|cause| {
            let name = format!("trials that do not count: {cause}");
            rows.iter().any(|row| row[0] == name.as_str())
        });
        assert!(is_named, "{mode}: {rows:?}");
        place.assert_nothing_left();
    }
}

/// Work beside the slices is found, by cause, and leaves no verdict where it does not end.
#[test]
fn slices_beside_a_hog_do_not_count() {
    let place = place();
    let chain = "name: plain\n\
                 ports: { in: { traffic: { profile: {} } }, out: { receiver: {} } }\n\
                 nfs: { count: { type: count } }\n\
                 links: [in -> count -> out]\n";
    place.write("a.yaml", chain);
    place.write("b.yaml", chain);
    let hogs = Hogs::new(1);
    let arguments = "measure compare a.yaml b.yaml --together --trial 5ms --pairs 200 --noise 0s \
                     --repeats 0 --out out --json";
    let ended = place.catena(&arguments.split_whitespace().collect::<Vec<_>>());
    drop(hogs);
    let text = ended.assert_code(1).stderr.clone();
    assert!(text.contains("fewer than half of the pairs"), "{text}");
    let document: Value = serde_json::from_str(&report(&place, "report.json")).unwrap();
    let summary = document["summary"].as_str().unwrap();
    assert!(
        summary.contains("by Preemption") || summary.contains("by Contention"),
        "{summary}"
    );
    assert!(document["comparisons"].as_array().unwrap().is_empty());
    place.assert_nothing_left();
}

#[test]
fn equal_chains_are_compared_by_pairs() {
    let place = place();
    let chain = "name: same\nports: { in: { traffic: { profile: {} } }, out: { receiver: {} } }\n\
                 nfs: { swap: { type: macswap } }\nlinks: [in -> swap -> out]\n\
                 run: { mode: inline }\n";
    place.write("a.yaml", chain);
    place.write("b.yaml", chain);
    let arguments = "compare a.yaml b.yaml --trial 2ms --pairs 100 --margin 0.9";
    let document = measure(&place, &arguments.split_whitespace().collect::<Vec<_>>());
    let (what, found) = (
        &document["comparisons"][0][0],
        &document["comparisons"][0][1],
    );
    assert_eq!(what, "back-pressured capacity: b.yaml over a.yaml");
    // None is spared, so that the estimate does not lean away from 1.
    let pairs = found["pairs"].as_u64().unwrap();
    assert_eq!(pairs, 100);
    assert_told(&place, &document);
    let trials = document["trials"].as_array().unwrap();
    let valid = |side: &str| {
        let of_side = trials.iter().filter(|row| row["name"] == side);
        of_side.filter(|row| row["invalid"].is_null()).count() as u64
    };
    assert_eq!((valid("a.yaml"), valid("b.yaml")), (pairs, pairs));
    assert_both_described(&document, "a.yaml", "b.yaml");
    let told = environment(&document, "trials");
    let warmup = "started anew for each; 10ms of traffic before each are not counted";
    assert!(told.contains(warmup), "{told}");
    let ratio = |end: &str| found["ratio"][end].as_f64().unwrap();
    assert!(ratio("low") <= ratio("estimate") && ratio("estimate") <= ratio("high"));
}

/// The ratio comes first, with its interval, and as a figure; steady state is judged.
#[track_caller]
fn assert_told(place: &Place, document: &Value) {
    let first = &document["results"][0];
    assert_eq!(first[0], document["comparisons"][0][0]);
    assert!(
        first[1].as_str().unwrap().contains("(95 % interval "),
        "{first}"
    );
    let steady = result(document, "steady state");
    assert!(
        steady.contains("the ratio of the second half is "),
        "{steady}"
    );
    let data = report(place, "figure-1.csv");
    assert!(
        data.starts_with("category,group,B over A less 1 (share of 1),low,high\n"),
        "{data}"
    );
    assert_eq!(data.lines().count(), 2, "{data}");
}

/// A row of the environment.
#[track_caller]
fn environment<'a>(document: &'a Value, name: &str) -> &'a str {
    let mut rows = document["environment"].as_array().unwrap().iter();
    let row = rows.find(|row| row[0] == name).unwrap();
    row[1].as_str().unwrap()
}

/// Both chains can be built again from the report, and the tester's own part is told.
#[track_caller]
fn assert_both_described(document: &Value, a: &str, b: &str) {
    let rows = document["environment"].as_array().unwrap();
    for side in [format!("A ({a}): "), format!("B ({b}): ")] {
        for row in ["device", "NF ", "link ", "run", "wait policy", "profile of"] {
            let name = format!("{side}{row}");
            let mut rows = rows.iter();
            let is_there = rows.any(|row| row[0].as_str().unwrap().starts_with(&name));
            assert!(is_there, "no {name}: {document:#}");
        }
    }
    let build = rows.iter().find(|row| row[0] == "build").unwrap();
    assert!(
        build[1].as_str().unwrap().starts_with("profile "),
        "{build}"
    );
    assert!(result(document, "tester's own baseline").contains("without a device"));
    assert!(!result(document, "bias").is_empty());
}

#[test]
fn chains_that_stay_up_take_turns() {
    let place = place();
    let chain = "name: up\nports: { in: { traffic: { profile: {} } }, out: { receiver: {} } }\n\
                 nfs: { swap: { type: macswap } }\nlinks: [in -> swap -> out]\n";
    place.write("a.yaml", chain);
    place.write("b.yaml", chain);
    let arguments = "compare a.yaml b.yaml --together --trial 2ms --pairs 600 --margin 0.9 \
                     --warmup 100ms";
    let document = measure(&place, &arguments.split_whitespace().collect::<Vec<_>>());
    assert_eq!(
        document["trials"].as_array().unwrap().len(),
        0,
        "one start for all slices"
    );
    assert_both_described(&document, "a.yaml", "b.yaml");
    // The warm-up of 100 ms is one of each chain.
    let told = environment(&document, "trials");
    let pairs = "the first 50 pairs of each start, 100ms of each chain's turns, are not counted";
    assert!(told.contains(pairs) && !told.contains("anew"), "{told}");
    assert_told(&place, &document);
    let missing = "pairs without a value, because nothing came on either side";
    let missing: u64 = result(&document, missing).parse().unwrap();
    let pairs = document["comparisons"][0][1]["pairs"].as_u64().unwrap();
    // Up to a tenth of them is measured again.
    let instead = missing.min(60);
    assert!(
        pairs >= 100 && pairs + missing == 600 + instead,
        "{pairs} {missing}"
    );
    let mut all = vec!["measure", "compare", "a.yaml", "b.yaml", "--together"];
    all.extend(["--mode", "container", "--noise", "0s", "--out", "other"]);
    let refused = place.catena(&all);
    assert!(
        refused.assert_code(2).stderr.contains("too slow for"),
        "{refused:?}"
    );
}
