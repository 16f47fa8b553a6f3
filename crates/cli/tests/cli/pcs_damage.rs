//! `catena pcs` on line bits that are not whole: noise, cuts, slips, bursts of anything.

use super::harness::{Ended, Place};
use super::pcs::{DIRECTIONS, frames, place_with};

/// Octets of a line file in front of its bits.
const HEADER_LEN: usize = 32;

/// No panic and no signal, and on failure a word about the file.
#[track_caller]
fn assert_told(ended: &Ended, wanted: &str) {
    ended.assert_code(1);
    assert!(ended.stderr.contains("x.line"), "{ended:#?}");
    assert!(ended.stderr.contains(wanted), "{wanted} in {ended:#?}");
    assert!(!ended.stderr.contains("panicked"), "{ended:#?}");
}

/// Bytes that repeat from a seed and look like noise (xorshift).
fn noise(len: usize, mut seed: u64) -> Vec<u8> {
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// A line file as its reference page describes it.
fn line_file(direction: u8, bit_count: u64, bits: &[u8]) -> Vec<u8> {
    let mut file = b"CATLINE1".to_vec();
    file.extend([direction, 0, 0, 0, 0, 0, 0, 0]);
    file.extend(bit_count.to_le_bytes());
    file.extend([0; 8]);
    file.extend(bits);
    file
}

/// Bits as bytes, the first in the least significant place.
fn packed(bits: &[bool]) -> Vec<u8> {
    let mut bytes = vec![0; bits.len().div_ceil(8)];
    for (at, _) in bits.iter().enumerate().filter(|(_, bit)| **bit) {
        bytes[at / 8] |= 1 << (at % 8);
    }
    bytes
}

/// The burst delimiter as the standard writes it: 01, then these octets.
fn delimiter() -> Vec<bool> {
    let octets = [0x6b_u8, 0xf8, 0xd8, 0x12, 0xd8, 0x58, 0xe4, 0xab];
    let payload = octets
        .iter()
        .flat_map(|octet| (0..8).map(move |bit| octet >> bit & 1 == 1));
    [false, true].into_iter().chain(payload).collect()
}

#[test]
fn noise_and_silence_are_refused() {
    let place = Place::new();
    for direction in [0, 1] {
        for bits in [
            noise(200_000, 5),
            vec![0; 100_000],
            vec![0xff; 100_000],
            vec![],
        ] {
            let count = 8 * bits.len() as u64;
            place.write("x.line", line_file(direction, count, &bits));
            let ended = place.decode();
            assert_told(&ended, "no lock");
            let told = ended.json();
            assert_eq!(told["verdict"], "no lock");
            assert_eq!(told["counters"]["line_bits"], count);
            assert_eq!(told["counters"]["codewords"], 0);
            assert!(frames(&place.path("out.pcap")).is_empty());
            for slow in [
                &["pcs", "inspect", "x.line"][..],
                &["pcs", "inspect", "x.line", "--json"],
            ] {
                let listing = place.catena(slow);
                assert_told(&listing, "no lock");
                assert!(!listing.stdout.contains("parity"));
            }
        }
    }
}

#[test]
fn bursts_of_anything_are_listed_where_their_delimiters_are() {
    let place = Place::new();
    let random = noise(1_000_000, 3);
    let (mut bits, mut starts) = (Vec::new(), Vec::new());
    for round in 0..400 {
        bits.extend(delimiter());
        starts.push(bits.len());
        // Nothing, part of a codeword, some codewords; ended and not.
        let len = [0, 10, 2046, 2050, 4092, 6138][usize::from(random[round]) % 6];
        bits.extend(
            random[1000 * round..]
                .iter()
                .take(len)
                .map(|byte| byte & 1 == 1),
        );
        let silence = [198, 198, 300, 0][usize::from(random[round + 1]) % 4];
        bits.extend(std::iter::repeat_n(false, silence));
    }
    place.write("x.line", line_file(1, bits.len() as u64, &packed(&bits)));
    let mut listings = Vec::new();
    for slow in [&[][..], &["--reference"]] {
        let args = [
            &["pcs", "inspect", "x.line", "--json", "--blocks", "0"][..],
            slow,
        ]
        .concat();
        let ended = place.catena(&args);
        assert_told(&ended, "bursts lost");
        let mut told = ended.json();
        told.as_object_mut().unwrap().remove("implementation");
        listings.push(told);
    }
    assert!(listings[0] == listings[1]);
    let stretches = listings[0]["stretches"].as_array().unwrap();
    assert!(stretches.len() > 200, "{}", stretches.len());
    for stretch in stretches {
        let bit = stretch["bit"].as_u64().unwrap() as usize;
        assert!(starts.contains(&bit), "{stretch}");
    }
    let codewords = stretches
        .iter()
        .map(|stretch| stretch["codewords"].as_u64().unwrap());
    assert_eq!(listings[0]["counters"]["codewords"], codewords.sum::<u64>());
}

#[test]
fn bursts_without_codewords_are_no_lock() {
    let place = Place::new();
    let burst = [delimiter(), vec![false; 198]].concat();
    let bits = burst.repeat(50);
    place.write("x.line", line_file(1, bits.len() as u64, &packed(&bits)));
    let ended = place.decode();
    assert_told(&ended, "no codeword: 50");
    assert_eq!(ended.json()["verdict"], "no lock");
}

#[test]
fn a_file_cut_anywhere_gives_the_frames_before_the_cut() {
    let place = place_with(60);
    let sent = frames(&place.path("in.pcap"));
    for direction in DIRECTIONS {
        place.encode(&["--direction", direction, "--offset", "5"]);
        let whole = std::fs::read(place.path("x.line")).unwrap();
        let spread = (0..24).map(|k| HEADER_LEN + k * (whole.len() - HEADER_LEN) / 24 + k % 3);
        for len in [0, 1, 8, 31, 32, 33, 40].into_iter().chain(spread) {
            place.write("x.line", &whole[..len]);
            let ended = place.decode();
            let listing = place.catena(&["pcs", "inspect", "x.line", "--json"]);
            if len < HEADER_LEN {
                assert_told(&ended, "header");
                assert_told(&listing, "header");
                continue;
            }
            let told = ended.json();
            assert_told(&ended, told["verdict"].as_str().unwrap());
            let reasons = told["reasons"].to_string();
            assert!(reasons.contains("again"), "{told:#}");
            assert_eq!(listing.json()["verdict"], told["verdict"]);
            let found = frames(&place.path("out.pcap"));
            assert!(found == sent[..found.len()], "{len}");
        }
    }
}

#[test]
fn damage_inside_a_line_is_counted_and_the_rest_received() {
    let place = place_with(300);
    let sent = frames(&place.path("in.pcap"));
    for (direction, args) in [("downstream", &[][..]), ("upstream", &["--burst", "20"])] {
        place.encode(&[&["--direction", direction], args].concat());
        let mut file = std::fs::read(place.path("x.line")).unwrap();
        let middle = file.len() / 2;
        file[middle..middle + 3000].copy_from_slice(&noise(3000, 9));
        // A slip by eight bits as well.
        file.remove(middle + 40_000);
        let bits = 8 * (file.len() - HEADER_LEN) as u64;
        file[16..24].copy_from_slice(&bits.to_le_bytes());
        place.write("x.line", &file);
        let ended = place.decode();
        assert_told(&ended, "damaged");
        let told = ended.json();
        assert!(
            told["counters"]["codewords_uncorrectable"].as_u64() > Some(2),
            "{told:#}"
        );
        let found = frames(&place.path("out.pcap"));
        assert!(
            found.len() > sent.len() / 2 && found.len() < sent.len(),
            "{told:#}"
        );
        assert!(found.iter().all(|frame| sent.contains(frame)), "{told:#}");
        assert_eq!(found.last(), sent.last());
        // Codewords are found again at their new place.
        let listing = place.catena(&["pcs", "inspect", "x.line", "--json", "--blocks", "0"]);
        let stretches = listing.json()["stretches"].as_array().unwrap().len();
        assert!(stretches > 2, "{listing:#?}");
    }
}
