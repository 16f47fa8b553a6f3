//! The two halves of a PHY on their own: settings, both implementations, counters, malformed
//! chunks, and what a successor makes of a stream.

use serde_json::{Value, json};

use super::*;
use crate::chunk::{Content, HEADER_LEN, Header};
use crate::l1sim;
use crate::loop_bench::{Counts, LoopBench};
use catena_engine::nf_bench::NfBench;
use catena_pcs::params::{BLOCK_BITS, CODEWORD_BITS, Params};
use catena_pcs::stage::{Direction, Transmit};

fn loop_with(phy: &Value, direction: &str, line: &Value, count: u64) -> (Counts, [Counts; 3]) {
    let port = json!({"chunk": "2046B", "count": count, "size": [60, 300]});
    let mut chain = LoopBench::whole(&port, direction, phy, line);
    let counts = chain.run();
    (counts, [0, 1, 2].map(|index| chain.counts(index)))
}

#[test]
fn both_implementations_count_the_same() {
    for direction in ["downstream", "upstream"] {
        let run = |phy: &Value| {
            let line = json!({"ber": 2e-3, "seed": 5});
            let (port, mut nfs) = loop_with(phy, direction, &line, 20);
            // Stamps differ, and with them which bits were ones.
            let received = &mut nfs[2];
            let ones = received.remove("ones_corrected").unwrap();
            let zeros = received.remove("zeros_corrected").unwrap();
            received.insert("bits_corrected", ones + zeros);
            let names = [
                "frames",
                "frames_returned",
                "frames_lost",
                "octets_returned",
            ];
            (nfs, names.map(|name| port[name]))
        };
        let fast = run(&json!({}));
        let slow = run(&json!({"implementation": "reference"}));
        assert_eq!(fast, slow, "{direction}");
        assert!(fast.0[2]["codewords_corrected"] > 0);
    }
}

#[test]
fn uncorrectable_codewords_are_counted_exactly_and_deliver_nothing_wrong() {
    // Runs of errors far longer than 16 symbols, and far apart.
    let line = json!({"error_bursts": {"rate": 2e-6, "bits": 600}, "seed": 3});
    let (counts, [_, line, received]) = loop_with(&json!({}), "downstream", &line, 400);
    assert!(line["error_bursts"] > 5, "{line:?}");
    // Each lies in one codeword or crosses into a second one, which it may leave correctable.
    let (bursts, lost) = (line["error_bursts"], received["codewords_uncorrectable"]);
    assert!(
        (bursts..=2 * bursts).contains(&lost),
        "{bursts} bursts, {lost} codewords"
    );
    assert_eq!(
        received["blocks_invalid"] % 27,
        received["blocks_invalid"] - 27 * lost
    );
    assert!(counts["frames_lost"] > 0, "{counts:?}");
    assert_eq!(
        counts["frames_returned"] + counts["frames_lost"],
        counts["frames"]
    );
    assert_eq!(counts["frames_corrupted"], 0);
    assert_eq!((received["locks"], received["lock_losses"]), (1, 0));
}

#[test]
fn an_onu_takes_its_own_frames_and_counts_the_others() {
    let port = json!({"chunk": "8KiB", "count": 10, "size": 100, "llid": 6});
    let olt = json!({"role": "olt", "direction": "transmit"});
    let onu = |llid: u16| json!({"role": "onu", "direction": "receive", "llid": llid});
    for (llid, is_own) in [(6, true), (7, false)] {
        let nfs = [(&KIND, olt.clone()), (&KIND, onu(llid))];
        let mut chain = LoopBench::new(&port, &nfs);
        let counts = chain.run();
        let taken = if is_own { counts["frames"] } else { 0 };
        assert_eq!(counts["frames_returned"], taken);
        assert_eq!(chain.counts(1)["frames_llid"], counts["frames"] - taken);
    }
    // An ONU sends under its own.
    let onu = json!({"role": "onu", "direction": "transmit", "llid": 9});
    let olt = json!({"role": "olt", "direction": "receive"});
    let mut chain = LoopBench::new(&port, &[(&KIND, onu), (&KIND, olt)]);
    let counts = chain.run();
    assert_eq!(counts["frames_lost"], 0);
    assert_eq!(chain.counts(1)["bursts_ended"], 10);
}

#[test]
fn frames_beyond_the_limit_are_counted_and_not_sent() {
    let limit = json!({"max_frame": 500});
    let port = json!({"chunk": "8KiB", "count": 10, "size": [100, 600]});
    let mut chain = LoopBench::whole(&port, "downstream", &limit, &json!({}));
    let counts = chain.run();
    let sent = chain.counts(0);
    assert_eq!(sent["frames"] + sent["frames_oversize"], counts["frames"]);
    assert_eq!(counts["frames_lost"], sent["frames_oversize"]);
    assert!(sent["frames_oversize"] > 20);
}

#[test]
fn successors_find_lock_and_go_on() {
    for direction in ["downstream", "upstream"] {
        let port = json!({"chunk": "4092B", "count": 60, "size": 400});
        let mut chain = LoopBench::whole(&port, direction, &json!({}), &json!({}));
        let (from, to) = match direction {
            "downstream" => ("olt", "onu"),
            _ => ("onu", "olt"),
        };
        for _ in 0..20 {
            chain.turn();
        }
        chain.replace(0, &KIND, &json!({"role": from, "direction": "transmit"}));
        for _ in 0..20 {
            chain.turn();
        }
        chain.replace(2, &KIND, &json!({"role": to, "direction": "receive"}));
        let counts = chain.run();
        // What they held is gone: frames in progress, and those before the descrambler fits.
        assert!(counts["frames_lost"] < 20, "{direction}: {counts:?}");
        assert_eq!(counts["frames_corrupted"], 0);
        let state = chain.nf(2).control(&json!({"show": "counts"})).unwrap()["state"].clone();
        assert!(state == "in_step" || state == "between_bursts", "{state}");
    }
}

#[test]
fn packets_that_are_no_chunks_are_dropped_as_malformed() {
    for config in [
        json!({"role": "olt", "direction": "transmit"}),
        json!({"role": "olt", "direction": "receive"}),
    ] {
        let mut bench = NfBench::new(&KIND, &config, &["out"]).unwrap();
        for bytes in [&[0_u8; 10][..], &[0; 100], b"EPCH", &[0xff; 2000]] {
            let processed = bench.process_one(bytes);
            assert_eq!(processed.verdict, Verdict::Drop(DropReason::Malformed));
        }
        assert_eq!(bench.counter("chunks_malformed"), 4);
        assert!(bench.nf().control(&json!({"show": "hits"})).is_err());
        assert_eq!(bench.buffers_in_use(), 0);
    }
}

#[test]
fn a_function_takes_chunks_of_its_own_content_only() {
    let of = |content: Content| {
        let mut chunk = vec![0; HEADER_LEN];
        let header = Header {
            content,
            trial: 0,
            bit: 0,
            codewords: 1,
            number: 0,
            count: 0,
            due: 0,
        };
        header.write(&mut chunk);
        chunk
    };
    let contents = [
        Content::Raw,
        Content::Frames,
        Content::Line(Direction::Downstream),
        Content::Line(Direction::Upstream),
    ];
    for (role, direction, own) in [
        ("olt", "transmit", 1),
        ("onu", "transmit", 1),
        ("onu", "receive", 2),
        ("olt", "receive", 3),
    ] {
        let config = json!({"role": role, "direction": direction});
        let mut bench = NfBench::new(&KIND, &config, &["out"]).unwrap();
        for (index, content) in contents.into_iter().enumerate() {
            let found = bench.process_one(&of(content)).verdict;
            let is_refused = found == Verdict::Drop(DropReason::Malformed);
            assert_eq!(is_refused, index != own, "{role} {direction}: {content:?}");
        }
    }
}

#[test]
fn a_high_bit_error_rate_is_shown_and_withholds_frames_if_wanted() {
    let port = json!({"chunk": "8KiB", "count": 60, "size": 500, "timeout": "1ms"});
    for withholds in [false, true] {
        let phy = json!({"role": "onu", "direction": "receive", "ber_window": 20,
                         "ber_limit": 2, "ber_withholds": withholds});
        let nfs = [
            (&KIND, json!({"role": "olt", "direction": "transmit"})),
            (&l1sim::KIND, json!({"ber": 3e-3})),
            (&KIND, phy),
        ];
        let mut chain = LoopBench::new(&port, &nfs);
        let counts = chain.run();
        let receiver = chain.counts(2);
        assert!(receiver["high_ber_windows"] > 10);
        let withheld = receiver["frames_high_ber"];
        assert_eq!(withheld > counts["frames"] / 2, withholds, "{withheld}");
        let shown = chain.nf(2).control(&json!({"show": "counts"})).unwrap();
        assert_eq!(shown["high_ber"], true);
    }
}

#[test]
fn a_burst_that_its_buffer_does_not_hold_is_dropped_and_the_next_one_is_whole() {
    let port = json!({"chunk": "10KiB", "count": 4, "size": 1000});
    let long = json!({"role": "onu", "direction": "transmit", "sync_blocks": 1024});
    let olt = json!({"role": "olt", "direction": "receive"});
    let mut chain = LoopBench::new(&port, &[(&KIND, long), (&KIND, olt.clone())]);
    let counts = chain.run();
    // 8448 bytes of sync pattern leave no room for 10 KiB in 16 KiB.
    assert_eq!(chain.counts(0)["bursts_cut"], 4);
    assert_eq!(chain.dropped, [DropReason::TooLarge; 4]);
    assert_eq!(counts["frames_lost"], counts["frames"]);
}

#[test]
fn wrong_settings_are_refused_with_a_repair() {
    for (config, words) in [
        (json!({"role": "olt"}), "direction"),
        (json!({"role": "ont", "direction": "receive"}), "ont"),
        (
            json!({"role": "olt", "direction": "receive", "llid": 1}),
            "an ONU",
        ),
        (
            json!({"role": "olt", "direction": "transmit", "sync_blocks": 9}),
            "an ONU that transmits",
        ),
        (
            json!({"role": "onu", "direction": "transmit", "sync_blocks": 0}),
            "1 to 1024",
        ),
        (
            json!({"role": "onu", "direction": "receive", "lock_codewords": 17}),
            "1 to 16",
        ),
        (
            json!({"role": "onu", "direction": "transmit", "loss_codewords": 3}),
            "a receiver",
        ),
        (
            json!({"role": "olt", "direction": "receive", "ber_window": 0}),
            "1 to 65535",
        ),
        (
            json!({"role": "onu", "direction": "receive", "ber_limit": 0}),
            "1 to 65535",
        ),
        (
            json!({"role": "olt", "direction": "transmit", "ber_withholds": true}),
            "a receiver",
        ),
        (
            json!({"role": "onu", "direction": "receive", "max_frame": 63}),
            "64 to 16384",
        ),
        (
            json!({"role": "onu", "direction": "receive", "pcs": false,
                   "implementation": "reference"}),
            "nothing is coded",
        ),
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
fn without_coding_nothing_is_touched() {
    let config = json!({"role": "olt", "direction": "transmit", "pcs": false});
    let mut bench = NfBench::new(&KIND, &config, &["out"]).unwrap();
    let processed = bench.process_one(b"anything");
    assert_eq!(
        (processed.verdict, processed.bytes.as_slice()),
        (Verdict::Output(0), &b"anything"[..])
    );
    let _ = &l1sim::KIND;
}

/// A chunk of line bits.
pub(super) fn line_chunk(direction: Direction, line: &[u8], bits: usize) -> Vec<u8> {
    let mut chunk = vec![0; HEADER_LEN];
    let header = Header {
        content: Content::Line(direction),
        trial: 0,
        bit: 0,
        codewords: 0,
        number: 0,
        count: bits as u32,
        due: 0,
    };
    header.write(&mut chunk);
    chunk.extend(&line[..bits.div_ceil(8)]);
    chunk
}

pub(super) fn report(bench: &mut NfBench) -> Counts {
    bench.nf().report().into_iter().collect()
}

/// Line bits of so many codewords: idle, then a frame, then idle again.
fn stream(idle: usize, frame: &[u8], codewords: usize) -> Vec<u8> {
    let params = Params::default();
    let mut sender = fast::Transmitter::new(Direction::Downstream, params, Simd::best());
    let mut line = vec![0; (codewords * CODEWORD_BITS).div_ceil(8)];
    let reach = (idle * CODEWORD_BITS).div_ceil(8);
    let at = sender.pull(&mut line[..reach], 0);
    assert_eq!(at, idle * CODEWORD_BITS);
    sender.push(frame, 1).unwrap();
    sender.pull(&mut line, at);
    line
}

/// Method: code and scrambler are linear, so the difference of two long frames, laid over a short
/// one, flips an octet of that and leaves valid codewords. The check sequences of the long ones
/// differ far behind its end.
#[test]
fn a_frame_with_a_wrong_check_sequence_in_right_codewords_is_dropped() {
    let config = json!({"role": "onu", "direction": "receive"});
    let mut frames = [vec![0x11; 100], vec![0x22; 1400], vec![0x22; 1400]];
    frames[2][50] ^= 0x40;
    let [short, long, other] = frames.map(|frame| stream(4, &frame, 16));
    let bits = 16 * CODEWORD_BITS;
    let wrong: Vec<u8> = (0..short.len())
        .map(|at| short[at] ^ long[at] ^ other[at])
        .collect();
    for (line, is_right) in [(&short, true), (&wrong, false)] {
        let mut onu = NfBench::new(&KIND, &config, &["out"]).unwrap();
        onu.process_one(&line_chunk(Direction::Downstream, line, bits));
        let counts = report(&mut onu);
        assert_eq!(counts["codewords_uncorrectable"], 0);
        assert_eq!(counts["symbols_corrected"], 0);
        assert_eq!(counts["frames"], u64::from(is_right), "{counts:?}");
        assert_eq!(counts["frames_fcs"], u64::from(!is_right), "{counts:?}");
    }
}

#[test]
fn lock_takes_as_many_codewords_as_are_set_and_not_fewer() {
    let line = stream(8, &[0x11; 100], 12);
    for wanted in [1, 2, 5] {
        let config = json!({"role": "onu", "direction": "receive", "lock_codewords": wanted});
        for given in [wanted - 1, wanted] {
            let mut onu = NfBench::new(&KIND, &config, &["out"]).unwrap();
            let bits = given * CODEWORD_BITS;
            onu.process_one(&line_chunk(Direction::Downstream, &line, bits));
            let locks = u64::from(given == wanted);
            assert_eq!(report(&mut onu)["locks"], locks, "{given} of {wanted}");
        }
    }
}

#[test]
fn a_delimiter_may_differ_in_eleven_bits() {
    let params = Params::default();
    let (sync, most) = (params.sync_blocks, params.delimiter_errors_max as usize);
    let mut sender = fast::Transmitter::new(Direction::Upstream, params, Simd::best());
    sender.push(&[0x33; 100], 1).unwrap();
    let mut line = vec![0; 4096];
    let bits = sender.pull(&mut line, 0);
    let config = json!({"role": "olt", "direction": "receive"});
    for errors in [0, most, most + 1] {
        let mut line = line.clone();
        for error in 0..errors {
            let bit = (sync + 1) * BLOCK_BITS - 1 - 5 * error;
            line[bit / 8] ^= 1 << (bit % 8);
        }
        let mut olt = NfBench::new(&KIND, &config, &["out"]).unwrap();
        olt.process_one(&line_chunk(Direction::Upstream, &line, bits));
        let counts = report(&mut olt);
        let found = u64::from(errors <= most);
        assert_eq!(
            (counts["bursts"], counts["frames"]),
            (found, found),
            "{errors}"
        );
    }
}
