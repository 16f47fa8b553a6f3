//! GTP-U paths: whether the far ends of tunnels are there.
//!
//! Beside packets: sessions say which peers their FARs send to, time says which of them are to be
//! asked; `echoes` asks, and tells SMFs. Specification: TS 29.281 7.2.1; TS 23.527 5.2.
//!
//! Limits: [`PATH_COUNT_MAX`] paths are asked; of those beyond nothing is known.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::model::Session;

/// Most paths that are asked.
pub(crate) const PATH_COUNT_MAX: usize = 1024;

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

#[derive(Debug)]
struct Path {
    /// Sessions that send into tunnels of it.
    sessions: u32,
    /// Requests without an answer.
    tries: u32,
    next_ns: u64,
    sequence: u16,
    is_down: bool,
}

/// What is to be done about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// An Echo Request with this number.
    Ask(u16),
    /// It has failed.
    Failed,
}

/// All paths that sessions use.
#[derive(Debug)]
pub(crate) struct Paths {
    terms: EchoTerms,
    all: BTreeMap<End, Path>,
    sequence: u16,
    now_ns: u64,
    /// Before this nothing is due.
    next_ns: u64,
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
        }
    }

    /// A session uses these paths from now on, beside those that it used before.
    pub(crate) fn enter(&mut self, ends: &[End]) {
        if self.terms.interval_ns == 0 {
            return;
        }
        let next_ns = self.now_ns.saturating_add(self.terms.interval_ns);
        for end in ends {
            if let Some(path) = self.all.get_mut(end) {
                path.sessions += 1;
            } else if self.all.len() < PATH_COUNT_MAX {
                let path = Path {
                    sessions: 1,
                    tries: 0,
                    next_ns,
                    sequence: 0,
                    is_down: false,
                };
                self.all.insert(*end, path);
                self.next_ns = self.next_ns.min(next_ns);
            }
        }
    }

    /// A session uses these paths no longer.
    pub(crate) fn leave(&mut self, ends: &[End]) {
        for end in ends {
            if let Some(path) = self.all.get_mut(end) {
                path.sessions = path.sessions.saturating_sub(1);
                if path.sessions == 0 {
                    self.all.remove(end);
                }
            }
        }
    }

    /// What is due now.
    pub(crate) fn check(&mut self, now_ns: u64) -> Vec<(End, Due)> {
        self.now_ns = now_ns;
        let mut due = Vec::new();
        if now_ns < self.next_ns {
            return due;
        }
        for (end, path) in self
            .all
            .iter_mut()
            .filter(|(_, path)| path.next_ns <= now_ns)
        {
            if path.tries < self.terms.n3 {
                self.sequence = self.sequence.wrapping_add(1);
                (path.sequence, path.tries) = (self.sequence, path.tries + 1);
                path.next_ns = now_ns.saturating_add(self.terms.t3_ns);
                due.push((*end, Due::Ask(path.sequence)));
                continue;
            }
            // One that has failed is asked on, in case that it comes back.
            path.tries = 0;
            path.next_ns = now_ns.saturating_add(self.terms.interval_ns);
            if !path.is_down {
                path.is_down = true;
                due.push((*end, Due::Failed));
            }
        }
        let nexts = self.all.values().map(|path| path.next_ns);
        self.next_ns = nexts.min().unwrap_or(u64::MAX);
        due
    }

    /// When something is due, if ever.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        (self.next_ns != u64::MAX).then_some(self.next_ns)
    }

    /// An Echo Response; the path that is there again with it, if one had failed.
    pub(crate) fn heard(&mut self, from: IpAddr, sequence: u16) -> Option<End> {
        let mut all = self.all.iter_mut();
        let its = |(end, path): &(&End, &mut Path)| {
            end.1 == from && path.sequence == sequence && path.tries > 0
        };
        let (end, path) = all.find(its)?;
        path.tries = 0;
        path.next_ns = self.now_ns.saturating_add(self.terms.interval_ns);
        std::mem::take(&mut path.is_down).then_some(*end)
    }

    /// Each path, how many sessions use it, and whether it is down.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&End, u32, bool)> {
        let all = self.all.iter();
        all.map(|(end, path)| (end, path.sessions, path.is_down))
    }
}

/// The paths of a session's tunnels, each once.
pub(crate) fn ends(session: &Session) -> Vec<End> {
    let tunnels = session.fars.iter().filter(|far| far.headers != 0);
    let ends = tunnels.filter_map(|far| Some((far.interface, far.peer()?)));
    let mut ends: Vec<End> = ends.collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}

#[cfg(test)]
mod tests;
