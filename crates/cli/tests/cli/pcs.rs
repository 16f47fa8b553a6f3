//! `catena pcs`: captures become line bits and come back, whatever happens to the bits is told, and
//! the slow path says the same as the fast one.

use std::path::Path;
use std::process::Stdio;

use catena_pcs::line_file::{HEADER_LEN, Listing};
use catena_port::capture::CaptureReader;
use serde_json::Value;

use super::harness::{Ended, Place, repository};

pub(crate) const DIRECTIONS: [&str; 2] = ["downstream", "upstream"];

/// Packets of a capture as they are on a line: at least 60 octets.
pub(crate) fn frames(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = CaptureReader::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        let mut frame = record.data.to_vec();
        frame.resize(frame.len().max(60), 0);
        frames.push(frame);
    }
    frames
}

fn trace(name: &str) -> std::path::PathBuf {
    repository().join("chains/traces").join(name)
}

/// A place with the first `count` packets of the trace of a web server in `in.pcap`.
pub(crate) fn place_with(count: usize) -> Place {
    let place = Place::new();
    let web = std::fs::read(trace("web.pcap")).unwrap();
    let lens = super::harness::pcap_records(&web);
    let len: usize = lens[..count].iter().map(|len| 16 + len).sum();
    place.write("in.pcap", &web[..24 + len]);
    place
}

impl Place {
    #[track_caller]
    pub(crate) fn encode(&self, args: &[&str]) -> Value {
        let args = [
            &["pcs", "encode", "in.pcap", "x.line", "--force", "--json"],
            args,
        ]
        .concat();
        self.catena(&args).assert_code(0).json()
    }

    pub(crate) fn decode(&self) -> Ended {
        self.catena(&["pcs", "decode", "x.line", "out.pcap", "--force", "--json"])
    }
}

#[test]
fn shipped_captures_come_back_from_any_bit_offset() {
    let place = Place::new();
    for (name, offsets) in [
        ("web.pcap", &[0_u8, 1, 7, 8, 31, 63, 64, 65][..]),
        ("vlan.pcapng", &[0, 2, 33, 65]),
    ] {
        std::fs::copy(trace(name), place.path("in.pcap")).unwrap();
        let sent = frames(&place.path("in.pcap"));
        for direction in DIRECTIONS {
            for offset in offsets {
                let (bits, first) = (offset.to_string(), (offset % 8).to_string());
                let args = ["--direction", direction, "--offset", &bits];
                place.encode(&[&args[..], &["--first-bit", &first]].concat());
                let ended = place.decode();
                let told = ended.assert_code(0).json();
                assert_eq!(told["verdict"], "clean", "{told:#}");
                assert_eq!(told["direction"], direction);
                assert_eq!(told["frames_by_llid"]["0x0001"], sent.len());
                assert!(frames(&place.path("out.pcap")) == sent, "{args:?}");
            }
        }
    }
}

#[test]
fn a_bit_error_rate_of_1e_4_is_corrected_and_told() {
    let place = place_with(911);
    let sent = frames(&place.path("in.pcap"));
    for direction in DIRECTIONS {
        for seed in ["1", "2"] {
            let args = ["--direction", direction, "--ber", "1e-4", "--seed", seed];
            let bursts = match direction {
                "upstream" => &["--burst", "100"][..],
                _ => &[],
            };
            let made = place.encode(&[&args[..], bursts].concat());
            let told = place.decode().assert_code(0).json();
            assert_eq!(told["verdict"], "corrected", "{told:#}");
            let errors = made["bit_errors"].as_u64().unwrap();
            let bits = made["line_bits"].as_u64().unwrap();
            let expected = bits / 10_000;
            assert!(errors.abs_diff(expected) < expected / 4, "{made:#}");
            let ber = told["counters"]["ber"].as_f64().unwrap();
            assert!((0.7e-4..1.3e-4).contains(&ber), "{ber}");
            assert!(frames(&place.path("out.pcap")) == sent);
        }
    }
}

#[test]
fn the_reference_gives_what_the_fast_path_gives() {
    let place = place_with(40);
    for (direction, rest) in [
        ("downstream", &["--offset", "13", "--ber", "2e-3"][..]),
        (
            "upstream",
            &["--burst", "15", "--ber", "1e-3", "--first-bit", "3"],
        ),
        ("downstream", &["--llid", "0x8005", "--ber", "1e-2"]),
    ] {
        let mut seen: Vec<(Vec<u8>, Vec<u8>, String, Value)> = Vec::new();
        for implementation in ["fast", "reference"] {
            let slow = match implementation {
                "reference" => &["--reference"][..],
                _ => &[],
            };
            place.encode(&[&["--direction", direction], rest, slow].concat());
            let args = ["pcs", "decode", "x.line", "out.pcap", "--force", "--json"];
            let ended = place.catena(&[&args[..], slow].concat());
            let mut told = ended.json();
            let name = told.as_object_mut().unwrap().remove("implementation");
            assert_eq!(name.unwrap(), implementation);
            let listing = place.catena(&[&["pcs", "inspect", "x.line"], slow].concat());
            assert_eq!(listing.code, ended.code);
            seen.push((
                std::fs::read(place.path("x.line")).unwrap(),
                std::fs::read(place.path("out.pcap")).unwrap(),
                listing.stdout,
                told,
            ));
        }
        assert!(seen[0] == seen[1], "{direction} {rest:?}");
        assert!(seen[0].3["counters"]["codewords"].as_u64() > Some(0));
    }
}

#[test]
fn a_listing_begins_where_codewords_do_and_says_the_same_in_both_forms() {
    let place = place_with(200);
    place.encode(&["--offset", "13"]);
    let text = place.catena(&["pcs", "inspect", "x.line"]);
    let lines: Vec<&str> = text.assert_code(0).stdout.lines().collect();
    assert_eq!(lines[2].trim(), "0        13 bits before lock");
    assert_eq!(&lines[3][..21], "        13      0.00 ");
    assert!(lines[3].ends_with(" not descrambled"), "{}", lines[3]);
    for word in ["start", "data", "terminate", "idle", "parity"] {
        assert!(text.stdout.contains(&format!(" {word}")), "{word}");
    }
    assert!(lines.last().unwrap().starts_with("verdict: clean"));
    let json = place.catena(&["pcs", "inspect", "x.line", "--json"]);
    let json = json.assert_code(0).json();
    let blocks = json["blocks"].as_array().unwrap();
    assert_eq!(blocks.len() % 31, 0);
    for (block, line) in blocks.iter().zip(&lines[3..]) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(block["bit"].to_string(), words[0]);
        assert_eq!(block["payload"], words[3]);
        assert_eq!(block["kind"], words[4..].join(" "));
    }
    // The listing of the whole line at once, whose first block has an unknown kind here.
    let whole = &lines[3..3 + blocks.len()];
    let line = std::fs::read(place.path("x.line")).unwrap();
    let line = &line[HEADER_LEN..];
    let listing = Listing::new(line, 13, 8 * line.len()).map(|listed| listed.to_string());
    for (wanted, found) in listing.zip(whole).skip(1) {
        assert_eq!(wanted, **found);
    }
    // A part is that part of the whole, also across what is read at once.
    for (from, count) in [(0, 1), (5_000, 100), (13 + 2046 * 64, 40), (200_000, 2)] {
        let (bit, blocks) = (from.to_string(), count.to_string());
        let part = place.catena(&[
            "pcs", "inspect", "x.line", "--from", &bit, "--blocks", &blocks,
        ]);
        let begin = whole
            .iter()
            .position(|line| line[..10].trim().parse::<u32>().unwrap() >= from);
        let wanted = whole[begin.unwrap()..].iter().take(count);
        for line in wanted {
            assert!(part.stdout.contains(line), "{line} in {}", part.stdout);
        }
        let parts = part.stdout.lines().filter(|line| whole.contains(line));
        assert_eq!(parts.count(), count);
    }
}

#[test]
fn bursts_are_listed_one_by_one() {
    let place = place_with(30);
    let made = place.encode(&[
        "--direction",
        "upstream",
        "--burst",
        "10",
        "--silence",
        "777",
    ]);
    assert_eq!(made["bursts"], 3);
    let listing = place.catena(&["pcs", "inspect", "x.line", "--json"]);
    let listing = listing.assert_code(0).json();
    let stretches = listing["stretches"].as_array().unwrap();
    assert_eq!(stretches.len(), 3);
    // 64 blocks of sync pattern, and the delimiter.
    assert_eq!(stretches[0]["bit"], 65 * 66);
    for pair in stretches.windows(2) {
        let end = |stretch: &Value| {
            stretch["bit"].as_u64().unwrap() + 2046 * stretch["codewords"].as_u64().unwrap()
        };
        // A terminator, no light, sync pattern and delimiter.
        let next = end(&pair[0]) + 3 * 66 + 777 + 65 * 66;
        assert_eq!(pair[1]["bit"], next);
    }
    let told = place.decode().assert_code(0).json();
    assert_eq!(told["counters"]["bursts_ended"], 3);
}

#[test]
fn frames_for_others_are_no_damage() {
    let place = place_with(30);
    place.encode(&["--llid", "7"]);
    for (onu, count) in [("7", 30), ("0x0008", 0)] {
        let args = [
            "pcs", "decode", "x.line", "out.pcap", "--force", "--json", "--onu", onu,
        ];
        let told = place.catena(&args).assert_code(0).json();
        assert_eq!(told["counters"]["frames"], count);
        assert_eq!(told["counters"]["drops"]["llid"], 30 - count);
    }
}

#[test]
fn frames_over_the_limit_are_counted_and_the_rest_is_sent() {
    let place = place_with(300);
    let sent = frames(&place.path("in.pcap"));
    let args = [
        "pcs",
        "encode",
        "in.pcap",
        "x.line",
        "--max-frame",
        "600",
        "--json",
    ];
    let ended = place.catena(&args);
    let made = ended.assert_code(1).json();
    assert!(ended.stderr.contains("--max-frame"), "{}", ended.stderr);
    let fit: Vec<_> = sent
        .into_iter()
        .filter(|frame| frame.len() + 4 <= 600)
        .collect();
    assert_eq!(made["left_out"]["too_long"], 300 - fit.len());
    place.decode().assert_code(0);
    assert!(frames(&place.path("out.pcap")) == fit);
}

#[test]
fn a_damaged_capture_is_encoded_up_to_the_damage() {
    let place = place_with(50);
    let mut capture = std::fs::read(place.path("in.pcap")).unwrap();
    capture.truncate(capture.len() - 5);
    place.write("in.pcap", capture);
    let ended = place.catena(&["pcs", "encode", "in.pcap", "x.line"]);
    ended.assert_code(1);
    assert!(
        ended.stderr.contains("record 50 at byte"),
        "{}",
        ended.stderr
    );
    let told = place.decode().assert_code(0).json();
    assert_eq!(told["counters"]["frames"], 49);
}

#[test]
fn wrong_arguments_and_files_are_told() {
    let place = place_with(5);
    place.encode(&[]);
    let encode = ["pcs", "encode", "in.pcap", "y.line"];
    for rest in [
        &["--ber", "2"][..],
        &["--ber", "-1"],
        &["--ber", "nan"],
        &["--first-bit", "8"],
        &["--llid", "0x10000"],
        &["--burst", "0"],
        &["--burst", "5"],
        &["--direction", "sideways"],
        &["--max-frame", "63"],
        &["--offset", "1000000000000"],
    ] {
        let ended = place.catena(&[&encode[..], rest].concat());
        ended.assert_code(2);
        assert!(!place.path("y.line").exists(), "{rest:?}");
    }
    for (args, wanted) in [
        (&["encode", "in.pcap", "./in.pcap"][..], "one file"),
        (&["decode", "x.line", "x.line"], "one file"),
    ] {
        let before = std::fs::read(place.path(args[1])).unwrap();
        let ended = place.catena(&[&["pcs"], args].concat());
        ended.assert_code(2);
        assert!(ended.stderr.contains(wanted), "{}", ended.stderr);
        assert_eq!(std::fs::read(place.path(args[1])).unwrap(), before);
    }
    for (args, wanted) in [
        (&["decode", "in.pcap", "y.pcap"][..], "CATLINE1"),
        (&["inspect", "in.pcap"], "CATLINE1"),
        (&["inspect", "absent"], "No such file"),
        (&["inspect", "."], "no regular file"),
        (&["encode", "x.line", "y.line"], "not a capture file"),
        (&["encode", "in.pcap", "absent/y.line"], "cannot be created"),
        (&["encode", "in.pcap", "/dev/full"], "No space left"),
        (&["decode", "x.line", "/dev/full"], "No space left"),
    ] {
        let ended = place.catena(&[&["pcs"], args].concat());
        ended.assert_code(1);
        assert!(
            ended.stderr.contains(wanted),
            "{wanted} in {}",
            ended.stderr
        );
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    }
}

#[test]
fn a_reader_of_a_listing_may_leave() {
    let place = place_with(911);
    place.encode(&[]);
    for json in [&[][..], &["--json"]] {
        let args = [&["pcs", "inspect", "x.line"], json].concat();
        let mut command = place.command(&args);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}
