//! Users of the scripted SMF: what UEs and hosts of the data network send, and what reaches them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::scenario::{Expect, Flag, Packets};
use super::way::Way;
use super::{Known, Player, quic, tcp, wire};
use crate::advertisement::solicited;
use crate::headers::Tunnel;
use crate::reassembly::Part;

/// The link-local address of a UE that has no prefix yet.
const NEW_UE: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x99);

/// The tunnel into which packets are sent.
fn teid_of(packets: &Packets, known: &Result<Known, String>) -> Result<u32, String> {
    match (packets.teid, known) {
        (Some(teid), _) => Ok(teid),
        (None, Ok(known)) if packets.upf.is_some() => Ok(known.n9_teid),
        (None, Ok(known)) => Ok(known.teid),
        (None, Err(what)) => Err(what.clone()),
    }
}

/// The UE's address in its prefix.
fn in_prefix(prefix: Ipv6Addr) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(prefix.to_bits() | 0x99))
}

impl Player {
    /// The addresses of the UE and of the host that these packets are between.
    fn ends(&self, packets: &Packets, known: Option<Known>) -> Result<(IpAddr, IpAddr), String> {
        self.ends_of(packets.v6, packets.ue, known)
    }

    /// As `ends`, of packets of this version, or from this address.
    pub(super) fn ends_of(
        &self,
        v6: bool,
        ue: Option<IpAddr>,
        known: Option<Known>,
    ) -> Result<(IpAddr, IpAddr), String> {
        let is_v6 = v6 || ue.is_some_and(|ue| ue.is_ipv6());
        let known = known.unwrap_or_default();
        if is_v6 {
            let host = self.scenario.host_v6.ok_or("host_v6 is not given")?;
            let ue = ue.or(known.prefix.map(in_prefix));
            return Ok((ue.ok_or("the session has no prefix")?, IpAddr::V6(host)));
        }
        let ue = ue.or(known.ue.map(IpAddr::V4));
        let nobody = IpAddr::V4(Ipv4Addr::new(10, 255, 0, 1));
        Ok((ue.unwrap_or(nobody), IpAddr::V4(self.scenario.host)))
    }

    pub(super) fn uplink(&mut self, packets: &Packets) -> Result<Vec<Vec<u8>>, String> {
        let known = self.known(packets.session);
        let teid = teid_of(packets, &known)?;
        let (ue, host) = self.ends(packets, known.ok())?;
        let host = packets.peer.unwrap_or(host);
        let tunnel = self.uplink_tunnel(teid, packets)?;
        let frames = (0..packets.count).map(|_| {
            self.number += 1;
            let users = self.users((ue, wire::UE_PORT), (host, packets.port), packets);
            let tunnelled = users.iter().flat_map(|user| {
                let frame = wire::in_tunnel(&self.scenario, packets.upf, &tunnel, user);
                let outside = wire::in_parts(&frame[14..], packets.cut_outside, self.number);
                let kept = outside.len() - packets.lose.min(outside.len());
                outside
                    .into_iter()
                    .take(kept)
                    .map(|packet| wire::framed(&packet))
            });
            tunnelled.collect::<Vec<_>>()
        });
        Ok(frames.flatten().collect())
    }

    /// The packets that stand for one of a step: parts of it, or segments.
    fn users(&self, from: (IpAddr, u16), to: (IpAddr, u16), packets: &Packets) -> Vec<Vec<u8>> {
        let number = self.number;
        if let Some(frame) = wire::frame(packets, number) {
            return vec![frame];
        }
        if packets.answers.is_some_and(|rule| rule.alone) {
            return vec![Vec::new()];
        }
        if packets.opaque {
            return vec![wire::opaque(packets.bytes, number)];
        }
        if let Some(name) = &packets.quic {
            let initials = quic::initials(name, packets, number).into_iter();
            let packet = |bytes: Vec<u8>| wire::datagram(from, to, &bytes)[14..].to_vec();
            return initials.map(packet).collect();
        }
        let Some(data) = tcp::data(packets, number) else {
            let user = wire::user_packet(from, to, packets, number);
            return wire::in_parts(&user, packets.cut, number);
        };
        // None of them lies over another one.
        let mut sequence = number << 12;
        let confirmed = match packets.flag {
            Some(Flag::SynAck) => sequence | 1 << 31,
            _ => 1,
        };
        let segments = data.iter().map(|data| {
            let numbers = (sequence, confirmed, tcp::flags(packets));
            sequence = sequence.wrapping_add(data.len() as u32);
            tcp::segment(from, to, numbers, data)
        });
        segments.collect()
    }

    pub(super) fn downlink(&mut self, packets: &Packets) -> Result<Vec<Vec<u8>>, String> {
        let known = self.known(packets.session);
        let tunnel = match packets.upf {
            None => None,
            Some(_) => {
                let teid = teid_of(packets, &known)?;
                let Packets { qfi, rqi, ppi, .. } = *packets;
                Some(Tunnel::downlink(teid, qfi, rqi, ppi))
            }
        };
        let (ue, host) = self.ends(packets, known.ok())?;
        // Who wraps packets is of the version of the address to which it sends them.
        let router = match packets.around {
            Some(IpAddr::V6(_)) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            _ => IpAddr::V4(self.scenario.host),
        };
        let frames = (0..packets.count).map(|_| {
            self.number += 1;
            let users = self.users((host, packets.port), (ue, wire::UE_PORT), packets);
            let send = |user: Vec<u8>| match &tunnel {
                Some(tunnel) => wire::in_tunnel(&self.scenario, packets.upf, tunnel, &user),
                None if packets.frame.is_some() => user,
                None => match packets.around {
                    Some(dst) => wire::wrapped(router, dst, &user),
                    None => wire::framed(&user),
                },
            };
            users.into_iter().map(send).collect::<Vec<_>>()
        });
        Ok(frames.flatten().collect())
    }

    /// A Router Solicitation of a UE.
    pub(super) fn solicit(&mut self, session: u64) -> Result<Vec<Vec<u8>>, String> {
        let teid = self.known(session)?.teid;
        self.about = Some(session);
        let packet = wire::solicitation(NEW_UE, 255);
        let tunnel = Tunnel::uplink(teid, None);
        Ok(vec![wire::tunnelled(&self.scenario, &tunnel, &packet)])
    }

    /// Takes a fragment, which begins at `at` of what came; gives the packet that it makes whole.
    pub(super) fn join(&mut self, bytes: &[u8], at: usize, teid: u32) -> Option<Vec<u8>> {
        let part = Part::of(bytes, at, teid)?;
        let whole = self.parts.add(part, bytes.to_vec(), 0)?;
        let mut packet = Vec::new();
        let frames = whole.parts.iter().map(|(_, bytes)| &bytes[..]);
        whole.write(&mut packet, frames).then_some(packet)
    }

    fn told(&mut self, mtu: u32, teid: Option<u32>) -> Result<(), String> {
        let is_it = |one: &Expect| match one {
            Expect::TooBig {
                mtu: wanted,
                teid: of,
            } => (*wanted, *of) == (mtu, teid),
            _ => false,
        };
        let what = format!("that {mtu} bytes are too many, TEID {teid:?}");
        self.expect(is_it, &what).map(drop)
    }

    /// A packet that reached a user, out of a tunnel or plainly.
    pub(super) fn user_packet(&mut self, packet: &[u8], way: Way) -> Result<(), String> {
        let teid = way.teid;
        if let Some((prefixes, mtu)) = wire::advertised(packet) {
            return self.advertised(&prefixes, mtu, teid);
        }
        if solicited(packet).is_some() {
            let is_it = |one: &Expect| match one {
                Expect::Solicitation { teid, upf } => {
                    (way.teid, way.upf) == (Some(*teid), Some(*upf))
                }
                _ => false,
            };
            return self.expect(is_it, "a Router Solicitation").map(drop);
        }
        if let Some(browsed) = self.browsed(packet) {
            return browsed;
        }
        if let Some(size) = wire::offered(packet) {
            let is_it = |one: &Expect| match one {
                Expect::Segment {
                    size: wanted,
                    teid: of,
                } => (*wanted, *of) == (size, teid),
                _ => false,
            };
            let what = format!("a segment size of {size}, TEID {teid:?}");
            return self.expect(is_it, &what).map(drop);
        }
        if let Some(mtu) = wire::told_mtu(packet) {
            return self.told(mtu, teid);
        }
        let number = wire::number(packet).ok_or("a user's packet that nobody sent")?;
        let of_tunnel = |one: &Expect| match one {
            Expect::Packets(leaving) => {
                way.fits(leaving) && leaving.first.is_none_or(|first| first == number)
            }
            _ => false,
        };
        let at = self.expected.iter().position(of_tunnel);
        let what = format!("packet {number} by {way:?}");
        let at = at.ok_or_else(|| format!("nobody expected {what}"))?;
        let Some(Expect::Packets(leaving)) = self.expected.get_mut(at) else {
            return Ok(());
        };
        leaving.count = leaving.count.saturating_sub(1);
        leaving.first = leaving.first.map(|first| first + 1);
        if let Some(marked) = &mut leaving.marked {
            let left = marked.checked_sub(u32::from(self.is_marked));
            *marked = left.ok_or_else(|| format!("{what} is marked"))?;
        }
        if leaving.count > 0 {
            return Ok(());
        }
        let lacks_marks = leaving.marked.is_some_and(|left| left > 0);
        self.expected.remove(at);
        match lacks_marks {
            true => Err(format!("{what} is the last one, and too few are marked")),
            false => Ok(()),
        }
    }

    fn advertised(
        &mut self,
        found: &[Ipv6Addr],
        mtu: u32,
        teid: Option<u32>,
    ) -> Result<(), String> {
        let known = self.about.and_then(|session| self.known(session).ok());
        let own: Vec<Ipv6Addr> = known.and_then(|known| known.prefix).into_iter().collect();
        let is_it = |one: &Expect| match one {
            Expect::Advertisement {
                teid: of,
                mtu: wanted,
                prefixes,
            } => {
                let prefixes = if prefixes.is_empty() { &own } else { prefixes };
                teid == Some(*of) && mtu == *wanted && found == prefixes.as_slice()
            }
            _ => false,
        };
        let what = format!("an advertisement of {found:?}, MTU {mtu}, TEID {teid:?}");
        self.expect(is_it, &what).map(drop)
    }
}
