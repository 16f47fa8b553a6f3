//! The table: every setting beside what it is to be compared with, and the targets.
//!
//! SPDX-License-Identifier: Apache-2.0

use super::super::Session;
use super::super::own::{Packing, Trust};
use super::super::report::{Row, Target};
use super::super::series::Series;
use super::super::testpmd::Shape;
use super::{Figures, Load, Path, Point, SMALL, TWO};

const MPPS: &str = "Mpps";
const SWITCH: &str = "OVS-DPDK, one thread";
const SWITCH_PROCESSES: &str = "OVS-DPDK, processes";

/// Latency with packing may not exceed that without up to this load, in packets per second.
const LOW_LOAD: u32 = 1_000_000;

/// Adds the rows, and the ranges over rounds as notes.
pub(super) fn add(session: &mut Session, figures: &Figures) {
    let mut table = Table {
        session,
        none: Series::default(),
    };
    table.hops(figures);
    table.chains(figures);
    table.latencies(figures);
    table.lone(figures);
}

struct Table<'a> {
    session: &'a mut Session,
    /// Stands for what was not tried.
    none: Series,
}

impl Table<'_> {
    fn row(
        &mut self,
        metric: String,
        unit: &'static str,
        own: &Series,
        peer: Option<(&str, &Series)>,
        target: Option<Target>,
    ) {
        let range = own.note(&metric, unit);
        let peer_range = peer.and_then(|(name, series)| series.note(&format!("  {name}"), unit));
        self.session
            .notes
            .extend(range.into_iter().chain(peer_range));
        self.session
            .rows
            .push(Row::new(metric, unit, own, peer, target));
    }

    fn hops(&mut self, figures: &Figures) {
        // The honest baseline: whichever trust is fastest without packing.
        let of = |trust| figures.hops.get(&(SMALL, trust, Packing::Off));
        let rate = |trust| of(trust).and_then(|point| point.mpps.median());
        let best = [Trust::Shared, Trust::Ro, Trust::Copy]
            .into_iter()
            .max_by(|a, b| rate(*a).unwrap_or(0.0).total_cmp(&rate(*b).unwrap_or(0.0)));
        for (&(size, trust, packing), point) in &figures.hops {
            let metric = format!("one hop, {size} B, {trust}, {packing}");
            let base = if size == SMALL {
                best
            } else {
                Some(Trust::Shared)
            };
            let base = base.and_then(|trust| {
                let point = figures.hops.get(&(size, trust, Packing::Off))?;
                Some((format!("{trust}, off"), &point.mpps))
            });
            let peer = (packing != Packing::Off).then_some(base).flatten();
            let peer = peer.as_ref().map(|(name, series)| (name.as_str(), *series));
            let is_judged = size == SMALL && packing == Packing::Auto;
            let target = is_judged.then_some(Target::RatioAtLeast(1.7));
            self.row(metric.clone(), MPPS, &point.mpps, peer, target);
            self.packing(&metric, point);
        }
    }

    fn chains(&mut self, figures: &Figures) {
        for (&(shape, size, packing), point) in &figures.chains {
            let metric = format!("{shape}, {size} B, {packing}");
            let off = figures.chains.get(&(shape, size, Packing::Off));
            let off = off.map_or(&self.none, |point| &point.mpps).clone();
            let is_judged = (shape, size, packing) == (TWO, SMALL, Packing::Auto);
            let target = |bound| is_judged.then_some(Target::RatioAtLeast(bound));
            let peer = (packing != Packing::Off).then_some(("off", &off));
            self.row(metric.clone(), MPPS, &point.mpps, peer, target(1.5));
            self.packing(&metric, point);
            if packing != Packing::Auto {
                continue;
            }
            if let Some(switch) = figures.switch.get(&(shape, size)) {
                let peer = Some((SWITCH, switch));
                self.row(metric.clone(), MPPS, &point.mpps, peer, target(10.0));
            }
            if let Shape::Line(length) = shape
                && size == SMALL
                && let Some(switch) = figures.switch_processes.get(&length)
            {
                let peer = Some((SWITCH_PROCESSES, switch));
                self.row(metric, MPPS, &point.mpps, peer, target(10.0));
            }
        }
    }

    /// How packets travelled, where that was counted.
    fn packing(&mut self, metric: &str, point: &Point) {
        if point
            .bundled_share
            .median()
            .is_none_or(|share| share == 0.0)
        {
            return;
        }
        let share = format!("{metric}: share in bundles");
        self.row(share, "of packets", &point.bundled_share, None, None);
        let each = format!("{metric}: packets per bundle");
        self.row(each, "packets", &point.packets_per_bundle, None, None);
    }

    fn latencies(&mut self, figures: &Figures) {
        for (&(path, packing, load), point) in &figures.latencies {
            if packing != Packing::Auto {
                continue;
            }
            let at = match load {
                Load::Full => "at saturation".to_owned(),
                Load::Rate(rate) => format!("at {} Mpps", f64::from(rate) / 1e6),
            };
            let off = figures.latencies.get(&(path, Packing::Off, load));
            let off = off.cloned().unwrap_or_default();
            let (median_target, tail_target) = match load {
                Load::Full => (Some(Target::RatioAtMost(1.0)), None),
                Load::Rate(rate) if rate <= LOW_LOAD => (None, Some(Target::RatioAtMost(1.0))),
                Load::Rate(_) => (None, None),
            };
            let metric = |what: &str| format!("{path}, {at}, {what}, auto");
            let peer = Some(("off", &off.p50_ns));
            self.row(metric("p50"), "ns", &point.p50_ns, peer, median_target);
            let peer = Some(("off", &off.p99_ns));
            self.row(metric("p99"), "ns", &point.p99_ns, peer, tail_target);
            self.packing(&format!("{path}, {at}, auto"), point);
        }
        // The lightest load of each side: the peer's is one packet in flight per port.
        let lightest = figures
            .latencies
            .iter()
            .find(|((path, packing, _), _)| (*path, *packing) == (Path::Chain, Packing::Auto));
        if let Some(((.., Load::Rate(rate)), own)) = lightest {
            let metric = format!("2 NFs, at {} Mpps, mean, auto", f64::from(*rate) / 1e6);
            let peer = figures.switch_loads.first_key_value();
            let peer = peer.map(|(_, point)| (SWITCH, &point.mean_ns));
            self.row(metric, "ns", &own.mean_ns, peer, None);
        }
        for (burst, point) in &figures.switch_loads {
            let rate = point.mpps.median().unwrap_or(0.0);
            let metric = format!(
                "OVS-DPDK, 2 NFs, {burst} packets per port in flight ({rate:.2} Mpps), mean"
            );
            self.row(metric, "ns", &point.mean_ns, None, None);
        }
    }

    fn lone(&mut self, figures: &Figures) {
        let target = Some(Target::RatioAtMost(1.03));
        let single = |packing| {
            let point = figures.singles.get(&packing);
            point
                .map(|point| point.ns_per_packet.clone())
                .unwrap_or_default()
        };
        let lone = |packing| figures.lone.get(&packing).cloned().unwrap_or_default();
        for (metric, of) in [
            (
                "one hop, bursts of one packet, on",
                &single as &dyn Fn(Packing) -> Series,
            ),
            ("one hop, lone packets, p50, on", &lone),
        ] {
            let (on, off) = (of(Packing::On), of(Packing::Off));
            let unit = if metric.contains("p50") {
                "ns"
            } else {
                "ns/packet"
            };
            self.row(metric.to_owned(), unit, &on, Some(("off", &off)), target);
        }
    }
}
