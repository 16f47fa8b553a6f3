//! A loop in one thread: what comes back is what was sent, and what does not is counted.

use std::time::Instant;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::loop_bench::{Counts, LoopBench};
use crate::{l1sim, phy};
use catena_engine::nf::{BuiltNf, Burst, DropReason, Nf, NfKind, NfPlan};

fn run(port: &Value, nfs: &[(&NfKind, Value)]) -> Counts {
    LoopBench::new(port, nfs).run()
}

#[test]
fn every_frame_comes_back_whole_in_either_direction() {
    for direction in ["downstream", "upstream"] {
        let port = json!({"chunk": "8KiB", "count": 50, "size": [60, 1514, 200]});
        let mut chain = LoopBench::whole(&port, direction, &json!({}), &json!({"ber": 1e-4}));
        let counts = chain.run();
        assert_eq!(counts["chunks"], 50, "{direction}");
        assert!(counts["frames"] > 250, "{direction}: {counts:?}");
        assert_eq!(counts["frames_returned"], counts["frames"], "{direction}");
        for name in [
            "frames_lost",
            "frames_corrupted",
            "frames_duplicated",
            "bit_errors",
        ] {
            assert_eq!(counts[name], 0, "{direction}: {name}");
        }
        assert_eq!(counts["octets_returned"], counts["octets"]);
        assert_eq!(counts["chunks_measured"], 50);
        assert!(counts["latency_ns_p50"] > 0 && counts["line_bps"] > 0);
        let (sent, line, received) = (chain.counts(0), chain.counts(1), chain.counts(2));
        assert_eq!(sent["frames"], counts["frames"], "{direction}");
        assert_eq!(received["frames"], counts["frames"], "{direction}");
        assert!(line["bit_errors"] > 0 && received["symbols_corrected"] > 0);
        assert_eq!(received["codewords_uncorrectable"], 0);
    }
}

#[test]
fn chunks_find_room_behind_links_that_copy() {
    for (direction, chunk) in [
        ("downstream", "1KiB"),
        ("downstream", "16KiB"),
        ("upstream", "1KiB"),
        ("upstream", "16KiB"),
    ] {
        let port = json!({"chunk": chunk, "count": 30, "size": [60, 500]});
        let mut chain = LoopBench::whole(&port, direction, &json!({}), &json!({"ber": 1e-5}));
        chain.copies_chunks = true;
        let counts = chain.run();
        assert_eq!(chain.dropped, [], "{direction} {chunk}");
        assert_eq!(
            (counts["frames_lost"], counts["chunks_lost"]),
            (0, 0),
            "{direction} {chunk}"
        );
    }
}

/// Keeps its hundredth packet, as a machine does that runs something else.
struct Staller {
    packets: u64,
}

const STALL: Duration = Duration::from_millis(20);

impl Nf for Staller {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        self.packets += burst.len() as u64;
        if self.packets == 100 {
            let start = Instant::now();
            while start.elapsed() < STALL {
                std::hint::spin_loop();
            }
        }
    }
}

const STALLER: NfKind = NfKind {
    name: "staller",
    summary: "Keeps its hundredth packet",
    example: "{}",
    schema: || schemars::schema_for!(()),
    plan: |_, _| Ok(NfPlan::new()),
    build: |_, _| Ok(BuiltNf::new(Staller { packets: 0 })),
};

#[test]
fn stalls_are_told_from_the_latency_of_the_chain() {
    let phy = |role: &str, direction: &str| json!({"role": role, "direction": direction});
    let nfs = [
        (&phy::KIND, phy("olt", "transmit")),
        (&l1sim::KIND, json!({})),
        (&STALLER, json!({})),
        (&phy::KIND, phy("onu", "receive")),
    ];
    let port = json!({"chunk": "1KiB", "count": 300, "size": 200});
    let mut chain = LoopBench::new(&port, &nfs);
    let counts = chain.run();
    let stall_ns = STALL.as_nanos() as u64;
    // The machine may have had more of them.
    assert!((1..100).contains(&counts["chunks_stalled"]), "{counts:?}");
    assert!(counts["stalled_ns"] > stall_ns / 10 * 9, "{counts:?}");
    assert!(counts["latency_ns_max"] >= stall_ns / 10 * 9);
    assert!(counts["clean_latency_ns_max"] < counts["latency_ns_max"]);
    assert!(counts["clean_latency_ns_p90"] > 0 && counts["net_latency_ns_p90"] > 0);
    // The wait in front of the receiver was too long, and that is where it is counted.
    assert!(chain.counts(3)["stalls"] >= 1);
    assert!(chain.counts(3)["stalled_ns"] > stall_ns / 10 * 9);
}

#[test]
fn times_of_the_first_chunks_are_not_counted_and_their_frames_are() {
    let port = json!({"chunk": "1KiB", "count": 10, "warm_up": 4, "size": 200});
    let counts = LoopBench::whole(&port, "downstream", &json!({}), &json!({})).run();
    assert_eq!((counts["chunks_measured"], counts["chunks"]), (6, 10));
    assert_eq!(counts["frames_returned"], counts["frames"]);
}

#[test]
fn a_single_frame_larger_than_a_chunk_crosses_over() {
    let port = json!({"chunk": "1023B", "count": 40, "size": 1996});
    let counts = LoopBench::whole(&port, "downstream", &json!({}), &json!({})).run();
    // 40 chunks of 840 octets, 2020 for each frame.
    assert_eq!(
        (counts["frames"], counts["frames_lost"]),
        (16, 0),
        "{counts:?}"
    );
}

#[test]
fn raw_chunks_pass_a_chain_without_coding_and_bit_errors_are_seen() {
    let port = json!({"chunk": "128KiB", "payload": "raw", "count": 20});
    let onu = json!({"role": "onu", "direction": "receive", "pcs": false});
    let olt = json!({"role": "olt", "direction": "transmit", "pcs": false});
    let chain = |line: Value| {
        let mut chain = LoopBench::new(
            &port,
            &[
                (&phy::KIND, olt.clone()),
                (&l1sim::KIND, line),
                (&phy::KIND, onu.clone()),
            ],
        );
        let counts = chain.run();
        (counts, chain.counts(1))
    };
    let (counts, _) = chain(json!({}));
    assert_eq!((counts["chunks_returned"], counts["bit_errors"]), (20, 0));
    assert_eq!(counts["octets_compared"], 20 * 130_944);
    let (counts, line) = chain(json!({"ber": 1e-5}));
    assert!(counts["bit_errors"] > 100, "{counts:?}");
    assert_eq!(counts["bit_errors"], line["bit_errors"]);
}

#[test]
fn errors_in_frames_that_nothing_protects_are_counted() {
    let port = json!({"chunk": "8KiB", "count": 200, "size": 600});
    let counts = run(&port, &[(&l1sim::KIND, json!({"ber": 1e-6}))]);
    let seen = counts["frames_corrupted"] + counts["chunks_malformed"];
    assert!(seen > 0 && counts["bit_errors"] > 0, "{counts:?}");
}

#[test]
fn chunks_that_do_not_come_back_are_lost_and_the_loop_goes_on() {
    let port = json!({"chunk": "1KiB", "count": 5, "lead": 0, "tail": 2, "timeout": "1ms"});
    // Nothing passes: frames are no line bits.
    let mut chain = LoopBench::new(
        &port,
        &[(&phy::KIND, json!({"role": "onu", "direction": "receive"}))],
    );
    let counts = chain.run();
    assert_eq!(chain.dropped, [DropReason::Malformed; 7]);
    assert_eq!(chain.counts(0)["chunks_malformed"], 7);
    assert_eq!((counts["chunks_lost"], counts["chunks_returned"]), (7, 0));
    assert_eq!(counts["frames_lost"], counts["frames"]);
}

#[test]
fn a_chunk_larger_than_any_buffer_is_an_error_with_a_repair() {
    let config = Config::parse(&json!({"chunk": "1MiB"})).unwrap();
    let rate = TickRate::from_ns_per_tick(1.0);
    let port = PktGenRcv::new(&config, rate, None);
    let mut bench = catena_port::port_bench::PortBench::new(Box::new(port));
    assert_eq!(bench.rx(64).state, RxState::Failed);
    let mut port = PktGenRcv::new(&config, rate, None);
    port.sending.set_too_large();
    let error = port.close().unwrap_err().to_string();
    assert!(error.contains("run.buffers"), "{error}");
}

#[test]
fn wrong_settings_are_refused_with_a_repair() {
    let refused = |config: Value| {
        let errors = (KIND.check)(&config).unwrap_err();
        assert!(errors.iter().all(|e| !e.message.is_empty()), "{errors:?}");
        errors[0].to_string()
    };
    for (config, words) in [
        (json!({"chunk": "1000B"}), "1023"),
        (json!({"chunk": "1GiB"}), "such as 8KiB"),
        (json!({"size": 20}), "60"),
        (json!({"size": []}), "1 to 64"),
        (json!({"size": [64, 17_000]}), "17000"),
        (json!({"size": "big"}), "lengths of frames"),
        (json!({"window": 0}), "1 to 256"),
        (json!({"rate": "fast"}), "sustained"),
        (json!({"timeout": "1us"}), "1ms to 60s"),
        (json!({"chunks": 1}), "chunks"),
    ] {
        let error = refused(config);
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn chunks_at_a_rate_are_due_at_even_times_and_late_ones_count_from_then() {
    let port = json!({"chunk": "8KiB", "rate": "20kpps", "count": 40, "window": 2});
    let counts = LoopBench::whole(&port, "downstream", &json!({}), &json!({})).run();
    assert_eq!((counts["chunks"], counts["frames_lost"]), (40, 0));
    // 39 intervals of 50 us, within the time that the last one takes.
    let bits = 40_u64 * 32 * 2046;
    let span_ns = bits * 1_000_000_000 / counts["line_bps"];
    assert!(span_ns >= 39 * 50_000, "{counts:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Method: any chain of chunks, at errors that the code corrects, delivers every frame once.
    #[test]
    fn frames_in_are_frames_out_at_any_correctable_error_rate(
        groups in prop::sample::select(vec![1_u32, 2, 3, 8, 16, 40]),
        exponent in 4.0..9.0_f64,
        sizes in prop::collection::vec(60_u16..1997, 1..5),
        window in 1_u16..4,
        seed in any::<u64>(),
        delay_ns in prop::sample::select(vec![0_u64, 97, 5000, 40_001]),
        is_upstream in any::<bool>(),
    ) {
        let octets = groups * 1023;
        let port = json!({
            "chunk": format!("{octets}B"), "count": 12, "size": sizes, "window": window,
        });
        let line = json!({
            "ber": 10_f64.powf(-exponent), "seed": seed,
            "delay": format!("{}ns", if is_upstream { 0 } else { delay_ns }),
        });
        let direction = if is_upstream { "upstream" } else { "downstream" };
        let mut chain = LoopBench::whole(&port, direction, &json!({}), &line);
        let counts = chain.run();
        prop_assert_eq!(chain.counts(2)["codewords_uncorrectable"], 0);
        prop_assert_eq!(counts["frames_returned"], counts["frames"], "{:?}", counts);
        prop_assert_eq!(counts["frames_corrupted"] + counts["frames_reordered"], 0);
        prop_assert_eq!(counts["octets_returned"], counts["octets"]);
    }

    /// Method: slips and error bursts take frames away; what is left is whole and counted once, by
    /// sender, PHYs and receiver alike.
    #[test]
    fn whatever_the_line_does_no_wrong_frame_comes_back_and_every_one_is_counted(
        groups in prop::sample::select(vec![1_u32, 8, 16]),
        slips in prop::sample::select(vec![0.0, 1e-6, 2e-5]),
        bursts in prop::sample::select(vec![0.0, 1e-5]),
        seed in any::<u64>(),
        is_upstream in any::<bool>(),
    ) {
        let octets = groups * 1023;
        let port = json!({"chunk": format!("{octets}B"), "count": 60, "size": [60, 700]});
        let line = json!({
            "slips": slips, "seed": seed, "error_bursts": {"rate": bursts, "bits": 400},
        });
        let direction = if is_upstream { "upstream" } else { "downstream" };
        let mut chain = LoopBench::whole(&port, direction, &json!({}), &line);
        let counts = chain.run();
        prop_assert_eq!(counts["frames_corrupted"] + counts["frames_duplicated"], 0);
        prop_assert_eq!(counts["frames_returned"] + counts["frames_lost"], counts["frames"]);
        let received = chain.counts(2);
        prop_assert_eq!(received["frames"], counts["frames_returned"]);
        prop_assert_eq!(counts["chunks_lost"], 0);
        if slips == 0.0 && bursts == 0.0 {
            prop_assert_eq!(counts["frames_lost"], 0);
        }
    }
}
