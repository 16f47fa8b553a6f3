//! `bench link`: the rate of one link between two processes, one core each.
//!
//! The measure is the floor, bare loops that do the same work in the same round (see
//! [`super::floor`]), for 64-byte packets: time per packet at most so many times the floor's. Peers
//! stand beside it at their best: memif (the receiver copies; both copy) and vhost-user with a
//! packed ring, each by the burst and ring size that gives it most. Bundles are held against the
//! fastest memif. Large packets have no target.
//!
//! SPDX-License-Identifier: Apache-2.0

use super::Session;
use super::floor::Work;
use super::own::{Packing, Trust};
use super::report::{Row, Target};
use super::series::Series;
use super::testpmd::MemifCopy;

const MEMIF: &str = "memif zero-copy";
const MEMIF_COPY: &str = "memif";
const VHOST_USER: &str = "vhost-user packed ring";

#[derive(Default)]
struct Figures {
    shared: Series,
    ro: Series,
    copy: Series,
    memif: Series,
    memif_copy: Series,
    vhost_user: Series,
}

/// A link, and the floor beside it.
struct Beside {
    name: &'static str,
    options: &'static str,
    packing: Packing,
    /// What the floor does, and with how many packets in flight.
    floor: (Work, u64),
    /// How many times the floor's time it may take.
    bound: f64,
}

const BESIDE_FLOOR: [Beside; 4] = [
    Beside {
        name: "shared",
        options: "--trust shared",
        packing: Packing::Off,
        floor: (Work::Plain, 1024),
        bound: 1.4,
    },
    Beside {
        name: "ro",
        options: "--trust ro",
        packing: Packing::Off,
        floor: (Work::Plain, 1024),
        bound: 1.4,
    },
    Beside {
        name: "copy",
        options: "--trust copy",
        packing: Packing::Off,
        floor: (Work::Copy, 1024),
        bound: 1.5,
    },
    Beside {
        name: "shared, in bundles",
        options: "--trust shared",
        packing: Packing::On,
        floor: (Work::Bundle, 2048),
        bound: 1.6,
    },
];

/// Short windows of each link in a round.
const WINDOWS: u32 = 5;

/// Measures and adds the rows.
pub(super) fn run(session: &mut Session) {
    let sizes: &[usize] = if session.extent.is_short() {
        &[64]
    } else {
        &[64, 1500]
    };
    let floors = beside_floors(session);
    for &size in sizes {
        let figures = measure(session, size);
        add_rows(session, size, &figures);
        if size == 64 {
            add_bundles(session, &floors, &figures);
        }
    }
    let core = session.cores[0];
    let mut null = Series::default();
    for round in 0..session.rounds {
        session.progress(round, "testpmd null ports, 64 B");
        let rate = session.testpmd.null_forwarding(64, session.seconds, core);
        null.push(rate.map(|rate| rate.mpps));
    }
    session.rows.push(Row::new(
        "testpmd null to null, 64 B",
        "Mpps",
        &null,
        None,
        None,
    ));
}

/// Links and their floors in turn; adds the rows, and gives the links' times per packet.
fn beside_floors(session: &mut Session) -> [Series; 4] {
    let mut all: [[Series; 2]; 4] = Default::default();
    let windows = if session.extent.is_short() {
        2
    } else {
        WINDOWS
    };
    for round in 0..session.rounds {
        session.progress(round, "links beside bare loops");
        for (series, beside) in all.iter_mut().zip(BESIDE_FLOOR) {
            let what = format!("link {} --size 64", beside.options);
            let own = (what.as_str(), beside.packing);
            let [own, bare] = session.beside_floor(own, beside.floor, windows);
            series[0].push_median(own);
            series[1].push_median(bare);
        }
    }
    for ([own, bare], beside) in all.iter().zip(BESIDE_FLOOR) {
        let metric = format!("link {}, 64 B", beside.name);
        let target = Some(Target::RatioAtMost(beside.bound));
        let floor = beside.floor.0.to_string();
        let row = Row::new(&metric, "ns", own, Some((&floor, bare)), target);
        session.rows.push(row);
        session.note_range(&metric, "ns", own);
        session.note_range(&format!("  {floor}"), "ns", bare);
    }
    all.map(|[own, _]| own)
}

/// Bundles beside the fastest memif.
fn add_bundles(session: &mut Session, [.., bundles]: &[Series; 4], figures: &Figures) {
    let mpps = bundles.inverse(1000.0);
    let median = |series: &Series| series.median().unwrap_or(0.0);
    let fastest = if median(&figures.memif) >= median(&figures.memif_copy) {
        (MEMIF, &figures.memif)
    } else {
        (MEMIF_COPY, &figures.memif_copy)
    };
    let target = Some(Target::RatioAtLeast(3.0));
    let metric = "link shared, in bundles, 64 B";
    let row = Row::new(metric, "Mpps", &mpps, Some(fastest), target);
    session.rows.push(row);
}

/// Own side and peers in turn, `rounds` times.
fn measure(session: &mut Session, size: usize) -> Figures {
    let mut figures = Figures::default();
    let (seconds, cores) = (session.seconds, session.cores);
    for round in 0..session.rounds {
        session.progress(round, &format!("links of {size} B"));
        let own = |trust| {
            session
                .own
                .link(trust, size, seconds, cores)
                .map(|rate| rate.mpps)
        };
        let testpmd = &mut session.testpmd;
        figures.shared.push(own(Trust::Shared));
        let rate = testpmd.memif(size, seconds, cores, MemifCopy::Receiver);
        figures.memif.push(rate.map(|rate| rate.mpps));
        figures.copy.push(own(Trust::Copy));
        let rate = testpmd.memif(size, seconds, cores, MemifCopy::Both);
        figures.memif_copy.push(rate.map(|rate| rate.mpps));
        figures.ro.push(own(Trust::Ro));
        let rate = testpmd.vhost_user(size, seconds, cores);
        figures.vhost_user.push(rate.map(|rate| rate.mpps));
    }
    figures
}

fn add_rows(session: &mut Session, size: usize, figures: &Figures) {
    let rows = [
        ("shared", &figures.shared, MEMIF, &figures.memif),
        ("shared", &figures.shared, VHOST_USER, &figures.vhost_user),
        ("copy", &figures.copy, MEMIF, &figures.memif),
        ("copy", &figures.copy, MEMIF_COPY, &figures.memif_copy),
        ("copy", &figures.copy, VHOST_USER, &figures.vhost_user),
        ("ro", &figures.ro, MEMIF, &figures.memif),
        ("ro", &figures.ro, VHOST_USER, &figures.vhost_user),
    ];
    for (trust, own, name, peer) in rows {
        let metric = format!("link {trust}, {size} B");
        session
            .rows
            .push(Row::new(metric, "Mpps", own, Some((name, peer)), None));
    }
    let ranges = [
        ("link shared", &figures.shared),
        ("link copy", &figures.copy),
        ("link ro", &figures.ro),
        (MEMIF, &figures.memif),
        (MEMIF_COPY, &figures.memif_copy),
        (VHOST_USER, &figures.vhost_user),
    ];
    for (name, series) in ranges {
        session.note_range(&format!("{name}, {size} B"), "Mpps", series);
    }
}
