//! Captures of scenarios and of real runs, read by tshark.

use std::path::Path;
use std::process::Command;

/// Whether there is a tshark; if not, `test` says so.
pub(crate) fn has_tshark(test: &str) -> bool {
    let is_there = Command::new("tshark").arg("--version").output().is_ok();
    if !is_there {
        println!("SKIP {test}: no tshark");
    }
    is_there
}

/// All ports but those of GTP-U and PFCP.
const OTHERS: [&str; 4] = [
    "tcp.port==1-65535",
    "udp.port==1-2151",
    "udp.port==2153-8804",
    "udp.port==8806-65535",
];

/// What tshark says of the frames of a capture that pass `filter`, in these fields.
fn said(capture: &Path, filter: &str, fields: &[&str]) -> String {
    let mut tshark = Command::new("tshark");
    // What users send is not read: whatever is not GTP-U or PFCP by its port is data, or some
    // protocol would be found in it by port or by its looks, and be wrong.
    for ports in OTHERS {
        tshark.args(["-d", &format!("{ports},data")]);
    }
    for protocol in ["ip", "udp", "tcp"] {
        tshark.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
    }
    // Users' segments stand for themselves: what is between them was never sent, and each is
    // seen in its tunnel and out of it.
    tshark
        .args(["-o", "tcp.analyze_sequence_numbers:FALSE"])
        .args(["-o", "tcp.desegment_tcp_streams:FALSE", "-n", "-r"])
        .arg(capture);
    tshark.args(["-Y", filter, "-T", "fields"]);
    for field in fields {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// What tshark says is wrong with the frames of a capture: their number, protocols and its words.
pub(crate) fn complaints(capture: &Path) -> String {
    complaints_of(capture, "frame")
}

/// As [`complaints`], of frames that pass a filter.
pub(crate) fn complaints_of(capture: &Path, filter: &str) -> String {
    // Severity: warn and error. That a user's connection is reset, with bytes, is no fault, nor
    // that its end has a segment twice, nor that Linux writes a sum of zero as 0xffff for TCP too
    // (RFC 1624, 3: both are zero). It takes the eight octets of a Validity Time (TS 29.244,
    // 8.2.139) for four.
    let wrong = "((_ws.malformed || (_ws.expert.severity >= 0x600000 && !(tcp.flags.reset == 1) \
                 && !(_ws.expert.message contains \"D-SACK\") \
                 && !(_ws.expert.message contains \"0xffff instead of 0x0000\"))) \
                 && !(pfcp.packet_rate_status.validity_time \
                 && _ws.expert.message contains \"integer with length 8\"))";
    let fields = ["frame.number", "frame.protocols", "_ws.expert.message"];
    said(capture, &format!("({filter}) && {wrong}"), &fields)
}

/// How many frames of a capture pass a filter of tshark.
pub(crate) fn frames(capture: &Path, filter: &str) -> usize {
    said(capture, filter, &["frame.number"]).lines().count()
}

/// Where in a capture of Ethernet the first message to `port` begins that is in UDP over IPv4.
fn first_message(capture: &[u8], port: u16) -> usize {
    let mut at = 24;
    loop {
        let len: [u8; 4] = capture[at + 8..at + 12].try_into().unwrap();
        let frame = at + 16;
        let (udp, message) = (frame + 34, frame + 42);
        let is_udp = capture[frame + 12..frame + 15] == [8, 0, 0x45] && capture[frame + 23] == 17;
        if is_udp && capture[udp + 2..udp + 4] == port.to_be_bytes() {
            return message;
        }
        at = frame + u32::from_le_bytes(len) as usize;
    }
}

/// The capture `name` of a run is whole, and tshark finds nothing wrong with it: not with PFCP and
/// GTP-U, not with what carries them, not with the users' packets in tunnels. It would find one
/// octet that was changed in the first message to `port`.
pub(crate) fn assert_nothing_is_wrong(results: &Path, name: &str, port: u16) {
    let file = results.join(format!("{name}.pcap"));
    let summary = std::fs::read_to_string(results.join(format!("{name}.txt"))).unwrap();
    assert!(
        summary.contains("\n0 packets dropped by kernel"),
        "{summary}"
    );
    assert_eq!(complaints(&file), "", "{name}");

    let mut bytes = std::fs::read(&file).unwrap();
    // The length of the extension header, in GTP-U.
    let at = first_message(&bytes, port) + 12;
    bytes[at] ^= 0x40;
    let spoiled = results.join("spoiled.pcap");
    std::fs::write(&spoiled, bytes).unwrap();
    assert_ne!(complaints(&spoiled), "", "{name}");
}

/// Two frames of scapy's, each with a user's packet in a tunnel: to the port of NTP over UDP, to
/// that of whois over TCP, and neither with what such a port expects.
const USERS: [&str; 2] = [
    "0200000000020200000000010800\
     45000049000100004011669b0a0300020a030001086808680035000030ff002500000001\
     4500002500010000401134900a2d0001cb0071099c40007b00110000616e7920776f726473",
    "0200000000020200000000010800\
     45000055000100004011668f0a0300020a030001086808680041000030ff003100000001\
     45000031000100004006348f0a2d0001cb0071099c40002b0000000100000000501020007\
     5c40000616e7920776f726473",
];

/// What users send is theirs: a capture is not wrong where it is not what its port expects.
#[test]
fn what_users_send_is_no_fault_of_a_capture() {
    if !has_tshark("what_users_send_is_no_fault_of_a_capture") {
        return;
    }
    // draft-ietf-opsawg-pcap: microseconds, version 2.4, LINKTYPE_ETHERNET.
    let header: [u32; 6] = [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 0x4_0000, 1];
    let mut bytes: Vec<u8> = header.into_iter().flat_map(u32::to_le_bytes).collect();
    for frame in USERS {
        let len = frame.len() as u32 / 2;
        bytes.extend([0, 0, len, len].into_iter().flat_map(u32::to_le_bytes));
        let octets = (0..frame.len()).step_by(2).map(|at| &frame[at..at + 2]);
        bytes.extend(octets.map(|octet| u8::from_str_radix(octet, 16).unwrap()));
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users.pcap");
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(
        frames(&file, "gtp && (udp.port == 123 || tcp.port == 43)"),
        2
    );
    assert_eq!(complaints(&file), "");
}
