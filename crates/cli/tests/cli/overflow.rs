//! What happens between processes when packets come faster than they go: back-pressure up to the
//! chain's entry, and the two ways of dropping. Every loss is counted, where it happens.

use serde_json::Value;

use super::harness::{Ended, Place, assert_conserved, drops, named};

const COUNT: u64 = 20_000;

/// `in -> work -> work2 -> out`, all in processes, fast to the left and slow at the right.
///
/// `last` is what the last link says.
fn run(rate: &str, slow: &str, last: &str) -> Value {
    let place = Place::new();
    let text = format!(
        "name: slow\nports:\n  in: {{ generator: {{ rate: {rate}, count: {COUNT} }} }}\n  \
         out: {{ sink: {{ verify: true }}, group: away, wrap: [ {{ pace: {{ tx: {slow} }} }} ] }}\n\
         nfs:\n  work: {{ type: macswap }}\n  work2: {{ type: macswap }}\n\
         links:\n  - {{ link: in -> work -> work2, slots: 64 }}\n  \
         - {{ link: work2 -> out, slots: 64, {last} }}\n"
    );
    place.write("chain.yaml", text);
    let ended: Ended = place.catena(&["run", "--json", "chain.yaml"]);
    let status = ended.assert_code(0).json();
    assert_conserved(&status);
    let modes = status["workers"].as_array().unwrap();
    assert!(modes.len() == 4 && modes.iter().all(|worker| worker["mode"] == "process"));
    for link in status["links"].as_array().unwrap() {
        assert_eq!(link["occupancy"], 0, "{link:#}");
        assert_eq!(link["violations"], 0, "{link:#}");
    }
    place.assert_nothing_left();
    status
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// What the sink says: how many came, and how many numbers between the first and the last did not.
fn sink(status: &Value) -> (u64, u64) {
    let counters = &named(&status["nodes"], "out")["counters"];
    assert_eq!(counters["corrupted"], 0);
    assert_eq!(counters["duplicated"], 0);
    assert_eq!(counters["reordered"], 0);
    (number(&counters["verified"]), number(&counters["lost"]))
}

/// Every packet that was taken in has been worked on and arrives: the pressure of the slow end has
/// come to the entry, and what is too much was never made.
#[test]
fn block_sheds_at_the_entry_and_loses_nothing_behind_it() {
    for trust in ["shared", "copy"] {
        let status = run(
            "1Mpps",
            "100kpps",
            &format!("overflow: block, trust: {trust}"),
        );
        let source = named(&status["nodes"], "in");
        assert_eq!(number(&source["rx_packets"]), COUNT);
        assert_eq!(drops(source), 0, "{source:#}");
        let shed = number(&source["counters"]["held_back"]);
        assert!(shed > COUNT, "held back at the entry: {source:#}");
        for name in ["work", "work2"] {
            let node = named(&status["nodes"], name);
            assert_eq!(number(&node["rx_packets"]), COUNT);
            assert_eq!(number(&node["tx_packets"]), COUNT);
        }
        assert_eq!(sink(&status), (COUNT, 0));
        let links = status["links"].as_array().unwrap();
        let discarded: u64 = links.iter().map(|link| number(&link["discarded"])).sum();
        assert_eq!(discarded, 0);
    }
}

/// A link that drops does not press back: all is worked on, and the link's sender drops the newest.
#[test]
fn drop_tail_drops_at_its_sender_and_nowhere_else() {
    for trust in ["shared", "copy"] {
        let status = run(
            "200kpps",
            "5kpps",
            &format!("overflow: drop_tail, trust: {trust}"),
        );
        let work = named(&status["nodes"], "work");
        assert_eq!(number(&work["tx_packets"]), COUNT);
        assert_eq!(drops(work), 0);
        let last = named(&status["nodes"], "work2");
        assert_eq!(number(&last["rx_packets"]), COUNT);
        let full = number(&last["drops"]["link_full"]);
        assert_eq!(drops(last), full, "for this reason only: {last:#}");
        assert!(full > COUNT / 2, "{last:#}");
        let out = named(&status["nodes"], "out");
        assert_eq!(drops(out), 0, "{out:#}");
        let (arrived, lost) = sink(&status);
        assert_eq!(arrived + full, COUNT);
        // What was dropped behind the last that arrived leaves no gap.
        assert!(lost <= full);
    }
}

/// The receiver discards the oldest, so that what it gets is new: the last packet made arrives.
#[test]
fn drop_head_discards_the_oldest_at_its_receiver() {
    for trust in ["shared", "copy"] {
        let status = run(
            "200kpps",
            "5kpps",
            &format!("overflow: drop_head, trust: {trust}"),
        );
        let work = named(&status["nodes"], "work2");
        assert_eq!(number(&work["rx_packets"]), COUNT);
        let full = number(&work["drops"]["link_full"]);
        assert_eq!(drops(work), full, "{work:#}");
        let out = named(&status["nodes"], "out");
        let stale = number(&out["drops"]["link_stale"]);
        assert_eq!(drops(out), stale, "{out:#}");
        assert!(stale > COUNT / 4, "discarded as too old: {out:#}");
        let links = status["links"].as_array().unwrap();
        let discarded: u64 = links.iter().map(|link| number(&link["discarded"])).sum();
        assert_eq!(discarded, stale);
        let (arrived, lost) = sink(&status);
        assert_eq!(arrived + stale + full, COUNT);
        // At most what the last moments dropped is missing at the end.
        assert!(
            arrived + lost + full >= COUNT - 64,
            "the newest arrive: {out:#}"
        );
    }
}

/// The pressure of the last link is felt at the entry before the links between are full.
#[test]
fn watermarks_reach_the_entry_before_links_are_full() {
    let place = Place::new();
    let text = "name: marks\nports:\n  in: { generator: { rate: max } }\n  \
                out: { sink: {}, group: away, wrap: [ { pace: { tx: 1kpps } } ] }\n\
                nfs:\n  work: { type: count }\n  work2: { type: count }\n\
                links:\n  - { link: in -> work -> work2 -> out, slots: 1024, trust: shared }\n";
    place.write("chain.yaml", text);
    let running = place.start("marks", &["--json", "chain.yaml"]);
    // Three quarters of the last link, the burst in which it got there at each node, and what was
    // on the way meanwhile: far less than three full links.
    let status = super::harness::until("the links fill", || {
        let status = place.catena(&["status", "--json", "marks"]).json();
        let last = &status["links"][2];
        (number(&last["occupancy"]) >= 512).then_some(status)
    });
    let before: u64 = (0..2)
        .map(|at| number(&status["links"][at]["occupancy"]))
        .sum();
    assert!(before < 1024, "{:#}", status["links"]);
    place.catena(&["stop", "marks"]).assert_code(0);
    let status = running.end().assert_code(0).json();
    assert_conserved(&status);
    for name in ["in", "work", "work2"] {
        assert_eq!(drops(named(&status["nodes"], name)), 0);
    }
}
