// SPDX-License-Identifier: Apache-2.0
//! Goal: programs that share nothing with this crate agree with it. Reed-Solomon is judged by PyPI
//! reedsolo and galois and by libfec; 64B/66B and scrambler by a Verilog model run by iverilog;
//! preamble and CRC-8 by tshark. A program that is absent is said so, and the test passes.

mod line;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use catena_pcs::block::{self, Block};
use catena_pcs::fast::stages::{Encoder, Scrambler};
use catena_pcs::rs::{Code, Codec};
use catena_pcs::stage::Stage;
use catena_pcs::xgmii::{Kind, Vector};
use catena_pcs::{Simd, llid};
use line::Random;

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models")
}

/// A folder of this test's own, empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs a program; its output, or why there is none.
fn output(command: &mut Command, input: &[u8]) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|error| format!("{name}: {error}"))?;
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().last().unwrap_or_default();
        return Err(format!("{name}: {}: {last}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Data, codeword as sent, codeword with up to 16 wrong symbols.
fn codewords(count: usize) -> Vec<(Vec<u8>, Vec<u8>, Vec<u8>)> {
    let mut random = Random(11);
    let codec = Codec::new(Code::FULL, Simd::best());
    let one = |index: usize| {
        let data = random.bytes(223);
        let mut sent = data.clone();
        sent.extend(codec.parity(&data));
        let mut spoiled = sent.clone();
        for _ in 0..index % 17 {
            spoiled[random.below(255)] ^= 1 + random.below(255) as u8;
        }
        let mut corrected = spoiled.clone();
        codec.decode(&mut corrected);
        assert_eq!(corrected, sent);
        (data, sent, spoiled)
    };
    (0..count).map(one).collect()
}

#[test]
fn reedsolo_and_galois_agree() {
    let python = std::env::var_os("CATENA_PYTHON").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python"),
        PathBuf::from,
    );
    let mut present = Command::new(&python);
    present.args(["-c", "import reedsolo, galois"]);
    if let Err(reason) = output(&mut present, &[]) {
        println!(
            "SKIP reedsolo_and_galois_agree: {reason}; tests/setup/python.sh makes an environment \
             with reedsolo and galois"
        );
        return;
    }
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("{b:02x}")).collect() };
    let words = codewords(51);
    let input: String = words
        .iter()
        .map(|(data, sent, spoiled)| format!("{} {} {}\n", hex(data), hex(sent), hex(spoiled)))
        .collect();
    let mut judge = Command::new(&python);
    judge.arg(models().join("reed_solomon.py"));
    assert_eq!(output(&mut judge, input.as_bytes()).unwrap(), "judged 51\n");
}

#[test]
fn libfec_agrees() {
    let folder = folder("libfec");
    let program = folder.join("judge");
    let mut compiler = Command::new("cc");
    compiler.arg("-o").arg(&program);
    compiler.arg(models().join("libfec.c")).arg("-lfec");
    if let Err(reason) = output(&mut compiler, &[]) {
        println!("SKIP libfec_agrees: {reason}; install libfec-dev and gcc");
        return;
    }
    let mut input = Vec::new();
    for (_, sent, spoiled) in codewords(340) {
        input.extend(sent);
        input.extend(spoiled);
    }
    let judged = output(&mut Command::new(program), &input).unwrap();
    assert_eq!(judged, "judged 340\n");
}

/// Vectors in an order that the state diagram allows: gaps, ordered sets, frames that start in lane
/// 0 or 4 and end in any lane.
fn legal_vectors(random: &mut Random, frames: usize) -> Vec<Vector> {
    let mut vectors = Vec::new();
    let ordered = |random: &mut Random| {
        // Codes 0 and F of ordered sets, data beside them.
        let halves = [0x4b, 0x2d, 0x55][random.below(3)];
        let both = random.next() & 0xffff_ff00_ffff_ff00;
        let codes = [0x00, 0x0f, 0xf0, 0xff][random.below(4)] << 32;
        let plain = match halves {
            0x4b => both & 0xffff_ff00 | codes & (0xf << 32),
            0x2d => both & (0xff_ffff << 40) | codes & (0xf << 36),
            _ => both | codes,
        };
        block::decode(Block::control(plain | halves)).0
    };
    for _ in 0..frames {
        for _ in 0..random.below(4) {
            vectors.push(Vector::IDLE);
            vectors.push(ordered(random));
        }
        let start = match random.below(3) {
            0 => random.next() & !0xff | 0x78,
            1 => random.next() & (0xff_ffff << 40) | 0x33,
            _ => random.next() & 0xffff_ff00_ffff_ff00 | 0x66,
        };
        vectors.push(block::decode(Block::control(start)).0);
        for _ in 0..random.below(20) {
            let data = random.next();
            vectors.push(Vector { data, ctrl: 0 });
        }
        let lane = random.below(8);
        let octets = (random.next() << 8) & ((1_u64 << (8 * lane)) - 1) << 8;
        let end = u64::from(block::TYPE_TERMINATE[lane]) | octets;
        vectors.push(block::decode(Block::control(end)).0);
    }
    vectors
}

#[test]
fn a_verilog_transmitter_agrees() {
    let folder = folder("base_r");
    let program = folder.join("base_r.vvp");
    let mut compiler = Command::new("iverilog");
    compiler
        .arg("-o")
        .arg(&program)
        .arg(models().join("base_r.v"));
    if let Err(reason) = output(&mut compiler, &[]) {
        println!("SKIP a_verilog_transmitter_agrees: {reason}; install iverilog");
        return;
    }
    let vectors = legal_vectors(&mut Random(5), 400);
    for kind in [Kind::Control, Kind::Start, Kind::Data, Kind::Terminate] {
        let is_kind = |vector: &&Vector| block::encode(**vector).1 == kind;
        assert!(vectors.iter().filter(is_kind).count() > 300, "{kind:?}");
    }
    let text: String = vectors
        .iter()
        .map(|vector| format!("{:02x}{:016x}\n", vector.ctrl, vector.data))
        .collect();
    std::fs::write(folder.join("vectors.hex"), text).unwrap();
    let mut simulator = Command::new("vvp");
    simulator.current_dir(&folder).arg("-n").arg(&program);
    simulator.arg(format!("+count={}", vectors.len()));
    let found = output(&mut simulator, &[]).unwrap();
    let found: Vec<&str> = found
        .lines()
        .filter(|line| line.len() == 18 && !line.contains(':'))
        .collect();
    let mut blocks = vec![Block::default(); vectors.len()];
    let mut scrambled = blocks.clone();
    Encoder::default().process(&vectors, &mut blocks);
    Scrambler::default().process(&blocks, &mut scrambled);
    let expected: Vec<String> = scrambled
        .iter()
        .map(|block| format!("{:x} {:016x}", block.header, block.payload))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn tshark_reads_the_same_preambles() {
    let file = folder("tshark").join("epon.pcap");
    // Link type 259: the preamble without its first octet, then the frame.
    let mut capture = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 259] {
        capture.extend(word.to_le_bytes());
    }
    let llids = [0, 1, 5, 0x1234, 0x7ffe, 0x7fff, 0x8005, 0xfffe, 0xffff];
    for (index, llid) in llids.into_iter().enumerate() {
        let mut packet = llid::preamble(llid)[1..].to_vec();
        packet.extend([0x11; 60]);
        // The last one is spoiled.
        packet[6] ^= u8::from(index == llids.len() - 1);
        for word in [0, 0, packet.len() as u32, packet.len() as u32] {
            capture.extend(word.to_le_bytes());
        }
        capture.extend(packet);
    }
    std::fs::write(&file, capture).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&file).args(["-T", "fields"]);
    tshark.args([
        "-e",
        "epon.mode",
        "-e",
        "epon.llid",
        "-e",
        "epon.checksum.status",
    ]);
    let found = match output(&mut tshark, &[]) {
        Ok(found) => found,
        Err(reason) => {
            println!("SKIP tshark_reads_the_same_preambles: {reason}; install tshark");
            return;
        }
    };
    let expected: String = llids
        .iter()
        .enumerate()
        .map(|(index, llid)| {
            let is_good = u8::from(index != llids.len() - 1);
            format!("{}\t{}\t{is_good}\n", llid >> 15, llid & 0x7fff)
        })
        .collect();
    assert_eq!(found, expected);
}
