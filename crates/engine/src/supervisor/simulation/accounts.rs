//! The accounts of a simulated chain while it lives: what must hold each time its supervisor waits,
//! so that a history ends at the step that broke it, also where a later one would hide it.
//!
//! - Every packet that a source gave is taken, dropped, killed, held by an NF, or waits in a link.
//! - Every buffer that its owner's ledger calls out is in one place: in a link, on a lane, or on
//!   its way home by the supervisor's word. One that is in any of those is out.
//! - No counter that people see ever falls: of a number at any time, and of a name while nothing
//!   changes, also of one that had left and is here again. Nobody can ask while the chain changes.
//!
//! Workers are between two turns whenever the supervisor waits, and an honest one has nothing in
//! hand then, so these are exact. Not seen: a pool whose owner is being replaced, until it runs;
//! and all while one that has died within a turn is not buried: what it sent is in two places.

use std::collections::{BTreeMap, BTreeSet};

use catena_shm::pool::read_ledger;
use catena_shm::ring::RingMemory;
use catena_shm::sync::Ordering;

use super::histories::lost;
use super::ports::ACCOUNT;
use crate::chain::Trust;
use crate::chain::model::{is_gone, is_link_gone};
use crate::protocol::RegionName;
use crate::stats::RECLAIMED_WORD;
use crate::supervisor::Supervisor;
use crate::supervisor::body::Body;
use crate::supervisor::change::Change;
use crate::supervisor::instance::State;
use crate::supervisor::memory::RingName;
use crate::supervisor::reclaim::Unit;
use crate::supervisor::status::{LinkStatus, NodeStatus};
use crate::worker::build::pool_geometry;

/// Of so many waits of the supervisor, in one are packets counted: that takes as long as a worker's
/// step, or two.
const COUNT_EVERY: u64 = 5;
/// Of so many, in one are buffers looked for and counters compared, which takes longer.
const LOOK_EVERY: u64 = 25;

/// Counters of a node or a link, with what they count.
type Counts = Vec<(&'static str, u64)>;

/// What has been seen of a history's accounts.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    waits: u64,
    /// What counters of nodes and links were at the last look, by number.
    numbered: BTreeMap<(&'static str, usize), Counts>,
    /// What they were at the last look while nothing changed, by name.
    named: BTreeMap<String, Counts>,
    /// What did not hold, at the first wait at which something did not.
    pub(super) broken: Option<String>,
}

impl Accounts {
    /// The supervisor waits: looks at some of them, if it is time. `held` gives what NFs of each
    /// process hold, also of one that has died.
    pub(super) fn look(
        &mut self,
        supervisor: &Supervisor,
        torn: &BTreeSet<u32>,
        held: impl FnOnce() -> BTreeMap<u32, u64>,
    ) {
        self.waits += 1;
        if self.waits.is_multiple_of(LOOK_EVERY) {
            self.look_at_all(supervisor, torn, &held());
        } else if self.waits.is_multiple_of(COUNT_EVERY) && !is_torn(supervisor, torn) {
            self.note(supervisor, packets_add_up(supervisor, &held()));
        }
    }

    /// Looks through all of them.
    pub(super) fn look_at_all(
        &mut self,
        supervisor: &Supervisor,
        torn: &BTreeSet<u32>,
        held: &BTreeMap<u32, u64>,
    ) {
        if is_torn(supervisor, torn) {
            return;
        }
        let looked = packets_add_up(supervisor, held)
            .and_then(|()| buffers_are_in_one_place(supervisor))
            .and_then(|()| self.nothing_falls(supervisor));
        self.note(supervisor, looked);
    }

    fn note(&mut self, supervisor: &Supervisor, looked: Result<(), String>) {
        if let (Err(why), None) = (looked, &self.broken) {
            let change = format!("{:?}", supervisor.change);
            let change = change.split('(').next().unwrap_or_default();
            self.broken = Some(format!("at wait {}, change {change}: {why}", self.waits));
        }
    }

    fn nothing_falls(&mut self, supervisor: &Supervisor) -> Result<(), String> {
        let status = supervisor.status();
        let chain = &supervisor.chain;
        let nodes = (0..chain.nodes.len()).filter(|node| !is_gone(&chain.nodes[*node]));
        let links = (0..chain.links.len()).filter(|link| !is_link_gone(&chain.links[*link]));
        let nodes = nodes.zip(&status.nodes);
        let nodes = nodes.map(|(number, node)| ("node", number, &node.name, node_counts(node)));
        let links = links.zip(&status.links);
        let links = links.map(|(number, link)| ("link", number, &link.name, link_counts(link)));
        let before = std::mem::take(&mut self.numbered);
        let is_at_rest = matches!(supervisor.change, Change::No);
        for (kind, number, name, now) in nodes.chain(links) {
            let was = before.get(&(kind, number));
            let named = format!("{kind} {name}");
            let former = self.named.get(&named).filter(|_| is_at_rest);
            for was in was.into_iter().chain(former) {
                let mut both = was.iter().zip(&now);
                if let Some(((what, was), (_, now))) = both.find(|(was, now)| was.1 > now.1) {
                    let told = format!("{what} of {named} fell from {was} to {now}");
                    return Err(format!("{told}: {status:#?}"));
                }
            }
            if is_at_rest {
                self.named.insert(named, now.clone());
            }
            self.numbered.insert((kind, number), now);
        }
        Ok(())
    }
}

fn node_counts(node: &NodeStatus) -> Counts {
    vec![
        ("packets received", node.rx_packets),
        ("bytes received", node.rx_bytes),
        ("packets sent", node.tx_packets),
        ("bytes sent", node.tx_bytes),
        ("drops", node.drops.values().sum()),
        ("killed", node.killed),
    ]
}

fn link_counts(link: &LinkStatus) -> Counts {
    vec![
        ("packets sent", link.tx_packets),
        ("packets received", link.rx_packets),
        ("bytes", link.rx_bytes),
        ("pulls", link.pulls.iter().sum()),
        ("wakes", link.wakes),
        ("blocked turns", link.blocked),
        ("discarded", link.discarded),
        ("bundles", link.aggregation.bundles),
    ]
}

/// Every link and lane that there is memory of, also those that go.
fn rings(supervisor: &Supervisor) -> Vec<RingName> {
    let memory = &supervisor.memory;
    let mut rings: Vec<RingName> = Vec::new();
    for (region, _, held) in memory.everything() {
        let (consumer, link) = match region {
            RegionName::LinkProducer(link) => (RegionName::LinkConsumer(link), Some(link)),
            RegionName::LaneProducer { from, to } => (RegionName::LaneConsumer { from, to }, None),
            _ => continue,
        };
        let Some(end) = &held.end else { continue };
        if rings.last().is_none_or(|last| last.producer != region) {
            rings.push(RingName {
                producer: region,
                consumer,
                geometry: end.geometry(),
                from: 0,
                to: 0,
                link,
                number: 0,
            });
        }
    }
    rings
}

fn waiting_in(supervisor: &Supervisor, ring: &RingName) -> u64 {
    let memory = &supervisor.memory;
    let tail = memory.ring(ring, None);
    let tail = tail.map_or(0, |mapped| mapped.tail().load(Ordering::Acquire));
    let from = tail.max(memory.start(ring.consumer));
    memory.published_from(ring, from).1
}

/// Processes that the supervisor has not buried.
fn unburied(supervisor: &Supervisor) -> impl Iterator<Item = u32> {
    let instances = supervisor.instances.iter();
    instances.filter_map(|one| one.body.as_ref().and_then(Body::pid))
}

/// Whether one of those that died within a turn is not buried.
fn is_torn(supervisor: &Supervisor, torn: &BTreeSet<u32>) -> bool {
    !torn.is_empty() && unburied(supervisor).any(|process| torn.contains(&process))
}

fn packets_add_up(supervisor: &Supervisor, held: &BTreeMap<u32, u64>) -> Result<(), String> {
    let links = rings(supervisor);
    let links = links.iter().filter(|ring| ring.link.is_some());
    let waiting: u64 = links.map(|ring| waiting_in(supervisor, ring)).sum();
    // What one held that is buried is among the killed.
    let held: u64 = unburied(supervisor)
        .filter_map(|process| held.get(&process))
        .sum();
    let lost = lost(supervisor);
    let (given, taken) = ACCOUNT.with_borrow(|account| (account.given, account.taken));
    if given == taken + lost + held + waiting {
        return Ok(());
    }
    Err(format!(
        "{given} packets given, {taken} taken, {lost} lost, {held} held, {waiting} wait"
    ))
}

/// What owners were told to take home and have not, by their pages.
fn on_the_way_home(supervisor: &Supervisor) -> Vec<Unit> {
    let reclaims = &supervisor.reclaims;
    let is_done = |number: u64, pool: u16| {
        let owner = supervisor.owner_of(pool);
        let page = owner.and_then(|owner| supervisor.instances[owner].counters.as_ref());
        page.is_some_and(|page| page.load(RECLAIMED_WORD) >= number)
    };
    let under_way = reclaims.under_way.iter();
    let under_way = under_way.filter(|(number, reclaim)| !is_done(*number, reclaim.pool));
    let all = under_way
        .map(|(_, reclaim)| reclaim)
        .chain(&reclaims.waiting);
    all.flat_map(|reclaim| reclaim.buffers.iter().map(|unit| (reclaim.pool, *unit)))
        .collect()
}

fn buffers_are_in_one_place(supervisor: &Supervisor) -> Result<(), String> {
    let geometries = supervisor.pool_geometries();
    let mut places: BTreeMap<Unit, Vec<RegionName>> = BTreeMap::new();
    for ring in rings(supervisor) {
        let is_copied = |link: usize| supervisor.chain.links[link].trust == Trust::Copy;
        if ring.link.is_some_and(is_copied) {
            continue;
        }
        for descriptor in supervisor.memory.not_given_back(&ring) {
            let Some(geometry) = geometries.get(&descriptor.pool) else {
                continue;
            };
            for unit in geometry.units_of(&descriptor) {
                let places = places.entry((descriptor.pool, unit)).or_default();
                places.push(ring.producer);
            }
        }
    }
    if let Some((unit, places)) = places.iter().find(|(_, places)| places.len() > 1) {
        return Err(format!("buffer {unit:?} is in several places: {places:?}"));
    }
    let homeward = on_the_way_home(supervisor);
    for pool in &supervisor.placement.pools {
        let owner = &supervisor.instances[pool.owner];
        if owner.state != State::Running || owner.body.is_none() {
            continue;
        }
        let Some(held) = supervisor.memory.latest(RegionName::Ledger(pool.id)) else {
            continue;
        };
        let fd = held.fd.try_clone().map_err(|error| error.to_string())?;
        let ledger = read_ledger(fd, held.len, pool_geometry(pool));
        let ledger = ledger.map_err(|error| error.to_string())?;
        let out: BTreeMap<Unit, u8> = ledger
            .into_iter()
            .map(|(unit, link)| ((pool.id, unit), link))
            .collect();
        let is_somewhere = |unit: &Unit| places.contains_key(unit) || homeward.contains(unit);
        if let Some((unit, link)) = out.iter().find(|(unit, _)| !is_somewhere(unit)) {
            return Err(format!("buffer {unit:?}, out by link {link}, is nowhere"));
        }
        let here = places.iter().filter(|((id, _), _)| *id == pool.id);
        let mut at_home = here.filter(|(unit, _)| !out.contains_key(unit));
        if let Some((unit, places)) = at_home.next() {
            return Err(format!("buffer {unit:?} is at home, and in {places:?}"));
        }
    }
    Ok(())
}
