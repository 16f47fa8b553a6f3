//! QoS monitoring of GTP-U paths: how long packets take to gNBs and other UPFs, told to SMFs.
//!
//! Beside packets, as `paths`: an SMF names paths in messages about its association (`control`);
//! each is asked by Echo Requests with each marking, an answer's delay is half of the round trip
//! (`measured`), and Node Report Requests tell of them (`reports`). Specification: TS 29.244
//! 7.4.4.1.3, 7.4.5.1.5; TS 23.501 5.33.3.3.
//!
//! Several associations that want to know of one path and marking share its Echo Requests. What is
//! wanted outlives a kill; what was measured does not, and begins anew.
//!
//! Limits: [`PROBES_MAX`] paths and markings are asked and [`MONITORS_MAX`] paths of associations
//! are followed, those of named peers first; of those beyond nothing is told. One is asked each
//! [`PROBE_NS`] and not while an answer is awaited, which is given up after [`ANSWER_NS`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use catena_wire::pfcp::value::flags::GtpUPathInterfaceType;

use crate::paths::{End, Paths};
use crate::rules::NONE;
use crate::settings::Settings;
use control::{PathControl, PathControls};
use measured::Monitor;

pub mod control;
mod measured;
mod reports;
#[cfg(test)]
mod tests;

/// Most paths with a marking that are asked.
pub const PROBES_MAX: usize = 1024;
/// Most paths that are followed, for each association that wants to know of them.
pub const MONITORS_MAX: usize = 4096;
/// From one Echo Request to the next one.
pub const PROBE_NS: u64 = 1_000_000_000;
/// For how long an answer is awaited: delays above half of it are measured as none.
pub const ANSWER_NS: u64 = 2_000_000_000;

/// Those that begin at once are asked so long after each other.
const APART_NS: u64 = PROBE_NS / PROBES_MAX as u64;
/// Least time between two looks at what is due.
const TICK_NS: u64 = 10_000_000;
/// Least time between two looks at which paths there are.
const LOOK_NS: u64 = 1_000_000_000;

/// A path with a DSCP.
type Probed = (End, u8);
/// A path as an association wants to know of it: by one of its control informations.
type Wanted = (End, u8, u8);

#[derive(Debug)]
struct Probe {
    next_ns: u64,
    /// Number of the Echo Request that waits for its answer, and when it left.
    sent: Option<(u16, u64)>,
}

/// All that is wanted to be known of paths.
#[derive(Debug)]
pub(crate) struct PathMonitors {
    /// By association.
    controls: BTreeMap<u8, PathControls>,
    probes: BTreeMap<Probed, Probe>,
    monitors: BTreeMap<Wanted, Monitor>,
    /// Those of which there is something to tell.
    news: BTreeSet<Wanted>,
    /// Before this nobody is asked.
    probe_ns: u64,
    /// Before this no period ends.
    period_ns: u64,
    /// How often paths had changed when they were last looked at, and when they may be next.
    looked: (u64, u64),
}

/// The flag of a path: what is on the side of access is N3, what is on that of core N9.
fn interface_type(settings: &Settings, (place, _): End) -> Option<GtpUPathInterfaceType> {
    match settings.interfaces.get(usize::from(place))?.side {
        0 => Some(GtpUPathInterfaceType::N3),
        1 => Some(GtpUPathInterfaceType::N9),
        _ => None,
    }
}

/// Whether an interface has an address from which a peer is asked.
fn reaches(settings: &Settings, (place, peer): End) -> bool {
    let interface = settings.interfaces.get(usize::from(place));
    interface.is_some_and(|one| match peer {
        IpAddr::V4(_) => one.v4.is_some(),
        IpAddr::V6(_) => one.v6.is_some(),
    })
}

impl PathMonitors {
    /// None yet.
    pub(crate) const fn new() -> Self {
        Self {
            controls: BTreeMap::new(),
            probes: BTreeMap::new(),
            monitors: BTreeMap::new(),
            news: BTreeSet::new(),
            probe_ns: u64::MAX,
            period_ns: u64::MAX,
            looked: (0, u64::MAX),
        }
    }

    /// What an association wants to know from now on, in place of all before.
    pub(crate) fn set(&mut self, association: u8, controls: &PathControls) {
        let before = match controls.as_slice().is_empty() {
            true => self.controls.remove(&association),
            false => self.controls.insert(association, *controls),
        };
        if before.as_ref() != Some(controls)
            && (before.is_some() || !controls.as_slice().is_empty())
        {
            self.looked.1 = 0;
        }
    }

    /// Takes note of which paths there are, if that or what is wanted may have changed.
    pub(crate) fn look(&mut self, paths: &Paths, settings: &Settings, now_ns: u64) {
        if self.controls.is_empty() && self.monitors.is_empty() {
            self.looked.1 = u64::MAX;
            return;
        }
        let (seen, next_ns) = self.looked;
        let is_changed = seen != paths.changes() || next_ns == 0;
        if !is_changed || now_ns < next_ns {
            return;
        }
        self.looked = (paths.changes(), now_ns.saturating_add(LOOK_NS));
        let mut before = std::mem::take(&mut self.monitors);
        for (end, association, at) in self.wanted(paths, settings) {
            let Some(control) = self.controls.get(&association) else {
                continue;
            };
            let control = control.as_slice()[usize::from(at)];
            let known = before.remove(&(end, association, at));
            let known = known.filter(|one| one.is_of(&control.terms, control.dscps()));
            let new = || Monitor::new(control.terms, control.dscps(), now_ns);
            let monitor = known.unwrap_or_else(new);
            self.monitors.insert((end, association, at), monitor);
        }
        let tells = |one: &Monitor| !one.news().is_empty();
        let monitors = &self.monitors;
        self.news.retain(|one| monitors.get(one).is_some_and(tells));
        self.look_at_probes(now_ns);
        let ends = self.monitors.values().filter_map(Monitor::next_ns);
        self.period_ns = ends.min().unwrap_or(u64::MAX);
    }

    /// Paths that are followed: those of named peers first, then those of interfaces, each once.
    fn wanted(&self, paths: &Paths, settings: &Settings) -> BTreeSet<Wanted> {
        let all = self.controls.iter().flat_map(|(association, controls)| {
            let controls = controls.as_slice().iter().zip(0_u8..);
            controls.map(|(control, at)| (*association, at, control))
        });
        let named = all.clone().flat_map(|(association, at, control)| {
            let ends = named(control, paths, settings);
            ends.into_iter().map(move |end| (end, association, at))
        });
        let of_interfaces = all.flat_map(|(association, at, control)| {
            let wanted = GtpUPathInterfaceType::from_bits(control.interfaces);
            let is_of = move |end: &End| {
                interface_type(settings, *end).is_some_and(|kind| wanted.contains(kind))
            };
            let ends = paths.ends().filter(is_of);
            ends.map(move |end| (end, association, at))
        });
        let mut found = BTreeSet::new();
        for one in named.chain(of_interfaces) {
            if found.len() == MONITORS_MAX {
                break;
            }
            if reaches(settings, one.0) {
                found.insert(one);
            }
        }
        found
    }

    /// Asks those from now on of which somebody wants to know, and no others.
    fn look_at_probes(&mut self, now_ns: u64) {
        let mut before = std::mem::take(&mut self.probes);
        let mut new = 0;
        for ((end, ..), monitor) in &self.monitors {
            if !monitor.wants_more() {
                continue;
            }
            for (dscp, ..) in monitor.shown() {
                let probed = (*end, dscp);
                if self.probes.contains_key(&probed) || self.probes.len() == PROBES_MAX {
                    continue;
                }
                let known = before.remove(&probed);
                let probe = known.unwrap_or_else(|| {
                    new += 1;
                    Probe {
                        next_ns: now_ns.saturating_add((new - 1) * APART_NS),
                        sent: None,
                    }
                });
                self.probes.insert(probed, probe);
            }
        }
        let nexts = self.probes.values().map(|one| one.next_ns);
        self.probe_ns = nexts.min().unwrap_or(u64::MAX);
    }

    /// Who is to be asked now, with which DSCP, and with which number.
    pub(crate) fn due(&mut self, paths: &mut Paths, now_ns: u64) -> Vec<(Probed, u16)> {
        let mut due = Vec::new();
        if now_ns < self.probe_ns {
            return due;
        }
        for (probed, probe) in &mut self.probes {
            if probe.next_ns <= now_ns {
                let sequence = paths.next_sequence();
                probe.sent = Some((sequence, now_ns));
                probe.next_ns = now_ns.saturating_add(ANSWER_NS);
                due.push((*probed, sequence));
            }
        }
        let nexts = self.probes.values().map(|one| one.next_ns);
        let next_ns = nexts.min().unwrap_or(u64::MAX);
        self.probe_ns = next_ns.max(now_ns.saturating_add(TICK_NS));
        due
    }

    /// An Echo Response: whether there is something new to tell.
    pub(crate) fn heard(&mut self, end: End, sequence: u16, now_ns: u64) -> bool {
        let mut all = self.probes.range_mut((end, 0)..=(end, u8::MAX));
        let waits = |one: &Probe| one.sent.is_some_and(|(number, _)| number == sequence);
        let Some(((_, dscp), probe)) = all.find(|(_, one)| waits(one)) else {
            return false;
        };
        let Some((_, sent_ns)) = probe.sent.take() else {
            return false;
        };
        probe.next_ns = sent_ns.saturating_add(PROBE_NS).max(now_ns);
        self.probe_ns = self.probe_ns.min(probe.next_ns);
        let us = now_ns.saturating_sub(sent_ns) / 2 / 1000;
        let its = (end, 0, 0)..=(end, u8::MAX, u8::MAX);
        let mut has_news = false;
        for (wanted, monitor) in self.monitors.range_mut(its) {
            if monitor.take(*dscp, us, now_ns) {
                self.news.insert(*wanted);
                has_news = true;
            }
        }
        has_news
    }

    /// Periods may have ended.
    pub(crate) fn wake(&mut self, now_ns: u64) {
        if now_ns < self.period_ns {
            return;
        }
        for (wanted, monitor) in &mut self.monitors {
            if monitor.wake(now_ns) {
                self.news.insert(*wanted);
            }
        }
        let ends = self.monitors.values().filter_map(Monitor::next_ns);
        let next_ns = ends.min().unwrap_or(u64::MAX);
        self.period_ns = next_ns.max(now_ns.saturating_add(TICK_NS));
    }

    /// When it is to be called again, if ever.
    pub(crate) fn next_ns(&self, paths: &Paths) -> Option<u64> {
        let (seen, look_ns) = self.looked;
        let is_changed = !self.controls.is_empty() && seen != paths.changes();
        let look_ns = (is_changed || look_ns == 0).then_some(look_ns);
        let all = [Some(self.probe_ns), Some(self.period_ns), look_ns];
        let all = all.into_iter().flatten();
        all.min().filter(|next_ns| *next_ns != u64::MAX)
    }
}

/// Paths to the peers that are named. One without an interface is that of sessions, or the first
/// one that reaches it.
fn named(control: &PathControl, paths: &Paths, settings: &Settings) -> Vec<End> {
    let of = |(interface, address): (u8, IpAddr)| {
        let of_sessions = || {
            let end = paths.ends().find(|(_, one)| *one == address);
            end.map(|(place, _)| place)
        };
        let first = || {
            settings.interface_of(|one| match address {
                IpAddr::V4(_) => one.v4.is_some(),
                IpAddr::V6(_) => one.v6.is_some(),
            })
        };
        let known = (interface != NONE).then_some(interface);
        let place = known.or_else(of_sessions).or_else(first);
        place.map(|place| (place, address))
    };
    control.peer_addresses().filter_map(of).collect()
}
