//! `bench chain`: the end-to-end rate of chains of 1, 2, 4 and 8 NFs at 64 bytes, by mode.
//!
//! - `inline`: time per packet and NF, at most 5 ns; beside it one testpmd core between two null
//!   ports, which also hands each packet through one forwarder.
//! - `thread`: rate, no target.
//! - `process`: rate beside a chain of as many memif forwarders that poll, both over two cores.
//!   Eight processes must reach 1 Mpps; pollers that share a core take turns by scheduler slices.
//!
//! SPDX-License-Identifier: Apache-2.0

use super::Session;
use super::own::Mode;
use super::report::{Row, Target};
use super::series::Series;

const PACKET_SIZE: usize = 64;

struct Figures {
    length: usize,
    /// Nanoseconds per packet and NF.
    inline: Series,
    thread: Series,
    process: Series,
    memif: Series,
}

/// Measures and adds the rows.
pub(super) fn run(session: &mut Session) {
    let lengths: &[usize] = if session.quick {
        &[1, 8]
    } else {
        &[1, 2, 4, 8]
    };
    let mut all: Vec<Figures> = lengths.iter().copied().map(Figures::new).collect();
    // Nanoseconds per packet.
    let mut null = Series::default();
    for round in 0..session.rounds {
        for figures in &mut all {
            session.progress(round, &format!("chains of {}", figures.length));
            measure(session, figures);
        }
        let rate = session
            .testpmd
            .null_forwarding(PACKET_SIZE, session.seconds, session.cores[0]);
        null.push(rate.map(|rate| 1000.0 / rate.mpps));
    }
    for figures in &all {
        add_rows(session, figures, &null);
    }
    session.note_range("testpmd null to null, 64 B", "ns per packet", &null);
    session.notes.push(
        "memif chain: generator, NFs and sink are a process each, dealt round-robin over the two \
         cores; the mean rate at the sink"
            .to_owned(),
    );
}

impl Figures {
    fn new(length: usize) -> Self {
        let [inline, thread, process, memif] = std::array::from_fn(|_| Series::default());
        Self {
            length,
            inline,
            thread,
            process,
            memif,
        }
    }
}

/// Own side and peer in turn, once.
fn measure(session: &mut Session, figures: &mut Figures) {
    let (length, seconds, cores) = (figures.length, session.seconds, session.cores);
    let own = |mode| session.own.chain(mode, length, PACKET_SIZE, seconds, cores);
    figures
        .process
        .push(own(Mode::Process).map(|rate| rate.mpps));
    let rate = session
        .testpmd
        .memif_chain(length, PACKET_SIZE, seconds, cores);
    figures.memif.push(rate.map(|rate| rate.mpps));
    figures.thread.push(own(Mode::Thread).map(|rate| rate.mpps));
    figures
        .inline
        .push(own(Mode::Inline).map(|rate| rate.ns_per_packet / length as f64));
}

fn add_rows(session: &mut Session, figures: &Figures, null: &Series) {
    let length = figures.length;
    let name = |mode: Mode| format!("chain of {length} {mode}, {PACKET_SIZE} B");
    let memif_name = format!("memif chain of {length}");
    let memif = Some((memif_name.as_str(), &figures.memif));
    let null = (length == 1).then_some(("testpmd null to null", null));
    let inline_target = Some(Target::AtMost(5.0));
    let process_target = (length == 8).then_some(Target::AtLeast(1.0));
    session.rows.extend([
        Row::new(
            name(Mode::Inline),
            "ns/packet/NF",
            &figures.inline,
            null,
            inline_target,
        ),
        Row::new(name(Mode::Thread), "Mpps", &figures.thread, memif, None),
        Row::new(
            name(Mode::Process),
            "Mpps",
            &figures.process,
            memif,
            process_target,
        ),
    ]);
    session.note_range(&name(Mode::Inline), "ns per packet and NF", &figures.inline);
    session.note_range(&name(Mode::Thread), "Mpps", &figures.thread);
    session.note_range(&name(Mode::Process), "Mpps", &figures.process);
    session.note_range(&memif_name, "Mpps", &figures.memif);
}
