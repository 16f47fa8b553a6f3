// SPDX-License-Identifier: Apache-2.0
//! `nat44`: whatever comes from either side, nothing panics, no buffer is lost, what leaves has a
//! right IPv4 checksum if it came with one, and all sessions end.

use catena_engine::nf::{Nanos, Verdict};
use catena_engine::nf_bench::NfBench;
use catena_wire::checksum::Sum;
use catena_wire::ipv4;
use serde_json::json;

/// A packet of a host inside to the world: UDP, TCP with SYN, an echo, or an error about what
/// `about` says, from there.
fn template(kind: u8, host: u8, about: &[u8]) -> Vec<u8> {
    let (protocol, transport): (u8, Vec<u8>) = match kind % 4 {
        0 => (17, vec![0x10, host, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4]),
        1 => {
            let mut tcp = vec![0; 20];
            tcp[..4].copy_from_slice(&[0x10, host, 0, 80]);
            (tcp[12], tcp[13]) = (0x50, 2);
            (6, tcp)
        }
        2 => (1, vec![8, 0, 0, 0, 0, host, 0, 1, 9]),
        _ => {
            let mut error = vec![3, 1, 0, 0, 0, 0, 0, 0];
            error.extend(about.iter().skip(14).take(60));
            (1, error)
        }
    };
    let len = 20 + transport.len() as u16;
    let [high, low] = len.to_be_bytes();
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, high, low, 0, 7, 0, 0, 64, protocol, 0, 0]);
    frame.extend([10, 0, 0, host % 4, 203, 0, 113, 5]);
    frame.extend(transport);
    if protocol == 1 {
        let sum = Sum::of(&frame[34..]).checksum().to_be_bytes();
        frame[36..38].copy_from_slice(&sum);
    }
    frame
}

/// Makes the IPv4 checksum of a frame right, where there is such a header.
fn fill(frame: &mut [u8]) {
    if let Some(packet) = frame.get_mut(14..)
        && let Ok(mut view) = ipv4::View::parse(packet)
    {
        view.fill_checksum();
    }
}

/// Bytes as packets of both sides: which one, and what of it is changed.
pub fn nat44(data: &[u8]) {
    let Some((first, steps)) = data.split_first() else {
        return;
    };
    let filtering = [
        "endpoint_independent",
        "address_dependent",
        "address_and_port_dependent",
    ];
    let config = json!({
        "inside": ["10.0.0.0/8"], "outside": ["192.0.2.0/31"], "block_size": 64,
        "ports": {"first": 1024, "last": 1279}, "sessions": 12, "subscribers": 3, "fragments": 2,
        "sessions_per_subscriber": 6, "filtering": filtering[usize::from(first % 3)],
        "untranslated": if first & 0x40 == 0 { "drop" } else { "pass" },
    });
    let outputs = ["outside", "inside"];
    let bench = NfBench::new(&catena_flow::nat44::KIND, &config, &outputs);
    let mut bench = bench.expect("a configuration that is right");
    let mut last = template(0, 1, &[]);
    for step in steps.chunks_exact(6) {
        let [what, host, at, value, at_too, value_too] = *step else {
            continue;
        };
        let mut frame = template(what, host, &last);
        if what & 0x10 != 0 {
            // What left last comes back, or what came last is answered.
            frame.clone_from(&last);
            for (one, other) in [(26, 30), (27, 31), (28, 32), (29, 33), (34, 36), (35, 37)] {
                if frame.len() > other {
                    frame.swap(one, other);
                }
            }
        }
        if what & 0x20 != 0 {
            // An error about it goes to whoever sent it.
            let to = last.get(26..30).map(<[u8]>::to_vec).unwrap_or_default();
            frame = template(3, host, &last);
            frame[30..30 + to.len()].copy_from_slice(&to);
        }
        for (at, value) in [(at, value), (at_too, value_too)] {
            if let Some(byte) = frame.get_mut(usize::from(at)) {
                *byte = value;
            }
        }
        if what & 0x40 != 0 {
            frame.truncate(usize::from(value_too).max(1));
        }
        fill(&mut frame);
        bench.now = Nanos(bench.now.0 + u64::from(value) * 100_000_000);
        let input = what >> 7;
        let packet = bench.process_from(input, &[&frame]).packets.remove(0);
        if let Verdict::Output(_) = packet.verdict {
            assert_eq!(packet.bytes.len(), frame.len());
            if let Ok(view) = ipv4::View::parse(&packet.bytes[14..])
                && frame[12..14] == [8, 0]
            {
                assert!(view.checksum_is_valid(), "{:02x?}", packet.bytes);
            }
            last = packet.bytes;
        }
        let now = bench.now;
        bench.nf().tick(now);
    }
    bench.now = Nanos(bench.now.0 + 10_000_000_000_000);
    let now = bench.now;
    bench.nf().tick(now);
    let left: Vec<_> = bench.nf().report();
    let standing = [
        "sessions",
        "mappings",
        "subscribers",
        "blocks",
        "fragmented",
    ];
    let left = left.into_iter().filter(|(name, _)| standing.contains(name));
    assert_eq!(left.map(|(_, count)| count).sum::<u64>(), 0);
    assert_eq!(bench.buffers_in_use(), 0);
}

/// A function of this file.
pub type Entry = fn(&[u8]);

/// The function above, by name.
pub const ALL: [(&str, Entry); 1] = [("nat44", nat44)];
