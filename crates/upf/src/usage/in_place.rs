//! URRs where they lie: a packet reads and writes those fields of a record that it needs.
//!
//! Part of the fifth step of a packet's way through the UPF: the same as [`usage`](super), without
//! decoding a record for what most packets bring. Whatever is rare goes the long way: the record is
//! read whole, changed as a value and written back.

use catena_wire::pfcp::value::flags::{
    MeasurementInformation, MeasurementMethod, UsageReportTrigger,
};

use crate::rules::{Urr, UrrTerms, Usage};
use crate::stored::{Fields, Stored};

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

impl Urr {
    /// As [`Urr::allows`], of a record where it lies.
    #[inline]
    pub fn allows_at(record: &mut [u8]) -> (bool, UsageReportTrigger) {
        type U = Fields<Urr>;
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
        if Self::count_plainly(record, is_uplink, len, now_ns) {
            return Counted::default();
        }
        let mut urr = Self::load(record);
        let (was_started, was_open) = (urr.is_started, urr.envelope_ns.is_some());
        let (was_full, events) = (urr.has_all_events(), urr.quota_events);
        let trigger = urr.count(is_uplink, len, is_event, now_ns);
        let starts = !was_started || (!was_open && urr.envelope_ns.is_some());
        urr.store(record);
        Counted {
            trigger,
            starts,
            is_untold: was_full && urr.quota_events > events,
        }
    }

    /// Counts a packet that brings nothing but itself: nothing starts, is timed, or is reached.
    /// False, and nothing is counted, if it may bring more.
    #[inline]
    fn count_plainly(record: &mut [u8], is_uplink: bool, len: usize, now_ns: u64) -> bool {
        type U = Fields<Urr>;
        let (terms, usage) = (U::terms(), U::usage());
        let octets_at = usage.then(Fields::<Usage>::octets());
        let (mut octets, mut quota) = (octets_at.get(record), U::quota_octets().get(record));
        let (way, len) = (usize::from(!is_uplink), len as u64);
        octets[way] += len;
        quota[way] += len;
        let method = MeasurementMethod::from_bits(terms.then(T::method()).get(record));
        let is_plain = U::is_started().get(record)
            && !method.intersects(MeasurementMethod::DURAT | MeasurementMethod::EVENT)
            && terms.then(T::time_threshold()).get(record).is_none()
            && terms.then(T::time_quota()).get(record).is_none();
        let threshold = terms.then(T::volume_threshold()).get(record);
        let limit = terms.then(T::volume_quota()).get(record);
        if !is_plain || threshold.is_reached(octets) || limit.is_reached(quota) {
            return false;
        }
        let packets_at = usage.then(Fields::<Usage>::packets());
        let mut packets = packets_at.get(record);
        packets[way] += 1;
        octets_at.set(record, &octets);
        packets_at.set(record, &packets);
        let first_at = usage.then(Fields::<Usage>::first_ns());
        if first_at.get(record).is_none() {
            first_at.set(record, &Some(now_ns));
        }
        usage
            .then(Fields::<Usage>::last_ns())
            .set(record, &Some(now_ns));
        U::quota_octets().set(record, &quota);
        U::active_ns().set(record, &now_ns);
        let counted_to_ns = U::counted_to_ns().get(record).max(now_ns);
        U::counted_to_ns().set(record, &counted_to_ns);
        true
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
