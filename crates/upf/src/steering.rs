//! Traffic steering: a FAR names a forwarding policy, and its packets to the data network leave by
//! the policy's interface.
//!
//! On N4, between IEs and a FAR: packets know nothing of it. So what is for a user's service
//! functions (N6-LAN) leaves elsewhere than the rest of its network instance. Specification: TS
//! 29.244 8.2.23, TRST of 8.2.25.

use catena_wire::pfcp::value::forwarding::{DestinationInterface, ForwardingPolicy};
use catena_wire::pfcp::{Cause, Change, Group, IeType, key};

use crate::model::Fault;
use crate::rules::NONE;
use crate::settings::Settings;

/// Reads which policy a FAR, or a copy of its packets, names: its place, [`NONE`] for none.
///
/// # Errors
/// That the UPF has no such policy.
pub(crate) fn read(group: &Group<'_>, policy: &mut u8, settings: &Settings) -> Result<(), Fault> {
    match group.change(key::FORWARDING_POLICY)? {
        Change::Keep => {}
        Change::Remove => *policy = NONE,
        Change::Set(ForwardingPolicy(name)) => {
            let mut all = settings.policies.iter();
            let place = all.position(|one| one.name.as_bytes() == name);
            let place = place.and_then(|place| u8::try_from(place).ok());
            *policy = place.ok_or_else(invalid)?;
        }
    }
    Ok(())
}

/// The interface by which packets leave: the policy's, or that of their destination and network
/// instance; none if there is none.
///
/// # Errors
/// That they do not go to a data network, which is all that policies are for.
pub(crate) fn interface_to(
    policy: u8,
    (destination, instance): (u8, u8),
    settings: &Settings,
) -> Result<Option<u8>, Fault> {
    let Some(policy) = settings.policies.get(usize::from(policy)) else {
        return Ok(settings.interface_to(destination, instance));
    };
    let networks = [
        DestinationInterface::CORE,
        DestinationInterface::SGI_LAN_N6_LAN,
    ];
    match networks.contains(&DestinationInterface(destination)) {
        true => Ok(Some(policy.interface)),
        false => Err(invalid()),
    }
}

fn invalid() -> Fault {
    Cause::INVALID_FORWARDING_POLICY
        .because_of(IeType::FORWARDING_POLICY)
        .into()
}
