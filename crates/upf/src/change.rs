//! Requests about sessions: a model is made, or changed, by all that a message says.
//!
//! On N4, between reading a message and applying it. Nothing but the model and the draft changes
//! here: a fault leaves the session as it was. Rules are removed first, then updated, then created.

use catena_wire::pfcp::value::flags::{SessionModificationRequestFlags, UsageReportTrigger};
use catena_wire::pfcp::value::node::{FailedRuleId, PdnType};
use catena_wire::pfcp::value::{BarId, FarId, PdrId, QerId, UrrId};
use catena_wire::pfcp::{Cause, Change, Group, IeType, key};

use crate::ceilings::terms::slice_number;
use crate::copies;
use crate::draft::Draft;
use crate::endpoint;
use crate::ethernet::{self, filter};
use crate::model::{Detection, Fault, Session};
use crate::monitoring;
use crate::pdi::is_chosen;
use crate::rates;
use crate::redirect;
use crate::request;
use crate::rules::{Bar, Far, Head, Pdr, Qer, Urr, UrrTerms};
use crate::switch;
use crate::unstructured;
use crate::usage::Report;

/// What a change brings beside the changed session.
#[derive(Debug, Default, PartialEq)]
pub struct Effects {
    /// PDRs of which something was chosen: their answers name it.
    pub created: Vec<u16>,
    /// Traffic Endpoints of which something was chosen.
    pub created_endpoints: Vec<u8>,
    /// Usage of rules that were removed or asked for.
    pub reports: Vec<Report>,
    /// FARs as they were, whose tunnels get end markers.
    pub end_markers: Vec<Far>,
    /// Places of QERs whose packet rates were asked for.
    pub queried_qers: Vec<usize>,
    /// Held packets are dropped whatever the FARs say.
    pub drops_held: bool,
}

/// IEs of sessions that this UPF does not act on, and that cannot be left out of account.
const UNSUPPORTED: &[IeType] = &[
    IeType::CREATE_MAR,
    IeType::UPDATE_MAR,
    IeType::REMOVE_MAR,
    IeType::CREATE_BRIDGE_INFO_FOR_TSC,
    IeType::PROVIDE_ATSSS_CONTROL_INFORMATION,
    IeType::PROVIDE_RDS_CONFIGURATION_INFORMATION,
    IeType::L2TP_TUNNEL_INFORMATION,
    IeType::L2TP_SESSION_INFORMATION,
    IeType::MBS_SESSION_N4MB_CONTROL_INFORMATION,
    IeType::MBS_SESSION_N4_CONTROL_INFORMATION,
    IeType::ETHERNET_CONTEXT_INFORMATION,
];

/// Makes a session of an establishment request.
///
/// # Errors
/// Why it is refused.
pub fn establish(
    ies: &Group<'_>,
    head: Head,
    draft: &mut Draft<'_>,
) -> Result<(Session, Effects), Fault> {
    let mut session = Session::new(head);
    if let Some(pdn_type) = ies.get(key::PDN_TYPE)? {
        if !(PdnType::IPV4..=PdnType::ETHERNET).contains(&pdn_type) {
            return Err(Cause::SERVICE_NOT_SUPPORTED
                .because_of(IeType::PDN_TYPE)
                .into());
        }
        session.head.pdn_type = pdn_type.0;
        session.head.is_ethernet = pdn_type == PdnType::ETHERNET;
        session.head.is_unstructured = pdn_type >= PdnType::NON_IP;
    }
    if let Some(slice) = ies.get(key::S_NSSAI)? {
        session.head.slice = slice_number(slice.sst, slice.sd);
    }
    let effects = modify(ies, &mut session, draft)?;
    Ok((session, effects))
}

/// Changes a session as a request says.
///
/// # Errors
/// Why it is refused; the session is to be thrown away.
pub fn modify(
    ies: &Group<'_>,
    session: &mut Session,
    draft: &mut Draft<'_>,
) -> Result<Effects, Fault> {
    if let Some(ie_type) = UNSUPPORTED.iter().find(|ie_type| ies.has(**ie_type)) {
        return Err(Cause::SERVICE_NOT_SUPPORTED.because_of(*ie_type).into());
    }
    let mut effects = Effects::default();
    match ies.change(key::USER_PLANE_INACTIVITY_TIMER)? {
        Change::Keep => {}
        Change::Remove => session.head.inactivity_s = None,
        Change::Set(timer) => {
            session.head.inactivity_s = (timer.0 > 0).then_some(timer.0);
            session.head.last_packet_ns = draft.now_ns;
            session.head.is_inactive = false;
        }
    }
    let flags = ies.get(key::PFCPSMREQ_FLAGS)?.unwrap_or_default();
    effects.drops_held = flags.contains(SessionModificationRequestFlags::DROBU);
    remove(ies, session, &mut effects, draft.now_ns)?;
    update(ies, session, &mut effects, draft)?;
    create(ies, session, &mut effects, draft)?;
    endpoint::apply(ies, session, draft.settings)?;
    refer_filters(session)?;
    filter::refer(session)?;
    ethernet::check(session, draft.settings.shard.1)?;
    unstructured::check(session)?;
    switch::check(session)?;
    session.link()?;
    query(ies, session, &mut effects, flags, draft.now_ns)?;
    effects.queried_qers = rates::queried(ies, session)?;
    Ok(effects)
}

fn remove(
    ies: &Group<'_>,
    session: &mut Session,
    effects: &mut Effects,
    now_ns: u64,
) -> Result<(), Fault> {
    for group in ies.groups(IeType::REMOVE_PDR) {
        let id = group.require(key::PDR_ID)?;
        let fault = Fault::of_rule(FailedRuleId::Pdr(id), IeType::PDR_ID);
        take(&mut session.pdrs, |one| one.pdr.id == id.0).ok_or(fault)?;
    }
    endpoint::remove(ies, session)?;
    for group in ies.groups(IeType::REMOVE_FAR) {
        let id = group.require(key::FAR_ID)?;
        let fault = Fault::of_rule(FailedRuleId::Far(id), IeType::FAR_ID);
        take(&mut session.fars, |one| one.id == id.0).ok_or(fault)?;
        // Another of the same number, made by the same request, begins without them.
        session.copies.retain(|one| one.far_id != id.0);
        session.redirections.retain(|one| one.far_id != id.0);
    }
    for group in ies.groups(IeType::REMOVE_QER) {
        let id = group.require(key::QER_ID)?;
        let fault = Fault::of_rule(FailedRuleId::Qer(id), IeType::QER_ID);
        take(&mut session.qers, |one| one.id == id.0).ok_or(fault)?;
    }
    for group in ies.groups(IeType::REMOVE_URR) {
        let id = group.require(key::URR_ID)?;
        let fault = Fault::of_rule(FailedRuleId::Urr(id), IeType::URR_ID);
        let mut urr = take(&mut session.urrs, |one| one.id == id.0).ok_or(fault)?;
        effects
            .reports
            .extend(urr.report(UsageReportTrigger::TERMR, now_ns));
    }
    for group in ies.groups(IeType::REMOVE_BAR) {
        let id = group.require(key::BAR_ID)?;
        let fault = Fault::of_rule(FailedRuleId::Bar(id), IeType::BAR_ID);
        take(&mut session.bars, |one| one.id == id.0).ok_or(fault)?;
    }
    monitoring::remove(ies, session)
}

fn take<T>(rules: &mut Vec<T>, is_it: impl Fn(&T) -> bool) -> Option<T> {
    let at = rules.iter().position(is_it)?;
    Some(rules.remove(at))
}

fn update(
    ies: &Group<'_>,
    session: &mut Session,
    effects: &mut Effects,
    draft: &mut Draft<'_>,
) -> Result<(), Fault> {
    endpoint::update(ies, session, &mut effects.created_endpoints, draft)?;
    for group in ies.groups(IeType::UPDATE_PDR) {
        let id = group.require(key::PDR_ID)?;
        let fault = Fault::of_rule(FailedRuleId::Pdr(id), IeType::PDR_ID);
        let one = session.pdrs.iter_mut().find(|one| one.pdr.id == id.0);
        let one = one.ok_or(fault)?;
        let before = one.pdr;
        request::pdr(&group, one, &mut session.head, draft)?;
        let pdi = group.group(IeType::PDI);
        let is_other = before.teid != one.pdr.teid
            || (before.ue_v4, before.ue_v6) != (one.pdr.ue_v4, one.pdr.ue_v6);
        if pdi.is_some_and(|pdi| is_chosen(&pdi)) && is_other {
            effects.created.push(id.0);
        }
    }
    for group in ies.groups(IeType::UPDATE_FAR) {
        let id = group.require(key::FAR_ID)?;
        let fault = Fault::of_rule(FailedRuleId::Far(id), IeType::FAR_ID);
        let one = session.fars.iter_mut().find(|one| one.id == id.0);
        let one = one.ok_or(fault)?;
        let before = *one;
        request::far(&group, one, draft)?;
        copies::read(&group, id.0, session, draft)?;
        redirect::read(&group, id.0, session)?;
        let parameters = group.group(IeType::UPDATE_FORWARDING_PARAMETERS);
        if let Some(parameters) = parameters {
            let flags = parameters.get(key::PFCPSMREQ_FLAGS)?.unwrap_or_default();
            if flags.contains(SessionModificationRequestFlags::SNDEM) && before.is_tunnel() {
                effects.end_markers.push(before);
            }
        }
    }
    for group in ies.groups(IeType::UPDATE_QER) {
        let id = group.require(key::QER_ID)?;
        let fault = Fault::of_rule(FailedRuleId::Qer(id), IeType::QER_ID);
        let one = session.qers.iter_mut().find(|one| one.id == id.0);
        request::qer(&group, one.ok_or(fault)?, draft)?;
    }
    for group in ies.groups(IeType::UPDATE_URR) {
        let id = group.require(key::URR_ID)?;
        let fault = Fault::of_rule(FailedRuleId::Urr(id), IeType::URR_ID);
        let one = session.urrs.iter_mut().find(|one| one.id == id.0);
        request::urr(&group, one.ok_or(fault)?, draft.now_ns)?;
    }
    for group in ies.groups(IeType::UPDATE_BAR) {
        let id = group.require(key::BAR_ID)?;
        let fault = Fault::of_rule(FailedRuleId::Bar(id), IeType::BAR_ID);
        let one = session.bars.iter_mut().find(|one| one.id == id.0);
        request::bar(&group, one.ok_or(fault)?)?;
    }
    monitoring::update(ies, session, draft.now_ns)
}

fn create(
    ies: &Group<'_>,
    session: &mut Session,
    effects: &mut Effects,
    draft: &mut Draft<'_>,
) -> Result<(), Fault> {
    for group in ies.groups(IeType::CREATE_FAR) {
        let FarId(id) = group.require(key::FAR_ID)?;
        let fault = Fault::of_rule(FailedRuleId::Far(FarId(id)), IeType::FAR_ID);
        is_new(session.fars.iter().all(|one| one.id != id), fault)?;
        let mut far = Far::empty(id);
        request::far(&group, &mut far, draft)?;
        copies::read(&group, id, session, draft)?;
        redirect::read(&group, id, session)?;
        session.fars.push(far);
    }
    for group in ies.groups(IeType::CREATE_QER) {
        let QerId(id) = group.require(key::QER_ID)?;
        let fault = Fault::of_rule(FailedRuleId::Qer(QerId(id)), IeType::QER_ID);
        is_new(session.qers.iter().all(|one| one.id != id), fault)?;
        let mut qer = Qer::open(id);
        request::qer(&group, &mut qer, draft)?;
        session.qers.push(qer);
    }
    for group in ies.groups(IeType::CREATE_URR) {
        let UrrId(id) = group.require(key::URR_ID)?;
        let fault = Fault::of_rule(FailedRuleId::Urr(UrrId(id)), IeType::URR_ID);
        is_new(session.urrs.iter().all(|one| one.id != id), fault)?;
        let mut urr = Urr::new(id, UrrTerms::NONE, draft.now_ns);
        request::urr(&group, &mut urr, draft.now_ns)?;
        session.urrs.push(urr);
    }
    for group in ies.groups(IeType::CREATE_BAR) {
        let BarId(id) = group.require(key::BAR_ID)?;
        let fault = Fault::of_rule(FailedRuleId::Bar(BarId(id)), IeType::BAR_ID);
        is_new(session.bars.iter().all(|one| one.id != id), fault)?;
        let mut bar = Bar {
            id,
            delay: 0,
            suggested: None,
        };
        request::bar(&group, &mut bar)?;
        session.bars.push(bar);
    }
    endpoint::create(ies, session, &mut effects.created_endpoints, draft)?;
    for group in ies.groups(IeType::CREATE_PDR) {
        let PdrId(id) = group.require(key::PDR_ID)?;
        let fault = Fault::of_rule(FailedRuleId::Pdr(PdrId(id)), IeType::PDR_ID);
        is_new(session.pdrs.iter().all(|one| one.pdr.id != id), fault)?;
        let mut detection = Detection {
            pdr: Pdr::empty(id),
            filters: Vec::new(),
            routes: Vec::new(),
            frames: Vec::new(),
        };
        request::pdr(&group, &mut detection, &mut session.head, draft)?;
        session.pdrs.push(detection);
        let pdi = group.group(IeType::PDI);
        if pdi.is_some_and(|pdi| is_chosen(&pdi)) {
            effects.created.push(id);
        }
    }
    monitoring::create(ies, session, draft.now_ns)
}

fn is_new(is_new: bool, fault: Fault) -> Result<(), Fault> {
    is_new.then_some(()).ok_or(fault)
}

/// Filters that only name the ID of another one are that one, for the other direction.
fn refer_filters(session: &mut Session) -> Result<(), Fault> {
    let filters = session.pdrs.iter().flat_map(|one| &one.filters);
    let whole: Vec<_> = filters.filter(|filter| filter.has_flow).copied().collect();
    for Detection { pdr, filters, .. } in &mut session.pdrs {
        for filter in filters.iter_mut() {
            let others = [filter.traffic_class.is_some(), filter.flow_label.is_some()];
            let is_whole = filter.has_flow || filter.spi.is_some() || others.contains(&true);
            if is_whole || filter.filter_id.is_none() {
                continue;
            }
            let same = whole.iter().find(|one| one.filter_id == filter.filter_id);
            let failed = FailedRuleId::Pdr(PdrId(pdr.id));
            *filter = *same.ok_or(Fault::of_rule(failed, IeType::SDF_FILTER))?;
        }
    }
    Ok(())
}

fn query(
    ies: &Group<'_>,
    session: &mut Session,
    effects: &mut Effects,
    flags: SessionModificationRequestFlags,
    now_ns: u64,
) -> Result<(), Fault> {
    let trigger = UsageReportTrigger::IMMER;
    // Of all, once each; what is named beside must be there all the same.
    let is_all = flags.contains(SessionModificationRequestFlags::QAURR);
    if is_all {
        for urr in &mut session.urrs {
            effects.reports.extend(urr.report(trigger, now_ns));
        }
    }
    for group in ies.groups(IeType::QUERY_URR) {
        let id = group.require(key::URR_ID)?;
        let fault = Fault::of_rule(FailedRuleId::Urr(id), IeType::URR_ID);
        let urr = session.urrs.iter_mut().find(|one| one.id == id.0);
        let urr = urr.ok_or(fault)?;
        if !is_all {
            effects.reports.extend(urr.report(trigger, now_ns));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
