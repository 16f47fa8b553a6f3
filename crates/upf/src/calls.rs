//! Associations that the UPF sets up itself, with the SMFs that its operator names.
//!
//! On N4: an SMF without an association is asked for one, again and again, at an interval.
//! Specification: TS 29.244 6.2.6.3, 7.4.4.1.

use std::net::IpAddr;

use catena_wire::pfcp::value::Time;
use catena_wire::pfcp::value::flags::CpFunctionFeatures;
use catena_wire::pfcp::{Cause, MessageType, View, key};

use crate::association::{ASSOCIATION_COUNT, Association, name_of};
use crate::model::Fault;
use crate::path_qos::control;
use crate::sets;
use crate::transactions::{Peer, Subject};
use crate::upf::Upf;

/// After so long without an association its SMF is asked again.
const AGAIN_NS: u64 = 10_000_000_000;

impl Upf {
    pub(crate) fn has_association_at(&self, address: IpAddr) -> bool {
        (0..ASSOCIATION_COUNT).any(|number| {
            let one = self.store.association(number);
            one.is_some() && one.speaks_from(address)
        })
    }

    /// Asks SMFs without an association that are due; when to do so again.
    pub(crate) fn call(&mut self, now_ns: u64) -> Option<u64> {
        if self.settings.shard.0 > 0 {
            return None;
        }
        let mut next_ns = None;
        for at in 0..self.calls.len() {
            let (address, due_ns) = self.calls[at];
            if due_ns <= now_ns {
                self.calls[at].1 = now_ns.saturating_add(AGAIN_NS);
                let is_known =
                    self.has_association_at(address) || self.transactions.is_calling(address);
                if !is_known && self.transactions.has_room() {
                    self.ask_for_association(address, now_ns);
                }
            }
            let due_ns = self.calls[at].1;
            next_ns = Some(next_ns.map_or(due_ns, |next_ns: u64| next_ns.min(due_ns)));
        }
        next_ns
    }

    fn ask_for_association(&mut self, address: IpAddr, now_ns: u64) {
        let (name, own) = (self.settings.node_name.clone(), self.settings.node_address);
        let features = self.features();
        let time = Time(self.store.recovery());
        let kind = MessageType::ASSOCIATION_SETUP_REQUEST;
        let is_sent = self.request(address, kind, None, Subject::Call, now_ns, |writer| {
            writer.put(key::NODE_ID, &crate::settings::node_id_of(&name, own))?;
            writer.put(key::RECOVERY_TIME_STAMP, &time)?;
            writer.put(key::UP_FUNCTION_FEATURES, &features)
        });
        self.counters.unsent += u64::from(!is_sent);
    }

    /// An SMF has answered: one that accepts has an association from now on.
    pub(crate) fn called(
        &mut self,
        view: &View<&[u8]>,
        from: Peer,
        now_ns: u64,
    ) -> Result<(), Fault> {
        let ies = view.ies();
        if ies.require(key::CAUSE)? != Cause::REQUEST_ACCEPTED {
            return Ok(());
        }
        let no_room = Cause::NO_RESOURCES_AVAILABLE.alone();
        let name = name_of(&ies.require(key::NODE_ID)?).ok_or(no_room)?;
        let recovery = ies.require(key::RECOVERY_TIME_STAMP)?;
        let features = ies.get(key::CP_FUNCTION_FEATURES)?;
        let free = (0..ASSOCIATION_COUNT).find(|at| !self.store.association(*at).is_some());
        // One that it has set up itself meanwhile stays.
        if self.association_of(&ies).is_ok() {
            return Ok(());
        }
        let number = free.ok_or(no_room)?;
        let mut association = Association {
            name,
            features: features.unwrap_or(CpFunctionFeatures::NONE).bits(),
            recovery: recovery.0,
            ..Association::none()
        };
        sets::note(&ies, &mut association)?;
        association.set_peer(from.address);
        let paths = control::read(&ies, &self.settings)?.unwrap_or_default();
        self.set_association(number, &association, &paths);
        self.heartbeats[number] = now_ns.saturating_add(self.settings.heartbeat_ns);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
