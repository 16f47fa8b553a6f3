//! The image of a session: where its records lie, and they one by one.
//!
//! On a packet's way, from its session to its rules: nothing is copied that a packet does not read.
//! Places beyond the counts give none, whatever the memory holds.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;

use catena_wire::pfcp::value::flags::UsageReportTrigger;

use crate::frame::FrameFilter;
use crate::monitoring::monitor::Monitor;
use crate::routes::Route;
use crate::rules::{Bar, Copied, Endpoint, Far, Head, KINDS, Pdr, Qer, Redirection, Urr, UrrTerms};
use crate::sdf::Filter;
use crate::stored::{Fields, Stored};

/// Records of a kind whose lines are asked for before a packet comes to them.
const FETCHED_COUNT_MAX: usize = 4;
/// Of a PDR, a QER and a URR: as far as packets read and write them.
const PDR_HOT: usize = Fields::<Pdr>::packets().offset() + u64::LEN;
const QER_HOT: usize = Fields::<Qer>::counts_packets().offset() + bool::LEN;
const URR_HOT: usize = Fields::<Urr>::terms()
    .then(Fields::<UrrTerms>::inactivity())
    .offset()
    + <Option<u32>>::LEN;

/// Where each kind of record begins, and where the image ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offsets {
    pub(super) pdrs: usize,
    pub(super) fars: usize,
    pub(super) qers: usize,
    pub(super) urrs: usize,
    pub(super) bars: usize,
    pub(super) filters: usize,
    pub(super) routes: usize,
    pub(super) copies: usize,
    pub(super) redirections: usize,
    pub(super) endpoints: usize,
    pub(super) frames: usize,
    pub(super) monitors: usize,
    pub(super) end: usize,
}

impl Offsets {
    #[inline]
    pub(super) fn of(counts: &[u8; KINDS]) -> Self {
        let [
            pdr_count,
            far_count,
            qer_count,
            urr_count,
            bar_count,
            filter_count,
            route_count,
            copy_count,
            redirection_count,
            endpoint_count,
            frame_count,
            monitor_count,
        ] = counts.map(usize::from);
        let pdrs = Head::LEN;
        let fars = pdrs + pdr_count * Pdr::LEN;
        let qers = fars + far_count * Far::LEN;
        let urrs = qers + qer_count * Qer::LEN;
        let bars = urrs + urr_count * Urr::LEN;
        let filters = bars + bar_count * Bar::LEN;
        let routes = filters + filter_count * Filter::LEN;
        let copies = routes + route_count * Route::LEN;
        let redirections = copies + copy_count * Copied::LEN;
        let endpoints = redirections + redirection_count * Redirection::LEN;
        let frames = endpoints + endpoint_count * Endpoint::LEN;
        let monitors = frames + frame_count * FrameFilter::LEN;
        Self {
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
            end: monitors + monitor_count * Monitor::LEN,
        }
    }
}

/// A kind of record of which an image has a list.
pub(crate) trait Listed: Stored {
    /// Its place among the counts.
    const KIND: usize;

    /// Where the list begins.
    fn begin(at: &Offsets) -> usize;
}

macro_rules! listed {
    ($($record:ty: $kind:literal $begin:ident;)*) => { $(
        impl Listed for $record {
            const KIND: usize = $kind;

            #[inline]
            fn begin(at: &Offsets) -> usize {
                at.$begin
            }
        }
    )* };
}

listed! {
    Pdr: 0 pdrs;
    Far: 1 fars;
    Qer: 2 qers;
    Urr: 3 urrs;
    Bar: 4 bars;
    Filter: 5 filters;
    Route: 6 routes;
    Copied: 7 copies;
    Redirection: 8 redirections;
    Endpoint: 9 endpoints;
    FrameFilter: 10 frames;
    Monitor: 11 monitors;
}

/// The records of an image where they lie. Places beyond the counts give none.
#[derive(Debug)]
pub struct Image<'a> {
    bytes: &'a mut [u8],
    at: Offsets,
    counts: [u8; KINDS],
}

impl<'a> Image<'a> {
    /// The session's slice; 0 for none.
    #[inline]
    pub fn slice(&self) -> u32 {
        Fields::<Head>::slice().get(self.bytes)
    }

    /// The image at the front of `bytes`; none of memory that is none.
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> Option<Self> {
        if bytes.len() < Head::LEN {
            return None;
        }
        let counts = Fields::<Head>::counts().get(bytes);
        let at = Offsets::of(&counts);
        (at.end <= bytes.len()).then_some(Self { bytes, at, counts })
    }

    /// Gives where those parts of the image at the front of `bytes` lie that most packets read.
    #[inline]
    pub fn hot_parts(bytes: &[u8], mut each: impl FnMut(usize, usize)) {
        let counts = Fields::<Head>::counts().get(bytes);
        let at = Offsets::of(&counts);
        let fetched = |kind: usize| usize::from(counts[kind]).min(FETCHED_COUNT_MAX);
        for place in 0..fetched(0) {
            let from = at.pdrs + place * Pdr::LEN;
            each(from, from + PDR_HOT);
        }
        each(at.fars, at.fars + fetched(1) * Far::LEN);
        for place in 0..fetched(2) {
            let from = at.qers + place * Qer::LEN;
            each(from, from + QER_HOT);
        }
        for place in 0..fetched(3) {
            let from = at.urrs + place * Urr::LEN;
            each(from, from + URR_HOT);
        }
    }

    /// What is common.
    #[inline]
    pub fn head(&self) -> Head {
        Head::load(self.bytes)
    }

    /// Writes what is common; its counts must be as they are.
    #[inline]
    pub fn set_head(&mut self, head: &Head) {
        head.store(self.bytes);
    }

    /// The UP function's SEID.
    #[inline]
    pub fn seid(&self) -> u64 {
        Fields::<Head>::seid().get(self.bytes)
    }

    /// Whether a PDR wants to know a packet's application.
    #[inline]
    pub fn looks_inside(&self) -> bool {
        Fields::<Head>::looks_inside().get(self.bytes)
    }

    /// Whether packets from this address may be of its UE: always, if no address is known.
    #[inline]
    pub fn is_ue(&self, src: IpAddr) -> bool {
        let prefix = |address: Ipv6Addr| address.to_bits() >> 64;
        let v4 = Fields::<Head>::ue_v4().get(self.bytes);
        let v6 = || Fields::<Head>::ue_v6().get(self.bytes);
        match src {
            IpAddr::V4(src) if v4 == Some(src) => true,
            IpAddr::V6(src) if v6().is_some_and(|own| prefix(own) == prefix(src)) => true,
            _ => v4.is_none() && v6().is_none(),
        }
    }

    /// Whether a PDR names the prefix of this address, which is the UE's then: it may have several.
    pub fn names(&self, src: IpAddr) -> bool {
        let IpAddr::V6(src) = src else {
            return false;
        };
        let is_its = |prefix: Ipv6Addr| (prefix.to_bits() ^ src.to_bits()) >> 64 == 0;
        self.prefixes().any(is_its)
    }

    /// The prefixes that PDRs name, each as often as they do.
    pub fn prefixes(&self) -> impl Iterator<Item = Ipv6Addr> {
        let records = (0..self.pdr_count()).filter_map(|place| self.record::<Pdr>(place));
        records.filter_map(|record| Fields::<Pdr>::ue_v6().get(record))
    }

    /// Counts a packet of the UE that leaves; whether the session was inactive before it.
    #[inline]
    pub fn count_passed(&mut self, is_uplink: bool, len: usize, now_ns: u64) -> bool {
        let field = match is_uplink {
            true => Fields::<Head>::ul(),
            false => Fields::<Head>::dl(),
        };
        let [packets, octets] = field.get(self.bytes);
        field.set(self.bytes, &[packets + 1, octets + len as u64]);
        Fields::<Head>::last_packet_ns().set(self.bytes, &now_ns);
        let was_inactive = Fields::<Head>::is_inactive().get(self.bytes);
        if was_inactive {
            Fields::<Head>::is_inactive().set(self.bytes, &false);
        }
        was_inactive
    }

    /// Counts a packet that is dropped.
    #[inline]
    pub fn count_dropped(&mut self) {
        let dropped = Fields::<Head>::dropped().get(self.bytes);
        Fields::<Head>::dropped().set(self.bytes, &(dropped + 1));
    }

    /// How many PDRs there are.
    #[inline]
    pub const fn pdr_count(&self) -> u8 {
        self.counts[0]
    }

    /// How many URRs there are.
    #[inline]
    pub const fn urr_count(&self) -> u8 {
        self.counts[3]
    }

    /// How many QoS flows are monitored.
    #[inline]
    pub const fn monitor_count(&self) -> u8 {
        self.counts[Monitor::KIND]
    }

    /// Whether any PDR has filters.
    #[inline]
    pub const fn has_filters(&self) -> bool {
        self.counts[Filter::KIND] > 0
    }

    /// Whether any PDR has framed routes.
    #[inline]
    pub const fn has_routes(&self) -> bool {
        self.counts[Route::KIND] > 0
    }

    /// Where the record at a place lies, if it is there.
    #[inline]
    fn range<T: Listed>(&self, place: u8) -> Option<Range<usize>> {
        let from = T::begin(&self.at) + usize::from(place) * T::LEN;
        (place < self.counts[T::KIND]).then_some(from..from + T::LEN)
    }

    /// A record where it lies.
    #[inline]
    pub(crate) fn record<T: Listed>(&self, place: u8) -> Option<&[u8]> {
        let range = self.range::<T>(place)?;
        self.bytes.get(range)
    }

    /// A record where it lies, to be changed.
    #[inline]
    pub(crate) fn record_mut<T: Listed>(&mut self, place: u8) -> Option<&mut [u8]> {
        let range = self.range::<T>(place)?;
        self.bytes.get_mut(range)
    }

    #[inline]
    fn get<T: Listed>(&self, place: u8) -> Option<T> {
        self.record::<T>(place).map(T::load)
    }

    #[inline]
    fn set<T: Listed>(&mut self, place: u8, value: &T) {
        if let Some(record) = self.record_mut::<T>(place) {
            value.store(record);
        }
    }

    fn all<T: Listed>(&self) -> impl Iterator<Item = T> {
        (0..self.counts[T::KIND]).filter_map(|place| self.get(place))
    }

    /// A PDR.
    #[inline]
    pub fn pdr(&self, place: u8) -> Option<Pdr> {
        self.get(place)
    }

    /// A FAR.
    #[inline]
    pub fn far(&self, place: u8) -> Option<Far> {
        self.get(place)
    }

    /// A QER.
    #[inline]
    pub fn qer(&self, place: u8) -> Option<Qer> {
        self.get(place)
    }

    /// A URR.
    #[inline]
    pub fn urr(&self, place: u8) -> Option<Urr> {
        self.get(place)
    }

    /// Writes a URR.
    #[inline]
    pub fn set_urr(&mut self, place: u8, urr: &Urr) {
        self.set(place, urr);
    }

    /// Whether any URR has something to tell for which there was no room yet.
    pub fn has_untold(&self) -> bool {
        let records = (0..self.urr_count()).filter_map(|place| self.record::<Urr>(place));
        let mut untold = records.map(Urr::untold_at);
        untold.any(|trigger| trigger != UsageReportTrigger::NONE)
    }

    /// A BAR.
    #[inline]
    pub fn bar(&self, place: u8) -> Option<Bar> {
        self.get(place)
    }

    /// A QoS flow that is monitored.
    #[inline]
    pub fn monitor(&self, place: u8) -> Option<Monitor> {
        self.get(place)
    }

    /// A filter.
    #[inline]
    pub fn filter(&self, place: u8) -> Option<Filter> {
        self.get(place)
    }

    /// Framed routes of all PDRs.
    #[inline]
    pub fn routes(&self) -> impl Iterator<Item = Route> {
        self.all()
    }

    /// Ethernet packet filters of all PDRs.
    pub fn frame_filters(&self) -> impl Iterator<Item = FrameFilter> {
        self.all()
    }

    /// Copies that FARs send.
    #[inline]
    pub fn copies(&self) -> impl Iterator<Item = Copied> {
        self.all()
    }

    /// Where a FAR redirects requests to.
    #[inline]
    pub fn redirection(&self, far_id: u32) -> Option<Redirection> {
        let mut records = (0..self.counts[Redirection::KIND])
            .filter_map(|place| self.record::<Redirection>(place));
        let is_its = |record: &&[u8]| Fields::<Redirection>::far_id().get(record) == far_id;
        records.find(is_its).map(Redirection::load)
    }

    /// Whether a FAR redirects requests.
    #[inline]
    pub fn redirects(&self, far_id: u32) -> bool {
        self.counts[Redirection::KIND] > 0 && self.redirection(far_id).is_some()
    }
}
