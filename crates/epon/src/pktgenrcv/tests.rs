//! A loop in one thread: what comes back is what was sent, and what does not is counted.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::loop_bench::{Counts, LoopBench};
use crate::{l1sim, phy};
use catena_engine::nf::{DropReason, NfKind};

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

/// A port whose ticks are the nanoseconds of the loop's clock.
struct ByClock(PktGenRcv);

impl Port for ByClock {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        self.0.send(burst, now.0, now)
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, now: Nanos) -> usize {
        burst.read(|bytes| self.0.arriving.take(bytes, now.0, now.0));
        burst.count()
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        self.0.counters(out);
    }
}

/// Goal: a stall is counted at whom it kept waiting, to the nanosecond, and told from the chain's
/// own time. Method: a clock on which each step takes 2 us, and one of them 20 ms: that in front of
/// the receiver of the last chunk, so that no other is late behind it.
#[test]
fn stalls_are_told_from_the_latency_of_the_chain() {
    const STEP_NS: u64 = 2_000;
    const STALL_NS: u64 = 20_000_000;
    /// Port, two PHYs, line, and port again.
    const STEPS: u64 = 5;
    let (chunks, idle) = (300, 4);
    let phy = |role: &str, direction: &str| json!({"role": role, "direction": direction});
    let nfs = [
        (&phy::KIND, phy("olt", "transmit")),
        (&l1sim::KIND, json!({})),
        (&phy::KIND, phy("onu", "receive")),
    ];
    // A chunk is due each 10 us, which is a turn.
    let port = json!({
        "chunk": "1KiB", "rate": "100kpps", "count": chunks, "lead": idle, "size": 200,
    });
    let config = Config::parse(&port).unwrap();
    let port = PktGenRcv::new(&config, TickRate::from_ns_per_tick(1.0), None);
    let last_to_receiver = STEPS * (idle + chunks - 1) + 3;
    let mut looks = 0;
    let clock = move || {
        let stalled_ns = if looks < last_to_receiver {
            0
        } else {
            STALL_NS
        };
        looks += 1;
        Nanos(STEP_NS * looks + stalled_ns)
    };
    let mut chain = LoopBench::of(Box::new(ByClock(port)), &nfs, Box::new(clock));
    let counts = chain.run();
    assert_eq!((counts["chunks"], counts["frames_lost"]), (chunks, 0));
    assert_eq!(
        (counts["chunks_stalled"], counts["stalled_ns"]),
        (1, STALL_NS)
    );
    let way_ns = (STEPS - 1) * STEP_NS;
    assert_eq!(counts["latency_ns_min"], way_ns);
    assert_eq!(counts["latency_ns_max"], way_ns + STALL_NS);
    assert_eq!(counts["clean_latency_ns_max"], way_ns);
    assert_eq!(counts["net_latency_ns_p90"], way_ns);
    for (node, stalls) in [(0, 0), (1, 0), (2, 1)] {
        let of_node = chain.counts(node);
        assert_eq!(of_node["stalls"], stalls, "{node}");
        assert_eq!(of_node["stalled_ns"], stalls * STALL_NS, "{node}");
    }
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
