//! Links that go run empty, and their receivers turn from them to those that take their place: the
//! third step of a change (`apply`).
//!
//! Nobody sends into a link that goes any more but workers that go themselves. Those take nothing
//! more in, send what they hold, and say when they hold nothing. A link that goes is done when who
//! sends into it is, and all of it has been taken. Its receiver is told at once: then it reads what
//! waited for that link (`links_in_turn`), while others still wait for theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use catena_shm::ring::RingMemory;
use catena_shm::sync::Ordering;

use crate::chain::Chain;
use crate::protocol::ToWorker;
use crate::supervisor::Supervisor;
use crate::supervisor::apply::PATIENCE;
use crate::supervisor::clock::now;
use crate::supervisor::links_in_turn::awaited_by;
use crate::supervisor::memory::RingName;
use crate::supervisor::switching::Life;

/// How long packets on their new way wait for those that a worker which goes still holds, while the
/// links to it and from it are empty.
const HOLD_PATIENCE: Duration = Duration::from_secs(1);

/// How far links that go have run empty.
struct Emptying<'a> {
    old_chain: &'a Chain,
    staying: &'a [Life],
    links: Vec<Going>,
    leaving: Vec<Leaver>,
    /// For how many links each new link still waits.
    waits: BTreeMap<usize, usize>,
    /// Workers that may read something else by now, and have not been told.
    to_tell: BTreeSet<usize>,
}

/// A link that goes.
struct Going {
    ring: RingName,
    link: usize,
    /// New links that wait for it.
    awaited_by: Vec<usize>,
    /// All of it has been taken, or nobody takes it any more.
    is_done: bool,
}

/// A worker that goes, and has been asked whether it holds nothing.
struct Leaver {
    life: Life,
    /// Links to it, by their places among those that go.
    inputs: Vec<usize>,
    /// Links from it, and all on the ways to it.
    around: Vec<usize>,
    /// Number of the question.
    round: u64,
    /// Packets that had been taken from each of its inputs then.
    passed: Vec<u64>,
    /// How long nothing was waited for but what workers hold.
    waited: Duration,
    /// It holds nothing, or is not waited for.
    is_done: bool,
}

impl Emptying<'_> {
    fn is_over(&self) -> bool {
        let mut links = self.links.iter();
        links.all(|link| link.is_done) && self.leaving.iter().all(|leaver| leaver.is_done)
    }

    fn has_waited(&self) -> Duration {
        let waited = self.leaving.iter().map(|leaver| leaver.waited);
        waited.max().unwrap_or_default()
    }

    /// Whether who sends into a link that goes has sent all that it will.
    fn is_cut_off(&self, link: usize) -> bool {
        let from = self.links[link].ring.from;
        let mut leaving = self.leaving.iter();
        leaving.all(|leaver| leaver.life.0 != from || leaver.is_done)
    }

    /// Those of `at_rest` to which nobody sends who goes and is neither done nor one of them.
    fn not_fed(&self, mut at_rest: Vec<usize>) -> Vec<usize> {
        loop {
            let holds = |link: &usize| {
                let from = self.links[*link].ring.from;
                let mut leaving = self.leaving.iter().enumerate();
                leaving
                    .any(|(at, one)| one.life.0 == from && !one.is_done && !at_rest.contains(&at))
            };
            let is_fed = |at: &usize| {
                let mut inputs = self.leaving[*at].inputs.iter();
                inputs.any(|link| !self.links[*link].is_done && holds(link))
            };
            let left: Vec<usize> = at_rest.iter().copied().filter(|at| !is_fed(at)).collect();
            if left.len() == at_rest.len() {
                return left;
            }
            at_rest = left;
        }
    }

    /// A link is done: what waits for it alone is read from now on.
    fn is_done(&mut self, link: usize, receiver_of: impl Fn(usize) -> Option<usize>) {
        self.links[link].is_done = true;
        self.to_tell.insert(self.links[link].ring.to);
        for new in std::mem::take(&mut self.links[link].awaited_by) {
            let left = self.waits.entry(new).or_default();
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.to_tell.extend(receiver_of(new));
            }
        }
    }
}

impl Supervisor {
    /// Waits until links that go are empty, in which `lives` stay or leave, and has their receivers
    /// turn to new ones on the way; says whether all are. Who holds something for longer than
    /// others are to wait loses it.
    pub(super) fn run_empty(
        &mut self,
        old_chain: &Chain,
        lives: (&[Life], &[Life]),
        going: &[RingName],
    ) -> bool {
        let mut emptying = self.begin_emptying(old_chain, lives, going);
        self.turn_receivers(&mut emptying);
        let deadline = now() + PATIENCE;
        let mut looked = now();
        while now() < deadline + emptying.has_waited() {
            self.step(Duration::from_millis(1), &[]);
            let since = now() - std::mem::replace(&mut looked, now());
            self.look_at_leavers(&mut emptying, since);
            self.look_at_links(&mut emptying);
            self.turn_receivers(&mut emptying);
            if emptying.is_over() {
                return true;
            }
        }
        false
    }

    fn begin_emptying<'a>(
        &mut self,
        old_chain: &'a Chain,
        (staying, leaving): (&'a [Life], &[Life]),
        going: &[RingName],
    ) -> Emptying<'a> {
        let numbered = going.iter().filter_map(|ring| Some((*ring, ring.link?)));
        let (rings, numbers): (Vec<RingName>, Vec<usize>) = numbered.unzip();
        let awaited = awaited_by(old_chain, &self.chain, &numbers);
        let mut waits = BTreeMap::new();
        for new in awaited.iter().flatten() {
            *waits.entry(*new).or_default() += 1;
        }
        let links = rings.iter().zip(&numbers).zip(awaited);
        let links = links.map(|((ring, link), awaited_by)| Going {
            ring: *ring,
            link: *link,
            awaited_by,
            is_done: false,
        });
        let leavers = leaving.iter().map(|life| Leaver {
            life: *life,
            inputs: places(&rings, |ring| ring.to == life.0),
            around: around(&rings, leaving, life.0),
            round: 0,
            passed: Vec::new(),
            waited: Duration::ZERO,
            is_done: false,
        });
        let mut emptying = Emptying {
            old_chain,
            staying,
            links: links.collect(),
            leaving: leavers.collect(),
            waits,
            to_tell: staying.iter().map(|(worker, _)| *worker).collect(),
        };
        for at in 0..emptying.leaving.len() {
            self.ask_leaver(&mut emptying, at);
        }
        emptying
    }

    /// Asks a worker that goes to take nothing more in, and to say when it holds nothing.
    fn ask_leaver(&mut self, emptying: &mut Emptying<'_>, at: usize) {
        // Before it hears of the round: whether it takes something after its answer is found out.
        let passed = self.passed_to(emptying, at);
        self.next_request += 1;
        let round = self.next_request;
        let leaver = &mut emptying.leaving[at];
        (leaver.round, leaver.passed) = (round, passed);
        self.tell(leaver.life.0, &ToWorker::Drain { round });
    }

    /// Packets that a worker which goes has taken from its links.
    fn passed_to(&self, emptying: &Emptying<'_>, at: usize) -> Vec<u64> {
        let inputs = emptying.leaving[at].inputs.iter();
        let tails = inputs.map(|input| {
            let ring = self.memory.ring(&emptying.links[*input].ring, None);
            ring.map_or(0, |ring| ring.tail().load(Ordering::Acquire))
        });
        tails.collect()
    }

    /// Whether workers that go hold nothing by now. One that has said so may have been sent
    /// something since, so it counts only if nothing has passed since it was asked (as in
    /// `draining`), and nobody who may still hold something sends to it. Those that send to each
    /// other, in a circle through a port, are done together.
    fn look_at_leavers(&mut self, emptying: &mut Emptying<'_>, since: Duration) {
        let waited_for = 0..emptying.leaving.len();
        let waited_for = waited_for.filter(|at| !emptying.leaving[*at].is_done);
        let waited_for: Vec<usize> = waited_for.collect();
        let is_quiet =
            |at: &usize| self.has_said(&emptying.leaving[*at]) && self.is_quiet(emptying, *at);
        let quiet: Vec<usize> = waited_for.iter().copied().filter(is_quiet).collect();
        // After all links were seen empty: if nobody has taken anything since it was asked, then
        // all held nothing in between, and so did the links.
        let is_at_rest = |at: &usize| self.passed_to(emptying, *at) == emptying.leaving[*at].passed;
        let (at_rest, late): (Vec<usize>, Vec<usize>) = quiet.into_iter().partition(is_at_rest);
        for at in &late {
            self.ask_leaver(emptying, *at);
        }
        let over = emptying.not_fed(at_rest);
        for at in waited_for {
            if over.contains(&at) || !self.is_same_life(emptying.leaving[at].life) {
                emptying.leaving[at].is_done = true;
            } else if !late.contains(&at) {
                self.wait_for(emptying, at, since);
            }
        }
    }

    /// Whether a worker that goes has said that it holds nothing, since it was asked last. The
    /// chain may be draining: an answer to a later round says as much.
    fn has_said(&self, leaver: &Leaver) -> bool {
        self.instances[leaver.life.0].drained >= leaver.round
    }

    /// Whether there is nothing in the links to a worker that goes.
    fn is_quiet(&self, emptying: &Emptying<'_>, at: usize) -> bool {
        let mut inputs = emptying.leaving[at].inputs.iter();
        inputs.all(|link| self.is_done_or_empty(&emptying.links[*link]))
    }

    fn is_done_or_empty(&self, link: &Going) -> bool {
        link.is_done || self.is_empty_now(&link.ring)
    }

    /// A worker that goes holds something, or one in front of it does; for so long, once all links
    /// around it are empty.
    fn wait_for(&mut self, emptying: &mut Emptying<'_>, at: usize, since: Duration) {
        let mut around = emptying.leaving[at].around.iter();
        if !around.all(|link| self.is_done_or_empty(&emptying.links[*link])) {
            return;
        }
        let leaver = &mut emptying.leaving[at];
        leaver.waited += since;
        leaver.is_done = leaver.waited >= HOLD_PATIENCE;
        let leaver = &emptying.leaving[at];
        if leaver.is_done && !self.has_said(leaver) {
            let name = &self.placement.workers[leaver.life.0].name;
            self.notice(format!(
                "worker {name} goes before it has said that it holds nothing: what it holds is \
                 lost and counted"
            ));
        }
    }

    fn is_empty_now(&self, ring: &RingName) -> bool {
        self.memory.not_given_back(ring).is_empty()
    }

    /// Which links that go are done by now, in the order packets take them.
    fn look_at_links(&self, emptying: &mut Emptying<'_>) {
        for at in 0..emptying.links.len() {
            if emptying.links[at].is_done {
                continue;
            }
            let ring = emptying.links[at].ring;
            let mut staying = emptying.staying.iter();
            let is_read = match staying.find(|(worker, _)| *worker == ring.to) {
                Some(life) => self.is_same_life(*life),
                None => self.instances[ring.to].is_live(),
            };
            if let (false, Some(link)) = (is_read, ring.link) {
                // What its receiver left behind nobody takes: it is given up in the end. Whoever
                // sends into it would stand still when it is full.
                self.tell(ring.from, &ToWorker::PeerDown { link });
            } else if !(emptying.is_cut_off(at) && self.is_empty_now(&ring)) {
                continue;
            }
            emptying.is_done(at, |new| {
                let mut rings = self.placement.rings.iter();
                rings.find(|ring| ring.link == new).map(|ring| ring.to)
            });
        }
    }

    /// Tells workers that stay what they read from now on: links that stay, those that go and are
    /// not done, and new ones that wait for none.
    fn turn_receivers(&mut self, emptying: &mut Emptying<'_>) {
        for worker in std::mem::take(&mut emptying.to_tell) {
            let mut staying = emptying.staying.iter();
            let Some(life) = staying.find(|(here, _)| *here == worker).copied() else {
                continue;
            };
            let left = emptying.links.iter().filter(|link| !link.is_done);
            let left: Vec<(usize, usize, u8)> = left
                .map(|going| {
                    let link = &emptying.old_chain.links[going.link];
                    (going.link, link.to, link.input)
                })
                .collect();
            let is_read = |link: usize| emptying.waits.get(&link).is_none_or(|left| *left == 0);
            let inputs = self.inputs(worker, is_read, &left);
            if let Some(instance) = self.same_life(life) {
                instance.send(&ToWorker::Inputs(inputs));
            }
        }
    }
}

/// Places of the rings for which something holds.
fn places(rings: &[RingName], holds: impl Fn(&RingName) -> bool) -> Vec<usize> {
    let numbered = rings.iter().enumerate();
    numbered
        .filter(|(_, ring)| holds(ring))
        .map(|(at, _)| at)
        .collect()
}

/// Rings from a worker that goes, and those on the ways to it by others that go.
fn around(rings: &[RingName], leaving: &[Life], worker: usize) -> Vec<usize> {
    let mut on_the_way = BTreeSet::from([worker]);
    loop {
        let before = rings.iter().filter(|ring| on_the_way.contains(&ring.to));
        let before = before.map(|ring| ring.from);
        let before: Vec<usize> = before
            .filter(|from| leaving.iter().any(|(leaves, _)| leaves == from))
            .collect();
        let count = on_the_way.len();
        on_the_way.extend(before);
        if on_the_way.len() == count {
            break;
        }
    }
    places(rings, |ring| {
        on_the_way.contains(&ring.to) || ring.from == worker
    })
}
