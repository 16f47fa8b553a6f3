// SPDX-License-Identifier: Apache-2.0
//! `ipfix`: whatever passes, passes as it is; nothing panics, and what was counted is told.

use catena_engine::nf::{Nanos, Verdict};
use catena_engine::nf_bench::NfBench;
use serde_json::json;

/// Bytes as frames: the length of each, how much later it comes, and what it is.
pub fn ipfix(data: &[u8]) {
    let Some((first, mut rest)) = data.split_first() else {
        return;
    };
    let config = json!({
        "collector": {"address": "192.0.2.9", "mac": "02:00:00:00:00:09"},
        "exporter": {"address": "192.0.2.1", "mac": "02:00:00:00:00:01"},
        "simulated_epoch": 1_700_000_000, "flows": 6, "message_bytes": 512,
        "inner": first & 1 == 1, "sample": 1 + u32::from(first >> 6),
    });
    let bench = NfBench::new(&catena_flow::ipfix::KIND, &config, &["out", "export"]);
    let mut bench = bench.expect("a configuration that is right");
    while let [len, wait, frame @ ..] = rest {
        let len = usize::from(*len).clamp(1, frame.len().max(1));
        let Some((frame, behind)) = frame.split_at_checked(len) else {
            break;
        };
        // Most are IP: a random type of Ethernet seldom is.
        let mut frame = frame.to_vec();
        if wait & 3 != 0 && frame.len() > 14 {
            let is_v6 = wait & 3 == 3;
            frame[12..14].copy_from_slice(if is_v6 { &[0x86, 0xdd] } else { &[8, 0] });
            frame[14] = if is_v6 { 0x60 } else { 0x45 };
        }
        bench.now = Nanos(bench.now.0 + u64::from(*wait) * 50_000_000);
        let packet = bench.process_one(&frame);
        assert_eq!(packet.verdict, Verdict::Output(0));
        assert_eq!(packet.bytes, frame);
        bench.emit(usize::from(first & 2), false);
        rest = behind;
    }
    for _ in 0..300 {
        bench.emit(100, true);
    }
    assert!(!bench.nf().holds_packets());
    assert_eq!(bench.buffers_in_use(), 0);
}

/// A function of this file.
pub type Entry = fn(&[u8]);

/// The function above, by name.
pub const ALL: [(&str, Entry); 1] = [("ipfix", ipfix)];
