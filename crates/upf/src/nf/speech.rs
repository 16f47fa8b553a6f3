//! What the UPF itself says leaves: frames of its own, copies, messages of N4.
//!
//! Behind a burst. What has no room now is tried again; what no buffer can hold is dropped and
//! counted, so that nothing waits behind it without an end.

use std::collections::VecDeque;
use std::net::IpAddr;

use catena_engine::nf::Emission;
use catena_wire::pfcp::PORT;

use crate::headers::{Datagram, Frame};
use crate::transactions;
use crate::tunnel::Signal;
use crate::upf::Upf;

/// Sends what the UPF itself says, as far as there is room.
pub(super) fn speak(upf: &mut Upf, signals: &mut VecDeque<Signal>, out: &mut Emission<'_>) {
    upf.mark_ends(signals);
    upf.advertise_added(signals);
    // One interface that takes nothing now holds up neither the others nor N4.
    let mut blocked = 0_u64;
    for _ in 0..signals.len() {
        let Some(signal) = signals.pop_front() else {
            break;
        };
        if !out.can_make(signal.frame.len()) {
            upf.count_unsent(signal.is_copy);
            continue;
        }
        let interface = 1_u64 << (signal.interface & 63);
        let fill = |to: &mut [u8]| to.copy_from_slice(&signal.frame);
        let is_sent =
            blocked & interface == 0 && out.send(signal.interface, signal.frame.len(), 0, fill);
        if is_sent {
            let (seid, place) = (signal.seid, signal.interface);
            upf.traces.made(seid, place, &signal.frame);
        } else {
            blocked |= interface;
            signals.push_back(signal);
        }
    }
    while let Some(message) = upf.outbox.front() {
        let settings = upf.settings();
        let v4 = settings.n4_v4.map(IpAddr::V4);
        let own = v4.or(settings.n4_v6.map(IpAddr::V6));
        let own = own.filter(|own| own.is_ipv4() == message.to.address.is_ipv4());
        let Some(src) = own else {
            upf.outbox.pop_front();
            continue;
        };
        let datagram = Datagram {
            frame: Frame {
                src: settings.n4_mac,
                dst: settings.n4_next_hop,
            },
            src,
            dst: message.to.address,
            ports: Some((PORT, message.to.port)),
            traffic_class: 0,
            ident: 0,
        };
        let len = datagram.header_len() + message.bytes.len();
        if !out.can_make(len) {
            upf.outbox.pop_front();
            upf.count_unsent(false);
            continue;
        }
        let fill = |to: &mut [u8]| {
            to[len - message.bytes.len()..].copy_from_slice(&message.bytes);
            datagram.emit(to);
        };
        if !out.send(settings.n4_output, len, 0, fill) {
            return;
        }
        if let Some(message) = upf.outbox.pop_front() {
            note_said(upf, &datagram, &message);
        }
    }
}

/// Notes a message that leaves, in the trace of the session that it is about.
fn note_said(upf: &mut Upf, datagram: &Datagram, message: &transactions::Datagram) {
    if upf.traces.is_idle() {
        return;
    }
    for session in upf.traces.sessions_mut() {
        // A modification may have given the session another SMF.
        if upf.store.slot_of(session.seid) == Some(session.slot) {
            let head = upf.store.head(session.slot);
            session.cp_seid = head.cp_seid;
            let association = upf.store.association(head.association.into());
            session.smf[0] = association.peer();
        }
    }
    let frame = || datagram.frame(&message.bytes);
    upf.traces.said(&message.bytes, message.to.address, frame);
}

#[cfg(test)]
mod tests {
    use catena_engine::nf::Hold;
    use catena_engine::pools::Pools;
    use catena_shm::pool::{PoolGeometry, PoolOwner};
    use catena_shm::region::Sharing;

    use super::*;
    use crate::public_failures::{SMF, new};

    /// What is longer than any buffer does not wait: a copy of a jumbo frame, an answer.
    #[test]
    fn what_no_buffer_holds_is_counted_and_holds_nothing_up() {
        let geometry = PoolGeometry {
            log2_stride: 11,
            buffer_count: 8,
            headroom: 64,
            bundles: false,
        };
        let pool = PoolOwner::create(1, geometry, Sharing::ReadWrite).unwrap();
        let (mut pools, mut hold) = (Pools::new(vec![pool]), Hold::default());
        let mut upf = new(None);
        let signal = |len, is_copy| Signal {
            interface: 0,
            frame: vec![7; len],
            is_copy,
            seid: 0,
        };
        let mut signals = VecDeque::from([
            signal(2040, true),
            signal(2040, true),
            signal(2040, false),
            signal(100, true),
        ]);
        for len in [2040, 100] {
            let bytes = vec![9; len];
            upf.send(transactions::Datagram { to: SMF, bytes });
        }
        let mut rooms = [4; 3];
        let mut out = Emission::new(&mut pools, &mut hold, &mut rooms, false);
        speak(&mut upf, &mut signals, &mut out);
        let left = hold
            .leaving()
            .map(|(output, packet)| (output, packet.len()));
        assert_eq!(left.collect::<Vec<_>>(), [(0, 100), (2, 142)]);
        assert!(signals.is_empty() && upf.outbox.is_empty());
        let counters = upf.counters();
        assert_eq!((counters.uncopied, counters.unsent), (2, 2));
    }
}
