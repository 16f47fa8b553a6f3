//! A packet's rules: which PDR it fits, what QERs and URRs say of it.
//!
//! Third and fourth step of a packet's way through the UPF, between its session and its exit.
//! Specification: TS 29.244 5.2.1, 5.2.2, 5.4.

use std::net::IpAddr;

use catena_wire::pfcp::value::flags::{ApplyAction, UsageReportTrigger};

use crate::application::Look;
use crate::ceilings::Guarantee;
use crate::decision::{Decision, Found, Hold, Why};
use crate::ethernet::filter;
use crate::marking::{Marking, UNMARKED};
use crate::model::{Image, share_prefix};
use crate::qer::{self, Meter, Stopped};
use crate::routes::Route;
use crate::rules::{DELETES_CONTAINER, Far, NONE, Pdr, QERS_MAX, Qer, URRS_MAX, Urr};
use crate::sdf::{Filter, Inner};
use crate::settings::Settings;
use crate::stored::{Fields, List, Stored};
use crate::trace::Fitting;

/// QERs of most PDRs: one of the session and one of the flow.
const FEW: usize = 2;

/// What is to be reported behind a packet.
#[derive(Default)]
pub(crate) struct Triggers {
    /// Takes memory only if there is something to report, which takes more.
    pub(crate) told: Vec<(u8, UsageReportTrigger)>,
    /// Whether a timer may be due sooner than it was set.
    pub(crate) wakes: bool,
    /// Events whose times no report will tell.
    pub(crate) untold_events: u64,
    /// The FAR that wants copies of the packet.
    pub(crate) copied_by: Option<u32>,
    /// The PDR that the packet fits.
    pub(crate) fits: Option<Fitting>,
    /// The interface by which its FAR has it leave.
    pub(crate) out: Option<u8>,
}

impl Triggers {
    #[inline]
    fn add(&mut self, place: u8, record: &[u8], trigger: UsageReportTrigger) {
        if trigger == UsageReportTrigger::NONE {
            return;
        }
        // While there is no room, a limit that is reached is found so by each packet.
        let news = trigger.without(Urr::untold_at(record));
        if news != UsageReportTrigger::NONE {
            self.told.push((place, news));
        }
    }
}

/// What the rules of a packet's session say of it.
pub(crate) struct Ruled {
    /// Source interface and network instance of its PDR.
    pub(crate) source: (u8, u8),
    /// How it is forwarded.
    pub(crate) far: Far,
    /// How it is marked.
    pub(crate) marking: Marking,
    /// Outer Header Removal of its PDR.
    pub(crate) removal: u8,
    /// Whether its FAR redirects it: then it is neither counted nor metered.
    pub(crate) is_redirected: bool,
    /// Places of the QERs and URRs that it is to be charged to.
    qers: List<u8, QERS_MAX>,
    urrs: List<u8, URRS_MAX>,
    /// Whether it names its application, if that is known by names.
    is_event: Option<bool>,
}

/// What of a packet is charged: whether it is uplink, its length, whether it is an event, now.
type Passed = (bool, usize, Option<bool>, u64);

impl Ruled {
    /// The network instance that it comes from or goes to, seen from its UE: of uplink packets the
    /// one by whose interface it leaves.
    #[inline]
    pub(crate) fn instance(&self, settings: &Settings) -> u8 {
        instance(settings, self.source, Some(self.far.interface))
    }

    /// Whether it comes from its UE.
    #[inline]
    pub(crate) const fn is_uplink(&self) -> bool {
        self.source.0 == 0
    }
}

/// The network instance of a packet, by source interface and network instance of its PDR and the
/// interface by which it is to leave: of an uplink packet without one that of its PDR.
#[inline]
pub(crate) fn instance(settings: &Settings, (source, own): (u8, u8), out: Option<u8>) -> u8 {
    match (source, own) {
        (0, own) => {
            let out = out.and_then(|out| settings.interfaces.get(usize::from(out)));
            out.map_or(own, |out| out.instance)
        }
        (source, NONE) => {
            let from = settings.interface_from(source, NONE);
            from.map_or(NONE, |from| from.instance)
        }
        (_, own) => own,
    }
}

type P = Fields<Pdr>;
type Q = Fields<Qer>;

/// Finds the PDR, and has gates of redirections and quotas judge the packet, which is charged to
/// none of them yet.
#[inline]
pub(crate) fn ruled(
    image: &mut Image<'_>,
    found: &Found,
    look: &mut Look<'_>,
    triggers: &mut Triggers,
) -> Result<Ruled, Decision> {
    if image.looks_inside() {
        learn(image, found, look);
    }
    let place = first_fit(image, found, look).ok_or(Decision::Drop(Why::NoPdr))?;
    let record = image.record::<Pdr>(place);
    let record = record.ok_or(Decision::Drop(Why::NoPdr))?;
    let (pdr_id, far_at) = (P::id().get(record), P::far_at().get(record));
    let source = (P::source_interface().get(record), P::instance().get(record));
    let (qers, urrs) = (P::qers_at().get(record), P::urrs_at().get(record));
    let removal = removal_of(record);
    let is_event = look.names(P::application().get(record));
    triggers.fits = Some((pdr_id, source));
    let is_uplink = source.0 == 0;
    // A PDR without a UE address says nothing of it: its session does.
    let src = found.inner.src;
    let is_spoofed = is_uplink && found.teid != 0 && !image.is_ue(src) && !image.names(src);
    if is_spoofed && !image.routes().any(|route| route.holds(src)) {
        return Err(Decision::Drop(Why::Spoofed));
    }
    let far = image.far(far_at).ok_or(Decision::Drop(Why::FarDrop))?;
    triggers.out = Some(far.interface);
    if let Some(record) = image.record_mut::<Pdr>(place) {
        let packets = P::packets().get(record);
        P::packets().set(record, &(packets + 1));
    }
    let carried = carried(image, place, found, &far);
    let marking = marking(image, qers.as_slice(), &far, carried, is_uplink);
    if far.does(ApplyAction::BUFF) {
        let bar = image.bar(far.bar_at);
        return Err(Decision::Hold(Hold {
            slot: found.slot,
            notifies: far.does(ApplyAction::NOCP),
            pdr_id,
            qfi: marking.0,
            suggested: bar.and_then(|bar| bar.suggested),
            delay: bar.map_or(0, |bar| bar.delay),
        }));
    }
    triggers.copied_by = far.does(ApplyAction::DUPL).then_some(far.id);
    let is_open = |place: &u8| {
        let record = image.record::<Qer>(*place);
        record.is_none_or(|record| Meter::load(record, is_uplink).is_open)
    };
    let is_redirected = image.redirects(far.id) && qers.as_slice().iter().all(is_open);
    let ruled = Ruled {
        is_event,
        source,
        far,
        marking,
        removal,
        is_redirected,
        qers,
        urrs,
    };
    if !far.does(ApplyAction::FORW) {
        count_dropped(image, &ruled, found.inner.len, triggers);
        return Err(Decision::Drop(Why::FarDrop));
    }
    if !has_quota(image, urrs.as_slice(), triggers) {
        triggers.copied_by = None;
        count_dropped(image, &ruled, found.inner.len, triggers);
        return Err(Decision::Drop(Why::Quota));
    }
    Ok(ruled)
}

/// Whether all URRs let packets pass.
#[inline]
fn has_quota(image: &mut Image<'_>, urrs: &[u8], triggers: &mut Triggers) -> bool {
    urrs.iter().all(|place| {
        let Some(record) = image.record_mut::<Urr>(*place) else {
            return true;
        };
        let (is_allowed, trigger) = Urr::allows_at(record);
        triggers.add(*place, record, trigger);
        is_allowed
    })
}

/// Charges a packet that can leave to its QERs and URRs.
///
/// # Errors
/// The QERs stop it.
#[inline]
pub(crate) fn charge(
    image: &mut Image<'_>,
    ruled: &Ruled,
    len: usize,
    now_ns: u64,
    triggers: &mut Triggers,
) -> Result<(), Why> {
    let Ruled { qers, urrs, .. } = ruled;
    let passed = (ruled.is_uplink(), len, ruled.is_event, now_ns);
    count(image, urrs.as_slice(), passed, triggers, true);
    metered(image, qers.as_slice(), passed).map_err(|stopped| match stopped {
        Stopped::Gate => Why::Gate,
        Stopped::Rate => Why::Rate,
    })?;
    count(image, urrs.as_slice(), passed, triggers, false);
    Ok(())
}

/// What is guaranteed to a packet: by the first of its QERs that guarantees anything.
pub(crate) fn guarantee(image: &Image<'_>, ruled: &Ruled) -> Option<Guarantee> {
    let mut records = ruled
        .qers
        .as_slice()
        .iter()
        .filter_map(|place| image.record::<Qer>(*place));
    records.find_map(|record| {
        let [ul, dl] = Q::gbr_kbps().get(record)?;
        Some(Guarantee {
            whose: (image.seid(), Q::id().get(record)),
            kbps: if ruled.is_uplink() { ul } else { dl },
            window_ms: Q::window_ms().get(record).unwrap_or(qer::WINDOW_MS),
        })
    })
}

/// Counts a packet that was dropped behind its PDR, for URRs with a threshold of downlink ones.
pub(crate) fn count_dropped(
    image: &mut Image<'_>,
    ruled: &Ruled,
    len: usize,
    triggers: &mut Triggers,
) {
    if ruled.is_uplink() {
        return;
    }
    for place in ruled.urrs.as_slice() {
        if let Some(record) = image.record_mut::<Urr>(*place) {
            let trigger = Urr::count_dropped_at(record, len);
            triggers.add(*place, record, trigger);
        }
    }
}

/// How a packet is marked: towards its UE as the first QER that says so has it, and where none
/// does as another UPF has marked it; away from its UE as it came.
#[inline]
fn marking(
    image: &Image<'_>,
    places: &[u8],
    far: &Far,
    carried: Marking,
    is_uplink: bool,
) -> Marking {
    if far.is_tunnel() && far.destination != 0 {
        return carried;
    }
    let records = || {
        places
            .iter()
            .filter_map(|place| image.record::<Qer>(*place))
    };
    // What one UE has marked says nothing to another one.
    let (qfi, rqi, ppi) = if is_uplink { UNMARKED } else { carried };
    (
        records().find_map(|record| Q::qfi().get(record)).or(qfi),
        rqi || records().any(|record| Q::rqi().get(record)),
        records().find_map(|record| Q::ppi().get(record)).or(ppi),
    )
}

/// What the PDU session container of a packet says to who gets it next: all, if it goes from one
/// tunnel into another and its PDR does not have the container deleted (TS 29.244, 8.2.64).
#[inline]
fn carried(image: &Image<'_>, place: u8, found: &Found, far: &Far) -> Marking {
    // What leaves a tunnel has none; nor is that part of a PDR read for it.
    if found.came.0.is_none() || !far.is_tunnel() {
        return UNMARKED;
    }
    let removal = image
        .record::<Pdr>(place)
        .map(|record| P::removal().get(record));
    let is_deleted = |removal: u8| removal != NONE && removal & DELETES_CONTAINER != 0;
    match removal.is_some_and(is_deleted) {
        true => UNMARKED,
        false => found.came,
    }
}

/// Has QERs judge a packet: of this direction and length, at this instant.
#[inline]
fn metered(
    image: &mut Image<'_>,
    places: &[u8],
    (is_uplink, len, _, now_ns): Passed,
) -> Result<(), Stopped> {
    // Room for many is more to write than all else that a packet needs.
    let (mut few, mut many);
    let meters: &mut [Meter] = match places.len() {
        0 => return Ok(()),
        1..=FEW => {
            few = [Meter::default(); FEW];
            &mut few
        }
        _ => {
            many = [Meter::default(); QERS_MAX];
            &mut many
        }
    };
    let meters = &mut meters[..places.len()];
    for (meter, place) in meters.iter_mut().zip(places) {
        let record = image.record::<Qer>(*place);
        *meter = record.map_or_else(Meter::open, |record| Meter::load(record, is_uplink));
    }
    qer::enforce(meters, len, now_ns)?;
    for (meter, place) in meters.iter().zip(places) {
        if let Some(record) = image.record_mut::<Qer>(*place) {
            meter.store(record, is_uplink);
        }
    }
    Ok(())
}

/// Counts the packet by the URRs that measure before QoS enforcement, or by the others.
#[inline]
fn count(
    image: &mut Image<'_>,
    places: &[u8],
    (is_uplink, len, is_event, now_ns): Passed,
    triggers: &mut Triggers,
    is_before_qos: bool,
) {
    for place in places {
        let Some(record) = image.record_mut::<Urr>(*place) else {
            continue;
        };
        if Urr::is_before_qos_at(record) == is_before_qos {
            let counted = Urr::count_at(record, (is_uplink, len, is_event), now_ns);
            triggers.wakes |= counted.starts;
            triggers.untold_events += u64::from(counted.is_untold);
            triggers.add(*place, record, counted.trigger);
        }
    }
}

/// Learns from a packet which applications it is of, of those that any PDR names: also PDRs that
/// it does not come to.
fn learn(image: &Image<'_>, found: &Found, look: &mut Look<'_>) {
    let records = || (0..image.pdr_count()).filter_map(|place| image.record::<Pdr>(place));
    let mut its = records().filter(|record| P::teid().get(record) == found.teid);
    let Some(first) = its.next() else {
        return;
    };
    let is_uplink = P::source_interface().get(first) == 0;
    let wanted = records().map(|record| P::application().get(record));
    look.learn(
        &found.inner,
        is_uplink,
        wanted.filter(|number| *number != 0),
    );
}

/// The place of the first PDR by precedence that fits.
#[inline]
fn first_fit(image: &Image<'_>, found: &Found, look: &Look<'_>) -> Option<u8> {
    let mut places = 0..image.pdr_count();
    places.find(|place| {
        let record = image.record::<Pdr>(*place);
        record.is_some_and(|record| fits(image, record, found, look))
    })
}

/// Outer Header Removal of a PDR, without what becomes of extension headers.
#[inline]
fn removal_of(record: &[u8]) -> u8 {
    P::removal().get(record) & !DELETES_CONTAINER
}

#[inline]
fn fits(image: &Image<'_>, record: &[u8], found: &Found, look: &Look<'_>) -> bool {
    if P::teid().get(record) != found.teid {
        return false;
    }
    // Whose header nobody removes is no packet of the session.
    if let Some(removal) = found.removal
        && removal_of(record) != removal.0
    {
        return false;
    }
    let (source, instance) = (P::source_interface().get(record), P::instance());
    if !found.member.fits(source, instance.get(record)) {
        return false;
    }
    let qfis = P::qfis().get(record);
    if qfis != 0 && found.came.0.is_none_or(|qfi| qfis >> (qfi & 63) & 1 == 0) {
        return false;
    }
    if found.is_frame {
        return filter::fits(image, P::id().get(record), look.packet);
    }
    let is_uplink = source == 0;
    if !is_of_ue(image, record, &found.inner, is_uplink) {
        return false;
    }
    let [from, count] = P::filters().get(record);
    let mut filters = from..from.saturating_add(count);
    let passes = |place| passes_filter(image, place, &found.inner, is_uplink);
    if count > 0 && !filters.any(passes) {
        return false;
    }
    let application = P::application().get(record);
    application == 0 || look.is_of(application, &found.inner, is_uplink)
}

/// Whether a packet's address is that of a PDR's UE, or of a network behind it.
#[inline]
fn is_of_ue(image: &Image<'_>, record: &[u8], inner: &Inner, is_uplink: bool) -> bool {
    let (v4, v6) = (P::ue_v4().get(record), P::ue_v6().get(record));
    let has_address = v4.is_some() || v6.is_some();
    // S/D is said with an address only: without one, the direction says which one is the UE's.
    let is_destination = match has_address {
        true => P::ue_is_destination().get(record),
        false => !is_uplink,
    };
    let ue = if is_destination { inner.dst } else { inner.src };
    let (id, endpoint) = (P::id().get(record), P::endpoint());
    let is_its = |route: &Route| route.is_of(id, endpoint.get(record));
    let is_ue = match ue {
        _ if !has_address => !image.routes().any(|route| is_its(&route)),
        IpAddr::V4(address) => v4 == Some(address),
        IpAddr::V6(address) => v6.is_some_and(|prefix| share_prefix(prefix, address)),
    };
    // A UE sends from all networks behind it; what comes for one is of the PDR that names it.
    let is_own = |route: &Route| is_uplink || is_its(route);
    is_ue
        || image
            .routes()
            .any(|route| is_own(&route) && route.holds(ue))
}

#[inline]
fn passes_filter(image: &Image<'_>, place: u8, inner: &Inner, is_uplink: bool) -> bool {
    let Some(record) = image.record::<Filter>(place) else {
        return false;
    };
    // Most filters that do not fit are of another protocol: the rest of them need not be read.
    let protocol = Fields::<Filter>::protocol().get(record);
    let is_other = protocol.is_some_and(|protocol| protocol != inner.protocol);
    !is_other && Filter::load(record).fits(inner, is_uplink)
}

#[cfg(test)]
mod tests {
    use catena_wire::pfcp::value::flags::{MeasurementMethod, ReportingTriggers};

    use super::*;
    use crate::model::tests::session;
    use crate::rules::{UrrTerms, Volumes};

    /// A threshold is reached by each packet until it is told: only the first one has it noted.
    #[test]
    fn what_waits_to_be_told_is_no_news() {
        let mut one = session(3);
        one.urrs[0].terms = UrrTerms {
            triggers: (ReportingTriggers::VOLTH | ReportingTriggers::START).bits(),
            volume_threshold: Volumes {
                total: Some(200),
                ..Volumes::NONE
            },
            ..UrrTerms::NONE
        };
        one.link().unwrap();
        let mut bytes = vec![0; one.image_len()];
        one.write(&mut bytes);
        let mut image = Image::new(&mut bytes).unwrap();
        let (start, volth) = (UsageReportTrigger::START, UsageReportTrigger::VOLTH);
        let wanted = [Some(start), Some(volth), None, None];
        for wanted in wanted {
            let mut triggers = Triggers::default();
            let passed = (true, 100, None, 0);
            count(&mut image, &[0], passed, &mut triggers, false);
            let told: Vec<_> = wanted.map(|trigger| (0, trigger)).into_iter().collect();
            assert_eq!(triggers.told, told);
            for (place, trigger) in told {
                Urr::note_untold_at(image.record_mut::<Urr>(place).unwrap(), trigger);
            }
        }
        assert_eq!(image.urr(0).unwrap().usage.octets, [400, 0]);
    }

    /// While the report of those before waits, events are counted that it has no room for.
    #[test]
    fn events_that_no_report_tells_are_counted() {
        let mut one = session(3);
        one.urrs[0].terms = UrrTerms {
            method: MeasurementMethod::EVENT.bits(),
            ..UrrTerms::NONE
        };
        one.link().unwrap();
        let mut bytes = vec![0; one.image_len()];
        one.write(&mut bytes);
        let mut image = Image::new(&mut bytes).unwrap();
        let mut triggers = Triggers::default();
        for at in 0..11 {
            let passed = (true, 100, Some(true), at);
            count(&mut image, &[0], passed, &mut triggers, false);
        }
        assert_eq!(triggers.untold_events, 3);
    }

    /// Which end of a packet is the UE's is said with its address (S/D), whatever interface the
    /// packet comes by: one from another UPF comes by the core's, and is its UE's.
    #[test]
    fn a_ues_end_is_the_one_that_its_rule_says() {
        let [ue, host] = [[10, 45, 0, 2], [203, 0, 113, 9]].map(IpAddr::from);
        let packet = |(src, dst)| Inner {
            src,
            dst,
            protocol: 17,
            ports: Some((7, 7)),
            traffic_class: 0,
            flow_label: 0,
            spi: None,
            len: 100,
            is_part: false,
        };
        for is_destination in [false, true] {
            let mut one = session(3);
            let pdr = &mut one.pdrs[1].pdr;
            pdr.ue_v4 = one.head.ue_v4;
            pdr.ue_is_destination = is_destination;
            one.link().unwrap();
            let mut bytes = vec![0; one.image_len()];
            one.write(&mut bytes);
            let image = Image::new(&mut bytes).unwrap();
            let record = image.record::<Pdr>(0).unwrap();
            for is_uplink in [false, true] {
                let fits = |ends| is_of_ue(&image, record, &packet(ends), is_uplink);
                let fit = (fits((host, ue)), fits((ue, host)));
                assert_eq!(fit, (is_destination, !is_destination));
            }
        }
    }
}
