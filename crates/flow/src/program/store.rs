//! What becomes of flows: their registers are stored, entries made and ended.
//!
//! Behind an element's code for a packet, and beside packets when a flow's time is over. What was
//! written is put over the entry's words; words that were not written stay.

use crate::{Ended, Fate, Flow, FlowTable, Inserted, Memory, Timeouts};

use super::env::{Env, Globals, Outcome};
use super::header::Headers;
use super::interpret::Unwatched;
use super::ir::{Flows, WhenFull};
use super::run::{Decision, Loaded, Part, Running, run_code};

impl<M: Memory> Running<M> {
    /// Stores what a packet has written of its flow.
    pub(super) fn store(
        &mut self,
        element: usize,
        index: usize,
        flow: Option<Flow>,
        outcome: Outcome,
        now_ns: u64,
    ) {
        let (Some(table), Some(flows)) = (
            self.flows[element].as_mut(),
            self.loaded.program.elements[element].flows.as_ref(),
        ) else {
            return;
        };
        let count = table.shape().state_words as usize;
        let is_written = self.words.is_written(count);
        if !is_written && !outcome.forgets && outcome.timeouts.is_none() {
            return;
        }
        let words = table.shape().key_words as usize;
        let has_other = self.loaded.program.elements[element].update.is_some();
        let (key, flow) = if !has_other {
            (&self.keys[index][..words], flow)
        } else if self.places[index].has_update {
            let key = &self.updates[index][..words];
            (key, table.find(key))
        } else {
            return;
        };
        if outcome.forgets {
            self.has_removed |= flow.is_some_and(|flow| table.remove(flow));
            return;
        }
        let flow = match flow {
            Some(flow) => {
                if let Some(timeouts) = outcome.timeouts {
                    table.set_timeouts(flow, timeouts, now_ns);
                }
                flow
            }
            None if !is_written => return,
            None => {
                let timeouts = outcome.timeouts.unwrap_or(flows.timeouts);
                let mut has_evicted = false;
                let made = insert(table, flows, key, (timeouts, now_ns), || has_evicted = true);
                self.counts.evicted += u64::from(has_evicted);
                self.has_removed |= has_evicted;
                self.has_inserted = true;
                let Some(flow) = made else {
                    self.counts.not_stored += 1;
                    if flows.when_full == WhenFull::Drop {
                        let packet = &mut self.packets[index];
                        packet.decision = Some(Decision::FlowFull);
                        packet.is_done = true;
                    }
                    return;
                };
                flow
            }
        };
        for at in 0..count {
            if let Some(word) = self.words.merged(at, table.state(flow, at)) {
                table.set_state(flow, at, word);
            }
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
        let expired = table.expire(now_ns, budget, |ended: Ended<'_>| {
            self.counts.expired += 1;
            if code.blocks.is_empty() {
                return Fate::Remove;
            }
            self.words.load(count, |at| ended.entry.state(at));
            let slots = &mut slots[..code.slots.len()];
            slots[..program.metadata.len()].fill(0);
            let mut headers = Headers::default();
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
                    starts: global_starts,
                },
                tables,
                hash: &self.hash,
                outcome: Outcome::default(),
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
            let outcome = env.outcome;
            if let Some(count) = outcome
                .mark
                .and_then(|mark| marks.get_mut(usize::from(mark)))
            {
                *count += 1;
            }
            let stays = self.words.is_written(count) || outcome.timeouts.is_some();
            if outcome.forgets || !stays {
                return Fate::Remove;
            }
            for at in 0..count {
                if let Some(word) = self.words.merged(at, ended.entry.state(at)) {
                    ended.entry.set_state(at, word);
                }
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
    evicted: impl FnOnce(),
) -> Option<Flow> {
    let register = match flows.when_full {
        WhenFull::Drop | WhenFull::Pass => {
            return table.insert(key, timeouts, now_ns).ok().map(Inserted::flow);
        }
        WhenFull::EvictOldest => None,
        WhenFull::EvictLowest(register) | WhenFull::EvictHighest(register) => {
            flows.registers.get(usize::from(register))
        }
    };
    let is_highest = matches!(flows.when_full, WhenFull::EvictHighest(_));
    let score = |entry: &crate::Entry<'_>| {
        let Some(register) = register else {
            return Some(entry.used_ns());
        };
        let word = entry.state(usize::from(register.word)) >> register.shift;
        let value = word & super::field::ones(register.width) as u64;
        Some(if is_highest { !value } else { value })
    };
    let made = table.insert_choosing(key, timeouts, now_ns, score, |_, _| evicted());
    made.ok().map(Inserted::flow)
}
