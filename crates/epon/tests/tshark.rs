//! Goal: Wireshark reads MPCPDUs and preambles as this repository writes them. Method: one capture
//! with one packet of each kind, LINKTYPE_EPON, dissected by tshark, field by field. Wireshark
//! knows opcode and timestamp of all, and more of the registration; grants and queue sets it does
//! not dissect, those are compared as bytes with the layout of IEEE 802.3 77.3.6.
//!
//! Without tshark the test says so and passes; `CATENA_REQUIRE_TSHARK=1` makes that a failure.

use std::path::Path;
use std::process::{Command, Stdio};

use catena_pcs::llid;
use catena_wire::ethernet::{self, EtherType, MacAddr};
use catena_wire::mpcp::{
    self, DiscoveryInformation, Gate, GateDiscovery, Grant, Header, MPCPDU_LEN, Message, Register,
    RegisterAck, RegisterReq, Report,
};

const LINKTYPE_EPON: u32 = 259;
const SRC: MacAddr = MacAddr([2, 0, 0, 0, 1, 7]);

/// A packet as LINKTYPE_EPON has it: the preamble from its second octet on, then the frame.
fn packet(llid: u16, dst: MacAddr, pdu: &Header) -> Vec<u8> {
    let mut frame = [0; ethernet::HEADER_LEN + MPCPDU_LEN];
    let header = ethernet::Header {
        dst,
        src: SRC,
        ether_type: EtherType::MAC_CONTROL,
    };
    header.emit(&mut frame);
    pdu.emit(&mut frame[ethernet::HEADER_LEN..]);
    [&llid::preamble(llid)[1..], &frame].concat()
}

fn capture_bytes(packets: &[Vec<u8>]) -> Vec<u8> {
    let header: [u32; 6] = [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 0x4_0000, LINKTYPE_EPON];
    let mut bytes: Vec<u8> = header.into_iter().flat_map(u32::to_le_bytes).collect();
    for packet in packets {
        let len = u32::try_from(packet.len()).unwrap();
        bytes.extend([0, 0, len, len].into_iter().flat_map(u32::to_le_bytes));
        bytes.extend(packet);
    }
    bytes
}

/// What tshark says of each packet: the fields, joined by commas.
fn dissected(packets: &[Vec<u8>], name: &str, fields: &[&str]) -> Option<Vec<String>> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, capture_bytes(packets)).unwrap();
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(&path);
    command.args(["-T", "fields", "-E", "separator=,"]);
    fields
        .iter()
        .for_each(|field| _ = command.args(["-e", field]));
    let Ok(output) = command.stderr(Stdio::null()).output() else {
        let required = std::env::var("CATENA_REQUIRE_TSHARK").is_ok_and(|value| value == "1");
        assert!(!required, "tshark is required and not installed");
        println!("SKIP epon::tshark: tshark not installed");
        return None;
    };
    assert!(output.status.success(), "tshark refuses {}", path.display());
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(str::to_owned).collect())
}

fn messages() -> Vec<(u16, Message)> {
    let grant = Grant {
        start_time: 1000,
        length: 500,
        force_report: true,
    };
    let rates = DiscoveryInformation::UPSTREAM_10G.with(DiscoveryInformation::WINDOW_10G);
    let discovery = GateDiscovery {
        sync_time: 50,
        information: rates,
    };
    let mut report = Report::new();
    assert!(report.push(&[Some(7), None, None, Some(9), None, None, None, None]));
    let request = RegisterReq {
        flags: RegisterReq::REGISTER,
        pending_grants: 8,
        information: rates,
        laser_on_time: 32,
        laser_off_time: 32,
    };
    let register = Register {
        assigned_port: 5,
        flags: Register::ACK,
        sync_time: 50,
        echoed_pending_grants: 8,
        target_laser_on_time: 32,
        target_laser_off_time: 32,
    };
    let ack = RegisterAck {
        flags: RegisterAck::ACK,
        echoed_assigned_port: 5,
        echoed_sync_time: 50,
    };
    let all = llid::BROADCAST | llid::MODE;
    vec![
        (5, Message::Gate(Gate::new(&[grant, grant]).unwrap())),
        (all, Message::Gate(Gate::of_discovery(grant, discovery))),
        (5, Message::Report(report)),
        (llid::BROADCAST, Message::RegisterReq(request)),
        (all, Message::Register(register)),
        (5, Message::RegisterAck(ack)),
    ]
}

#[test]
fn tshark_reads_each_mpcpdu() {
    let packets: Vec<Vec<u8>> = messages()
        .into_iter()
        .zip(0_u32..)
        .map(|((llid, message), number)| {
            let timestamp = 0xffff_fff0 + number;
            packet(llid, mpcp::DST, &Header { timestamp, message })
        })
        .collect();
    let fields = [
        "epon.llid",
        "epon.mode",
        "epon.checksum.status",
        "macc.opcode",
        "macc.timestamp",
        "macc.reg.flags",
        "macc.regreq.grants",
        "macc.reg.assignedport",
        "macc.reg.synctime",
        "macc.reg.grants",
        "macc.regack.assignedport",
        "macc.regack.synctime",
        "_ws.expert.message",
    ];
    let Some(found) = dissected(&packets, "mpcp.pcap", &fields) else {
        return;
    };
    let expected = [
        "5,0,1,0x0002,4294967280,,,,,,,,",
        "32766,1,1,0x0002,4294967281,,,,,,,,",
        "5,0,1,0x0003,4294967282,,,,,,,,",
        "32766,0,1,0x0004,4294967283,0x01,8,,,,,,",
        "32766,1,1,0x0005,4294967284,0x03,,5,50,8,,,",
        "5,0,1,0x0006,4294967285,0x01,,,,,5,50,",
    ];
    assert_eq!(found, expected);
}

/// The checksum field would say "good" of anything if nobody had looked.
#[test]
fn tshark_finds_a_wrong_crc8() {
    let (llid, message) = messages().remove(0);
    let pdu = Header {
        timestamp: 0,
        message,
    };
    let mut spoiled = packet(llid, mpcp::DST, &pdu);
    spoiled[6] ^= 1;
    let right = packet(llid, mpcp::DST, &pdu);
    let fields = ["epon.checksum.status"];
    if let Some(found) = dissected(&[spoiled, right], "mpcp-wrong.pcap", &fields) {
        assert_eq!(found, ["0", "1"]);
    }
}
