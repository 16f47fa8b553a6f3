//! What was learned: which applications connections belong to, and hellos that are not whole yet.
//!
//! On a packet's way, between its session and its PDR. A connection is known by its session, its
//! addresses and its ports, and has a mark for each application that it belongs to. Marks end with
//! the connection ([`Flows::close`]), where the host begins another one ([`Flows::begin`]), or
//! [`IDLE_NS`] after its last packet. Limits:
//! as many connections as the settings say, of which one idle for long gives way to a new one where
//! all are in use; [`SESSION_CONNECTION_COUNT_MAX`] of a session, whose own oldest gives way;
//! [`APPLICATIONS_MAX`] applications of one; [`HELLO_COUNT`] hellos of [`HELLO_LEN_MAX`] bytes,
//! [`SESSION_HELLO_COUNT`] of a session, of which the oldest gives way. What is learned is not kept
//! over a kill: connections are asked again at their next request.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use catena_flow::{Entry, Eviction, Fate, FlowTable, HeapMemory, Inserted, Shape, Timeouts};

use crate::sdf::Inner;

/// After so long without a packet a connection is forgotten.
pub const IDLE_NS: u64 = 300_000_000_000;
/// After so long without a packet one of which the host has sent its end.
pub const CLOSING_NS: u64 = 10_000_000_000;
/// Data of a UE lie so near to the beginning of a connection whose host still repeats its SYN+ACK:
/// a window that no option has scaled.
const FIRST_LEN_MAX: u32 = 65_535;
/// Connections that are looked at for their end at once.
const EXPIRED_COUNT_MAX: u32 = 64;
/// Most connections of a session that are known; at most a quarter of all.
pub const SESSION_CONNECTION_COUNT_MAX: usize = 128;
/// Most applications that a connection belongs to: the first ones by their numbers.
pub const APPLICATIONS_MAX: usize = 4;
/// Hellos that may be in parts at once.
pub const HELLO_COUNT: usize = 64;
/// Those of them that may be of one session.
pub const SESSION_HELLO_COUNT: usize = 4;
/// Longest hello that is looked into.
pub const HELLO_LEN_MAX: usize = 4096;
/// How long a hello waits for its next part.
pub(super) const HELLO_NS: u64 = 10_000_000_000;

const WORDS: usize = 6;
/// The word behind the marks: which sides have sent their end, a bit each; and in the upper half
/// the sequence number of the data that said what it belongs to.
const ENDS: usize = APPLICATIONS_MAX;
const BOTH_ENDS: u64 = 0b11;
const SHAPE_STATE_WORDS: u32 = APPLICATIONS_MAX as u32 + 1;

/// A connection of a UE: its session by SEID, since slots are used again; addresses, ports,
/// protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection([u64; WORDS]);

fn words(address: IpAddr) -> [u64; 2] {
    let bits = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    };
    [(bits >> 64) as u64, bits as u64]
}

impl Connection {
    /// That of a packet; none without ports.
    #[inline]
    pub fn of(packet: &Inner, session: u64, is_uplink: bool) -> Option<Self> {
        let (src, dst) = packet.ports?;
        let ((ue, ue_port), (host, host_port)) = match is_uplink {
            true => ((packet.src, src), (packet.dst, dst)),
            false => ((packet.dst, dst), (packet.src, src)),
        };
        let ([a, b], [c, d]) = (words(ue), words(host));
        let ports = u64::from(ue_port) << 16 | u64::from(host_port);
        let ends = u64::from(packet.protocol) << 32 | ports;
        Some(Self([a, b, c, d, ends, session]))
    }

    fn of_entry(entry: &Entry<'_>) -> Self {
        Self(std::array::from_fn(|word| entry.key(word)))
    }

    pub(super) const fn session(&self) -> u64 {
        self.0[WORDS - 1]
    }
}

/// Applications that a connection belongs to, by their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks([u64; APPLICATIONS_MAX]);

impl Marks {
    /// Adds one, if there is room.
    pub fn add(&mut self, application: u64) {
        if let Some(free) = self.0.iter_mut().find(|one| **one == 0) {
            *free = application;
        }
    }

    /// Whether one is among them.
    #[inline]
    pub fn holds(&self, application: u64) -> bool {
        application != 0 && self.0.contains(&application)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }
}

/// A hello that is not whole.
#[derive(Debug)]
struct Hello {
    of: Connection,
    /// Sequence number of the part that it waits for.
    next: u32,
    came_ns: u64,
    bytes: Vec<u8>,
}

/// What was learned.
#[derive(Debug)]
pub struct Flows {
    table: FlowTable<HeapMemory>,
    /// Connections of each session that has any, the oldest first.
    of_session: HashMap<u64, VecDeque<Connection>>,
    /// Most connections of a session.
    session_limit: usize,
    hellos: Vec<Hello>,
}

/// Has the oldest of hellos in parts give way to another one of a session, if there are as many as
/// there may be: of its own ones where it has as many as a session may.
pub(super) fn make_way<T>(hellos: &mut Vec<T>, is_own: impl Fn(&T) -> bool) {
    let own = hellos.iter().filter(|one| is_own(one)).count();
    let oldest = match own < SESSION_HELLO_COUNT {
        true => (hellos.len() >= HELLO_COUNT).then_some(0),
        false => hellos.iter().position(is_own),
    };
    if let Some(oldest) = oldest {
        hellos.remove(oldest);
    }
}

/// Forgets that a session has a connection.
fn let_go(of_session: &mut HashMap<u64, VecDeque<Connection>>, of: &Connection) {
    if let Some(own) = of_session.get_mut(&of.session()) {
        own.retain(|one| one != of);
        if own.is_empty() {
            of_session.remove(&of.session());
        }
    }
}

impl Flows {
    /// Nothing yet, with room for `count` connections.
    ///
    /// # Errors
    /// A count that no table has.
    pub fn new(count: u32, seed: [u64; 2], now_ns: u64) -> Result<Self, String> {
        let shape = Shape::new(WORDS as u32, SHAPE_STATE_WORDS, count);
        let table = FlowTable::on_heap(&shape, seed, now_ns);
        let quarter = usize::try_from(count / 4).unwrap_or(usize::MAX);
        Ok(Self {
            table: table.map_err(|error| error.to_string())?,
            of_session: HashMap::new(),
            session_limit: quarter.clamp(1, SESSION_CONNECTION_COUNT_MAX),
            hellos: Vec::new(),
        })
    }

    /// How many connections are known.
    pub fn len(&self) -> u32 {
        self.table.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// What a connection belongs to, of which a packet has come.
    #[inline]
    pub fn marks(&mut self, of: &Connection, now_ns: u64) -> Marks {
        let Some(flow) = self.table.find(&of.0) else {
            return Marks::default();
        };
        self.table.touch(flow, now_ns);
        Marks(std::array::from_fn(|word| self.table.state(flow, word)))
    }

    /// Notes what a connection belongs to, instead of what it did: by the UE's data from `sequence`
    /// on.
    pub fn set(&mut self, of: &Connection, marks: &Marks, sequence: u32, now_ns: u64) {
        if marks.is_empty() {
            self.forget(of);
            return;
        }
        if self.table.find(&of.0).is_none() {
            self.make_room(of.session());
        }
        let timeouts = Timeouts::idle(IDLE_NS);
        let mut gone = None;
        let eviction = Eviction::OldestIdle;
        let inserted = self
            .table
            .insert_evicting(&of.0, timeouts, now_ns, eviction, |_, entry| {
                gone = Some(Connection::of_entry(&entry));
            });
        if let Some(gone) = gone {
            let_go(&mut self.of_session, &gone);
        }
        // Where no candidate may give way, the connection stays unknown.
        let Ok(inserted) = inserted else {
            return;
        };
        let (Inserted::New(flow) | Inserted::Present(flow)) = inserted;
        if matches!(inserted, Inserted::New(_)) {
            let own = self.of_session.entry(of.session()).or_default();
            own.push_back(*of);
        }
        // An end that was said before was that of what it belonged to before.
        self.table.set_state(flow, ENDS, u64::from(sequence) << 32);
        self.table.set_timeouts(flow, timeouts, now_ns);
        self.table.touch(flow, now_ns);
        for (word, mark) in marks.0.into_iter().enumerate() {
            self.table.set_state(flow, word, mark);
        }
    }

    /// One more connection of a session is to be known: of as many as it may have its oldest goes.
    fn make_room(&mut self, session: u64) {
        let own = self.of_session.get(&session);
        let oldest = own.filter(|own| own.len() >= self.session_limit);
        if let Some(oldest) = oldest.and_then(|own| own.front().copied()) {
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, of: &Connection) {
        if let Some(flow) = self.table.find(&of.0) {
            self.table.remove(flow);
            let_go(&mut self.of_session, of);
        }
    }

    /// The host has taken a connection (SYN+ACK), in which the UE's data begin at `sequence`: what
    /// was known is of another one, unless its data lie there. They do if the host says so again,
    /// or if they came with the SYN.
    pub fn begin(&mut self, of: &Connection, sequence: u32) {
        let is_its = |data: u32| data.wrapping_sub(sequence) <= FIRST_LEN_MAX;
        let flow = self.table.find(&of.0);
        let data = flow.map(|flow| (self.table.state(flow, ENDS) >> 32) as u32);
        if data.is_some_and(|data| !is_its(data)) {
            self.forget(of);
        }
        self.hellos
            .retain(|one| one.of != *of || is_its(one.next.wrapping_sub(1)));
    }

    fn end(&mut self, of: &Connection) {
        self.forget(of);
        self.hellos.retain(|one| one.of != *of);
    }

    /// One side of a connection has sent its end (FIN, RST), or says so: what the other still says
    /// is of it too. Only what the host has said so of is forgotten sooner: a UE could say so of a
    /// connection that goes on.
    pub fn close(&mut self, of: &Connection, is_uplink: bool, now_ns: u64) {
        let Some(flow) = self.table.find(&of.0) else {
            self.end(of);
            return;
        };
        let ends = self.table.state(flow, ENDS) | 1 << u64::from(is_uplink);
        if ends & BOTH_ENDS == BOTH_ENDS {
            self.end(of);
            return;
        }
        self.table.set_state(flow, ENDS, ends);
        if !is_uplink {
            let timeouts = Timeouts::idle(CLOSING_NS);
            self.table.set_timeouts(flow, timeouts, now_ns);
        }
    }

    /// Forgets connections that were idle for long; when to be called again.
    pub fn expire(&mut self, now_ns: u64) -> Option<u64> {
        let Self {
            table, of_session, ..
        } = self;
        let expired = table.expire(now_ns, EXPIRED_COUNT_MAX, |ended| {
            let_go(of_session, &Connection::of_entry(&ended.entry));
            Fate::Remove
        });
        match expired.is_behind {
            true => Some(now_ns),
            false => self.table.next_expiry_ns(),
        }
    }

    /// Keeps the beginning of a hello, which ends in front of `next`.
    pub fn keep(&mut self, of: Connection, next: u32, bytes: &[u8], now_ns: u64) {
        let waits = |one: &Hello| now_ns.saturating_sub(one.came_ns) < HELLO_NS;
        self.hellos.retain(|one| one.of != of && waits(one));
        make_way(&mut self.hellos, |one| one.of.session() == of.session());
        if bytes.len() < HELLO_LEN_MAX {
            self.hellos.push(Hello {
                of,
                next,
                came_ns: now_ns,
                bytes: bytes.to_vec(),
            });
        }
    }

    /// Adds the next part to a hello, if there is one that waits for it; gives all of it so far,
    /// and keeps none of it.
    pub fn take(&mut self, of: &Connection, sequence: u32, part: &[u8]) -> Option<Vec<u8>> {
        let is_it = |one: &Hello| one.of == *of && one.next == sequence;
        let at = self.hellos.iter().position(is_it)?;
        let mut bytes = self.hellos.remove(at).bytes;
        let room = HELLO_LEN_MAX - bytes.len();
        bytes.extend_from_slice(&part[..part.len().min(room)]);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_session(session: u64, port: u16, is_uplink: bool) -> Connection {
        let [ue, host] = ["10.45.0.1", "203.0.113.9"].map(|text| text.parse().unwrap());
        let (src, dst, ports) = match is_uplink {
            true => (ue, host, (port, 443)),
            false => (host, ue, (443, port)),
        };
        let packet = Inner {
            src,
            dst,
            protocol: 6,
            ports: Some(ports),
            traffic_class: 0,
            flow_label: 0,
            spi: None,
            len: 40,
            is_part: false,
        };
        Connection::of(&packet, session, is_uplink).unwrap()
    }

    fn connection(port: u16, is_uplink: bool) -> Connection {
        of_session(3, port, is_uplink)
    }

    fn marks(applications: &[u64]) -> Marks {
        let mut marks = Marks::default();
        applications.iter().for_each(|one| marks.add(*one));
        marks
    }

    #[test]
    fn both_directions_of_a_connection_are_one_until_it_is_idle_for_long() {
        let mut flows = Flows::new(8, [1, 2], 0).unwrap();
        flows.set(&connection(1, true), &marks(&[7]), 0, 0);
        let back = flows.marks(&connection(1, false), IDLE_NS / 2);
        assert!(back.holds(7) && !back.holds(8) && !back.holds(0));
        assert!(flows.marks(&connection(2, false), 1).is_empty());
        flows.expire(IDLE_NS + 1);
        assert_eq!(flows.len(), 1, "it was used");
        let mut now_ns = IDLE_NS;
        for _ in 0..8 {
            now_ns += IDLE_NS;
            flows.expire(now_ns);
        }
        assert!(flows.is_empty() && flows.of_session.is_empty());
        flows.set(&connection(1, true), &marks(&[7]), 0, now_ns);
        flows.set(&connection(1, true), &marks(&[]), 0, now_ns);
        assert!(flows.is_empty(), "its next request was to somebody else");
        assert!(flows.of_session.is_empty());
    }

    #[test]
    fn a_connection_is_of_so_many_applications_at_most() {
        let mut flows = Flows::new(8, [1, 2], 0).unwrap();
        flows.set(&connection(1, true), &marks(&[4, 5, 6, 7, 8]), 0, 0);
        let known = flows.marks(&connection(1, true), 1);
        assert!((4..=7).all(|one| known.holds(one)) && !known.holds(8));
    }

    #[test]
    fn a_connection_ends_when_both_sides_have_said_so() {
        let mut flows = Flows::new(8, [1, 2], 0).unwrap();
        let one = connection(1, true);
        flows.set(&one, &marks(&[7]), 0, 0);
        flows.close(&one, true, 1);
        flows.close(&one, true, 2);
        assert!(flows.marks(&one, 3).holds(7), "the other side still speaks");
        flows.close(&one, false, 4);
        assert!(flows.is_empty() && flows.of_session.is_empty());
        flows.set(&one, &marks(&[7]), 0, 5);
        flows.close(&one, true, 6);
        let mut now_ns = 6;
        for is_said_by_host in [false, true] {
            for _ in 0..8 {
                now_ns += CLOSING_NS;
                flows.expire(now_ns);
            }
            assert_eq!(flows.is_empty(), is_said_by_host);
            flows.set(&one, &marks(&[7]), 0, now_ns);
            flows.close(&one, false, now_ns);
        }
        assert!(now_ns < IDLE_NS);
    }

    /// A SYN+ACK ends what was known of another connection with the same ends, also if it is in
    /// parts; one that is repeated, or confirms data that came with the SYN, ends nothing.
    #[test]
    fn another_connection_begins_with_the_hosts_word() {
        let mut flows = Flows::new(8, [1, 2], 0).unwrap();
        let one = connection(1, true);
        let first = u32::MAX - 9;
        for data in [first, first.wrapping_add(FIRST_LEN_MAX)] {
            flows.set(&one, &marks(&[7]), data, 0);
            flows.keep(one, data.wrapping_add(1), b"x", 0);
            flows.begin(&one, first);
            assert!(flows.marks(&one, 1).holds(7), "{data}");
            assert_eq!(flows.hellos.len(), 1, "{data}");
        }
        for data in [first - 1, first.wrapping_add(FIRST_LEN_MAX + 1)] {
            flows.set(&one, &marks(&[7]), data, 0);
            flows.close(&one, true, 0);
            flows.keep(one, data.wrapping_add(1), b"x", 0);
            flows.begin(&one, first);
            assert!(flows.is_empty() && flows.hellos.is_empty(), "{data}");
        }
    }

    /// However much room there is.
    #[test]
    fn a_session_has_so_many_connections_at_most() {
        let mut flows = Flows::new(4096, [1, 2], 0).unwrap();
        for port in 1..1000 {
            flows.set(&connection(port, true), &marks(&[7]), 0, port.into());
        }
        assert_eq!(flows.len() as usize, SESSION_CONNECTION_COUNT_MAX);
        assert!(flows.marks(&connection(999, true), 1000).holds(7));
    }

    #[test]
    fn a_full_table_has_room_for_a_new_connection() {
        let mut flows = Flows::new(8, [1, 2], 0).unwrap();
        for port in 1..1000 {
            let one = of_session(port.into(), port, true);
            flows.set(&one, &marks(&[7]), 0, u64::from(port));
            assert!(flows.marks(&one, u64::from(port)).holds(7));
        }
        assert!(flows.len() <= 8);
        let own = flows.of_session.values().map(VecDeque::len).sum::<usize>();
        assert_eq!(own, flows.len() as usize);
    }

    /// One UE can have no more than its share, and loses its own when it wants more.
    #[test]
    fn a_session_takes_no_connections_from_others() {
        let mut flows = Flows::new(64, [1, 2], 0).unwrap();
        let others: Vec<_> = (0..16)
            .map(|session| of_session(session, 1, true))
            .collect();
        for one in &others {
            flows.set(one, &marks(&[7]), 0, 1);
        }
        for port in 1..2000 {
            let one = of_session(99, port, true);
            flows.set(&one, &marks(&[7]), 0, u64::from(port) + 1);
        }
        assert!(others.iter().all(|one| flows.marks(one, 3000).holds(7)));
        assert_eq!(flows.len(), 16 + 64 / 4);
        assert!(flows.marks(&of_session(99, 1999, true), 3000).holds(7));
        assert!(flows.marks(&of_session(99, 1, true), 3000).is_empty());
    }

    #[test]
    fn parts_of_a_hello_come_together_in_their_order() {
        let mut flows = Flows::new(8, [1, 2], 0).unwrap();
        let one = connection(1, true);
        flows.keep(one, 105, b"hello", 0);
        assert_eq!(flows.take(&one, 106, b"later"), None);
        assert_eq!(flows.take(&connection(2, true), 105, b"other"), None);
        assert_eq!(flows.take(&one, 105, b" you").unwrap(), b"hello you");
        assert_eq!(flows.take(&one, 105, b" you"), None);
        for session in 0..200 {
            flows.keep(of_session(session, 1, true), 1, b"x", 0);
        }
        assert_eq!(flows.hellos.len(), HELLO_COUNT);
        flows.keep(one, 1, &[0; HELLO_LEN_MAX], HELLO_NS);
        assert!(
            flows.hellos.is_empty(),
            "old ones, and one that is too long"
        );
    }

    #[test]
    fn a_session_takes_no_hellos_from_others() {
        let mut flows = Flows::new(8, [1, 2], 0).unwrap();
        flows.keep(of_session(1, 1, true), 5, b"first", 0);
        for port in 0..200 {
            flows.keep(of_session(2, port, true), 5, b"x", 0);
        }
        assert_eq!(flows.hellos.len(), 1 + SESSION_HELLO_COUNT);
        assert!(flows.take(&of_session(1, 1, true), 5, b"").is_some());
        assert!(flows.take(&of_session(2, 199, true), 5, b"").is_some());
        assert!(flows.take(&of_session(2, 0, true), 5, b"").is_none());
    }
}
