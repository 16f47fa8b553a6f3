//! One round: every setting once, own sides and peer in turn; what decides targets comes first, so
//! that `--quick` has it.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::time::Duration;

use super::super::Session;
use super::super::own::{OwnError, OwnHop, OwnLoaded, Packing, Trust};
use super::super::testpmd::{PeerMissing, Shape};
use super::{Figures, Load, Path, Plan, SMALL, TWO};

/// A load counts as carried if this share of it arrived.
const CARRIED_SHARE: f64 = 0.97;

/// Above this share of the rate at saturation no load is offered: queues would only fill.
const OFFERED_SHARE: f64 = 0.95;

/// Measures one round.
pub(super) fn round(session: &mut Session, plan: &Plan, figures: &mut Figures, round: u32) {
    session.progress(round, "one hop");
    for trust in [Trust::Shared, Trust::Ro, Trust::Copy] {
        hop(session, plan, figures, (SMALL, trust, Packing::Off));
    }
    for packing in [Packing::Auto, Packing::On] {
        hop(session, plan, figures, (SMALL, Trust::Shared, packing));
    }
    session.progress(round, "2 NFs");
    for packing in [Packing::Off, Packing::Io, Packing::Auto] {
        chain(session, plan, figures, (TWO, SMALL, packing));
    }
    session.progress(round, "2 NFs behind OVS-DPDK");
    switch(session, plan, figures, TWO);
    for &length in plan.process_lengths {
        session.progress(round, &format!("{length} NFs in processes behind OVS-DPDK"));
        let (seconds, cores) = (session.seconds, session.cores);
        let rate = session
            .testpmd
            .vswitch_processes(length, SMALL, seconds, cores);
        let series = figures.switch_processes.entry(length).or_default();
        series.push(rate.map(|rate| rate.mpps));
    }
    session.progress(round, "lone packets");
    lone(session, plan, figures);
    for path in plan.paths {
        session.progress(round, &format!("latency by load, {path}"));
        for packing in [Packing::Off, Packing::Auto] {
            latencies(session, plan, figures, *path, packing);
        }
    }
    for &size in plan.sizes.iter().filter(|size| **size != SMALL) {
        session.progress(round, &format!("{size} B"));
        for packing in [Packing::Off, Packing::Auto] {
            hop(session, plan, figures, (size, Trust::Shared, packing));
            chain(session, plan, figures, (TWO, size, packing));
        }
        if !session.extent.is_short() {
            chain(session, plan, figures, (TWO, size, Packing::Io));
        }
    }
    for &shape in plan.shapes {
        session.progress(round, &format!("{shape}"));
        for packing in [Packing::Off, Packing::Auto] {
            chain(session, plan, figures, (shape, SMALL, packing));
        }
        // With one NF, the first and the last link are all there are.
        if !session.extent.is_short() && shape != Shape::Line(1) {
            chain(session, plan, figures, (shape, SMALL, Packing::Io));
        }
        switch(session, plan, figures, shape);
    }
}

fn hop(
    session: &Session,
    plan: &Plan,
    figures: &mut Figures,
    key @ (size, trust, packing): (usize, Trust, Packing),
) {
    let what = format!("link --trust {trust} --size {size}");
    let outcome = session
        .own
        .packed(&what, packing, plan.seconds, session.cores);
    figures.hops.entry(key).or_default().push(outcome);
}

/// The command of a chain in processes.
fn chain_command(shape: Shape, size: usize) -> String {
    match shape {
        Shape::Line(length) => format!("chain --length {length} --size {size}"),
        Shape::Branch => format!("chain --shape branch --size {size}"),
    }
}

fn chain(
    session: &Session,
    plan: &Plan,
    figures: &mut Figures,
    key @ (shape, size, packing): (Shape, usize, Packing),
) {
    let what = chain_command(shape, size);
    let outcome = session
        .own
        .packed(&what, packing, plan.seconds, session.cores);
    figures.chains.entry(key).or_default().push(outcome);
}

/// The same packet work with nothing to pack: what being able to pack costs.
fn lone(session: &Session, plan: &Plan, figures: &mut Figures) {
    for packing in [Packing::Off, Packing::On] {
        let what = format!("link --trust shared --size {SMALL} --burst 1");
        let single = session
            .own
            .packed(&what, packing, plan.seconds, session.cores);
        figures.singles.entry(packing).or_default().push(single);
        let hop: Result<OwnHop, OwnError> =
            session
                .own
                .packed("hop", packing, plan.seconds, session.cores);
        let series = figures.lone.entry(packing).or_default();
        series.push(hop.map(|hop| hop.p50_ns));
    }
}

/// Saturation first: it says up to which rate a load makes sense.
fn latencies(session: &Session, plan: &Plan, figures: &mut Figures, path: Path, packing: Packing) {
    let command = match path {
        Path::Hop => format!("link --trust shared --size {SMALL}"),
        Path::Chain => chain_command(TWO, SMALL),
    };
    let run = |load: &str| -> Result<OwnLoaded, OwnError> {
        let what = format!("{command} {load}");
        session
            .own
            .packed(&what, packing, plan.seconds, session.cores)
    };
    let full = run("--latency");
    let most = full.as_ref().map_or(f64::INFINITY, |run| run.mpps * 1e6);
    let point = figures.latencies.entry((path, packing, Load::Full));
    point.or_default().push(full);
    for &rate in plan.rates {
        let offered = f64::from(rate);
        if offered > most * OFFERED_SHARE {
            break;
        }
        let point = figures.latencies.entry((path, packing, Load::Rate(rate)));
        let what = format!("--rate {rate}");
        let outcome = run(&what).and_then(|run| {
            let arrived = run.mpps * 1e6;
            if arrived >= offered * CARRIED_SHARE {
                return Ok(run);
            }
            Err(OwnError::new(
                format!("catena bench {command} {what}"),
                format!("{arrived:.0} packets per second arrived of {offered:.0}"),
            ))
        });
        point.or_default().push(outcome);
    }
}

/// A chain of the peer: its best rate at each size and, of two NFs, its latencies.
fn switch(session: &mut Session, plan: &Plan, figures: &mut Figures, shape: Shape) {
    let sizes = if shape == TWO { plan.sizes } else { &[SMALL] };
    let load_bursts = if shape == TWO { plan.load_bursts } else { &[] };
    let span = Duration::from_secs_f64(plan.switch_seconds);
    let mut chain = session.testpmd.vswitch_chain(shape, session.cores);
    let mut circulate = |size, burst| match &mut chain {
        Ok(chain) => chain.circulate(size, burst, span),
        Err(error) => Err(error.clone()),
    };
    for &size in sizes {
        // Of several numbers of packets in flight, the one that gives the most per second.
        let mut best: Option<Result<f64, PeerMissing>> = None;
        for &burst in plan.bursts {
            let rate = circulate(size, burst).map(|round| round.mpps);
            best = Some(match (best, rate) {
                (Some(Ok(best)), Ok(rate)) => Ok(best.max(rate)),
                (Some(Ok(best)), Err(_)) => Ok(best),
                (_, rate) => rate,
            });
        }
        let series = figures.switch.entry((shape, size)).or_default();
        if let Some(best) = best {
            series.push(best);
        }
    }
    for &burst in load_bursts {
        let round = circulate(SMALL, burst);
        let point = figures.switch_loads.entry(burst).or_default();
        point.mpps.push(round.clone().map(|round| round.mpps));
        point.mean_ns.push(round.map(|round| round.mean_ns));
    }
}
