//! The image of a session: where its records lie, and they one by one.
//!
//! On a packet's way, from its session to its rules: nothing is copied that a packet does not read.
//! Places beyond the counts give none, whatever the memory holds.

use crate::routes::Route;
use crate::rules::{Bar, Copied, Far, Head, KINDS, Pdr, Qer, Redirection, Urr};
use crate::sdf::Filter;
use crate::stored::Stored;

/// Where each kind of record begins, and where the image ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    pub(super) pdrs: usize,
    pub(super) fars: usize,
    pub(super) qers: usize,
    pub(super) urrs: usize,
    pub(super) bars: usize,
    pub(super) filters: usize,
    pub(super) routes: usize,
    pub(super) copies: usize,
    pub(super) redirections: usize,
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
            end: redirections + redirection_count * Redirection::LEN,
        }
    }
}

/// The records of an image where they lie. Places beyond the counts give none.
#[derive(Debug)]
pub struct Image<'a> {
    bytes: &'a mut [u8],
    at: Offsets,
    counts: [u8; KINDS],
}

impl<'a> Image<'a> {
    /// The image at the front of `bytes`; none of memory that is none.
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> Option<Self> {
        let counts = Head::load(bytes).counts;
        let at = Offsets::of(&counts);
        (at.end <= bytes.len()).then_some(Self { bytes, at, counts })
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

    /// Whether any PDR has filters.
    #[inline]
    pub const fn has_filters(&self) -> bool {
        self.counts[5] > 0
    }

    #[inline]
    fn get<T: Stored>(&self, kind: usize, from: usize, place: u8) -> Option<T> {
        let is_there = place < self.counts[kind];
        is_there.then(|| T::load(&self.bytes[from + usize::from(place) * T::LEN..]))
    }

    #[inline]
    fn set<T: Stored>(&mut self, kind: usize, from: usize, place: u8, value: &T) {
        if place < self.counts[kind] {
            value.store(&mut self.bytes[from + usize::from(place) * T::LEN..]);
        }
    }

    /// A PDR.
    #[inline]
    pub fn pdr(&self, place: u8) -> Option<Pdr> {
        self.get(0, self.at.pdrs, place)
    }

    /// Writes a PDR.
    #[inline]
    pub fn set_pdr(&mut self, place: u8, pdr: &Pdr) {
        self.set(0, self.at.pdrs, place, pdr);
    }

    /// A FAR.
    #[inline]
    pub fn far(&self, place: u8) -> Option<Far> {
        self.get(1, self.at.fars, place)
    }

    /// A QER.
    #[inline]
    pub fn qer(&self, place: u8) -> Option<Qer> {
        self.get(2, self.at.qers, place)
    }

    /// Writes a QER.
    #[inline]
    pub fn set_qer(&mut self, place: u8, qer: &Qer) {
        self.set(2, self.at.qers, place, qer);
    }

    /// A URR.
    #[inline]
    pub fn urr(&self, place: u8) -> Option<Urr> {
        self.get(3, self.at.urrs, place)
    }

    /// Writes a URR.
    #[inline]
    pub fn set_urr(&mut self, place: u8, urr: &Urr) {
        self.set(3, self.at.urrs, place, urr);
    }

    /// A BAR.
    #[inline]
    pub fn bar(&self, place: u8) -> Option<Bar> {
        self.get(4, self.at.bars, place)
    }

    /// A filter.
    #[inline]
    pub fn filter(&self, place: u8) -> Option<Filter> {
        self.get(5, self.at.filters, place)
    }

    /// Framed routes of all PDRs.
    #[inline]
    pub fn routes(&self) -> impl Iterator<Item = Route> {
        (0..self.counts[6]).filter_map(|place| self.get(6, self.at.routes, place))
    }

    /// Copies that FARs send.
    #[inline]
    pub fn copies(&self) -> impl Iterator<Item = Copied> {
        (0..self.counts[7]).filter_map(|place| self.get(7, self.at.copies, place))
    }

    /// Where a FAR redirects requests to.
    #[inline]
    pub fn redirection(&self, far_id: u32) -> Option<Redirection> {
        let mut all = (0..self.counts[8])
            .filter_map(|place| self.get::<Redirection>(8, self.at.redirections, place));
        all.find(|one| one.far_id == far_id)
    }
}
