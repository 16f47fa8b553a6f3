//! Every region of a chain, by what it is for: who may make it, who needs it, and where rings
//! continue after a worker was replaced.
//!
//! A ring's producer may have been replaced while its consumer had not yet taken what the old one
//! published. So the slots of older producers are kept, each with the index of its first
//! descriptor, until the consumer has passed them.

use std::collections::BTreeMap;

use catena_shm::Descriptor;
use catena_shm::ring::{RingMemory, packets_in, published_between};
use catena_shm::ring_memory::{MappedRing, RingGeometry, Side};
use catena_shm::sync::Ordering;

use crate::placement::Placement;
use crate::protocol::RegionName;
use crate::supervisor::instance::Held;
use crate::worker::build::{lane_geometry, ring_geometry};

/// All regions of a chain.
#[derive(Debug, Default)]
pub(super) struct Memory {
    regions: BTreeMap<RegionName, Vec<(u64, Held)>>,
    starts: BTreeMap<RegionName, u64>,
}

/// A ring between two workers: a link, or a return lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingName {
    /// The region with the slots.
    pub producer: RegionName,
    /// The region with the tail.
    pub consumer: RegionName,
    /// Its size.
    pub geometry: RingGeometry,
    /// Worker that produces.
    pub from: usize,
    /// Worker that consumes.
    pub to: usize,
    /// Index of the link, if it is one.
    pub link: Option<usize>,
    /// Number of the link in its sender's ledgers; 0 of a lane.
    pub number: u8,
}

impl Memory {
    /// Keeps a region that a worker has made; it replaces, or succeeds, an earlier one.
    pub(super) fn keep(&mut self, region: RegionName, held: Held) {
        let start = self.starts.get(&region).copied().unwrap_or(0);
        let kept = self.regions.entry(region).or_default();
        // One that had published nothing is followed by one that begins where it did.
        kept.retain(|(first, _)| is_producer(region) && *first != start);
        kept.push((start, held));
    }

    /// Every region, with the index of its first descriptor, oldest first.
    pub(super) fn everything(&self) -> impl Iterator<Item = (RegionName, u64, &Held)> {
        let regions = self.regions.iter();
        regions.flat_map(|(region, kept)| kept.iter().map(|(start, held)| (*region, *start, held)))
    }

    /// Keeps a region as a former supervisor had it; of several for a purpose, the oldest first.
    pub(super) fn restore(&mut self, region: RegionName, start: u64, held: Held) {
        self.regions.entry(region).or_default().push((start, held));
    }

    /// Sets where a ring's side continues.
    pub(super) fn set_start(&mut self, region: RegionName, index: u64) {
        self.starts.insert(region, index);
    }

    /// Where rings continue.
    pub(super) fn starts(&self) -> impl Iterator<Item = (RegionName, u64)> {
        self.starts.iter().map(|(region, index)| (*region, *index))
    }

    /// Where a ring's side continues.
    pub(super) fn start(&self, region: RegionName) -> u64 {
        self.starts.get(&region).copied().unwrap_or(0)
    }

    /// The latest region for a purpose.
    pub(super) fn latest(&self, region: RegionName) -> Option<&Held> {
        self.regions
            .get(&region)
            .and_then(|kept| kept.last())
            .map(|(_, held)| held)
    }

    /// Index of the first descriptor of the latest region for a purpose.
    pub(super) fn latest_start(&self, region: RegionName) -> u64 {
        let kept = self.regions.get(&region);
        kept.and_then(|kept| kept.last())
            .map_or(0, |(start, _)| *start)
    }

    /// All regions for a purpose that are still needed, oldest first, with their first index.
    pub(super) fn all(&self, region: RegionName) -> impl Iterator<Item = (u64, &Held)> {
        self.regions
            .get(&region)
            .into_iter()
            .flatten()
            .map(|(start, held)| (*start, held))
    }

    /// Forgets a region for good.
    pub(super) fn forget(&mut self, region: RegionName) {
        self.regions.remove(&region);
        self.starts.remove(&region);
    }

    /// Forgets producers of `ring` that its consumer has passed, so that a long life with many
    /// deaths keeps no more memory than a short one.
    pub(super) fn forget_passed(&mut self, ring: &RingName) {
        if let Some(mapped) = self.ring(ring, None) {
            let tail = mapped.tail().load(Ordering::Acquire);
            self.forget_before(ring.producer, tail);
        }
    }

    /// Forgets producers whose successor begins at or before `tail`.
    pub(super) fn forget_before(&mut self, producer: RegionName, tail: u64) {
        if let Some(kept) = self.regions.get_mut(&producer) {
            while kept.len() > 1 && kept[1].0 <= tail {
                kept.remove(0);
            }
        }
    }

    /// What the consumer of `ring` has not given back, whoever published it, in order. A consumer
    /// that lies about its tail makes it more or less than that, at most a ring per producer.
    pub(super) fn not_given_back(&self, ring: &RingName) -> Vec<Descriptor> {
        let tail = self.ring(ring, None);
        let tail = tail.map_or(0, |mapped| mapped.tail().load(Ordering::Acquire));
        let from = tail.max(self.start(ring.consumer));
        self.published_from(ring, from).0
    }

    /// What was published on `ring` from index `from` on, whoever published it, in order; and how
    /// many indices that is.
    pub(super) fn published_from(&self, ring: &RingName, from: u64) -> (Vec<Descriptor>, u64) {
        let consumer = self.latest(ring.consumer).and_then(|held| held.end.clone());
        let (Some(consumer), Some(kept)) = (consumer, self.regions.get(&ring.producer)) else {
            return (Vec::new(), 0);
        };
        let (mut found, mut to) = (Vec::new(), from);
        for (position, (first, held)) in kept.iter().enumerate() {
            let Some(producer) = held.end.clone() else {
                continue;
            };
            let mapped = MappedRing::new(producer, consumer.clone());
            let end = kept.get(position + 1).map_or(u64::MAX, |(next, _)| *next);
            let here = published_between(&mapped, from.max(*first), end);
            if !here.is_empty() {
                to = from.max(*first) + packets_in(&here);
                found.extend(here);
            }
        }
        (found, to - from)
    }

    /// Every lane to the pools of `owner` that there ever was.
    pub(super) fn lanes_to(&self, owner: usize) -> Vec<RingName> {
        let lanes = self.regions.iter().filter_map(|(region, kept)| {
            let RegionName::LaneProducer { from, to } = *region else {
                return None;
            };
            let geometry = kept.last()?.1.end.as_ref()?.geometry();
            (to == owner).then_some(RingName {
                producer: *region,
                consumer: RegionName::LaneConsumer { from, to },
                geometry,
                from,
                to,
                link: None,
                number: 0,
            })
        });
        lanes.collect()
    }

    /// A ring as it lies in memory now, for reading only: the slots of the producer that was the
    /// latest at index `at`, or the latest of all.
    pub(super) fn ring(&self, ring: &RingName, at: Option<u64>) -> Option<MappedRing> {
        let kept = self.regions.get(&ring.producer)?;
        let producer = match at {
            Some(index) => kept
                .iter()
                .rev()
                .find(|(start, _)| *start <= index)
                .or(kept.first()),
            None => kept.last(),
        };
        let producer = producer?.1.end.clone()?;
        let consumer = self.latest(ring.consumer)?.end.clone()?;
        Some(MappedRing::new(producer, consumer))
    }
}

fn is_producer(region: RegionName) -> bool {
    matches!(
        region,
        RegionName::LinkProducer(_) | RegionName::LaneProducer { .. }
    )
}

/// Every ring of a placement; a TCP link is none.
pub(super) fn rings(placement: &Placement) -> Vec<RingName> {
    let in_memory = placement.rings.iter().filter(|ring| ring.tcp.is_none());
    let links = in_memory.map(|ring| RingName {
        producer: RegionName::LinkProducer(ring.link),
        consumer: RegionName::LinkConsumer(ring.link),
        geometry: ring_geometry(ring),
        from: ring.from,
        to: ring.to,
        link: Some(ring.link),
        number: ring.number,
    });
    let lanes = placement.lanes.iter().map(|lane| RingName {
        producer: RegionName::LaneProducer {
            from: lane.from,
            to: lane.to,
        },
        consumer: RegionName::LaneConsumer {
            from: lane.from,
            to: lane.to,
        },
        geometry: lane_geometry(lane),
        from: lane.from,
        to: lane.to,
        link: None,
        number: 0,
    });
    links.chain(lanes).collect()
}

/// The ring that `region` is a side of, and which.
pub(super) fn ring_of(placement: &Placement, region: RegionName) -> Option<(RingName, Side)> {
    rings(placement).into_iter().find_map(|ring| {
        if ring.producer == region {
            Some((ring, Side::Producer))
        } else if ring.consumer == region {
            Some((ring, Side::Consumer))
        } else {
            None
        }
    })
}

/// Whether `worker` may make `region`.
pub(super) fn may_make(placement: &Placement, worker: usize, region: RegionName) -> bool {
    let owns = |id| {
        placement
            .pools
            .iter()
            .any(|pool| pool.id == id && pool.owner == worker)
    };
    match region {
        RegionName::Counters | RegionName::Records => true,
        RegionName::Pool(id) | RegionName::Ledger(id) => owns(id),
        _ => rings(placement).iter().any(|ring| {
            (ring.producer == region && ring.from == worker)
                || (ring.consumer == region && ring.to == worker)
        }),
    }
}

/// Every region that `worker` makes.
pub(super) fn all_of(placement: &Placement, worker: usize) -> Vec<RegionName> {
    let mut all = vec![RegionName::Counters, RegionName::Records];
    for ring in rings(placement) {
        all.extend((ring.from == worker).then_some(ring.producer));
        all.extend((ring.to == worker).then_some(ring.consumer));
    }
    for pool in placement.pools.iter().filter(|pool| pool.owner == worker) {
        all.extend([RegionName::Pool(pool.id), RegionName::Ledger(pool.id)]);
    }
    all
}

/// Who sees the pools that owner `worker` makes anew at a restart: those that are sealed. The
/// others are the same memory as before.
pub(super) fn views_of(placement: &Placement, worker: usize) -> Vec<(usize, RegionName)> {
    let is_new = |id: &&u16| {
        placement
            .pools
            .iter()
            .any(|pool| pool.id == **id && pool.owner == worker && !pool.writable)
    };
    let lanes = placement.lanes.iter().filter(|lane| lane.to == worker);
    lanes
        .flat_map(|lane| {
            let pools = lane.pools.iter().filter(is_new);
            pools.map(|pool| (lane.from, RegionName::Pool(*pool)))
        })
        .collect()
}

/// Regions of neighbours that `worker` needs.
pub(super) fn needed_by(placement: &Placement, worker: usize) -> Vec<RegionName> {
    let mut needed = Vec::new();
    for ring in rings(placement) {
        if ring.from == worker {
            needed.push(ring.consumer);
        } else if ring.to == worker {
            needed.push(ring.producer);
        }
    }
    for lane in placement.lanes.iter().filter(|lane| lane.from == worker) {
        needed.extend(lane.pools.iter().map(|pool| RegionName::Pool(*pool)));
    }
    needed
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::chain::Chain;
    use crate::placement::place;
    use crate::supervisor::simulation::registry;

    /// Of each pool that an NF between two ports is given, whether it may write it.
    fn given(trust: &str) -> Vec<bool> {
        let text = format!(
            "name: c\nports:\n  in: {{ source: {{}} }}\n  out: {{ drain: {{}} }}\n\
             nfs:\n  b: {{ type: count }}\nlinks:\n\
             \x20 - {{ link: in -> b, trust: {trust} }}\n\
             \x20 - {{ link: b -> out, trust: {trust} }}\nrun: {{ mode: process }}\n"
        );
        let chain = Chain::parse(&text, Path::new("."), registry(), None);
        let chain = chain.unwrap().chain;
        let placement = place(&chain).unwrap();
        let node = chain.nodes.iter().position(|node| node.name == "b");
        let worker = placement.worker_of[node.unwrap()];
        let needed = needed_by(&placement, worker);
        let of = |id: u16| placement.pools.iter().find(|pool| pool.id == id).unwrap();
        let pools = needed.into_iter().filter_map(|region| match region {
            RegionName::Pool(id) => Some(of(id).writable),
            _ => None,
        });
        pools.collect()
    }

    /// Others' pools are the memory by which it could read or change what is not its own.
    #[test]
    fn a_receiver_is_given_what_its_links_say_and_no_more() {
        let (shared, read_only) = (given("shared"), given("ro"));
        assert!(!shared.is_empty() && shared.iter().all(|may_write| *may_write));
        assert!(!read_only.is_empty() && read_only.iter().all(|may_write| !may_write));
        assert!(given("copy").is_empty());
    }

    fn held() -> Held {
        let fd = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        Held {
            fd: std::sync::Arc::new(fd),
            len: 0,
            end: None,
        }
    }

    /// Nobody takes its packets, and it dies again and again: each life that sent something is
    /// kept until that is taken, and of the others only the last.
    #[test]
    fn a_sender_that_dies_without_sending_leaves_no_memory_behind() {
        let (slots, tail) = (RegionName::LinkProducer(3), RegionName::LinkConsumer(3));
        let mut memory = Memory::default();
        for start in [0, 7, 7, 7, 9, 9] {
            memory.set_start(slots, start);
            memory.keep(slots, held());
            memory.keep(tail, held());
        }
        let starts: Vec<u64> = memory.all(slots).map(|(start, _)| start).collect();
        assert_eq!(starts, [0, 7, 9]);
        assert_eq!(memory.all(tail).count(), 1);
        memory.forget_before(slots, 8);
        assert_eq!(memory.all(slots).count(), 2);
    }
}
