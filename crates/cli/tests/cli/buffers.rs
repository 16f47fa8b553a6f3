//! Where buffers are, as a running chain says: every sample adds up, however busy it is.

use rustix::process::Signal;

use super::harness::{Place, assert_conserved, until};
use super::running::await_packets;

#[test]
fn free_and_other_buffers_are_all_there_are_at_any_time() {
    let place = Place::new();
    let text = "name: busy\n\
                ports:\n  in: { generator: { rate: max, size: 64 } }\n  out: { sink: }\n\
                nfs:\n  late: { type: delay, time: 1ms }\n  swap: { type: macswap }\n  \
                alone: { type: count }\n\
                links:\n  - in -> late\n  - late -> swap\n  \
                - { link: swap -> alone, trust: copy }\n  - alone -> out\n\
                run: { mode: process }\n";
    place.write("busy.yaml", text);
    let running = place.start("busy", &["--json", "busy.yaml"]);
    await_packets(&place, "busy");
    let (mut moved, mut held) = (false, false);
    let mut sample = || {
        let status = place.catena(&["status", "--json", "busy"]).json();
        let buffers = status["buffers"].clone();
        let count = |place: &str| buffers[place].as_u64().unwrap();
        let found = ["free", "in_flight", "held", "unread"].map(count);
        assert_eq!(found.iter().sum::<u64>(), count("allocated"), "{buffers}");
        assert_eq!(count("unread"), 0, "{buffers}");
        moved |= count("in_flight") > 0;
        held |= count("held") > 0;
        (moved && held).then_some(())
    };
    for _ in 0..40 {
        sample();
    }
    until("some are out and some are held", sample);
    let shown = place
        .catena(&["status", "busy"])
        .assert_code(0)
        .stdout
        .clone();
    let line = shown.lines().find(|line| line.starts_with("buffers: "));
    let numbers = line
        .unwrap()
        .split_whitespace()
        .filter_map(|word| word.parse().ok());
    let numbers: Vec<u64> = numbers.collect();
    assert_eq!(numbers[0], numbers[1..].iter().sum::<u64>(), "{shown}");
    running.signal(Signal::INT);
    let ended = running.end().assert_code(0).json();
    // One that was lost on the way would be among those that are held: at the end nobody holds any.
    assert_eq!(ended["buffers"]["held"], 0, "{ended:#}");
    assert_conserved(&ended);
}
