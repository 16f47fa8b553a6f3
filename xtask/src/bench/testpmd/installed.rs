//! The installed program and what is known of it: its tunings, and what disturbed its runs.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use super::super::huge_pages::HugePages;
use super::super::install;
use super::super::work_dir::WorkDir;

/// Pages of 2 MB that the largest peer needs: a switch and its guests.
const HUGE_PAGES: u64 = 320;
/// The program, and the packages that hold it and its drivers on Debian and Ubuntu.
pub(super) const PROGRAM: &str = "dpdk-testpmd";
const PACKAGES: [&str; 2] = ["dpdk", "dpdk-dev"];

/// How a peer moves packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tuning {
    /// Packets per burst of its loop.
    pub(super) burst: u32,
    /// Binary logarithm of the descriptors of a ring.
    pub(super) log2_ring: u32,
}

/// What is tried for each peer and packet size; the first without trying where time is short.
pub(super) const TUNINGS: [Tuning; 5] = [
    Tuning {
        burst: 64,
        log2_ring: 10,
    },
    Tuning {
        burst: 32,
        log2_ring: 9,
    },
    Tuning {
        burst: 32,
        log2_ring: 10,
    },
    Tuning {
        burst: 64,
        log2_ring: 11,
    },
    Tuning {
        burst: 64,
        log2_ring: 12,
    },
];

impl Tuning {
    /// Options of testpmd, behind the `--`.
    pub(super) fn options(self) -> [String; 3] {
        let descriptors = 1 << self.log2_ring;
        [
            format!("--burst={}", self.burst),
            format!("--rxd={descriptors}"),
            format!("--txd={descriptors}"),
        ]
    }
}

/// How often other work took core time from a peer's runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Disturbance {
    pub(super) runs: u32,
    pub(super) disturbed: u32,
    pub(super) least_share: f64,
}

/// Starts testpmd peers; holds the directory of their sockets and logs.
#[derive(Debug)]
pub(crate) struct Testpmd {
    pub(super) work_dir: Rc<WorkDir>,
    /// No run may last beyond this time.
    pub(super) deadline: Option<Instant>,
    pub(super) installed: Result<(), String>,
    pub(super) runs: u32,
    pub(super) notes: Vec<String>,
    pub(super) disturbances: BTreeMap<&'static str, Disturbance>,
    /// The best of [`TUNINGS`], by peer and packet size.
    pub(super) tunings: BTreeMap<(&'static str, usize), Tuning>,
    /// Given back with this.
    _huge_pages: Option<HugePages>,
}

impl Testpmd {
    /// Finds testpmd, installing it where that is allowed.
    pub(crate) fn new(work_dir: Rc<WorkDir>) -> Self {
        let installed = install::require(PROGRAM, &PACKAGES, work_dir.path());
        let huge_pages = installed.is_ok().then(|| HugePages::reserve(HUGE_PAGES));
        Self {
            work_dir,
            deadline: None,
            installed,
            runs: 0,
            notes: Vec::new(),
            disturbances: BTreeMap::new(),
            tunings: BTreeMap::new(),
            _huge_pages: huge_pages.flatten(),
        }
    }
}
