//! Copies: packets that a FAR duplicates (DUPL), each into a frame and tunnel of its own.
//!
//! Beside a packet's last step: a copy is made of the user's packet once its PDR, gates, rates and
//! quotas have let it through, or where its FAR drops it; of one that is held when it leaves. What
//! is longer than its interface's MTU leaves in fragments of the outer packet. Specification: TS
//! 29.244 5.2.3, 7.5.2.3. Limits: [`COPIES_MAX`] copies of a FAR; what waits to leave is bounded as
//! all that a UPF makes itself, and copies without room are counted: also those, when they are to
//! leave, that are longer than any buffer.

use std::collections::VecDeque;

use catena_wire::gtpu::MessageType;
use catena_wire::pfcp::value::FarId;
use catena_wire::pfcp::value::forwarding::OuterHeaders;
use catena_wire::pfcp::value::node::FailedRuleId;
use catena_wire::pfcp::{Cause, Change, Group, IeType, key};

use crate::cut::cut;
use crate::draft::Draft;
use crate::forward::outer;
use crate::headers::{Frame, Tunnel};
use crate::model::{Fault, Image, Session};
use crate::rules::{Copied, Far, NONE};
use crate::settings::Settings;
use crate::steering;
use crate::tunnel::{SIGNAL_COUNT_MAX, Signal, ends};

const ETHERNET: usize = catena_wire::ethernet::HEADER_LEN;
/// Most copies that a FAR sends of a packet.
pub const COPIES_MAX: usize = 4;

impl Copied {
    /// As a FAR forwards.
    pub(crate) const fn of_far(far: &Far) -> Self {
        Self {
            far_id: far.id,
            destination: far.destination,
            policy: far.policy,
            interface: far.interface,
            headers: far.headers,
            teid: far.teid,
            v4: far.v4,
            v6: far.v6,
            marking: far.marking,
        }
    }

    /// As a FAR that forwards so.
    const fn far(&self) -> Far {
        Far {
            destination: self.destination,
            interface: self.interface,
            headers: self.headers,
            teid: self.teid,
            v4: self.v4,
            v6: self.v6,
            marking: self.marking,
            ..Far::empty(self.far_id)
        }
    }

    /// Reads one IE of Duplicating Parameters, or of an update of it.
    fn read(&mut self, group: &Group<'_>, draft: &Draft<'_>) -> Result<(), Fault> {
        let failed = FailedRuleId::Far(FarId(self.far_id));
        steering::read(group, &mut self.policy, draft.settings)?;
        if let Change::Set(destination) = group.change(key::DESTINATION_INTERFACE)? {
            self.destination = destination.0;
        }
        if self.destination == NONE {
            let ie_type = IeType::DESTINATION_INTERFACE;
            return Err(Cause::CONDITIONAL_IE_MISSING.because_of(ie_type).into());
        }
        match group.change(key::OUTER_HEADER_CREATION)? {
            Change::Keep => {}
            Change::Remove => (self.headers, self.teid, self.v4, self.v6) = (0, 0, None, None),
            Change::Set(header) => {
                let known = [OuterHeaders::GTP_U_UDP_IPV4, OuterHeaders::GTP_U_UDP_IPV6];
                if !known.contains(&header.headers) {
                    let ie_type = IeType::OUTER_HEADER_CREATION;
                    return Err(Cause::SERVICE_NOT_SUPPORTED.because_of(ie_type).into());
                }
                self.headers = header.headers.bits();
                self.teid = header.teid.unwrap_or(0);
                (self.v4, self.v6) = (header.v4, header.v6);
            }
        }
        match group.change(key::TRANSPORT_LEVEL_MARKING)? {
            Change::Keep => {}
            Change::Remove => self.marking = None,
            Change::Set(class) => self.marking = Some([class.value, class.mask]),
        }
        let to = (self.destination, NONE);
        let interface = steering::interface_to(self.policy, to, draft.settings)?;
        self.interface = interface.ok_or(Fault::of_rule(failed, IeType::DESTINATION_INTERFACE))?;
        let out = draft.settings.interfaces.get(usize::from(self.interface));
        let can = self.headers == 0 || out.is_some_and(|out| ends(&self.far(), out).is_some());
        can.then_some(())
            .ok_or(Fault::of_rule(failed, IeType::OUTER_HEADER_CREATION))
    }
}

/// Reads the Duplicating Parameters of Create FAR or Update FAR. An update is of the IEs in their
/// order, and of all of them: copies behind the last one end.
///
/// # Errors
/// Why the request is refused.
pub fn read(
    group: &Group<'_>,
    far_id: u32,
    session: &mut Session,
    draft: &Draft<'_>,
) -> Result<(), Fault> {
    let mut changes = [
        IeType::DUPLICATING_PARAMETERS,
        IeType::UPDATE_DUPLICATING_PARAMETERS,
    ]
    .into_iter()
    .filter(|ie_type| group.has(*ie_type));
    let Some(ie_type) = changes.next() else {
        return Ok(());
    };
    let is_its = |copied: &Copied| copied.far_id == far_id;
    let old: Vec<Copied> = session.copies.iter().copied().filter(is_its).collect();
    session.copies.retain(|copied| !is_its(copied));
    // One of null length removes all of them.
    if group.find(ie_type).is_some_and(|ie| ie.value.is_empty()) {
        return Ok(());
    }
    for (at, parameters) in group.groups(ie_type).enumerate() {
        if at == COPIES_MAX {
            return Err(Cause::NO_RESOURCES_AVAILABLE.because_of(ie_type).into());
        }
        let mut copied = old.get(at).copied().unwrap_or(Copied::of(far_id));
        copied.read(&parameters, draft)?;
        session.copies.push(copied);
    }
    Ok(())
}

/// Has copies of a user's packet leave that this FAR wants; how many did, and how many had no room.
pub(crate) fn send(
    image: &Image<'_>,
    far_id: u32,
    (user, qfi): (&[u8], Option<u8>),
    settings: &Settings,
    next_ident: &mut u16,
    signals: &mut VecDeque<Signal>,
) -> [u64; 2] {
    let mut counts = [0, 0];
    for copied in image.copies().filter(|copied| copied.far_id == far_id) {
        // Each has its own: several may go to one address, in parts.
        let ident = *next_ident;
        *next_ident = ident.wrapping_add(1);
        let sent = frame(&copied, user, qfi, settings, ident)
            .is_some_and(|frame| put((&copied, image.seid()), frame, settings, ident, signals));
        counts[usize::from(!sent)] += 1;
    }
    counts
}

/// The frame of a copy.
pub(crate) fn frame(
    copied: &Copied,
    user: &[u8],
    qfi: Option<u8>,
    settings: &Settings,
    ident: u16,
) -> Option<Vec<u8>> {
    let out = settings.interfaces.get(usize::from(copied.interface))?;
    let frame = Frame {
        src: out.mac,
        dst: out.next_hop,
    };
    if copied.headers == 0 {
        let mut bytes = vec![0; ETHERNET];
        frame.emit(&mut bytes, user.first()? >> 4 == 6);
        bytes.extend_from_slice(user);
        return Some(bytes);
    }
    let far = copied.far();
    let ends = ends(&far, out)?;
    let tunnel = match copied.destination {
        0 => Tunnel::downlink(copied.teid, qfi, false, None),
        _ => Tunnel::uplink(copied.teid, qfi),
    };
    let datagram = outer(&far, frame, ends, ident);
    let at = datagram.header_len();
    let headers = at + tunnel.len();
    // Its length must have room in the outer header.
    u16::try_from(headers - ETHERNET + user.len()).ok()?;
    let mut bytes = vec![0; headers];
    bytes.extend_from_slice(user);
    tunnel.emit(&mut bytes[at..], MessageType::G_PDU, user.len());
    datagram.emit(&mut bytes);
    Some(bytes)
}

/// Whether one more copy may wait: half of the queue is for what the UPF itself has to say.
pub(crate) fn has_room(signals: &VecDeque<Signal>) -> bool {
    signals.len() < SIGNAL_COUNT_MAX / 2
}

/// Has a frame leave, in parts if it is too long; false if not all of it has room.
pub(crate) fn put(
    (copied, seid): (&Copied, u64),
    frame: Vec<u8>,
    settings: &Settings,
    ident: u16,
    signals: &mut VecDeque<Signal>,
) -> bool {
    let out = settings.interfaces.get(usize::from(copied.interface));
    let mtu = out.map_or(0, |out| out.mtu);
    let interface = copied.interface;
    let mut push = |frame| {
        let has_room = has_room(signals);
        if has_room {
            signals.push_back(Signal {
                interface,
                frame,
                is_copy: true,
                seid,
            });
        }
        has_room
    };
    if frame.len() - ETHERNET <= mtu {
        return push(frame);
    }
    cut(&frame, ETHERNET, mtu, ident.into(), |len, fill| {
        let mut part = vec![0; len];
        fill(&mut part);
        push(part)
    })
}
