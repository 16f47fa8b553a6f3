//! What becomes of flows: their registers are stored, entries made and ended.
//!
//! Behind an element's code for a packet, and beside packets when a flow's time is over. What was
//! written is put over the entry's words; words that were not written stay.

use std::sync::atomic::Ordering;

use crate::{Ended, Entry, Fate, Flow, FlowTable, Inserted, Memory, Timeouts, raw};

use super::changes::{Teller, key_of, key_words};
use super::env::{Env, Outcome};
use super::globals::Globals;
use super::header::Headers;
use super::interpret::Unwatched;
use super::ir::{FlowRegister, Flows, WhenFull};
use super::queue::Notices;
use super::run::{Decision, Loaded, Part, Running, run_code};
use super::sparing::unspare;

/// How many packets before its own the memory is asked for in which a new flow takes another one's
/// place: the code of half of them takes about as long as memory does.
const AHEAD: usize = 4;

impl<M: Memory> Running<M> {
    /// Stores what a packet has written of its flow.
    #[inline]
    pub(super) fn store(
        &mut self,
        element: usize,
        index: usize,
        flow: Option<Flow>,
        outcome: &Outcome,
        now_ns: u64,
    ) {
        if self.words.is_written() || outcome.forgets || outcome.timeouts.is_some() {
            self.store_written(element, index, flow, outcome, now_ns);
        }
    }

    /// Asks for what later packets of the burst will evict from, if they have no flow either:
    /// lines that lie anywhere, for which each new flow would wait alone.
    #[inline(never)]
    pub(super) fn look_ahead(&self, element: usize, key: usize) {
        let flows = &self.loaded.program.elements[element].flows;
        let evicts = |flows: &Flows| !matches!(flows.when_full, WhenFull::Drop | WhenFull::Pass);
        let Some(table) = &self.flows[element] else {
            return;
        };
        if !table.is_full() || !flows.as_ref().is_some_and(evicts) {
            return;
        }
        let words = table.shape().key_words as usize;
        let new = |ahead: usize| {
            let at = key + ahead;
            let is_new = self.found[..self.key_count].get(at) == Some(&None);
            is_new.then(|| &self.keys[at * words..][..words])
        };
        if let Some(key) = new(AHEAD) {
            table.prefetch_candidates(key);
        }
        if let Some(key) = new(AHEAD / 2) {
            table.prefetch_neighbours(key);
        }
    }

    fn store_written(
        &mut self,
        element: usize,
        index: usize,
        flow: Option<Flow>,
        outcome: &Outcome,
        now_ns: u64,
    ) {
        let (Some(table), Some(flows)) = (
            self.flows[element].as_mut(),
            self.loaded.program.elements[element].flows.as_ref(),
        ) else {
            return;
        };
        let is_written = self.words.is_written();
        let words = table.shape().key_words as usize;
        let has_other = self.loaded.program.elements[element].update.is_some();
        let place = self.places[index];
        let (key, flow) = if !has_other {
            (&self.keys[usize::from(place.key) * words..][..words], flow)
        } else if place.has_update {
            let key = &self.updates[index][..words];
            (key, table.find(key))
        } else {
            return;
        };
        let teller = Teller::of(&self.loaded.program.elements[element], now_ns);
        if outcome.forgets {
            if let (Some(teller), Some(flow)) = (teller, flow) {
                let from = teller.label(table.state_words(flow));
                teller.ended(&mut self.notices, key_words(key), from);
            }
            self.has_removed |= flow.is_some_and(|flow| table.remove(flow));
            return;
        }
        let flow = match flow {
            Some(flow) => {
                if let Some(timeouts) = outcome.timeouts {
                    table.set_timeouts(flow, timeouts, now_ns);
                }
                unspare(table, flows, flow, &self.words);
                flow
            }
            None if !is_written => return,
            None => {
                let timeouts = outcome.timeouts.unwrap_or(flows.timeouts);
                let mut has_evicted = false;
                let made = insert(table, flows, key, (timeouts, now_ns), |entry| {
                    has_evicted = true;
                    if let Some(teller) = teller {
                        let from = teller.label(entry.state_words());
                        teller.ended(&mut self.notices, key_of(entry), from);
                    }
                });
                self.counts.evicted += u64::from(has_evicted);
                self.has_removed |= has_evicted;
                self.has_inserted = true;
                let Some(flow) = made else {
                    self.counts.not_stored += 1;
                    if matches!(flows.when_full, WhenFull::Drop | WhenFull::EvictOldestIn(_)) {
                        let packet = &mut self.packets[index];
                        packet.decision = Some(Decision::FlowFull);
                        packet.is_done = true;
                        self.emissions.withdraw();
                    }
                    return;
                };
                flow
            }
        };
        let mut written = self.words.written();
        let old = table.state_words(flow);
        let from = teller.map(|teller| teller.label(old));
        while written != 0 {
            let at = written.trailing_zeros() as usize;
            written &= written - 1;
            if let Some(word) = old.get(at) {
                // Pairs with the load in `FlowWords::load`.
                raw::store(word, self.words.over(at, word.load(Ordering::Relaxed)));
            }
        }
        if let (Some(teller), Some(from)) = (teller, from) {
            let labels = [from, teller.label(old)];
            teller.changed(&mut self.notices, key_words(key), labels);
        }
    }

    /// Ends flows of an element whose time is over, but looks at no more than `budget` of them.
    /// Gives whether more are due.
    pub fn expire(&mut self, element: usize, now_ns: u64, budget: u32) -> bool {
        let Loaded {
            program,
            compiled,
            tables,
            global_starts,
            marks,
            slots,
            ..
        } = &mut *self.loaded;
        let of = &program.elements[element];
        let (Some(table), Some(flows)) = (self.flows[element].as_mut(), &of.flows) else {
            return false;
        };
        let count = table.shape().state_words as usize;
        let code = &of.timeout;
        let teller = Teller::of(of, now_ns);
        let ends = |notices: &mut Notices, entry: &Entry<'_>| {
            if let Some(teller) = teller {
                let from = teller.label(entry.state_words());
                teller.ended(notices, key_of(entry), from);
            }
        };
        let expired = table.expire(now_ns, budget, |ended: Ended<'_>| {
            self.counts.expired += 1;
            if code.blocks.is_empty() {
                ends(&mut self.notices, &ended.entry);
                return Fate::Remove;
            }
            self.words.load(ended.entry.state_words());
            let slots = &mut slots[..code.slots.len()];
            slots[..program.metadata.len()].fill(0);
            let mut headers = Headers::default();
            let mut outcome = Outcome::default();
            let mut env = Env {
                program,
                frame: None,
                headers: &mut headers,
                now_ns,
                input: 0,
                is_found: true,
                is_full: false,
                registers: &flows.registers,
                flow: &mut self.words,
                globals: Globals {
                    words: self.globals.words(),
                    shared: self.shared.words(),
                    starts: global_starts,
                },
                tables,
                hash: &self.hash,
                outcome: &mut outcome,
                emissions: &mut self.emissions,
                notices: &mut self.notices,
            };
            let part = (element, Part::Timeout);
            run_code(
                code,
                part,
                compiled.as_deref_mut(),
                slots,
                &mut env,
                &mut Unwatched,
            );
            self.emissions.make(&program.templates);
            if let Some(count) = outcome
                .mark
                .and_then(|mark| marks.get_mut(usize::from(mark)))
            {
                *count += 1;
            }
            let stays = self.words.is_written() || outcome.timeouts.is_some();
            if outcome.forgets || !stays {
                ends(&mut self.notices, &ended.entry);
                return Fate::Remove;
            }
            let from = teller.map(|teller| teller.label(ended.entry.state_words()));
            let written = self.words.written();
            for at in (0..count).filter(|at| written >> at & 1 == 1) {
                let word = self.words.over(at, ended.entry.state(at));
                ended.entry.set_state(at, word);
            }
            if let (Some(teller), Some(from)) = (teller, from) {
                let labels = [from, teller.label(ended.entry.state_words())];
                teller.changed(&mut self.notices, key_of(&ended.entry), labels);
            }
            Fate::Keep(outcome.timeouts.unwrap_or(flows.timeouts))
        });
        expired.is_behind
    }

    /// When a flow's time is over next, in ns.
    pub fn next_expiry_ns(&self) -> Option<u64> {
        let tables = self.flows.iter().flatten();
        tables.filter_map(FlowTable::next_expiry_ns).min()
    }
}

fn insert<M: Memory>(
    table: &mut FlowTable<M>,
    flows: &Flows,
    key: &[u64],
    (timeouts, now_ns): (Timeouts, u64),
    evicted: impl FnOnce(&Entry<'_>),
) -> Option<Flow> {
    let made = match flows.when_full {
        WhenFull::Drop | WhenFull::Pass => table.insert(key, timeouts, now_ns),
        _ => {
            let score = |entry: &Entry<'_>| score(flows, entry);
            table.insert_sparing(key, timeouts, now_ns, score, |_, gone| evicted(&gone))
        }
    };
    made.ok().map(Inserted::flow)
}

/// Who has the lowest gives way; who has none never does, as [`Flows::sparing`] says to the table.
fn score(flows: &Flows, entry: &Entry<'_>) -> Option<u64> {
    let value = |register: u8| {
        let register = flows.registers.get(usize::from(register));
        register.map(|register| value_of(entry, register))
    };
    match flows.when_full {
        WhenFull::Drop | WhenFull::Pass => None,
        WhenFull::EvictOldest => Some(entry.used_ns()),
        WhenFull::EvictOldestIn(_) => {
            let label = flows.label_of(|word| entry.state(word));
            flows.gives_way(label).then(|| entry.used_ns())
        }
        WhenFull::EvictLowest(register) => value(register),
        WhenFull::EvictHighest(register) => value(register).map(|value| !value),
    }
}

/// A register of up to 64 bits of an entry.
fn value_of(entry: &Entry<'_>, register: &FlowRegister) -> u64 {
    let word = entry.state(usize::from(register.word)) >> register.shift;
    word & super::field::ones(register.width) as u64
}
