//! What a PHY refuses: each limit by itself, on both sides of it.

use catena_engine::nf_bench::NfBench;
use catena_pcs::params::Params;
use catena_pcs::stage::{Direction, Transmit};
use serde_json::{Value, json};

use super::tests::{line_chunk, report};
use super::*;
use crate::chunk::{Content, HEADER_LEN, Header, frame_header};

const SENDER: (&str, &str) = ("onu", "transmit");
const RECEIVER: (&str, &str) = ("onu", "receive");

fn is_right((role, direction): (&str, &str), key: &str, value: &Value) -> bool {
    let config = json!({"role": role, "direction": direction, key: value});
    NfBench::new(&KIND, &config, &["out"]).is_ok()
}

#[test]
fn settings_have_limits_on_either_side() {
    for (of, key, least, most) in [
        (RECEIVER, "max_frame", 64, 16_384),
        (SENDER, "sync_blocks", 1, 1024),
        (SENDER, "delay_bound", 1, 4096),
        (RECEIVER, "lock_codewords", 1, 16),
        (RECEIVER, "loss_codewords", 1, 255),
        (RECEIVER, "ber_window", 1, 65_535),
        (RECEIVER, "ber_limit", 1, 65_535),
    ] {
        for (value, right) in [
            (least, true),
            (most, true),
            (least - 1, false),
            (most + 1, false),
        ] {
            assert_eq!(is_right(of, key, &json!(value)), right, "{key} {value}");
        }
    }
}

#[test]
fn each_setting_belongs_to_an_end_and_a_direction() {
    let olt = ["transmit", "receive"].map(|direction| ("olt", direction));
    for (key, value, whose) in [
        ("llid", json!(1), vec![SENDER, RECEIVER]),
        ("sync_blocks", json!(9), vec![SENDER]),
        ("delay_bound", json!(9), vec![SENDER]),
        ("lock_codewords", json!(9), vec![RECEIVER]),
        ("loss_codewords", json!(9), vec![RECEIVER, olt[1]]),
        ("ber_window", json!(9), vec![RECEIVER, olt[1]]),
        ("ber_limit", json!(9), vec![RECEIVER, olt[1]]),
        ("ber_withholds", json!(true), vec![RECEIVER, olt[1]]),
    ] {
        for of in [SENDER, RECEIVER, olt[0], olt[1]] {
            assert_eq!(
                is_right(of, key, &value),
                whose.contains(&of),
                "{key} {of:?}"
            );
        }
    }
}

#[test]
fn a_chunk_of_line_bits_fits_its_buffer_or_is_refused() {
    // 2 KiB less headroom and header are 1920 octets: seven codewords are 1791.
    for (codewords, wanted) in [
        (7, Verdict::Output(0)),
        (8, Verdict::Drop(DropReason::TooLarge)),
    ] {
        let config = json!({"role": "olt", "direction": "transmit"});
        let mut bench = NfBench::new(&KIND, &config, &["out"]).unwrap();
        let mut chunk = vec![0; HEADER_LEN + 1000];
        let header = Header {
            content: Content::Frames,
            trial: 0,
            bit: 0,
            codewords,
            number: 0,
            count: 0,
            due: 0,
        };
        header.write(&mut chunk);
        assert_eq!(bench.process_one(&chunk).verdict, wanted, "{codewords}");
    }
}

#[test]
fn frames_that_a_transmitter_cannot_hold_yet_follow_in_their_chunk() {
    let config = json!({"role": "olt", "direction": "transmit"});
    let mut olt = NfBench::new(&KIND, &config, &["out"]).unwrap();
    // 700 frames of 100 octets take 402 of 512 codewords; a transmitter holds 64 KiB.
    let mut chunk = vec![0; HEADER_LEN];
    let header = Header {
        content: Content::Frames,
        trial: 0,
        bit: 0,
        codewords: 512,
        number: 0,
        count: 700,
        due: 0,
    };
    header.write(&mut chunk);
    let list = [&frame_header(100, 1)[..], &[5; 100]].concat().repeat(700);
    chunk.extend(list);
    assert_eq!(olt.process_one(&chunk).verdict, Verdict::Output(0));
    let counts = report(&mut olt);
    assert_eq!((counts["frames"], counts["frames_overfull"]), (700, 0));
}

#[test]
fn a_frame_that_no_chunk_holds_is_refused_and_the_next_one_passes() {
    let params = Params::default();
    let mut sender = fast::Transmitter::new(Direction::Downstream, params, Simd::best());
    let mut line = vec![0; 4 * 1023];
    let at = sender.pull(&mut line[..1023], 0);
    // One is longer than the 1920 octets of a buffer of 2 KiB.
    sender.push(&[1; 1996], 1).unwrap();
    sender.push(&[2; 100], 1).unwrap();
    sender.pull(&mut line, at);
    let config = json!({"role": "onu", "direction": "receive"});
    let mut onu = NfBench::new(&KIND, &config, &["out"]).unwrap();
    let mut came = 0;
    for piece in line.chunks(1023) {
        let back = onu.process_one(&line_chunk(Direction::Downstream, piece, 8184));
        assert_eq!(back.verdict, Verdict::Output(0));
        came += Header::parse(&back.bytes).unwrap().count;
    }
    let counts = report(&mut onu);
    assert_eq!(
        (counts["frames"], counts["frames_refused"], came),
        (2, 1, 1)
    );
}

#[test]
fn settings_that_are_left_out_are_those_of_the_reference() {
    let named = crate::documented::defaults("epon_phy");
    assert!(named.len() > 6, "{named:?}");
    for ((role, direction), wrong_here) in [
        (
            SENDER,
            &[
                "lock_codewords",
                "loss_codewords",
                "ber_window",
                "ber_limit",
                "ber_withholds",
            ][..],
        ),
        (RECEIVER, &["sync_blocks"]),
    ] {
        let left_out = json!({"role": role, "direction": direction});
        let mut written = left_out.clone();
        let fits = |name: &String| !wrong_here.contains(&name.as_str());
        let fitting = named.iter().filter(|(name, _)| fits(name));
        let fitting = fitting.map(|(name, value)| (name.clone(), value.clone()));
        written.as_object_mut().unwrap().extend(fitting);
        let [left_out, written] = [left_out, written].map(|config| Config::parse(&config).unwrap());
        assert_eq!(left_out.params(), written.params(), "{role} {direction}");
        assert_eq!(
            (left_out.pcs, left_out.implementation),
            (written.pcs, written.implementation)
        );
    }
}
