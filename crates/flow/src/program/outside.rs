//! Flows that are set or ended from outside: by an operator, or by whoever knows more than packets
//! say.
//!
//! Beside packets, between two bursts, so that packets meet all of a request or nothing of it. What
//! may fail comes first: all is checked, then entries are made, and taken back if one finds no room
//! (nobody gives way to them); only then registers are written. A kill in between leaves what was
//! done so far.

use std::sync::atomic::Ordering;

use crate::{Flow, Memory, Timeouts, raw};

use super::changes::{Teller, key_words};
use super::env::FlowWords;
use super::field::ones;
use super::ir::{Element, Flows};
use super::run::Running;
use super::sparing::unspare;

/// Flows that one request sets or ends, at most.
pub const OUTSIDE_COUNT_MAX: usize = 256;

/// A flow that is to have other registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSetting {
    /// Its key, in as many words as keys of the element have.
    pub key: Vec<u64>,
    /// Numbers of registers and what they become; others stay, and are zero in a new flow. Number 0
    /// is the label of the state, if there are states: it brings the state's timeouts.
    pub registers: Vec<(u8, u128)>,
}

/// Why nothing was done; places are those of the request's flows, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutsideError {
    /// There is no such element, or it has no flows.
    #[error("this element has no flows")]
    NoFlows,
    /// More than there may be in a request.
    #[error("{0} flows at once, at most {OUTSIDE_COUNT_MAX}: ask several times")]
    Count(usize),
    /// A key of another width.
    #[error("flow {0}: the key has another width")]
    Key(usize),
    /// A register that there is not, or a value that it cannot hold.
    #[error("flow {0}: there is no such register, or the value does not fit it")]
    Register(usize),
    /// The table has no room.
    #[error("flow {0}: the table is full, and nobody gives way to what is set from outside")]
    Full(usize),
    /// There is no flow of this key.
    #[error("flow {0}: there is none of this key")]
    Unknown(usize),
}

impl Flows {
    /// When a flow's time in a state is over.
    pub fn timeouts_in(&self, label: u64) -> Timeouts {
        let own = usize::try_from(label).ok();
        let own = own.and_then(|label| self.state_timeouts.get(label));
        own.copied().unwrap_or(self.timeouts)
    }

    fn holds(&self, setting: &FlowSetting) -> bool {
        setting.registers.iter().all(|(number, value)| {
            let register = self.registers.get(usize::from(*number));
            let is_state = *number == 0 && !self.states.is_empty();
            register.is_some_and(|one| *value <= ones(one.width))
                && (!is_state || *value < self.states.len() as u128)
        })
    }
}

impl<M: Memory> Running<M> {
    /// Sets registers of an element's flows, and makes those that there are not, used at `now_ns`.
    /// Gives how many were made.
    ///
    /// # Errors
    /// The first flow for which it cannot be; nothing has changed then.
    pub fn set_flows(
        &mut self,
        element: usize,
        settings: &[FlowSetting],
        now_ns: u64,
    ) -> Result<usize, OutsideError> {
        self.check(element, settings.iter().map(|one| &*one.key))?;
        let flows = self.described(element)?;
        if let Some(at) = settings.iter().position(|one| !flows.holds(one)) {
            return Err(OutsideError::Register(at));
        }
        let timeouts = flows.timeouts;
        let table = self.flows[element].as_mut().ok_or(OutsideError::NoFlows)?;
        let mut made: Vec<Flow> = Vec::new();
        for (at, setting) in settings.iter().enumerate() {
            if table.find(&setting.key).is_some() {
                continue;
            }
            match table.insert(&setting.key, timeouts, now_ns) {
                Ok(inserted) => made.push(inserted.flow()),
                Err(_) => {
                    made.into_iter().for_each(|flow| {
                        table.remove(flow);
                    });
                    return Err(OutsideError::Full(at));
                }
            }
        }
        for setting in settings {
            self.write(element, setting, now_ns);
        }
        Ok(made.len())
    }

    /// Ends flows of an element.
    ///
    /// # Errors
    /// The first key of which there is no flow; nothing has changed then.
    pub fn end_flows(
        &mut self,
        element: usize,
        keys: &[Vec<u64>],
        now_ns: u64,
    ) -> Result<(), OutsideError> {
        self.check(element, keys.iter().map(|key| &**key))?;
        let table = self.flows[element].as_mut().ok_or(OutsideError::NoFlows)?;
        if let Some(at) = keys.iter().position(|key| table.find(key).is_none()) {
            return Err(OutsideError::Unknown(at));
        }
        let teller = Teller::of(&self.loaded.program.elements[element], now_ns);
        for key in keys {
            // One that is named twice has ended.
            let Some(flow) = table.find(key) else {
                continue;
            };
            if let Some(teller) = teller {
                let from = teller.label(table.state_words(flow));
                teller.ended(&mut self.notices, key_words(key), from);
            }
            table.remove(flow);
        }
        Ok(())
    }

    fn described(&self, element: usize) -> Result<&Flows, OutsideError> {
        let element: Option<&Element> = self.loaded.program.elements.get(element);
        let flows = element.and_then(|element| element.flows.as_ref());
        flows.ok_or(OutsideError::NoFlows)
    }

    fn check<'k>(
        &self,
        element: usize,
        mut keys: impl ExactSizeIterator<Item = &'k [u64]>,
    ) -> Result<(), OutsideError> {
        let words = self.described(element)?.shape.key_words as usize;
        if keys.len() > OUTSIDE_COUNT_MAX {
            return Err(OutsideError::Count(keys.len()));
        }
        match keys.position(|key| key.len() != words) {
            Some(at) => Err(OutsideError::Key(at)),
            None => Ok(()),
        }
    }

    /// Writes registers of a flow that there is.
    fn write(&mut self, element: usize, setting: &FlowSetting, now_ns: u64) {
        let of = &self.loaded.program.elements[element];
        let (Some(table), Some(flows)) = (self.flows[element].as_mut(), &of.flows) else {
            return;
        };
        let Some(flow) = table.find(&setting.key) else {
            return;
        };
        let mut words = FlowWords::default();
        words.load(table.state_words(flow));
        for (number, value) in &setting.registers {
            if let Some(register) = flows.registers.get(usize::from(*number)) {
                words.set(register, *value);
            }
        }
        let label = setting
            .registers
            .iter()
            .rev()
            .find(|(number, _)| *number == 0);
        if let (Some((_, label)), false) = (label, flows.states.is_empty()) {
            table.set_timeouts(flow, flows.timeouts_in(*label as u64), now_ns);
        }
        unspare(table, flows, flow, &words);
        let teller = Teller::of(of, now_ns);
        let old = table.state_words(flow);
        let from = teller.map(|teller| teller.label(old));
        for (at, word) in old.iter().enumerate() {
            if words.written() >> at & 1 == 1 {
                // Pairs with the load in `FlowWords::load`.
                raw::store(word, words.over(at, word.load(Ordering::Relaxed)));
            }
        }
        if let (Some(teller), Some(from)) = (teller, from) {
            let labels = [from, teller.label(old)];
            teller.changed(&mut self.notices, key_words(&setting.key), labels);
        }
    }
}
