//! Aggregation on links between processes: what comes out does not depend on it.

use serde_json::Value;

use super::harness::{Place, assert_conserved, pcap_packets};

/// A branching chain over the shipped capture, twenty times; each branch has an end of its own, so
/// its order is defined. Gives what came out of each, and the status.
fn run(aggregate: &str, trust: &str) -> ([Vec<Vec<u8>>; 2], Value) {
    let place = Place::new();
    let traces = concat!(env!("CARGO_MANIFEST_DIR"), "/../../chains/traces/web.pcap");
    std::fs::copy(traces, place.path("web.pcap")).unwrap();
    let text = format!(
        "name: share\nports:\n  in: {{ pcap: {{ read: web.pcap, pace: max, loop: 20 }} }}\n  \
         a: {{ pcap: {{ write: a.pcap }} }}\n  b: {{ pcap: {{ write: b.pcap }} }}\nnfs:\n  \
         swap: {{ type: macswap }}\n  \
         sort: {{ type: classify, default: rest, rules: [ {{ to: tcp, protocol: tcp }} ] }}\n  \
         tag: {{ type: vlan, push: {{ id: 7 }} }}\n  last: {{ type: count }}\nlinks:\n  \
         - {{ link: in -> swap -> sort, aggregate: {aggregate}, trust: {trust} }}\n  \
         - {{ link: sort.tcp -> tag, aggregate: {aggregate}, trust: {trust} }}\n  \
         - {{ link: sort.rest -> last, aggregate: {aggregate}, trust: {trust} }}\n  \
         - {{ link: tag -> a, aggregate: {aggregate}, trust: {trust} }}\n  \
         - {{ link: last -> b, aggregate: {aggregate}, trust: {trust} }}\n"
    );
    place.write("chain.yaml", text);
    let ended = place.catena(&["run", "--json", "chain.yaml"]);
    let status = ended.assert_code(0).json();
    assert_conserved(&status);
    let out = ["a.pcap", "b.pcap"].map(|name| {
        let bytes = std::fs::read(place.path(name)).unwrap();
        let packets = pcap_packets(&bytes).into_iter();
        packets.map(<[u8]>::to_vec).collect()
    });
    (out, status)
}

fn bundles(status: &Value) -> u64 {
    let links = status["links"].as_array().unwrap().iter();
    links
        .map(|link| link["aggregation"]["bundles"].as_u64().unwrap())
        .sum()
}

/// Headers are put in front of packets in bundles (`vlan`), branches take views of them, and on
/// `copy` links they are copied whole: byte for byte what comes out without bundles.
#[test]
fn what_comes_out_does_not_depend_on_aggregation() {
    for trust in ["shared", "copy"] {
        let (plain, status) = run("off", trust);
        assert_eq!(bundles(&status), 0, "{status:#}");
        let total: usize = plain.iter().map(Vec::len).sum();
        assert_eq!(total, 20 * 911);
        for aggregate in ["on", "auto"] {
            let (out, status) = run(aggregate, trust);
            assert!(
                out == plain,
                "{aggregate} {trust}: other packets, or another order"
            );
            if aggregate == "on" {
                assert!(bundles(&status) > 0, "{status:#}");
            }
        }
    }
}
