//! `bench link`: the rate of one link between two processes, one core each.
//!
//! Peers: memif (the receiver copies; both copy) and vhost-user with a packed ring. Targets hold
//! for 64-byte packets: in `shared` at least 4 times each peer, in `copy` at least twice; `copy`
//! is held against the faster memif too, which copies once less. Large packets have no target.
//!
//! SPDX-License-Identifier: Apache-2.0

use super::Session;
use super::own::Trust;
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

/// Measures and adds the rows.
pub(super) fn run(session: &mut Session) {
    let sizes: &[usize] = if session.quick { &[64] } else { &[64, 1500] };
    for &size in sizes {
        let figures = measure(session, size);
        add_rows(session, size, &figures);
    }
    let core = session.cores[0];
    let mut null = Series::default();
    session.progress(session.rounds - 1, "testpmd null ports, 64 B");
    let rate = session.testpmd.null_forwarding(64, session.seconds, core);
    null.push(rate.map(|rate| rate.mpps));
    session.rows.push(Row::new(
        "testpmd null to null, 64 B",
        "Mpps",
        &null,
        None,
        None,
    ));
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
    let target = |bound| (size == 64).then_some(Target::RatioAtLeast(bound));
    let rows = [
        (
            "shared",
            &figures.shared,
            MEMIF,
            &figures.memif,
            target(4.0),
        ),
        (
            "shared",
            &figures.shared,
            VHOST_USER,
            &figures.vhost_user,
            target(4.0),
        ),
        ("copy", &figures.copy, MEMIF, &figures.memif, target(2.0)),
        (
            "copy",
            &figures.copy,
            MEMIF_COPY,
            &figures.memif_copy,
            target(2.0),
        ),
        (
            "copy",
            &figures.copy,
            VHOST_USER,
            &figures.vhost_user,
            target(2.0),
        ),
        ("ro", &figures.ro, MEMIF, &figures.memif, None),
        ("ro", &figures.ro, VHOST_USER, &figures.vhost_user, None),
    ];
    for (trust, own, name, peer, target) in rows {
        let metric = format!("link {trust}, {size} B");
        session
            .rows
            .push(Row::new(metric, "Mpps", own, Some((name, peer)), target));
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
