// SPDX-License-Identifier: Apache-2.0
//! Goal: GTP-U means here what it means to others. Method: the messages of `packets/tunnels.rs` are
//! also made by scapy, pycrate and go-gtp from values that are written down there again, and must
//! be the same bytes. Ours are read by all three, which build them again from the values that they
//! found; and by tshark, field by field. Faults of theirs are listed: one that is no longer there
//! fails the test too.

#[path = "oracle/asked.rs"]
mod asked;
#[path = "packets/sessions.rs"]
#[allow(dead_code, reason = "messages of PFCP")]
mod sessions;
#[path = "packets/tunnels.rs"]
mod tunnels;

use asked::{Fault, ask_go, ask_python, bytes, complaints, has_tshark, hex, tshark};
use catena_wire::gtpu::element::Elements;
use catena_wire::gtpu::extension::Value;
use catena_wire::gtpu::{self, Extension, Header};
use sessions::Sample;

/// What is known of the others.
const FAULTS: [Fault; 3] = [
    ("made by scapy", "extension_headers", SHORT_LENGTH),
    ("read by scapy", "extension_headers", SHORT_LENGTH),
    (
        "read by scapy",
        "error_indication_of_port",
        "of extension headers it reads the PDU session container alone, in GTP-U (5.2.2.1)",
    ),
];
const SHORT_LENGTH: &str = "the length of a list of types has two octets there, not one (8.5)";

/// What we read of a message, written again.
fn by_us(message: &[u8]) -> Vec<u8> {
    let read = Header::parse(message).expect("it is a message");
    let mut contents = Vec::new();
    for extension in read.extensions {
        let content = match extension.value().expect("it is whole") {
            Value::PduSession(container) => {
                let mut content = vec![0; container.content_len()];
                container.emit(&mut content);
                content
            }
            Value::UdpPort(port) => port.to_be_bytes().to_vec(),
            _ => panic!("not one of ours: {extension}"),
        };
        contents.push((extension.extension_type, content));
    }
    let extensions: Vec<_> = contents
        .iter()
        .map(|(extension_type, content)| Extension {
            extension_type: *extension_type,
            content,
        })
        .collect();
    let mut chain = [0; 64];
    let header = Header {
        extensions: gtpu::Extensions::write(&mut chain, &extensions).expect("it fits"),
        ..read
    };
    let mut found = vec![0; header.header_len()];
    header.emit(&mut found);
    let payload = &message[message.len() - read.payload_len..];
    if read.message_type == gtpu::MessageType::G_PDU {
        found.extend(payload);
        return found;
    }
    for element in Elements::new(payload) {
        let element = element.expect("it is whole");
        let start = found.len();
        found.resize(start + element.len(), 0);
        element.emit(&mut found[start..]);
    }
    found
}

fn compare(samples: &[Sample], answers: &[String], who: &str) {
    let messages = samples
        .iter()
        .map(|sample| (sample.name, &sample.bytes[..]));
    asked::compare(who, &FAULTS, messages, answers);
    for (Sample { name, .. }, theirs) in samples.iter().zip(answers) {
        if !asked::is_faulty(&FAULTS, who, name) {
            assert_eq!(&hex(&by_us(&bytes(theirs))), theirs, "{who} {name}");
        }
    }
}

/// `who` makes our messages when asked by the verb `build`, and reads them when asked by `again`.
fn both_directions(
    who: &str,
    [build, again]: [&str; 2],
    ask: impl FnOnce(&[String]) -> Option<Vec<String>>,
) {
    let samples = tunnels::all();
    let made = samples
        .iter()
        .map(|sample| format!("{build} {}", sample.name));
    let read = samples
        .iter()
        .map(|sample| format!("{again} {}", hex(&sample.bytes)));
    let questions: Vec<_> = made.chain(read).collect();
    let Some(answers) = ask(&questions) else {
        return;
    };
    let (made, read) = answers.split_at(samples.len());
    compare(&samples, made, &format!("made by {who}"));
    let (read, _) = asked::split(read);
    compare(&samples, &read, &format!("read by {who}"));
}

#[test]
fn scapy_makes_the_same_gtp_u_and_reads_ours() {
    let test = "scapy_makes_the_same_gtp_u_and_reads_ours";
    let verbs = ["gtp-scapy-build", "gtp-scapy"];
    both_directions("scapy", verbs, |questions| ask_python(test, questions));
}

#[test]
fn pycrate_makes_the_same_gtp_u_and_reads_ours() {
    let test = "pycrate_makes_the_same_gtp_u_and_reads_ours";
    let verbs = ["gtp-pycrate-build", "gtp-pycrate"];
    both_directions("pycrate", verbs, |questions| ask_python(test, questions));
}

#[test]
fn go_gtp_makes_the_same_gtp_u_and_reads_ours() {
    let test = "go_gtp_makes_the_same_gtp_u_and_reads_ours";
    let verbs = ["build", "go-gtp"];
    both_directions("go-gtp", verbs, |questions| {
        ask_go("go-gtp", test, questions)
    });
}

/// What tshark finds, in this order.
const FIELDS: [&str; 16] = [
    "gtp.message",
    "gtp.teid",
    "gtp.seq_number",
    "gtp.ext_hdr.pdu_ses_con.pdu_type",
    "gtp.ext_hdr.pdu_ses_con.qos_flow_id",
    "gtp.ext_hdr.pdu_ses_cont.ppi",
    "gtp.ext_hdr.pdu_ses_cont.rqi",
    "gtp.recovery",
    "gtp.teid_data",
    "gtp.gsn_ipv4",
    "gtp.gsn_ipv6",
    "gtp.ext_hdr.udp_port",
    "gtp.ext_hdr_type",
    "ip.src",
    "_ws.malformed",
    "_ws.expert.severity",
];

const FOUND: [&str; 9] = [
    "uplink: 0xff 0x01020304  1 9         192.0.2.1,10.0.0.1 ",
    "downlink: 0xff 0x01020304  0 63 7 0       192.0.2.1,10.0.0.1 ",
    "bare: 0xff 0x01020304            192.0.2.1,10.0.0.1 ",
    "echo: 0x01 0x00000000 0x0005           192.0.2.1 ",
    "echo_response: 0x02 0x00000000 0x0005     0      192.0.2.1 ",
    "error_indication: 0x1a 0x00000000 0x0000      0x00000007 192.0.2.3    192.0.2.1 ",
    "error_indication_of_port: \
     0x1a 0x00000000 0x0000      0x01020304  2001:db8::3 49153  192.0.2.1 ",
    "end_marker: 0xfe 0x01020304            192.0.2.1 ",
    "extension_headers: 0x1f 0x00000000 0x0009          133,64 192.0.2.1 ",
];

#[test]
fn tshark_reads_our_gtp_u() {
    if !has_tshark("tshark_reads_our_gtp_u") {
        return;
    }
    let samples = tunnels::all();
    let payloads: Vec<_> = samples.iter().map(|sample| sample.bytes.clone()).collect();
    let rows = tshark("gtpu.pcap", gtpu::PORT, &payloads, &FIELDS);
    let found: Vec<_> = samples
        .iter()
        .zip(rows)
        .map(|(sample, mut row)| {
            let severity = row.pop().expect("it is there");
            assert_eq!(complaints(&severity), 0, "{}: {severity}", sample.name);
            format!("{}: {}", sample.name, row.join(" "))
        })
        .collect();
    assert_eq!(found, FOUND);
}
