//! Which endpoint outside an endpoint inside has, and what may pass: sessions, and all that follows
//! from them.
//!
//! In the middle of a packet's way through `nat44`, between its headers (`packet`, `icmp`) and its
//! verdict. A *session* is a pair of an endpoint inside and one of the world; it has the endpoint
//! outside, how far its TCP connection has come, and timeouts, in memory that outlives a kill.
//! Sessions are the truth. Mappings, what leads back to them, who may send to them, blocks and
//! subscribers are counts over sessions and are found anew from them ([`Nat::take_over`]). A
//! mapping lives as long as a session of it does; only packets from inside make one.

use catena_wire::tcp::Flags;

use super::config::{Filtering, Settings};
use super::endpoint::{Endpoint, protocol_index};
use super::log::{Event, Log, What};
use super::pool::Pool;
use super::subscribers::Subscribers;
use super::tcp::Progress;
use super::why::Why;
use crate::hash::random_seed;
use crate::{Cursor, Fate, Flow, FlowTable, HeapMemory, Inserted, Memory, Shape, Timeouts};

/// Sessions that end in one call, at most.
pub(super) const EXPIRY_BUDGET: u32 = 256;
/// What the words of a session mean.
const SCHEMA: u64 = 1;

/// What the translator has done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) sessions_made: u64,
    pub(super) mappings_made: u64,
    pub(super) blocks_assigned: u64,
    pub(super) blocks_released: u64,
}

/// The shape of the table of sessions: two endpoints as the key, and one word.
pub(super) fn shape(settings: &Settings) -> Shape {
    Shape {
        schema: SCHEMA,
        ..Shape::new(2, 1, settings.sessions)
    }
}

/// The translator, with its sessions in memory `M`.
#[derive(Debug)]
pub(super) struct Nat<M> {
    pub(super) settings: Settings,
    pub(super) sessions: FlowTable<M>,
    /// From the endpoint inside: the endpoint outside, and how many sessions.
    pub(super) mappings: FlowTable<HeapMemory>,
    /// From the endpoint outside: the endpoint inside.
    outsides: FlowTable<HeapMemory>,
    /// From an endpoint inside and an address of the world: how many sessions; where the filter
    /// asks for it.
    permits: Option<FlowTable<HeapMemory>>,
    pub(super) subscribers: Subscribers,
    pub(super) pool: Pool,
    pub(super) log: Log,
    pub(super) counts: Counts,
    /// Sessions that end in this call.
    ended: Vec<[u64; 2]>,
}

fn table(key_words: u32, state_words: u32, capacity: u32) -> Option<FlowTable<HeapMemory>> {
    let shape = Shape::new(key_words, state_words, capacity);
    FlowTable::on_heap(&shape, random_seed(), 0).ok()
}

impl<M: Memory> Nat<M> {
    /// Over sessions that may be a predecessor's; gives how many of these had to end, since these
    /// settings have no place for them. None if there is a table that cannot be made.
    pub(super) fn new(settings: Settings, sessions: FlowTable<M>) -> Option<(Self, u32)> {
        let count = settings.sessions;
        let needs_permits = settings.filtering == Filtering::AddressDependent;
        let mut nat = Self {
            sessions,
            mappings: table(1, 2, count)?,
            outsides: table(1, 1, count)?,
            permits: match needs_permits {
                true => Some(table(2, 1, count)?),
                false => None,
            },
            subscribers: Subscribers::new(settings.subscribers)?,
            pool: Pool::new(&settings, random_seed()[0]),
            log: Log::new(settings.log),
            counts: Counts::default(),
            ended: Vec::with_capacity(EXPIRY_BUDGET as usize),
            settings,
        };
        let lost = nat.take_over();
        nat.pool.open();
        Some((nat, lost))
    }

    /// Takes sessions of a predecessor for its own; ends those whose endpoints are no longer
    /// inside, or outside, or contradict others.
    fn take_over(&mut self) -> u32 {
        let mut all = Vec::new();
        let visit = |flow, entry: crate::Entry<'_>| {
            all.push((flow, [entry.key(0), entry.key(1)], entry.state(0)));
        };
        self.sessions.walk(&mut Cursor::default(), u32::MAX, visit);
        let mut lost = 0;
        for (flow, key, word) in all {
            if !self.adopt(key, word) {
                self.sessions.remove(flow);
                lost += 1;
            }
        }
        lost
    }

    fn adopt(&mut self, key: [u64; 2], word: u64) -> bool {
        let (inside, outside) = (Endpoint::of_word(key[0]), Endpoint::of_word(word));
        let is_known = protocol_index(inside.protocol).is_some();
        if !is_known
            || outside.protocol != inside.protocol
            || !self.settings.is_inside(inside.address)
        {
            return false;
        }
        let Some(subscriber) = self.subscribers.make(inside.address) else {
            return false;
        };
        let is_mapped = match self.mappings.find(&key[..1]) {
            Some(mapping) => self.mappings.state(mapping, 0) == outside.word(),
            None => self.adopt_mapping(inside, outside, subscriber),
        };
        if is_mapped {
            self.count_session(key);
        } else {
            self.forget_unused(inside.address);
        }
        is_mapped
    }

    fn adopt_mapping(&mut self, inside: Endpoint, outside: Endpoint, subscriber: Flow) -> bool {
        let Some(place) = self.pool.place(outside.address, outside.port) else {
            return false;
        };
        let is_new = self.pool.owner(place.0).is_none();
        if !self.pool.claim(place, inside.protocol, inside.address) {
            return false;
        }
        if is_new {
            let has_room = self.subscribers.add_block(subscriber, place.0);
            if !has_room {
                self.pool.give_port(place, inside.protocol);
                self.pool.give_back(place.0, 0);
                return false;
            }
            self.note(What::Kept, inside.address, place.0, None);
        }
        self.insert_mapping(inside, outside)
    }

    fn note(&mut self, what: What, inside: u32, block: u32, at_ns: Option<u64>) {
        self.log.note(Event {
            at_ns,
            what,
            inside,
            block: Some((self.pool.address(block), self.pool.ports(block))),
        });
    }

    /// Counts a session to all that lives by it; its mapping is there.
    fn count_session(&mut self, key: [u64; 2]) {
        if let Some(mapping) = self.mappings.find(&key[..1]) {
            let count = self.mappings.state(mapping, 1) + 1;
            self.mappings.set_state(mapping, 1, count);
        }
        let (inside, remote) = (Endpoint::of_word(key[0]), Endpoint::of_word(key[1]));
        if let Some(subscriber) = self.subscribers.find(inside.address) {
            let count = self.subscribers.sessions(subscriber) + 1;
            self.subscribers.set_sessions(subscriber, count);
        }
        if let Some(permits) = &mut self.permits {
            let key = [key[0], remote.any_port().word()];
            if let Ok(Inserted::New(permit) | Inserted::Present(permit)) =
                permits.insert(&key, Timeouts::NONE, 0)
            {
                permits.set_state(permit, 0, permits.state(permit, 0) + 1);
            }
        }
    }

    fn timeouts(&self, protocol: u8, progress: Progress) -> Timeouts {
        let timeouts = &self.settings.timeouts;
        let span = match (protocol_index(protocol), progress.is_established()) {
            (Some(0), _) => timeouts.udp,
            (Some(1), true) => timeouts.tcp_established,
            (Some(1), false) => timeouts.tcp_transitory,
            _ => timeouts.icmp,
        };
        Timeouts::idle(span.ns)
    }

    /// A burst's sessions, by pairs of endpoints; those that are found are used now.
    pub(super) fn look_up(&mut self, keys: &[u64], now_ns: u64, found: &mut [Option<Flow>]) {
        self.sessions.lookup(keys, now_ns, found);
    }

    /// A burst's endpoints inside, by those outside: into `insides`, 0 for none.
    pub(super) fn look_back(
        &mut self,
        outsides: &[u64],
        found: &mut [Option<Flow>],
        insides: &mut [u64],
    ) {
        self.outsides.lookup(outsides, 0, found);
        for (inside, found) in insides.iter_mut().zip(found) {
            *inside = found.map_or(0, |flow| self.outsides.state(flow, 0));
        }
    }

    /// The endpoint inside that has one outside.
    pub(super) fn inside_of(&self, outside: Endpoint) -> Option<Endpoint> {
        let flow = self.outsides.find(&[outside.word()])?;
        Some(Endpoint::of_word(self.outsides.state(flow, 0)))
    }

    /// The endpoint outside that one inside has.
    pub(super) fn outside_of(&self, inside: Endpoint) -> Option<Endpoint> {
        let flow = self.mappings.find(&[inside.word()])?;
        Some(Endpoint::of_word(self.mappings.state(flow, 0)))
    }

    /// Whether the two have a session. Asking does not count as use of it.
    pub(super) fn has_session(&self, inside: Endpoint, remote: Endpoint) -> bool {
        let key = [inside.word(), remote.word()];
        self.sessions.find(&key).is_some()
    }

    /// A packet from inside to the world: what it has outside. `found` is its session, where that
    /// was looked up before; `flags` are those of TCP.
    pub(super) fn outbound(
        &mut self,
        found: Option<Flow>,
        [inside, remote]: [Endpoint; 2],
        flags: Option<Flags>,
        now_ns: u64,
    ) -> Result<Endpoint, Why> {
        let key = [inside.word(), remote.word()];
        let Some(flow) = found.or_else(|| self.sessions.find(&key)) else {
            let begun = self.begin([inside, remote], flags, now_ns);
            return begun.inspect_err(|why| self.log.refuse(*why, inside.address, now_ns));
        };
        let word = self.sessions.state(flow, 0);
        self.advance(flow, (word, flags), true, now_ns);
        Ok(Endpoint::of_word(word))
    }

    /// A packet from the world to a mapping whose endpoint inside is known: whether it may pass.
    pub(super) fn inbound(
        &mut self,
        found: Option<Flow>,
        [inside, remote]: [Endpoint; 2],
        flags: Option<Flags>,
        now_ns: u64,
    ) -> Result<(), Why> {
        let key = [inside.word(), remote.word()];
        if let Some(flow) = found.or_else(|| self.sessions.find(&key)) {
            let word = self.sessions.state(flow, 0);
            self.advance(flow, (word, flags), false, now_ns);
            return Ok(());
        }
        let is_permitted = match (self.settings.filtering, &self.permits) {
            (Filtering::EndpointIndependent, _) => true,
            (_, Some(permits)) => permits.find(&[key[0], remote.any_port().word()]).is_some(),
            (_, None) => false,
        };
        is_permitted.then_some(()).ok_or(Why::Filtered)
    }

    /// A segment of a TCP connection; of other protocols there is nothing to follow.
    fn advance(
        &mut self,
        flow: Flow,
        (word, flags): (u64, Option<Flags>),
        from_inside: bool,
        now_ns: u64,
    ) {
        let Some(flags) = flags else {
            return;
        };
        let before = Progress((word >> 8) as u8);
        let after = before.next(flags, from_inside);
        if after == before {
            return;
        }
        let word = word & !0xff00 | u64::from(after.0) << 8;
        self.sessions.set_state(flow, 0, word);
        if after.is_established() != before.is_established() {
            let timeouts = self.timeouts(word as u8, after);
            self.sessions.set_timeouts(flow, timeouts, now_ns);
        }
    }

    /// A session that was not there: of a mapping, which may be new, too.
    fn begin(
        &mut self,
        [inside, remote]: [Endpoint; 2],
        flags: Option<Flags>,
        now_ns: u64,
    ) -> Result<Endpoint, Why> {
        let progress = match flags {
            Some(flags) => Progress::begin(flags).ok_or(Why::NoConnection)?,
            None => Progress::default(),
        };
        let subscriber = self.subscribers.find(inside.address);
        let has = subscriber.map_or(0, |one| self.subscribers.sessions(one));
        if has >= self.settings.sessions_per_subscriber {
            return Err(Why::SubscriberSessions);
        }
        if self.sessions.is_full() {
            return Err(Why::SessionsFull);
        }
        let outside = match self.outside_of(inside) {
            Some(outside) => outside,
            None => self.map(inside, now_ns)?,
        };
        let key = [inside.word(), remote.word()];
        let timeouts = self.timeouts(inside.protocol, progress);
        let Ok(Inserted::New(flow) | Inserted::Present(flow)) =
            self.sessions.insert(&key, timeouts, now_ns)
        else {
            self.unmap_unused(inside, now_ns);
            return Err(Why::SessionsFull);
        };
        // Whoever is killed before this leaves a session of nothing outside, which nobody adopts.
        let word = outside.word() | u64::from(progress.0) << 8;
        self.sessions.set_state(flow, 0, word);
        self.counts.sessions_made += 1;
        self.count_session(key);
        Ok(outside)
    }

    /// A mapping that was not there: a port of the subscriber's blocks, or of a new one.
    fn map(&mut self, inside: Endpoint, now_ns: u64) -> Result<Endpoint, Why> {
        let made = self.subscribers.make(inside.address);
        let subscriber = made.ok_or(Why::SubscribersFull)?;
        let outside = self
            .take_port(subscriber, inside, now_ns)
            .and_then(|outside| {
                let is_inserted = self.insert_mapping(inside, outside);
                if !is_inserted {
                    self.give_port(outside, inside.address, now_ns);
                }
                is_inserted.then_some(outside).ok_or(Why::SessionsFull)
            });
        match outside {
            Ok(_) => self.counts.mappings_made += 1,
            Err(_) => self.forget_unused(inside.address),
        }
        outside
    }

    fn insert_mapping(&mut self, inside: Endpoint, outside: Endpoint) -> bool {
        let forth = self.mappings.insert(&[inside.word()], Timeouts::NONE, 0);
        let back = self.outsides.insert(&[outside.word()], Timeouts::NONE, 0);
        match (forth, back) {
            (Ok(Inserted::New(forth)), Ok(Inserted::New(back))) => {
                self.mappings.set_state(forth, 0, outside.word());
                self.mappings.set_state(forth, 1, 0);
                self.outsides.set_state(back, 0, inside.word());
                true
            }
            (forth, back) => {
                if let Ok(Inserted::New(forth)) = forth {
                    self.mappings.remove(forth);
                }
                if let Ok(Inserted::New(back)) = back {
                    self.outsides.remove(back);
                }
                false
            }
        }
    }

    fn take_port(
        &mut self,
        subscriber: Flow,
        inside: Endpoint,
        now_ns: u64,
    ) -> Result<Endpoint, Why> {
        let blocks = self.subscribers.blocks(subscriber);
        let Endpoint { port, protocol, .. } = inside;
        let mut held = blocks.all().iter();
        let found = held.find_map(|block| {
            let port = self.pool.take_port(*block, protocol, port)?;
            Some((*block, port))
        });
        let (block, port) = match found {
            Some(found) => found,
            None if blocks.all().len() >= self.settings.blocks_per_subscriber => {
                return Err(Why::SubscriberPorts);
            }
            None => {
                // All of one address: whoever looks for a subscriber's peers finds it there
                // (RFC 4787 REQ-2).
                let like = blocks.all().first().copied();
                let block = self.pool.assign(inside.address, like, now_ns);
                let block = block.ok_or(Why::NoBlock)?;
                self.subscribers.add_block(subscriber, block);
                self.counts.blocks_assigned += 1;
                self.note(What::Assigned, inside.address, block, Some(now_ns));
                let port = self.pool.take_port(block, protocol, port);
                (block, port.ok_or(Why::NoBlock)?)
            }
        };
        Ok(Endpoint {
            address: self.pool.address(block),
            port,
            protocol,
        })
    }

    /// Gives a port back, and with the last one its block.
    fn give_port(&mut self, outside: Endpoint, owner: u32, now_ns: u64) {
        let Some(place) = self.pool.place(outside.address, outside.port) else {
            return;
        };
        if self.pool.give_port(place, outside.protocol) > 0 {
            return;
        }
        self.pool.give_back(place.0, now_ns);
        if let Some(subscriber) = self.subscribers.find(owner) {
            self.subscribers.remove_block(subscriber, place.0);
        }
        self.counts.blocks_released += 1;
        self.note(What::Released, owner, place.0, Some(now_ns));
    }

    /// Ends what is known of a subscriber that has nothing.
    fn forget_unused(&mut self, address: u32) {
        if let Some(subscriber) = self.subscribers.find(address)
            && self.subscribers.blocks(subscriber).all().is_empty()
            && self.subscribers.sessions(subscriber) == 0
        {
            self.subscribers.remove(subscriber);
        }
    }

    /// Ends a mapping that has no session.
    fn unmap_unused(&mut self, inside: Endpoint, now_ns: u64) {
        let Some(mapping) = self.mappings.find(&[inside.word()]) else {
            return;
        };
        if self.mappings.state(mapping, 1) > 0 {
            return;
        }
        let outside = Endpoint::of_word(self.mappings.state(mapping, 0));
        self.mappings.remove(mapping);
        if let Some(back) = self.outsides.find(&[outside.word()]) {
            self.outsides.remove(back);
        }
        self.give_port(outside, inside.address, now_ns);
        self.forget_unused(inside.address);
    }

    /// Ends sessions whose time has come, `budget` of them at most and [`EXPIRY_BUDGET`].
    pub(super) fn expire(&mut self, now_ns: u64, budget: u32) {
        let ended = &mut self.ended;
        ended.clear();
        let budget = budget.min(EXPIRY_BUDGET);
        self.sessions.expire(now_ns, budget, |session| {
            let entry = session.entry;
            ended.push([entry.key(0), entry.key(1)]);
            Fate::Remove
        });
        for at in 0..self.ended.len() {
            self.uncount_session(self.ended[at], now_ns);
        }
    }

    /// What lived by a session that has ended.
    fn uncount_session(&mut self, key: [u64; 2], now_ns: u64) {
        let (inside, remote) = (Endpoint::of_word(key[0]), Endpoint::of_word(key[1]));
        if let Some(permits) = &mut self.permits
            && let Some(permit) = permits.find(&[key[0], remote.any_port().word()])
        {
            match permits.state(permit, 0) {
                0 | 1 => _ = permits.remove(permit),
                count => _ = permits.set_state(permit, 0, count - 1),
            }
        }
        if let Some(subscriber) = self.subscribers.find(inside.address) {
            let count = self.subscribers.sessions(subscriber).saturating_sub(1);
            self.subscribers.set_sessions(subscriber, count);
        }
        if let Some(mapping) = self.mappings.find(&key[..1]) {
            let count = self.mappings.state(mapping, 1).saturating_sub(1);
            self.mappings.set_state(mapping, 1, count);
            if count == 0 {
                self.unmap_unused(inside, now_ns);
            }
        }
    }
}
