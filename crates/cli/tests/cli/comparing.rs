//! `catena measure compare` where the machine does something else meanwhile.

use serde_json::Value;

use super::measure::{place, report};

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
    let mut hog = std::process::Command::new("sh");
    let mut hog = hog.args(["-c", "while :; do :; done"]).spawn().unwrap();
    let arguments = "measure compare a.yaml b.yaml --together --trial 5ms --pairs 200 --noise 0s \
                     --repeats 0 --out out --json";
    let ended = place.catena(&arguments.split_whitespace().collect::<Vec<_>>());
    hog.kill().unwrap();
    hog.wait().unwrap();
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
