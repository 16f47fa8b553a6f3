// SPDX-License-Identifier: Apache-2.0
//! `catena-pcs`: whatever stands on a line, both receivers end, count the same and give the same
//! frames; every codeword that is given to the decoder comes back or is refused.

use catena_pcs::llid::Accept;
use catena_pcs::params::Params;
use catena_pcs::rs::{Code, Codec, Correction};
use catena_pcs::stage::{Direction, Receive, Received, Transmit};
use catena_pcs::{Simd, fast, line_file, reference};

const DIRECTIONS: [Direction; 2] = [Direction::Downstream, Direction::Upstream];

fn frames(receiver: &mut dyn Receive, line: &[u8], chunk: usize) -> Vec<(Vec<u8>, u16, u64)> {
    let mut frames = Vec::new();
    let mut keep = |frame: &Received<'_>| {
        frames.push((frame.bytes.to_vec(), frame.llid, frame.block));
    };
    let end = 8 * line.len();
    for at in (0..end).step_by(chunk) {
        receiver.receive(line, at, chunk.min(end - at), &mut keep);
    }
    receiver.finish(&mut keep);
    frames
}

fn compare(direction: Direction, line: &[u8], chunk: usize) {
    let params = Params::default();
    let mut slow = reference::Receiver::new(direction, Accept::Any, params.clone());
    let expected = frames(&mut slow, line, usize::MAX >> 1);
    let mut quick = fast::Receiver::new(direction, Accept::Any, params, Simd::best());
    assert_eq!(frames(&mut quick, line, chunk), expected);
    assert_eq!(quick.counters(), slow.counters());
    assert_eq!(quick.verdict(), slow.verdict());
}

/// Bytes as a line, in both directions.
pub fn pcs_line(data: &[u8]) {
    let Some((chunk, line)) = data.split_first() else {
        return;
    };
    for direction in DIRECTIONS {
        compare(direction, line, 1 + 37 * usize::from(*chunk));
    }
}

/// Bytes as changes to a line that carries frames: where, and what is added.
pub fn pcs_spoiled_line(data: &[u8]) {
    for direction in DIRECTIONS {
        let mut sender = fast::Transmitter::new(direction, Params::default(), Simd::best());
        let mut line = vec![0; 8192];
        let mut bits = sender.pull(&mut line[..600], 5);
        for len in [60, 300, 61, 900] {
            let frame: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            sender.push(&frame, 1).expect("there is room");
        }
        bits += sender.pull(&mut line, 5 + bits);
        line.truncate((5 + bits).div_ceil(8));
        for change in data.chunks_exact(3) {
            let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % line.len();
            line[place] ^= change[2];
        }
        compare(direction, &line, 3001);
    }
}

/// Bytes as errors of a codeword.
pub fn pcs_codeword(data: &[u8]) {
    let mut word = [0; 255];
    for (byte, value) in word.iter_mut().skip(4).zip(data) {
        *byte = *value;
    }
    let mut expected = word;
    let verdict = reference::reed_solomon::decode(&mut expected);
    for simd in Simd::all() {
        let mut rows = [catena_pcs::rs::Row::ZERO; 13];
        for row in &mut rows {
            row.0[1..].copy_from_slice(&word);
        }
        let mut verdicts = [Correction::Clean; 13];
        Codec::new(Code::EPON, simd).decode_rows(&mut rows, &mut verdicts);
        assert_eq!(verdicts, [verdict; 13]);
        assert_eq!(rows[12].0[1..], expected);
    }
}

/// Bytes as a line file.
pub fn pcs_line_file(data: &[u8]) {
    if let Ok(header) = line_file::Header::parse(data) {
        let bits = &data[line_file::HEADER_LEN..];
        let present = header.present_bits(bits) as usize;
        let from = usize::from(header.offset);
        let listed = line_file::Listing::new(bits, from, from + present).count();
        assert_eq!(listed, present / 66);
    }
}

/// A function of this file.
pub type Entry = fn(&[u8]);

/// Every function above, by name.
pub const ALL: [(&str, Entry); 4] = [
    ("pcs_codeword", pcs_codeword),
    ("pcs_line", pcs_line),
    ("pcs_line_file", pcs_line_file),
    ("pcs_spoiled_line", pcs_spoiled_line),
];
