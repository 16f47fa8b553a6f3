//! From an assignment to a running graph: what the worker makes, and what it is given.
//!
//! Control path, before the first turn. [`Making`] makes the regions this worker will write and
//! opens its ports; [`Making::finish`] joins them with the neighbours' regions into a graph.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use catena_shm::counters::Counters;
use catena_shm::pool::{LinkSet, PoolMemory, PoolOwner, PoolView};
use catena_shm::record_ring::RecordPage;
use catena_shm::ring::Producer;
use catena_shm::ring_memory::{MappedRing, RingEnd, Side};

use crate::chain::registry::Registry;
pub use crate::geometry::{lane_geometry, page_layout, pool_geometry, pool_sharing, ring_geometry};
use crate::link::{Inlet, RxLink, TxLink};
use crate::load::Load;
use crate::nf::exchange::NfControl;
use crate::pools::{HomeLane, Pools, ReturnLane};
use crate::protocol::{Assignment, LaneSpec, NodeSpec, PoolSpec, RegionName, RingSpec};
use crate::wait::poor_waiting;
pub use crate::worker::build_error::BuildError;
pub use crate::worker::built::{Additions, Admitted, Built};
use crate::worker::connect::Door;
use crate::worker::ends::{Plugs, add_port};
use crate::worker::graph::{Graph, InEdge, OutEdge, Work, WorkerNode};
use crate::worker::holding::Holding;
use crate::worker::node_memory::{Brought, NewControls, NodeMemory, Rebuild, on_trial};
use crate::worker::open::{Attached, attach, check_len, open};

/// Regions made by this worker and regions received, before they are joined.
pub struct Making {
    assignment: Assignment,
    own_ends: BTreeMap<RegionName, RingEnd>,
    peer_ends: BTreeMap<RegionName, RingEnd>,
    successors: Vec<(RegionName, RingEnd, u64)>,
    owners: Vec<PoolOwner>,
    views: Vec<PoolView>,
    counters: Counters,
    records: RecordPage,
    works: Vec<Work>,
    memory: NodeMemory,
    rebuilds: Vec<(usize, Rebuild)>,
    controls: Controls,
    doors: Vec<Door>,
    /// Remarks for people.
    pub notices: Vec<String>,
}

/// Control halves by node, none where there is none.
pub(super) type Controls = Vec<(usize, Option<Box<dyn NfControl>>)>;

impl std::fmt::Debug for Making {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Making")
            .field("assignment", &self.assignment)
            .finish_non_exhaustive()
    }
}

impl Making {
    /// Makes this worker's regions and opens its ports. `brought` is memory that it takes over.
    ///
    /// # Errors
    /// What could not be made, opened or built.
    pub fn start(
        assignment: Assignment,
        brought: Brought,
        registry: &Registry,
    ) -> Result<Self, BuildError> {
        Self::start_beside(assignment, brought, registry, None)
    }

    /// As [`Making::start`]; `running` is what the nodes that run here already are, and their
    /// memory, if this is for a change.
    ///
    /// # Errors
    /// As [`Making::start`].
    pub fn start_beside(
        assignment: Assignment,
        brought: Brought,
        registry: &Registry,
        running: Option<(&[NodeSpec], &NodeMemory, &NewControls)>,
    ) -> Result<Self, BuildError> {
        let mut adopted = brought.pools;
        let memory = NodeMemory::attach(brought.states)?;
        let me = assignment.worker;
        let mut own_ends = BTreeMap::new();
        let mut make = |name, side, geometry| {
            let end = RingEnd::create(side, geometry, start_of(&assignment, name))?;
            own_ends.insert(name, end);
            Ok::<_, BuildError>(())
        };
        for ring in assignment.rings.iter().filter(|ring| ring.tcp.is_none()) {
            let geometry = ring_geometry(ring);
            if ring.from == me {
                make(
                    RegionName::LinkProducer(ring.link),
                    Side::Producer,
                    geometry,
                )?;
            }
            if ring.to == me {
                make(
                    RegionName::LinkConsumer(ring.link),
                    Side::Consumer,
                    geometry,
                )?;
            }
        }
        for lane in &assignment.lanes {
            let (from, to, geometry) = (lane.from, lane.to, lane_geometry(lane));
            if from == me {
                make(
                    RegionName::LaneProducer { from, to },
                    Side::Producer,
                    geometry,
                )?;
            }
            if to == me {
                make(
                    RegionName::LaneConsumer { from, to },
                    Side::Consumer,
                    geometry,
                )?;
            }
        }
        let mut owners = Vec::new();
        for pool in assignment.pools.iter().filter(|pool| pool.owner == me) {
            let adoption = assignment
                .adoptions
                .iter()
                .find(|adoption| adoption.pool == pool.id);
            let geometry = pool_geometry(pool);
            let owner = match (adoption, adopted.remove(&pool.id)) {
                (Some(adoption), Some(fd)) => {
                    check_len(adoption.len, geometry.bytes())?;
                    PoolOwner::adopt(pool.id, geometry, fd, adoption.len, &adoption.out)?
                }
                _ => PoolOwner::create(pool.id, geometry, pool_sharing(pool))?,
            };
            owners.push(owner);
        }
        let mut notices = Vec::new();
        if owners.iter().any(|owner| !owner.is_huge()) {
            notices.push(
                "no huge pages free; packet pools lie on 4 KiB pages \
                 (`sysctl vm.nr_hugepages=64` gives some)"
                    .to_owned(),
            );
        }
        notices.extend(
            assignment
                .nodes
                .first()
                .and_then(|node| poor_waiting(&node.name)),
        );
        let counters = Counters::create(page_layout(&assignment).word_count())?;
        let records = RecordPage::create()?;
        let pools = device_memory(&owners);
        let (mut works, mut rebuilds, mut controls) = (Vec::new(), Vec::new(), Vec::new());
        for node in &assignment.nodes {
            let rebuild = running
                .map(|(_, running, controls)| {
                    let both = (running, &memory);
                    Rebuild::of(node, &assignment, registry, both, controls.clone())
                })
                .transpose()?
                .flatten();
            let with = (&*pools, &mut notices);
            let before = running.and_then(|(specs, ..)| {
                let mut specs = specs.iter();
                specs.find(|spec| spec.index == node.index)
            });
            let both = (node, before);
            let (work, control) = match &rebuild {
                Some(_) => open(both, &assignment, registry, with, on_trial)?,
                None => open(both, &assignment, registry, with, |plan| {
                    memory.of(node.index, plan)
                })?,
            };
            works.push(work);
            controls.push((node.index, control));
            rebuilds.extend(rebuild.map(|rebuild| (node.index, rebuild)));
        }
        let doors = doors(&assignment)?;
        Ok(Self {
            assignment,
            own_ends,
            peer_ends: BTreeMap::new(),
            successors: Vec::new(),
            owners,
            views: Vec::new(),
            counters,
            records,
            works,
            memory,
            rebuilds,
            controls,
            doors,
            notices,
        })
    }

    /// Where this worker listens for the senders of TCP links, by index.
    pub fn listening(&self) -> impl Iterator<Item = (usize, SocketAddrV4)> {
        self.doors.iter().map(|door| (door.link, door.address))
    }

    /// The sockets of the same.
    pub(super) fn take_doors(&mut self) -> Vec<Door> {
        std::mem::take(&mut self.doors)
    }

    /// Control halves of its NFs; none for a node that has none.
    pub(super) fn take_controls(&mut self) -> Controls {
        std::mem::take(&mut self.controls)
    }

    /// Memory that outlives the NFs of this assignment.
    pub(super) fn take_memory(&mut self) -> NodeMemory {
        std::mem::take(&mut self.memory)
    }

    /// The assignment.
    pub fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    /// Every region this worker made, with its size, to be handed over.
    pub fn made(&self) -> Vec<(RegionName, usize, BorrowedFd<'_>)> {
        let mut made: Vec<_> = self
            .own_ends
            .iter()
            .map(|(name, end)| (*name, end.len(), end.fd()))
            .collect();
        for owner in &self.owners {
            let (fd, len) = owner.memory();
            made.push((RegionName::Pool(owner.id()), len, fd));
            let (fd, len) = owner.ledger();
            made.push((RegionName::Ledger(owner.id()), len, fd));
        }
        let (fd, len) = self.counters.memory();
        made.push((RegionName::Counters, len, fd));
        let (fd, len) = self.records.memory();
        made.push((RegionName::Records, len, fd));
        made
    }

    /// The supervisor has all of it: what is mapped here needs no descriptor.
    pub fn close_descriptors(&mut self) {
        self.own_ends
            .values_mut()
            .for_each(RingEnd::close_descriptor);
        let owners = self.owners.iter_mut();
        owners.for_each(PoolOwner::close_ledger_descriptor);
        self.counters.close_descriptor();
        self.records.close_descriptor();
    }

    /// Whether `region` belongs to a ring, lane or pool of this assignment.
    pub fn expects(&self, region: RegionName) -> bool {
        let assignment = &self.assignment;
        match region {
            RegionName::LinkProducer(link) | RegionName::LinkConsumer(link) => {
                assignment.rings.iter().any(|ring| ring.link == link)
            }
            RegionName::LaneProducer { from, to } | RegionName::LaneConsumer { from, to } => {
                assignment
                    .lanes
                    .iter()
                    .any(|lane| (lane.from, lane.to) == (from, to))
            }
            RegionName::Pool(id) | RegionName::Ledger(id) => {
                assignment.pools.iter().any(|pool| pool.id == id)
            }
            RegionName::Counters | RegionName::Records => false,
        }
    }

    /// Attaches a region of a neighbour; a second one for the same purpose succeeds the first from
    /// index `start` on.
    ///
    /// # Errors
    /// What was wrong with it.
    pub fn attach(
        &mut self,
        name: RegionName,
        len: usize,
        start: u64,
        fd: OwnedFd,
    ) -> Result<(), BuildError> {
        match attach(&self.assignment, name, len, fd)? {
            Attached::End(end) if is_producer(name) && self.peer_ends.contains_key(&name) => {
                self.successors.push((name, end, start));
            }
            // Of a receiver only the last counts: its predecessor is dead.
            Attached::End(end) => {
                self.peer_ends.insert(name, end);
            }
            Attached::View(view) => self.views.push(view),
        }
        Ok(())
    }

    /// Pools and lanes that a running worker adds, with what belongs to them of the assignment:
    /// from now on their successors are nothing new.
    ///
    /// # Errors
    /// [`BuildError::Inconsistent`] if a neighbour's region is missing.
    pub fn admit(&mut self) -> Result<(Admitted, Vec<LaneSpec>, Vec<PoolSpec>), BuildError> {
        let me = self.assignment.worker;
        let mut admitted = Admitted {
            owners: std::mem::take(&mut self.owners),
            views: std::mem::take(&mut self.views),
            ..Admitted::default()
        };
        let lanes = std::mem::take(&mut self.assignment.lanes);
        for lane in &lanes {
            if lane.from == me {
                admitted.return_lanes.push(self.return_lane(lane)?);
            } else if lane.to == me {
                admitted.home_lanes.push(self.home_lane(lane)?);
            }
        }
        let pools = std::mem::take(&mut self.assignment.pools);
        Ok((admitted, lanes, pools))
    }

    /// What else a running worker adds, once the neighbours' memory is attached.
    ///
    /// # Errors
    /// [`BuildError::Inconsistent`] if a neighbour's region is missing.
    pub fn additions(mut self) -> Result<Additions, BuildError> {
        let me = self.assignment.worker;
        let mut additions = Additions::default();
        let specs = self.assignment.nodes.iter();
        additions.counter_names = specs
            .map(|spec| (spec.index, spec.counters.clone()))
            .collect();
        let works = std::mem::take(&mut self.works);
        additions.works = self
            .assignment
            .nodes
            .iter()
            .zip(works)
            .map(|(n, w)| (n.index, w))
            .collect();
        additions.rebuilds = std::mem::take(&mut self.rebuilds);
        for ring in self
            .assignment
            .rings
            .iter()
            .filter(|ring| ring.tcp.is_none())
        {
            if ring.from == me {
                additions.tx.push(self.tx_link(ring)?);
            }
            if ring.to == me {
                additions.rx.push(self.rx_link(ring)?);
            }
        }
        Ok(additions)
    }

    /// Joins everything into a graph and its pools.
    ///
    /// # Errors
    /// [`BuildError::Inconsistent`] if a neighbour's region is missing.
    pub fn finish(mut self) -> Result<Built, BuildError> {
        let mut pools = Pools::new(std::mem::take(&mut self.owners));
        for view in self.views.drain(..) {
            pools.add_view(view);
        }
        self.add_lanes(&mut pools)?;
        let (graph, plugs) = self.graph()?;
        Ok(Built {
            graph,
            plugs,
            pools,
            counters: Arc::new(self.counters),
            records: self.records,
            assignment: self.assignment,
        })
    }

    fn start_of(&self, region: RegionName) -> u64 {
        start_of(&self.assignment, region)
    }

    /// Where a receiving side continues, and the producers that succeed the one it starts with.
    fn inlet(&self, producer: RegionName, consumer: RegionName) -> Result<Inlet, BuildError> {
        let mut inlet = Inlet::new(self.ring(producer, consumer)?, self.start_of(consumer));
        for (_, end, start) in self
            .successors
            .iter()
            .filter(|(name, ..)| *name == producer)
        {
            let ring = MappedRing::new(end.clone(), inlet.ring().consumer.clone());
            inlet.replace_producer(ring, *start);
        }
        Ok(inlet)
    }

    fn ring(&self, producer: RegionName, consumer: RegionName) -> Result<MappedRing, BuildError> {
        let end = |name: &RegionName| {
            let own = self.own_ends.get(name);
            own.or_else(|| self.peer_ends.get(name)).cloned()
        };
        match (end(&producer), end(&consumer)) {
            (Some(producer), Some(consumer)) => Ok(MappedRing::new(producer, consumer)),
            _ => Err(BuildError::Inconsistent("a neighbour's memory is missing")),
        }
    }

    fn add_lanes(&self, pools: &mut Pools) -> Result<(), BuildError> {
        let me = self.assignment.worker;
        for lane in &self.assignment.lanes {
            if lane.from == me {
                pools.add_return_lane(self.return_lane(lane)?);
            } else if lane.to == me {
                pools.add_home_lane(self.home_lane(lane)?);
            }
        }
        Ok(())
    }

    fn return_lane(&self, lane: &LaneSpec) -> Result<ReturnLane, BuildError> {
        let (from, to) = (lane.from, lane.to);
        let producer = RegionName::LaneProducer { from, to };
        let ring = self.ring(producer, RegionName::LaneConsumer { from, to })?;
        let producer = Producer::new(ring, self.start_of(producer));
        Ok(ReturnLane::new(to, producer, lane.pools.clone()))
    }

    fn home_lane(&self, lane: &LaneSpec) -> Result<HomeLane, BuildError> {
        let (from, to) = (lane.from, lane.to);
        let producer = RegionName::LaneProducer { from, to };
        let inlet = self.inlet(producer, RegionName::LaneConsumer { from, to })?;
        Ok(HomeLane::new(from, inlet, link_set(&lane.links)))
    }

    fn tx_link(&self, spec: &RingSpec) -> Result<TxLink, BuildError> {
        let producer = RegionName::LinkProducer(spec.link);
        let ring = self.ring(producer, RegionName::LinkConsumer(spec.link))?;
        let start = self.start_of(producer);
        Ok(TxLink::new(spec, ring, start))
    }

    fn rx_link(&self, spec: &RingSpec) -> Result<RxLink, BuildError> {
        let producer = RegionName::LinkProducer(spec.link);
        let consumer = RegionName::LinkConsumer(spec.link);
        let inlet = self.inlet(producer, consumer)?;
        Ok(RxLink::new(spec, inlet))
    }

    fn graph(&mut self) -> Result<(Graph, Plugs), BuildError> {
        let works = std::mem::take(&mut self.works);
        let (mut graph, mut plugs) = (Graph::default(), Plugs::default());
        for (spec, work) in self.assignment.nodes.iter().zip(works) {
            graph.nodes.push(WorkerNode {
                index: spec.index,
                name: spec.name.clone(),
                counter_names: spec.counters.clone(),
                is_end: work.ends_paths(),
                holding: Holding::of(&work),
                has_dropped: false,
                work,
                inputs: Vec::new(),
                input_numbers: Vec::new(),
                outputs: spec.outputs.iter().map(|_| OutEdge::Open).collect(),
                fan: spec.fan,
                counters: crate::stats::NodeCounters::default(),
                cost: crate::probe::NodeCost::default(),
            });
        }
        graph.congested = vec![false; graph.nodes.len()];
        let position = |index| {
            self.assignment
                .nodes
                .iter()
                .position(|node| node.index == index)
        };
        let mut edges = self.assignment.edges.clone();
        edges.sort_by_key(|edge| edge.input);
        for edge in edges {
            let (from, to) = (position(edge.from), position(edge.to));
            let ring = self
                .assignment
                .rings
                .iter()
                .find(|ring| ring.link == edge.link);
            let output = usize::from(edge.output);
            match (ring, from, to) {
                (Some(spec), from, to) if spec.tcp.is_some() => {
                    let start_of = |region| self.start_of(region);
                    let with = (&self.assignment, start_of);
                    let plug = add_port(&mut graph, with, spec, (&edge, from, to))?;
                    plugs.add(spec.link, plug);
                }
                (Some(spec), _, _) => {
                    self.join_ring(&mut graph, spec, from, (to, edge.input), output)?;
                }
                (None, Some(from), Some(to)) => {
                    let queue = graph.queues.len();
                    graph
                        .queues
                        .push(Load::with_capacity(2 * usize::from(self.assignment.burst)));
                    graph.queue_targets.push(to);
                    set_output(&mut graph, from, output, OutEdge::Local { queue })?;
                    graph.nodes[to].add_input(InEdge::Local { queue }, edge.input);
                }
                (None, _, _) => return Err(BuildError::Inconsistent("an edge without a ring")),
            }
        }
        Ok((graph, plugs))
    }

    fn join_ring(
        &self,
        graph: &mut Graph,
        spec: &RingSpec,
        from: Option<usize>,
        (to, input): (Option<usize>, u8),
        output: usize,
    ) -> Result<(), BuildError> {
        if let Some(from) = from {
            let link = OutEdge::Link(Box::new(self.tx_link(spec)?));
            set_output(graph, from, output, link)?;
        }
        if let Some(to) = to {
            let link = InEdge::Link(Box::new(self.rx_link(spec)?));
            graph.nodes[to].add_input(link, input);
        }
        Ok(())
    }
}

/// Listens for the sender of each TCP link that reaches this worker.
fn doors(assignment: &Assignment) -> Result<Vec<Door>, BuildError> {
    let reaches = |ring: &&RingSpec| ring.to == assignment.worker;
    let rings = assignment.rings.iter().filter(reaches);
    rings
        .filter_map(|ring| ring.tcp.map(|bind| (ring.link, bind)))
        .map(|(link, bind)| {
            let edge = assignment.edges.iter().find(|edge| edge.link == link);
            let node = edge.map_or(0, |edge| edge.to);
            Door::open(link, bind).map_err(|message| BuildError::Node { node, message })
        })
        .collect()
}

/// Memory of own pools that a port may show to a device, smallest buffers first.
fn device_memory(owners: &[PoolOwner]) -> Vec<PoolMemory> {
    let plain = owners.iter().filter(|owner| !owner.geometry().bundles);
    let mut pools: Vec<_> = plain.map(PoolOwner::device_memory).collect();
    pools.sort_by_key(|pool| pool.geometry().log2_stride);
    pools
}

fn is_producer(region: RegionName) -> bool {
    matches!(
        region,
        RegionName::LinkProducer(_) | RegionName::LaneProducer { .. }
    )
}

/// The set of an owner's links, as its ledger numbers them.
pub fn link_set(links: &[u8]) -> LinkSet {
    let mut set = LinkSet::default();
    for link in links {
        set.insert(*link);
    }
    set
}

fn set_output(
    graph: &mut Graph,
    node: usize,
    output: usize,
    edge: OutEdge,
) -> Result<(), BuildError> {
    let slot = graph.nodes[node].outputs.get_mut(output);
    *slot.ok_or(BuildError::Inconsistent(
        "an edge from an output that does not exist",
    ))? = edge;
    Ok(())
}

/// Index of the first descriptor of a ring's side.
fn start_of(assignment: &Assignment, region: RegionName) -> u64 {
    let found = assignment
        .starts
        .iter()
        .find(|start| start.region == region);
    found.map_or(0, |start| start.index)
}
