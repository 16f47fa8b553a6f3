//! SMFs of a set: any of them may go on with a session of another one.
//!
//! On N4. An association names the set of its SMF and addresses of others in it (SSET), or each of
//! them has an association of its own (MPAS). A request that nobody answers, or that an SMF sends
//! elsewhere, goes to the next address, each of which it sees once. Specification: TS 29.244 5.22,
//! 7.4.6, 7.4.7; TS 23.527 4.
//!
//! Limits: [`HOPS_MAX`] addresses for a request, [`CHANGES_MAX`] changes with [`NAMES_MAX`] names
//! in a request about sets; a session is in two sets at most (FQ-CSID); `association` has those of
//! what is known of a set.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_wire::pfcp::value::address::{FqCsid, FqCsidNode};
use catena_wire::pfcp::{Cause, Group, IeType, MessageType, View, key};

use crate::application::number;
use crate::association::{ASSOCIATION_COUNT, Association};
use crate::model::Fault;
use crate::node::answer_to;
use crate::rules::Head;
use crate::sweep::{Fate, Sweep, Which};
use crate::transactions::{Datagram, Ended, Peer};
use crate::upf::Upf;

/// Most addresses to which a request goes, one after the other.
pub const HOPS_MAX: usize = 4;
/// Most changes that a Session Set Modification Request asks for.
pub const CHANGES_MAX: usize = 8;
/// Most FQ-CSIDs, Group IDs and addresses in each of them.
pub const NAMES_MAX: usize = 256;

/// What a session is known by of an FQ-CSID: a key for each of its sets.
fn csids<'a>(one: &FqCsid<'a>) -> impl Iterator<Item = u64> + use<'a> {
    let mut node = match one.node {
        FqCsidNode::V4(address) => address.octets().to_vec(),
        FqCsidNode::V6(address) => address.octets().to_vec(),
        FqCsidNode::Operator(operator) => operator.to_be_bytes().to_vec(),
    };
    let len = node.len();
    one.csids.chunks_exact(2).map(move |csid| {
        node.truncate(len);
        node.extend_from_slice(csid);
        number(&node)
    })
}

/// Notes in which sets a session is, as a request says.
pub(crate) fn name(ies: &Group<'_>, head: &mut Head) -> Result<(), Fault> {
    let all: Vec<FqCsid<'_>> = ies.each(key::FQ_CSID).collect::<Result<_, _>>()?;
    if !all.is_empty() {
        let mut keys = all.iter().flat_map(csids);
        head.csids = std::array::from_fn(|_| keys.next().unwrap_or(0));
        if keys.next().is_some() {
            let ie_type = IeType::FQ_CSID;
            return Err(Cause::NO_RESOURCES_AVAILABLE.because_of(ie_type).into());
        }
    }
    if let Some(group) = ies.get(key::GROUP_ID)? {
        head.group = number(group);
    }
    Ok(())
}

/// Notes the set and the other addresses of an SMF; an update that names none leaves them.
pub(crate) fn note(ies: &Group<'_>, association: &mut Association) -> Result<(), Fault> {
    let ie_type = IeType::ALTERNATIVE_SMF_IP_ADDRESS;
    if let Some(set) = ies.get(key::SMF_SET_ID)? {
        association.set = Default::default();
        let mut octets = set.0.as_bytes().iter();
        if !octets.all(|octet| association.set.push(*octet)) {
            return Err(Cause::NO_RESOURCES_AVAILABLE
                .because_of(IeType::SMF_SET_ID)
                .into());
        }
    }
    if !ies.has(ie_type) {
        return Ok(());
    }
    (association.others_v4, association.others_v6) = Default::default();
    let mut all: Vec<_> = ies
        .each(key::ALTERNATIVE_SMF_IP_ADDRESS)
        .collect::<Result<_, _>>()?;
    // Stable: those that are preferred come first.
    all.sort_by_key(|one| !one.is_preferred);
    for one in all {
        let v4 = one.v4.map(|address| address.to_bits());
        let v6 = one.v6.map(|address| address.octets());
        let has_room = v4.is_none_or(|v4| association.others_v4.push(v4))
            && v6.is_none_or(|v6| association.others_v6.push(v6));
        if !has_room {
            return Err(Cause::NO_RESOURCES_AVAILABLE.because_of(ie_type).into());
        }
    }
    Ok(())
}

impl Upf {
    /// Associations of the set of this one, itself too: one bit each.
    pub(crate) fn set_of(&self, association: usize) -> u64 {
        let own = self.store.association(association);
        let is_in = |number: &usize| {
            let one = self.store.association(*number);
            let is_of_set = one.is_some() && own.is_of_set_of(&one);
            is_of_set || *number == association
        };
        let all = (0..ASSOCIATION_COUNT).filter(is_in);
        all.fold(0, |all, number| all | 1 << number)
    }

    /// Whether an address is of an SMF that may go on with sessions of an association.
    pub(crate) fn is_of_set(&self, association: u8, address: IpAddr) -> bool {
        let all = self.set_of(association.into());
        (0..ASSOCIATION_COUNT).any(|number| {
            all >> number & 1 != 0 && self.store.association(number).speaks_from(address)
        })
    }

    /// The association of this set whose SMF is at an address.
    pub(crate) fn association_at(
        &self,
        all: u64,
        v4: Option<Ipv4Addr>,
        v6: Option<Ipv6Addr>,
    ) -> Option<u8> {
        let both = [v4.map(IpAddr::V4), v6.map(IpAddr::V6)];
        let is_it = |number: &usize| {
            let peer = self.store.association(*number).peer();
            all >> number & 1 != 0 && peer.is_some() && both.contains(&peer)
        };
        let number = (0..ASSOCIATION_COUNT).find(is_it);
        number.and_then(|number| u8::try_from(number).ok())
    }

    /// What becomes of the sessions of an SMF that has lost them: another one of its set that has
    /// an association, and is not losing it, takes them.
    pub(crate) fn fate_of(&self, association: usize) -> Fate {
        let ending = self.sweeps.iter().filter_map(|sweep| sweep.then);
        let ending = ending.fold(0, |all, (number, _)| all | 1 << number);
        let others = self.set_of(association) & !(1 << association) & !ending;
        let number = others.trailing_zeros() as usize;
        let next = (others != 0).then(|| self.store.association(number));
        match next {
            Some(next) => Fate::Move(next.peer_v4, next.peer_v6, u8::try_from(number).ok()),
            None => Fate::End,
        }
    }

    /// Session Set Deletion Request: sessions of the SMF's set with any of its FQ-CSIDs end.
    pub(crate) fn delete_set(&mut self, view: &View<&[u8]>, from: Peer) -> Result<Vec<u8>, Fault> {
        let ies = view.ies();
        let number = self.association_from(&ies, from)?;
        let which = self.named(&ies, number)?;
        self.planned = Some(Sweep::that(vec![(which, Fate::End)]));
        self.accepted(&answer_to(
            view.header(),
            MessageType::SESSION_SET_DELETION_RESPONSE,
        ))
    }

    /// Session Set Modification Request: other SMFs of the set go on with sessions.
    pub(crate) fn modify_set(&mut self, view: &View<&[u8]>, from: Peer) -> Result<Vec<u8>, Fault> {
        let ies = view.ies();
        let number = self.association_from(&ies, from)?;
        let mut wants = Vec::new();
        for info in ies.groups(IeType::PFCP_SESSION_CHANGE_INFO) {
            let to = info.require(key::ALTERNATIVE_SMF_IP_ADDRESS)?;
            let Some((v4, v6)) = self.settings.reached(to.v4, to.v6) else {
                let ie_type = IeType::ALTERNATIVE_SMF_IP_ADDRESS;
                return Err(Cause::REQUEST_REJECTED.because_of(ie_type).into());
            };
            let which = self.named(&info, number)?;
            let next = self.association_at(which.associations, v4, v6);
            wants.push((which, Fate::Move(v4, v6, next)));
            if wants.len() > CHANGES_MAX {
                let ie_type = IeType::PFCP_SESSION_CHANGE_INFO;
                return Err(Cause::NO_RESOURCES_AVAILABLE.because_of(ie_type).into());
            }
        }
        self.planned = Some(Sweep::that(wants));
        self.accepted(&answer_to(
            view.header(),
            MessageType::SESSION_SET_MODIFICATION_RESPONSE,
        ))
    }

    /// Sessions of an SMF's set that a request names: some must be named.
    fn named(&self, group: &Group<'_>, association: u8) -> Result<Which, Fault> {
        let csid_list: Vec<FqCsid<'_>> = group.each(key::FQ_CSID).collect::<Result<_, _>>()?;
        let groups: Vec<&[u8]> = group.each(key::GROUP_ID).collect::<Result<_, _>>()?;
        let cps: Vec<_> = group.each(key::CP_IP_ADDRESS).collect::<Result<_, _>>()?;
        let addresses = cps
            .iter()
            .flat_map(|one| [one.v4.map(IpAddr::V4), one.v6.map(IpAddr::V6)]);
        let which = Which {
            associations: self.set_of(association.into()),
            csids: csid_list.iter().flat_map(csids).collect(),
            groups: groups.into_iter().map(number).collect(),
            addresses: addresses.flatten().collect(),
        };
        match which.len() {
            0 => Err(Cause::CONDITIONAL_IE_MISSING
                .because_of(IeType::FQ_CSID)
                .into()),
            1..=NAMES_MAX => Ok(which),
            _ => Err(Cause::NO_RESOURCES_AVAILABLE
                .because_of(IeType::FQ_CSID)
                .into()),
        }
    }

    /// A request about a session was not answered by an SMF: another one of its set gets it.
    pub(crate) fn ask_another(&mut self, ended: Ended, seid: u64, now_ns: u64) -> bool {
        let Some(slot) = self.store.slot_of(seid) else {
            return false;
        };
        let association = self.store.head(slot).association;
        self.ask_another_of(ended, association, now_ns)
    }

    /// As [`Upf::ask_another`], of a request about a session of this association.
    pub(crate) fn ask_another_of(&mut self, ended: Ended, association: u8, now_ns: u64) -> bool {
        let own = self.store.association(association.into());
        let all = self.set_of(association.into());
        let others = (0..ASSOCIATION_COUNT).filter(|number| all >> number & 1 != 0);
        let others = others.filter_map(|number| self.store.association(number).peer());
        let known: Vec<IpAddr> = own.others().chain(others).collect();
        let next = known.into_iter().find(|to| self.may_hear(&ended, *to));
        next.is_some_and(|to| self.send_on(ended, to, now_ns))
    }

    /// An SMF sends a request elsewhere: the other one is the session's from now on, unless the
    /// request was there before.
    pub(crate) fn redirect(
        &mut self,
        ended: Ended,
        seid: u64,
        ies: &Group<'_>,
        now_ns: u64,
    ) -> bool {
        let to = self.redirected_to(&ended, ies);
        let (Some(to), Some(slot)) = (to, self.store.slot_of(seid)) else {
            return false;
        };
        let mut head = self.store.head(slot);
        (head.cp_v4, head.cp_v6) = match to {
            IpAddr::V4(address) => (Some(address), None),
            IpAddr::V6(address) => (None, Some(address)),
        };
        let all = self.set_of(head.association.into());
        let next = self.association_at(all, head.cp_v4, head.cp_v6);
        head.association = next.unwrap_or(head.association);
        if let Some(mut image) = self.store.image(slot) {
            image.set_head(&head);
        }
        self.send_on(ended, to, now_ns)
    }

    /// Where an SMF sends a request that was not there before.
    fn redirected_to(&self, ended: &Ended, ies: &Group<'_>) -> Option<IpAddr> {
        let to = ies.get(key::ALTERNATIVE_SMF_IP_ADDRESS).ok().flatten()?;
        let both = [to.v4.map(IpAddr::V4), to.v6.map(IpAddr::V6)];
        let mut both = both.into_iter().flatten();
        both.find(|to| self.may_hear(ended, *to))
    }

    /// As [`Upf::redirect`], of a request about a session that is no longer there.
    pub(crate) fn redirect_last(&mut self, ended: Ended, ies: &Group<'_>, now_ns: u64) -> bool {
        let to = self.redirected_to(&ended, ies);
        to.is_some_and(|to| self.send_on(ended, to, now_ns))
    }

    fn may_hear(&self, ended: &Ended, to: IpAddr) -> bool {
        let is_new = ended.datagram.to.address != to && !ended.tried.contains(&to);
        is_new && ended.tried.len() + 1 < HOPS_MAX && self.settings.reaches(to)
    }

    /// Sends a request to another SMF; false if there is no room.
    fn send_on(&mut self, ended: Ended, to: IpAddr, now_ns: u64) -> bool {
        if !self.transactions.has_room() {
            return false;
        }
        let Ended {
            subject,
            mut datagram,
            mut tried,
        } = ended;
        tried.push(datagram.to.address);
        datagram.to.address = to;
        let sequence = self.transactions.next_sequence();
        // Behind the SEID, if there is one (7.2.2).
        let at = if datagram.bytes[0] & 1 != 0 { 12 } else { 4 };
        datagram.bytes[at..at + 3].copy_from_slice(&sequence.to_be_bytes()[1..]);
        let again = Datagram {
            to: datagram.to,
            bytes: datagram.bytes.clone(),
        };
        self.transactions
            .sent_on(sequence, datagram, subject, tried, now_ns);
        self.counters.rerouted += 1;
        self.send(again);
        true
    }
}

#[cfg(test)]
mod tests;
