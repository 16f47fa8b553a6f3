//! Courses of chains that are no line: branches.

use super::courses::{has_its_course, line};
use super::histories::{Besides, Draft};
use super::{Deed, Moment, with};

const OTHER: &[&str] = &["out2: { drain: { number: 2 } }"];

/// A line to each of two sinks behind one NF, with packets for both; the first line are `nfs`.
fn two(nfs: &[&'static str], besides: Besides) -> Draft {
    let split = (
        "s",
        "classify, default: out, rules: [{ to: b, ether_type: 0x88b6 }]",
    );
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
    let after = two(
        &["h", "p"],
        Besides {
            ports: OTHER,
            nfs: &["h2: { type: count }", "p2: { type: count }"],
            links: &["s.b -> h2", "h2 -> p2", "p2 -> out2"],
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
