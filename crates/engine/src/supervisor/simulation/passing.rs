//! Courses of packets that are on their way while their source goes.

use std::cell::Cell;

use super::courses::{has_its_course, line};
use super::histories::{Draft, History};
use super::{Deed, with};
use crate::supervisor::change::Change;

/// The source is a worker of its own.
fn of(source: &'static str, nfs: &[(&str, &'static str)]) -> Draft {
    Draft {
        source,
        trust: "ro",
        ..line(nfs)
    }
}

/// How many pools are known whose owners have left.
fn passing(history: &mut History<'_>) -> usize {
    history.supervisor().placement.passing_pools().count()
}

/// They come to it by a link that stays.
#[test]
fn whoever_is_replaced_while_a_source_goes_knows_its_packets() {
    for node in ["a", "b", "out"] {
        has_its_course(
            &of("in", &[("a", "count"), ("b", "count")]),
            |history, order| {
                history.steps(9 + usize::try_from(order).unwrap());
                let process = history.process_of(node);
                history.when(Deed::Kill(process), |all| {
                    matches!(all.change, Change::Switching(_))
                });
                let _ = history.become_what(of("other", &[("a", "count"), ("b", "count")]));
                Ok(())
            },
        );
    }
}

/// They come to it by its new link, which who stays sends by as soon as it is told to.
#[test]
fn whoever_is_new_behind_a_source_that_goes_knows_its_packets() {
    has_its_course(
        &of("in", &[("a", "count"), ("b", "count")]),
        |history, _| {
            history.steps(9);
            let long = of("other", &[("a", "count"), ("b", "count"), ("c", "count")]);
            history.must_become(long)
        },
    );
}

/// Its packets wait for longer than the change does, and nobody keeps its pools for ever.
#[test]
fn packets_of_a_source_that_has_gone_are_known_until_the_last_has_ended() {
    let waits = Cell::new(0);
    has_its_course(&of("in", &[("a", "count")]), |history, order| {
        history.steps(9 + usize::try_from(order).unwrap());
        with(|world| world.act(Deed::Block));
        history.steps(9);
        history.become_what(of("other", &[("a", "count")]))?;
        if order % 2 == 0 {
            history.become_what(of("other", &[("a", "count"), ("b", "count")]))?;
        }
        waits.set(waits.get().max(passing(history)));
        history.kill("out");
        history.steps(40);
        history.kill("a");
        history.steps(40);
        with(|world| world.act(Deed::Wake));
        for _ in 0..100_000 {
            if passing(history) == 0 {
                break;
            }
            history.steps(1);
        }
        assert_eq!(passing(history), 0);
        Ok(())
    });
    assert!(waits.get() > 0, "none was left in any order");
}

/// All are replaced then, and the chain is the new one.
#[test]
fn whoever_follows_a_supervisor_that_died_in_a_change_knows_packets_of_a_source_that_has_gone() {
    let kept = |source| Draft {
        is_kept: true,
        ..of(source, &[("a", "count")])
    };
    has_its_course(&kept("in"), |history, order| {
        with(|world| world.dies_in = None);
        history.steps(9 + usize::try_from(order).unwrap());
        with(|world| world.act(Deed::Block));
        history.steps(9);
        history.dies_in_change(kept("other"), 20 + 4 * u32::try_from(order).unwrap())?;
        with(|world| world.act(Deed::Wake));
        Ok(())
    });
}
