//! Whose a packet is: the session of its tunnel, of its UE's address, or of its frame.
//!
//! First step of a packet's way through the UPF, before its rules are asked. Messages of N4 and of
//! GTP-U itself end here. Specification: TS 29.281 4.4; TS 29.244 8.2.64 for IP in IP.

use std::collections::VecDeque;
use std::net::IpAddr;

use catena_wire::gtpu::pdu_session::PduSession;
use catena_wire::gtpu::{self, ExtensionType, MessageType, Role};
use catena_wire::pfcp::PORT as PFCP_PORT;
use catena_wire::pfcp::value::forwarding::RemovedHeader;

use crate::decision::{Decision, Found, Why};
use crate::forward::join;
use crate::group::Member;
use crate::headers::{self, Outer};
use crate::marking::{UNMARKED, marking_of};
use crate::model::Key;
use crate::transactions::Peer;
use crate::tunnel::Signal;
use crate::upf::Upf;

impl Upf {
    /// As [`Upf::packet`] as far as bytes alone decide: whether its session was found.
    #[cfg(test)]
    pub(crate) fn look(
        &mut self,
        bytes: &[u8],
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> bool {
        self.find(bytes, signals, now_ns).is_ok()
    }

    /// Finds the session of a packet.
    pub(super) fn find(
        &mut self,
        bytes: &[u8],
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> Result<Found, Decision> {
        let drop = |why| Err(Decision::Drop(why));
        let outer = headers::outer(bytes);
        if !self.stations.is_empty()
            && !self.is_own(&outer)
            && let Some(found) = self.find_frame(bytes, signals, now_ns)
        {
            return found;
        }
        match outer {
            Outer::Malformed => drop(Why::Malformed),
            Outer::Other => drop(Why::NotForUs),
            Outer::Udp {
                src,
                dst,
                src_port,
                dst_port,
                from,
                to,
                ..
            } if dst_port == PFCP_PORT && self.is_n4(dst) => {
                let peer = Peer {
                    address: src,
                    port: src_port,
                };
                if !self.traces.is_idle() && self.settings.is_peer(src) {
                    self.traces.heard(bytes, from..to, src, now_ns);
                }
                self.datagram(&bytes[from..to], peer, now_ns);
                Err(Decision::Consumed)
            }
            Outer::Udp {
                src,
                dst,
                src_port,
                dst_port: gtpu::PORT,
                from,
                to,
                ..
            } if self.tunnel_end(dst).is_some() => {
                let peer = (src, src_port, dst);
                self.find_tunnel(&bytes[from..to], from, peer, signals, now_ns)
            }
            Outer::Part { dst, l3 } if self.tunnel_end(dst).is_some() || self.is_n4(dst) => {
                Err(join(l3, 0, UNMARKED))
            }
            Outer::Wrapped { dst, at, end, .. } if self.is_of_network(dst) => {
                self.find_wrapped(&bytes[..end], at, dst)
            }
            Outer::Udp { dst, l3, .. }
            | Outer::Wrapped { dst, l3, .. }
            | Outer::Ip { dst, l3 }
            | Outer::Part { dst, l3 } => self.find_user(bytes, l3, dst),
        }
    }

    /// The session of a packet of the data network that is its UE's, and begins at `l3`.
    fn find_user(&mut self, bytes: &[u8], l3: usize, dst: IpAddr) -> Result<Found, Decision> {
        let drop = |why| Err(Decision::Drop(why));
        if self.tunnel_end(dst).is_some() {
            return drop(Why::NotForUs);
        }
        let slot = self.slot_of(Key::of_ue(dst));
        let Some(slot) = slot.or_else(|| self.index.find_route(dst)) else {
            return drop(Why::UnknownUe);
        };
        if self.store.is_unstructured(slot) {
            return self.find_datagram(bytes, slot);
        }
        let inner = headers::inner(&bytes[l3..]);
        let inner = inner.ok_or(Decision::Drop(Why::Malformed))?;
        Ok(Found {
            at: l3,
            inner,
            slot,
            teid: 0,
            came: UNMARKED,
            is_joined: false,
            is_opaque: false,
            is_frame: false,
            member: Member::NONE,
            removal: None,
        })
    }

    /// The session of a packet in an IP packet to an address of the UPF's (TS 29.244 8.2.64, IPv4
    /// and IPv6).
    fn find_wrapped(&mut self, bytes: &[u8], at: usize, outer: IpAddr) -> Result<Found, Decision> {
        let inner = bytes.get(at..).and_then(headers::inner);
        let inner = inner.ok_or(Decision::Drop(Why::Malformed))?;
        let found = self.find_user(bytes, at, inner.dst)?;
        if found.is_opaque {
            return Err(Decision::Drop(Why::NotForUs));
        }
        Ok(Found {
            removal: Some(match outer {
                IpAddr::V4(_) => RemovedHeader::IPV4,
                IpAddr::V6(_) => RemovedHeader::IPV6,
            }),
            ..found
        })
    }

    /// The slot of the session with this key.
    #[inline]
    pub(crate) fn slot_of(&self, key: Key) -> Option<u32> {
        match self.hint {
            Some((words, slot)) if words == key.words() => Some(slot),
            _ => self.index.find(key),
        }
    }

    /// Whether a frame is for an address of the UPF's own.
    fn is_own(&self, outer: &Outer) -> bool {
        match *outer {
            Outer::Udp { dst, .. }
            | Outer::Wrapped { dst, .. }
            | Outer::Ip { dst, .. }
            | Outer::Part { dst, .. } => self.is_n4(dst) || self.tunnel_end(dst).is_some(),
            Outer::Other | Outer::Malformed => false,
        }
    }

    #[inline]
    pub(crate) fn is_n4(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.settings.n4_v4 == Some(address),
            IpAddr::V6(address) => self.settings.n4_v6 == Some(address),
        }
    }

    /// Whether an address is that of an interface to data networks.
    fn is_of_network(&self, address: IpAddr) -> bool {
        let place = self.tunnel_end(address).map(usize::from);
        let interface = place.and_then(|place| self.settings.interfaces.get(place));
        interface.is_some_and(|interface| interface.side != 0)
    }

    /// The interface whose tunnels end at an address.
    #[inline]
    pub(crate) fn tunnel_end(&self, address: IpAddr) -> Option<u8> {
        let mut interfaces = self.settings.interfaces.iter();
        let place = interfaces.position(|interface| match address {
            IpAddr::V4(address) => interface.v4 == Some(address),
            IpAddr::V6(address) => interface.v6 == Some(address),
        });
        place.and_then(|place| u8::try_from(place).ok())
    }

    fn find_tunnel(
        &mut self,
        message: &[u8],
        from: usize,
        peer: (IpAddr, u16, IpAddr),
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> Result<Found, Decision> {
        let Ok(view) = gtpu::View::parse(message) else {
            return Err(Decision::Drop(Why::Malformed));
        };
        match view.message_type() {
            MessageType::G_PDU => {}
            MessageType::ECHO_REQUEST => {
                self.counters.echoes += 1;
                self.echo(view.sequence().unwrap_or(0), peer, signals);
                return Err(Decision::Consumed);
            }
            MessageType::ECHO_RESPONSE => {
                self.hear_echo(peer, view.sequence().unwrap_or(0), now_ns);
                return Err(Decision::Consumed);
            }
            MessageType::ERROR_INDICATION => {
                self.hear_error_indication(view.payload(), peer.0, now_ns);
                return Err(Decision::Consumed);
            }
            MessageType::END_MARKER => {
                self.pass_end_marker(view.teid(), signals);
                return Err(Decision::Consumed);
            }
            _ => return Err(Decision::Consumed),
        }
        let is_understood = |one| one == ExtensionType::PDU_SESSION_CONTAINER;
        let extensions = view.extensions();
        if extensions
            .not_understood(Role::Endpoint, is_understood)
            .is_some()
        {
            self.tell_extensions(peer, signals, now_ns);
            return Err(Decision::Drop(Why::Extension));
        }
        let Ok(container) = extensions.pdu_session() else {
            return Err(Decision::Drop(Why::Malformed));
        };
        let teid = view.teid();
        let Some(slot) = self.slot_of(Key::Teid(teid)) else {
            // What came in fragments may be another shard's: its tunnel is none that is unknown.
            if !self.is_mine(Key::Teid(teid)) {
                return Err(Decision::Drop(Why::Fragment));
            }
            self.error_indication(teid, peer, signals, now_ns);
            return Err(Decision::Drop(Why::UnknownTeid));
        };
        if let Some(PduSession::Uplink(frame)) = &container
            && frame.times.is_some()
        {
            self.hear_delays(slot, frame, now_ns);
            // Where no packet of the UE's comes for long, an answer comes alone.
            if view.payload().is_empty() {
                return Err(Decision::Consumed);
            }
        }
        let inner = self.inner_of(slot, view.payload());
        let (inner, is_opaque) = inner.ok_or(Decision::Drop(Why::Malformed))?;
        Ok(Found {
            at: from + view.header_len(),
            inner,
            slot,
            teid,
            came: container.as_ref().map_or(UNMARKED, marking_of),
            is_joined: false,
            is_opaque,
            is_frame: is_opaque && self.store.is_ethernet(slot),
            member: Member::NONE,
            removal: None,
        })
    }
}
