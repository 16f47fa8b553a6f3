//! Workers that are to be started again: when, and what they wait for. `respawn` does it.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::supervisor::book::WrittenRespawn;
use crate::supervisor::clock::now;
use crate::supervisor::reclaim::Unit;

/// A worker to be started again.
#[derive(Debug)]
pub(super) struct Respawn {
    /// When.
    pub(super) due: Instant,
    /// Since when its packets wait.
    pub(super) since: Instant,
    /// How often in a row it died soon after its start.
    pub(super) quick_deaths: u32,
    /// Whether it is up again, and this entry only remembers its deaths.
    pub(super) is_up: bool,
    /// Buffers that must come home before it may make its pools anew.
    pub(super) waits_for: BTreeMap<Unit, u8>,
    /// When it was last looked for them.
    pub(super) looked: Option<Instant>,
}

/// As a former supervisor wrote them down: those that wait are due.
pub(super) fn read_back(written: &[WrittenRespawn]) -> BTreeMap<usize, Respawn> {
    let now = now();
    let entries = written.iter().map(|entry| {
        let respawn = Respawn {
            due: now,
            since: now,
            quick_deaths: entry.quick_deaths,
            is_up: entry.is_up,
            waits_for: entry.waits_for.iter().copied().collect(),
            looked: None,
        };
        (entry.worker, respawn)
    });
    entries.collect()
}
