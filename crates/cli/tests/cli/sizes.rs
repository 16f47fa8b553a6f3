//! Packets of every size through links between processes: chunks of 128 KiB, jumbo frames, and
//! everything in between, on links of each trust.

use std::path::PathBuf;

use super::harness::{Place, assert_conserved, named, pcap_packets};

/// A chunk of a bit stream, as DESIGN calls the unit on such a link.
const CHUNK: usize = 128 << 10;

/// Lengths in the order in which they come: alone, at the edges of buffers, the largest that a
/// buffer of 256 KiB holds behind its headroom.
const MIXED: [usize; 14] = [
    60,
    CHUNK,
    64,
    65,
    9000,
    1514,
    1920,
    1921,
    16_256,
    16_257,
    65_536,
    CHUNK - 1,
    262_016,
    61,
];

/// A pcap file (draft-ietf-opsawg-pcap 4 and 5) of packets of these lengths, each with addresses
/// and contents of its own.
fn capture(lens: impl Iterator<Item = usize>) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 1] {
        file.extend(word.to_le_bytes());
    }
    for (number, len) in lens.enumerate() {
        let len32 = u32::try_from(len).unwrap();
        for word in [u32::try_from(number).unwrap(), 0, len32, len32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(
            (0..len).map(|at| u8::try_from((at * 31 + at / 256 + number * 7) % 251).unwrap()),
        );
    }
    file
}

/// `in -> a -> b -> out`, every node in a process of its own or, for ports, in one of theirs.
fn chain(place: &Place, nf: &str, trust: &str, run: &str) -> PathBuf {
    let nfs = format!("  a: {{ type: {nf} }}\n  b: {{ type: {nf} }}\n");
    let links = format!("  - {{ link: in -> a -> b -> out, trust: {trust} }}\n");
    place.write(
        "chain.yaml",
        format!(
            "name: sizes\nports:\n  in: {{ pcap: {{ read: in.pcap }} }}\n  \
             out: {{ pcap: {{ write: out.pcap }} }}\nnfs:\n{nfs}links:\n{links}{run}"
        ),
    )
}

/// Runs the chain over packets of these lengths and compares what comes out, byte by byte.
#[track_caller]
fn assert_all_pass(lens: &[usize], trust: &str, run: &str) {
    let place = Place::new();
    let file = capture(lens.iter().copied());
    place.write("in.pcap", &file);
    // Two exchanges of the addresses are none, so the output is the input.
    let nf = if trust == "ro" { "count" } else { "macswap" };
    chain(&place, nf, trust, run);
    let ended = place.catena(&["run", "--json", "chain.yaml"]);
    let status = ended.assert_code(0).json();
    assert_conserved(&status);
    for name in ["a", "b"] {
        let node = named(&status["nodes"], name);
        assert_eq!(node["tx_packets"], lens.len(), "{trust}: {node:#}");
        assert_eq!(node["tx_bytes"], lens.iter().sum::<usize>());
    }
    for link in status["links"].as_array().unwrap() {
        assert_eq!(link["trust"], trust, "{link:#}");
        assert_eq!(link["rx_packets"], lens.len());
    }
    let out = std::fs::read(place.path("out.pcap")).unwrap();
    let (wanted, found) = (pcap_packets(&file), pcap_packets(&out));
    assert_eq!(found.len(), wanted.len(), "{trust}");
    for (number, (wanted, found)) in wanted.iter().zip(&found).enumerate() {
        assert_eq!(found.len(), wanted.len(), "{trust}, packet {number}");
        assert!(
            found == wanted,
            "{trust}, packet {number} of {} bytes",
            found.len()
        );
    }
    place.assert_nothing_left();
}

#[test]
fn chunks_of_128_kib_pass_links_of_every_trust() {
    for trust in ["shared", "ro", "copy"] {
        assert_all_pass(&[CHUNK; 200], trust, "");
    }
}

#[test]
fn sizes_mix_on_links_of_every_trust() {
    let lens: Vec<usize> = MIXED.iter().copied().cycle().take(300).collect();
    for trust in ["shared", "ro", "copy"] {
        assert_all_pass(&lens, trust, "");
    }
}

/// The first chunks come when nothing yet tells of their size: they must not be lost for it.
#[test]
fn a_burst_of_chunks_after_small_packets_fits_a_copy_link() {
    let mut lens = vec![60; 1000];
    lens.extend([CHUNK; 100]);
    lens.extend([60; 1000]);
    assert_all_pass(&lens, "copy", "run: { burst: 256 }\n");
}

#[test]
fn jumbo_frames_pass() {
    for trust in ["shared", "ro", "copy"] {
        assert_all_pass(&[9018; 1000], trust, "");
    }
}

/// Buffers of a size that is not among the usual ones are made and used.
#[test]
fn the_file_chooses_sizes_of_buffers() {
    let place = Place::new();
    let file = capture([CHUNK; 20].into_iter());
    place.write("in.pcap", &file);
    chain(
        &place,
        "macswap",
        "shared",
        "run: { buffers: { 1MiB: 4, 256KiB: 1, 512B: 1000 } }\n",
    );
    let ended = place.catena(&["run", "--json", "chain.yaml"]);
    let status = ended.assert_code(0).json();
    // 8192 of 128 B, 4096 of 2 KiB, 128 of 16 KiB, what the file says, and the bundles of three
    // workers that send.
    assert_eq!(
        status["buffers"]["allocated"],
        8192 + 4096 + 128 + 4 + 1 + 1000 + 3 * 256
    );
    assert_conserved(&status);
    let out = std::fs::read(place.path("out.pcap")).unwrap();
    assert!(pcap_packets(&out) == pcap_packets(&file));
}

/// More buffers than a lane had slots once: every one of them comes home.
#[test]
fn two_hundred_thousand_buffers_go_round() {
    let place = Place::new();
    let text = "name: many\nports:\n  in: { generator: { rate: max, count: 300000 } }\n  \
                out: { sink: { verify: true }, mode: thread }\nnfs:\n  a: { type: macswap }\n\
                links: [in -> a -> out]\nrun: { buffers: { 128B: 200000 } }\n";
    place.write("chain.yaml", text);
    let ended = place.catena(&["run", "--json", "chain.yaml"]);
    let status = ended.assert_code(0).json();
    assert_conserved(&status);
    assert_eq!(
        named(&status["nodes"], "out")["counters"]["verified"],
        300_000
    );
    // Beside what the chain says, 256 bundles of each worker that sends.
    assert_eq!(
        status["buffers"]["allocated"],
        200_000 + 4096 + 128 + 32 + 2 * 256
    );
}
