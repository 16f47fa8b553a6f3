//! Huge pages for the peers, for as long as a benchmark runs.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::fs;

use super::super::machine::memory_info;

const PATH: &str = "/proc/sys/vm/nr_hugepages";

/// Pages of 2 MB that the largest peer needs: a switch and its guests.
const WANTED: u64 = 320;

/// Pages that were made here; given back when this is dropped.
#[derive(Debug)]
pub(super) struct HugePages {
    before: u64,
}

impl HugePages {
    /// Makes as many as are missing. None if there are enough, or this process may not; the kernel
    /// may find fewer.
    pub(super) fn reserve() -> Option<Self> {
        let free = memory_info("HugePages_Free")?;
        if free >= WANTED || memory_info("Hugepagesize") != Some(2048) {
            return None;
        }
        let before: u64 = fs::read_to_string(PATH).ok()?.trim().parse().ok()?;
        let wanted = before + WANTED - free;
        fs::write(PATH, wanted.to_string()).ok()?;
        Some(Self { before })
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        // Pages in use stay until they are free.
        let _ = fs::write(PATH, self.before.to_string());
    }
}
