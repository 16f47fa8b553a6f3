//! `catena measure cost` beside what is known of waiting: who polls spends its core whether packets
//! come or not, who sleeps does not.

use serde_json::Value;

use super::harness::Place;
use super::measure::{measure, result};

const PROFILE: &str = "sizes: 64\n";

fn chain(wait: &str) -> String {
    format!(
        "name: costly
ports: {{ in: {{ traffic: {{ profile: {{}} }} }}, out: {{ receiver: {{}} }} }}
nfs: {{ ttl: {{ type: macswap }} }}
links: [ in -> ttl -> out ]
run: {{ mode: process, wait: {wait} }}
"
    )
}

/// Core time for a packet at each step, and the share of the time asleep at the first one.
fn cost(place: &Place, wait: &str) -> (Vec<f64>, f64) {
    place.write("profile.yaml", PROFILE);
    place.write("chain.yaml", chain(wait));
    let arguments = "cost profile.yaml --chain chain.yaml --rate 20kpps --steps 5%,100% \
                     --trial 300ms --trials 1";
    let document = measure(place, &arguments.split_whitespace().collect::<Vec<_>>());
    let values = document["values"].as_array().unwrap();
    let values = values.iter().map(|value| {
        assert_eq!(value["unit"], "core-ns-per-packet");
        value["value"].as_f64().unwrap()
    });
    let row = result(&document, "at 5 % of 20.00 kpps");
    let (_, asleep) = row.split_once("asleep for ").unwrap();
    let asleep = asleep.split(' ').next().unwrap().parse().unwrap();
    let summary = document["summary"].as_str().unwrap();
    assert!(summary.starts_with("A packet costs "), "{summary}");
    (values.collect(), asleep)
}

#[test]
fn who_sleeps_spends_less_on_few_packets_than_who_polls() {
    let place = Place::new();
    let (polling, asleep) = cost(&place, "spin");
    assert!(asleep < 0.1, "{asleep} %");
    let (sleeping, slept) = cost(&place, "sleep");
    assert!(slept > 10.0, "{slept} %");
    // A twentieth of the packets for the same core: on a busy machine for less of it, but not for
    // so much less.
    assert!(polling[0] > 2.0 * polling[1], "{polling:?}");
    assert!(polling[0] > 1.5 * sleeping[0], "{polling:?} {sleeping:?}");
}

#[test]
fn what_shares_a_process_with_the_tester_has_no_cost_of_its_own() {
    let place = Place::new();
    place.write("profile.yaml", PROFILE);
    let arguments = "cost profile.yaml --nf macswap --mode inline --rate 10kpps --steps 100% \
                     --trial 100ms --trials 1";
    let document = measure(&place, &arguments.split_whitespace().collect::<Vec<_>>());
    assert_eq!(document["values"], Value::Null);
    assert!(
        result(&document, "at 100 % of 10.00 kpps").contains("not known"),
        "{document:#}"
    );
    let none = place.catena(&[
        "measure",
        "cost",
        "profile.yaml",
        "--nf",
        "ttl",
        "--out",
        "none",
    ]);
    let none = none.assert_code(2);
    assert!(none.stderr.contains("give --rate"), "{none:?}");
    let wrong = "measure cost profile.yaml --nf ttl --rate 1kpps --steps 0,200% --out none";
    place
        .catena(&wrong.split_whitespace().collect::<Vec<_>>())
        .assert_code(2);
}
