// SPDX-License-Identifier: Apache-2.0
//! Goal: this crate and an independent implementation read the same frames the same way. Method:
//! every capture in `chains/traces/` is dissected by tshark and by this crate, frame by frame; so
//! is a capture of generated frames, valid and spoiled. The first occurrence of a field counts,
//! which is the outermost header.
//!
//! tshark is asked to verify checksums and not to reassemble, since this crate does not. Without
//! tshark, or without captures, the tests say so and pass; `CATENA_REQUIRE_TSHARK=1` makes that a
//! failure.

mod packets;

use catena_wire::dissect::{Dissected, Fragment, Transport};
use catena_wire::{ParseError, Reason, ipv4, tcp, udp};
use packets::{Random, seeds};
use pcap_parser::{Block, PcapBlockOwned, PcapError};
use std::collections::HashMap;
use std::fs::{self, File};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FIELDS: [&str; 28] = [
    "frame.len",
    "frame.cap_len",
    "frame.protocols",
    "vlan.id",
    "ieee8021ad.id",
    "ip.src",
    "ip.dst",
    "ip.proto",
    "ip.flags.mf",
    "ip.frag_offset",
    "ip.checksum.status",
    "ipv6.src",
    "ipv6.dst",
    "ipv6.fraghdr.offset",
    "ipv6.fraghdr.more",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.checksum.status",
    "udp.srcport",
    "udp.dstport",
    "udp.checksum.status",
    "icmp.type",
    "icmp.code",
    "icmpv6.type",
    "icmpv6.code",
    "_ws.malformed",
    "_ws.expert.group",
    "frame.number",
];

/// Reassembly off, and every checksum verified: the defaults differ between versions.
const PREFERENCES: [&str; 7] = [
    "ip.defragment:FALSE",
    "ipv6.defragment:FALSE",
    "ip.check_checksum:TRUE",
    "tcp.check_checksum:TRUE",
    "udp.check_checksum:TRUE",
    "tcp.desegment_tcp_streams:FALSE",
    "ip.tso_support:FALSE",
];

/// What tshark says about one frame: for each field, its occurrences from the outside in.
struct Reference(HashMap<&'static str, Vec<String>>);

impl Reference {
    fn first(&self, field: &str) -> Option<&str> {
        self.0[field].first().map(String::as_str)
    }

    /// The first occurrence, parsed.
    fn value<T: std::str::FromStr>(&self, field: &str) -> Option<T> {
        self.first(field).and_then(|text| text.parse().ok())
    }

    /// `Some` where tshark verified a checksum: 1 is good, 0 is bad, others are "not verified".
    fn checksum(&self, field: &str) -> Option<bool> {
        match self.first(field) {
            Some("1") => Some(true),
            Some("0") => Some(false),
            _ => None,
        }
    }

    /// The protocol stack from the outside in, as in `eth:ethertype:vlan:ethertype:ip:udp`.
    fn protocols(&self) -> impl Iterator<Item = &str> {
        self.0["frame.protocols"]
            .first()
            .map_or("", String::as_str)
            .split(':')
            .filter(|&name| name != "ethertype")
    }

    fn vlan_ids(&self) -> Vec<u16> {
        let (mut customer, mut service) =
            (self.0["vlan.id"].iter(), self.0["ieee8021ad.id"].iter());
        self.protocols()
            .skip(1)
            .map_while(|name| match name {
                "vlan" => customer.next(),
                "ieee8021ad" => service.next(),
                _ => None,
            })
            .map(|id| id.parse().expect("a VLAN identifier is a number"))
            .collect()
    }

    /// Whether tshark found a header malformed or against its protocol. What it infers from the
    /// order of packets, and its verdict on checksums, are other groups and do not count.
    fn complains(&self) -> bool {
        // PI_MALFORMED and PI_PROTOCOL of Wireshark's epan/proto.h.
        let groups = [0x0700_0000_u32, 0x0900_0000].map(|group| group.to_string());
        !self.0["_ws.malformed"].is_empty()
            || self.0["_ws.expert.group"]
                .iter()
                .any(|group| groups.contains(group))
    }
}

fn tshark(capture: &Path) -> Vec<Reference> {
    let mut command = Command::new("tshark");
    command
        .arg("-n")
        .arg("-r")
        .arg(capture)
        .args(["-T", "fields"]);
    command.args([
        "-E",
        "separator=/t",
        "-E",
        "occurrence=a",
        "-E",
        "aggregator=;",
    ]);
    PREFERENCES
        .iter()
        .for_each(|preference| _ = command.args(["-o", preference]));
    FIELDS
        .iter()
        .for_each(|field| _ = command.args(["-e", field]));
    let output = command.stderr(Stdio::null()).output().expect("tshark runs");
    assert!(
        output.status.success(),
        "tshark refuses {}: {}",
        capture.display(),
        output.status
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| {
            let columns = line.split('\t').map(|column| {
                column
                    .split(';')
                    .filter(|text| !text.is_empty())
                    .map(String::from)
                    .collect()
            });
            Reference(FIELDS.into_iter().zip(columns).collect())
        })
        .collect()
}

/// The frames of a classic or next-generation capture file.
fn frames(capture: &Path) -> Vec<Vec<u8>> {
    let file = File::open(capture).expect("the capture can be read");
    let mut reader = pcap_parser::create_reader(1 << 20, file).expect("a capture file");
    let mut frames = Vec::new();
    loop {
        match reader.next() {
            Ok((used, block)) => {
                match block {
                    PcapBlockOwned::Legacy(packet) => {
                        frames.push(packet.data[..packet.caplen as usize].to_vec());
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                        frames.push(packet.data[..packet.caplen as usize].to_vec());
                    }
                    _ => {}
                }
                reader.consume(used);
            }
            Err(PcapError::Eof) => return frames,
            Err(PcapError::Incomplete(_)) => reader.refill().expect("the capture can be read"),
            Err(error) => panic!("{}: {error:?}", capture.display()),
        }
    }
}

/// The first disagreement about one frame, in words.
fn compare(frame: &[u8], reference: &Reference) -> Result<(), String> {
    let found = match Dissected::parse(frame) {
        Ok(found) => found,
        Err(error) => return compare_error(error, reference),
    };
    let equal = |what: &str, ours: String, theirs: Option<&str>| match theirs {
        Some(theirs) if theirs == ours => Ok(()),
        theirs => Err(format!("{what}: {ours}, tshark: {theirs:?}")),
    };
    let ids = reference.vlan_ids();
    if found.vlan_ids() != ids {
        return Err(format!("vlan ids: {:?}, tshark: {ids:?}", found.vlan_ids()));
    }
    let network = reference.protocols().nth(1 + ids.len());
    let Some(ip) = &found.ip else {
        // tshark also says "ip" where it meets nothing but a wrong version.
        let theirs = matches!(network, Some("ip" | "ipv6")) && !reference.complains();
        return if theirs {
            Err("no ip, tshark: ip".into())
        } else {
            Ok(())
        };
    };
    let version = if ip.addresses.src().is_ipv4() {
        "ip"
    } else {
        "ipv6"
    };
    equal("network", version.into(), network)?;
    for (what, address) in [("src", ip.addresses.src()), ("dst", ip.addresses.dst())] {
        // Parsed, because the text of an IPv6 address is a matter of taste.
        let theirs = reference.value::<IpAddr>(&format!("{version}.{what}"));
        if theirs != Some(address) {
            return Err(format!("{what}: {address}, tshark: {theirs:?}"));
        }
    }
    if version == "ip" {
        equal(
            "protocol",
            ip.protocol.0.to_string(),
            reference.first("ip.proto"),
        )?;
        let valid = ipv4::View::parse(&frame[found.l3..])
            .unwrap()
            .checksum_is_valid();
        if reference
            .checksum("ip.checksum.status")
            .is_some_and(|theirs| theirs != valid)
        {
            return Err(format!("header checksum is valid: {valid}"));
        }
    }
    let field = if version == "ip" {
        "ip.frag_offset"
    } else {
        "ipv6.fraghdr.offset"
    };
    let is_later = reference
        .value::<u32>(field)
        .is_some_and(|offset| offset != 0);
    // A later fragment may be hidden behind an extension header that tshark cannot read.
    let is_hidden = ip.fragment == Fragment::Later && reference.complains();
    if is_later != (ip.fragment == Fragment::Later) && !is_hidden {
        return Err(format!("fragment: {:?}", ip.fragment));
    }
    compare_transport(frame, &found, reference)
}

fn compare_transport(frame: &[u8], found: &Dissected, reference: &Reference) -> Result<(), String> {
    let segment = &frame[found.l4..found.end];
    let addresses = found.addresses().expect("the caller found IP");
    let (name, fields, ours, valid) = match found.transport {
        Transport::Tcp {
            src_port, dst_port, ..
        } => {
            let valid = tcp::View::parse(segment)
                .unwrap()
                .checksum_is_valid(addresses);
            (
                "tcp",
                ["tcp.srcport", "tcp.dstport"],
                [src_port, dst_port],
                valid,
            )
        }
        Transport::Udp { src_port, dst_port } => {
            let valid = udp::View::parse(segment).is_ok_and(|v| v.checksum_is_valid(addresses));
            (
                "udp",
                ["udp.srcport", "udp.dstport"],
                [src_port, dst_port],
                valid,
            )
        }
        Transport::Icmpv4 { message_type, code } => {
            let ours = [message_type.0, code].map(u16::from);
            ("icmp", ["icmp.type", "icmp.code"], ours, true)
        }
        Transport::Icmpv6 { message_type, code } => {
            let ours = [message_type.0, code].map(u16::from);
            ("icmpv6", ["icmpv6.type", "icmpv6.code"], ours, true)
        }
        Transport::None | Transport::Other => {
            let mut upper = reference.protocols().skip(2 + found.vlan_count());
            let theirs = upper.find(|name| !name.starts_with("ipv6.") && *name != "ah");
            return match theirs {
                Some("tcp" | "udp" | "icmp" | "icmpv6") if !reference.complains() => {
                    Err(format!("{:?}, tshark: {theirs:?}", found.transport))
                }
                _ => Ok(()),
            };
        }
    };
    let theirs = fields.map(|field| reference.value(field));
    // Inside an extension header that it cannot read, tshark stops where this crate walks on.
    if theirs == [None, None] && reference.complains() {
        return Ok(());
    }
    if theirs != ours.map(Some) {
        return Err(format!("{name}: {ours:?}, tshark: {theirs:?}"));
    }
    // The pseudo-header of a source-routed packet has another destination.
    let is_routed = reference.protocols().any(|name| name == "ipv6.routing");
    let is_whole = found.ip.is_some_and(|ip| ip.fragment == Fragment::Whole);
    if matches!(name, "tcp" | "udp") && is_whole && !is_routed {
        let theirs = reference.checksum(&format!("{name}.checksum.status"));
        if theirs.is_some_and(|theirs| theirs != valid) {
            return Err(format!("{name} checksum is valid: {valid}"));
        }
    }
    Ok(())
}

fn compare_error(error: ParseError, reference: &Reference) -> Result<(), String> {
    let is_cut = reference.value::<u64>("frame.cap_len") < reference.value("frame.len");
    // Limits of this crate, and a rule of order that tshark does not check.
    let is_stricter = matches!(error.reason, Reason::TooManyHeaders | Reason::Misplaced);
    // A first fragment must hold the whole transport header; tshark waits for the rest.
    let is_first_fragment = ["ip.flags.mf", "ipv6.fraghdr.more"]
        .iter()
        .any(|field| matches!(reference.first(field), Some("1" | "True")));
    if is_cut || is_stricter || is_first_fragment || reference.complains() {
        return Ok(());
    }
    Err(format!("{error}, tshark: no complaint"))
}

/// How many frames were compared; panics with every disagreement.
fn compare_capture(capture: &Path) -> usize {
    let (frames, references) = (frames(capture), tshark(capture));
    assert_eq!(frames.len(), references.len(), "{}", capture.display());
    let mut wrong = Vec::new();
    for (index, (frame, reference)) in frames.iter().zip(&references).enumerate() {
        if reference.protocols().next() != Some("eth") {
            continue;
        }
        if let Err(message) = compare(frame, reference) {
            wrong.push(format!("frame {}: {message}\n  {frame:02x?}", index + 1));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}:\n{}",
        capture.display(),
        wrong.join("\n")
    );
    frames.len()
}

fn is_required() -> bool {
    std::env::var("CATENA_REQUIRE_TSHARK").is_ok_and(|value| value == "1")
}

/// Whether the test can run; otherwise it says why not.
fn is_installed() -> bool {
    let found = Command::new("tshark")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok();
    if !found {
        assert!(!is_required(), "tshark is required and not installed");
        println!("SKIP wire::tshark: tshark not installed");
    }
    found
}

#[test]
fn tshark_agrees_on_every_capture() {
    if !is_installed() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains/traces");
    let entries = fs::read_dir(&folder).into_iter().flatten();
    let captures: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|end| end == "pcap" || end == "pcapng")
        })
        .collect();
    if captures.is_empty() {
        assert!(!is_required(), "no captures in {}", folder.display());
        println!("SKIP wire::tshark: no captures in chains/traces");
    }
    for capture in captures {
        println!(
            "{}: {} frames",
            capture.display(),
            compare_capture(&capture)
        );
    }
}

#[test]
fn tshark_agrees_on_generated_frames() {
    if !is_installed() {
        return;
    }
    let mut random = Random(0x5eed_0f7a_b1e5);
    // Only what starts with an Ethernet header; the other seeds are single layers.
    let valid: Vec<_> = seeds()
        .into_iter()
        .filter(|seed| seed.starts_with(&[0xff; 6]))
        .collect();
    assert!(valid.len() >= 8);
    let mut frames = valid.clone();
    for _ in 0..2000 {
        let mut frame = valid[random.below(valid.len())].clone();
        // The addresses stay, so that tshark sees an ordinary frame.
        let mut rest = frame.split_off(12);
        random.mutate(&mut rest);
        frame.extend(rest);
        frames.push(frame);
    }
    let capture = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated.pcap");
    fs::write(&capture, capture_bytes(&frames)).expect("the target folder can be written");
    assert_eq!(compare_capture(&capture), frames.len());
}

/// A classic capture file of Ethernet frames (draft-ietf-opsawg-pcap), all at the time zero.
fn capture_bytes(frames: &[Vec<u8>]) -> Vec<u8> {
    let header: [u32; 6] = [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 0x4_0000, 1];
    let mut bytes: Vec<u8> = header.into_iter().flat_map(u32::to_le_bytes).collect();
    for frame in frames {
        let len = frame.len() as u32;
        bytes.extend([0, 0, len, len].into_iter().flat_map(u32::to_le_bytes));
        bytes.extend(frame);
    }
    bytes
}
