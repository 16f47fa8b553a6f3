//! Courses of chains that are no line: branches, and circles through a port.

use std::time::Duration;

use super::courses::{has_its_course, line};
use super::histories::{Besides, Draft, History};
use super::{Deed, Moment, with};

/// Whose ends nobody heard of before they went.
fn unheard(history: &mut History<'_>) -> Vec<String> {
    let events = history.supervisor().events.iter();
    let events = events.map(|event| format!("{event:?}"));
    events
        .filter(|event| event.contains("goes before it has said"))
        .collect()
}

const OTHER: &[&str] = &["out2: { drain: { number: 2 } }"];

/// A line to each of two sinks behind one NF, with packets for both; the first line are `nfs`.
fn two(nfs: &[&'static str], besides: Besides) -> Draft {
    two_behind(("s", SPLIT), nfs, besides)
}

const SPLIT: &str = "classify, default: out, rules: [{ to: b, ether_type: 0x88b6 }]";
/// The same, said at more length.
const SPLIT_ANEW: &str = "classify, default: out, rules: [{ to: b, ether_type: 0x88b6 }, { to: b, \
                          ether_type: 0x88b7 }]";

fn two_behind(
    split: (&'static str, &'static str),
    nfs: &[&'static str],
    besides: Besides,
) -> Draft {
    let count = |name: &&'static str| (*name, "count");
    let nfs: Vec<_> = nfs.iter().map(count).collect();
    let nfs: Vec<_> = [split].into_iter().chain(nfs).collect();
    Draft {
        slots: 2,
        besides,
        ..line(&nfs)
    }
}

/// Each would wait until the other's old links are empty, which hold more than its own new one.
#[test]
fn changes_on_two_branches_do_not_wait_for_each_other() {
    two_branches_change(("s", SPLIT));
}

/// Which of its outputs takes what then nobody knows.
#[test]
fn changes_on_two_branches_of_a_node_that_goes_do_not_wait_for_each_other() {
    two_branches_change(("r", SPLIT));
}

/// It might have sent each packet by another output before.
#[test]
fn changes_on_two_branches_of_a_node_with_other_settings_do_not_wait_for_each_other() {
    two_branches_change(("s", SPLIT_ANEW));
}

/// Three NFs go from each of two branches, behind `split` by then.
fn two_branches_change(split: (&'static str, &'static str)) {
    let before = two(
        &["x", "y", "z", "h", "p", "e"],
        Besides {
            ports: OTHER,
            nfs: &[
                "x2: { type: count }",
                "y2: { type: count }",
                "z2: { type: count }",
                "h2: { type: count }",
                "p2: { type: count }",
                "e2: { type: count }",
            ],
            links: &[
                "s.b -> x2",
                "x2 -> y2",
                "y2 -> z2",
                "z2 -> h2",
                "h2 -> p2",
                "p2 -> e2",
                "e2 -> out2",
            ],
        },
    );
    let after = two_behind(
        split,
        &["h", "p"],
        Besides {
            ports: OTHER,
            nfs: &["h2: { type: count }", "p2: { type: count }"],
            links: match split.0 {
                "r" => &["r.b -> h2", "h2 -> p2", "p2 -> out2"],
                _ => &["s.b -> h2", "h2 -> p2", "p2 -> out2"],
            },
        },
    );
    has_its_course(&before, |history, _| {
        history.steps(9);
        with(|world| world.act(Deed::Block));
        history.steps(400);
        with(|world| world.deeds.push((Moment::In(60), Deed::Wake)));
        history.must_become(after.clone())
    });
}

/// Each port has a worker of its own.
fn of_its_own(nfs: &[(&str, &'static str)]) -> Draft {
    Draft {
        trust: "ro",
        ..line(nfs)
    }
}

/// None of them is done before the others; all have said that they hold nothing.
#[test]
fn those_that_go_in_a_circle_are_done_together() {
    let circle = Draft {
        besides: Besides {
            ports: &["p: { both: {} }"],
            nfs: &["f: { type: count }"],
            links: &["p -> f", "f -> p"],
        },
        ..of_its_own(&[("a", "count")])
    };
    has_its_course(&circle, |history, order| {
        history.steps(9 + usize::try_from(order).unwrap());
        let before = with(|world| world.passed);
        history.must_become(of_its_own(&[("a", "count")]))?;
        let after = with(|world| world.passed);
        assert!(after < before.map(|time| time + Duration::from_secs(1)));
        assert_eq!(unheard(history), [""; 0]);
        Ok(())
    });
}

/// It holds nothing itself.
#[test]
fn who_goes_behind_one_that_holds_is_not_said_to_lose_anything() {
    let slow = "delay, time: 9s, limit: 30";
    has_its_course(
        &line(&[("a", slow), ("b", "count"), ("c", "count")]),
        |history, _| {
            history.steps(30);
            history.must_become(line(&[("c", "count")]))?;
            let unheard = unheard(history);
            assert!(
                unheard.len() == 1 && unheard[0].contains("worker a goes"),
                "{unheard:?}"
            );
            Ok(())
        },
    );
}
