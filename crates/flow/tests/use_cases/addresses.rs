// SPDX-License-Identifier: Apache-2.0
//! Addresses of IPv4 where a field of either version has 128 bits: in conditions, masks,
//! patterns, constants, registers and selections.

use std::net::SocketAddr;

use super::bench::Bench;
use super::packet::udp;

/// Verdicts on packets from a friend, a stranger of IPv4, and one of IPv6 that ends alike.
fn verdicts(condition: &str) -> Vec<String> {
    let more = match condition.contains("meta.who") {
        true => ("metadata: { who: 128 }", "before: [meta.who = friend]"),
        false => ("", ""),
    };
    let program = format!(
        "outputs: [out]\nconstants: {{ friend: 10.0.0.1 }}\n{}\nelements:\n  - name: one\n    {}\n    \
         transitions: [{{ {condition}, do: [output(out)] }}]\n    otherwise: [drop(stranger)]\n",
        more.0, more.1
    );
    let mut bench = Bench::new(&program);
    let from = ["10.0.0.1:5", "10.0.0.9:5", "[2001:db8::a00:1]:5"];
    let to = ["10.0.9.9:7", "10.0.9.9:7", "[2001:db8::2]:7"];
    let sent = from.iter().zip(to).map(|(from, to)| {
        let [from, to]: [SocketAddr; 2] = [from.parse().unwrap(), to.parse().unwrap()];
        udp(from, to, &[])
    });
    sent.map(|packet| bench.one(0, &packet).to_owned())
        .collect()
}

#[test]
fn an_address_of_ipv4_is_the_mapped_one_where_there_is_room_for_ipv6() {
    for condition in [
        "if: ip.src == 10.0.0.1",
        "if: ip.src == friend",
        "if: ip.src == meta.who",
        "if: ip.src >= 10.0.0.0 && ip.src <= 10.0.0.3",
        "if: ip.src & 255.255.255.252 == 10.0.0.0",
        "if: \"ip.src == select(valid(udp), 10.0.0.1, ip.dst)\"",
        "match: { ip.src: 10.0.0.1 }",
        "match: { ip.src: 10.0.0.0/30 }",
        "match: { ip.src: 10.0.0.0-10.0.0.3 }",
    ] {
        let found = verdicts(condition);
        assert_eq!(found, ["out", "!stranger", "!stranger"], "{condition}");
    }
}
