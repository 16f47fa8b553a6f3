// SPDX-License-Identifier: Apache-2.0
//! Room for parity: of every 31 vectors that the MAC sends, four idle ones are dropped, and the
//! receiver puts them back (IEEE 802.3 76.3.2.1, 76.3.3.7).
//!
//! Uncertain: which vectors may be dropped. Here, eight idles, and vectors that no block can carry.

use crate::params::{DATA_BLOCKS, PARITY_BLOCKS};
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

/// Puts idle vectors back: four become due with every 27 that pass, and those due stand in front
/// of the next start or control vector.
#[derive(Clone, Debug, Default)]
pub struct IdleInsertion {
    passed: usize,
    due: usize,
}

impl Stage for IdleInsertion {
    type In = Vector;
    type Out = Vector;

    fn process(&mut self, input: &[Vector], output: &mut [Vector]) -> Progress {
        let mut progress = Progress::default();
        for &vector in input {
            let kind = super::code_66::encode(vector).1;
            let is_place = matches!(kind, Kind::Start | Kind::Control);
            while is_place && self.due > 0 && progress.produced < output.len() {
                output[progress.produced] = Vector::IDLE;
                progress.produced += 1;
                self.due -= 1;
            }
            if progress.produced == output.len() {
                break;
            }
            output[progress.produced] = vector;
            progress.produced += 1;
            progress.consumed += 1;
            self.passed += 1;
            if self.passed == DATA_BLOCKS {
                self.passed = 0;
                self.due += PARITY_BLOCKS;
            }
        }
        progress
    }
}
