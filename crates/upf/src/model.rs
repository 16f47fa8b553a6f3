//! A session as a value: what N4 changes, and the image of it that packets read in place.
//!
//! ```text
//! | head | PDRs by precedence | FARs | QERs | URRs | BARs |
//!     | filters | framed routes | copies | redirections | Traffic Endpoints | Ethernet filters |
//!     | monitors |
//! ```
//!
//! Between N4 and the data path. [`Session`] is read from an image and written to one;
//! [`Image`] gives the records of an image where they lie.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_wire::pfcp::value::flags::ApplyAction;
use catena_wire::pfcp::value::node::FailedRuleId;
use catena_wire::pfcp::value::{FarId, PdrId};
use catena_wire::pfcp::{Cause, IeType, Refusal};

use crate::frame::FrameFilter;
use crate::monitoring::monitor::{MONITORS_MAX, Monitor};
use crate::routes::Route;
use crate::rules::{Bar, Copied, Endpoint, Far, Head, NONE, Pdr, Qer, Redirection, Urr};
use crate::sdf::Filter;
use crate::stored::{List, Stored};

mod image;

pub use image::Image;
pub(crate) use image::share_prefix;
use image::{Listed, Offsets};

/// Most URRs of a session: what is answered to a deletion has room for a report of each.
pub const URR_COUNT_MAX: usize = 32;
/// Most rules of any other kind, and most filters.
pub const RULE_COUNT_MAX: usize = 250;

/// Why a request is turned down: what its answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Cause and offending IE.
    pub refusal: Refusal,
    /// Failed Rule ID.
    pub rule: Option<FailedRuleId>,
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            rule: None,
        }
    }
}

impl Fault {
    /// Rule creation/modification Failure of this rule, because of `offending`.
    pub const fn of_rule(rule: FailedRuleId, offending: IeType) -> Self {
        Self {
            refusal: Cause::RULE_CREATION_MODIFICATION_FAILURE.because_of(offending),
            rule: Some(rule),
        }
    }
}

/// A PDR with its filters.
#[derive(Clone, Debug, PartialEq)]
pub struct Detection {
    /// The rule.
    pub pdr: Pdr,
    /// Any of them must fit; without one every packet does.
    pub filters: Vec<Filter>,
    /// Networks behind its UE.
    pub routes: Vec<Route>,
    /// Of frames any of them must fit.
    pub frames: Vec<FrameFilter>,
}

/// A Traffic Endpoint with the networks behind its UE.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Networks behind its UE.
    pub routes: Vec<Route>,
}

/// A session.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// What is common.
    pub head: Head,
    /// By precedence, the first first.
    pub pdrs: Vec<Detection>,
    /// In the order of their creation, as all that follow.
    pub fars: Vec<Far>,
    /// QoS enforcement rules.
    pub qers: Vec<Qer>,
    /// Usage reporting rules.
    pub urrs: Vec<Urr>,
    /// Buffering action rules.
    pub bars: Vec<Bar>,
    /// Where FARs send copies to.
    pub copies: Vec<Copied>,
    /// Where FARs redirect requests to.
    pub redirections: Vec<Redirection>,
    /// Traffic Endpoints.
    pub endpoints: Vec<Ending>,
    /// QoS flows that are monitored, each by a session reporting rule.
    pub monitors: Vec<Monitor>,
}

/// What was found before a packet is handled: a key, and where it leads to.
pub(crate) type Hint = ([u64; 2], u32);

/// What finds a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// A tunnel that ends here.
    Teid(u32),
    /// A UE.
    V4(Ipv4Addr),
    /// A UE, by the first 64 bits.
    V6(u64),
    /// A UE's Ethernet address that its SMF has said.
    Mac(u64),
    /// A network behind a UE: whether of IPv6, bits of its prefix, and what they are.
    Route(bool, u8, u64),
    /// A tunnel that ends elsewhere: TEID and address, or what is left of one of IPv6. Several
    /// sessions may name the same one; the first has the key.
    Remote(u32, u64),
}

impl Key {
    /// It as two words of a flow table's key.
    #[inline]
    pub fn words(self) -> [u64; 2] {
        match self {
            Self::Teid(teid) => [1, teid.into()],
            Self::V4(address) => [2, address.to_bits().into()],
            Self::V6(prefix) => [3, prefix],
            Self::Route(is_v6, bits, net) => {
                [5 | u64::from(is_v6) << 8 | u64::from(bits) << 16, net]
            }
            Self::Mac(address) => [6, address],
            Self::Remote(teid, address) => [4 << 32 | u64::from(teid), address],
        }
    }

    /// The TEID of the tunnel whose key has these words; 0 for any other key.
    #[inline]
    pub(crate) const fn teid_of(words: [u64; 2]) -> u32 {
        match words {
            #[expect(clippy::cast_possible_truncation, reason = "it was made of 32 bits")]
            [1, teid] => teid as u32,
            _ => 0,
        }
    }

    /// The key of a tunnel that ends at another node.
    pub fn of_remote(teid: u32, address: IpAddr) -> Self {
        let address = match address {
            IpAddr::V4(address) => u64::from(address.to_bits()),
            #[expect(clippy::cast_possible_truncation, reason = "both halves are in it")]
            IpAddr::V6(address) => {
                (address.to_bits() >> 64) as u64 ^ (address.to_bits() as u64).rotate_left(32)
            }
        };
        Self::Remote(teid, address)
    }

    /// The key of a network behind a UE.
    pub const fn of_route(route: &Route) -> Self {
        Self::Route(route.is_v6, route.bits, route.net)
    }

    /// The key of a UE's address.
    #[inline]
    pub fn of_ue(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    /// The key of an IPv6 address.
    #[inline]
    pub fn of_v6(address: Ipv6Addr) -> Self {
        let prefix = (address.to_bits() >> 64) as u64;
        Self::V6(prefix)
    }
}

impl Session {
    /// A session without rules.
    pub const fn new(head: Head) -> Self {
        Self {
            head,
            pdrs: Vec::new(),
            fars: Vec::new(),
            qers: Vec::new(),
            urrs: Vec::new(),
            bars: Vec::new(),
            copies: Vec::new(),
            redirections: Vec::new(),
            endpoints: Vec::new(),
            monitors: Vec::new(),
        }
    }

    /// Has each rule find those that it names, and orders PDRs.
    ///
    /// # Errors
    /// The first rule that names one which is not there, or more rules than a session may have.
    pub fn link(&mut self) -> Result<(), Fault> {
        let most = [
            (self.pdrs.len(), IeType::CREATE_PDR, RULE_COUNT_MAX),
            (self.fars.len(), IeType::CREATE_FAR, RULE_COUNT_MAX),
            (self.qers.len(), IeType::CREATE_QER, RULE_COUNT_MAX),
            (self.urrs.len(), IeType::CREATE_URR, URR_COUNT_MAX),
            (self.bars.len(), IeType::CREATE_BAR, RULE_COUNT_MAX),
            (self.filter_count(), IeType::SDF_FILTER, RULE_COUNT_MAX),
            (self.route_count(), IeType::FRAMED_ROUTE, RULE_COUNT_MAX),
            (
                self.frames().count(),
                IeType::ETHERNET_PACKET_FILTER,
                RULE_COUNT_MAX,
            ),
            (
                self.copies.len(),
                IeType::DUPLICATING_PARAMETERS,
                RULE_COUNT_MAX,
            ),
            (
                self.endpoints.len(),
                IeType::CREATE_TRAFFIC_ENDPOINT,
                RULE_COUNT_MAX,
            ),
            (self.monitors.len(), IeType::CREATE_SRR, MONITORS_MAX),
        ];
        if let Some((_, ie_type, _)) = most.iter().find(|(count, _, most)| count > most) {
            return Err(Cause::NO_RESOURCES_AVAILABLE.because_of(*ie_type).into());
        }
        self.pdrs.sort_by_key(|detection| detection.pdr.precedence);
        let mut filters = 0;
        for Detection {
            pdr, filters: own, ..
        } in &mut self.pdrs
        {
            let fault = |ie_type| Fault::of_rule(FailedRuleId::Pdr(PdrId(pdr.id)), ie_type);
            let far_at = place(self.fars.iter().map(|far| far.id), pdr.far_id);
            pdr.far_at = far_at.ok_or(fault(IeType::FAR_ID))?;
            let qers = self.qers.iter().map(|qer| qer.id);
            pdr.qers_at = places(qers, pdr.qer_ids.as_slice()).ok_or(fault(IeType::QER_ID))?;
            let urrs = self.urrs.iter().map(|urr| urr.id);
            pdr.urrs_at = places(urrs, pdr.urr_ids.as_slice()).ok_or(fault(IeType::URR_ID))?;
            #[expect(clippy::cast_possible_truncation, reason = "counted above")]
            let count = own.len() as u8;
            pdr.filters = [filters, count];
            filters += count;
        }
        for far in &mut self.fars {
            let bars = self.bars.iter().map(|bar| bar.id);
            far.bar_at = match far.bar_id {
                None => NONE,
                Some(id) => place(bars, id).ok_or(Fault::of_rule(
                    FailedRuleId::Far(FarId(far.id)),
                    IeType::BAR_ID,
                ))?,
            };
        }
        self.link_details()?;
        self.head.looks_inside = self.pdrs.iter().any(|one| one.pdr.application != 0);
        self.head.counts = [
            self.pdrs.len(),
            self.fars.len(),
            self.qers.len(),
            self.urrs.len(),
            self.bars.len(),
            self.filter_count(),
            self.route_count(),
            self.copies.len(),
            self.redirections.len(),
            self.endpoints.len(),
            self.frames().count(),
            self.monitors.len(),
        ]
        .map(|count| u8::try_from(count).unwrap_or(u8::MAX));
        Ok(())
    }

    /// Forgets what belongs to FARs that are gone, and looks whether what is left can be done.
    fn link_details(&mut self) -> Result<(), Fault> {
        let fars = &self.fars;
        let is_there = |id| fars.iter().any(|far| far.id == id);
        self.copies.retain(|copied| is_there(copied.far_id));
        self.redirections.retain(|one| is_there(one.far_id));
        let asks = |far: &&Far| far.does(ApplyAction::DUPL);
        let has_copy = |far: &Far| self.copies.iter().any(|copied| copied.far_id == far.id);
        if let Some(far) = self.fars.iter().filter(asks).find(|far| !has_copy(far)) {
            let ie_type = IeType::DUPLICATING_PARAMETERS;
            return Err(Fault {
                refusal: Cause::CONDITIONAL_IE_MISSING.because_of(ie_type),
                rule: Some(FailedRuleId::Far(FarId(far.id))),
            });
        }
        // Requests come from UEs: there is nothing that a host could be redirected from.
        let redirects = |id| self.redirections.iter().any(|one| one.far_id == id);
        let pdrs = self.pdrs.iter().map(|one| &one.pdr);
        let mut downlink = pdrs.filter(|pdr| !pdr.is_uplink());
        match downlink.find(|pdr| redirects(pdr.far_id)) {
            Some(pdr) => {
                let failed = FailedRuleId::Far(FarId(pdr.far_id));
                Err(Fault::of_rule(failed, IeType::REDIRECT_INFORMATION))
            }
            None => Ok(()),
        }
    }

    /// Whether it has something to tell its SMF for which there was no room yet.
    pub fn has_untold(&self) -> bool {
        self.urrs.iter().any(|urr| urr.untold != 0)
    }

    /// Framed routes of PDRs and of endpoints.
    fn routes(&self) -> impl Iterator<Item = &Route> {
        let of_endpoints = self.endpoints.iter().flat_map(|one| &one.routes);
        let of_pdrs = self.pdrs.iter().flat_map(|one| &one.routes);
        of_pdrs.chain(of_endpoints)
    }

    fn frames(&self) -> impl Iterator<Item = &FrameFilter> {
        self.pdrs.iter().flat_map(|one| &one.frames)
    }

    fn route_count(&self) -> usize {
        self.routes().count()
    }

    fn filter_count(&self) -> usize {
        self.pdrs.iter().map(|pdr| pdr.filters.len()).sum()
    }

    /// Everything by which packets find the session, each once.
    pub fn keys(&self) -> Vec<Key> {
        let pdrs = self.pdrs.iter().map(|detection| &detection.pdr);
        let teids = pdrs.filter(|pdr| pdr.teid != 0);
        let mut keys: Vec<Key> = teids.map(|pdr| Key::Teid(pdr.teid)).collect();
        keys.extend(self.head.ue_v4.map(Key::V4));
        keys.extend(self.head.ue_v6.map(Key::of_v6));
        let prefixes = self.pdrs.iter().filter_map(|one| one.pdr.ue_v6);
        keys.extend(prefixes.map(Key::of_v6));
        let teids = self.endpoints.iter().map(|one| one.endpoint.teid);
        keys.extend(teids.filter(|teid| *teid != 0).map(Key::Teid));
        keys.extend(self.routes().map(Key::of_route));
        let downlink = self.pdrs.iter().filter(|one| one.pdr.teid == 0);
        let frames = downlink.flat_map(|one| &one.frames);
        keys.extend(frames.filter_map(|one| one.station().map(Key::Mac)));
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The tunnels that it sends into, each once.
    pub fn remotes(&self) -> Vec<Key> {
        let tunnels = self.fars.iter().filter(|far| far.is_tunnel());
        let mut keys: Vec<Key> = tunnels
            .filter_map(|far| Some(Key::of_remote(far.teid, far.peer()?)))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Length of its image in bytes; the session is linked.
    pub fn image_len(&self) -> usize {
        Offsets::of(&self.head.counts).end
    }

    /// Writes its image; the session is linked, and `bytes` are long enough.
    pub fn write(&self, bytes: &mut [u8]) {
        let at = Offsets::of(&self.head.counts);
        self.head.store(bytes);
        let pdrs = self.pdrs.iter().map(|detection| &detection.pdr);
        write_all(&mut bytes[at.pdrs..], pdrs);
        write_all(&mut bytes[at.fars..], &self.fars);
        write_all(&mut bytes[at.qers..], &self.qers);
        write_all(&mut bytes[at.urrs..], &self.urrs);
        write_all(&mut bytes[at.bars..], &self.bars);
        let filters = self.pdrs.iter().flat_map(|detection| &detection.filters);
        write_all(&mut bytes[at.filters..], filters);
        write_all(&mut bytes[at.routes..], self.routes());
        write_all(&mut bytes[at.copies..], &self.copies);
        write_all(&mut bytes[at.redirections..], &self.redirections);
        let endpoints = self.endpoints.iter().map(|one| &one.endpoint);
        write_all(&mut bytes[at.endpoints..], endpoints);
        write_all(&mut bytes[at.frames..], self.frames());
        write_all(&mut bytes[at.monitors..], &self.monitors);
    }

    /// Reads an image. None of memory that is none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let head = Head::load(bytes);
        let at = Offsets::of(&head.counts);
        if at.end > bytes.len() {
            return None;
        }
        let [
            pdrs,
            fars,
            qers,
            urrs,
            bars,
            filters,
            routes,
            copies,
            redirections,
            endpoints,
            frames,
            monitors,
        ] = head.counts;
        let filters: Vec<Filter> = read_all(&bytes[at.filters..], filters);
        let routes: Vec<Route> = read_all(&bytes[at.routes..], routes);
        let frames: Vec<FrameFilter> = read_all(&bytes[at.frames..], frames);
        let pdrs = read_all(&bytes[at.pdrs..], pdrs)
            .into_iter()
            .map(|pdr: Pdr| {
                let [from, count] = pdr.filters.map(usize::from);
                let own = filters.get(from..from + count)?;
                let is_its = |route: &&Route| route.is_of(pdr.id, None);
                let routes = routes.iter().filter(is_its);
                Some(Detection {
                    pdr,
                    filters: own.to_vec(),
                    routes: routes.copied().collect(),
                    frames: frames
                        .iter()
                        .filter(|one| one.pdr_id == pdr.id)
                        .copied()
                        .collect(),
                })
            });
        let endings = read_all(&bytes[at.endpoints..], endpoints);
        let endings = endings.into_iter().map(|endpoint: Endpoint| {
            let is_its = |route: &&Route| route.endpoint == Some(endpoint.id);
            let routes = routes.iter().filter(is_its).copied().collect();
            Ending { endpoint, routes }
        });
        let endpoints = endings.collect();
        Some(Self {
            endpoints,
            pdrs: pdrs.collect::<Option<_>>()?,
            fars: read_all(&bytes[at.fars..], fars),
            qers: read_all(&bytes[at.qers..], qers),
            urrs: read_all(&bytes[at.urrs..], urrs),
            bars: read_all(&bytes[at.bars..], bars),
            copies: read_all(&bytes[at.copies..], copies),
            redirections: read_all(&bytes[at.redirections..], redirections),
            monitors: read_all(&bytes[at.monitors..], monitors),
            head,
        })
    }
}

fn place<T: PartialEq>(ids: impl Iterator<Item = T>, id: T) -> Option<u8> {
    let mut ids = ids;
    u8::try_from(ids.position(|one| one == id)?).ok()
}

fn places<const N: usize>(
    ids: impl Iterator<Item = u32> + Clone,
    wanted: &[u32],
) -> Option<List<u8, N>> {
    let mut list = List::default();
    for id in wanted {
        let place = place(ids.clone(), *id)?;
        // A rule that is named twice judges and counts a packet once.
        if !list.as_slice().contains(&place) && !list.push(place) {
            return None;
        }
    }
    Some(list)
}

fn write_all<'a, T: Listed + 'a>(bytes: &mut [u8], records: impl IntoIterator<Item = &'a T>) {
    for (at, record) in records.into_iter().enumerate() {
        record.store(&mut bytes[at * T::STRIDE..]);
    }
}

fn read_all<T: Listed>(bytes: &[u8], count: u8) -> Vec<T> {
    (0..usize::from(count))
        .map(|at| T::load(&bytes[at * T::STRIDE..]))
        .collect()
}

#[cfg(test)]
pub(crate) mod tests;
