//! Messages of GTP-U that the UPF itself sends: echoes, error indications, end markers.
//!
//! Beside a user's packet, or instead of it. Error indications are limited per second, and messages
//! that wait to leave to [`SIGNAL_COUNT_MAX`]. Specification: TS 29.281 7.2, 7.3.

use std::collections::VecDeque;
use std::net::IpAddr;

use catena_flow::meter::{Gcra, GcraState};
use catena_wire::gtpu::element::{Element, Elements};
use catena_wire::gtpu::{self, MessageType};

use crate::headers::{Datagram, Frame};
use crate::model::Key;
use crate::upf::Upf;

/// Limits how many Error Indications are sent.
#[derive(Debug)]
pub struct Limiter {
    meter: Option<Gcra>,
    state: GcraState,
}

impl Limiter {
    /// So many per second, none for 0.
    pub fn new(per_s: u64) -> Self {
        Self {
            meter: Gcra::new(per_s, per_s.clamp(1, 100)).ok(),
            state: GcraState::default(),
        }
    }

    fn passes(&mut self, now_ns: u64) -> bool {
        let meter = self.meter.as_ref();
        meter.is_some_and(|meter| meter.passes(&mut self.state, now_ns, 1))
    }
}

/// A GTP-U message of the UPF's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Interface by which it leaves.
    pub interface: u8,
    /// Its headers.
    pub datagram: Datagram,
    /// Its bytes from GTP-U on.
    pub bytes: Vec<u8>,
}

/// Most GTP-U messages of the UPF's own that wait to leave.
pub const SIGNAL_COUNT_MAX: usize = 1024;

impl Upf {
    fn signal(
        &mut self,
        signals: &mut VecDeque<Signal>,
        (to, port, own): (IpAddr, u16, IpAddr),
        bytes: Vec<u8>,
    ) {
        let Some(interface) = self.tunnel_end(own) else {
            return;
        };
        if signals.len() >= SIGNAL_COUNT_MAX {
            self.counters.unsent += 1;
            return;
        }
        let one = &self.settings.interfaces[usize::from(interface)];
        let datagram = Datagram {
            frame: Frame {
                src: one.mac,
                dst: one.next_hop,
            },
            src: own,
            dst: to,
            src_port: gtpu::PORT,
            dst_port: port,
            traffic_class: 0,
            ident: 0,
        };
        signals.push_back(Signal {
            interface,
            datagram,
            bytes,
        });
    }

    pub(crate) fn echo(
        &mut self,
        sequence: u16,
        peer: (IpAddr, u16, IpAddr),
        signals: &mut VecDeque<Signal>,
    ) {
        let message = gtpu::Header {
            message_type: MessageType::ECHO_RESPONSE,
            teid: 0,
            sequence: Some(sequence),
            n_pdu: None,
            extensions: gtpu::Extensions::NONE,
            payload_len: 0,
        };
        let bytes = written(message, &[Element::Recovery(0)]);
        self.signal(signals, peer, bytes);
    }

    /// Tells who sent into an unknown tunnel, not too often (TS 29.281, 7.3.1).
    pub(crate) fn error_indication(
        &mut self,
        teid: u32,
        (to, _, own): (IpAddr, u16, IpAddr),
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) {
        if !self.limiter.passes(now_ns) {
            return;
        }
        self.counters.error_indications += 1;
        let message = gtpu::Header {
            message_type: MessageType::ERROR_INDICATION,
            teid: 0,
            sequence: Some(0),
            n_pdu: None,
            extensions: gtpu::Extensions::NONE,
            payload_len: 0,
        };
        let elements = [Element::TeidDataI(teid), Element::PeerAddress(own)];
        let bytes = written(message, &elements);
        self.signal(signals, (to, gtpu::PORT, own), bytes);
    }

    /// A peer does not know a tunnel: the SMF of the session that sends into it is told, not too
    /// often. Only the tunnel's own end is believed.
    pub(crate) fn hear_error_indication(&mut self, elements: &[u8], from: IpAddr, now_ns: u64) {
        let Ok((teid, peer)) = Elements::new(elements).error_indication() else {
            return;
        };
        let slot = self.index.find(Key::of_remote(teid, peer));
        let Some(slot) = slot.filter(|_| peer == from) else {
            return;
        };
        if self.limiter.passes(now_ns) {
            self.report_error_indication(slot, teid, peer, now_ns);
        }
    }

    /// End markers for the tunnels of FARs that were changed.
    pub fn mark_ends(&mut self, signals: &mut VecDeque<Signal>) {
        while let Some(far) = self.end_markers.pop_front() {
            let Some(one) = self.settings.interfaces.get(usize::from(far.interface)) else {
                continue;
            };
            let v4 = far.v4.map(IpAddr::V4).zip(one.v4.map(IpAddr::V4));
            let v6 = far.v6.map(IpAddr::V6).zip(one.v6.map(IpAddr::V6));
            let Some((to, own)) = v4.or(v6) else {
                continue;
            };
            self.counters.end_markers += 1;
            let message = gtpu::Header {
                message_type: MessageType::END_MARKER,
                teid: far.teid,
                sequence: None,
                n_pdu: None,
                extensions: gtpu::Extensions::NONE,
                payload_len: 0,
            };
            self.signal(signals, (to, gtpu::PORT, own), written(message, &[]));
        }
    }
}

/// Writes a GTP-U message with elements.
pub(crate) fn written(header: gtpu::Header<'_>, elements: &[Element<'_>]) -> Vec<u8> {
    let payload_len = elements.iter().map(Element::len).sum();
    let header = gtpu::Header {
        payload_len,
        ..header
    };
    let mut bytes = vec![0; header.header_len() + payload_len];
    header.emit(&mut bytes);
    let mut at = header.header_len();
    for element in elements {
        element.emit(&mut bytes[at..]);
        at += element.len();
    }
    bytes
}
