//! What supervisor and worker say to each other: JSON records over a Unix socket, with memory.
//!
//! Control path. The worker makes the memory it will write and hands it over
//! ([`FromWorker::Made`]); the supervisor passes it on to the neighbours ([`ToWorker::Attach`]).
//! Either side treats what it receives as untrusted: a record that does not parse, or names what
//! does not exist, ends the connection, and a dead connection is a dead worker. A record of any
//! size is cut into messages ([`parts`]).
//!
//! ```text
//! supervisor                      worker
//!     | <------------- Hello ------- |
//!     | -- Adopt, State + fd ------> |   memory that outlives a worker
//!     | -- Assign -----------------> |   makes regions, opens ports
//!     | <------------- Made + fd --- |   one per region
//!     | <------------- Listening --- |   one per TCP link that reaches it
//!     | <------------- AllMade ----- |
//!     | -- Attach + fd ------------> |   one per region of a neighbour
//!     | -- Start ------------------> |   data path runs
//!     | -- Connect ----------------> |   one per TCP link that leaves it
//!     | <------------- Started ----- |
//!     |        ...                   |
//!     | -- Attach (successor) -----> |   a neighbour was replaced
//!     | <------------- Finished ---- |   its sources have come to their end
//!     | -- Change ---------------> |   the chain changes: Made, AllMade as above
//!     | -- Attach, Admit ----------> |
//!     | <------------- Admitted ---- |
//!     | -- Rewire -----------------> |
//!     | <------------- Rewired ----- |
//!     | -- Inputs -----------------> |   as often as links that go have run empty
//!     | -- Resume -----------------> |   another supervisor has taken over
//!     | <------------- Resumed ----- |
//!     | -- Stop -------------------> |   last turn, ports closed
//!     | <------------- Stopped ----- |
//! ```

pub mod parts;
mod version;

pub use version::VERSION;

use std::net::SocketAddrV4;

use catena_shm::pool::SOUGHT;
use serde::{Deserialize, Serialize};

use crate::chain::files::FileId;
use crate::chain::link::{Aggregate, Overflow, Trust};
use crate::chain::run::Mode;
use crate::probe::ProbeSettings;
use crate::wait::WaitPolicy;

/// A region, by what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RegionName {
    /// A link's slots, made by its sender.
    LinkProducer(usize),
    /// A link's tail, made by its receiver.
    LinkConsumer(usize),
    /// A return lane's slots, made by the worker that returns, to the worker that owns.
    LaneProducer {
        /// Who returns.
        from: usize,
        /// Who owns.
        to: usize,
    },
    /// A return lane's tail, made by the owner.
    LaneConsumer {
        /// Who returns.
        from: usize,
        /// Who owns.
        to: usize,
    },
    /// A pool's buffers, made by its owner.
    Pool(u16),
    /// A pool's ledger, made by its owner.
    Ledger(u16),
    /// A worker's counters.
    Counters,
    /// What a worker's probes wrote.
    Records,
}

/// Buffers of one pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSpec {
    /// Number of the pool.
    pub id: u16,
    /// Binary logarithm of bytes per buffer.
    pub log2_stride: u8,
    /// Number of buffers.
    pub buffer_count: u32,
    /// Bytes free in front of a packet.
    pub headroom: u32,
    /// Worker that owns it.
    pub owner: usize,
    /// Whether other workers may write it.
    pub writable: bool,
    /// Whether its buffers are bundles.
    pub bundles: bool,
}

/// Most links that ever leave a worker: its pools' ledgers number them in a byte, of which 0 says
/// home and the last one sought.
pub const LEDGER_LINKS_MAX: u8 = SOUGHT - 1;

/// Where the receiver of a TCP link listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bind {
    /// On the loopback address: both sides run in the host's network.
    Loopback,
    /// On the address of its own network namespace.
    Own,
    /// On every address of the host, of which the sender, in a network namespace of its own, knows
    /// one: its gateway.
    Any,
}

/// What both ends of a TCP link know, and nobody else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSecret {
    /// Index of the link.
    pub link: usize,
    /// What the sender says when it has connected.
    pub question: String,
    /// What the receiver answers.
    pub answer: String,
}

/// A ring between two workers, or a TCP connection in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingSpec {
    /// Index of the link.
    pub link: usize,
    /// Its number in the ledgers of its sender's pools: 1 to [`LEDGER_LINKS_MAX`].
    pub number: u8,
    /// Worker that sends.
    pub from: usize,
    /// Worker that receives.
    pub to: usize,
    /// Number of slots.
    pub slot_count: u32,
    /// Bytes of the staging area (`copy` only).
    pub staging_bytes: u32,
    /// Trust.
    pub trust: Trust,
    /// What happens when it is full.
    pub overflow: Overflow,
    /// Whether small packets share bundles.
    pub aggregate: Aggregate,
    /// Bytes that bundles leave in front of each packet, for the NFs on the way.
    pub bundle_headroom: u8,
    /// For a TCP link, where its receiver listens. It has neither slots nor memory; as many bytes
    /// as a staging area would have are kept for a connection that takes no more.
    pub tcp: Option<Bind>,
}

/// A return lane between two workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneSpec {
    /// Worker that returns.
    pub from: usize,
    /// Worker that owns the pools.
    pub to: usize,
    /// Number of slots: at least the buffers of the pools.
    pub slot_count: u32,
    /// The pools.
    pub pools: Vec<u16>,
    /// Links of the owner by which `from` can have come to hold a buffer, by their numbers in its
    /// ledgers.
    pub links: Vec<u8>,
}

/// A node for a worker to build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Index in the chain.
    pub index: usize,
    /// Name.
    pub name: String,
    /// Port or NF type.
    pub type_name: String,
    /// Whether it is a port.
    pub is_port: bool,
    /// Which shard of a node of the file it is, from 0; of a port, which queue.
    pub shard: u16,
    /// How many there are.
    pub shard_count: u16,
    /// Whether a port receives.
    pub receives: bool,
    /// Configuration.
    pub config: serde_json::Value,
    /// Wrappers of a port, innermost first: type and configuration.
    pub wraps: Vec<(String, serde_json::Value)>,
    /// Names of outputs.
    pub outputs: Vec<String>,
    /// Names of what the node counts itself.
    pub counters: Vec<String>,
    /// By how much the room of its outputs is divided.
    pub fan: usize,
}

/// An edge inside a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeSpec {
    /// Index of the link in the chain.
    pub link: usize,
    /// Node it leaves, by index in the chain.
    pub from: usize,
    /// Output it leaves by.
    pub output: u8,
    /// Node it reaches.
    pub to: usize,
    /// Input it reaches.
    pub input: u8,
}

/// A pool taken over from a dead owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adoption {
    /// Number of the pool.
    pub pool: u16,
    /// Bytes of its memory, which comes as descriptor with the record.
    pub len: usize,
    /// Buffers still out, with the number of the link each left by.
    pub out: Vec<(u32, u8)>,
}

/// Where a ring continues after a worker was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartIndex {
    /// The region that continues.
    pub region: RegionName,
    /// Index of its first descriptor.
    pub index: u64,
}

/// Everything a worker needs to build its part of the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// Index of the worker.
    pub worker: usize,
    /// Number of the last `Reclaim` that an earlier instance was sent.
    pub reclaimed: u64,
    /// Which instance of it this is, from 0.
    pub epoch: u32,
    /// Name of the chain.
    pub chain: String,
    /// Folder of the chain file.
    pub dir: std::path::PathBuf,
    /// Its nodes, in topological order.
    pub nodes: Vec<NodeSpec>,
    /// Edges that touch its nodes.
    pub edges: Vec<EdgeSpec>,
    /// Rings to and from it.
    pub rings: Vec<RingSpec>,
    /// What it shows and asks for on TCP links.
    pub secrets: Vec<LinkSecret>,
    /// Lanes to and from it.
    pub lanes: Vec<LaneSpec>,
    /// Pools it owns or sees.
    pub pools: Vec<PoolSpec>,
    /// Pools it takes over.
    pub adoptions: Vec<Adoption>,
    /// Where rings continue; those not named start at 0.
    pub starts: Vec<StartIndex>,
    /// What the hashes of splitters are keyed with: the same in all workers of the chain.
    pub split_seed: u64,
    /// Packets in a burst.
    pub burst: u16,
    /// How it waits.
    pub wait: WaitPolicy,
    /// Core it is pinned to.
    pub core: Option<usize>,
    /// The supervisor's clock (`Clock::parts`).
    pub clock: [u64; 3],
    /// How it runs.
    pub mode: Mode,
    /// How many workers of the chain are processes: they share a part of the machine's memory.
    pub processes: usize,
    /// Network namespace that it enters, by name.
    pub netns: Option<String>,
    /// Whether it stands in for its nodes by passing packets on (policy `bypass`).
    pub is_bypass: bool,
    /// Files that the chain's ports name, with the ports' nodes: what no other port may write.
    pub files: Vec<(usize, FileId)>,
}

impl Assignment {
    /// Takes up what a change adds to a worker that runs: rings, and new settings of its nodes.
    pub fn take_up(&mut self, delta: &Self) {
        self.rings.extend(delta.rings.iter().cloned());
        for node in &delta.nodes {
            let mut known = self.nodes.iter_mut();
            if let Some(known) = known.find(|known| known.index == node.index) {
                known.clone_from(node);
            }
        }
    }
}

/// How a running worker's lanes are to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// For each worker that returns buffers here: the links by which it can hold them, by their
    /// numbers in the ledgers.
    pub home_links: Vec<(usize, Vec<u8>)>,
    /// For each owner that buffers are returned to: its pools.
    pub lane_pools: Vec<(usize, Vec<u16>)>,
}

/// How a running worker's outputs are to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewiring {
    /// For each node whose outputs changed: the link of each output.
    pub outputs: Vec<(usize, Vec<Option<usize>>)>,
}

/// From supervisor to worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    /// What to build. Descriptors of adopted pools come first, each with an `Adopt`.
    Assign(Box<Assignment>),
    /// Memory of an adopted pool, before `Assign`.
    Adopt(u16),
    /// Memory that outlives an NF, with its descriptor, before `Assign` or `Change`.
    State {
        /// Node, by index in the chain.
        node: usize,
        /// Its name in the node's plan.
        name: String,
        /// Its size in bytes.
        len: usize,
        /// Whether an NF has had it before.
        is_taken_over: bool,
        /// Whether shards of the node use it at the same time.
        is_shared: bool,
    },
    /// A neighbour's memory, with its descriptor. For a ring end that exists already, its
    /// successor, which publishes from `start` on.
    Attach {
        /// What it is.
        region: RegionName,
        /// Its size in bytes.
        len: usize,
        /// First index of a successor.
        start: u64,
    },
    /// All memory is attached: run.
    Start,
    /// Where the receiver of a TCP link listens; it may have been replaced.
    Connect {
        /// Index of the link.
        link: usize,
        /// Its address; an unspecified one means the gateway.
        address: SocketAddrV4,
    },
    /// The receiver of a link is down and its policy is `drop`.
    PeerDown {
        /// Index of the link.
        link: usize,
    },
    /// Buffers a dead worker held: take them home.
    Reclaim {
        /// Number of the request; the owner stores it in its counters page when it is done.
        number: u64,
        /// Links over which that worker can have come to hold them, by their numbers in the
        /// ledgers: only what is out by these comes home.
        links: Vec<u8>,
        /// The pool.
        pool: u16,
        /// Its buffers.
        buffers: Vec<u32>,
    },
    /// Mark in the ledger what is out by these links: somebody who could have it died. Ended by
    /// `EndSeek`.
    Seek {
        /// The links, by their numbers in the ledger.
        links: Vec<u8>,
    },
    /// Marked buffers that nobody has: take them home.
    TakeFound {
        /// Number of the request, as of `Reclaim`.
        number: u64,
        /// The pool.
        pool: u16,
        /// Its buffers.
        buffers: Vec<u32>,
    },
    /// Nothing is looked for any more.
    EndSeek,
    /// What to add while running: new rings, lanes and pools, and nodes with new settings. Answered
    /// like `Assign`; nothing is used before `Admit`.
    Change(Box<Assignment>),
    /// Take new pools and lanes in, and whose lanes may return what: packets of these pools may
    /// come as soon as all have said `Admitted`.
    Admit(Box<Admission>),
    /// Use what was added: outputs of nodes, and nodes with new settings.
    Rewire(Box<Rewiring>),
    /// Links that reach each node, in order of its inputs, with the input that each reaches; others
    /// are let go of. Said as often as links that go have run empty: new ones that are not among
    /// them yet wait for their turn.
    Inputs(Vec<(usize, Vec<(usize, u8)>)>),
    /// Forget what was to be added.
    Forget,
    /// Answered with `Synced` when everything said before has reached the data path.
    Sync {
        /// Answered with the same number.
        id: u64,
    },
    /// Ports take no more packets in.
    Drain {
        /// Answered with the same number.
        round: u64,
    },
    /// Whether the data path stands still: it takes no turn, and ticks no NF, while somebody else
    /// changes the memory of its NFs. Everything that it is told it does.
    Hold {
        /// Whether it does from now on.
        is_held: bool,
    },
    /// What probes are to note.
    Probe(ProbeSettings),
    /// Another supervisor has taken over this connection. Answered with `Resumed`; what its
    /// predecessor began to say and did not finish is forgotten.
    Resume {
        /// Answered with the same number.
        nonce: u64,
    },
    /// Finish: last turn, close ports, say `Stopped`.
    Stop,
    /// A request to a node.
    Control {
        /// Answered with the same number.
        id: u64,
        /// Node, by index in the chain.
        node: usize,
        /// The request.
        request: serde_json::Value,
        /// Whether it amends the node's settings: what became of it is said again in `Resumed`.
        is_change: bool,
    },
}

/// From worker to supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromWorker {
    /// First record.
    Hello {
        /// Its protocol version.
        version: u32,
        /// The word the supervisor gave it to be known by.
        token: String,
    },
    /// Memory it made, with the descriptor.
    Made {
        /// What it is.
        region: RegionName,
        /// Its size in bytes.
        len: usize,
    },
    /// Where it listens for the sender of a TCP link.
    Listening {
        /// Index of the link.
        link: usize,
        /// The address.
        address: SocketAddrV4,
    },
    /// All memory is made and all ports are open.
    AllMade {
        /// Remarks for people (no huge pages, ...).
        notices: Vec<String>,
    },
    /// The data path runs.
    Started,
    /// It cannot do what it was assigned.
    Failed {
        /// The node at fault, by index in the chain.
        node: Option<usize>,
        /// Why.
        message: String,
    },
    /// Answer to `Sync`.
    Synced {
        /// Number of the question.
        id: u64,
    },
    /// A neighbour wrote more into its side of a ring than an accident explains.
    Violation {
        /// The neighbour's memory.
        region: RegionName,
        /// How many descriptors or cursors were impossible.
        count: u64,
    },
    /// Its receiving ports have all come to their end.
    Finished,
    /// Answer to `Drain`: nothing more is taken in.
    Drained {
        /// Number of the round in which it was asked.
        round: u64,
    },
    /// Packets of pools that are new with `Admit` are known here, and find their way home.
    Admitted,
    /// Outputs are as `Rewire` said: nothing enters links that go any more.
    Rewired,
    /// Answer to `Control`.
    Answer {
        /// Number of the request.
        id: u64,
        /// The NF's answer.
        result: Result<serde_json::Value, String>,
    },
    /// Answer to `Resume`. What this worker said before counts no more.
    Resumed {
        /// Number of the question.
        nonce: u64,
        /// Records it has heard on this connection, from all supervisors, but `Resume`.
        heard: u64,
        /// Whether it has said `Finished`.
        is_finished: bool,
        /// The last round of which it has said `Drained`.
        drained: Option<u64>,
        /// The last requests that amend settings which it has answered, and whether it accepted
        /// them.
        changed: Vec<(u64, bool)>,
    },
    /// Last record.
    Stopped {
        /// What ports said when closed, and what NFs counted.
        ports: Vec<PortClosing>,
    },
}

/// What a port said when it was closed, or an NF counted by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortClosing {
    /// Node, by index in the chain.
    pub node: usize,
    /// What failed.
    pub error: Option<String>,
    /// Counters of its own that have no word in the counters page.
    pub counters: Vec<(String, u64)>,
}
