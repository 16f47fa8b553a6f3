//! Huge pages for the peers and for large tables, for as long as a benchmark runs.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::fs;

use super::machine::memory_info;

const PATH: &str = "/proc/sys/vm/nr_hugepages";

/// Pages that were made here; given back when this is dropped.
#[derive(Debug)]
pub(super) struct HugePages {
    before: u64,
}

impl HugePages {
    /// Makes as many of 2 MB as are missing until so many are `wanted` and free. None if there are
    /// enough, or this process may not; the kernel may find fewer.
    pub(super) fn reserve(wanted: u64) -> Option<Self> {
        let free = memory_info("HugePages_Free")?;
        if free >= wanted || memory_info("Hugepagesize") != Some(2048) {
            return None;
        }
        let before: u64 = fs::read_to_string(PATH).ok()?.trim().parse().ok()?;
        fs::write(PATH, (before + wanted - free).to_string()).ok()?;
        Some(Self { before })
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        // Pages in use stay until they are free.
        let _ = fs::write(PATH, self.before.to_string());
    }
}
