//! What a UPF holds passes to the UPF that comes in its place (`catena apply`).
//!
//! Beside a packet's way, between two turns. Packets that are ready leave first, by the output of
//! the same name, as do those of the UPF's own making; those that are held for their UEs are asked
//! about again, in their order; parts wait for the rest of their packets, and parts of a packet
//! that is whole make it whole again. Requests to SMFs and answers are waited for and kept as
//! before.
//! What the new settings have no room for is dropped, and so is all that is held where a 5G VN
//! group has got another place: what is held of a group says its place.

use std::collections::VecDeque;

use catena_engine::nf::{HandOver, Kept, Nanos};

use super::UpfNf;
use super::parts::Origin;
use crate::held;
use crate::reassembly::{self, Part};
use crate::tunnel::Signal;
use crate::upf::Requests;

/// What goes with the tickets that a UPF hands over, in their order: first those that leave, then
/// those that are held for UEs, then parts.
#[derive(Debug)]
struct Note {
    /// Names of the outputs by which packets leave.
    leaving: Vec<String>,
    /// What the UPF itself says, with the names of outputs.
    signals: Vec<(String, Signal)>,
    requests: Requests,
    paged: Vec<held::Note>,
    paged_account: held::Account,
    parts: Vec<(Part, Origin)>,
    parts_account: reassembly::Account,
    ident: u32,
}

impl UpfNf {
    pub(super) fn give_up(&mut self) -> HandOver {
        let mut held = Vec::new();
        let mut leaving = Vec::new();
        let outputs = &self.outputs;
        for (kept, output) in self.leaving.drain(..) {
            let Some(name) = outputs.get(usize::from(output)) else {
                continue;
            };
            leaving.push(name.clone());
            held.push((Nanos(0), kept));
        }
        let mut paged = Vec::new();
        for (note, kept) in self.held.give_up() {
            held.push((Nanos(note.came_ns), kept));
            paged.push(note);
        }
        let mut parts = Vec::new();
        let mut parts_account = self.reassembly.account();
        for whole in self.whole.drain(..) {
            parts_account.packets -= 1;
            parts_account.joined -= whole.parts.len() as u64;
            for (part, (kept, origin)) in whole.parts {
                held.push((Nanos(0), kept));
                parts.push((part, origin));
            }
        }
        for (came_ns, part, (kept, origin)) in self.reassembly.give_up_all() {
            held.push((Nanos(came_ns), kept));
            parts.push((part, origin));
        }
        let signals = self.signals.drain(..).filter_map(|signal| {
            let name = outputs.get(usize::from(signal.interface))?;
            Some((name.clone(), signal))
        });
        let note = Note {
            leaving,
            signals: signals.collect(),
            requests: self.upf.give_up_requests(),
            paged,
            paged_account: self.held.account(),
            parts,
            parts_account,
            ident: self.ident,
        };
        HandOver {
            held,
            note: Some(Box::new(note)),
        }
    }

    /// Gives back what it cannot hold.
    pub(super) fn take(&mut self, handed: HandOver) -> Vec<(Nanos, Kept)> {
        let mut tickets = VecDeque::from(handed.held);
        let note = handed.note.and_then(|note| note.downcast::<Note>().ok());
        let Some(note) = note else {
            // It was no UPF's: nobody knows what they are.
            return tickets.into();
        };
        let mut rest = Vec::new();
        self.ident = note.ident;
        let outputs = &self.outputs;
        let place = |name: &String| {
            let output = outputs.iter().position(|one| one == name);
            output.and_then(|output| u8::try_from(output).ok())
        };
        for (name, signal) in note.signals {
            if let Some(interface) = place(&name) {
                self.signals.push_back(Signal {
                    interface,
                    ..signal
                });
            }
        }
        let knows_groups = self.upf.take_requests(note.requests);
        let leaving = drain(&mut tickets, note.leaving.len());
        for (name, (came, kept)) in note.leaving.iter().zip(leaving) {
            match place(name) {
                Some(output) => self.leaving.push_back((kept, output)),
                None => rest.push((came, kept)),
            }
        }
        self.held.begin_with(note.paged_account);
        let paged = drain(&mut tickets, note.paged.len());
        for (note, (came, kept)) in note.paged.into_iter().zip(paged) {
            let slot = note.slot;
            if !knows_groups {
                self.held.count_discarded();
                rest.push((came, kept));
                continue;
            }
            match self.held.take(note, kept) {
                None => {
                    // Its rules may have changed, or it was about to leave.
                    if self.upf.holding.insert(slot) {
                        self.flushing.push_back(slot);
                    }
                }
                Some(kept) => rest.push((came, kept)),
            }
        }
        self.reassembly.begin_with(note.parts_account);
        for ((part, origin), (came, kept)) in note.parts.into_iter().zip(tickets) {
            let whole = self.reassembly.add(part, (kept, origin), came.0);
            self.whole.extend(whole);
        }
        rest
    }
}

/// The first `count` of them.
fn drain(tickets: &mut VecDeque<(Nanos, Kept)>, count: usize) -> VecDeque<(Nanos, Kept)> {
    let rest = tickets.split_off(count.min(tickets.len()));
    std::mem::replace(tickets, rest)
}
