//! `catena run --metrics`: asked by a real client, read by a parser that forgives nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use super::harness::{Place, until};
use super::running::{await_packets, generating};

/// A sample: name, labels, value.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// Reads text format 0.0.4; panics at whatever the format does not allow, and at what it allows but
/// this text should not need: samples without a type, families in pieces, the same series twice.
fn parse(text: &str) -> (BTreeMap<String, String>, Vec<Sample>) {
    assert!(text.ends_with('\n'), "the last line ends too");
    let (mut types, mut helps) = (BTreeMap::new(), BTreeSet::new());
    let (mut samples, mut series) = (Vec::new(), BTreeSet::new());
    let mut family = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(!help.is_empty() && helps.insert(name.to_owned()), "{line}");
            family = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, family);
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(types.insert(name.to_owned(), kind.to_owned()).is_none());
        } else {
            let sample = parse_sample(line);
            let base = match types[&family].as_str() {
                "histogram" => ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|suffix| sample.name.strip_suffix(suffix))
                    .unwrap_or_else(|| panic!("{line}")),
                _ => &sample.name,
            };
            assert_eq!(base, family, "{line}");
            assert!(
                series.insert(format!("{}{:?}", sample.name, sample.labels)),
                "{line}"
            );
            assert!(sample.value >= 0.0, "{line}");
            samples.push(sample);
        }
    }
    assert_eq!(helps, types.keys().cloned().collect());
    (types, samples)
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_lowercase())
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn parse_sample(line: &str) -> Sample {
    let (name, rest) = line.split_once('{').unwrap();
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    let mut rest = rest;
    loop {
        let (label, after) = rest.split_once("=\"").unwrap();
        assert!(is_name(label), "{line}");
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().unwrap() {
                (end, '"') => break end,
                (_, '\\') => value.push(match chars.next().unwrap().1 {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    c => panic!("\\{c} in {line}"),
                }),
                (_, c) => value.push(c),
            }
        };
        assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
        rest = &after[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => break,
        }
    }
    let value = rest.strip_prefix("} ").unwrap_or_else(|| panic!("{line}"));
    Sample {
        name: name.to_owned(),
        labels,
        value: value.parse().unwrap(),
    }
}

/// GET by curl where there is one, else by hand; the code and the body.
fn get(url: &str) -> (u16, String) {
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--max-time",
        "20",
        "--write-out",
        "\n%{http_code}",
    ]);
    match curl.arg(url).output() {
        Ok(output) => {
            assert!(output.status.success(), "{output:?}");
            let text = String::from_utf8(output.stdout).unwrap();
            let (body, code) = text.rsplit_once('\n').unwrap();
            (code.parse().unwrap(), body.to_owned())
        }
        Err(_) => {
            let (address, path) = url
                .strip_prefix("http://")
                .unwrap()
                .split_once('/')
                .unwrap();
            let request = format!("GET /{path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
            let text = exchange(address, request.as_bytes());
            let code = text.split(' ').nth(1).unwrap().parse().unwrap();
            (code, text.split_once("\r\n\r\n").unwrap().1.to_owned())
        }
    }
}

fn exchange(address: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream.write_all(request).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn url(place: &Place) -> String {
    until("the address is told", || {
        let log = place.log();
        let line = log.lines().find_map(|line| line.strip_prefix("metrics: "));
        line.map(str::to_owned)
    })
}

#[test]
fn a_running_chain_is_scraped() {
    let place = Place::new();
    let file = generating(&place, "gen");
    let running = place.start("gen", &["--metrics", "127.0.0.1:0", "--json", &file]);
    await_packets(&place, "gen");
    let url = url(&place);
    let (code, text) = get(&url);
    assert_eq!(code, 200);
    let (types, samples) = parse(&text);

    let reference = super::harness::repository().join("docs/reference/metrics.md");
    let reference = std::fs::read_to_string(reference).unwrap();
    for name in types.keys() {
        assert!(reference.contains(&format!("| `{name}` |")), "{name}");
    }
    let sum = |name: &str, label: &str, value: &str| {
        let samples = samples.iter().filter(|sample| sample.name == name);
        let chosen = samples.filter(|sample| sample.labels[label] == value);
        chosen.map(|sample| sample.value).sum::<f64>()
    };
    assert!(sum("catena_node_rx_packets_total", "node", "swap") > 0.0);
    assert!(sum("catena_link_packets_total", "link", "in -> swap") > 0.0);
    assert_eq!(sum("catena_link_slots", "link", "in -> swap"), 2048.0);
    assert_eq!(sum("catena_node_drops_total", "node", "swap"), 0.0);
    assert_eq!(sum("catena_worker_up", "mode", "process"), 3.0);
    assert!(samples.iter().all(|sample| sample.labels["chain"] == "gen"));

    let before = sum("catena_node_tx_packets_total", "node", "out");
    until("the counters go on", || {
        let (_, samples) = parse(&get(&url).1);
        let mut all = samples.iter();
        let out = all.find(|sample| {
            sample.name == "catena_node_tx_packets_total" && sample.labels["node"] == "out"
        });
        (out.unwrap().value > before).then_some(())
    });

    let health = url.replace("/metrics", "/healthz");
    assert_eq!(get(&health), (200, "ok\n".to_owned()));
    assert_eq!(get(&url.replace("/metrics", "/")).0, 404);
    let address = url.strip_prefix("http://").unwrap();
    let address = address.strip_suffix("/metrics").unwrap();
    let refused = exchange(
        address,
        b"POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    );
    assert!(refused.starts_with("HTTP/1.1 405 "), "{refused}");
    assert!(refused.contains("\r\nAllow: GET\r\n"), "{refused}");
    assert!(exchange(address, b"nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));

    place.catena(&["stop"]).assert_code(0);
    super::harness::assert_conserved(&running.end().assert_code(0).json());
    place.assert_nothing_left();
}

/// A UPF is asked for what passed by network instance and slice; each shard has samples of its own.
#[test]
fn a_upfs_network_instances_and_slices_are_scraped() {
    for shards in [1, 2] {
        let place = Place::new();
        place.write("scenario.yaml", UPF_SCENARIO);
        let chain = UPF_CHAIN.replace("SHARDS", &shards.to_string());
        let file = place.write("upf.yaml", chain);
        let file = file.to_string_lossy().into_owned();
        let running = place.start("upf", &["--metrics", "127.0.0.1:0", "--json", &file]);
        let url = url(&place);
        let samples = until("the packets are told", || {
            let (_, samples) = parse(&get(&url).1);
            let has_passed = samples.iter().any(|sample| {
                sample.name == "catena_upf_instance_packets_total" && sample.value == 3.0
            });
            has_passed.then_some(samples)
        });
        let of = |name: &str, label: (&str, &str), direction: Option<&str>| {
            let its = samples.iter().filter(|sample| {
                let labels = &sample.labels;
                sample.name == name
                    && labels[label.0] == label.1
                    && direction.is_none_or(|direction| labels["direction"] == direction)
            });
            its.map(|sample| sample.value).sum::<f64>()
        };
        let internet = ("network_instance", "internet");
        let bytes = "catena_upf_instance_bytes_total";
        assert_eq!(of(bytes, internet, Some("uplink")), 300.0);
        assert_eq!(of(bytes, internet, Some("downlink")), 0.0);
        let drops = samples.iter().filter(|sample| {
            let labels = &sample.labels;
            sample.name == "catena_upf_instance_drops_total"
                && labels["network_instance"] == "internet"
                && labels["reason"] == "far_drop"
        });
        assert_eq!(drops.map(|sample| sample.value).sum::<f64>(), 2.0);
        let slice = ("slice", "1-0000a1");
        let packets = "catena_upf_slice_packets_total";
        assert_eq!(of(packets, slice, Some("uplink")), 3.0);
        assert_eq!(of("catena_upf_slice_sessions", slice, None), 1.0);
        let nodes: BTreeSet<&String> = samples
            .iter()
            .filter(|sample| sample.name.starts_with("catena_upf_"))
            .map(|sample| &sample.labels["node"])
            .collect();
        assert_eq!(nodes.len(), shards, "{nodes:?}");
        place.catena(&["stop"]).assert_code(0);
        running.end().assert_code(0);
        place.assert_nothing_left();
    }
}

const UPF_CHAIN: &str = "name: upf
ports:
  smf: { smf: { scenario: scenario.yaml } }
nfs:
  upf:
    type: upf
    shards: SHARDS
    node_id: 10.4.0.1
    n4: { address: 10.4.0.1 }
    interfaces:
      - { name: n3, side: access, address: 10.3.0.1 }
      - { name: n6, side: core, network_instance: internet }
    pools: [ { network_instance: internet, v4: 10.45.0.0/16 } ]
links: [ smf -> upf, upf.n3 -> smf, upf.n4 -> smf, upf.n6 -> smf ]
";

const UPF_SCENARIO: &str = "about: A session of a slice.
smf: 10.4.0.2
n4: 10.4.0.1
ran: 10.3.0.2
n3: 10.3.0.1
host: 203.0.113.9
steps:
  - { do: associate, expect: [ answer: {} ] }
  - do:
      establish:
        session: 1
        slice: [1, 0xa1]
        pdrs:
          - { id: 1, precedence: 9, source: access, choose_teid: true, choose_ue: true,
              removal: 6, far: 1 }
          - { id: 2, precedence: 9, source: core, choose_ue: true, far: 2 }
        fars:
          - { id: 1, action: forward, to: core, network_instance: internet }
          - { id: 2, action: drop }
    expect: [ answer: {} ]
  - { do: { downlink: { session: 1, count: 2 } } }
  - { do: { uplink: { session: 1, count: 3 } }, expect: [ packets: { count: 3 } ] }
  - { do: { wait: 3600s } }
";

#[test]
fn an_address_that_cannot_be_had_is_told_before_anything_starts() {
    let place = Place::new();
    let file = generating(&place, "gen");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = place.catena(&["run", "--metrics", &address, &file]);
    ended.assert_code(1);
    assert!(ended.stderr.contains(&address), "{}", ended.stderr);
    assert!(!ended.stderr.contains("is running"), "{}", ended.stderr);
    for wrong in ["localhost", "127.0.0.1", "127.0.0.1:99999", ":9465", ""] {
        let ended = place.catena(&["run", "--metrics", wrong, &file]);
        ended.assert_code(2);
        assert!(
            ended.stderr.contains("such as 127.0.0.1:9465"),
            "{}",
            ended.stderr
        );
    }
    place.assert_nothing_left();
}
