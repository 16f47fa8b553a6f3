//! `catena pcs` says what is missing: bursts without delimiter, codewords before lock, what follows
//! a line; and when frames were on it.

use std::time::Duration;

use catena_port::capture::CaptureReader;
use serde_json::Value;

use super::harness::{Ended, Place};
use super::pcs::{frames, place_with};

/// Octets of a line file in front of its bits.
const HEADER_LEN: usize = 32;
const BLOCK_BITS: u64 = 66;
const CODEWORD_BITS: u64 = 31 * BLOCK_BITS;

/// Flips bits of a line file.
fn flip(place: &Place, bits: impl IntoIterator<Item = u64>) {
    let mut file = std::fs::read(place.path("x.line")).unwrap();
    for bit in bits {
        file[HEADER_LEN + bit as usize / 8] ^= 1 << (bit % 8);
    }
    place.write("x.line", file);
}

fn reasons(told: &Value) -> String {
    told["reasons"].to_string()
}

fn decode(place: &Place, args: &[&str]) -> Ended {
    place.catena(
        &[
            &["pcs", "decode", "x.line", "out.pcap", "--force", "--json"],
            args,
        ]
        .concat(),
    )
}

/// Three bursts of ten frames; gives the bits at which their codewords begin.
fn three_bursts(place: &Place, args: &[&str]) -> Vec<u64> {
    place.encode(&[&["--direction", "upstream", "--burst", "10"], args].concat());
    let listing = place.catena(&["pcs", "inspect", "x.line", "--json", "--blocks", "0"]);
    let listing = listing.assert_code(0).json();
    let stretches = listing["stretches"].as_array().unwrap().iter();
    stretches.map(|at| at["bit"].as_u64().unwrap()).collect()
}

#[test]
fn a_burst_without_its_delimiter_is_damage() {
    let place = place_with(30);
    let begins = three_bursts(&place, &[]);
    decode(&place, &["--grants", "3"]).assert_code(0);
    let told = decode(&place, &["--grants", "4"]).assert_code(1).json();
    assert!(reasons(&told).contains("3 of 4 granted"), "{told:#}");
    let delimiter = begins[1] - BLOCK_BITS;
    flip(
        &place,
        (0..BLOCK_BITS).step_by(3).map(|bit| delimiter + bit),
    );
    for slow in [&[][..], &["--reference"]] {
        let ended = decode(&place, slow);
        let told = ended.assert_code(1).json();
        assert_eq!(told["verdict"], "damaged");
        assert_eq!(told["counters"]["bursts_missed"], 1);
        assert!(
            reasons(&told).contains("without a burst delimiter"),
            "{told:#}"
        );
        assert!(ended.stderr.contains("without a burst delimiter"));
        let listing = place.catena(&[&["pcs", "inspect", "x.line"], slow].concat());
        listing.assert_code(1);
    }
    assert_eq!(frames(&place.path("out.pcap")).len(), 20);
    let told = decode(&place, &["--grants", "3"]).assert_code(1).json();
    assert!(reasons(&told).contains("2 of 3 granted"), "{told:#}");
    place.encode(&[]);
    decode(&place, &["--grants", "3"]).assert_code(2);
}

#[test]
fn frames_before_lock_are_damage_and_idle_there_is_none() {
    let place = place_with(300);
    let header_bits = |count: u64| {
        // One bit of a header in each codeword.
        (0..count).map(|codeword| codeword * CODEWORD_BITS + 5 * BLOCK_BITS)
    };
    place.encode(&["--lead", "0"]);
    // The first frame begins in the block that fills the descrambler.
    let whole = decode(&place, &[]).assert_code(0).json();
    assert_eq!(whole["counters"]["frames"], 299);
    flip(&place, header_bits(40));
    let ended = decode(&place, &[]);
    let told = ended.assert_code(1).json();
    assert_eq!(told["verdict"], "damaged");
    let lost = 299 - told["counters"]["frames"].as_u64().unwrap();
    let text = reasons(&told);
    let begun = text.split("before lock: ").nth(1).unwrap();
    let begun: u64 = begun.split(',').next().unwrap().parse().unwrap();
    // One more may begin in the block that fills the descrambler.
    assert!(begun > 5 && lost.abs_diff(begun) <= 1, "{lost} {told:#}");
    let wanted = format!("frames begun before lock: {begun}, in 40 codewords");
    assert!(text.contains(&wanted), "{lost} {told:#}");
    assert_eq!(told["counters"]["first_hunt_bits"], 40 * CODEWORD_BITS);
    let listing = place.catena(&["pcs", "inspect", "x.line"]);
    assert!(listing.assert_code(1).stderr.contains(&wanted));
    // More codewords than are looked at at once.
    flip(&place, header_bits(200).skip(40));
    let told = decode(&place, &[]).assert_code(1).json();
    assert!(reasons(&told).contains("in 200 codewords"), "{told:#}");
    // Idle, and noise.
    for args in [&["--lead", "16"][..], &["--offset", "9000"]] {
        place.encode(args);
        if args[0] == "--lead" {
            flip(&place, header_bits(10));
        }
        let told = decode(&place, &[]).assert_code(0).json();
        assert_eq!(frames(&place.path("out.pcap")).len(), 300);
        assert!(told["counters"]["first_hunt_bits"].as_u64() > Some(8_000));
    }
}

/// Times of the packets of a capture in nanoseconds.
fn times(place: &Place) -> Vec<u64> {
    let mut reader = CaptureReader::open(place.path("out.pcap")).unwrap();
    let mut times = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        times.push(record.timestamp_ns);
    }
    times
}

#[test]
fn upstream_times_hold_what_lies_between_bursts() {
    let place = place_with(30);
    // 100 us of silence.
    let begins = three_bursts(&place, &["--silence", "1031250"]);
    decode(&place, &[]).assert_code(0);
    let times = times(&place);
    for (burst, begin) in begins.iter().enumerate() {
        // Two idle blocks open a burst.
        let first = (begin + 2 * BLOCK_BITS) * 16 / 165;
        assert_eq!(times[10 * burst], first);
    }
    assert!(times[10] - times[9] > 100_000, "{times:?}");
}

#[test]
fn what_follows_a_line_is_told() {
    let place = place_with(30);
    place.encode(&["--first-bit", "5"]);
    let one = std::fs::read(place.path("x.line")).unwrap();
    for (behind, octets) in [(&one[..], one.len()), (&[0], 1)] {
        place.write("x.line", [&one, behind].concat());
        let told = decode(&place, &[]).assert_code(1).json();
        let wanted = format!("behind the end of the line: {octets};");
        assert!(reasons(&told).contains(&wanted), "{told:#}");
        assert_eq!(frames(&place.path("out.pcap")).len(), 30);
        let listing = place.catena(&["pcs", "inspect", "x.line", "--blocks", "1"]);
        assert!(listing.assert_code(1).stderr.contains(&wanted));
    }
}

#[test]
fn a_full_device_holds_no_line_bits() {
    let place = place_with(30);
    let ended = place.catena(&["pcs", "encode", "in.pcap", "/dev/full"]);
    ended.assert_code(1);
    let wanted = "/dev/full: writing stopped after 0 line bits: No space left";
    assert!(ended.stderr.contains(wanted), "{}", ended.stderr);
}

#[test]
fn pipes_are_refused_before_anybody_waits_for_them() {
    let place = place_with(30);
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let fifo = place.path("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for (args, wanted) in [
        (&["inspect", "pipe"][..], "no regular file"),
        (&["decode", "pipe", "out.pcap"], "no regular file"),
        (&["encode", "in.pcap", "pipe"], "is a pipe"),
    ] {
        let mut command = place.command(&[&["pcs"], args].concat());
        command.stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        let is_done = loop {
            match child.try_wait().unwrap() {
                Some(_) => break true,
                None if std::time::Instant::now() > deadline => break false,
                None => std::thread::yield_now(),
            }
        };
        if !is_done {
            child.kill().unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(is_done, "{args:?} waits");
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(wanted), "{told}");
    }
}

#[test]
fn a_high_bit_error_rate_is_told_and_withholds_frames_if_wanted() {
    let place = place_with(300);
    place.encode(&["--ber", "3e-3", "--lead", "700"]);
    let told = decode(&place, &[]).json();
    assert!(
        told["counters"]["high_ber_windows"].as_u64() > Some(0),
        "{told:#}"
    );
    assert_eq!(told["high_ber"], true);
    let told = decode(&place, &["--withhold"]).assert_code(1).json();
    assert!(
        told["counters"]["drops"]["high_ber"].as_u64() > Some(200),
        "{told:#}"
    );
    let told = decode(&place, &["--withhold", "--ber-limit", "2000"]).json();
    assert_eq!(told["counters"]["drops"]["high_ber"], 0);
}

#[test]
fn sync_time_and_delay_bound_can_be_set() {
    let place = place_with(30);
    let begins = three_bursts(&place, &["--sync-blocks", "20"]);
    assert_eq!(begins[0], 21 * BLOCK_BITS);
    let bits = |args: &[&str]| {
        let all = [&["--direction", "upstream"][..], args].concat();
        place.encode(&all)["line_bits"].as_u64().unwrap()
    };
    let longer = bits(&["--delay-bound", "200"]) - bits(&[]);
    assert!(
        longer >= 4 * CODEWORD_BITS && longer.is_multiple_of(CODEWORD_BITS),
        "{longer}"
    );
    for sync_blocks in ["0", "1025"] {
        let args = [
            "pcs",
            "encode",
            "in.pcap",
            "x.line",
            "--sync-blocks",
            sync_blocks,
        ];
        place.catena(&args).assert_code(2);
    }
}
