// SPDX-License-Identifier: Apache-2.0
//! What a hostile peer can say: descriptors in a ring, buffers sent home, records on the control
//! connection. For any bytes:
//!
//! - a descriptor becomes a packet that lies within one buffer of a known pool, or a violation;
//! - a buffer comes home once, and only if it was out by a link that leads to who returns it;
//! - a record parses or is refused, and what parsed is written and read back the same.

use std::cell::RefCell;

use catena_engine::chain::{Aggregate, Overflow, Trust};
use catena_engine::link::{Inlet, RxLink};
use catena_engine::load::Load;
use catena_engine::pools::{HomeLane, Pools, ReturnLane};
use catena_engine::protocol::{FromWorker, RingSpec, ToWorker};
use catena_shm::descriptor::Descriptor;
use catena_shm::pool::{LinkSet, PoolGeometry, PoolOwner, PoolView};
use catena_shm::region::Sharing;
use catena_shm::ring::{Producer, packets_in};
use catena_shm::ring_memory::{MappedRing, RingEnd, RingGeometry, Side};

const COUNT: u32 = 16;
const POOL: PoolGeometry = PoolGeometry {
    log2_stride: 7,
    buffer_count: COUNT,
    headroom: 64,
    bundles: false,
};
const BUNDLES: PoolGeometry = PoolGeometry {
    log2_stride: 13,
    buffer_count: 4,
    headroom: 0,
    bundles: true,
};
/// Room for 16 descriptors of whole bundles.
const STAGED: RingGeometry = RingGeometry {
    slot_count: 1024,
    staging_bytes: 1 << 16,
};
const PLAIN: RingGeometry = RingGeometry {
    slot_count: 1024,
    staging_bytes: 0,
};
/// The number of the link that leads to the peer, and of one that does not.
const THEIRS: u8 = 4;
const OTHERS: u8 = 5;

fn ring(geometry: RingGeometry) -> MappedRing {
    let end = |side| RingEnd::create(side, geometry, 0).expect("memory for a ring");
    MappedRing::new(end(Side::Producer), end(Side::Consumer))
}

fn owner(id: u16, geometry: PoolGeometry) -> PoolOwner {
    PoolOwner::create(id, geometry, Sharing::ReadWrite).expect("memory for a pool")
}

/// A pool that the peer has sealed.
fn sealed(id: u16, geometry: PoolGeometry) -> PoolView {
    let owner = PoolOwner::create(id, geometry, Sharing::ReadOnly).expect("memory for a pool");
    let (fd, len) = owner.memory();
    let fd = fd.try_clone_to_owned().expect("a descriptor");
    PoolView::attach(id, geometry, fd, len, Sharing::ReadOnly).expect("a mapping")
}

/// A worker that owns pools 1 and, of bundles, 3; sees the peer's pools 2 and, of bundles, 4; may
/// only read its pools 5 and, of bundles, 6; and is given what the peer writes.
struct Victim {
    pools: Pools,
    in_place: RxLink,
    copied: RxLink,
    peer: [Producer<MappedRing>; 3],
    /// Where the peer's buffers go home to it.
    returned: Inlet,
}

impl Victim {
    fn new() -> Self {
        let rings = [ring(PLAIN), ring(STAGED), ring(PLAIN)];
        let [in_place, copied, home] = rings.clone();
        let mut pools = Pools::new(vec![owner(1, POOL), owner(3, BUNDLES)]);
        pools.add_view(owner(2, POOL).view());
        pools.add_view(owner(4, BUNDLES).view());
        pools.add_view(sealed(5, POOL));
        pools.add_view(sealed(6, BUNDLES));
        let lane = ring(PLAIN);
        let returns = Producer::new(lane.clone(), 0);
        pools.add_return_lane(ReturnLane::new(1, returns, vec![2, 4, 5, 6]));
        let mut links = LinkSet::default();
        links.insert(THEIRS);
        pools.add_home_lane(HomeLane::new(1, Inlet::new(home, 0), links));
        let link = |ring, trust| {
            let spec = RingSpec {
                tcp: None,
                link: 0,
                number: 1,
                from: 1,
                to: 0,
                slot_count: PLAIN.slot_count,
                staging_bytes: 0,
                trust,
                overflow: Overflow::Block,
                aggregate: Aggregate::Auto,
                bundle_headroom: 0,
            };
            RxLink::new(&spec, Inlet::new(ring, 0))
        };
        Self {
            pools,
            in_place: link(in_place, Trust::Shared),
            copied: link(copied, Trust::Copy),
            peer: rings.map(|ring| Producer::new(ring, 0)),
            returned: Inlet::new(lane, 0),
        }
    }
}

thread_local! {
    static VICTIM: RefCell<Victim> = RefCell::new(Victim::new());
}

fn descriptors(data: &[u8]) -> Vec<Descriptor> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let chunks = data.chunks_exact(16).take(16);
    chunks
        .map(|chunk| Descriptor::from_words(word(&chunk[..8]), word(&chunk[8..])))
        .collect()
}

/// Descriptors that arrive over links: in place, and by copy.
pub fn peer_descriptors(data: &[u8]) {
    VICTIM.with_borrow_mut(|victim| {
        let said = descriptors(data);
        let mut load = Load::default();
        let bundles = data.len().is_multiple_of(2);
        for (which, link) in [&mut victim.in_place, &mut victim.copied]
            .into_iter()
            .enumerate()
        {
            let all = packets_in(&said);
            let wanted = u32::try_from(all).expect("sixteen bundles");
            let sent = victim.peer[which].push_packets(wanted, said.iter().copied());
            victim.peer[which].settle();
            // As a turn does: what a link brings is dealt with before it is committed.
            while link.pull(64, &mut victim.pools, &mut load, bundles) > 0 {}
            link.commit();
            assert_eq!(u64::from(sent), all, "everything said was taken");
            load.take_apart(&mut victim.pools);
            for mut packet in load.packets.drain(..) {
                let len = packet.len();
                assert!(len > 0 && len <= 1 << 13);
                if [1, 3].contains(&packet.pool()) {
                    packet.bytes_mut().fill(0xa5);
                    assert_eq!(packet.bytes().len(), len);
                } else {
                    let last = packet.bytes()[len - 1];
                    std::hint::black_box(last);
                }
                victim.pools.free(packet);
            }
            load.forget();
            victim.pools.publish_returns();
            victim.pools.settle_return_lanes();
            while victim.returned.pull(64, &mut Vec::new()) > 0 {}
            victim.returned.commit();
        }
        let free = |bundles: bool| {
            let own = victim.pools.own().iter();
            own.filter(|pool| pool.geometry().bundles == bundles)
                .map(PoolOwner::free_count)
                .sum::<u32>()
        };
        assert_eq!((free(false), free(true)), (COUNT, BUNDLES.buffer_count));
    });
}

/// Buffers that come home over a lane.
pub fn peer_returns(data: &[u8]) {
    VICTIM.with_borrow_mut(|victim| {
        // Half of the buffers are out, half of these over another link.
        let pools = &mut victim.pools;
        let mut out = Vec::new();
        for n in 0..COUNT / 2 {
            let packet = pools.alloc(60).expect("all are at home");
            let link = if n % 2 == 0 { THEIRS } else { OTHERS };
            pools.send_out(std::slice::from_ref(&packet), link);
            out.push(packet.buffer_index());
        }
        let said = descriptors(data);
        victim.peer[2].push(said.iter().copied());
        victim.peer[2].settle();
        pools.take_returns();
        pools.commit_home_lanes();
        // The pool of bundles comes first.
        let (free, still) = (pools.own()[1].free_count(), pools.own()[1].out_count());
        assert_eq!(free + still, COUNT, "allocated = free + out");
        assert!(
            still >= COUNT / 4,
            "what is out elsewhere cannot be returned"
        );
        // Home again, for the next input: those which are not yet are refused once.
        let owner = &mut pools.own_mut()[1];
        for index in out {
            let _ = owner.take_home(index, &LinkSet::ALL);
        }
        assert_eq!(owner.free_count(), COUNT, "no buffer came home twice");
    });
}

/// Records of the control connection, in both directions.
pub fn peer_records(data: &[u8]) {
    if let Ok(record) = serde_json::from_slice::<FromWorker>(data) {
        let text = serde_json::to_vec(&record).expect("it was text");
        let again = serde_json::from_slice::<FromWorker>(&text).expect("as it was written");
        assert_eq!(record, again);
    }
    if let Ok(record) = serde_json::from_slice::<ToWorker>(data) {
        let text = serde_json::to_vec(&record).expect("it was text");
        serde_json::from_slice::<ToWorker>(&text).expect("as it was written");
    }
}

/// A name and its entry function.
pub type Entry = (&'static str, fn(&[u8]));

/// Every entry function, by name.
pub const ALL: &[Entry] = &[
    ("peer_descriptors", peer_descriptors),
    ("peer_returns", peer_returns),
    ("peer_records", peer_records),
];
