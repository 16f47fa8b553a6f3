//! How a packet is marked: what the PDU session container says with which it came, or is to have.
//!
//! On a packet's way through the UPF, from the tunnel that it leaves to the one that it goes into.
//! Specification: TS 38.415 5.5.2. Limit: what QoS monitoring has in a container is not kept.

use catena_wire::gtpu::pdu_session::PduSession;

/// How a packet is marked: QFI, reflective QoS, paging policy.
pub(crate) type Marking = (Option<u8>, bool, Option<u8>);
/// As one without a PDU session container.
pub(crate) const UNMARKED: Marking = (None, false, None);

/// What a PDU session container says of its packet.
pub(crate) const fn marking_of(container: &PduSession) -> Marking {
    match container {
        PduSession::Downlink(frame) => (Some(frame.qfi), frame.rqi, frame.ppi),
        PduSession::Uplink(frame) => (Some(frame.qfi), false, None),
    }
}
