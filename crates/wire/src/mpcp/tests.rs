// SPDX-License-Identifier: Apache-2.0
//! MPCPDUs against bytes laid out by hand from 802.3 77.3.6.

use super::*;
use crate::testing::{hex, truncation};
use proptest::prelude::*;

fn padded(text: &str) -> Vec<u8> {
    let mut bytes = hex(text);
    assert!(bytes.len() <= MPCPDU_LEN);
    bytes.resize(MPCPDU_LEN, 0);
    bytes
}

fn grant(start_time: u32, length: u16, force_report: bool) -> Grant {
    Grant {
        start_time,
        length,
        force_report,
    }
}

fn queue_set(lengths: &[(usize, u16)]) -> QueueSet {
    let mut set = [None; 8];
    for &(queue, length) in lengths {
        set[queue] = Some(length);
    }
    set
}

#[test]
fn header_and_bytes_agree() {
    let rates = DiscoveryInformation::UPSTREAM_10G.with(DiscoveryInformation::WINDOW_10G);
    let mut report = Report::new();
    assert!(report.push(&queue_set(&[(0, 0x1234), (7, 5)])));
    assert!(report.push(&queue_set(&[(1, 6)])));
    let table = [
        (
            "0002 00000010 22 00001000 0200 00002000 0300",
            Message::Gate(
                Gate::new(&[grant(0x1000, 0x200, false), grant(0x2000, 0x300, true)]).unwrap(),
            ),
        ),
        (
            "0002 00000010 09 00001000 4000 0190 0022",
            Message::Gate(Gate::of_discovery(
                grant(0x1000, 0x4000, false),
                GateDiscovery {
                    sync_time: 400,
                    information: rates,
                },
            )),
        ),
        ("0002 00000010 00", Message::Gate(Gate::new(&[]).unwrap())),
        (
            "0003 00000010 02 81 1234 0005 02 0006",
            Message::Report(report),
        ),
        (
            "0004 00000010 01 10 0022 20 21",
            Message::RegisterReq(RegisterReq {
                flags: RegisterReq::REGISTER,
                pending_grants: 16,
                information: rates,
                laser_on_time: 0x20,
                laser_off_time: 0x21,
            }),
        ),
        (
            "0005 00000010 0007 03 0190 10 20 21",
            Message::Register(Register {
                assigned_port: 7,
                flags: Register::ACK,
                sync_time: 400,
                echoed_pending_grants: 16,
                target_laser_on_time: 0x20,
                target_laser_off_time: 0x21,
            }),
        ),
        (
            "0006 00000010 01 0007 0190",
            Message::RegisterAck(RegisterAck {
                flags: RegisterAck::ACK,
                echoed_assigned_port: 7,
                echoed_sync_time: 400,
            }),
        ),
    ];
    for (text, message) in table {
        let bytes = padded(text);
        let header = Header {
            timestamp: 16,
            message,
        };
        assert_eq!(Header::parse(&bytes), Ok(header), "{text}");
        let mut written = vec![0xee; header.header_len()];
        header.emit(&mut written);
        assert_eq!(written, bytes, "{header}");
        truncation(&bytes, MPCPDU_LEN, View::parse);
    }
}

#[test]
fn counts_that_do_not_fit_are_refused() {
    for (text, reason) in [
        ("0001 00000000", Reason::Unsupported),
        ("0007 00000000", Reason::Unsupported),
        ("0002 00000000 05", Reason::BadLength),
        ("0002 00000000 0f", Reason::BadLength),
        // Forty empty sets, and three sets of eight queues in 39 bytes.
        ("0003 00000000 28", Reason::BadLength),
        (
            "0003 00000000 03 ff 0001 0002 0003 0004 0005 0006 0007 0008 \
             ff 0001 0002 0003 0004 0005 0006 0007 0008 ff",
            Reason::BadLength,
        ),
    ] {
        let found = View::parse(padded(text));
        assert_eq!(found, Err(Layer::Mpcp.error(reason)), "{text}");
    }
    assert!(Gate::new(&[Grant::default(); 5]).is_none());
    let mut report = Report::new();
    let full = [Some(1); 8];
    assert!(report.push(&full) && report.push(&full));
    let before = report;
    assert!(!report.push(&full));
    assert_eq!(report, before);
    assert_eq!(report.queue_sets().count(), 2);
}

#[test]
fn flags_of_absent_grants_and_padding_are_no_part_of_the_value() {
    let clean = Header::parse(&padded("0002 00000010 11 00001000 0200")).unwrap();
    let mut dirty = padded("0002 00000010 f1 00001000 0200");
    dirty[20..].fill(0xaa);
    assert_eq!(Header::parse(&dirty), Ok(clean));
    let mut report = padded("0003 00000010 01 01 0005");
    let clean = Header::parse(&report).unwrap();
    report[20] = 1;
    assert_eq!(Header::parse(&report), Ok(clean));
}

#[test]
fn the_timestamp_is_set_last() {
    let mut view = View::parse(padded("0006 00000010 01 0007 0190")).unwrap();
    view.set_timestamp(0xffff_fff0);
    assert_eq!(view.timestamp(), 0xffff_fff0);
    assert_eq!(view.into_inner(), padded("0006 fffffff0 01 0007 0190"));
}

#[test]
fn display_shows_what_matters() {
    let shown = |text: &str| View::parse(padded(text)).unwrap().to_string();
    let table = [
        (
            "0002 00000010 11 00001000 0200",
            "mpcp gate at 16 4096+512 report",
        ),
        (
            "0002 00000010 09 00001000 0200",
            "mpcp gate at 16 discovery 4096+512",
        ),
        (
            "0003 00000010 01 81 0001 0002",
            "mpcp report at 16 set 0:1 7:2",
        ),
        ("0004 00000010 03", "mpcp register_req at 16 flags 3"),
        (
            "0005 00000010 0007 03",
            "mpcp register at 16 llid 7 flags 3",
        ),
        (
            "0006 00000010 01 0007",
            "mpcp register_ack at 16 llid 7 flags 1",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(shown(text), expected);
    }
    assert_eq!(Opcode(0x101).to_string(), "0x0101");
}

fn messages() -> impl Strategy<Value = Message> {
    let grants = proptest::collection::vec(
        (any::<u32>(), any::<u16>(), any::<bool>()).prop_map(|(s, l, f)| grant(s, l, f)),
        0..=Gate::GRANTS_MAX,
    );
    let discovery = (any::<u16>(), any::<u16>()).prop_map(|(sync_time, bits)| GateDiscovery {
        sync_time,
        information: DiscoveryInformation(bits),
    });
    let gate = (grants, proptest::option::of(discovery)).prop_map(|(grants, discovery)| {
        let mut gate = Gate::new(&grants).unwrap();
        gate.discovery = discovery;
        Message::Gate(gate)
    });
    let set = proptest::array::uniform8(proptest::option::of(any::<u16>()));
    let report = proptest::collection::vec(set, 0..14).prop_map(|sets| {
        let mut report = Report::new();
        for set in &sets {
            report.push(set);
        }
        Message::Report(report)
    });
    let request = any::<(u8, u8, u16, u8, u8)>().prop_map(|(a, b, c, d, e)| {
        Message::RegisterReq(RegisterReq {
            flags: a,
            pending_grants: b,
            information: DiscoveryInformation(c),
            laser_on_time: d,
            laser_off_time: e,
        })
    });
    let register = any::<(u16, u8, u16, u8, u8, u8)>().prop_map(|(a, b, c, d, e, g)| {
        Message::Register(Register {
            assigned_port: a,
            flags: b,
            sync_time: c,
            echoed_pending_grants: d,
            target_laser_on_time: e,
            target_laser_off_time: g,
        })
    });
    let ack = any::<(u8, u16, u16)>().prop_map(|(a, b, c)| {
        Message::RegisterAck(RegisterAck {
            flags: a,
            echoed_assigned_port: b,
            echoed_sync_time: c,
        })
    });
    prop_oneof![gate, report, request, register, ack]
}

proptest! {
    #[test]
    fn emit_then_parse_is_identity(timestamp: u32, message in messages()) {
        let header = Header { timestamp, message };
        let mut bytes = [0; MPCPDU_LEN];
        header.emit(&mut bytes);
        prop_assert_eq!(Header::parse(&bytes), Ok(header));
    }

    #[test]
    fn queue_sets_come_back_in_order(
        sets in proptest::collection::vec(
            proptest::array::uniform8(proptest::option::of(any::<u16>())), 0..14,
        ),
    ) {
        let mut report = Report::new();
        let kept: Vec<QueueSet> = sets.into_iter().filter(|set| report.push(set)).collect();
        prop_assert_eq!(report.queue_sets().collect::<Vec<_>>(), kept);
    }
}
