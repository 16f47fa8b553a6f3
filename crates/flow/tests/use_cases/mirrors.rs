// SPDX-License-Identifier: Apache-2.0
//! Copies: of a packet as it came, and as it leaves.

use super::bench::Bench;
use super::packet::{UDP, is_sealed, packet};

/// Changes in front of the element that mirrors, and behind.
const MIRRORS: &str = r#"
outputs: [out, tap, other]
elements:
  - name: change
    transitions:
      - do: [ipv4.ttl = 9, "encap(vlan, 3, 77)", mirror(tap) if udp.dst_port == 53]
  - name: copy
    key: [ipv4.src]
    registers: { seen: 8 }
    before: [mirror(other) if udp.dst_port == 99]
    transitions:
      - if: flow.seen < 2
        do:
          - flow.seen = flow.seen + 1
          - decap(vlan)
          - ipv4.dst = 10.9.9.9
          - mirror(tap)
          - clone(tap)
          - mirror(tap)
          - output(out)
      - do: [mirror(tap), drop(enough)]
"#;

#[test]
fn a_mirror_shows_packets_as_they_came_and_a_clone_as_they_leave() {
    let mut bench = Bench::new(MIRRORS);
    let came = packet(UDP, (1, 5), (2, 53), 0);
    for _ in 0..2 {
        let passed = bench.pass(0, &came);
        assert_eq!(
            (&*passed.verdict, &*passed.copies),
            ("out", &["tap".to_owned()][..])
        );
        assert!(passed.bytes != came && is_sealed(&passed.bytes));
        let tap = ("tap".to_owned(), came.clone());
        assert_eq!(bench.simulation.emitted(), [tap], "once for an output");
    }
    // Also of what is dropped, and from where conditions stand; each of its own packet.
    let other = packet(UDP, (1, 6), (3, 99), 0);
    assert_eq!(bench.one(0, &other), "!enough");
    let both = ["tap", "other"].map(|output| (output.to_owned(), other.clone()));
    assert_eq!(bench.simulation.emitted(), both);
}

#[test]
fn copies_without_room_are_lost_and_counted() {
    let mut bench = Bench::new(MIRRORS);
    let mut long = packet(UDP, (1, 5), (2, 53), 0);
    long.resize(9216 + 23, 0);
    assert_eq!(bench.one(0, &long), "out");
    assert_eq!(bench.simulation.emitted(), []);
    long.truncate(9216 + 22);
    assert_eq!(bench.one(0, &long), "out");
    let tap = ("tap".to_owned(), long.clone());
    assert_eq!(bench.simulation.emitted(), [tap]);
    let emissions = |bench: &mut Bench| {
        let emissions = &bench.simulation.running().emissions;
        (emissions.made, emissions.lost)
    };
    assert_eq!(emissions(&mut bench), (1, 1));
    for _ in 0..300 {
        assert_eq!(bench.one(0, &long), "!enough");
    }
    assert_eq!(emissions(&mut bench), (257, 45));
    assert_eq!(bench.simulation.emitted().len(), 256);
}
