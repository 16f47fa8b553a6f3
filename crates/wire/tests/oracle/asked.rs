// SPDX-License-Identifier: Apache-2.0
//! Other programs that know PFCP and GTP-U, and how they are asked.
//!
//! `tests/setup/mobile.sh` makes the Python, `tests/setup/go.sh` the Go programs; what is missing
//! is said.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const PYTHON: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../target/oracles/mobile/bin/python"
);
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/mobile.py");
const ORACLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/oracles");

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "no hex: {hex}");
    let digits = (0..hex.len()).step_by(2).map(|at| &hex[at..at + 2]);
    digits
        .map(|pair| u8::from_str_radix(pair, 16).unwrap_or_else(|_| panic!("no hex: {hex}")))
        .collect()
}

/// Who makes something else of a message than the specification has, of which message, and why.
pub(crate) type Fault = (&'static str, &'static str, &'static str);

pub(crate) fn is_faulty(faults: &[Fault], who: &str, name: &str) -> bool {
    faults
        .iter()
        .any(|(codec, message, _)| (*codec, *message) == (who, name))
}

/// What others made of messages, by their names, must be the message; and something else where a
/// fault is known.
pub(crate) fn compare<'a>(
    who: &str,
    faults: &[Fault],
    messages: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    answers: &[String],
) {
    let messages: Vec<_> = messages.into_iter().collect();
    assert_eq!(messages.len(), answers.len(), "{who}");
    let mut wrong = Vec::new();
    for ((name, bytes), theirs) in messages.into_iter().zip(answers) {
        let ours = hex(bytes);
        if (*theirs == ours) == is_faulty(faults, who, name) {
            wrong.push(format!("{name}\n ours   {ours}\n theirs {theirs}"));
        }
    }
    assert!(wrong.is_empty(), "{who}:\n{}", wrong.join("\n"));
}

/// Of each answer the message that was read and written again, and the numbers of IEs that were
/// kept as octets.
pub(crate) fn split(answers: &[String]) -> (Vec<String>, Vec<u16>) {
    let mut kept = Vec::new();
    let mut found = Vec::new();
    for answer in answers {
        match answer.split_once(' ') {
            Some((bytes, numbers)) if !answer.starts_with("error") => {
                found.push(bytes.to_owned());
                kept.extend(numbers.split(' ').filter_map(|one| one.parse::<u16>().ok()));
            }
            // Which is no message.
            _ => found.push(answer.clone()),
        }
    }
    kept.sort_unstable();
    kept.dedup();
    (found, kept)
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
pub(crate) fn ask_python(test: &str, questions: &[String]) -> Option<Vec<String>> {
    if !Path::new(PYTHON).exists() {
        println!("SKIP {test}: no scapy and pycrate; run tests/setup/mobile.sh");
        return None;
    }
    Some(ask(Command::new(PYTHON).arg(SCRIPT), questions))
}

#[allow(dead_code, reason = "not every test asks it")]
/// Answers of `program`, a codec of Go, or `None` with a word about what is missing.
pub(crate) fn ask_go(program: &str, test: &str, questions: &[String]) -> Option<Vec<String>> {
    let path = Path::new(ORACLES).join(program);
    if !path.exists() {
        println!("SKIP {test}: no {program}; run tests/setup/go.sh");
        return None;
    }
    Some(ask(&mut Command::new(path), questions))
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
pub(crate) fn tshark(
    name: &str,
    port: u16,
    payloads: &[Vec<u8>],
    fields: &[&str],
) -> Vec<Vec<String>> {
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

pub(crate) fn has_tshark(test: &str) -> bool {
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

#[allow(dead_code, reason = "not every test wants them")]
/// Severities of tshark's notes from which on something is wrong: warn and error.
pub(crate) fn complaints(severities: &str) -> usize {
    let number = |text: &str| text.parse::<u32>().unwrap_or(0);
    severities
        .split(',')
        .filter(|text| number(text) >= 0x60_0000)
        .count()
}
