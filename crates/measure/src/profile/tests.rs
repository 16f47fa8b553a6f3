//! What a profile file may say, and what it is told when it may not.

use super::*;

fn errors(text: &str) -> String {
    Profile::KIND.parse(text, "p.yaml").unwrap_err().to_string()
}

#[test]
fn a_whole_profile_is_read() {
    let text = "\
name: upf
seed: 7
line: 10Gbps
packet:
  ip: v6
  vlan: [200, 100]
  src: 2001:db8::1
  gtpu: { teid: 256, teids: 1000, qfi: 5, direction: downlink }
sizes: [{ size: 256, parts: 3 }, 1500]
size_order: random
flows: { count: 1000, pick: zipf, exponent: 1.2, churn: { per_second: 50 } }
load: { rate: 5Gbps, layer: l1, pattern: bursts, packets: 32 }
";
    let profile = Profile::KIND.parse(text, "p.yaml").unwrap();
    assert_eq!(profile.packet.headers_len(), 14 + 8 + 20 + 8 + 16 + 40 + 8);
    assert_eq!(profile.mean_frame_len(), (3.0 * 256.0 + 1500.0) / 4.0);
    let pps = profile.packets_per_second(Rate::BitsPerSecond(5e9));
    assert!((pps - 5e9 / 8.0 / (567.0 + 20.0)).abs() < 1e-3, "{pps}");
    assert_eq!(profile.flow_number_end(), FLOW_COUNT_MAX);
}

#[test]
fn an_empty_profile_is_64_bytes_as_fast_as_there_is_room() {
    let profile = Profile::KIND.parse("{}\n", "p.yaml").unwrap();
    assert_eq!(profile.load.rate, Offered::Max);
    assert_eq!(profile.sizes, Sizes::default());
}

#[test]
fn all_errors_show_at_once_with_place_and_repair() {
    let text = "\
line: 1Gbps
sizes: [64, 40]
packet: { ip: v6 }
flows: { count: 0, pick: sometimes }
load: { rate: 2Gbps }
lode: 1
";
    let expected = "\
p.yaml:2:9: error: sizes[0]: 64 bytes do not hold 62 bytes of headers, a stamp of 18 and the FCS
  2 | sizes: [64, 40]
    |         ^
  repair: give 84 or more
p.yaml:2:13: error: sizes[1]: 40 bytes do not hold 62 bytes of headers, a stamp of 18 and the FCS
  2 | sizes: [64, 40]
    |             ^
  repair: give 84 or more
p.yaml:4:26: error: flows.pick: there is no \"sometimes\"
  4 | flows: { count: 0, pick: sometimes }
    |                          ^
  repair: write one of cycle, uniform, zipf
p.yaml:5:15: error: load.rate: 2769230769 bps on layer 1 are more than the line's 1000000000
  5 | load: { rate: 2Gbps }
    |               ^
  repair: give at most 722222222bps
p.yaml:6:1: error: unknown key \"lode\" in profile
  6 | lode: 1
    | ^
  repair: write one of name, seed, line, packet, sizes, size_order, flows, load, replay
";
    assert_eq!(errors(text), expected);
}

#[test]
fn what_cannot_be_is_refused() {
    for (text, wanted) in [
        ("sizes: 20000", "at most 9216"),
        ("sizes: []", "there are 0 sizes"),
        ("sizes: 20000", "or set packet.transport: chunk"),
        ("packet: { transport: tcp-syn }", "give 76 or more"),
        (
            "packet: { transport: chunk }\nsizes: 131073",
            "give at most 131072",
        ),
        (
            "packet: { transport: chunk, gtpu: {} }\nsizes: 2000",
            "no IP header",
        ),
        ("packet: { gtpu: {} }", "give 108 or more"),
        ("packet: { vlan: [1, 2, 3] }\nsizes: 100", "one or two"),
        ("packet: { vlan: 4095 }\nsizes: 100", "0 to 4094"),
        (
            "packet: { ip: v6, udp_checksum: false }\nsizes: 100",
            "RFC 8200",
        ),
        ("packet: { src: '::1' }", "other IP version"),
        ("load: { pattern: poisson }", "needs a rate"),
        ("load: { rate: 1Mpps, pattern: bursts }", "give packets"),
        ("load: { rate: 1Mpps, packets: 3 }", "only bursts"),
        ("load: { pattern: steps }", "there are 0 steps"),
        ("load: { rate: 10 }", "like 10kpps"),
        ("line: 1Mpps", "one of bits"),
        (
            "line: 1Gbps\nload: { rate: 2Mpps }",
            "give at most 1488095pps",
        ),
        (
            "line: 1Gbps\nload: { rate: 1kpps, pattern: bursts, packets: 2, spacing: 1ns }",
            "give at least 672ns",
        ),
        ("flows: { exponent: 2 }", "only zipf"),
        (
            "flows: { count: 9, churn: { per_second: 1, pool: 9 } }",
            "give 10 to",
        ),
        ("replay: { file: a.pcap, speed: 0 }", "a speed of 0"),
        (
            "replay: { file: a.pcap, timing: recorded }\nload: { rate: 1pps }",
            "no choice of load",
        ),
        ("[1]", "a profile is a map"),
    ] {
        let found = errors(text);
        assert!(found.contains(wanted), "{text}: {found}");
    }
}

#[test]
fn the_schema_knows_every_key() {
    let schema = schemars::schema_for!(Profile).to_value();
    let keys: Vec<&str> = schema["properties"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = "flows line load name packet replay seed size_order sizes";
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    assert_eq!(sorted.join(" "), expected);
    assert_eq!(schema["additionalProperties"], false);
}
