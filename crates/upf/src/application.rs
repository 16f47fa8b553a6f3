//! Applications: what SMFs provide as PFDs, and which packets are theirs.
//!
//! Between N4 and the data path. A PDR with an Application ID fits packets of that application: at
//! once where a PFD says addresses and ports only; where it names hosts or URLs, from the hello or
//! request on that names one, both directions of its connection. PFDs are kept as they came in
//! memory that outlives the NF (`store`), and read anew from there. Specification: TS 29.244 5.4.1,
//! 6.2.5, 7.4.3. Limits: [`APPLICATION_COUNT_MAX`] applications in
//! [`PFDS_BYTES_MAX`](crate::store::PFDS_BYTES_MAX) bytes; connections as in [`flows`].

use std::cell::Cell;

use catena_wire::dissect::Dissected;
use catena_wire::ip::Protocol;
use catena_wire::pfcp::value::node::FailedRuleId;
use catena_wire::pfcp::{Cause, Group, IeType, Ies, key};
use catena_wire::tcp::{self, Flags};
use catena_wire::udp;

use crate::model::Fault;
use crate::sdf::Inner;

pub mod flows;
pub mod hello;
pub mod pattern;
pub mod pfd;
pub mod quic;

use flows::{Connection, Flows, Marks};
use hello::Seen;
use pfd::Pfd;
use quic::Hellos;

/// Most applications with PFDs.
pub const APPLICATION_COUNT_MAX: usize = 256;

/// What a rule calls an application by, instead of its ID: the same for the same ID, never 0.
pub fn number(id: &[u8]) -> u64 {
    hash_on(HASH_OF_NOTHING, id).max(1)
}

/// What [`hash_on`] begins with.
pub(crate) const HASH_OF_NOTHING: u64 = 0xcbf2_9ce4_8422_2325;

/// The hash of bytes, from that of those in front of them.
pub(crate) fn hash_on(hash: u64, bytes: &[u8]) -> u64 {
    // FNV-1a: short, and the same in every version.
    bytes.iter().fold(hash, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// An application.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// Application ID.
    pub id: Vec<u8>,
    number: u64,
    pfds: Vec<Pfd>,
    names_somebody: bool,
}

/// Applications by their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table(Vec<Application>);

impl Table {
    /// Reads IEs of the type Application ID's PFDs, one after the other.
    ///
    /// # Errors
    /// Why they are refused.
    pub fn read(ies: &[u8]) -> Result<Self, Fault> {
        let mut table = Vec::new();
        for ie in Ies::new(ies) {
            let group = ie?.group();
            let Some(group) = group else { continue };
            let id = group.require(key::APPLICATION_ID)?;
            let mut pfds = Vec::new();
            for context in group.groups(IeType::PFD_CONTEXT) {
                for contents in context.each(key::PFD_CONTENTS) {
                    pfds.push(Pfd::read(&contents?)?);
                }
            }
            table.push(Application {
                id: id.to_vec(),
                number: number(id),
                names_somebody: pfds.iter().any(Pfd::names_somebody),
                pfds,
            });
        }
        let too_many = Cause::NO_RESOURCES_AVAILABLE.because_of(IeType::APPLICATION_ID_PFDS);
        if table.len() > APPLICATION_COUNT_MAX {
            return Err(too_many.into());
        }
        table.sort_by_key(|one| one.number);
        // Two that rules could not tell apart: one in 2^64.
        match table.windows(2).any(|two| two[0].number == two[1].number) {
            true => Err(too_many.into()),
            false => Ok(Self(table)),
        }
    }

    /// The application with this number.
    #[inline]
    pub fn get(&self, number: u64) -> Option<&Application> {
        let at = self.0.binary_search_by_key(&number, |one| one.number);
        at.ok().and_then(|at| self.0.get(at))
    }

    /// All of them.
    pub fn all(&self) -> &[Application] {
        &self.0
    }
}

impl Application {
    /// PFDs of it.
    pub const fn pfd_count(&self) -> usize {
        self.pfds.len()
    }

    /// Whether a connection is its, whose data say this in a UE's packet.
    fn is_to(&self, packet: &Inner, seen: &Seen<'_>) -> bool {
        let mut pfds = self.pfds.iter();
        pfds.any(|pfd| pfd.names_somebody() && pfd.fits(packet, true) && pfd.is_to(seen))
    }
}

/// Applications, and which connections are known to be theirs.
#[derive(Debug)]
pub struct Applications {
    /// What SMFs have provided.
    pub table: Table,
    flows: Flows,
    quic: Hellos,
}

impl Applications {
    /// With what a predecessor has kept, and room for so many connections.
    ///
    /// # Errors
    /// A number that no table has.
    pub fn new(kept: &[u8], count: u32, seed: [u64; 2], now_ns: u64) -> Result<Self, String> {
        Ok(Self {
            // What was kept had been read before.
            table: Table::read(kept).unwrap_or_default(),
            flows: Flows::new(count, seed, now_ns)?,
            quic: Hellos::default(),
        })
    }

    /// How many connections are known.
    pub fn flow_count(&self) -> u32 {
        self.flows.len()
    }

    /// Packets of QUIC that were not looked into, since too many came.
    pub const fn unread(&self) -> u64 {
        self.quic.unread
    }

    /// Forgets connections that were idle for long; when to be called again.
    pub fn wake(&mut self, now_ns: u64) -> Option<u64> {
        self.flows.expire(now_ns)
    }
}

/// A user's packet, as it is asked whose it is.
#[derive(Debug)]
pub struct Look<'a> {
    /// Who knows.
    pub applications: &'a mut Applications,
    /// From its IP header on.
    pub packet: &'a [u8],
    /// SEID of its session.
    pub session: u64,
    /// When it came, in ns of the engine's clock.
    pub now_ns: u64,
    /// What its connection belongs to.
    pub marks: Marks,
    /// What of that the packet itself says.
    pub named: Marks,
}

impl Look<'_> {
    /// Whether the packet is of this application; it was [learned from](Self::learn) before.
    #[inline]
    pub fn is_of(&self, number: u64, inner: &Inner, is_uplink: bool) -> bool {
        let Some(application) = self.applications.table.get(number) else {
            return false;
        };
        let mut plain = application.pfds.iter();
        self.marks.holds(number)
            || plain.any(|pfd| !pfd.names_somebody() && pfd.fits(inner, is_uplink))
    }

    /// Whether the packet itself says that its connection is this application's: a request, a
    /// hello. None if packets of it do not say so.
    #[inline]
    pub fn names(&self, number: u64) -> Option<bool> {
        if number == 0 {
            return None;
        }
        let application = self.applications.table.get(number)?;
        application.names_somebody.then(|| self.named.holds(number))
    }

    /// Learns from the packet what its connection belongs to, once for all PDRs of its session,
    /// which want to know of the applications `wanted`: from data that name somebody until the
    /// connection's end, or data that name somebody else.
    pub fn learn(
        &mut self,
        inner: &Inner,
        is_uplink: bool,
        wanted: impl Iterator<Item = u64> + Clone,
    ) {
        let table = &self.applications.table;
        let names = |number: &u64| table.get(*number).is_some_and(|one| one.names_somebody);
        let is_quic = inner.protocol == Protocol::UDP.0;
        let may_say = is_quic || inner.protocol == Protocol::TCP.0;
        if !may_say || !wanted.clone().any(|number| names(&number)) {
            return;
        }
        let Some(connection) = Connection::of(inner, self.session, is_uplink) else {
            return;
        };
        let named = Cell::new(Marks::default());
        let judge = |seen: &Seen<'_>, table: &Table| {
            let mut numbers: Vec<u64> = wanted.collect();
            numbers.sort_unstable();
            numbers.dedup();
            let mut marks = Marks::default();
            for number in &numbers {
                let application = table.get(*number);
                if application.is_some_and(|one| one.is_to(inner, seen)) {
                    marks.add(*number);
                }
            }
            named.set(marks);
            marks
        };
        let (packet, now_ns) = (self.packet, self.now_ns);
        if is_quic {
            let datagram = datagram(packet).filter(|_| is_uplink);
            if let Some(datagram) = datagram.filter(|datagram| quic::may_say_hello(datagram)) {
                self.applications
                    .hear_datagram(&connection, datagram, now_ns, judge);
            }
            self.marks = self.applications.flows.marks(&connection, now_ns);
        } else if let Some(segment) = segment(packet) {
            self.marks =
                self.applications
                    .hear_segment(&connection, is_uplink, &segment, now_ns, judge);
        }
        self.named = named.get();
    }
}

/// The datagram that an IP packet carries.
fn datagram(packet: &[u8]) -> Option<&[u8]> {
    let read = Dissected::parse_ip(packet).ok()?;
    packet.get(read.l4 + udp::HEADER_LEN..read.end)
}

/// The segment that an IP packet carries.
fn segment(packet: &[u8]) -> Option<tcp::View<&[u8]>> {
    let read = Dissected::parse_ip(packet).ok()?;
    tcp::View::parse(packet.get(read.l4..read.end)?).ok()
}

impl Applications {
    /// Hears what a datagram of a UE says, which may have a hello of QUIC.
    fn hear_datagram(
        &mut self,
        connection: &Connection,
        datagram: &[u8],
        now_ns: u64,
        marks: impl FnOnce(&Seen<'_>, &Table) -> Marks,
    ) {
        let Self { table, flows, quic } = self;
        quic.hear(connection, datagram, now_ns, |seen| {
            let marks = marks(seen, table);
            flows.set(connection, &marks, 0, now_ns);
        });
    }

    /// Hears what a segment says: that a connection begins or ends, and what data of a UE do. What
    /// the connection belongs to then.
    fn hear_segment(
        &mut self,
        connection: &Connection,
        is_uplink: bool,
        segment: &tcp::View<&[u8]>,
        now_ns: u64,
        marks: impl FnOnce(&Seen<'_>, &Table) -> Marks,
    ) -> Marks {
        let flags = segment.flags();
        // A UE could send any SYN or RST to be taken for somebody else's, which the host ignores: a
        // connection begins with the host's word, and goes on while packets come.
        if !is_uplink && flags.contains(Flags::SYN | Flags::ACK) {
            self.flows.begin(connection, segment.acknowledgment());
        }
        if is_uplink && !segment.payload().is_empty() {
            self.hear(connection, segment, now_ns, marks);
        }
        let known = self.flows.marks(connection, now_ns);
        if flags.contains(Flags::RST) || flags.contains(Flags::FIN) {
            self.flows.close(connection, is_uplink, now_ns);
        }
        known
    }

    /// Hears what the data of a UE's segment say; parts of a hello are put together. `marks` says
    /// what a connection belongs to whose data say that.
    fn hear(
        &mut self,
        connection: &Connection,
        segment: &tcp::View<&[u8]>,
        now_ns: u64,
        marks: impl FnOnce(&Seen<'_>, &Table) -> Marks,
    ) {
        let data = segment.payload();
        // A SYN counts as one: data that come with it (RFC 7413) lie behind it.
        let is_syn = segment.flags().contains(Flags::SYN);
        let sequence = segment.sequence().wrapping_add(is_syn.into());
        let flows = &mut self.flows;
        let joined = match hello::look(data) {
            Seen::Nothing => flows.take(connection, sequence, data),
            Seen::Incomplete | Seen::Nameless | Seen::Tls(_) | Seen::Http(..) => None,
        };
        let bytes = joined.as_deref().unwrap_or(data);
        match hello::look(bytes) {
            Seen::Nothing => {}
            Seen::Incomplete => {
                let len = u32::try_from(data.len()).unwrap_or(0);
                flows.keep(*connection, sequence.wrapping_add(len), bytes, now_ns);
            }
            seen => {
                let marks = marks(&seen, &self.table);
                flows.set(connection, &marks, sequence, now_ns);
            }
        }
    }
}

/// The number of the application that a PDI names.
///
/// # Errors
/// That nobody has provided it.
pub(crate) fn of_pdi(pdi: &Group<'_>, table: &Table, failed: FailedRuleId) -> Result<u64, Fault> {
    let Some(id) = pdi.get(key::APPLICATION_ID)? else {
        return Ok(0);
    };
    let number = number(id);
    let is_known = table.get(number).is_some_and(|one| one.id == id);
    is_known.then_some(number).ok_or(Fault {
        refusal: Cause::UNKNOWN_APPLICATION_ID.because_of(IeType::APPLICATION_ID),
        rule: Some(failed),
    })
}

#[cfg(test)]
mod tests;
