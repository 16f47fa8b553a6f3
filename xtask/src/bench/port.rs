//! `cargo xtask bench port`: packets per second from one port to another, through `macswap` in one
//! loop on one core, by kind of port.
//!
//! - Without a device and without a kernel: a generator and a sink, which is what the loop itself
//!   costs; `dpdk` with net_null beside `dpdk-testpmd`, both ways.
//! - `dpdk` with net_memif beside testpmd, both ways; the other side is the same testpmd for both,
//!   on the other core, and counts.
//! - From one veth pair to another: `xdp` in both modes, `dpdk` with net_af_xdp, `packet_socket`,
//!   beside testpmd with net_af_xdp, an XDP program that redirects, and a bridge. The generator has
//!   the other core, and the kernel counts what comes out.
//! - `tap`, from one interface of the host to another.
//! - TCP between two hosts with their default offloads, by a veth pair alone, by packet sockets
//!   that carry segments and by TAPs that do.
//! - Bytes copied by Catena from AF_XDP through an NF in another process and out again: none.
//!
//! SPDX-License-Identifier: Apache-2.0

mod chain;
mod kernel;
mod lab;
mod sides;
mod tcp;

use super::Session;
use super::extent::Extent;
use super::report::{Row, Target};
use super::series::Series;
use sides::{Places, Side};
use tcp::Way;

/// A comparison: what is measured, beside whom, and what it must reach.
struct Comparison {
    own: Side,
    peer: Option<Side>,
    target: Option<f64>,
}

/// Each side once, in the order in which a round measures them: those that are compared stand
/// beside each other.
const SIDES: [Side; 15] = [
    Side::Floor,
    Side::Null,
    Side::TestpmdNull,
    Side::Memif,
    Side::TestpmdMemif,
    Side::XdpNative,
    Side::TestpmdAfXdp,
    Side::DpdkAfXdp,
    Side::RedirectNative,
    Side::XdpGeneric,
    Side::RedirectGeneric,
    Side::PacketSocket,
    Side::Bridge,
    Side::Tap,
    Side::Undisturbed,
];

const COMPARISONS: [Comparison; 11] = [
    compared(Side::Null, Side::TestpmdNull, Some(0.9)),
    compared(Side::Memif, Side::TestpmdMemif, Some(0.9)),
    compared(Side::DpdkAfXdp, Side::TestpmdAfXdp, Some(0.9)),
    compared(Side::XdpNative, Side::TestpmdAfXdp, Some(1.0)),
    compared(Side::XdpGeneric, Side::TestpmdAfXdp, None),
    compared(Side::XdpNative, Side::RedirectNative, None),
    compared(Side::XdpGeneric, Side::RedirectGeneric, None),
    compared(Side::XdpNative, Side::Bridge, None),
    compared(Side::PacketSocket, Side::Bridge, None),
    compared(Side::Tap, Side::Bridge, None),
    Comparison {
        own: Side::Floor,
        peer: None,
        target: None,
    },
];

const fn compared(own: Side, peer: Side, target: Option<f64>) -> Comparison {
    Comparison {
        own,
        peer: Some(peer),
        target,
    }
}

/// Part of the veth pair's rate that is called its speed.
const PART_OF_PAIR: f64 = 0.9;

/// Measures and adds the rows.
pub(super) fn run(session: &mut Session) {
    let mut places = Places::new(session);
    let mut all: [Series; SIDES.len()] = std::array::from_fn(|_| Series::default());
    let mut copied = Series::default();
    let mut tcp: [Series; Way::ALL.len()] = std::array::from_fn(|_| Series::default());
    for round in 0..session.rounds {
        for (side, series) in SIDES.iter().zip(&mut all) {
            session.progress(round, side.name());
            series.push(places.measure(*side, session));
        }
        session.progress(round, "copied bytes");
        copied.push(places.copied(session));
        for (way, series) in Way::ALL.iter().zip(&mut tcp) {
            session.progress(round, way.name());
            series.push(places.tcp(*way, session));
        }
    }
    add_rows(session, &all, &copied);
    add_tcp(session, &tcp);
}

/// Rows of the chains that carry, beside the pair.
fn add_tcp(session: &mut Session, [pair, chains @ ..]: &[Series; Way::ALL.len()]) {
    for (way, series) in Way::ALL[1..].iter().zip(chains) {
        let beside = Some((Way::Pair.name(), pair));
        let target = Some(Target::RatioAtLeast(PART_OF_PAIR));
        session
            .rows
            .push(Row::new(way.name(), "Gbit/s", series, beside, target));
    }
    for (way, series) in Way::ALL.iter().zip([pair].into_iter().chain(chains)) {
        session.note_range(way.name(), "Gbit/s", series);
    }
}

fn add_rows(session: &mut Session, all: &[Series; SIDES.len()], copied: &Series) {
    let of = |side: Side| {
        let at = SIDES.iter().position(|known| *known == side);
        at.map_or_else(Series::default, |at| all[at].clone())
    };
    for Comparison { own, peer, target } in &COMPARISONS {
        let series = of(*own);
        let peer = peer.map(|peer| (peer.name(), of(peer)));
        let beside = peer.as_ref().map(|(name, series)| (*name, series));
        let target = target.map(Target::RatioAtLeast);
        session
            .rows
            .push(Row::new(own.name(), "Mpps", &series, beside, target));
    }
    session.rows.push(Row::new(
        "bytes copied, xdp through an NF in a process",
        "B",
        copied,
        None,
        Some(Target::AtMost(0.0)),
    ));
    for (side, series) in SIDES.iter().zip(all) {
        let times = series.inverse(1e3);
        let metric = format!("time, {}", side.name());
        session
            .rows
            .push(Row::new(metric, "ns/packet", &times, None, None));
        session.note_range(side.name(), "Mpps", series);
    }
    if session.extent != Extent::Brief {
        session.notes.push(EXPLANATION.to_owned());
    }
}

const EXPLANATION: &str = "who forwards has one core, who sends and receives the other one; what \
    the kernel forwards by itself it does on the sender's core, so its figures hold the sending \
    too. net_null and net_memif: both ways added up, 64 B; all others: one way, 60 B without FCS. \
    \"nobody between\" is what the generator brings to an interface that nobody listens at";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_of_a_comparison_is_measured() {
        for Comparison { own, peer, .. } in &COMPARISONS {
            assert!(SIDES.contains(own), "{}", own.name());
            assert!(peer.is_none_or(|peer| SIDES.contains(&peer)));
        }
    }
}
