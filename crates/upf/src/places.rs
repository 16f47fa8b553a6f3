//! Which interface, network instance or policy a place is: rules have places, and an operator who
//! changes the settings of a running UPF may order them otherwise.
//!
//! Before any packet, where memory is taken over: names are kept with sessions, and sessions whose
//! names have other places now get these. Limits: as many names as a place can say.

use crate::application::number;
use crate::group::SWITCH;
use crate::model::Session;
use crate::path_qos::control::PathControls;
use crate::rules::{Far, NONE};
use crate::settings::Settings;
use crate::stored;

/// Most interfaces.
pub(crate) const INTERFACE_COUNT_MAX: usize = 64;
/// Most network instances: a place has an octet, of which two values say something else.
pub(crate) const INSTANCE_COUNT_MAX: usize = SWITCH as usize;
/// Most forwarding policies.
pub(crate) const POLICY_COUNT_MAX: usize = 64;

stored! {
    /// Names by their places, as [`number`] has them; 0 for none.
    pub struct Places {
        interfaces: [u64; INTERFACE_COUNT_MAX],
        instances: [u64; INSTANCE_COUNT_MAX],
        policies: [u64; POLICY_COUNT_MAX],
        /// Interfaces by which the packets of these policies leave, by place.
        exits: [u8; POLICY_COUNT_MAX],
    }
}

fn listed<'a, const N: usize>(names: impl Iterator<Item = &'a [u8]>) -> [u64; N] {
    let mut numbers = names.map(number);
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

/// Where what was at a place of `from` is in `to`; [`NONE`] if it is there no more. A place beyond
/// all, as that of a 5G VN group's switch, says so itself.
fn moved(from: &[u64], to: &[u64], place: u8) -> u8 {
    let Some(name) = from.get(usize::from(place)) else {
        return place;
    };
    let found = to.iter().position(|one| *name != 0 && one == name);
    found.and_then(|at| u8::try_from(at).ok()).unwrap_or(NONE)
}

impl Places {
    /// Those that these settings have.
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            interfaces: listed(settings.interfaces.iter().map(|one| one.name.as_bytes())),
            instances: listed(settings.instances.iter().map(Vec::as_slice)),
            policies: listed(settings.policies.iter().map(|one| one.name.as_bytes())),
            exits: {
                let mut exits = settings.policies.iter().map(|one| one.interface);
                std::array::from_fn(|_| exits.next().unwrap_or(NONE))
            },
        }
    }

    /// Whether these network instances have the same places in both.
    pub(crate) fn agrees_on(&self, other: &Self, instances: &[u8]) -> bool {
        let at = |places: &Self, place: u8| places.instances.get(usize::from(place)).copied();
        let mut all = instances.iter();
        all.all(|place| at(self, *place) == at(other, *place))
    }

    fn interface(&self, to: &Self, place: &mut u8) {
        *place = moved(&self.interfaces, &to.interfaces, *place);
    }

    fn instance(&self, to: &Self, place: &mut u8) {
        *place = moved(&self.instances, &to.instances, *place);
    }

    /// A policy, and the interface that it says: none once it is gone.
    fn exit(&self, to: &Self, (policy, interface): (&mut u8, &mut u8)) {
        self.interface(to, interface);
        if *policy == NONE {
            return;
        }
        *policy = moved(&self.policies, &to.policies, *policy);
        *interface = to.exits.get(usize::from(*policy)).copied().unwrap_or(NONE);
    }

    /// A FAR that has these places gets those of `to`.
    pub(crate) fn move_far(&self, to: &Self, far: &mut Far) {
        self.instance(to, &mut far.instance);
        self.exit(to, (&mut far.policy, &mut far.interface));
    }

    /// A session that has these places gets those of `to`.
    pub(crate) fn move_session(&self, to: &Self, session: &mut Session) {
        for detection in &mut session.pdrs {
            self.instance(to, &mut detection.pdr.instance);
        }
        for far in &mut session.fars {
            self.move_far(to, far);
        }
        for copied in &mut session.copies {
            self.exit(to, (&mut copied.policy, &mut copied.interface));
        }
        for ending in &mut session.endpoints {
            self.instance(to, &mut ending.endpoint.instance);
        }
    }

    /// Peers whose delays are followed, and that have these places, get those of `to`.
    pub(crate) fn move_controls(&self, to: &Self, controls: &PathControls) -> PathControls {
        let mut moved = PathControls::default();
        for control in controls.as_slice() {
            let mut control = *control;
            let peers = control.peers;
            control.peers = Default::default();
            for peer in peers.as_slice() {
                let mut peer = *peer;
                self.interface(to, &mut peer.interface);
                control.peers.push(peer);
            }
            moved.push(control);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_where_it_is_now_and_what_is_gone_is_none() {
        let numbers = |names: [&[u8]; 3]| names.map(number);
        let from = numbers([b"n3", b"n6", b"n9"]);
        let to = numbers([b"n9", b"n3", b"new"]);
        assert_eq!(
            [0, 1, 2].map(|place| moved(&from, &to, place)),
            [1, NONE, 0]
        );
        assert_eq!(moved(&from, &to, NONE), NONE);
        assert_eq!(moved(&from, &to, SWITCH), SWITCH);
        assert_eq!(moved(&[0; 3], &[0; 3], 1), NONE, "there was nothing");
    }
}
