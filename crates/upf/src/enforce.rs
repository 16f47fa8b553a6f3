//! A packet's rules: which PDR it fits, what QERs and URRs say of it.
//!
//! Third and fourth step of a packet's way through the UPF, between its session and its exit.
//! Specification: TS 29.244 5.2.1, 5.2.2, 5.4.

use std::net::IpAddr;

use catena_wire::pfcp::value::flags::{ApplyAction, UsageReportTrigger};

use crate::application::Look;
use crate::decision::{Decision, Found, Hold, Why};
use crate::forward::Marking;
use crate::model::Image;
use crate::qer::{self, Stopped};
use crate::rules::{Far, Head, Pdr, QERS_MAX, Qer, URRS_MAX};

/// QERs of most PDRs: one of the session and one of the flow.
const FEW: usize = 2;

/// What is to be reported behind a packet.
pub(crate) struct Triggers {
    pub(crate) told: [(u8, UsageReportTrigger); 2 * URRS_MAX],
    pub(crate) count: usize,
    /// Whether a timer may be due sooner than it was set.
    pub(crate) wakes: bool,
    /// The FAR that wants copies of the packet.
    pub(crate) copied_by: Option<u32>,
}

impl Default for Triggers {
    fn default() -> Self {
        Self {
            told: [(0, UsageReportTrigger::NONE); 2 * URRS_MAX],
            count: 0,
            wakes: false,
            copied_by: None,
        }
    }
}

impl Triggers {
    fn add(&mut self, place: u8, trigger: UsageReportTrigger) {
        if trigger != UsageReportTrigger::NONE && self.count < self.told.len() {
            self.told[self.count] = (place, trigger);
            self.count += 1;
        }
    }
}

/// Finds the PDR, and has QERs and URRs judge the packet.
pub(crate) fn ruled(
    image: &mut Image<'_>,
    head: &Head,
    found: &Found,
    look: &mut Look<'_>,
    triggers: &mut Triggers,
) -> Result<(Pdr, Far, Marking), Decision> {
    let now_ns = look.now_ns;
    let (place, mut pdr) = first_fit(image, found, look).ok_or(Decision::Drop(Why::NoPdr))?;
    // A PDR without a UE address says nothing of it: its session does.
    let src = found.inner.src;
    let is_spoofed = pdr.is_uplink() && found.teid != 0 && !head.is_ue(src);
    if is_spoofed && !image.routes().any(|route| route.holds(src)) {
        return Err(Decision::Drop(Why::Spoofed));
    }
    let far = image.far(pdr.far_at).ok_or(Decision::Drop(Why::FarDrop))?;
    pdr.packets += 1;
    image.set_pdr(place, &pdr);
    let places = pdr.qers_at;
    let places = places.as_slice();
    // Room for many is more to write than all else that a packet needs.
    let (mut few, mut many);
    let qers: &mut [Qer] = match places.len() {
        0 => &mut [],
        1..=FEW => {
            few = [Qer::open(0); FEW];
            &mut few
        }
        _ => {
            many = [Qer::open(0); QERS_MAX];
            &mut many
        }
    };
    let qers = &mut qers[..places.len()];
    for (qer, place) in qers.iter_mut().zip(places) {
        *qer = image.qer(*place).unwrap_or(*qer);
    }
    let marking = (
        qers.iter().find_map(|qer| qer.qfi),
        qers.iter().any(|qer| qer.rqi),
        qers.iter().find_map(|qer| qer.ppi),
    );
    if far.does(ApplyAction::BUFF) {
        return Err(Decision::Hold(Hold {
            slot: found.slot,
            notifies: far.does(ApplyAction::NOCP),
            pdr_id: pdr.id,
            qfi: marking.0,
            suggested: image.bar(far.bar_at).and_then(|bar| bar.suggested),
        }));
    }
    let copied_by = far.does(ApplyAction::DUPL).then_some(far.id);
    if !far.does(ApplyAction::FORW) {
        triggers.copied_by = copied_by;
        return Err(Decision::Drop(Why::FarDrop));
    }
    let (is_uplink, len) = (pdr.is_uplink(), found.inner.len);
    for place in pdr.urrs_at.as_slice() {
        let Some(mut urr) = image.urr(*place) else {
            continue;
        };
        let (is_allowed, trigger) = urr.allows();
        if !is_allowed {
            triggers.add(*place, trigger);
            image.set_urr(*place, &urr);
            return Err(Decision::Drop(Why::Quota));
        }
    }
    count(image, &pdr, found, triggers, true, now_ns);
    let passed = qer::enforce(qers, is_uplink, len, now_ns);
    for (qer, place) in qers.iter().zip(places) {
        image.set_qer(*place, qer);
    }
    if let Err(stopped) = passed {
        if !is_uplink {
            for place in pdr.urrs_at.as_slice() {
                if let Some(mut urr) = image.urr(*place) {
                    triggers.add(*place, urr.count_dropped(len));
                    image.set_urr(*place, &urr);
                }
            }
        }
        return Err(Decision::Drop(match stopped {
            Stopped::Gate => Why::Gate,
            Stopped::Rate => Why::Rate,
        }));
    }
    count(image, &pdr, found, triggers, false, now_ns);
    triggers.copied_by = copied_by;
    Ok((pdr, far, marking))
}

/// Counts the packet by the URRs that measure before QoS enforcement, or by the others.
fn count(
    image: &mut Image<'_>,
    pdr: &Pdr,
    found: &Found,
    triggers: &mut Triggers,
    is_before_qos: bool,
    now_ns: u64,
) {
    for place in pdr.urrs_at.as_slice() {
        let Some(mut urr) = image.urr(*place) else {
            continue;
        };
        if urr.terms.is_before_qos() != is_before_qos {
            continue;
        }
        triggers.wakes |= !urr.is_started;
        triggers.add(*place, urr.count(pdr.is_uplink(), found.inner.len, now_ns));
        image.set_urr(*place, &urr);
    }
}

/// The first PDR by precedence that fits, and its place.
fn first_fit(image: &Image<'_>, found: &Found, look: &mut Look<'_>) -> Option<(u8, Pdr)> {
    let places = 0..image.pdr_count();
    let mut pdrs = places.filter_map(|place| Some((place, image.pdr(place)?)));
    pdrs.find(|(_, pdr)| {
        let is_of = |look: &mut Look<'_>| {
            pdr.application == 0 || look.is_of(pdr.application, &found.inner, pdr.is_uplink())
        };
        fits(image, pdr, found) && is_of(look)
    })
}

fn fits(image: &Image<'_>, pdr: &Pdr, found: &Found) -> bool {
    if pdr.teid != found.teid {
        return false;
    }
    let has_qfi = found.qfi.is_some_and(|qfi| pdr.qfis >> (qfi & 63) & 1 != 0);
    if pdr.qfis != 0 && !has_qfi {
        return false;
    }
    let inner = &found.inner;
    let ue = if pdr.ue_is_destination {
        inner.dst
    } else {
        inner.src
    };
    let is_ue = match ue {
        _ if pdr.ue_v4.is_none() && pdr.ue_v6.is_none() => {
            image.routes().all(|route| route.pdr_id != pdr.id)
        }
        IpAddr::V4(address) => pdr.ue_v4 == Some(address),
        IpAddr::V6(address) => pdr
            .ue_v6
            .is_some_and(|prefix| (prefix.to_bits() ^ address.to_bits()) >> 64 == 0),
    };
    // A UE sends from all networks behind it; what comes for one is of the PDR that names it.
    let is_own = |pdr_id| pdr.is_uplink() || pdr_id == pdr.id;
    let is_ue = is_ue
        || image
            .routes()
            .any(|route| is_own(route.pdr_id) && route.holds(ue));
    let [from, count] = pdr.filters;
    let mut filters = (from..from.saturating_add(count)).filter_map(|place| image.filter(place));
    is_ue && (count == 0 || filters.any(|filter| filter.fits(inner, pdr.is_uplink())))
}
