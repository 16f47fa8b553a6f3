//! What was learned: which connections belong to an application, and hellos that are not whole yet.
//!
//! On a packet's way, between its session and its PDR. A connection is known by its session, its
//! addresses and its ports, for each application that it belongs to. Limits: as many as the
//! settings say, of which those idle for [`IDLE_NS`] end, and one idle for long gives way to a new
//! one where all are in use; [`HELLO_COUNT`] hellos of [`HELLO_LEN_MAX`] bytes, of which the oldest
//! gives way. What is learned is not kept over a kill: connections are asked again at their next
//! request.

use std::net::IpAddr;

use catena_flow::{Eviction, Fate, FlowTable, HeapMemory, Shape, Timeouts};

use crate::sdf::Inner;

/// After so long without a packet a connection is forgotten.
pub const IDLE_NS: u64 = 300_000_000_000;
/// Connections that are looked at for their end at once.
const EXPIRED_COUNT_MAX: u32 = 64;
/// Hellos that may be in parts at once.
pub const HELLO_COUNT: usize = 64;
/// Longest hello that is looked into.
pub const HELLO_LEN_MAX: usize = 4096;
/// How long a hello waits for its next part.
const HELLO_NS: u64 = 10_000_000_000;

const WORDS: usize = 7;
const SHAPE_STATE_WORDS: u32 = 1;

/// A connection of a UE: its session by SEID, since slots are used again; addresses, ports,
/// protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection([u64; WORDS - 1]);

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

    fn key(&self, application: u64) -> [u64; WORDS] {
        let [a, b, c, d, e, f] = self.0;
        [application, a, b, c, d, e, f]
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
    hellos: Vec<Hello>,
}

impl Flows {
    /// Nothing yet, with room for `count` connections.
    ///
    /// # Errors
    /// A count that no table has.
    pub fn new(count: u32, seed: [u64; 2], now_ns: u64) -> Result<Self, String> {
        let shape = Shape::new(WORDS as u32, SHAPE_STATE_WORDS, count);
        let words = shape.words().map_err(|error| error.to_string())?;
        let table = FlowTable::create(HeapMemory::new(words), &shape, seed, now_ns);
        Ok(Self {
            table: table.map_err(|error| error.to_string())?,
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

    /// Whether a connection belongs to an application.
    #[inline]
    pub fn is_of(&mut self, application: u64, of: &Connection, now_ns: u64) -> bool {
        let flow = self.table.find(&of.key(application));
        if let Some(flow) = flow {
            self.table.touch(flow, now_ns);
        }
        flow.is_some()
    }

    /// Notes whether a connection belongs to an application.
    pub fn set(&mut self, application: u64, of: &Connection, is_its: bool, now_ns: u64) {
        let key = of.key(application);
        match (self.table.find(&key), is_its) {
            (Some(flow), true) => self.table.touch(flow, now_ns),
            (Some(flow), false) => {
                self.table.remove(flow);
            }
            (None, false) => {}
            (None, true) => {
                let timeouts = Timeouts::idle(IDLE_NS);
                // Where no candidate may give way, the connection stays unknown.
                let eviction = Eviction::OldestIdle;
                let _ = self
                    .table
                    .insert_evicting(&key, timeouts, now_ns, eviction, |_, _| {});
            }
        }
    }

    /// Forgets connections that were idle for long; when to be called again.
    pub fn expire(&mut self, now_ns: u64) -> Option<u64> {
        let expired = self
            .table
            .expire(now_ns, EXPIRED_COUNT_MAX, |_| Fate::Remove);
        match expired.is_behind {
            true => Some(now_ns),
            false => self.table.next_expiry_ns(),
        }
    }

    /// Keeps the beginning of a hello, which ends in front of `next`.
    pub fn keep(&mut self, of: Connection, next: u32, bytes: &[u8], now_ns: u64) {
        let waits = |one: &Hello| now_ns.saturating_sub(one.came_ns) < HELLO_NS;
        self.hellos.retain(|one| one.of != of && waits(one));
        if self.hellos.len() == HELLO_COUNT {
            self.hellos.remove(0);
        }
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

    fn connection(port: u16, is_uplink: bool) -> Connection {
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
        Connection::of(&packet, 3, is_uplink).unwrap()
    }

    #[test]
    fn both_directions_of_a_connection_are_one_until_it_is_idle_for_long() {
        let mut flows = Flows::new(8, [1, 2], 0).unwrap();
        flows.set(7, &connection(1, true), true, 0);
        assert!(flows.is_of(7, &connection(1, false), IDLE_NS / 2));
        assert!(!flows.is_of(8, &connection(1, false), 1));
        assert!(!flows.is_of(7, &connection(2, false), 1));
        flows.expire(IDLE_NS + 1);
        assert_eq!(flows.len(), 1, "it was used");
        let mut now_ns = IDLE_NS;
        for _ in 0..8 {
            now_ns += IDLE_NS;
            flows.expire(now_ns);
        }
        assert!(flows.is_empty());
        flows.set(7, &connection(1, true), true, now_ns);
        flows.set(7, &connection(1, true), false, now_ns);
        assert!(flows.is_empty(), "its next request was to somebody else");
    }

    #[test]
    fn a_full_table_has_room_for_a_new_connection() {
        let mut flows = Flows::new(8, [1, 2], 0).unwrap();
        for port in 1..1000 {
            flows.set(7, &connection(port, true), true, u64::from(port));
            assert!(flows.is_of(7, &connection(port, true), u64::from(port)));
        }
        assert!(flows.len() <= 8);
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
        for port in 0..200 {
            flows.keep(connection(port, true), 1, b"x", 0);
        }
        assert_eq!(flows.hellos.len(), HELLO_COUNT);
        flows.keep(one, 1, &[0; HELLO_LEN_MAX], HELLO_NS);
        assert!(
            flows.hellos.is_empty(),
            "old ones, and one that is too long"
        );
    }
}
