//! URRs where they lie: a packet reads and writes those fields of a record that it needs.
//!
//! Part of the fifth step of a packet's way through the UPF: the same as [`usage`](super), without
//! decoding a record for what most packets bring. Whatever is rare goes the long way: the record is
//! read whole, changed as a value and written back.

use catena_wire::pfcp::value::flags::{
    MeasurementInformation, MeasurementMethod, UsageReportTrigger,
};

use crate::rules::{Urr, UrrTerms, Usage};
use crate::stored::{Field, Fields, Stored};

type T = Fields<UrrTerms>;

/// What comes of a packet that a URR counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// What is to be reported, and why.
    pub trigger: UsageReportTrigger,
    /// Whether traffic, or an envelope, starts with it.
    pub starts: bool,
    /// Whether it is an event whose time no report will tell.
    pub is_untold: bool,
}

/// Where a record says how many octets may pass.
const fn room() -> Field<Urr, u64> {
    Field::at(Fields::<Urr>::room().offset())
}

/// One of two words.
const fn word(way: usize) -> Field<[u64; 2], u64> {
    Field::at(way * u64::LEN)
}

impl Urr {
    /// As [`Urr::allows`], of a record where it lies.
    #[inline]
    pub fn allows_at(record: &mut [u8]) -> (bool, UsageReportTrigger) {
        type U = Fields<Urr>;
        if room().get(record) > 0 {
            return (true, UsageReportTrigger::NONE);
        }
        let terms = U::terms();
        let quota = terms.then(T::volume_quota()).get(record);
        let has_time = terms.then(T::time_quota()).get(record).is_some();
        let method = MeasurementMethod::from_bits(terms.then(T::method()).get(record));
        let has_time = has_time || method.contains(MeasurementMethod::EVENT);
        let is_exhausted = U::is_exhausted().get(record);
        if !is_exhausted && !has_time && !quota.is_reached(U::quota_octets().get(record)) {
            return (true, UsageReportTrigger::NONE);
        }
        let mut urr = Self::load(record);
        let allowed = urr.allows();
        urr.store(record);
        allowed
    }

    /// As [`Urr::count`], of a record where it lies.
    #[inline]
    pub fn count_at(
        record: &mut [u8],
        (is_uplink, len, is_event): (bool, usize, Option<bool>),
        now_ns: u64,
    ) -> Counted {
        if Self::has_room(record, len) {
            Self::add_plainly(record, is_uplink, len, now_ns);
            return Counted::default();
        }
        let mut urr = Self::load(record);
        let (was_started, was_open) = (urr.is_started, urr.envelope_ns.is_some());
        let (was_full, events) = (urr.has_all_events(), urr.quota_events);
        let trigger = urr.count(is_uplink, len, is_event, now_ns);
        let starts = !was_started || (!was_open && urr.envelope_ns.is_some());
        urr.store(record);
        room().set(record, &urr.room_octets());
        Counted {
            trigger,
            starts,
            is_untold: was_full && urr.quota_events > events,
        }
    }

    /// Whether a record's URR lets a packet pass, which brings nothing but itself.
    #[inline]
    pub(crate) fn has_room(record: &[u8], len: usize) -> bool {
        let room = room().get(record);
        room > 0 && len as u64 <= room
    }

    /// How many octets may pass before anything starts, is timed, or is reached.
    fn room_octets(&self) -> u64 {
        let (terms, octets) = (&self.terms, self.usage.octets);
        let method = MeasurementMethod::from_bits(terms.method);
        let is_plain = self.is_started
            && !self.is_exhausted
            && self.usage.first_ns.is_some()
            && !method.intersects(MeasurementMethod::DURAT | MeasurementMethod::EVENT)
            && terms.time_threshold.is_none()
            && terms.time_quota.is_none();
        if !is_plain {
            return 0;
        }
        let threshold = terms.volume_threshold.room(octets);
        threshold.min(terms.volume_quota.room(self.quota_octets))
    }

    /// Counts a packet for which there is room.
    #[inline]
    pub(crate) fn add_plainly(record: &mut [u8], is_uplink: bool, len: usize, now_ns: u64) {
        type U = Fields<Urr>;
        let usage = U::usage();
        let way = usize::from(!is_uplink);
        room().set(record, &room().get(record).saturating_sub(len as u64));
        // The same number for both: octets since the last report, and of the quota.
        for at in [usage.then(Fields::<Usage>::octets()), U::quota_octets()] {
            let at = at.then(word(way));
            at.set(record, &(at.get(record) + len as u64));
        }
        let packets = usage.then(Fields::<Usage>::packets()).then(word(way));
        packets.set(record, &(packets.get(record) + 1));
        U::active_ns().set(record, &now_ns);
    }

    /// Whether a record's URR measures before QoS enforcement.
    #[inline]
    pub fn is_before_qos_at(record: &[u8]) -> bool {
        let information = Fields::<Self>::terms().then(T::information());
        let information = MeasurementInformation::from_bits(information.get(record));
        information.contains(MeasurementInformation::MBQE)
    }

    /// Notes in a record what its URR has to tell once there is room.
    pub fn note_untold_at(record: &mut [u8], trigger: UsageReportTrigger) {
        let untold = Self::untold_at(record) | trigger;
        Fields::<Self>::untold().set(record, &untold.bits());
    }

    /// What a record's URR has to tell; none if there is nothing.
    pub fn untold_at(record: &[u8]) -> UsageReportTrigger {
        UsageReportTrigger::from_bits(Fields::<Self>::untold().get(record))
    }

    /// Has a record's URR tell nothing of what waits: nobody can be told.
    pub fn forget_untold_at(record: &mut [u8]) {
        Fields::<Self>::untold().set(record, &0);
    }

    /// As [`Urr::count_dropped`], of a record where it lies, if there is a limit.
    pub fn count_dropped_at(record: &mut [u8], len: usize) -> UsageReportTrigger {
        let terms = Fields::<Self>::terms();
        let has_limit = terms.then(T::dropped_packets()).get(record).is_some()
            || terms.then(T::dropped_octets()).get(record).is_some();
        if !has_limit {
            return UsageReportTrigger::NONE;
        }
        let mut urr = Self::load(record);
        let trigger = urr.count_dropped(len);
        urr.store(record);
        trigger
    }
}
