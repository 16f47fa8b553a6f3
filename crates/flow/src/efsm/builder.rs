//! Code in the making: slots, operations, and blocks that are jumped to.
//!
//! Blocks are numbered in the order in which they are placed, and a label is placed behind all
//! jumps to it: so jumps go forward only.

use crate::program::ir::{Block, Code, End, Op, Slot, Value, Width};

/// Makes one piece of code.
#[derive(Debug)]
pub(super) struct Builder {
    slots: Vec<Width>,
    blocks: Vec<Block>,
    ops: Vec<Op>,
    /// Block of each label, once it is placed.
    labels: Vec<Option<u16>>,
    is_open: bool,
}

/// A place to jump to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label(u16);

impl Builder {
    pub(super) fn new(metadata: &[Width]) -> Self {
        Self {
            slots: metadata.to_vec(),
            blocks: Vec::new(),
            ops: Vec::new(),
            labels: Vec::new(),
            is_open: true,
        }
    }

    pub(super) fn slot(&mut self, width: Width) -> Slot {
        self.slots.push(width);
        (self.slots.len() - 1) as Slot
    }

    pub(super) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn op(&mut self, op: Op) {
        if self.is_open {
            self.ops.push(op);
        }
    }

    /// An operation that gives a value in a slot of its own.
    pub(super) fn value(&mut self, width: Width, op: impl FnOnce(Slot) -> Op) -> Value {
        let to = self.slot(width);
        self.op(op(to));
        Value::Slot(to)
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label((self.labels.len() - 1) as u16)
    }

    /// Ends the block at hand.
    pub(super) fn end(&mut self, end: End) {
        if self.is_open {
            let ops = std::mem::take(&mut self.ops);
            self.blocks.push(Block { ops, end });
            self.is_open = false;
        }
    }

    pub(super) fn jump(&mut self, to: Label) {
        self.end(End::Jump(to.0));
    }

    /// Goes to one of two labels by a value of one bit.
    pub(super) fn branch(&mut self, when: Value, [then, otherwise]: [Label; 2], note: Option<u16>) {
        let when = match when {
            Value::Slot(slot) => slot,
            Value::Const(..) => {
                let to = self.slot(1);
                self.op(Op::Set { to, from: when });
                to
            }
        };
        self.end(End::Branch {
            when,
            then: then.0,
            otherwise: otherwise.0,
            note,
        });
    }

    pub(super) fn switch(&mut self, on: Slot, cases: Vec<(u128, Label)>, default: Label) {
        let cases = cases.into_iter().map(|(value, to)| (value, to.0)).collect();
        self.end(End::Switch {
            on,
            cases,
            default: default.0,
        });
    }

    /// What follows is where this label leads.
    pub(super) fn place(&mut self, label: Label) {
        self.end(End::Jump(label.0));
        self.labels[usize::from(label.0)] = Some(self.blocks.len() as u16);
        self.is_open = true;
    }

    /// The code; all labels that are used have been placed.
    pub(super) fn finish(mut self) -> Code {
        self.end(End::Next);
        let labels = self.labels;
        let block = |label: &mut u16| {
            *label = labels[usize::from(*label)].unwrap_or(u16::MAX);
        };
        for Block { end, .. } in &mut self.blocks {
            match end {
                End::Jump(to) => block(to),
                End::Branch {
                    then, otherwise, ..
                } => {
                    block(then);
                    block(otherwise);
                }
                End::Switch { cases, default, .. } => {
                    cases.iter_mut().for_each(|(_, to)| block(to));
                    block(default);
                }
                End::Next | End::Done => {}
            }
        }
        Code {
            slots: self.slots,
            blocks: self.blocks,
        }
    }
}
