//! Courses of workers that die within a turn, with packets in hand.

use std::cell::Cell;

use super::courses::{has_its_course, line};
use super::histories::History;
use super::{Deed, with};

/// Packets that were killed so far.
fn killed(history: &mut History<'_>) -> u64 {
    history.supervisor().past.killed.values().sum()
}

/// They are counted, and their buffers are taken home by whoever owns them.
#[test]
fn what_a_worker_had_in_hand_is_lost_and_counted_and_its_buffers_come_home() {
    let lost = Cell::new(0);
    has_its_course(&line(&[("a", "fuse"), ("b", "count")]), |history, order| {
        history.steps(9 + usize::try_from(order).unwrap());
        let process = history.process_of("a");
        with(|world| world.act(Deed::Tear(process)));
        history.steps(60);
        lost.set(lost.get() + killed(history));
        Ok(())
    });
    assert!(lost.get() > 0, "it had none in hand in any order");
}

/// Its ledger calls them out, and nobody has them.
#[test]
fn what_a_worker_had_in_hand_is_at_home_for_an_owner_that_died_before_it_was_told() {
    let met = Cell::new(0);
    has_its_course(&line(&[("a", "fuse"), ("b", "count")]), |history, order| {
        history.steps(9 + usize::try_from(order).unwrap());
        let (process, owner) = (history.process_of("a"), history.process_of("in"));
        history.when(Deed::Kill(owner), |all| !all.reclaims.under_way.is_empty());
        with(|world| world.act(Deed::Tear(process)));
        history.steps(60);
        met.set(met.get() + usize::from(history.supervisor().past.deaths == 2));
        Ok(())
    });
    assert!(met.get() > 0, "the owner did not die in any order");
}
