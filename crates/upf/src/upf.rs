//! A UPF without its NF: all state, given messages, packets and times.
//!
//! What a simulation runs and what [`nf`](crate::nf) wraps. Its methods lie by what they are about:
//! `node` (associations), `sessions` (their messages), `reports` (usage and its requests),
//! `path` (packets). Nothing here does I/O or reads a clock.

use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;

use catena_flow::{Fate, FlowTable, HeapMemory, Inserted, Shape, Timeouts};

use crate::application::Applications;
use crate::association::ASSOCIATION_COUNT;
use crate::ceilings::Ceilings;
use crate::ethernet::stations::Stations;
use crate::model::{Hint, Key};
use crate::parting::Parting;
use crate::path_qos::PathMonitors;
use crate::paths::Paths;
use crate::places::Places;
use crate::ranges::{Index, KEYS_PER_SESSION, Pool, Teids};
use crate::rules::NONE;
use crate::settings::Settings;
use crate::shards::Shards;
use crate::store::{Memory, Store};
use crate::tally::Tally;
use crate::trace::Traces;
use crate::transactions::{Datagram, Transactions};
use crate::usage::WallClock;

/// Most messages that wait to leave.
pub const OUTBOX_COUNT_MAX: usize = 4096;

/// What a UPF counts, in the order of [`COUNTERS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// PFCP messages that were received.
    pub messages: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Requests that had been answered before.
    pub repeated: u64,
    /// Messages that were discarded without an answer.
    pub discarded: u64,
    /// Sessions established so far.
    pub established: u64,
    /// Session modifications so far.
    pub modified: u64,
    /// Sessions deleted so far.
    pub deleted: u64,
    /// Reports that were sent.
    pub reports: u64,
    /// Requests that nobody answered.
    pub unanswered: u64,
    /// Messages for which there was no room to leave.
    pub unsent: u64,
    /// Error Indications that were sent.
    pub error_indications: u64,
    /// Echo Requests that were answered.
    pub echoes: u64,
    /// End Markers that were sent.
    pub end_markers: u64,
    /// Router Advertisements that were sent.
    pub advertisements: u64,
    /// Senders that were told that a packet is too big.
    pub icmp_errors: u64,
    /// Requests that were redirected.
    pub redirected: u64,
    /// Copies of packets that were made for FARs.
    pub copied: u64,
    /// Copies for which there was no room.
    pub uncopied: u64,
    /// Echo Requests that were sent.
    pub echo_requests: u64,
    /// GTP-U paths that failed.
    pub path_failures: u64,
    /// Requests that went to another SMF.
    pub rerouted: u64,
    /// Events whose times no report tells, since one that was due had no room.
    pub untold_events: u64,
}

/// Names of [`Counters`].
pub const COUNTERS: [&str; 22] = [
    "pfcp_messages",
    "pfcp_refused",
    "pfcp_repeated",
    "pfcp_discarded",
    "sessions_established",
    "sessions_modified",
    "sessions_deleted",
    "reports",
    "requests_unanswered",
    "messages_unsent",
    "error_indications",
    "echo_responses",
    "end_markers",
    "router_advertisements",
    "icmp_errors",
    "requests_redirected",
    "packets_copied",
    "copies_unsent",
    "echo_requests",
    "path_failures",
    "requests_rerouted",
    "events_untold",
];

impl Counters {
    /// The values, in the order of [`COUNTERS`].
    pub const fn values(&self) -> [u64; 22] {
        [
            self.messages,
            self.refused,
            self.repeated,
            self.discarded,
            self.established,
            self.modified,
            self.deleted,
            self.reports,
            self.unanswered,
            self.unsent,
            self.error_indications,
            self.echoes,
            self.end_markers,
            self.advertisements,
            self.icmp_errors,
            self.redirected,
            self.copied,
            self.uncopied,
            self.echo_requests,
            self.path_failures,
            self.rerouted,
            self.untold_events,
        ]
    }
}

/// When sessions are to be looked at.
#[derive(Debug)]
pub struct Timers(FlowTable<HeapMemory>);

impl Timers {
    fn new(slots: u32, seed: [u64; 2], now_ns: u64) -> Result<Self, String> {
        let shape = Shape::new(1, 1, slots);
        let table = FlowTable::on_heap(&shape, seed, now_ns);
        table.map(Self).map_err(|error| error.to_string())
    }

    /// Has a slot looked at at an instant, or never.
    pub fn set(&mut self, slot: u32, at_ns: Option<u64>, now_ns: u64) {
        let key = [u64::from(slot)];
        let flow = self.0.find(&key);
        match (at_ns, flow) {
            (None, None) => {}
            (None, Some(flow)) => {
                self.0.remove(flow);
            }
            (Some(at_ns), flow) => {
                let timeouts = Timeouts::hard(at_ns.saturating_sub(now_ns).max(1));
                match flow {
                    Some(flow) => {
                        self.0.set_timeouts(flow, timeouts, now_ns);
                    }
                    None => {
                        // One per slot: there is room.
                        let inserted = self.0.insert(&key, timeouts, now_ns);
                        debug_assert!(matches!(inserted, Ok(Inserted::New(_))));
                    }
                }
            }
        }
    }

    /// A slot that is due.
    pub fn due(&mut self, now_ns: u64) -> Option<u32> {
        let mut due = None;
        // Entries that are only listed anew count as looked at.
        loop {
            let expired = self.0.expire(now_ns, 1, |ended| {
                due = u32::try_from(ended.entry.key(0)).ok();
                Fate::Remove
            });
            if due.is_some() || !expired.is_behind {
                return due;
            }
        }
    }

    /// When the next one may be due.
    pub fn next_ns(&self) -> Option<u64> {
        self.0.next_expiry_ns()
    }
}

/// What becomes of packets that are held for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// They may be free to go.
    Free,
    /// They are dropped.
    Dropped,
    /// They are dropped with their session: another one may have its slot already.
    Ended,
}

/// A report that waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// A downlink packet is held: PDR ID, and QFI.
    DownlinkData(u16, Option<u8>),
    /// No packet has passed for long.
    Inactivity,
}

/// What is on its way between a UPF and its SMFs: what outlives it where another UPF comes in its
/// place, beside sessions.
#[derive(Debug)]
pub(crate) struct Requests {
    /// Of the sessions that they are about.
    recovery: u32,
    /// The places that its rules have, and which network instances are 5G VN groups.
    places: Places,
    groups: Vec<u8>,
    transactions: Transactions,
    outbox: VecDeque<Datagram>,
    unreported: VecDeque<(u64, Waiting)>,
    untold: VecDeque<u64>,
    delayed: crate::delayed::DelayedReports,
    end_markers: VecDeque<(u64, crate::rules::Far)>,
    unadvertised: VecDeque<u32>,
    released: VecDeque<(u32, Release)>,
    partings: (Vec<Parting>, u32),
    /// What was learned of Ethernet sessions.
    stations: Vec<(u64, u64)>,
    /// GTP-U paths that SMFs believe to be down, by the names of their interfaces.
    down: Vec<(String, IpAddr)>,
}

/// All state of a UPF.
#[derive(Debug)]
pub struct Upf {
    pub(crate) settings: Settings,
    pub(crate) clock: WallClock,
    pub(crate) store: Store,
    pub(crate) index: Index,
    /// How often the index may have changed.
    pub(crate) changes: u64,
    /// Where the key of the packet that comes next leads to, if that is known.
    pub(crate) hint: Option<Hint>,
    pub(crate) teids: Teids,
    pub(crate) pools: Vec<Pool>,
    pub(crate) shards: Shards,
    pub(crate) timers: Timers,
    pub(crate) applications: Applications,
    pub(crate) transactions: Transactions,
    pub(crate) outbox: VecDeque<Datagram>,
    /// When each association's peer is to be asked whether it is there.
    pub(crate) heartbeats: [u64; ASSOCIATION_COUNT],
    /// Tunnels whose peers are to get an end marker: interface, address, TEID; with the SEID.
    pub(crate) end_markers: VecDeque<(u64, crate::rules::Far)>,
    /// Slots of sessions that have got another prefix, of which their UEs are to learn.
    pub(crate) unadvertised: VecDeque<u32>,
    /// Slots of sessions whose held packets may be free to go, or are to be dropped.
    pub(crate) released: VecDeque<(u32, Release)>,
    /// Reports for which too many requests are outstanding, by the session's SEID: each waits until
    /// another one was answered. As many as there may be sessions.
    pub(crate) unreported: VecDeque<(u64, Waiting)>,
    /// SEIDs of sessions whose URRs have something to tell that waits in them. Twice as many as
    /// there may be sessions.
    pub(crate) untold: VecDeque<u64>,
    /// Whether usage has the next turn of what waits for room, where all else waits, too.
    pub(crate) is_usage_next: bool,
    /// Sessions of which packets are held: those behind them wait too.
    pub(crate) holding: HashSet<u32>,
    /// What the request at hand wants done with many sessions.
    pub(crate) planned: Option<crate::sweep::Sweep>,
    /// Such work that is not at its end.
    pub(crate) sweeps: VecDeque<crate::sweep::Sweep>,
    /// How many have ever begun, as sessions have noted.
    pub(crate) sweeps_begun: u32,
    /// Associations whose end is prepared, and how many have ever been.
    pub(crate) partings: Vec<Parting>,
    pub(crate) partings_begun: u32,
    /// SMFs that are asked for associations, and when next.
    pub(crate) calls: Vec<(IpAddr, u64)>,
    /// Reports of them that wait for a delay.
    pub(crate) delayed: crate::delayed::DelayedReports,
    pub(crate) load: crate::load::Load,
    /// Error Indications that are sent.
    pub(crate) limiter: crate::limiter::Limiter,
    /// Those that are believed: who sends into unknown tunnels does not use these up.
    pub(crate) indications: crate::limiter::Limiter,
    pub(crate) advertisements: crate::limiter::Limiter,
    pub(crate) icmp_errors: crate::limiter::Limiter,
    pub(crate) counters: Counters,
    pub(crate) traces: Traces,
    pub(crate) ceilings: Ceilings,
    pub(crate) tally: Tally,
    pub(crate) paths: Paths,
    pub(crate) path_qos: PathMonitors,
    pub(crate) stations: Stations,
    pub(crate) ident: u16,
    /// What the packet at hand is to its group, if it is switched.
    pub(crate) member: crate::group::Member,
}

impl Upf {
    /// A UPF over what a predecessor left in `memory`, or over nothing.
    ///
    /// # Errors
    /// Limits that no table has.
    pub fn new(
        settings: Settings,
        memory: Memory,
        clock: WallClock,
        now_ns: u64,
    ) -> Result<Self, String> {
        let recovery = clock.seconds(now_ns);
        let (shard, shard_count) = settings.shard;
        let mut store = Store::open(memory, settings.session_bytes, settings.sessions, recovery);
        store.set_shard(shard);
        store.settle(&Places::of(&settings));
        let keys = settings.sessions.saturating_mul(KEYS_PER_SESSION).max(64);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the lower half is random too"
        )]
        let seed = settings.seed[0] as u32;
        let pools = settings
            .pools
            .iter()
            .map(|pool| pool.part(shard, shard_count));
        let mut upf = Self {
            index: Index::new(keys, settings.seed)?,
            changes: 0,
            hint: None,
            teids: Teids::new(shard, shard_count, seed),
            pools: pools.collect(),
            shards: Shards::new(&settings, shard_count),
            timers: Timers::new(settings.sessions, settings.seed, now_ns)?,
            applications: Applications::new(
                store.pfds(),
                settings.application_flows,
                settings.seed,
                now_ns,
            )?,
            transactions: Transactions::new(settings.t1_ns, settings.n1)
                .of_shard(shard, shard_count),
            outbox: VecDeque::new(),
            heartbeats: [now_ns.saturating_add(settings.heartbeat_ns); ASSOCIATION_COUNT],
            end_markers: VecDeque::new(),
            unadvertised: VecDeque::new(),
            released: VecDeque::new(),
            unreported: VecDeque::new(),
            untold: VecDeque::new(),
            is_usage_next: false,
            holding: HashSet::new(),
            planned: None,
            sweeps: VecDeque::new(),
            sweeps_begun: 0,
            partings: Vec::new(),
            partings_begun: 0,
            calls: settings.smfs.iter().map(|smf| (*smf, now_ns)).collect(),
            delayed: Default::default(),
            load: crate::load::Load::default(),
            limiter: crate::limiter::Limiter::new(settings.error_indications),
            indications: crate::limiter::Limiter::shared(settings.error_indications),
            advertisements: crate::limiter::Limiter::shared(crate::limiter::ADVERTISEMENTS_PER_S),
            icmp_errors: crate::limiter::Limiter::shared(settings.icmp_errors),
            counters: Counters::default(),
            traces: Traces::from(settings.seed[1]),
            tally: Tally::new(&settings),
            ceilings: Ceilings::new(&settings.ceilings, settings.shard),
            paths: Paths::new(settings.echo.of_shards(shard_count), now_ns),
            path_qos: PathMonitors::new(),
            stations: Stations::new(settings.seed, now_ns)?,
            ident: 0,
            member: crate::group::Member::NONE,
            store,
            clock,
            settings,
        };
        upf.adopt(now_ns);
        Ok(upf)
    }

    /// Makes all that leads to sessions of those that a predecessor left.
    fn adopt(&mut self, now_ns: u64) {
        let slots: Vec<u32> = self.store.slots().collect();
        // Of a snapshot pages of higher slots are later: of two sessions with one key the upper one
        // has it now, and the other one has ended in between. Otherwise there are no such two.
        for slot in slots.into_iter().rev() {
            let Some(session) = self.store.session(slot) else {
                self.store.remove(slot);
                continue;
            };
            let keys = session.keys();
            // Not its own: the number of shards has changed, and its packets come to another one.
            let is_free = |key: &Key| self.is_mine(*key) && self.index.find(*key).is_none();
            if !keys.iter().all(is_free) {
                self.store.remove(slot);
                continue;
            }
            for key in keys {
                let _ = self.index.insert(key, slot);
                self.take(key);
            }
            self.tally.enter(&session);
            self.ceilings.note(None, Some(&session), &self.settings);
            self.sweeps_begun = self.sweeps_begun.max(session.head.sweeps);
            if session.head.is_ethernet {
                self.stations.enter(session.head.seid, slot);
            }
            if session.has_untold() {
                self.untold.push_front(session.head.seid);
            }
            self.arm(slot, now_ns);
        }
        self.adopt_path_qos();
        // Behind what packets find sessions by: far ends must not take its room.
        let slots: Vec<u32> = self.store.slots().collect();
        for slot in slots {
            if let Some(session) = self.store.session(slot) {
                self.note_remotes(&session, slot);
            }
        }
    }

    /// Whether packets that are found by a key come to this shard.
    pub(crate) fn is_mine(&self, key: Key) -> bool {
        let shard = self.shards.of_key(key);
        shard.is_none_or(|shard| u16::from(shard) == self.settings.shard.0)
    }

    /// Ends it, and gives the memory that a successor takes over.
    pub fn into_memory(self) -> Memory {
        self.store.into_memory()
    }

    /// Notes that an address is in use.
    pub(crate) fn take(&mut self, key: Key) {
        self.pools.iter_mut().for_each(|pool| pool.take(key));
    }

    /// Forgets a key of a session, unless it is another one's.
    pub(crate) fn let_go(&mut self, key: Key, slot: u32) {
        if self.index.find(key) == Some(slot) {
            self.index.remove(key);
            self.pools.iter_mut().for_each(|pool| pool.give_back(key));
        }
    }

    /// Has a message leave.
    pub(crate) fn send(&mut self, datagram: Datagram) {
        if self.outbox.len() < OUTBOX_COUNT_MAX {
            self.outbox.push_back(datagram);
        } else {
            self.counters.unsent += 1;
        }
    }

    /// Counts what the UPF itself has made and cannot send: a copy, or all else.
    pub(crate) fn count_unsent(&mut self, is_copy: bool) {
        let count = match is_copy {
            true => &mut self.counters.uncopied,
            false => &mut self.counters.unsent,
        };
        *count += 1;
    }

    /// Gives up what is on its way between it and SMFs, to a UPF that comes in its place.
    pub(crate) fn give_up_requests(&mut self) -> Requests {
        let (shard, shard_count) = self.settings.shard;
        let none = Transactions::new(self.settings.t1_ns, self.settings.n1);
        let none = none.of_shard(shard, shard_count);
        Requests {
            recovery: self.store.recovery(),
            places: Places::of(&self.settings),
            groups: self.settings.groups.clone(),
            transactions: std::mem::replace(&mut self.transactions, none),
            outbox: std::mem::take(&mut self.outbox),
            unreported: std::mem::take(&mut self.unreported),
            untold: std::mem::take(&mut self.untold),
            delayed: std::mem::take(&mut self.delayed),
            end_markers: std::mem::take(&mut self.end_markers),
            unadvertised: std::mem::take(&mut self.unadvertised),
            released: std::mem::take(&mut self.released),
            partings: (std::mem::take(&mut self.partings), self.partings_begun),
            stations: self.stations.learned(),
            down: self
                .paths
                .believed_down()
                .into_iter()
                .filter_map(|(place, peer)| {
                    let interface = self.settings.interfaces.get(usize::from(place))?;
                    Some((interface.name.clone(), peer))
                })
                .collect(),
        }
    }

    /// Goes on with what another UPF has given up. What is about sessions that did not pass on, as
    /// where their number changes, is forgotten: new ones may have their numbers. Whether packets
    /// that are held of 5G VN groups, which have the places of these, are of the same groups still.
    pub(crate) fn take_requests(&mut self, requests: Requests) -> bool {
        let places = Places::of(&self.settings);
        let end_markers = requests.end_markers.into_iter().map(|(seid, mut far)| {
            requests.places.move_far(&places, &mut far);
            (seid, far)
        });
        self.end_markers.extend(end_markers);
        let is_here = |group: &u8| self.settings.groups.contains(group);
        let knows_groups = requests.groups.iter().all(is_here)
            && places.agrees_on(&requests.places, &requests.groups);
        let interfaces = &self.settings.interfaces;
        let down = requests.down.into_iter().filter_map(|(name, peer)| {
            let place = interfaces.iter().position(|one| one.name == name)?;
            Some((u8::try_from(place).ok()?, peer))
        });
        self.paths.believe_down(down);
        if requests.recovery != self.store.recovery() {
            return knows_groups;
        }
        self.stations.learn_all(&requests.stations);
        self.transactions.go_on_with(requests.transactions);
        self.outbox.extend(requests.outbox);
        self.unreported.extend(requests.unreported);
        self.unadvertised.extend(requests.unadvertised);
        self.delayed = requests.delayed;
        // Some were found in the memory already.
        let known: HashSet<u64> = self.untold.iter().copied().collect();
        let others = requests.untold.into_iter();
        self.untold
            .extend(others.filter(|seid| !known.contains(seid)));
        self.released.extend(requests.released);
        (self.partings, self.partings_begun) = requests.partings;
        knows_groups
    }

    /// The next message that leaves.
    pub fn next_message(&mut self) -> Option<Datagram> {
        self.outbox.pop_front()
    }

    /// Sessions.
    pub const fn session_count(&self) -> u32 {
        self.store.live()
    }

    /// Packets of QUIC that were not looked into, since too many came.
    pub const fn unread_hello_count(&self) -> u64 {
        self.applications.unread()
    }

    /// Connections that are known to belong to applications.
    pub fn application_flow_count(&self) -> u32 {
        self.applications.flow_count()
    }

    /// What it has counted.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What it was told by its operator.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The name of a network instance by place.
    pub(crate) fn instance_name(&self, place: u8) -> Option<&[u8]> {
        let place = (place != NONE).then_some(usize::from(place))?;
        self.settings.instances.get(place).map(Vec::as_slice)
    }
}
