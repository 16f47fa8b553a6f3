//! Histories that have gone wrong once, in as few steps as they take: who is killed, and when, is
//! written here, and the rest is left to the seed.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use super::histories::{Besides, Draft, History, Nf, every_life};
use super::ports::{ACCOUNT, Account};
use super::{Deed, Moment, World, broken, living, with};
use crate::drop_reason::DropReason;
use crate::protocol::FromWorker;
use crate::supervisor::Supervisor;
use crate::supervisor::body::Body;
use crate::supervisor::book::WrittenContainers;
use crate::supervisor::change::Change;
use crate::supervisor::container::{Container, JOIN, Process};
use crate::supervisor::instance::{Changing, State};

/// So many are lived through, each with another order of steps.
const ORDERS: u64 = 20;

/// A line of NFs, each with its type.
pub(super) fn line(kinds: &[(&str, &'static str)]) -> Draft {
    let nf = |(name, kind): &(&str, &'static str)| Nf {
        name: (*name).to_owned(),
        kind,
        on_death: "hold",
    };
    Draft {
        source: "in",
        nfs: kinds.iter().map(nf).collect(),
        trust: "shared",
        overflow: "block",
        aggregate: "off",
        slots: 64,
        is_kept: false,
        names: 0,
        besides: Besides::default(),
    }
}

/// Has `script` happen to a chain that begins as `draft`, in several orders of steps; drains it.
pub(super) fn has_its_course(
    draft: &Draft,
    script: impl Fn(&mut History<'_>, u64) -> Result<(), String>,
) {
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
    let end = broken().map_or(end, Err);
    super::WORLD.take();
    end
}

impl History<'_> {
    /// The supervisor takes so many steps, and so do the others.
    pub(super) fn steps(&mut self, count: usize) {
        for _ in 0..count {
            let patience = Duration::from_millis(1);
            self.supervisor().step(patience, &[]);
        }
    }

    /// The worker of a node.
    pub(super) fn worker_of(&mut self, node: &str) -> usize {
        let supervisor = self.supervisor();
        let nodes = &supervisor.chain.nodes;
        let index = nodes.iter().position(|here| here.name == node).unwrap();
        supervisor.placement.worker_of[index]
    }

    /// The process that runs a node now.
    pub(super) fn process_of(&mut self, node: &str) -> u32 {
        let worker = self.worker_of(node);
        let body = self.supervisor().instances[worker].body.as_ref();
        body.and_then(|body| body.pid()).expect("it lives")
    }

    /// Kills the worker of a node at once.
    pub(super) fn kill(&mut self, node: &str) {
        let deed = Deed::Kill(self.process_of(node));
        with(|world| world.act(deed));
    }

    /// Has a deed done at the first of the supervisor's waits in which this holds.
    pub(super) fn when(&self, deed: Deed, holds: impl Fn(&Supervisor) -> bool + 'static) {
        let moment = Moment::When(Box::new(holds));
        with(|world| world.deeds.push((moment, deed)));
    }

    /// Has something happen to the worker of a node after so many more of the supervisor's waits.
    fn later(&mut self, looks: u64, node: &str, deed: fn(u32) -> Deed) {
        let deed = deed(self.process_of(node));
        let moment = Moment::In(u32::try_from(looks).unwrap());
        with(|world| world.deeds.push((moment, deed)));
    }
}

const SLOW: &str = "delay, time: 100us, limit: 30";
const LONG: &str = "delay, time: 20ms, limit: 64";

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

/// What it sent by the link that went, and received by it, was neither lost nor held.
#[test]
fn a_node_whose_links_have_gone_is_killed() {
    let (long, short) = (
        line(&[("a", "count"), ("b", "count")]),
        line(&[("a", "count")]),
    );
    for (before, after) in [(&long, &short), (&short, &long)] {
        has_its_course(before, |history, order| {
            history.steps(9 + usize::try_from(order).unwrap());
            history.must_become(after.clone())?;
            history.kill("a");
            history.steps(60);
            Ok(())
        });
    }
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

/// One link.
fn wide(slots: u32) -> Draft {
    Draft {
        trust: "ro",
        slots,
        ..line(&[])
    }
}

/// A change whose links do not run empty since `node` hangs in it, and wakes after `sleep` more of
/// the supervisor's waits, or never.
fn hangs_in_a_change(node: &'static str, sleep: impl Fn(u64) -> Option<u64>) {
    has_its_course(&wide(64), |history, order| {
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
        history.steps(9);
        history.later(3 * order, "b", Deed::Hang);
        let _ = history.become_what(line(&[("a", "count")]));
        Ok(())
    });
}

/// Of what is left in its links, it takes what it comes to before it lets go; the rest is lost,
/// counted once, and its buffers come home.
#[test]
fn a_receiver_lets_go_of_links_that_it_could_not_empty() {
    let given_up = Cell::new(0);
    has_its_course(&wide(64), |history, _| {
        history.steps(9);
        with(|world| world.act(Deed::Block));
        history.steps(9);
        let out = history.worker_of("out");
        history.when(Deed::Wake, move |all| {
            all.instances[out].changing == Changing::LettingGo
        });
        history.become_what(wide(8))?;
        let killed: u64 = history.supervisor().past.killed.values().sum();
        given_up.set(given_up.get() + killed);
        Ok(())
    });
    assert!(given_up.get() > 0, "none was left in any order");
}

/// It would be neither changed again nor known to have let go.
#[test]
fn a_receiver_that_does_not_say_that_it_lets_go_is_ended() {
    has_its_course(&wide(64), |history, _| {
        history.steps(9);
        let (out, process) = (history.worker_of("out"), history.process_of("out"));
        history.when(Deed::Deafen(process), move |all| {
            all.instances[out].changing == Changing::Rewired
        });
        history.become_what(wide(8))?;
        assert!(!living().contains(&process));
        history.steps(40);
        history.must_become(wide(64))
    });
}

/// Its data path turns, so packets pass; but it could be told of nothing any more.
#[test]
fn a_worker_whose_control_thread_does_not_answer_is_shown_and_replaced() {
    has_its_course(&line(&[("a", "count")]), |history, _| {
        history.steps(9);
        let process = history.process_of("a");
        let is_stuck = |history: &mut History<'_>| {
            let workers = history.supervisor().status().workers;
            let mut stuck = workers.iter().filter(|worker| worker.state == "stuck");
            stuck.any(|worker| worker.name == "a")
        };
        with(|world| world.act(Deed::Deafen(process)));
        let begun = with(|world| world.passed).unwrap_or_default();
        let mut was_shown = false;
        while living().contains(&process) {
            history.supervisor().step(Duration::from_millis(50), &[]);
            was_shown |= is_stuck(history);
            let lasted = with(|world| world.passed).unwrap_or_default() - begun;
            assert!(lasted < Duration::from_secs(60), "it was left alone");
        }
        assert!(was_shown, "nobody saw it");
        history.steps(60);
        assert_ne!(history.process_of("a"), process);
        Ok(())
    });
}

/// Its data path turns, so nobody else sees that it is still there.
#[test]
fn a_node_that_does_not_leave_is_ended() {
    has_its_course(&line(&[("a", "count"), ("b", SLOW)]), |history, order| {
        history.steps(9);
        let process = history.process_of("b");
        history.later(3 * order, "b", Deed::Deafen);
        history.must_become(line(&[("a", "count")]))?;
        assert!(!living().contains(&process));
        Ok(())
    });
}

/// Though the chain has no place for it any more.
#[test]
fn what_a_node_held_that_dies_as_it_goes_is_counted_by_its_name() {
    let lost = Cell::new(0);
    has_its_course(&line(&[("a", LONG), ("b", "count")]), |history, order| {
        history.steps(9 + usize::try_from(order).unwrap());
        let process = history.process_of("a");
        history.when(Deed::Kill(process), move |all| match all.change {
            Change::Admitting(_) => order % 2 == 0,
            Change::Switching(_) => order % 2 == 1,
            _ => false,
        });
        history.become_what(line(&[("b", "count")]))?;
        let left = history.supervisor().status().left;
        lost.set(lost.get() + left.get("a").copied().unwrap_or(0));
        Ok(())
    });
    assert!(lost.get() > 0, "it held none in any order");
}

/// What it counted is in the past by then, and its page is still there.
#[test]
fn what_a_node_counted_that_died_as_it_went_counts_once_for_another_supervisor() {
    let kept = Draft {
        is_kept: true,
        ..line(&[("a", "policer, rate: 50kpps, burst: 20")])
    };
    has_its_course(&kept, |history, _| {
        with(|world| world.dies_in = None);
        history.steps(60);
        let process = history.process_of("a");
        history.when(Deed::Kill(process), |all| {
            matches!(all.change, Change::Switching(_))
        });
        let short = Draft {
            is_kept: true,
            ..line(&[])
        };
        history.become_what(short)?;
        with(|world| world.has_died = true);
        history.take_over()
    });
}

/// Packets that nodes held at their end, and did not send.
fn unsent(history: &mut History<'_>) -> u64 {
    let counters = every_life(history.supervisor());
    let unsent = DropReason::Unsent.index();
    counters.iter().map(|one| one.drops[unsent]).sum()
}

/// It would send it into a link that nobody reads any more.
#[test]
fn what_a_node_that_goes_holds_leaves_first() {
    let (short, stays) = (line(&[("c", "count")]), ("c", "count"));
    for others in [&[stays][..], &[("b", LONG), stays]] {
        let long: Vec<_> = [("a", LONG)].iter().chain(others).copied().collect();
        has_its_course(&line(&long), |history, order| {
            history.steps(9 + usize::try_from(order).unwrap());
            history.must_become(short.clone())?;
            assert_eq!(unsent(history), 0);
            Ok(())
        });
    }
}

/// Whoever waits for the others' packets waits for that long.
#[test]
fn what_a_node_that_goes_holds_for_long_is_lost_and_counted() {
    let slow = "delay, time: 9s, limit: 30";
    has_its_course(&line(&[("a", slow), ("b", "count")]), |history, _| {
        history.steps(30);
        let before = with(|world| world.passed);
        history.must_become(line(&[("b", "count")]))?;
        let after = with(|world| world.passed);
        assert!(after < before.map(|time| time + Duration::from_secs(2)));
        assert!(unsent(history) > 0);
        let mut events = history.supervisor().events.iter();
        assert!(events.any(|event| format!("{event:?}").contains("goes before it has said")));
        Ok(())
    });
}

/// Its time begins when the links that go are empty, however late that is.
#[test]
fn what_a_node_that_goes_holds_leaves_first_though_a_receiver_was_slow() {
    const HELD: &str = "delay, time: 100ms, limit: 64";
    let of = |nfs: &[(&str, &'static str)]| Draft {
        slots: 2,
        ..line(nfs)
    };
    has_its_course(&of(&[("a", HELD), ("b", "count")]), |history, _| {
        history.steps(300);
        with(|world| world.act(Deed::Block));
        history.steps(60);
        // A wait in which nobody can do anything is a millisecond.
        with(|world| world.deeds.push((Moment::In(1500), Deed::Wake)));
        history.must_become(of(&[("b", "count")]))?;
        assert_eq!(unsent(history), 0);
        let mut events = history.supervisor().events.iter();
        assert!(!events.any(|event| format!("{event:?}").contains("goes before it has said")));
        Ok(())
    });
}

/// Else the links that go never run empty.
#[test]
fn a_source_that_goes_takes_nothing_more_in() {
    let of = |source| Draft {
        source,
        trust: "ro",
        ..line(&[("a", "count")])
    };
    has_its_course(&of("in"), |history, _| {
        history.steps(9);
        history.must_become(of("other"))
    });
}

/// Whoever sends into a new link that is full stands still, and so do links that go before it, if
/// its receiver waits for them, too.
#[test]
fn a_change_at_two_places_does_not_wait_for_itself() {
    let of = |source, nfs: &[(&str, &'static str)]| Draft {
        source,
        trust: "ro",
        slots: 2,
        ..line(nfs)
    };
    let (a, b, c) = (("a", "count"), ("b", "count"), ("c", "count"));
    let long = of("in", &[a, b, c]);
    for (before, after) in [
        (of("in", &[a, b]), of("other", &[a, b, c])),
        (long.clone(), of("other", &[a, b])),
        (long, of("other", &[b, c])),
    ] {
        has_its_course(&before, |history, _| {
            history.steps(9);
            history.must_become(after.clone())?;
            history.steps(9);
            history.must_become(before.clone())
        });
    }
}

/// Its neighbours would wait for it for ever.
#[test]
fn a_new_node_that_hangs_before_it_runs_is_replaced() {
    has_its_course(&line(&[("a", "count")]), |history, _| {
        history.steps(9);
        let new = history.supervisor().instances.len();
        let process = with(|world| world.last_process + 1).unwrap();
        history.when(Deed::Hang(process), move |all| {
            let new = all.instances.get(new);
            new.is_some_and(|new| new.state == State::Made)
        });
        history.must_become(line(&[("a", "count"), ("b", "count")]))
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
        let pools = history.supervisor().placement.present_pools();
        pools.map(|pool| pool.id).collect()
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
        assert!(!supervisor.is_drained(&supervisor.instances[0]));
        supervisor.obey(0, FromWorker::Drained { round: first }, Vec::new());
        assert!(!supervisor.is_drained(&supervisor.instances[0]));
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
            user: String::new(),
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
