//! Limits of the loop's two ends, each by itself and on both sides of it.

use serde_json::{Value, json};

use super::arriving::Arriving;
use super::config::Config;
use super::filling::{HEADERS_LEN, Pattern};
use super::sending::{Next, Sending};
use super::*;
use crate::chunk::{Content, FRAME_HEADER_LEN, HEADER_LEN, Header, frame_header};
use crate::loop_bench::LoopBench;
use catena_measure::stamp::{STAMP_LEN, Stamp};
use catena_pcs::stage::Direction;

/// A tick is a nanosecond.
fn rate() -> TickRate {
    TickRate::from_ns_per_tick(1.0)
}

fn ends(config: &Value) -> (Sending, Arriving) {
    let config = Config::parse(config).unwrap();
    (
        Sending::new(&config, rate()),
        Arriving::new(&config, rate()),
    )
}

fn header(content: Content, number: u32, count: u32) -> Header {
    Header {
        content,
        trial: 0,
        bit: 0,
        codewords: 4,
        number,
        count,
        due: 0,
    }
}

#[test]
fn settings_have_limits_on_either_side() {
    for (key, right, wrong) in [
        ("chunk", json!("1023B"), json!("1022B")),
        ("chunk", json!("4194300B"), json!("4195323B")),
        ("size", json!(60), json!(59)),
        ("size", json!(16_380), json!(16_381)),
        ("size", json!([60]), json!([])),
        ("size", json!(vec![60; 64]), json!(vec![60; 65])),
        ("window", json!(1), json!(0)),
        ("window", json!(256), json!(257)),
        ("timeout", json!("1ms"), json!("999999ns")),
        ("timeout", json!("60s"), json!("60000000001ns")),
    ] {
        assert!(
            Config::parse(&json!({key: right.clone()})).is_ok(),
            "{key} {right}"
        );
        assert!(
            Config::parse(&json!({key: wrong.clone()})).is_err(),
            "{key} {wrong}"
        );
    }
}

#[test]
fn a_chunk_is_lost_when_its_time_is_over_and_not_before() {
    let (_, mut arriving) = ends(&json!({"timeout": "1ms"}));
    arriving.expect(&header(Content::Frames, 0, 0), 500, false);
    arriving.give_up(1_000_500);
    assert_eq!((arriving.under_way(), arriving.counts.lost), (1, 0));
    arriving.give_up(1_000_501);
    assert_eq!((arriving.under_way(), arriving.counts.lost), (0, 1));
}

#[test]
fn chunks_of_others_and_line_bits_are_not_what_was_sent() {
    let (_, mut arriving) = ends(&json!({}));
    let mut chunk = [0; HEADER_LEN];
    let own = header(Content::Frames, 7, 0);
    arriving.expect(&own, 0, false);
    Header { trial: 1, ..own }.write(&mut chunk);
    arriving.take(&chunk, 1, 1);
    assert_eq!((arriving.counts.foreign, arriving.under_way()), (1, 1));
    header(Content::Line(Direction::Downstream), 7, 0).write(&mut chunk);
    arriving.take(&chunk, 1, 1);
    assert_eq!((arriving.counts.malformed, arriving.counts.foreign), (1, 1));
}

/// What counts as back and as corrupted of a frame of `len` octets with this stamp, where frames
/// of `size` were sent.
fn judged(size: u16, len: usize, trial: u8, flow: u8) -> (u64, u64) {
    let (_, mut arriving) = ends(&json!({"size": size, "verify": false}));
    take(&mut arriving, len, trial, flow);
    (arriving.counts.frames, arriving.counts.corrupted)
}

fn take(arriving: &mut Arriving, len: usize, trial: u8, flow: u8) {
    take_frame(arriving, vec![0; len], trial, flow);
}

fn take_frame(arriving: &mut Arriving, mut frame: Vec<u8>, trial: u8, flow: u8) {
    let len = frame.len();
    let stamp = Stamp {
        trial,
        flow: flow.into(),
        sequence: 0,
        intended: 0,
        late: 0,
    };
    stamp.write(&mut frame);
    let mut chunk = vec![0; HEADER_LEN];
    header(Content::Frames, 0, 1).write(&mut chunk);
    chunk.extend(frame_header(len as u16, 1));
    chunk.extend(frame);
    assert_eq!(chunk.len(), HEADER_LEN + FRAME_HEADER_LEN + len);
    arriving.take(&chunk, 1, 1);
}

#[test]
fn a_frame_is_back_if_its_stamp_is_of_this_trial_and_behind_whole_headers() {
    let least = HEADERS_LEN + STAMP_LEN;
    assert_eq!(judged(60, least, 0, 0), (1, 0));
    assert_eq!(judged(60, least - 1, 0, 0), (0, 1), "short");
    assert_eq!(judged(60, 60, 1, 0), (0, 1), "another trial");
    assert_eq!(judged(60, 60, 0, 1), (0, 1), "another flow");
    let (_, mut arriving) = ends(&json!({"size": 60}));
    take(&mut arriving, 61, 0, 0);
    let counts = &arriving.counts;
    assert_eq!(
        (counts.corrupted, counts.octets_compared),
        (1, 0),
        "of another length"
    );
}

#[test]
fn no_more_chunks_are_under_way_than_the_window_has() {
    let (mut sending, mut arriving) = ends(&json!({"window": 2, "lead": 0}));
    for number in 0..2 {
        // The first frame waits for what is under way, later ones for the window only.
        let next = sending.next(0, &arriving);
        assert_eq!(next, Next::Chunk, "{number}");
        arriving.expect(&header(Content::Frames, number, 0), 0, false);
    }
    assert_eq!(sending.next(0, &arriving), Next::Wait);
}

#[test]
fn the_first_frame_waits_for_the_lead_to_come_home() {
    let (mut sending, mut arriving) = ends(&json!({"window": 4, "lead": 0}));
    arriving.expect(&header(Content::Frames, 0, 0), 0, false);
    assert_eq!(sending.next(0, &arriving), Next::Wait);
    let port = json!({"chunk": "1023B", "count": 1, "lead": 3, "tail": 0});
    let counts = LoopBench::new(&port, &[]).run();
    assert_eq!((counts["chunks_idle"], counts["chunks"]), (3, 1));
}

#[test]
fn chunks_at_a_rate_go_when_they_are_due_until_the_duration_is_over() {
    let port = json!({"lead": 0, "tail": 3, "rate": "1Mpps", "duration": "10us"});
    let (mut sending, arriving) = ends(&port);
    assert_eq!(sending.next(0, &arriving), Next::Chunk);
    sending.counts.chunks = 5;
    assert_eq!(sending.next(4_999, &arriving), Next::At(5_000));
    assert_eq!(sending.next(5_000, &arriving), Next::Chunk);
    sending.counts.chunks = 9;
    assert_eq!(sending.next(20_000, &arriving), Next::Chunk);
    sending.counts.chunks = 10;
    // No tail where no frame is missing.
    assert_eq!(sending.next(20_000, &arriving), Next::End);
}

#[test]
fn a_frame_that_fills_a_chunk_to_the_octet_goes_in_it() {
    // Four codewords of 216 octets less 24; 24 go around a frame.
    let port = json!({"chunk": "1023B", "count": 10, "size": 816});
    let counts = LoopBench::new(&port, &[]).run();
    assert_eq!((counts["frames"], counts["chunks"]), (10, 10));
    // Of one octet more, nine go in ten chunks.
    let port = json!({"chunk": "1023B", "count": 10, "size": 817});
    assert_eq!(LoopBench::new(&port, &[]).run()["frames"], 9);
}

#[test]
fn the_tail_waits_for_what_is_under_way() {
    let (mut sending, mut arriving) = ends(&json!({"window": 4, "lead": 0, "count": 1}));
    assert_eq!(sending.next(0, &arriving), Next::Chunk);
    sending.counts.chunks = 1;
    arriving.expect(&header(Content::Frames, 0, 0), 0, false);
    assert_eq!(sending.next(0, &arriving), Next::Wait);
}

#[test]
fn buffers_have_room_for_line_bits_and_what_may_stand_around_them() {
    for (port, len) in [
        (json!({"chunk": "1023B"}), 64 + 1_023 + 2_048),
        (json!({"chunk": "1023B", "payload": "raw"}), 64 + 1_023),
        // A frame of 16,380 octets and the four in front of it.
        (
            json!({"chunk": "1023B", "size": 16_380}),
            64 + 1_023 + 16_384,
        ),
    ] {
        assert_eq!(ends(&port).0.buffer_len(), len, "{port}");
    }
}

#[test]
fn no_more_chunks_come_than_there_is_room_for_and_each_has_its_length() {
    let config = Config::parse(&json!({"chunk": "1023B", "window": 8, "lead": 8})).unwrap();
    let port = PktGenRcv::new(&config, rate(), None);
    let mut bench = catena_port::port_bench::PortBench::new(Box::new(port));
    let received = bench.rx(2);
    let lens: Vec<usize> = received.packets.iter().map(Vec::len).collect();
    assert_eq!((lens, received.state), (vec![64 + 1_023; 2], RxState::More));
}

#[test]
fn a_chunk_stalls_no_longer_than_it_was_under_way() {
    let (_, mut arriving) = ends(&json!({}));
    let own = header(Content::Frames, 0, 0);
    arriving.expect(&own, 0, true);
    let mut chunk = [0; HEADER_LEN];
    own.write(&mut chunk);
    custody::begin(&mut chunk, 0, 5_000);
    arriving.take(&chunk, 700, 700);
    assert_eq!(
        (arriving.counts.stalled, arriving.counts.stalled_ns),
        (1, 700)
    );
}

#[test]
fn one_wrong_bit_corrupts_a_frame() {
    for (wrong, corrupted) in [(0_u8, 0), (1, 1)] {
        let (_, mut arriving) = ends(&json!({"size": 60}));
        let filled = 60 - HEADERS_LEN - STAMP_LEN;
        let mut frame = vec![0; 60];
        frame[HEADERS_LEN..HEADERS_LEN + filled]
            .copy_from_slice(Pattern::new().of_frame(0, filled));
        frame[HEADERS_LEN] ^= wrong;
        take_frame(&mut arriving, frame, 0, 0);
        let counts = &arriving.counts;
        assert_eq!(
            (counts.corrupted, counts.bit_errors),
            (corrupted, corrupted)
        );
        assert_eq!(counts.octets_compared, filled as u64);
    }
}

#[test]
fn a_plot_has_65536_points_at_most() {
    let (_, mut arriving) = ends(&json!({"verify": false}));
    let mut chunk = [0; HEADER_LEN];
    let own = header(Content::Frames, 0, 0);
    own.write(&mut chunk);
    for (chunks, stride) in [(65_536, 1), (65_537, 2)] {
        while arriving.counts.measured < chunks {
            arriving.expect(&own, 0, true);
            arriving.take(&chunk, 1, 1);
        }
        assert_eq!(arriving.samples().1, stride, "{chunks}");
    }
}

#[test]
fn settings_that_are_left_out_are_those_of_the_reference() {
    // Without a rate it is sustained, which has a word of its own.
    let required = json!({"rate": "sustained"});
    crate::documented::assert_defaults::<Config>("pktgenrcv", &required);
}
