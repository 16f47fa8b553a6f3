//! Courses of successors that do not come up: their neighbours would wait for them for ever.

use std::time::Duration;

use super::courses::{has_its_course, line};
use super::histories::History;
use super::{Deed, living, with};
use crate::supervisor::Event;
use crate::supervisor::instance::State;

/// Simulated time.
fn passed() -> Duration {
    with(|world| world.passed).unwrap_or_default()
}

/// Lives until a worker has ended, which takes the supervisor's patience with those that begin
/// (30 s), and not much more.
fn await_end(history: &mut History<'_>, process: u32) {
    let begun = passed();
    while living().contains(&process) {
        history.supervisor().step(Duration::from_millis(50), &[]);
        let lasted = passed() - begun;
        assert!(lasted < Duration::from_secs(60), "it was left alone");
    }
}

/// Kills `node`, whose successor hangs in `phase`; the next one serves.
fn hangs_as_successor(history: &mut History<'_>, node: &str, phase: State) {
    let worker = history.worker_of(node);
    let epoch = history.supervisor().instances[worker].epoch;
    history.kill(node);
    let is_there = |history: &mut History<'_>| {
        let instance = &history.supervisor().instances[worker];
        instance.epoch == epoch + 1 && instance.state == phase
    };
    let begun = passed();
    while !is_there(history) {
        history.steps(1);
        let lasted = passed() - begun;
        assert!(lasted < Duration::from_secs(10), "it was never {phase:?}");
    }
    let successor = history.process_of(node);
    with(|world| world.act(Deed::Hang(successor)));
    await_end(history, successor);
    let is_back = |history: &mut History<'_>| {
        let instance = &history.supervisor().instances[worker];
        instance.epoch > epoch + 1 && instance.state == State::Running
    };
    let begun = passed();
    while !is_back(history) {
        history.steps(1);
        let lasted = passed() - begun;
        assert!(lasted < Duration::from_secs(10), "nobody came after it");
    }
}

#[test]
fn a_successor_that_hangs_before_it_runs_is_replaced() {
    for node in ["a", "in", "out"] {
        for phase in [State::Starting, State::Making] {
            has_its_course(
                &line(&[("a", "count"), ("b", "count")]),
                |history, order| {
                    history.steps(9 + usize::try_from(order).unwrap());
                    hangs_as_successor(history, node, phase);
                    let events = history.supervisor().events.iter();
                    let mut ended = events.filter(|event| matches!(event, Event::Detached { .. }));
                    assert!(ended.any(|event| format!("{event:?}").contains("did not come up")));
                    Ok(())
                },
            );
        }
    }
}
