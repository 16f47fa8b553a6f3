//! Messages about sessions: establishment, modification, deletion.
//!
//! On N4. A request makes or changes a model; only when all of it is right, its answer is written
//! and its keys are free, is it applied: slot, index, pools and timers, one after the other, none
//! of which can fail then. Specification: TS 29.244 6.3, 7.5.2 to 7.5.7.

use std::net::IpAddr;

use catena_wire::pfcp::value::address::{Allocation, FSeid, FTeid, UeIpAddress};
use catena_wire::pfcp::value::flags::{ApplyAction, CpFunctionFeatures, UsageReportTrigger};
use catena_wire::pfcp::value::{PdrId, TrafficEndpointId};
use catena_wire::pfcp::{Cause, Full, Header, IeType, MessageType, View, Writer, key};

use crate::change::{self, Effects};
use crate::draft::Draft;
use crate::load::Told;
use crate::model::{Detection, Ending, Fault, Key, Session};
use crate::monitoring;
use crate::node::{full, message};
use crate::paths;
use crate::ranges::Refused;
use crate::rates;
use crate::reports;
use crate::rules::{Head, Pdr};
use crate::sets;
use crate::settings::Settings;
use crate::transactions::Peer;
use crate::upf::{Release, Upf};

fn answer_to(request: &Header, cp_seid: u64, message_type: MessageType) -> Header {
    Header::new(message_type, Some(cp_seid), request.sequence)
}

impl Upf {
    pub(crate) fn establish(
        &mut self,
        view: &View<&[u8]>,
        from: Peer,
        now_ns: u64,
    ) -> Result<Vec<u8>, Fault> {
        let ies = view.ies();
        let association = self.association_from(&ies, from)?;
        if self.is_ending(association) {
            return Err(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION.alone().into());
        }
        if self.is_parting(association) {
            return Err(Cause::NO_RESOURCES_AVAILABLE.alone().into());
        }
        let f_seid = ies.require(key::F_SEID)?;
        let next = self.store.next();
        let (slot, seid) = next.map_err(|_| Cause::NO_RESOURCES_AVAILABLE.alone())?;
        let mut head = Head::empty();
        head.seid = seid;
        head.association = association;
        head.sweeps = self.sweeps_begun;
        head.last_packet_ns = now_ns;
        set_cp(&mut head, &f_seid, from, &self.settings);
        sets::name(&ies, &mut head)?;
        let mut draft = Draft::new(
            &self.settings,
            &mut self.teids,
            &mut self.pools,
            &self.index,
            &self.applications.table,
            (now_ns, self.clock),
        );
        let (session, effects) = match change::establish(&ies, head, &mut draft) {
            Ok(established) => established,
            Err(fault) => {
                draft.undo();
                return Err(fault);
            }
        };
        let told = self.load_for(association, self.store.live() + 1, now_ns);
        let answer = self.established(view.header(), &session, &effects, &told);
        let checked = answer.and_then(|answer| {
            self.fits(&session)?;
            self.ceilings.check(None, &session, &self.settings)?;
            if session.head.is_ethernet && !self.stations.has_room() {
                return Err(Cause::NO_RESOURCES_AVAILABLE
                    .because_of(IeType::PDN_TYPE)
                    .into());
            }
            self.claim(&session.keys(), &[], slot)?;
            Ok(answer)
        });
        match checked {
            Ok(answer) => {
                self.store.insert(&session);
                self.tally.enter(&session);
                self.ceilings.note(None, Some(&session), &self.settings);
                if session.head.is_ethernet {
                    self.stations.enter(seid, slot);
                }
                self.note_remotes(&session, slot);
                self.counters.established += 1;
                self.arm(slot, now_ns);
                Ok(answer)
            }
            Err(fault) => {
                self.unclaim(&session.keys(), &[]);
                Err(fault)
            }
        }
    }

    /// What an association is told once so many sessions are in use, if it wants to know.
    fn load_for(&mut self, association: u8, sessions: u32, now_ns: u64) -> Told {
        let association = self.store.association(usize::from(association));
        let features = CpFunctionFeatures::from_bits(association.features);
        let seconds = self.clock.seconds(now_ns);
        self.load.note(sessions, self.store.slot_count(), seconds);
        Told::of(features, self.load)
    }

    fn established(
        &self,
        request: &Header,
        session: &Session,
        effects: &Effects,
        told: &Told,
    ) -> Result<Vec<u8>, Fault> {
        let message_type = MessageType::SESSION_ESTABLISHMENT_RESPONSE;
        let header = answer_to(request, session.head.cp_seid, message_type);
        let own = FSeid {
            seid: session.head.seid,
            v4: self.settings.n4_v4,
            v6: self.settings.n4_v6,
        };
        message(&header, |writer| {
            writer.put(key::NODE_ID, &self.settings.node_id())?;
            writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)?;
            writer.put(key::F_SEID, &own)?;
            self.put_created(writer, session, effects)?;
            told.put(writer)
        })
        .map_err(full)
    }

    /// What was chosen for each PDR and Traffic Endpoint.
    fn put_created(
        &self,
        writer: &mut Writer<'_>,
        session: &Session,
        effects: &Effects,
    ) -> Result<(), Full> {
        let is_created = |one: &&Detection| effects.created.contains(&one.pdr.id);
        for Detection { pdr, .. } in session.pdrs.iter().filter(is_created) {
            writer.group(IeType::CREATED_PDR, |writer| {
                writer.put(key::PDR_ID, &PdrId(pdr.id))?;
                self.put_chosen(writer, pdr)
            })?;
        }
        let is_created = |one: &&Ending| effects.created_endpoints.contains(&one.endpoint.id);
        for Ending { endpoint, .. } in session.endpoints.iter().filter(is_created) {
            writer.group(IeType::CREATED_TRAFFIC_ENDPOINT, |writer| {
                writer.put(key::TRAFFIC_ENDPOINT_ID, &TrafficEndpointId(endpoint.id))?;
                let as_pdr = Pdr {
                    source_interface: endpoint.source_interface,
                    instance: endpoint.instance,
                    teid: endpoint.teid,
                    is_teid_ours: endpoint.is_teid_ours,
                    ue_v4: endpoint.ue_v4,
                    ue_v6: endpoint.ue_v6,
                    ..Pdr::empty(0)
                };
                self.put_chosen(writer, &as_pdr)
            })?;
        }
        Ok(())
    }

    /// F-TEID and UE address of a PDR, or of a Traffic Endpoint.
    fn put_chosen(&self, writer: &mut Writer<'_>, pdr: &Pdr) -> Result<(), Full> {
        let settings = &self.settings;
        let interface = settings.interface_from(pdr.source_interface, pdr.instance);
        if let Some(interface) = interface.filter(|_| pdr.is_teid_ours) {
            let f_teid = FTeid::Given {
                teid: pdr.teid,
                v4: interface.v4,
                v6: interface.v6,
            };
            writer.put(key::F_TEID, &f_teid)?;
        }
        if pdr.ue_v4.is_some() || pdr.ue_v6.is_some() {
            let address = UeIpAddress {
                v4: pdr.ue_v4.map(Allocation::Given),
                v6: pdr.ue_v6.map(Allocation::Given),
                is_destination: pdr.ue_is_destination,
                ..UeIpAddress::default()
            };
            writer.put(key::UE_IP_ADDRESS, &address)?;
        }
        Ok(())
    }

    fn fits(&self, session: &Session) -> Result<(), Fault> {
        let fits = session.image_len() <= self.store.slot_bytes();
        fits.then_some(())
            .ok_or_else(|| Cause::NO_RESOURCES_AVAILABLE.alone().into())
    }

    /// Has keys lead to a slot, but those that did before; all of them, or none.
    fn claim(&mut self, keys: &[Key], before: &[Key], slot: u32) -> Result<(), Fault> {
        let new = keys.iter().filter(|key| !before.contains(key));
        if let Some(key) = new.clone().find(|key| !self.is_mine(**key)) {
            return Err(Cause::RULE_CREATION_MODIFICATION_FAILURE
                .because_of(named_by(*key, keys))
                .into());
        }
        for (count, key) in new.clone().enumerate() {
            let Err(refused) = self.index.insert(*key, slot) else {
                continue;
            };
            new.clone()
                .take(count)
                .for_each(|key| self.index.remove(*key));
            let cause = match refused {
                Refused::Taken => Cause::RULE_CREATION_MODIFICATION_FAILURE,
                Refused::Full => Cause::NO_RESOURCES_AVAILABLE,
            };
            return Err(cause.because_of(named_by(*key, keys)).into());
        }
        for key in new {
            self.pools.iter_mut().for_each(|pool| pool.take(*key));
        }
        Ok(())
    }

    /// Has the tunnels that a session sends into lead to it; those of others stay theirs.
    pub(crate) fn note_remotes(&mut self, session: &Session, slot: u32) {
        for key in session.remotes() {
            let _ = self.index.insert(key, slot);
        }
        self.paths.enter(&paths::ends(session));
    }

    /// Gives back what a refused request has drawn: what no session has.
    fn unclaim(&mut self, keys: &[Key], before: &[Key]) {
        for key in keys.iter().filter(|key| !before.contains(key)) {
            if self.index.find(*key).is_none() {
                self.pools.iter_mut().for_each(|pool| pool.give_back(*key));
            }
        }
    }

    /// The slot of the session that a request is about, if its SMF asks.
    fn asked(&self, view: &View<&[u8]>, from: Peer) -> Option<u32> {
        let slot = self.store.slot_of(view.header().seid?)?;
        self.is_its_smf(slot, from).then_some(slot)
    }

    pub(crate) fn modify(
        &mut self,
        view: &View<&[u8]>,
        from: Peer,
        now_ns: u64,
    ) -> Result<Vec<u8>, Fault> {
        let ies = view.ies();
        let not_found = Cause::SESSION_CONTEXT_NOT_FOUND.alone();
        let slot = self.asked(view, from).ok_or(not_found)?;
        let old = self.store.session(slot).ok_or(not_found)?;
        let mut session = old.clone();
        if let Some(f_seid) = ies.get(key::F_SEID)? {
            set_cp(&mut session.head, &f_seid, from, &self.settings);
        }
        // Another SMF of the set goes on with it (5.22.3).
        if ies.has(IeType::NODE_ID) {
            let next = self.association_from(&ies, from)?;
            if self.set_of(session.head.association.into()) >> next & 1 == 0 {
                return Err(Cause::REQUEST_REJECTED.because_of(IeType::NODE_ID).into());
            }
            session.head.association = next;
        }
        sets::name(&ies, &mut session.head)?;
        let mut draft = Draft::new(
            &self.settings,
            &mut self.teids,
            &mut self.pools,
            &self.index,
            &self.applications.table,
            (now_ns, self.clock),
        );
        let effects = match change::modify(&ies, &mut session, &mut draft) {
            Ok(effects) => effects,
            Err(fault) => {
                draft.undo();
                return Err(fault);
            }
        };
        let (keys, before) = (session.keys(), old.keys());
        let told = self.load_for(session.head.association, self.store.live(), now_ns);
        let told = told.of_change();
        let answer = self.modified(view.header(), (&session, &effects), &told, now_ns);
        let checked = answer.and_then(|answer| {
            self.fits(&session)?;
            self.ceilings.check(Some(&old), &session, &self.settings)?;
            self.claim(&keys, &before, slot)?;
            Ok(answer)
        });
        if checked.is_err() {
            self.unclaim(&keys, &before);
            return checked;
        }
        self.store.replace(slot, &session);
        self.ceilings
            .note(Some(&old), Some(&session), &self.settings);
        for key in old.remotes() {
            self.index.remove_of(key, slot);
        }
        self.note_remotes(&session, slot);
        self.paths.leave(&paths::ends(&old));
        self.counters.modified += 1;
        for key in before.iter().filter(|key| !keys.contains(key)) {
            self.let_go(*key, slot);
        }
        let seid = session.head.seid;
        let ends = effects.end_markers.into_iter().map(|far| (seid, far));
        self.end_markers.extend(ends);
        let is_added = |key: &Key| matches!(key, Key::V6(_)) && !before.contains(key);
        if old.head.ue_v6.is_some() && keys.iter().any(is_added) {
            self.unadvertised.push_back(slot);
        }
        let buffers = |session: &Session| {
            let mut fars = session.fars.iter();
            fars.any(|far| far.does(ApplyAction::BUFF))
        };
        if effects.drops_held || buffers(&old) {
            let release = match effects.drops_held {
                true => Release::Dropped,
                false => Release::Free,
            };
            self.released.push_back((slot, release));
        }
        if session.has_untold() && !old.has_untold() {
            self.note_untold(session.head.seid);
        }
        self.arm(slot, now_ns);
        checked
    }

    fn modified(
        &self,
        request: &Header,
        (session, effects): (&Session, &Effects),
        told: &Told,
        now_ns: u64,
    ) -> Result<Vec<u8>, Fault> {
        let message_type = MessageType::SESSION_MODIFICATION_RESPONSE;
        let header = answer_to(request, session.head.cp_seid, message_type);
        message(&header, |writer| {
            writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)?;
            self.put_created(writer, session, effects)?;
            let group = IeType::USAGE_REPORT_MODIFICATION;
            let mut reports = effects.reports.iter();
            reports.try_for_each(|report| reports::put(writer, group, report, None, self.clock))?;
            let group = IeType::PACKET_RATE_STATUS_REPORT_MODIFICATION;
            let queried = effects.queried_qers.iter();
            let mut qers = queried.filter_map(|place| session.qers.get(*place));
            qers.try_for_each(|qer| rates::put(writer, group, qer, now_ns, self.clock))?;
            told.put(writer)
        })
        .map_err(full)
    }

    pub(crate) fn delete(
        &mut self,
        view: &View<&[u8]>,
        from: Peer,
        now_ns: u64,
    ) -> Result<Vec<u8>, Fault> {
        let not_found = Cause::SESSION_CONTEXT_NOT_FOUND.alone();
        let slot = self.asked(view, from).ok_or(not_found)?;
        let mut session = self.store.session(slot).ok_or(not_found)?;
        let message_type = MessageType::SESSION_DELETION_RESPONSE;
        let header = answer_to(view.header(), session.head.cp_seid, message_type);
        let trigger = UsageReportTrigger::TERMR;
        let association = session.head.association;
        let told = self.load_for(association, self.store.live() - 1, now_ns);
        let answer = message(&header, |writer| {
            writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)?;
            for urr in &mut session.urrs {
                for report in urr.report(trigger, now_ns) {
                    reports::put(
                        writer,
                        IeType::USAGE_REPORT_DELETION,
                        &report,
                        None,
                        self.clock,
                    )?;
                }
            }
            let group = IeType::PACKET_RATE_STATUS_REPORT;
            let mut qers = session.qers.iter().filter(|qer| qer.tells_rate);
            qers.try_for_each(|qer| rates::put(writer, group, qer, now_ns, self.clock))?;
            monitoring::put_released(writer, &session.monitors, now_ns, self.clock)?;
            told.put(writer)
        })
        .map_err(full)?;
        self.counters.deleted += 1;
        self.end_session(slot, now_ns);
        Ok(answer)
    }

    /// Ends a session without asking anybody.
    pub(crate) fn end_session(&mut self, slot: u32, now_ns: u64) {
        if let Some(session) = self.store.session(slot) {
            let keys = session.keys().into_iter();
            keys.for_each(|key| self.let_go(key, slot));
            for key in session.remotes() {
                self.index.remove_of(key, slot);
            }
            self.paths.leave(&paths::ends(&session));
            self.tally.leave(&session);
            self.ceilings.note(Some(&session), None, &self.settings);
            if session.head.is_ethernet {
                self.stations.leave(session.head.seid);
            }
        }
        self.store.remove(slot);
        self.timers.set(slot, None, now_ns);
        self.released.push_back((slot, Release::Ended));
    }

    /// Ends all sessions of an association at once.
    #[cfg(test)]
    pub(crate) fn end_sessions(&mut self, association: usize, now_ns: u64) {
        let slots: Vec<u32> = self.store.slots().collect();
        for slot in slots {
            if usize::from(self.store.head(slot).association) == association {
                self.counters.deleted += 1;
                self.end_session(slot, now_ns);
            }
        }
    }
}

/// The IE that names a key, of all of a session.
fn named_by(key: Key, all: &[Key]) -> IeType {
    // The network in which its UE has a prefix is that prefix, and no network behind the UE.
    let is_prefix = |bits: u8, net: u64| {
        let is_in = |own: u64| (own ^ net).checked_shr(64 - u32::from(bits)) == Some(0);
        all.iter()
            .any(|one| matches!(one, Key::V6(own) if is_in(*own)))
    };
    match key {
        Key::Route(true, bits, net) if is_prefix(bits, net) => IeType::UE_IP_ADDRESS,
        Key::Teid(_) => IeType::F_TEID,
        Key::V4(_) | Key::V6(_) => IeType::UE_IP_ADDRESS,
        Key::Route(false, ..) => IeType::FRAMED_ROUTE,
        Key::Route(true, ..) => IeType::FRAMED_IPV6_ROUTE,
        Key::Mac(_) => IeType::MAC_ADDRESS,
        Key::Remote(..) => IeType::OUTER_HEADER_CREATION,
    }
}

/// Notes whose a session is: of the addresses of its SMF those that N4 reaches, or where the
/// request came from if it reaches none.
fn set_cp(head: &mut Head, f_seid: &FSeid, from: Peer, settings: &Settings) {
    head.cp_seid = f_seid.seid;
    let reached = settings.reached(f_seid.v4, f_seid.v6);
    (head.cp_v4, head.cp_v6) = reached.unwrap_or(match from.address {
        IpAddr::V4(address) => (Some(address), None),
        IpAddr::V6(address) => (None, Some(address)),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::public_failures::{SESSIONS, Smf, nothing};

    /// An SMF of both versions is asked where N4 reaches it, which is by one of them; one that
    /// names none of these, where it asked from.
    #[test]
    fn a_session_is_reported_to_an_address_that_n4_reaches() {
        let [v4, v6] = ["10.4.0.2", "fd00:4::2"].map(|text| text.parse::<IpAddr>().unwrap());
        let (IpAddr::V4(v4), IpAddr::V6(v6)) = (v4, v6) else {
            return;
        };
        let of = |address: &str| {
            let mut settings = Smf::new().upf.settings.clone();
            (settings.n4_v4, settings.n4_v6) = match address.parse().unwrap() {
                IpAddr::V4(address) => (Some(address), None),
                IpAddr::V6(address) => (None, Some(address)),
            };
            settings
        };
        for (n4, named, from, wanted) in [
            (
                "fd00:4::1",
                (Some(v4), Some(v6)),
                IpAddr::V6(v6),
                (None, Some(v6)),
            ),
            (
                "10.4.0.1",
                (Some(v4), Some(v6)),
                IpAddr::V4(v4),
                (Some(v4), None),
            ),
            (
                "fd00:4::1",
                (Some(v4), None),
                IpAddr::V6(v6),
                (None, Some(v6)),
            ),
            ("10.4.0.1", (None, None), IpAddr::V4(v4), (Some(v4), None)),
        ] {
            let mut head = Head::empty();
            let f_seid = FSeid {
                seid: 7,
                v4: named.0,
                v6: named.1,
            };
            let from = Peer {
                address: from,
                port: 8805,
            };
            set_cp(&mut head, &f_seid, from, &of(n4));
            assert_eq!((head.cp_v4, head.cp_v6), wanted, "{n4} {named:?}");
        }
    }

    /// Sessions with more keys than are reckoned for each take those that others leave free; one
    /// for which there are too few is refused, and leaves nothing.
    #[test]
    fn a_session_for_whose_keys_there_is_no_room_is_refused_and_leaves_nothing() {
        let mut smf = Smf::new();
        let with_routes = |smf: &mut Smf, net: u8, count: u8| {
            smf.establish_at(
                |writer| {
                    (0..count).try_for_each(|host| {
                        let route = format!("192.0.{net}.{host}/32");
                        writer.put(key::FRAMED_ROUTE, &route.as_bytes())
                    })
                },
                nothing,
            )
        };
        let room = u32::max(SESSIONS * crate::ranges::KEYS_PER_SESSION, 64);
        assert_eq!(room, 64);
        assert_eq!(with_routes(&mut smf, 1, 40).0, Cause::REQUEST_ACCEPTED);
        let (live, keys) = (smf.upf.session_count(), smf.upf.index.len());
        let offending = Some(IeType::FRAMED_ROUTE);
        let full = (Cause::NO_RESOURCES_AVAILABLE, offending, 0);
        assert_eq!(with_routes(&mut smf, 2, 40), full);
        assert_eq!((smf.upf.session_count(), smf.upf.index.len()), (live, keys));
        assert_eq!(smf.upf.pools[0].fill()[0], Some((1, 254)));
        assert_eq!(with_routes(&mut smf, 2, 20).0, Cause::REQUEST_ACCEPTED);
    }
}
