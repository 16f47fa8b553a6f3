// SPDX-License-Identifier: Apache-2.0
//! Room for parity: of every 31 vectors that the MAC sends, four idle ones are dropped, and the
//! receiver puts them back (IEEE 802.3 76.3.2.1, 76.3.3.7).
//!
//! Uncertain: which vectors may be dropped. Here, eight idles, and vectors that no block can carry.

use std::collections::VecDeque;

use crate::params::{DATA_BLOCKS, PARITY_BLOCKS, Params};
use crate::stage::{Progress, Stage};
use crate::xgmii::{Kind, Vector};

/// Drops idle vectors: four become due with every 27 that pass.
#[derive(Clone, Debug, Default)]
pub struct IdleDeletion {
    passed: usize,
    due: usize,
    due_max: usize,
}

impl IdleDeletion {
    /// Begins anew, as if so many vectors had passed: the opening idles of a burst.
    pub fn reset(&mut self, passed: usize) {
        (self.passed, self.due) = (passed, 0);
    }

    /// Vectors that passed since four became due.
    pub fn passed(&self) -> usize {
        self.passed
    }

    /// Vectors that are still to be dropped.
    pub fn due(&self) -> usize {
        self.due
    }

    /// The most vectors that were due at once.
    pub fn due_max(&self) -> usize {
        self.due_max
    }

    /// The vector, or none if it is dropped.
    pub fn step(&mut self, vector: Vector) -> Option<Vector> {
        let may_go = vector == Vector::IDLE || super::code_66::encode(vector).1 == Kind::Error;
        if may_go && self.due > 0 {
            self.due -= 1;
            return None;
        }
        self.passed += 1;
        if self.passed == DATA_BLOCKS {
            self.passed = 0;
            self.due += PARITY_BLOCKS;
            self.due_max = self.due_max.max(self.due);
        }
        Some(vector)
    }
}

impl Stage for IdleDeletion {
    type In = Vector;
    type Out = Vector;

    fn process(&mut self, input: &[Vector], output: &mut [Vector]) -> Progress {
        let mut progress = Progress::default();
        for vector in input {
            if progress.produced == output.len() {
                break;
            }
            progress.consumed += 1;
            if let Some(vector) = self.step(*vector) {
                output[progress.produced] = vector;
                progress.produced += 1;
            }
        }
        progress
    }
}

/// Puts idle vectors back, with the same delay for all: 31 vectors come out for 27 that go in, and
/// a FIFO lends what a frame needs while parity has its time (FSM_II of the task force's model).
///
/// Before each start and control vector the FIFO is filled up with idles, so that a start leaves it
/// after as many vectors as it holds. A MAC that leaves room for parity and whose frames wait for
/// idles that are due ([`IdleDeletion::due`]) then sees them come out as it sent them.
#[derive(Clone, Debug)]
pub struct IdleInsertion {
    fifo: VecDeque<Vector>,
    depth: usize,
    /// Vectors that came since parity had its time.
    passed: usize,
    /// Vectors that are to leave before the next comes.
    owed: usize,
}

impl IdleInsertion {
    /// For frames of the length that the parameters allow.
    pub fn new(params: &Params) -> Self {
        let depth = PARITY_BLOCKS * params.frame_len_with_fcs_max.div_ceil(8 * DATA_BLOCKS) + 1;
        Self {
            fifo: vec![Vector::IDLE; depth - 1].into(),
            depth,
            passed: 0,
            owed: 0,
        }
    }

    /// By how many vectors starts are delayed.
    pub fn delay(&self) -> usize {
        self.depth - 1
    }

    fn take(&mut self, vector: Vector) {
        let kind = super::code_66::encode(vector).1;
        if matches!(kind, Kind::Start | Kind::Control) {
            while self.fifo.len() + 1 < self.depth {
                self.fifo.push_back(Vector::IDLE);
            }
        }
        self.fifo.push_back(vector);
        self.passed += 1;
        self.owed += 1;
        if self.passed == DATA_BLOCKS {
            self.passed = 0;
            self.owed += PARITY_BLOCKS;
        }
    }
}

impl Default for IdleInsertion {
    fn default() -> Self {
        Self::new(&Params::default())
    }
}

impl Stage for IdleInsertion {
    type In = Vector;
    type Out = Vector;

    fn process(&mut self, input: &[Vector], output: &mut [Vector]) -> Progress {
        let mut progress = Progress::default();
        loop {
            while self.owed > 0 && progress.produced < output.len() {
                output[progress.produced] = self.fifo.pop_front().unwrap_or(Vector::IDLE);
                progress.produced += 1;
                self.owed -= 1;
            }
            let next = input.get(progress.consumed).filter(|_| self.owed == 0);
            let Some(vector) = next else {
                return progress;
            };
            self.take(*vector);
            progress.consumed += 1;
        }
    }
}
