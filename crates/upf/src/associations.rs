//! Messages about associations: set-up, update, release; and who may say what.
//!
//! On N4. A node is known by its Node ID and heard at the address from which it set up its
//! association: who says that it is another one is refused, and changes nothing. Specification: TS
//! 29.244 6.2.6 to 6.2.8, 7.4.4.

use std::net::IpAddr;

use catena_wire::pfcp::value::Time;
use catena_wire::pfcp::value::address::NodeId;
use catena_wire::pfcp::value::flags::{
    AssociationSetupResponseFlags, CpFunctionFeatures, UpFunctionFeatures,
};
use catena_wire::pfcp::{Cause, Group, IeType, MessageType, View, key};

use crate::association::{ASSOCIATION_COUNT, Association, name_of};
use crate::model::Fault;
use crate::node::{self, answer_to, full, message};
use crate::path_qos::control::{self, PathControls};
use crate::release;
use crate::sets;
use crate::sweep::{Fate, Sweep};
use crate::transactions::Peer;
use crate::upf::Upf;

fn none() -> Fault {
    Cause::NO_ESTABLISHED_PFCP_ASSOCIATION.alone().into()
}

/// Whether a node that has an association may set up another one from this address: where it was,
/// where its name says that it is, or elsewhere if it is known by a name and has started again.
fn may_come_from(known: &Association, node: &NodeId<'_>, recovery: u32, from: Peer) -> bool {
    let is_there = match node {
        NodeId::V4(address) => from.address == *address,
        NodeId::V6(address) => from.address == *address,
        NodeId::Fqdn(_) => recovery > known.recovery,
    };
    is_there || known.peer() == Some(from.address)
}

impl Upf {
    /// What this UPF can do.
    pub(crate) fn features(&self) -> UpFunctionFeatures {
        // Messages of a bundle may be of several shards, and so may packets to a network; and no
        // shard knows when all have reported all.
        let of_one = match self.settings.shard.1 {
            1 => {
                UpFunctionFeatures::BUNDL
                    | UpFunctionFeatures::FRRT
                    | UpFunctionFeatures::GPQM
                    | UpFunctionFeatures::EPFAR
            }
            _ => UpFunctionFeatures::NONE,
        };
        let of_groups = match self.settings.groups.is_empty() || self.settings.shard.1 > 1 {
            true => UpFunctionFeatures::NONE,
            false => UpFunctionFeatures::GCOM,
        };
        let of_policies = match self.settings.policies.is_empty() {
            true => UpFunctionFeatures::NONE,
            false => UpFunctionFeatures::TRST,
        };
        node::features() | of_one | of_groups | of_policies
    }

    /// The number of the association with the node that a request names.
    pub(crate) fn association_of(&self, ies: &Group<'_>) -> Result<u8, Fault> {
        let name = name_of(&ies.require(key::NODE_ID)?);
        let number = (0..ASSOCIATION_COUNT).find(|number| {
            let one = self.store.association(*number);
            one.is_some() && Some(one.name) == name
        });
        let number = number.and_then(|number| u8::try_from(number).ok());
        number.ok_or_else(none)
    }

    /// As [`Upf::association_of`], if the request comes from that node, by any of its addresses.
    pub(crate) fn association_from(&self, ies: &Group<'_>, from: Peer) -> Result<u8, Fault> {
        let number = self.association_of(ies)?;
        let one = self.store.association(number.into());
        let is_its = one.speaks_from(from.address);
        is_its.then_some(number).ok_or_else(none)
    }

    /// Whether who sends a request about a session is its SMF, or another one of its set.
    pub(crate) fn is_its_smf(&self, slot: u32, from: Peer) -> bool {
        let head = self.store.head(slot);
        let cp = [head.cp_v4.map(IpAddr::V4), head.cp_v6.map(IpAddr::V6)];
        cp.contains(&Some(from.address)) || self.is_of_set(head.association, from.address)
    }

    /// Whether the sender of a request about the node has an association: that of the node that it
    /// names, or any if it names none.
    pub(crate) fn is_associated(&self, ies: &Group<'_>, from: Peer) -> Result<(), Fault> {
        if ies.has(IeType::NODE_ID) {
            return self.association_from(ies, from).map(drop);
        }
        let its = (0..ASSOCIATION_COUNT).any(|number| {
            let one = self.store.association(number);
            one.is_some() && one.speaks_from(from.address)
        });
        its.then_some(()).ok_or_else(none)
    }

    /// Writes an association, and what its SMF wants to know of paths; nothing of one that ends.
    pub(crate) fn set_association(
        &mut self,
        number: usize,
        association: &Association,
        paths: &PathControls,
    ) {
        if !association.is_some() {
            self.forget_parting(number);
        }
        self.store.set_association(number, association);
        self.store.set_path_controls(number, paths);
        self.path_qos.set(u8::try_from(number).unwrap_or(0), paths);
    }

    pub(crate) fn set_up(
        &mut self,
        view: &View<&[u8]>,
        from: Peer,
        now_ns: u64,
    ) -> Result<Vec<u8>, Fault> {
        let ies = view.ies();
        let node = ies.require(key::NODE_ID)?;
        let name = name_of(&node);
        let no_room = |ie_type| Cause::NO_RESOURCES_AVAILABLE.because_of(ie_type);
        let name = name.ok_or(no_room(IeType::NODE_ID))?;
        let recovery = ies.require(key::RECOVERY_TIME_STAMP)?;
        let features = ies.get(key::CP_FUNCTION_FEATURES)?;
        let known = self.association_of(&ies).ok().map(usize::from);
        let retains = ies.has(IeType::PFCP_SESSION_RETENTION_INFORMATION);
        if let Some(known) = known {
            let known = self.store.association(known);
            if !may_come_from(&known, &node, recovery.0, from) {
                return Err(Cause::REQUEST_REJECTED.because_of(IeType::NODE_ID).into());
            }
        }
        let free = || (0..ASSOCIATION_COUNT).find(|at| !self.store.association(*at).is_some());
        let number = known.or_else(free).ok_or(no_room(IeType::NODE_ID))?;
        let mut association = Association {
            name,
            features: features.unwrap_or(CpFunctionFeatures::NONE).bits(),
            recovery: recovery.0,
            ..Association::none()
        };
        sets::note(&ies, &mut association)?;
        association.set_peer(from.address);
        let paths = control::read(&ies, &self.settings)?.unwrap_or_default();
        // Sessions of the association that this one replaces end, unless asked for (6.2.6.2.2).
        // Those of an SMF that has started again are not lost to others of its set (TS 23.527, 4).
        if let Some(known) = known.filter(|_| !retains) {
            let fate = match self.store.association(known).recovery == recovery.0 {
                true => Fate::End,
                false => self.fate_of(known),
            };
            let sweep = Sweep::of(number, fate, association);
            self.planned = Some(Sweep { paths, ..sweep });
        } else {
            self.forget_parting(number);
            self.set_association(number, &association, &paths);
        }
        self.heartbeats[number] = now_ns.saturating_add(self.settings.heartbeat_ns);
        let header = answer_to(view.header(), MessageType::ASSOCIATION_SETUP_RESPONSE);
        message(&header, |writer| {
            writer.put(key::NODE_ID, &self.settings.node_id())?;
            writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)?;
            let time = Time(self.store.recovery());
            writer.put(key::RECOVERY_TIME_STAMP, &time)?;
            writer.put(key::UP_FUNCTION_FEATURES, &self.features())?;
            if known.is_some() && retains {
                writer.put(key::PFCPASRSP_FLAGS, &AssociationSetupResponseFlags::PSREI)?;
            }
            Ok(())
        })
        .map_err(full)
    }

    pub(crate) fn update(&mut self, view: &View<&[u8]>, from: Peer) -> Result<Vec<u8>, Fault> {
        let ies = view.ies();
        let number = usize::from(self.association_from(&ies, from)?);
        let updated = |mut association: Association| {
            if let Some(features) = ies.get(key::CP_FUNCTION_FEATURES)? {
                association.features = features.bits();
            }
            sets::note(&ies, &mut association)?;
            Ok::<_, Fault>(association)
        };
        let association = updated(self.store.association(number))?;
        let paths = control::read(&ies, &self.settings)?;
        let is_prepared = release::is_prepared(&ies)?;
        let kept = self.store.path_controls(number);
        self.set_association(number, &association, &paths.unwrap_or(kept));
        // One that is to take its place, too: else the update would be lost with it.
        for sweep in &mut self.sweeps {
            let of_it = sweep.then.as_mut().filter(|(next, _)| *next == number);
            if let Some((_, association)) = of_it.filter(|(_, one)| one.is_some()) {
                *association = updated(*association)?;
                sweep.paths = paths.unwrap_or(sweep.paths);
            }
        }
        if is_prepared {
            self.prepare_parting(u8::try_from(number).unwrap_or(u8::MAX));
        }
        let header = answer_to(view.header(), MessageType::ASSOCIATION_UPDATE_RESPONSE);
        self.accepted(&header)
    }

    pub(crate) fn release(&mut self, view: &View<&[u8]>, from: Peer) -> Result<Vec<u8>, Fault> {
        let number = usize::from(self.association_from(&view.ies(), from)?);
        self.planned = Some(Sweep::of(number, Fate::End, Association::none()));
        let header = answer_to(view.header(), MessageType::ASSOCIATION_RELEASE_RESPONSE);
        self.accepted(&header)
    }
}

#[cfg(test)]
pub(crate) mod tests;
