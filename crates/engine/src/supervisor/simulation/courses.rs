//! Histories that have gone wrong once, in as few steps as they take: who is killed, and when, is
//! written here, and the rest is left to the seed.

use std::path::Path;

use super::histories::{Draft, History, Nf};
use super::ports::{ACCOUNT, Account};
use super::{Deed, World, with};
use crate::protocol::FromWorker;
use crate::supervisor::body::Body;
use crate::supervisor::book::WrittenContainers;
use crate::supervisor::container::{Container, JOIN, Process};

/// So many are lived through, each with another order of steps.
const ORDERS: u64 = 20;

/// A line of NFs, each with its type.
fn line(kinds: &[(&str, &'static str)]) -> Draft {
    let nf = |(name, kind): &(&str, &'static str)| Nf {
        name: (*name).to_owned(),
        kind,
        on_death: "hold",
    };
    Draft {
        nfs: kinds.iter().map(nf).collect(),
        trust: "shared",
        overflow: "block",
        aggregate: "off",
        slots: 64,
        is_kept: false,
        names: 0,
    }
}

/// Has `script` happen to a chain that begins as `draft`, in several orders of steps; drains it.
fn has_its_course(draft: &Draft, script: impl Fn(&mut History<'_>, u64) -> Result<(), String>) {
    let root = tempfile::tempdir().unwrap();
    for seed in 0..ORDERS {
        let end = live(seed, root.path(), draft, &script);
        end.unwrap_or_else(|why| panic!("order {seed}: {why}"));
    }
}

fn live(
    seed: u64,
    root: &Path,
    draft: &Draft,
    script: impl Fn(&mut History<'_>, u64) -> Result<(), String>,
) -> Result<(), String> {
    World::begin(seed);
    ACCOUNT.set(Account::new(seed, 400));
    let mut history = History::of(seed, root, draft.clone());
    let end = (|| {
        history.start()?;
        script(&mut history, seed)?;
        history.drain_and_check()
    })();
    super::WORLD.take();
    end
}

impl History<'_> {
    /// The supervisor takes so many steps, and so do the others.
    fn steps(&mut self, count: usize) {
        for _ in 0..count {
            let patience = std::time::Duration::from_millis(1);
            self.supervisor().step(patience, &[]);
        }
    }

    /// The worker of a node.
    fn worker_of(&mut self, node: &str) -> usize {
        let supervisor = self.supervisor();
        let nodes = &supervisor.chain.nodes;
        let index = nodes.iter().position(|here| here.name == node).unwrap();
        supervisor.placement.worker_of[index]
    }

    /// The process that runs a node now.
    fn process_of(&mut self, node: &str) -> u32 {
        let worker = self.worker_of(node);
        let body = self.supervisor().instances[worker].body.as_ref();
        body.and_then(|body| body.pid()).expect("it lives")
    }

    /// Kills the worker of a node at once.
    fn kill(&mut self, node: &str) {
        let deed = Deed::Kill(self.process_of(node));
        with(|world| world.act(deed));
    }

    /// Has something happen to the worker of a node after so many more of the supervisor's waits.
    fn later(&mut self, looks: u64, node: &str, deed: fn(u32) -> Deed) {
        let deed = deed(self.process_of(node));
        with(|world| world.deeds.push((u32::try_from(looks).unwrap(), deed)));
    }
}

const SLOW: &str = "delay, time: 100us, limit: 30";

/// Packets of its new pool must not come to those behind it before they know that pool.
#[test]
fn a_node_that_begins_to_make_packets_is_understood_behind_it() {
    has_its_course(&line(&[("a", "count"), ("b", "count")]), |history, _| {
        history.steps(9);
        history.become_what(line(&[("a", SLOW), ("b", "count")]))
    });
}

/// Its worker keeps the pool: buffers of it are out, and what comes home must not be taken for
/// another one's.
#[test]
fn a_node_that_makes_packets_no_more_and_then_again_frees_none_twice() {
    has_its_course(&line(&[("a", SLOW), ("b", "count")]), |history, _| {
        for kind in ["count", SLOW, "count", SLOW] {
            history.steps(9);
            history.become_what(line(&[("a", kind), ("b", "count")]))?;
        }
        Ok(())
    });
}

/// What its predecessor had published is taken, or given up, with the rest.
#[test]
fn a_link_goes_whose_sender_has_been_replaced() {
    let long = line(&[("a", "count"), ("b", "count"), ("c", "count")]);
    has_its_course(&long, |history, order| {
        history.steps(4);
        history.later(0, "b", Deed::Hang);
        history.steps(10);
        history.kill("a");
        history.steps(20);
        history.later(5 + 5 * order, "b", |_| Deed::Wake);
        history.become_what(line(&[("a", "count"), ("c", "count")]))
    });
}

/// What others return, and what waits for it in links, comes home to its successor.
#[test]
fn an_owner_dies_while_links_and_lanes_go() {
    has_its_course(
        &line(&[("a", "count"), ("b", "count")]),
        |history, order| {
            history.steps(9);
            history.later(5 * order, "in", Deed::Kill);
            let _ = history.become_what(line(&[("a", "count")]));
            history.steps(9);
            history.later(3 * order, "in", Deed::Kill);
            let _ = history.become_what(line(&[("a", "count"), ("b", SLOW)]));
            Ok(())
        },
    );
}

/// Nothing enters a link that goes once its receiver may let go of it.
#[test]
fn whoever_only_is_late_in_a_change_loses_nothing() {
    let (long, short) = (
        line(&[("a", "count"), ("b", "count")]),
        line(&[("b", "count")]),
    );
    for late in ["in", "b", "out"] {
        has_its_course(&long, |history, order| {
            history.steps(9);
            history.later(2 * order, late, Deed::Hang);
            history.later(2 * order + 60, late, |_| Deed::Wake);
            history.become_what(short.clone())
        });
    }
}

/// A change whose links do not run empty since `node` hangs in it, and wakes after `sleep` more of
/// the supervisor's waits, or never.
fn hangs_in_a_change(node: &'static str, sleep: impl Fn(u64) -> Option<u64>) {
    let wide = |slots| Draft {
        trust: "ro",
        slots,
        ..line(&[])
    };
    has_its_course(&wide(64), |history, order| {
        history.hangs = true;
        history.steps(9);
        let begin = 10 + 3 * order;
        history.later(begin, node, Deed::Hang);
        if let Some(sleep) = sleep(order) {
            history.later(begin + sleep, node, |_| Deed::Wake);
        }
        let _ = history.become_what(wide(8));
        Ok(())
    });
}

/// What it has not taken is lost and counted, though it never says that it takes no more.
#[test]
fn a_receiver_hangs_while_its_links_go() {
    hangs_in_a_change("out", |_| None);
}

/// What it had not taken when it was told to let go is lost and counted.
#[test]
fn a_receiver_wakes_when_its_links_have_gone() {
    hangs_in_a_change("out", |order| Some(4_600 + 40 * order));
}

/// Nothing that it sends into a link that goes is read any more.
#[test]
fn a_sender_wakes_when_its_links_have_gone() {
    hangs_in_a_change("in", |order| Some(4_600 + 40 * order));
}

/// What it holds is settled while its links are known.
#[test]
fn a_node_that_goes_hangs() {
    has_its_course(&line(&[("a", "count"), ("b", SLOW)]), |history, order| {
        history.hangs = true;
        history.steps(9);
        history.later(3 * order, "b", Deed::Hang);
        let _ = history.become_what(line(&[("a", "count")]));
        Ok(())
    });
}

/// A successor makes packets of a new pool, which those behind it must know.
#[test]
fn a_node_dies_while_its_pool_is_made_known() {
    has_its_course(
        &line(&[("a", "count"), ("b", "count")]),
        |history, order| {
            history.steps(9);
            history.later(order, "out", Deed::Hang);
            history.later(order + 10, "a", Deed::Kill);
            history.later(order + 60, "out", |_| Deed::Wake);
            let _ = history.become_what(line(&[("a", SLOW), ("b", "count")]));
            Ok(())
        },
    );
}

/// Packets of one that has gone may still be somewhere.
#[test]
fn no_number_of_a_pool_is_given_twice() {
    let numbers = |history: &mut History<'_>| -> Vec<u16> {
        let pools = &history.supervisor().placement.pools;
        pools.iter().map(|pool| pool.id).collect()
    };
    has_its_course(&line(&[("a", SLOW), ("b", "count")]), |history, _| {
        let before = numbers(history);
        history.steps(9);
        history.become_what(line(&[("b", "count")]))?;
        let kept = numbers(history);
        assert!(kept.len() < before.len());
        history.become_what(line(&[("b", "count"), ("c", SLOW)]))?;
        let mut new = numbers(history).into_iter();
        assert!(new.all(|number| kept.contains(&number) || !before.contains(&number)));
        Ok(())
    });
}

/// What was asked in an earlier round says nothing of what has passed since.
#[test]
fn a_late_answer_of_an_earlier_round_does_not_count() {
    has_its_course(&line(&[("a", SLOW)]), |history, _| {
        history.steps(9);
        history.supervisor().drain();
        let first = history.supervisor().drain_round;
        while history.supervisor().drain_round == first {
            history.steps(1);
        }
        let supervisor = history.supervisor();
        assert!(!supervisor.instances[0].is_drained);
        supervisor.obey(0, FromWorker::Drained { round: first }, Vec::new());
        assert!(!supervisor.instances[0].is_drained);
        Ok(())
    });
}

/// Nobody is told how it ended, nor how long it had lived before it was taken over.
#[test]
fn the_end_of_a_container_that_was_taken_over_is_not_held_against_it() {
    has_its_course(&line(&[("a", "count")]), |history, _| {
        history.steps(9);
        let (worker, process) = (history.worker_of("a"), history.process_of("a"));
        let body = &mut history.supervisor().instances[worker].body;
        let Some(Body::Adopted(_, exit)) = body.take() else {
            panic!("it lives");
        };
        let others = WrittenContainers {
            engine: JOIN.to_owned(),
            system_calls: None,
        };
        let inside = Process { pid: None, exit };
        *body = Container::inherited(&others, "a", Some(inside)).map(Body::Container);
        with(|world| world.act(Deed::Kill(process)));
        history.steps(9);
        let supervisor = history.supervisor();
        assert_eq!(supervisor.past.deaths, 1);
        assert_eq!(supervisor.respawns[&worker].quick_deaths, 0);
        Ok(())
    });
}
