//! Traffic Endpoints: what PDRs of a session have in common of where their packets come to.
//!
//! On N4. A PDI that names a Traffic Endpoint has its F-TEID, network instance, UE address, framed
//! routes and QFIs (PDIU). Here endpoints are read, and carried over to the PDRs that name them
//! whenever one of the two changes: packets meet PDRs alone. Specification: TS 29.244 7.5.2.2,
//! 7.5.2.7, 7.5.4.13, 7.5.4.14.

use catena_wire::pfcp::value::node::FailedRuleId;
use catena_wire::pfcp::value::{FarId, PdrId, TrafficEndpointId};
use catena_wire::pfcp::{Cause, Change, Group, IeType, key};

use crate::draft::Draft;
use crate::model::{Ending, Fault, Session};
use crate::pdi::{self, is_chosen, refuse};
use crate::rules::{Endpoint, Head, NONE, Pdr};
use crate::settings::Settings;

/// The fault of an endpoint that is there and should not be, or the other way round.
fn unknown() -> Fault {
    let cause = Cause::RULE_CREATION_MODIFICATION_FAILURE;
    cause.because_of(IeType::TRAFFIC_ENDPOINT_ID).into()
}

/// Removes endpoints, and the PDRs that name them.
///
/// # Errors
/// One that is not there.
pub fn remove(ies: &Group<'_>, session: &mut Session) -> Result<(), Fault> {
    for group in ies.groups(IeType::REMOVE_TRAFFIC_ENDPOINT) {
        let TrafficEndpointId(id) = group.require(key::TRAFFIC_ENDPOINT_ID)?;
        let mut all = session.endpoints.iter();
        let at = all.position(|one| one.endpoint.id == id);
        session.endpoints.remove(at.ok_or_else(unknown)?);
        session.pdrs.retain(|one| one.pdr.endpoint != Some(id));
    }
    Ok(())
}

/// Changes endpoints; `chosen` gets those of which something is chosen anew.
///
/// # Errors
/// Why the request is refused.
pub fn update(
    ies: &Group<'_>,
    session: &mut Session,
    chosen: &mut Vec<u8>,
    draft: &mut Draft<'_>,
) -> Result<(), Fault> {
    for group in ies.groups(IeType::UPDATE_TRAFFIC_ENDPOINT) {
        let TrafficEndpointId(id) = group.require(key::TRAFFIC_ENDPOINT_ID)?;
        let mut all = session.endpoints.iter_mut();
        let one = all.find(|one| one.endpoint.id == id).ok_or_else(unknown)?;
        let before = one.endpoint;
        read(&group, one, &mut session.head, draft)?;
        let is_other = before.teid != one.endpoint.teid
            || (before.ue_v4, before.ue_v6) != (one.endpoint.ue_v4, one.endpoint.ue_v6);
        if is_chosen(&group) && is_other {
            chosen.push(id);
        }
        // QFIs that a PDR has of its endpoint are no longer its own.
        let its = session.pdrs.iter_mut().map(|one| &mut one.pdr);
        let its = its.filter(|pdr| pdr.endpoint == Some(id) && pdr.qfis == before.qfis);
        its.for_each(|pdr| pdr.qfis = 0);
    }
    Ok(())
}

/// Makes endpoints; `chosen` gets those of which something is chosen.
///
/// # Errors
/// Why the request is refused.
pub fn create(
    ies: &Group<'_>,
    session: &mut Session,
    chosen: &mut Vec<u8>,
    draft: &mut Draft<'_>,
) -> Result<(), Fault> {
    for group in ies.groups(IeType::CREATE_TRAFFIC_ENDPOINT) {
        let TrafficEndpointId(id) = group.require(key::TRAFFIC_ENDPOINT_ID)?;
        if session.endpoints.iter().any(|one| one.endpoint.id == id) {
            return Err(unknown());
        }
        let mut one = Ending {
            endpoint: Endpoint::empty(id),
            routes: Vec::new(),
        };
        one.endpoint.source_interface = source_of(ies, id);
        read(&group, &mut one, &mut session.head, draft)?;
        session.endpoints.push(one);
        if is_chosen(&group) {
            chosen.push(id);
        }
    }
    Ok(())
}

/// The Source Interface of the first PDR of a request that names an endpoint: tunnels end at its
/// side. Access if none does.
fn source_of(ies: &Group<'_>, id: u8) -> u8 {
    let created = ies.groups(IeType::CREATE_PDR);
    let pdrs = created.chain(ies.groups(IeType::UPDATE_PDR));
    let mut pdis = pdrs.filter_map(|pdr| pdr.group(IeType::PDI));
    let names = |pdi: &Group<'_>| {
        let named = pdi.get(key::TRAFFIC_ENDPOINT_ID);
        matches!(named, Ok(Some(TrafficEndpointId(named))) if named == id)
    };
    let pdi = pdis.find(names);
    let source = pdi.and_then(|pdi| pdi.get(key::SOURCE_INTERFACE).ok().flatten());
    source.map_or(0, |source| source.0)
}

/// Reads what an endpoint is, or what of it changes: as a PDI does, IE by IE.
fn read(
    group: &Group<'_>,
    ending: &mut Ending,
    head: &mut Head,
    draft: &mut Draft<'_>,
) -> Result<(), Fault> {
    refuse(
        group,
        &[
            IeType::LOCAL_INGRESS_TUNNEL,
            IeType::REDUNDANT_TRANSMISSION_PARAMETERS,
            IeType::IP_MULTICAST_ADDRESSING_INFO,
            IeType::MBS_SESSION_IDENTIFIER,
        ],
    )?;
    pdi::refuse_frames(group, head)?;
    pdi::refuse_meaningless(group)?;
    // No rule has failed, but an endpoint, for which there is no Failed Rule ID.
    let of_endpoint = |fault| Fault {
        rule: None,
        ..fault
    };
    let own = &mut ending.endpoint;
    match group.change(key::NETWORK_INSTANCE)? {
        Change::Keep => {}
        Change::Remove => own.instance = NONE,
        Change::Set(name) => {
            own.instance = draft.settings.instance(name);
            if own.instance == NONE {
                let cause = Cause::RULE_CREATION_MODIFICATION_FAILURE;
                return Err(cause.because_of(IeType::NETWORK_INSTANCE).into());
            }
        }
    }
    // Where it ends, as if it were the PDR that it is for.
    let mut pdr = Pdr::empty(0);
    (pdr.source_interface, pdr.instance) = (own.source_interface, own.instance);
    match group.change(key::UE_IP_ADDRESS)? {
        Change::Keep => {}
        Change::Remove => (own.ue_v4, own.ue_v6) = (None, None),
        Change::Set(address) => {
            // A shorter one is the PDR's that names it.
            if pdi::prefix_len(&address)? != 64 {
                let cause = Cause::SERVICE_NOT_SUPPORTED;
                return Err(cause.because_of(IeType::UE_IP_ADDRESS).into());
            }
            pdi::read_ue_address(group, &address, &mut pdr, head, draft).map_err(of_endpoint)?;
            (own.ue_v4, own.ue_v6) = (pdr.ue_v4, pdr.ue_v6);
        }
    }
    match group.change(key::F_TEID)? {
        Change::Keep => {}
        Change::Remove => (own.teid, own.is_teid_ours) = (0, false),
        Change::Set(f_teid) => {
            pdi::read_f_teid(&f_teid, &mut pdr, draft).map_err(of_endpoint)?;
            (own.teid, own.is_teid_ours) = (pdr.teid, pdr.is_teid_ours);
        }
    }
    match group.change(key::QFI)? {
        Change::Keep => {}
        Change::Remove => own.qfis = 0,
        Change::Set(_) => own.qfis = pdi::read_qfis(group)?,
    }
    // Those of either version stay where the other one's are said.
    let routes = pdi::read_routes(group, (0, Some(own.id)), draft).map_err(of_endpoint)?;
    let is_said = |is_v6: bool| match is_v6 {
        true => group.has(IeType::FRAMED_IPV6_ROUTE),
        false => group.has(IeType::FRAMED_ROUTE),
    };
    ending.routes.retain(|route| !is_said(route.is_v6));
    ending.routes.extend(routes);
    Ok(())
}

/// Carries endpoints over to the PDRs that name them, and looks whether all that are named are
/// there.
///
/// # Errors
/// The first rule that names one that is not there, or that is not for it.
pub fn apply(ies: &Group<'_>, session: &mut Session, settings: &Settings) -> Result<(), Fault> {
    let endpoints = &session.endpoints;
    let find = |id| endpoints.iter().find(|one| one.endpoint.id == id);
    for pdr in session.pdrs.iter_mut().map(|one| &mut one.pdr) {
        let Some(id) = pdr.endpoint else {
            continue;
        };
        let fault = |ie_type| Fault::of_rule(FailedRuleId::Pdr(PdrId(pdr.id)), ie_type);
        let own = find(id).ok_or(fault(IeType::TRAFFIC_ENDPOINT_ID))?.endpoint;
        let place = |source| settings.place_from(source, own.instance);
        if own.teid != 0 && place(pdr.source_interface) != place(own.source_interface) {
            return Err(fault(IeType::TRAFFIC_ENDPOINT_ID));
        }
        if own.qfis != 0 && pdr.qfis != 0 && pdr.qfis != own.qfis {
            return Err(fault(IeType::QFI));
        }
        if own.qfis != 0 {
            pdr.qfis = own.qfis;
        }
        pdr.instance = own.instance;
        (pdr.teid, pdr.is_teid_ours) = (own.teid, own.is_teid_ours);
        (pdr.ue_v4, pdr.ue_v6) = (own.ue_v4, own.ue_v6);
        // S/D is said in PDIs alone: here the direction says which address is the UE's.
        pdr.ue_is_destination = !pdr.is_uplink();
    }
    // What a FAR is linked to receives what comes the other way: nothing is done with it but this.
    let fars = ies.groups(IeType::CREATE_FAR);
    for far in fars.chain(ies.groups(IeType::UPDATE_FAR)) {
        let creation = far.group(IeType::FORWARDING_PARAMETERS);
        let parameters = creation.or(far.group(IeType::UPDATE_FORWARDING_PARAMETERS));
        let Some(parameters) = parameters else {
            continue;
        };
        if let Change::Set(TrafficEndpointId(id)) = parameters.change(key::TRAFFIC_ENDPOINT_ID)?
            && find(id).is_none()
        {
            let FarId(far) = far.require(key::FAR_ID)?;
            let failed = FailedRuleId::Far(FarId(far));
            return Err(Fault::of_rule(failed, IeType::TRAFFIC_ENDPOINT_ID));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
