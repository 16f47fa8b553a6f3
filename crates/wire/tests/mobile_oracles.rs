// SPDX-License-Identifier: Apache-2.0
//! Goal: PFCP and GTP-U mean here what they mean to others. Method: the messages of
//! `packets/sessions.rs` are also made by scapy and by go-pfcp from values that are written down
//! there again, and must be the same bytes. Ours are read by scapy, pycrate and go-pfcp, which
//! build them again from the fields that they found; and by tshark, field by field.
//!
//! `tests/setup/mobile.sh` makes the Python, `tests/setup/go.sh` the Go program; what is missing is
//! said.

#[path = "packets/sessions.rs"]
mod sessions;

use catena_wire::gtpu::element::Elements;
use catena_wire::gtpu::pdu_session::{Downlink, PduSession, Uplink};
use catena_wire::{gtpu, pfcp};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const PYTHON: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../target/oracles/mobile/bin/python"
);
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/mobile.py");
const GO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/oracles/go-pfcp");

fn messages() -> [(&'static str, Vec<u8>); 6] {
    [
        ("association_setup", sessions::association_setup()),
        ("establishment", sessions::establishment()),
        ("report", sessions::report()),
        ("modification", sessions::modification()),
        ("deletion", sessions::deletion()),
        ("pfds", sessions::pfds()),
    ]
}

/// Those of release 17, which scapy and pycrate do not know.
fn of_release_17() -> [(&'static str, Vec<u8>); 2] {
    [
        ("path_control", sessions::path_control()),
        ("path_report", sessions::path_report()),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "no hex: {hex}");
    let digits = (0..hex.len()).step_by(2).map(|at| &hex[at..at + 2]);
    digits
        .map(|pair| u8::from_str_radix(pair, 16).unwrap_or_else(|_| panic!("no hex: {hex}")))
        .collect()
}

/// An answer for each question.
fn ask(command: &mut Command, questions: &[String]) -> Vec<String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it is there");
    let mut stdin = child.stdin.take().expect("it is piped");
    let text = questions.join("\n") + "\n";
    // Written beside reading, or both sides could wait for a full pipe.
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("it ends").expect("all is read");
    assert!(output.status.success(), "{command:?} failed");
    let text = String::from_utf8(output.stdout).expect("text");
    let answers: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(answers.len(), questions.len(), "{command:?}");
    answers
}

/// Answers of scapy and pycrate, or `None` with a word about what is missing.
fn ask_python(test: &str, questions: &[String]) -> Option<Vec<String>> {
    if !Path::new(PYTHON).exists() {
        println!("SKIP {test}: no scapy and pycrate; run tests/setup/mobile.sh");
        return None;
    }
    Some(ask(Command::new(PYTHON).arg(SCRIPT), questions))
}

fn ask_go(test: &str, questions: &[String]) -> Option<Vec<String>> {
    if !Path::new(GO).exists() {
        println!("SKIP {test}: no go-pfcp; run tests/setup/go.sh");
        return None;
    }
    Some(ask(&mut Command::new(GO), questions))
}

/// What both codecs are asked: theirs must be ours, and ours must stay what it is.
fn compare(answers: &[String], who: &str) {
    compare_all(&messages(), answers, who);
}

fn compare_all(messages: &[(&str, Vec<u8>)], answers: &[String], who: &str) {
    assert_eq!(messages.len(), answers.len(), "{who}");
    for ((name, ours), theirs) in messages.iter().zip(answers) {
        let found = bytes(theirs);
        let view = pfcp::View::parse(&found[..]).expect("it has a header");
        assert_eq!(view.check(), Ok(()), "{who} {name}: {view}");
        let expected = pfcp::View::parse(&ours[..])
            .expect("it has a header")
            .to_string();
        assert_eq!(view.to_string(), expected, "{who} {name}");
        assert_eq!(theirs, &hex(ours), "{who} {name}");
    }
}

#[test]
fn scapy_makes_the_same_messages_and_reads_ours() {
    let build = messages().map(|(name, _)| format!("build {name}"));
    let again = messages().map(|(_, ours)| format!("scapy {}", hex(&ours)));
    let test = "scapy_makes_the_same_messages_and_reads_ours";
    let Some(answers) = ask_python(test, &[build, again].concat()) else {
        return;
    };
    let (made, read) = answers.split_at(messages().len());
    compare(made, "made by scapy");
    compare(read, "read by scapy");
}

#[test]
fn pycrate_reads_our_messages() {
    let again = messages().map(|(_, ours)| format!("pycrate {}", hex(&ours)));
    if let Some(answers) = ask_python("pycrate_reads_our_messages", &again) {
        compare(&answers, "read by pycrate");
    }
}

/// Groups of which pycrate (of release 16) wants something else, and why.
const OTHER_MEMBERS: [(pfcp::IeType, &str); 3] = [
    (
        pfcp::IeType::DUPLICATING_PARAMETERS,
        "mandatory on Sxa only",
    ),
    (pfcp::IeType::AGGREGATED_URRS, "mandatory on Sxb only"),
    (
        pfcp::IeType::USAGE_REPORT_REPORT,
        "it has the list of another group there",
    ),
];

#[test]
fn pycrate_wants_the_same_mandatory_ies() {
    let groups = pfcp::IeType::ALL.iter().copied();
    let groups: Vec<_> = groups.filter(|ie_type| ie_type.is_grouped()).collect();
    let questions: Vec<_> = groups
        .iter()
        .map(|group| format!("mandatory {}", group.0))
        .collect();
    let test = "pycrate_wants_the_same_mandatory_ies";
    let Some(answers) = ask_python(test, &questions) else {
        return;
    };
    let mut compared = 0;
    for (group, answer) in groups.iter().zip(answers) {
        let is_other = OTHER_MEMBERS.iter().any(|(other, _)| other == group);
        if answer == "unknown" || is_other {
            continue;
        }
        let members = pfcp::grammar::Members::of_group(*group).expect("it is a group");
        let mut ours: Vec<u16> = members.mandatory.iter().map(|ie_type| ie_type.0).collect();
        ours.sort_unstable();
        let ours: Vec<_> = ours.iter().map(u16::to_string).collect();
        assert_eq!(ours.join(" "), answer, "{group}, table {}", members.table);
        compared += 1;
    }
    assert!(compared > 80, "only {compared} groups were compared");
}

#[test]
fn go_pfcp_makes_the_same_messages_and_reads_ours() {
    let all: Vec<_> = messages().into_iter().chain(of_release_17()).collect();
    let build = all.iter().map(|(name, _)| format!("build {name}"));
    let again = all.iter().map(|(_, ours)| format!("again {}", hex(ours)));
    let questions: Vec<_> = build.chain(again).collect();
    let test = "go_pfcp_makes_the_same_messages_and_reads_ours";
    let Some(answers) = ask_go(test, &questions) else {
        return;
    };
    let (made, read) = answers.split_at(all.len());
    compare_all(&all, made, "made by go-pfcp");
    compare_all(&all, read, "read by go-pfcp");
}

#[test]
fn scapy_makes_gtp_u_that_we_read() {
    let names = ["uplink", "downlink", "echo", "error_indication"];
    let questions = names.map(|name| format!("gtp-build {name}"));
    let Some(answers) = ask_python("scapy_makes_gtp_u_that_we_read", &questions) else {
        return;
    };
    let found: Vec<Vec<u8>> = answers.iter().map(|answer| bytes(answer)).collect();
    let views: Vec<_> = found
        .iter()
        .map(|bytes| gtpu::View::parse(&bytes[..]).expect("a message"))
        .collect();
    let uplink = PduSession::Uplink(Uplink {
        qfi: 9,
        ..Uplink::default()
    });
    assert_eq!(views[0].extensions().pdu_session(), Ok(Some(uplink)));
    assert_eq!((views[0].teid(), views[0].payload().len()), (7, 20));
    let downlink = PduSession::Downlink(Downlink {
        qfi: 5,
        rqi: true,
        ppi: Some(3),
        sending_time: Some(1 << 40),
        sequence: Some(6),
        mbs_sequence: None,
    });
    assert_eq!(views[1].extensions().pdu_session(), Ok(Some(downlink)));
    assert_eq!(
        views[1].payload()[0],
        0x45,
        "the packet follows the padding"
    );
    assert_eq!(
        (views[2].message_type(), views[2].sequence()),
        (gtpu::MessageType::ECHO_RESPONSE, Some(5))
    );
    let mut elements = Elements::new(views[2].payload());
    assert_eq!(
        elements.next(),
        Some(Ok(gtpu::element::Element::Recovery(0)))
    );
    let peer = "192.0.2.3".parse().expect("an address");
    assert_eq!(
        Elements::new(views[3].payload()).error_indication(),
        Ok((7, peer))
    );
}

/// G-PDUs of our own with the fields that scapy (of release 15) and pycrate (of release 16) know.
fn g_pdus() -> Vec<(PduSession, Vec<u8>)> {
    let frames = [
        PduSession::Uplink(Uplink {
            qfi: 9,
            dl_delay: Some(4),
            ul_delay: Some(5),
            n3_n9_delay: Some(6),
            ..Uplink::default()
        }),
        PduSession::Downlink(Downlink {
            qfi: 63,
            rqi: true,
            ppi: Some(7),
            sequence: Some(0x01_0203),
            ..Downlink::default()
        }),
    ];
    let packet = [
        &[0x45, 0, 0, 20][..],
        &[0; 4],
        &[64, 17, 0, 0],
        &[10, 0, 0, 1],
        &[10, 0, 0, 2],
    ]
    .concat();
    let make = |frame: PduSession| {
        let mut content = vec![0; frame.content_len()];
        frame.emit(&mut content);
        let extension = gtpu::Extension {
            extension_type: gtpu::ExtensionType::PDU_SESSION_CONTAINER,
            content: &content,
        };
        let mut chain = [0; 64];
        let header = gtpu::Header {
            message_type: gtpu::MessageType::G_PDU,
            teid: 0x0102_0304,
            sequence: None,
            n_pdu: None,
            extensions: gtpu::Extensions::write(&mut chain, &[extension]).expect("it fits"),
            payload_len: packet.len(),
        };
        let mut bytes = vec![0; header.header_len()];
        header.emit(&mut bytes);
        bytes.extend(&packet);
        (frame, bytes)
    };
    frames.map(make).to_vec()
}

#[test]
fn scapy_and_pycrate_read_our_gtp_u() {
    let ours = g_pdus();
    let by_scapy = ours
        .iter()
        .map(|(_, bytes)| format!("gtp-scapy {}", hex(bytes)));
    let by_pycrate = ours
        .iter()
        .map(|(_, bytes)| format!("gtp-pycrate {}", hex(bytes)));
    let questions: Vec<String> = by_scapy.chain(by_pycrate).collect();
    let Some(answers) = ask_python("scapy_and_pycrate_read_our_gtp_u", &questions) else {
        return;
    };
    for (index, (frame, bytes)) in ours.iter().enumerate() {
        let kind = u8::from(matches!(frame, PduSession::Uplink(_)));
        let expected = format!("{} {kind} {} 20", 0x0102_0304, frame.qfi());
        assert_eq!(answers[index], expected, "scapy {frame}");
        assert_eq!(answers[ours.len() + index], hex(bytes), "pycrate {frame}");
    }
}

/// A capture (draft-ietf-opsawg-pcap) of datagrams from and to `port`, over IPv4, without a link
/// layer.
fn capture(port: u16, payloads: &[Vec<u8>]) -> Vec<u8> {
    const RAW_IP: u32 = 101;
    let header: [u32; 6] = [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 0x4_0000, RAW_IP];
    let mut bytes: Vec<u8> = header.into_iter().flat_map(u32::to_le_bytes).collect();
    for payload in payloads {
        let mut packet = vec![0x45, 0];
        packet.extend((28 + payload.len() as u16).to_be_bytes());
        packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        packet.extend(
            [port, port, 8 + payload.len() as u16, 0]
                .map(u16::to_be_bytes)
                .concat(),
        );
        packet.extend(payload);
        let len = packet.len() as u32;
        bytes.extend([0, 0, len, len].into_iter().flat_map(u32::to_le_bytes));
        bytes.extend(packet);
    }
    bytes
}

/// For each packet what tshark finds in `fields`; occurrences are joined by commas.
fn tshark(name: &str, port: u16, payloads: &[Vec<u8>], fields: &[&str]) -> Vec<Vec<String>> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, capture(port, payloads)).expect("the target folder can be written");
    let mut command = Command::new("tshark");
    command
        .args(["-n", "-r"])
        .arg(&file)
        .args(["-T", "fields", "-E", "separator=/t"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.stderr(Stdio::null()).output().expect("tshark runs");
    assert!(output.status.success(), "tshark refuses {}", file.display());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows = text
        .lines()
        .map(|line| line.split('\t').map(str::to_owned).collect());
    rows.collect()
}

fn has_tshark(test: &str) -> bool {
    let mut command = Command::new("tshark");
    command
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let is_there = command.status().is_ok();
    if !is_there {
        println!("SKIP {test}: tshark not installed");
    }
    is_there
}

/// Severities of tshark's notes from which on something is wrong: warn and error.
fn complaints(severities: &str) -> usize {
    let number = |text: &str| text.parse::<u32>().unwrap_or(0);
    severities
        .split(',')
        .filter(|text| number(text) >= 0x60_0000)
        .count()
}

#[test]
fn tshark_reads_our_pfcp() {
    if !has_tshark("tshark_reads_our_pfcp") {
        return;
    }
    let fields = [
        "pfcp.msg_type",
        "pfcp.seqno",
        "pfcp.seid",
        "_ws.malformed",
        "_ws.expert.severity",
        "pfcp.f_teid.teid",
        "pfcp.ue_ip_addr_ipv4",
        "pfcp.flow_desc",
        "pfcp.spi",
        "pfcp.flow_label",
        "pfcp.sdf_filter_id",
        "pfcp.qfi_value",
        "pfcp.out_hdr_desc",
        "pfcp.outer_hdr_creation.teid",
        "pfcp.volume_threshold.tovol",
        "pfcp.dl_mbr",
        "pfcp.gate_status.dlgate",
        "pfcp.volume_measurement.dlvol",
        "pfcp.ur_seqn",
    ];
    let payloads = messages().map(|(_, bytes)| bytes);
    let rows = tshark("pfcp.pcap", pfcp::PORT, &payloads, &fields);
    let of = |row: usize, field: &str| {
        let column = fields
            .iter()
            .position(|name| *name == field)
            .expect("it is asked for");
        rows[row][column].as_str()
    };
    for (row, kind) in ["6", "50", "56", "52", "55", "3"].into_iter().enumerate() {
        assert_eq!(of(row, "pfcp.msg_type"), kind);
        assert_eq!(of(row, "pfcp.seqno"), "66051");
        assert_eq!(of(row, "_ws.malformed"), "", "{kind}");
        assert_eq!(complaints(of(row, "_ws.expert.severity")), 0, "{kind}");
    }
    let table = [
        (1, "pfcp.f_teid.teid", "0x01020304"),
        (1, "pfcp.ue_ip_addr_ipv4", "10.0.0.1"),
        (1, "pfcp.flow_desc", "permit out ip from any to assigned"),
        (1, "pfcp.sdf_filter_id", "3"),
        (1, "pfcp.out_hdr_desc", "6"),
        (1, "pfcp.outer_hdr_creation.teid", "0x00000007"),
        (1, "pfcp.volume_threshold.tovol", "1099511627776"),
        (1, "pfcp.dl_mbr", "5000000000"),
        (1, "pfcp.gate_status.dlgate", "1"),
        (2, "pfcp.volume_measurement.dlvol", "2199023255552"),
        (2, "pfcp.ur_seqn", "3"),
        (3, "pfcp.outer_hdr_creation.teid", "0x00000008"),
        (4, "pfcp.volume_measurement.dlvol", "2"),
        (4, "pfcp.ur_seqn", "4"),
    ];
    for (row, field, expected) in table {
        assert_eq!(of(row, field), expected, "{field}");
    }
}

#[test]
fn tshark_reads_our_gtp_u() {
    if !has_tshark("tshark_reads_our_gtp_u") {
        return;
    }
    let fields = [
        "gtp.message",
        "gtp.teid",
        "gtp.ext_hdr.pdu_ses_con.pdu_type",
        "gtp.ext_hdr.pdu_ses_con.qos_flow_id",
        "gtp.ext_hdr.pdu_ses_cont.ppi",
        "_ws.malformed",
        "ip.src",
    ];
    let payloads: Vec<_> = g_pdus().into_iter().map(|(_, bytes)| bytes).collect();
    let rows = tshark("gtpu.pcap", gtpu::PORT, &payloads, &fields);
    let row = |kind: &str, qfi: &str, ppi: &str| {
        [
            "0xff",
            "0x01020304",
            kind,
            qfi,
            ppi,
            "",
            "192.0.2.1,10.0.0.1",
        ]
        .map(str::to_owned)
        .to_vec()
    };
    assert_eq!(rows, [row("1", "9", ""), row("0", "63", "7")]);
}
