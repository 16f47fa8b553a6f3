//! Frames of a session's packets, most as they usually are, and some odd.

use std::net::{IpAddr, Ipv4Addr};

use catena_wire::gtpu::pdu_session::{PduSession, Uplink, UplinkTimes};
use catena_wire::gtpu::{self, MessageType};
use catena_wire::ipv4;
use proptest::prelude::*;
use proptest::sample::select;

use super::{GNB, HOST, HOST_V6, N3, N3_V6, N4, N4_V6, OTHER_UE_V6, TEID, UE, UE_V6};
use crate::advertisement::ALL_ROUTERS;
use crate::headers::Tunnel;
use crate::smf::wire::datagram;

/// How a frame is made.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) is_uplink: bool,
    pub(super) is_v6: bool,
    pub(super) protocol: u8,
    pub(super) len: usize,
    pub(super) host_port: u16,
    pub(super) container: Option<PduSession>,
    pub(super) has_sequence: bool,
    pub(super) odd: OddFrame,
}

/// What makes a frame unusual.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum OddFrame {
    None,
    Padded,
    Cut,
    OtherUe,
    OtherTeid,
    NoTeid,
    Part,
    Options,
    ToN4,
    ToN3,
    InAnother,
    ToAll,
    OverV6,
    TunnelToN4,
}

pub(super) fn a_frame() -> impl Strategy<Value = Made> {
    let uplink = |qfi, times| {
        PduSession::Uplink(Uplink {
            qfi,
            times,
            ..Uplink::default()
        })
    };
    let containers = [
        None,
        Some(uplink(9, None)),
        Some(uplink(9, None)),
        Some(uplink(5, None)),
        Some(uplink(9, Some(UplinkTimes::default()))),
        Some(PduSession::Downlink(Default::default())),
    ];
    let odd = [
        OddFrame::Padded,
        OddFrame::Cut,
        OddFrame::OtherUe,
        OddFrame::OtherTeid,
        OddFrame::NoTeid,
        OddFrame::Part,
        OddFrame::Options,
        OddFrame::ToN4,
        OddFrame::ToN3,
        OddFrame::InAnother,
        OddFrame::ToAll,
        OddFrame::OverV6,
        OddFrame::TunnelToN4,
    ];
    let odd = prop_oneof![6 => Just(OddFrame::None), 1 => select(odd.to_vec())];
    (
        any::<(bool, bool)>(),
        prop_oneof![4 => Just(17u8), 2 => Just(6), 1 => Just(1)],
        prop_oneof![4 => Just(64usize), 2 => Just(300), 1 => select(vec![40, 1480, 1500, 1600])],
        select(vec![80u16, 80, 443, 5000, 2152, 8805]),
        prop_oneof![4 => select(containers[..2].to_vec()), 1 => select(containers.to_vec())],
        prop_oneof![9 => Just(false), 1 => Just(true)],
        odd,
    )
        .prop_map(
            |((is_uplink, is_v6), protocol, len, host_port, container, has_sequence, odd)| Made {
                is_uplink,
                is_v6,
                protocol,
                len,
                host_port,
                container,
                has_sequence,
                odd,
            },
        )
}

const ETHERNET: usize = 14;

/// The ends of a user's packet: its UE, and the host.
fn ends(made: &Made) -> [IpAddr; 2] {
    let odd = made.odd;
    match made.is_v6 {
        false => {
            let ue = match odd {
                OddFrame::OtherUe => Ipv4Addr::new(10, 45, 0, 3),
                OddFrame::ToN4 if !made.is_uplink => N4,
                OddFrame::ToN3 if !made.is_uplink => N3,
                _ => UE,
            };
            [ue.into(), HOST.into()]
        }
        true => {
            let ue = match odd {
                OddFrame::OtherUe => OTHER_UE_V6,
                OddFrame::ToN4 if !made.is_uplink => N4_V6,
                OddFrame::ToN3 if !made.is_uplink => N3_V6,
                _ => UE_V6,
            };
            let host = match odd {
                OddFrame::ToAll => ALL_ROUTERS,
                _ => HOST_V6,
            };
            [ue.into(), host.into()]
        }
    }
}

/// The user's packet in a frame of its own.
fn user_frame(made: &Made) -> Vec<u8> {
    let [ue, host] = ends(made);
    let ends = [(ue, 40_000), (host, made.host_port)];
    // Into no tunnel, but to a UE.
    let (from, to) = match made.is_uplink && made.odd != OddFrame::NoTeid {
        true => (ends[0], ends[1]),
        false => (ends[1], ends[0]),
    };
    let l4 = if made.is_v6 { 40 } else { 20 };
    let mut frame = datagram(from, to, &vec![3; made.len.max(l4 + 20) - l4 - 8]);
    let ip = &mut frame[ETHERNET..];
    let is_marked = made.len == 64;
    if made.is_v6 {
        ip[6] = made.protocol;
        if is_marked {
            ip[..4].copy_from_slice(&[0x62, 0x80, 0, 7]);
        }
    } else {
        ip[9] = made.protocol;
        ip[1] = if is_marked { 0x28 } else { 0 };
    }
    if made.protocol == 6 {
        // Data offset, and flags: some open a connection, and offer a segment size.
        (ip[l4 + 12], ip[l4 + 13]) = (5 << 4, 0x10);
        if made.len == 300 {
            (ip[l4 + 12], ip[l4 + 13]) = (6 << 4, 2);
            ip[l4 + 20..l4 + 24].copy_from_slice(&[2, 4, 5, 0xb4]);
        }
    }
    match (made.odd, made.is_v6) {
        (OddFrame::Part, false) => ip[6] |= 0x20,
        (OddFrame::Options, false) => ip[0] = 0x46,
        // A first part; options for the receiver.
        (OddFrame::Part, true) => {
            ip[6] = 44;
            ip[40..48].copy_from_slice(&[made.protocol, 0, 0, 1, 0, 0, 0, 9]);
        }
        (OddFrame::Options, true) => {
            ip[6] = 60;
            ip[40..48].copy_from_slice(&[made.protocol, 0, 1, 4, 0, 0, 0, 0]);
        }
        _ => {}
    }
    if !made.is_v6
        && let Ok(mut view) = ipv4::View::parse(ip)
    {
        view.fill_checksum();
    }
    frame
}

pub(super) fn frame_of(made: &Made) -> Vec<u8> {
    let mut frame = user_frame(made);
    if made.is_uplink {
        let tunnel = Tunnel {
            teid: match made.odd {
                OddFrame::OtherTeid => 0x2000,
                OddFrame::NoTeid => 0,
                _ => TEID,
            },
            container: made.container,
        };
        let user = &frame[ETHERNET..];
        let mut message = vec![0; tunnel.len()];
        tunnel.emit(&mut message, MessageType::G_PDU, user.len());
        if made.has_sequence {
            message[0] |= 2;
        }
        message.extend_from_slice(user);
        let [from, to]: [IpAddr; 2] = match made.odd {
            OddFrame::InAnother => [GNB.into(), HOST.into()],
            OddFrame::OverV6 => [HOST_V6.into(), N3_V6.into()],
            OddFrame::TunnelToN4 => [GNB.into(), N4.into()],
            _ => [GNB.into(), N3.into()],
        };
        frame = datagram((from, gtpu::PORT), (to, gtpu::PORT), &message);
    }
    match made.odd {
        OddFrame::Padded => frame.extend_from_slice(&[0; 9]),
        OddFrame::Cut => frame.truncate(frame.len() - 1),
        _ => {}
    }
    frame
}
