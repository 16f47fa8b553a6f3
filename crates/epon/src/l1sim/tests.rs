//! Faults on known bits: as many as the rates say, the same for the same seed, and counted.

use catena_engine::nf_bench::NfBench;
use catena_pcs::stage::Direction;
use serde_json::{Value, json};

use super::*;

fn chunk(content: Content, payload: &[u8], count: u32) -> Vec<u8> {
    let mut chunk = vec![0; HEADER_LEN];
    let header = Header {
        content,
        trial: 0,
        bit: 0,
        codewords: 4,
        number: 7,
        count,
        due: 0,
    };
    header.write(&mut chunk);
    chunk.extend(payload);
    chunk
}

fn line(octets: usize) -> Vec<u8> {
    let bits = 8 * octets as u32;
    chunk(Content::Line(Direction::Downstream), &vec![0; octets], bits)
}

fn bench(config: &Value) -> NfBench {
    NfBench::new(&KIND, config, &["out"]).unwrap()
}

fn counts(bench: &mut NfBench) -> Value {
    bench.nf().control(&json!({"show": "counts"})).unwrap()
}

fn ones(chunk: &[u8]) -> u64 {
    let payload = &chunk[HEADER_LEN..];
    payload
        .iter()
        .map(|octet| u64::from(octet.count_ones()))
        .sum()
}

#[test]
fn a_perfect_line_changes_nothing() {
    let mut bench = bench(&json!({}));
    let sent = line(1023);
    let back = bench.process_one(&sent);
    assert_eq!((back.verdict, back.bytes), (Verdict::Output(0), sent));
}

#[test]
fn bit_errors_come_at_the_rate_are_counted_and_repeat_with_the_seed() {
    let flipped = |seed: u64| {
        let mut bench = bench(&json!({"ber": 1e-3, "seed": seed}));
        let chunks: Vec<_> = (0..50)
            .map(|_| bench.process_one(&line(8184)).bytes)
            .collect();
        let flipped: u64 = chunks.iter().map(|chunk| ones(chunk)).sum();
        assert_eq!(counts(&mut bench)["bit_errors"], flipped);
        // 3273.6 are expected, with a deviation of 57.
        assert!((2900..3650).contains(&flipped), "{flipped}");
        chunks
    };
    assert!(flipped(1) == flipped(1));
    assert!(flipped(1) != flipped(2));
}

#[test]
fn error_bursts_go_on_in_the_next_chunk() {
    let mut bench = bench(&json!({"error_bursts": {"rate": 1e-4, "bits": 20_000}}));
    let flipped: u64 = (0..20)
        .map(|_| ones(&bench.process_one(&line(1023)).bytes))
        .sum();
    let counts = counts(&mut bench);
    assert_eq!(counts["bit_errors"], flipped);
    let bursts = counts["error_bursts"].as_u64().unwrap();
    assert!(bursts > 0);
    // Half of the bits, and the last one may be under way.
    let least = (bursts - 1) * 9_500;
    assert!(
        (least..=bursts * 10_500).contains(&flipped),
        "{bursts} {flipped}"
    );
}

#[test]
fn slips_change_the_number_of_bits_and_nothing_else() {
    let mut bench = bench(&json!({"slips": 1e-3, "seed": 4}));
    let mut change = 0;
    for _ in 0..20 {
        let back = bench.process_one(&line(1023));
        let header = Header::parse(&back.bytes).unwrap();
        change += i64::from(header.count) - 8184;
        assert_eq!(ones(&back.bytes), 0);
        assert_eq!(
            back.bytes.len(),
            HEADER_LEN + header.count.div_ceil(8) as usize
        );
    }
    let counts = counts(&mut bench);
    let count = |name: &str| counts[name].as_i64().unwrap();
    assert_eq!(count("bits_inserted") - count("bits_deleted"), change);
    assert!(
        count("bits_inserted") > 20 && count("bits_deleted") > 20,
        "{counts}"
    );
}

#[test]
fn a_delay_moves_bits_into_the_chunks_behind() {
    // 1 us is 10312 bits: more than one chunk of 8184 bits.
    let mut bench = bench(&json!({"delay": "1us"}));
    let mut first = line(1023);
    first[HEADER_LEN] = 1;
    let dark = bench.process_one(&first);
    assert_eq!(ones(&dark.bytes), 0);
    let back = bench.process_one(&line(1023)).bytes;
    let at = 10_312 - 8184;
    assert_eq!(back[HEADER_LEN + at / 8], 1 << (at % 8));
    assert_eq!(ones(&back), 1);
}

#[test]
fn frames_and_raw_chunks_get_bit_errors_and_keep_their_length() {
    let mut bench = bench(&json!({"ber": 0.5, "slips": 0.1, "delay": "10us"}));
    let sent = chunk(Content::Raw, &[0; 1000], 1000);
    let back = bench.process_one(&sent);
    assert_eq!(back.bytes.len(), sent.len());
    assert_eq!(back.bytes[..HEADER_LEN], sent[..HEADER_LEN]);
    assert!((3700..4300).contains(&ones(&back.bytes)));
}

#[test]
fn no_chunk_is_dropped_as_malformed_and_the_rate_can_be_changed() {
    let mut bench = bench(&json!({}));
    let processed = bench.process_one(b"no chunk");
    assert_eq!(processed.verdict, Verdict::Drop(DropReason::Malformed));
    bench.nf().control(&json!({"set": {"ber": 0.25}})).unwrap();
    assert!(ones(&bench.process_one(&line(1023)).bytes) > 1500);
    for wrong in [
        json!({"set": {"ber": 2}}),
        json!({"set": 1}),
        json!({"show": "hits"}),
    ] {
        assert!(bench.nf().control(&wrong).is_err(), "{wrong}");
    }
    assert_eq!(bench.nf().report().len(), 9);
}

#[test]
fn wrong_settings_are_refused_with_a_repair() {
    for (config, words) in [
        (json!({"ber": 0.6}), "0 to 0.5"),
        (json!({"ber": -1}), "ber is -1"),
        (json!({"slips": 1}), "slips is 1"),
        (json!({"error_bursts": {"rate": 0.1, "bits": 0}}), "1 to"),
        (
            json!({"error_bursts": {"rate": 0.7, "bits": 1}}),
            "error_bursts.rate",
        ),
        (json!({"error_bursts": {"rate": 0.1}}), "bits"),
        (json!({"delay": "1s"}), "at most 1ms"),
        (json!({"loss": 1}), "loss"),
    ] {
        let errors = NfBench::new(&KIND, &config, &["out"]).unwrap_err();
        let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(
            text.iter().any(|text| text.contains(words)),
            "{words}: {text:?}"
        );
    }
}

#[test]
fn settings_have_limits_on_either_side() {
    let is_right = |config: &Value| NfBench::new(&KIND, config, &["out"]).is_ok();
    for (right, wrong) in [
        (json!({"ber": 0.5}), json!({"ber": 0.5_f64.next_up()})),
        (json!({"slips": 0}), json!({"slips": 0_f64.next_down()})),
        (
            json!({"error_bursts": {"rate": 0.5, "bits": 1_000_000}}),
            json!({"error_bursts": {"rate": 0.5, "bits": 1_000_001}}),
        ),
        (
            json!({"error_bursts": {"rate": 0, "bits": 1}}),
            json!({"error_bursts": {"rate": 0, "bits": 0}}),
        ),
        (json!({"delay": "1ms"}), json!({"delay": "1000001ns"})),
    ] {
        assert!(is_right(&right), "{right}");
        assert!(!is_right(&wrong), "{wrong}");
    }
    let both = json!({"show": "counts", "set": {"ber": 1e-4}});
    assert!(
        bench(&json!({})).nf().control(&both).is_err(),
        "one at a time"
    );
}

#[test]
fn a_full_buffer_takes_no_bit_more() {
    // All 1920 octets that a buffer of 2 KiB has behind headroom and header.
    let full = line(1920);
    let mut bench = bench(&json!({"slips": 0.01, "seed": 2}));
    for _ in 0..20 {
        let back = bench.process_one(&full);
        let header = Header::parse(&back.bytes).unwrap();
        assert!(back.bytes.len() <= full.len() && header.count <= 8 * 1920);
    }
    let counts = counts(&mut bench);
    assert!(counts["bits_inserted"].as_u64() < counts["bits_deleted"].as_u64());
}

#[test]
fn the_last_bit_of_a_full_buffer_can_be_taken() {
    // One bit is left of its 1920 octets.
    let bits = 8 * 1920 - 1;
    let nearly_full = chunk(Content::Line(Direction::Downstream), &[0; 1920], bits);
    let slipped = |seed: u64| {
        let back = bench(&json!({"slips": 1e-4, "seed": seed})).process_one(&nearly_full);
        Header::parse(&back.bytes).unwrap().count
    };
    assert_eq!((0..40).map(slipped).max(), Some(bits + 1));
}

#[test]
fn settings_that_are_left_out_are_those_of_the_reference() {
    crate::documented::assert_defaults::<Config>("l1sim", &json!({}));
}
