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
use crate::rules::{Bar, Copied, Endpoint, Far, Head, KINDS, Pdr, Qer, Redirection, Urr, Usage};
use crate::sdf::Filter;
use crate::stored::{Fields, LINE, Stored};

/// Records of a kind whose lines are asked for before a packet comes to them.
const FETCHED_COUNT_MAX: usize = 4;
/// How far packets read and write records: of a usual packet no more.
const HEAD_HOT: usize = Fields::<Head>::dl().offset() + <[u64; 2]>::LEN;
const PDR_HOT: usize = Fields::<Pdr>::ue_v6().offset() + bool::LEN;
const QER_HOT: usize = Fields::<Qer>::counts_packets().offset() + bool::LEN;
const URR_HOT: usize = Fields::<Urr>::usage()
    .then(Fields::<Usage>::packets())
    .offset()
    + <[u64; 2]>::LEN;
const _: () = assert!(HEAD_HOT <= LINE && PDR_HOT <= LINE && QER_HOT <= LINE && Far::LEN <= LINE);
const _: () = assert!(URR_HOT <= LINE);

/// Whether two addresses are of one UE's prefix, which has 64 bits.
#[inline]
pub(crate) fn share_prefix(one: Ipv6Addr, other: Ipv6Addr) -> bool {
    (one.to_bits() ^ other.to_bits()) >> 64 == 0
}

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
        let pdrs = Head::LEN.next_multiple_of(LINE);
        let fars = pdrs + pdr_count * Pdr::STRIDE;
        let qers = fars + far_count * Far::STRIDE;
        let urrs = qers + qer_count * Qer::STRIDE;
        let bars = urrs + urr_count * Urr::STRIDE;
        let filters = bars + bar_count * Bar::STRIDE;
        let routes = filters + filter_count * Filter::STRIDE;
        let copies = routes + route_count * Route::STRIDE;
        let redirections = copies + copy_count * Copied::STRIDE;
        let endpoints = redirections + redirection_count * Redirection::STRIDE;
        let frames = endpoints + endpoint_count * Endpoint::STRIDE;
        let monitors = frames + frame_count * FrameFilter::STRIDE;
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
            end: monitors + monitor_count * Monitor::STRIDE,
        }
    }
}

/// A kind of record of which an image has a list.
pub(crate) trait Listed: Stored {
    /// Its place among the counts.
    const KIND: usize;

    /// From one record to the next: what packets touch begins at a line.
    const STRIDE: usize;

    /// Where the list begins, by the counts.
    fn begin(counts: &[u8; KINDS]) -> usize;
}

macro_rules! listed {
    ($($record:ty: $kind:literal $begin:ident $align:expr;)*) => { $(
        impl Listed for $record {
            const KIND: usize = $kind;

            const STRIDE: usize = Self::LEN.next_multiple_of($align);

            #[inline]
            fn begin(counts: &[u8; KINDS]) -> usize {
                Offsets::of(counts).$begin
            }
        }
    )* };
}

listed! {
    Pdr: 0 pdrs LINE;
    Far: 1 fars LINE;
    Qer: 2 qers LINE;
    Urr: 3 urrs LINE;
    Bar: 4 bars 1;
    Filter: 5 filters 1;
    Route: 6 routes 1;
    Copied: 7 copies 1;
    Redirection: 8 redirections 1;
    Endpoint: 9 endpoints 1;
    FrameFilter: 10 frames 1;
    Monitor: 11 monitors 1;
}

/// The records of an image where they lie. Places beyond the counts give none.
#[derive(Debug)]
pub struct Image<'a> {
    bytes: &'a mut [u8],
    counts: [u8; KINDS],
}

impl<'a> Image<'a> {
    /// The session's slice; 0 for none.
    #[inline]
    pub fn slice(&self) -> u32 {
        Fields::<Head>::slice().get(self.bytes)
    }

    /// The image at the front of `bytes`; none of memory that has no room for a head. Whatever its
    /// counts say, records beyond the memory are none.
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> Option<Self> {
        if bytes.len() < Head::LEN {
            return None;
        }
        let counts = Fields::<Head>::counts().get(bytes);
        Some(Self { bytes, counts })
    }

    /// Gives where those parts of the image at the front of `bytes` lie that most packets read.
    #[inline]
    pub fn hot_parts(bytes: &[u8], mut each: impl FnMut(usize, usize)) {
        let counts = Fields::<Head>::counts().get(bytes);
        let at = Offsets::of(&counts);
        let fetched = |kind: usize| usize::from(counts[kind]).min(FETCHED_COUNT_MAX);
        for place in 0..fetched(0) {
            let from = at.pdrs + place * Pdr::STRIDE;
            each(from, from + PDR_HOT);
        }
        for place in 0..fetched(2) {
            let from = at.qers + place * Qer::STRIDE;
            each(from, from + QER_HOT);
        }
        for place in 0..fetched(3) {
            let from = at.urrs + place * Urr::STRIDE;
            each(from, from + URR_HOT);
        }
    }

    /// Gives where FARs and SDF filters lie of those PDRs in the image at the front of `bytes` that
    /// are for packets of this tunnel; of none, if it is 0.
    #[inline]
    pub(crate) fn exit_parts(bytes: &[u8], teid: u32, mut each: impl FnMut(usize, usize)) {
        type P = Fields<Pdr>;
        let counts = Fields::<Head>::counts().get(bytes);
        let at = Offsets::of(&counts);
        let pdrs = bytes.get(at.pdrs..at.fars).unwrap_or_default();
        for record in pdrs.chunks_exact(Pdr::STRIDE).take(FETCHED_COUNT_MAX) {
            if P::teid().get(record) == teid {
                let far = at.fars + usize::from(P::far_at().get(record)) * Far::STRIDE;
                each(far, far + Far::LEN);
                let [first, count] = P::filters().get(record).map(usize::from);
                let from = at.filters + first * Filter::STRIDE;
                each(from, from + count.min(FETCHED_COUNT_MAX) * Filter::STRIDE);
            }
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

    /// Whether packets of its UE's are IP, and its rules no more than PDRs with SDF filters, FARs,
    /// QERs and URRs; and its inactivity was not reported.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        type H = Fields<Head>;
        let is_other = H::is_unstructured().get(self.bytes)
            || H::is_inactive().get(self.bytes)
            || self.looks_inside();
        let kinds = [Route::KIND, Redirection::KIND, Monitor::KIND];
        !is_other && kinds.iter().all(|kind| self.counts[*kind] == 0)
    }

    /// Whether packets from this address may be of its UE: always, if no address is known.
    #[inline]
    pub fn is_ue(&self, src: IpAddr) -> bool {
        let v4 = Fields::<Head>::ue_v4().get(self.bytes);
        let v6 = || Fields::<Head>::ue_v6().get(self.bytes);
        match src {
            IpAddr::V4(src) if v4 == Some(src) => true,
            IpAddr::V6(src) if v6().is_some_and(|own| share_prefix(own, src)) => true,
            _ => v4.is_none() && v6().is_none(),
        }
    }

    /// Whether a PDR names the prefix of this address, which is the UE's then: it may have several.
    pub fn names(&self, src: IpAddr) -> bool {
        let IpAddr::V6(src) = src else {
            return false;
        };
        self.prefixes().any(|prefix| share_prefix(prefix, src))
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

    /// Counts a packet that is dropped, for the reason of this number.
    #[inline]
    pub fn count_dropped(&mut self, kind: Option<usize>) {
        let all = Fields::<Head>::dropped();
        let mut dropped = all.get(self.bytes);
        if let Some(count) = kind.and_then(|kind| dropped.get_mut(kind)) {
            *count = count.saturating_add(1);
            all.set(self.bytes, &dropped);
        }
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
        let from = T::begin(&self.counts) + usize::from(place) * T::STRIDE;
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

    /// The filters at these places, where they lie.
    #[inline]
    pub(crate) fn filters(&self, from: u8, count: u8) -> impl Iterator<Item = &[u8]> {
        let first = Filter::begin(&self.counts) + usize::from(from) * Filter::STRIDE;
        let count = usize::from(count.min(self.counts[Filter::KIND].saturating_sub(from)));
        let records = self.bytes.get(first..first + count * Filter::STRIDE);
        records.unwrap_or_default().chunks_exact(Filter::STRIDE)
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
