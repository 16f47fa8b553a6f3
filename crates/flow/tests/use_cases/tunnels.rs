// SPDX-License-Identifier: Apache-2.0
//! N3 over IPv6: PDU session containers in GTP-U, put on and taken off.

use std::net::{Ipv4Addr, SocketAddr};

use catena_flow::program::field;
use catena_flow::program::header::{Header, Headers};

use super::bench::Bench;
use super::packet::{TCP, UDP, is_sealed, packet, udp};

/// The two ends of N3 for terminals by their addresses: a base station's tunnels carry what comes
/// from terminals, a core's what goes to them.
const N3: &str = r#"
outputs: [n3, n6]
constants: { gnb: "2001:db8:3::1", upf: "2001:db8:3::2" }
tables:
  terminals:
    key: [exact 128]
    data: { teid: 32, qfi: 6 }
    entries:
      - { key: [0xffff0a000007], data: { teid: 0x1234, qfi: 9 } }
      - { key: ["2001:db8::7"], data: { teid: 0xffffffff, qfi: 63 } }
elements:
  - name: end
    transitions:
      - if: packet.input == 0 && valid(ipv6) && valid(pdu_session)
        do: [decap(gtpu6_downlink), output(n6)]
      - if: packet.input == 1
        do:
          - lookup(terminals, ip.dst)
          - encap(gtpu6_downlink, upf, gnb, terminals.teid, terminals.qfi)
          - output(n3)
      - if: packet.input == 2
        do:
          - lookup(terminals, ip.src)
          - encap(gtpu6_uplink, gnb, upf, terminals.teid, terminals.qfi)
          - output(n3)
    otherwise: [drop(not_for_here)]
"#;

fn value(frame: &[u8], header: Header, name: &str) -> u128 {
    let (field, _) = field::named(header, name).unwrap();
    field::read(frame, &Headers::parse(frame), field)
}

#[test]
fn containers_go_through_ipv6_both_ways_with_checksums() {
    let mut bench = Bench::new(N3);
    let v6 = |last: u16, port| SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, last], port));
    for (payload_len, is_v6) in (0..40).flat_map(|len| [(len, false), (len, true)]) {
        let payload: Vec<u8> = (0..payload_len).map(|byte| byte as u8 ^ 0x5a).collect();
        let make = |src: u16, dst: u16| match is_v6 {
            true => udp(v6(src, 5), v6(dst, 53), &payload),
            false => {
                let end =
                    |host: u16, port| SocketAddr::from((Ipv4Addr::new(10, 0, 0, host as u8), port));
                udp(end(src, 5), end(dst, 53), &payload)
            }
        };
        for (input, inner) in [(1, make(1, 7)), (2, make(7, 1))] {
            let passed = bench.pass(input, &inner);
            assert_eq!(passed.verdict, "n3");
            let headers = Headers::parse(&passed.bytes);
            let has = [
                Header::Ipv6,
                Header::Udp,
                Header::Gtpu,
                Header::PduSession,
                if is_v6 {
                    Header::InnerIpv6
                } else {
                    Header::InnerIpv4
                },
            ];
            assert!(has.iter().all(|header| headers.has(*header)), "{headers:?}");
            // RFC 8200, 8.1: never zero over IPv6.
            assert!(is_sealed(&passed.bytes), "{:02x?}", passed.bytes);
            assert_ne!(value(&passed.bytes, Header::Udp, "checksum"), 0);
            let (teid, qfi) = if is_v6 { (u32::MAX, 63) } else { (0x1234, 9) };
            let found = [
                value(&passed.bytes, Header::Gtpu, "teid"),
                value(&passed.bytes, Header::PduSession, "pdu_type"),
                value(&passed.bytes, Header::PduSession, "qfi"),
            ];
            let kind = u128::from(input == 2);
            assert_eq!(
                found,
                [u128::from(teid), kind, qfi],
                "{:02x?}",
                passed.bytes
            );
            let back = bench.pass(0, &passed.bytes);
            assert_eq!((&*back.verdict, back.bytes), ("n6", inner));
        }
    }
    for plain in [
        packet(TCP, (1, 5), (7, 80), 0x02),
        packet(UDP, (1, 5), (7, 53), 0),
    ] {
        let cut = bench.pass(0, &plain);
        assert!(
            cut.verdict.starts_with('!') && cut.bytes == plain,
            "{cut:?}"
        );
    }
}
