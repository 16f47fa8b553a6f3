//! What the UPF itself sends into tunnels: echoes, error indications, end markers, packets to UEs.
//!
//! Beside a user's packet, or instead of it. Error indications are limited per second, and messages
//! that wait to leave to [`SIGNAL_COUNT_MAX`]. Specification: TS 29.281 7.2, 7.3.

use std::collections::VecDeque;
use std::net::IpAddr;

use catena_wire::gtpu::element::{Element, Elements};
use catena_wire::gtpu::{self, ExtensionType, MessageType};
use catena_wire::pfcp::value::flags::ApplyAction;

use crate::headers::{Datagram, Frame, Tunnel};
pub use crate::limiter::Limiter;
use crate::model::Key;
use crate::rules::Far;
use crate::settings::Interface;
use crate::upf::Upf;

/// A frame of the UPF's own: a GTP-U message, or a packet to a UE or into a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Interface by which it leaves.
    pub interface: u8,
    /// The whole frame.
    pub frame: Vec<u8>,
    /// Whether it is, or is a part of, a copy that a FAR sends.
    pub is_copy: bool,
    /// SEID of the session that it is for; 0 for none.
    pub seid: u64,
}

impl Signal {
    /// A datagram with these bytes behind its headers.
    fn of(interface: u8, datagram: &Datagram, bytes: &[u8], seid: u64) -> Self {
        Self {
            interface,
            frame: datagram.frame(bytes),
            is_copy: false,
            seid,
        }
    }
}

/// The way of packets of the UPF's own to a UE: the tunnel of its session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    interface: u8,
    datagram: Datagram,
    tunnel: Tunnel,
    mtu: usize,
    seid: u64,
}

impl Way {
    fn header_len(&self) -> usize {
        self.datagram.header_len() + self.tunnel.len()
    }

    /// Most bytes of a user's packet that need not be fragmented on this way.
    pub(crate) fn room(&self) -> usize {
        const ETHERNET: usize = catena_wire::ethernet::HEADER_LEN;
        (self.mtu + ETHERNET).saturating_sub(self.header_len())
    }

    /// An IP packet on this way.
    pub(crate) fn signal(&self, packet: &[u8]) -> Signal {
        let mut message = vec![0; self.tunnel.len() + packet.len()];
        message[self.tunnel.len()..].copy_from_slice(packet);
        self.tunnel
            .emit(&mut message, MessageType::G_PDU, packet.len());
        Signal::of(self.interface, &self.datagram, &message, self.seid)
    }
}

/// Most frames of the UPF's own that wait to leave.
pub const SIGNAL_COUNT_MAX: usize = 1024;

impl Upf {
    /// Has a GTP-U message leave from an address of its own, for a session or for none (0).
    pub(crate) fn signal(
        &mut self,
        signals: &mut VecDeque<Signal>,
        (to, port, own): (IpAddr, u16, IpAddr),
        bytes: Vec<u8>,
        seid: u64,
    ) {
        if let Some((interface, datagram)) = self.signal_datagram(to, port, own) {
            self.put(signals, Signal::of(interface, &datagram, &bytes, seid));
        }
    }

    /// As [`Upf::signal`], for no session, in a packet of this traffic class.
    pub(crate) fn signal_marked(
        &mut self,
        signals: &mut VecDeque<Signal>,
        (to, port, own): (IpAddr, u16, IpAddr),
        bytes: Vec<u8>,
        traffic_class: u8,
    ) {
        if let Some((interface, datagram)) = self.signal_datagram(to, port, own) {
            let datagram = Datagram {
                traffic_class,
                ..datagram
            };
            self.put(signals, Signal::of(interface, &datagram, &bytes, 0));
        }
    }

    fn signal_datagram(&self, to: IpAddr, port: u16, own: IpAddr) -> Option<(u8, Datagram)> {
        let interface = self.tunnel_end(own)?;
        let one = &self.settings.interfaces[usize::from(interface)];
        let datagram = Datagram {
            frame: Frame {
                src: one.mac,
                dst: one.next_hop,
            },
            src: own,
            dst: to,
            ports: Some((gtpu::PORT, port)),
            traffic_class: 0,
            ident: 0,
        };
        Some((interface, datagram))
    }

    /// Has a frame of its own leave, if not too many wait.
    pub(crate) fn put(&mut self, signals: &mut VecDeque<Signal>, signal: Signal) {
        if signals.len() < SIGNAL_COUNT_MAX {
            signals.push_back(signal);
        } else {
            self.counters.unsent += 1;
        }
    }

    /// The way to the UE of a session: that of its first FAR that sends into a tunnel of the access
    /// network.
    pub(crate) fn way_to_ue(&mut self, slot: u32) -> Option<Way> {
        let image = self.store.image(slot)?;
        let pdrs = (0..image.pdr_count()).filter_map(|place| image.pdr(place));
        let mut fars = pdrs.filter_map(|pdr| Some((pdr, image.far(pdr.far_at)?)));
        let (pdr, far) = fars.find(|(_, far)| {
            far.destination == 0 && far.is_tunnel() && far.does(ApplyAction::FORW)
        })?;
        let qers = pdr.qers_at.as_slice().iter();
        let qfi = qers
            .filter_map(|place| image.qer(*place))
            .find_map(|qer| qer.qfi);
        let one = self.settings.interfaces.get(usize::from(far.interface))?;
        let (src, dst) = ends(&far, one)?;
        Some(Way {
            interface: far.interface,
            datagram: Datagram {
                frame: Frame {
                    src: one.mac,
                    dst: one.next_hop,
                },
                src,
                dst,
                ports: Some((gtpu::PORT, gtpu::PORT)),
                traffic_class: 0,
                ident: 0,
            },
            tunnel: Tunnel::downlink(far.teid, qfi, false, None),
            mtu: one.mtu,
            seid: image.seid(),
        })
    }

    pub(crate) fn echo(
        &mut self,
        sequence: u16,
        peer: (IpAddr, u16, IpAddr),
        signals: &mut VecDeque<Signal>,
    ) {
        let message = gtpu::Header::new(MessageType::ECHO_RESPONSE, 0, Some(sequence));
        let bytes = written(message, &[Element::Recovery(0)]);
        self.signal(signals, peer, bytes, 0);
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
        let message = gtpu::Header::new(MessageType::ERROR_INDICATION, 0, Some(0));
        let elements = [Element::TeidDataI(teid), Element::PeerAddress(own)];
        let bytes = written(message, &elements);
        self.signal(signals, (to, gtpu::PORT, own), bytes, 0);
    }

    /// Tells who wants an extension header understood that is not which ones are, as often as an
    /// unknown tunnel (TS 29.281, 7.2.3).
    pub(crate) fn tell_extensions(
        &mut self,
        (to, _, own): (IpAddr, u16, IpAddr),
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) {
        if !self.limiter.passes(now_ns) {
            return;
        }
        let message_type = MessageType::SUPPORTED_EXTENSION_HEADERS_NOTIFICATION;
        let message = gtpu::Header::new(message_type, 0, Some(0));
        let types = [ExtensionType::PDU_SESSION_CONTAINER.0];
        let bytes = written(message, &[Element::ExtensionHeaderTypes(&types)]);
        self.signal(signals, (to, gtpu::PORT, own), bytes, 0);
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
        if self.indications.passes_of(slot, now_ns) {
            self.report_error_indication(slot, teid, peer, now_ns);
        }
    }

    /// End markers for the tunnels of FARs that were changed.
    pub fn mark_ends(&mut self, signals: &mut VecDeque<Signal>) {
        while let Some((seid, far)) = self.end_markers.pop_front() {
            self.mark_end(&far, signals, seid);
        }
    }

    /// Has an end marker leave into the tunnel of a FAR.
    fn mark_end(&mut self, far: &Far, signals: &mut VecDeque<Signal>, seid: u64) {
        let one = self.settings.interfaces.get(usize::from(far.interface));
        let Some((own, to)) = one.and_then(|one| ends(far, one)) else {
            return;
        };
        self.counters.end_markers += 1;
        let message = gtpu::Header::new(MessageType::END_MARKER, far.teid, None);
        let peer = (to, gtpu::PORT, own);
        self.signal(signals, peer, written(message, &[]), seid);
    }

    /// Another UPF has sent its last packet into a tunnel: those are told into whose tunnels the
    /// packets of this one go on, each once.
    pub(crate) fn pass_end_marker(&mut self, teid: u32, signals: &mut VecDeque<Signal>) {
        let Some(slot) = self.index.find(Key::Teid(teid)) else {
            return;
        };
        let Some(image) = self.store.image(slot) else {
            return;
        };
        let seid = image.seid();
        let pdrs = (0..image.pdr_count()).filter_map(|place| image.pdr(place));
        let its = pdrs.filter(|pdr| pdr.teid == teid && !pdr.is_uplink());
        let mut fars: Vec<Far> = Vec::new();
        for far in its.filter_map(|pdr| image.far(pdr.far_at)) {
            let is_same = |one: &Far| (one.teid, one.peer()) == (far.teid, far.peer());
            let is_sending = far.does(ApplyAction::FORW) && far.is_tunnel();
            if is_sending && !fars.iter().any(is_same) {
                fars.push(far);
            }
        }
        for far in fars {
            self.mark_end(&far, signals, seid);
        }
    }
}

/// Where the tunnel of a FAR begins on an interface, and where it ends: of one version.
pub(crate) fn ends(far: &Far, interface: &Interface) -> Option<(IpAddr, IpAddr)> {
    let v4 = interface.v4.map(IpAddr::V4).zip(far.v4.map(IpAddr::V4));
    v4.or(interface.v6.map(IpAddr::V6).zip(far.v6.map(IpAddr::V6)))
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
