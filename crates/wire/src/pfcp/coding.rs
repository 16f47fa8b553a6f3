// SPDX-License-Identifier: Apache-2.0
//! How the value of an IE is read and written, and what can be wrong with it.
//!
//! Specification: TS 29.244 (R17), 8.1. Each kind of value in [`value`](super::value) does this.

use crate::octets::{Ended, Octets, Pen};
use core::fmt::{self, Debug};

/// What is wrong with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// It ends before its fields do.
    Length,
    /// Its fields contradict each other, or have a reserved value.
    Value,
}

impl From<Ended> for Fault {
    fn from(_: Ended) -> Self {
        Self::Length
    }
}

/// How the value of an IE is read and written.
pub trait Value {
    /// The value, which may borrow from a message.
    type At<'a>: Copy + Debug + PartialEq;

    /// Reads the value. Octets behind its fields are a later release's and stay unread.
    ///
    /// # Errors
    /// What is wrong with it.
    fn read<'a>(octets: &mut Octets<'a>) -> Result<Self::At<'a>, Fault>;

    /// Writes the value.
    fn write(value: &Self::At<'_>, pen: &mut Pen<'_>);

    /// Shows the value in a trace.
    ///
    /// # Errors
    /// Those of `f`.
    fn show(value: &Self::At<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        value.fmt(f)
    }
}
