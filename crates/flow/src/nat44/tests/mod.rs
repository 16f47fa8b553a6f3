//! Tests of `nat44` as a whole: frames in, verdicts and frames out, at a time of the test's
//! choosing.

mod frames;
mod kill;
mod limits;
mod model;
mod rfc4787;
mod rfc5382;
mod rfc5508;
mod rfc6888;

use catena_engine::nf::{DropReason, Nanos, Verdict};
use catena_engine::nf_bench::NfBench;
use serde_json::{Value, json};

use super::KIND;
use super::why::Why;
use frames::Frame;

/// A second, in nanoseconds.
const S: u64 = 1_000_000_000;

/// One with two addresses outside, blocks of 64 ports, and what else `more` says.
fn config(more: Value) -> Value {
    let mut config = json!({
        "inside": ["10.0.0.0/8"], "outside": ["192.0.2.0/31"],
        "block_size": 64, "sessions": 1000, "sessions_per_subscriber": 500, "subscribers": 64,
    });
    let fields = config.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    config
}

fn bench(more: Value) -> NfBench {
    NfBench::new(&KIND, &config(more), &["outside", "inside"]).unwrap()
}

/// What comes of a frame: the output by which it leaves, and how it is then.
fn through(bench: &mut NfBench, input: u8, frame: &Frame) -> Result<(u8, Frame), Verdict> {
    let mut packets = bench.process_from(input, &[&frame.bytes()]).packets;
    let packet = packets.remove(0);
    match packet.verdict {
        Verdict::Output(output) => Ok((output, Frame::read(&packet.bytes))),
        verdict => Err(verdict),
    }
}

/// A frame from inside that must leave outside.
fn out(bench: &mut NfBench, frame: &Frame) -> Frame {
    let (output, frame) = through(bench, 0, frame).unwrap();
    assert_eq!(output, 0);
    frame
}

/// A frame from outside that must come inside.
fn back(bench: &mut NfBench, frame: &Frame) -> Frame {
    let (output, frame) = through(bench, 1, frame).unwrap();
    assert_eq!(output, 1);
    frame
}

/// That a frame is dropped for this reason.
fn dropped(bench: &mut NfBench, input: u8, frame: &Frame, why: Why) {
    let reason = DropReason::from(why);
    assert_eq!(
        through(bench, input, frame),
        Err(Verdict::Drop(reason)),
        "{why:?}"
    );
}

/// Later, with all that ends until then.
fn later(bench: &mut NfBench, seconds: u64) {
    bench.now = Nanos(bench.now.0 + seconds * S);
    let now = bench.now;
    for _ in 0..64 {
        bench.nf().tick(now);
    }
}

/// That nothing is left of any session, and no buffer is lost.
fn nothing_is_left(bench: &mut NfBench) {
    later(bench, 10_000);
    for name in [
        "sessions",
        "mappings",
        "subscribers",
        "blocks",
        "fragmented",
    ] {
        assert_eq!(bench.counter(name), 0, "{name}");
    }
    assert_eq!(bench.buffers_in_use(), 0);
}

#[test]
fn wrong_settings_are_refused_with_the_field() {
    for (more, path) in [
        (json!({"inside": []}), "inside"),
        (json!({"inside": ["10.0.0.1/8"]}), "inside[0]"),
        (json!({"outside": ["192.0.2.0/21"]}), "outside[0]"),
        (json!({"outside": ["192.0.0.0/21"]}), "outside"),
        (json!({"outside": ["10.1.1.1"]}), "outside"),
        (json!({"block_size": 100}), "block_size"),
        (json!({"blocks_per_subscriber": 9}), "blocks_per_subscriber"),
        (json!({"ports": {"first": 0, "last": 9}}), "ports"),
        (json!({"ports": {"first": 5000, "last": 5010}}), "ports"),
        (json!({"sessions": 0}), "sessions"),
        (json!({"timeouts": {"udp": "0s"}}), "timeouts.udp"),
        (json!({"filtering": "none"}), "filtering"),
    ] {
        let errors = NfBench::new(&KIND, &config(more), &[]).unwrap_err();
        assert_eq!(errors[0].path, path, "{errors:?}");
    }
}
