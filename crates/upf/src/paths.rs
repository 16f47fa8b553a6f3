//! GTP-U paths: whether the far ends of tunnels are there.
//!
//! Beside packets: sessions say which peers their FARs send to, time says which of them are to be
//! asked; `echoes` asks, and tells SMFs. Specification: TS 29.281 7.2.1; TS 23.527 5.2.
//!
//! Limits: the first [`PATH_COUNT_MAX`] paths, by interface and address, are asked; of those beyond
//! nothing is known.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::model::Session;

/// Most paths that are asked.
pub const PATH_COUNT_MAX: usize = 1024;

/// A path: an interface by its place, and the peer's address.
pub(crate) type End = (u8, IpAddr);

/// When paths are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoTerms {
    /// So long after an answer; 0 for never.
    pub interval_ns: u64,
    /// T3-RESPONSE: again after so long without one.
    pub t3_ns: u64,
    /// N3-REQUESTS: so often in all.
    pub n3: u32,
}

impl EchoTerms {
    /// Those of one of several shards, each of which asks the peers of its sessions: together not
    /// more often than one UPF may.
    #[must_use]
    pub(crate) const fn of_shards(self, count: u16) -> Self {
        Self {
            interval_ns: self.interval_ns.saturating_mul(count as u64),
            ..self
        }
    }
}

#[derive(Debug, Default)]
struct Path {
    /// Sessions that send into tunnels of it.
    sessions: u32,
    /// Requests without an answer.
    tries: u32,
    next_ns: u64,
    /// Number of the last request, which its repetitions have too.
    sequence: u16,
    is_down: bool,
    /// Whether SMFs have been told that it is down.
    is_told: bool,
}

/// All paths that sessions use, be they asked or not, and those that SMFs believe to be down.
#[derive(Debug)]
pub(crate) struct Paths {
    terms: EchoTerms,
    all: BTreeMap<End, Path>,
    sequence: u16,
    now_ns: u64,
    /// Before this nothing is due.
    next_ns: u64,
    /// How often a path has come or gone.
    changes: u64,
}

impl Paths {
    /// None yet.
    pub(crate) const fn new(terms: EchoTerms, now_ns: u64) -> Self {
        Self {
            terms,
            all: BTreeMap::new(),
            sequence: 0,
            now_ns,
            next_ns: u64::MAX,
            changes: 0,
        }
    }

    /// When a path that comes now is asked first.
    const fn first_ns(&self) -> u64 {
        match self.terms.interval_ns {
            0 => u64::MAX,
            interval_ns => self.now_ns.saturating_add(interval_ns),
        }
    }

    /// How often a path has come or gone.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    /// All paths, be they asked or not.
    pub(crate) fn ends(&self) -> impl Iterator<Item = End> + Clone + '_ {
        self.all.keys().copied()
    }

    /// A number for the next Echo Request.
    pub(crate) const fn next_sequence(&mut self) -> u16 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// A session uses these paths from now on, beside those that it used before.
    pub(crate) fn enter(&mut self, ends: &[End]) {
        let next_ns = self.first_ns();
        for end in ends {
            let path = self.all.entry(*end).or_insert_with(|| {
                self.changes += 1;
                Path {
                    next_ns,
                    ..Path::default()
                }
            });
            path.sessions += 1;
            self.next_ns = self.next_ns.min(path.next_ns);
        }
    }

    /// A session uses these paths no longer. One that SMFs believe to be down is asked on, so that
    /// they hear when it is there again.
    pub(crate) fn leave(&mut self, ends: &[End]) {
        for end in ends {
            if let Some(path) = self.all.get_mut(end) {
                path.sessions = path.sessions.saturating_sub(1);
                if path.sessions == 0 && !path.is_told {
                    self.changes += 1;
                    self.all.remove(end);
                }
            }
        }
    }

    /// Who is to be asked now, and with which number.
    pub(crate) fn check(&mut self, now_ns: u64) -> Vec<(End, u16)> {
        self.now_ns = now_ns;
        let mut due = Vec::new();
        if now_ns < self.next_ns {
            return due;
        }
        let asked = || 0..PATH_COUNT_MAX;
        let all = self.all.iter_mut().zip(asked());
        for ((end, path), _) in all.filter(|((_, path), _)| path.next_ns <= now_ns) {
            if path.tries < self.terms.n3 {
                if path.tries == 0 {
                    self.sequence = self.sequence.wrapping_add(1);
                    path.sequence = self.sequence;
                }
                path.tries += 1;
                path.next_ns = now_ns.saturating_add(self.terms.t3_ns);
                due.push((*end, path.sequence));
                continue;
            }
            // It is asked on, in case that it comes back.
            (path.tries, path.is_down) = (0, true);
            path.next_ns = now_ns.saturating_add(self.terms.interval_ns);
        }
        let nexts = self.all.values().zip(asked());
        let nexts = nexts.map(|(path, _)| path.next_ns);
        self.next_ns = nexts.min().unwrap_or(u64::MAX);
        due
    }

    /// When something is due, if ever.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        (self.next_ns != u64::MAX).then_some(self.next_ns)
    }

    /// An Echo Response.
    pub(crate) fn heard(&mut self, end: End, sequence: u16) {
        let path = self.all.get_mut(&end);
        let path = path.filter(|path| path.sequence == sequence && path.tries > 0);
        if let Some(path) = path {
            (path.tries, path.is_down) = (0, false);
            path.next_ns = self.now_ns.saturating_add(self.terms.interval_ns);
        }
    }

    /// Up to `count` paths of which SMFs do not know yet that they are down, or are there again.
    pub(crate) fn untold(&self, is_down: bool, count: usize) -> Vec<End> {
        let all = self.all.iter();
        let untold = all.filter(|(_, path)| path.is_down == is_down && path.is_told != is_down);
        untold.map(|(end, _)| *end).take(count).collect()
    }

    /// SMFs have been told of these paths.
    pub(crate) fn told(&mut self, ends: &[End], is_down: bool) {
        for end in ends {
            if let Some(path) = self.all.get_mut(end) {
                path.is_told = is_down;
                if path.sessions == 0 && !is_down {
                    self.changes += 1;
                    self.all.remove(end);
                }
            }
        }
    }

    /// Each path that is asked, how many sessions use it, and whether it is down.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&End, u32, bool)> {
        let all = self.all.iter().filter(|_| self.terms.interval_ns != 0);
        all.map(|(end, path)| (end, path.sessions, path.is_down))
    }

    /// Paths that SMFs believe to be down.
    pub(crate) fn believed_down(&self) -> Vec<End> {
        let down = self.all.iter().filter(|(_, path)| path.is_told);
        down.map(|(end, _)| *end).collect()
    }

    /// Goes on with what another UPF's SMFs believe.
    pub(crate) fn believe_down(&mut self, ends: impl Iterator<Item = End>) {
        if self.terms.interval_ns == 0 {
            return;
        }
        for end in ends {
            let next_ns = self.first_ns();
            let path = self.all.entry(end).or_insert_with(|| {
                self.changes += 1;
                Path {
                    next_ns,
                    ..Path::default()
                }
            });
            (path.is_down, path.is_told) = (true, true);
            self.next_ns = self.next_ns.min(path.next_ns);
        }
    }
}

/// The paths of a session's tunnels, each once.
pub(crate) fn ends(session: &Session) -> Vec<End> {
    let tunnels = session.fars.iter().filter(|far| far.is_tunnel());
    let ends = tunnels.filter_map(|far| Some((far.interface, far.peer()?)));
    let mut ends: Vec<End> = ends.collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}

#[cfg(test)]
mod tests;
