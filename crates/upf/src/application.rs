//! Applications: what SMFs provide as PFDs, and which packets are theirs.
//!
//! Between N4 and the data path. A PDR with an Application ID fits packets of that application: at
//! once where a PFD says addresses and ports only; where it names hosts or URLs, from the hello or
//! request on that names one, both directions of its connection. PFDs are kept as they came in
//! memory that outlives the NF (`store`), and read anew from there. Specification: TS 29.244 5.4.1,
//! 6.2.5, 7.4.3. Limits: [`APPLICATION_COUNT_MAX`] applications in
//! [`PFDS_BYTES_MAX`](crate::store::PFDS_BYTES_MAX) bytes; connections as in [`flows`].

use catena_wire::dissect::Dissected;
use catena_wire::ip::Protocol;
use catena_wire::pfcp::value::node::FailedRuleId;
use catena_wire::pfcp::{Cause, Group, IeType, Ies, key};
use catena_wire::tcp;

use crate::model::Fault;
use crate::sdf::Inner;

pub mod flows;
pub mod hello;
pub mod pattern;
pub mod pfd;

use flows::{Connection, Flows};
use hello::Seen;
use pfd::Pfd;

/// Most applications with PFDs.
pub const APPLICATION_COUNT_MAX: usize = 256;

/// What a rule calls an application by, instead of its ID: the same for the same ID, never 0.
pub fn number(id: &[u8]) -> u64 {
    // FNV-1a: short, and the same in every version.
    let hash = id.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.max(1)
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
}

/// Applications, and which connections are known to be theirs.
#[derive(Debug)]
pub struct Applications {
    /// What SMFs have provided.
    pub table: Table,
    flows: Flows,
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
        })
    }

    /// How many connections are known.
    pub fn flow_count(&self) -> u32 {
        self.flows.len()
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
    /// What it says together with parts that came before it: looked for once.
    pub joined: Option<Option<Vec<u8>>>,
}

impl Look<'_> {
    /// Whether the packet is of this application.
    pub fn is_of(&mut self, number: u64, inner: &Inner, is_uplink: bool) -> bool {
        let Some(application) = self.applications.table.get(number) else {
            return false;
        };
        let mut plain = application.pfds.iter();
        if plain.any(|pfd| !pfd.names_somebody() && pfd.fits(inner, is_uplink)) {
            return true;
        }
        if !application.names_somebody || inner.protocol != Protocol::TCP.0 {
            return false;
        }
        let Some(connection) = Connection::of(inner, self.session, is_uplink) else {
            return false;
        };
        let says = is_uplink.then(|| self.says(&connection)).flatten();
        let application = self.applications.table.get(number);
        let (Some(says), Some(application)) = (says, application) else {
            let flows = &mut self.applications.flows;
            return flows.is_of(number, &connection, self.now_ns);
        };
        let bytes = match (&self.joined, says) {
            (Some(Some(joined)), _) => joined,
            (_, (from, to)) => &self.packet[from..to],
        };
        let seen = hello::look(bytes);
        if !matches!(seen, Seen::Tls(_) | Seen::Http(..)) {
            let flows = &mut self.applications.flows;
            return flows.is_of(number, &connection, self.now_ns);
        }
        let mut pfds = application.pfds.iter();
        let is_its =
            pfds.any(|pfd| pfd.names_somebody() && pfd.fits(inner, is_uplink) && pfd.is_to(&seen));
        let flows = &mut self.applications.flows;
        flows.set(number, &connection, is_its, self.now_ns);
        is_its
    }

    /// Where the packet's data lie, if there are any; parts of a hello are put together.
    fn says(&mut self, connection: &Connection) -> Option<(usize, usize)> {
        let read = Dissected::parse_ip(self.packet).ok()?;
        let view = tcp::View::parse(self.packet.get(read.l4..read.end)?).ok()?;
        let data = view.payload();
        if data.is_empty() {
            return None;
        }
        if self.joined.is_none() {
            let flows = &mut self.applications.flows;
            let sequence = view.sequence();
            let joined = match hello::look(data) {
                Seen::Nothing => flows.take(connection, sequence, data),
                Seen::Incomplete => Some(data.to_vec()),
                Seen::Tls(_) | Seen::Http(..) => None,
            };
            let next = sequence.wrapping_add(u32::try_from(data.len()).unwrap_or(0));
            if let Some(bytes) = &joined
                && hello::look(bytes) == Seen::Incomplete
            {
                flows.keep(*connection, next, bytes, self.now_ns);
            }
            self.joined = Some(joined);
        }
        Some((read.end - data.len(), read.end))
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
