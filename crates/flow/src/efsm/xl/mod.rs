//! XL, FlowBlaze's language, as documents.
//!
//! `catena flow import` and whoever has programs of FlowBlaze. All of XL's grammar is parsed; what
//! the model here has no place for is refused with its line: timers, stored packets, transitions
//! between stages, `packet.metadata`. What it means:
//!
//! - Stages are elements, `setFlowKey` and `setUpdateKey` their keys. Registers have 64 bits.
//! - Actions of a state and of an event come before those of the `if` that holds, or alone if none
//!   does. They run one after the other, in `serial` and outside it, as FlowBlaze's software does.
//!   Conditions see registers as they were before the packet.
//! - The state `any` stands behind each state: its events are looked at if the state's own `if`s do
//!   not hold.
//! - `sendPacket(255, n)` sends by the output `port_n`; port 0 drops as `no_port`. `pktRcvd.port`
//!   is the input, counted from 1. `currentTime` is in microseconds.
//! - The last `sendPacket` or `deletePacket` counts: an `if`'s takes the place of its state's.
//! - What is computed has 64 bits; a value that does not fit a field is refused, and never cut off.
//! - Fields of `packet.data` where those of an untagged Ethernet frame with IPv4 lie are these
//!   fields, so that checksums follow; others are bytes.
//!
//! What comes out is compiled at once, and what is wrong with it is told by the line of the XL
//! program that it comes from. Limits: 1 MiB per file, 32 files, 20,000 actions and conditions with
//! macros written out.

mod convert;
mod fields;
mod lexer;
mod parser;
mod terms;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

/// Why an XL program is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XlError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// What to write.
    pub repair: String,
}

impl XlError {
    fn new(file: &str, line: usize, message: impl Into<String>, repair: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            message: message.into(),
            repair: repair.into(),
        }
    }
}

impl fmt::Display for XlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:{}: error: {}", self.file, self.line, self.message)?;
        writeln!(f, "  repair: {}", self.repair)
    }
}

impl std::error::Error for XlError {}

/// Makes a document of an XL program. `read` gives the text of a file that it imports.
///
/// # Errors
/// The first thing that is wrong, that has no place in the model, or that makes no sound program.
pub fn import(
    file: &str,
    text: &str,
    read: impl FnMut(&str) -> Result<String, String>,
) -> Result<Value, XlError> {
    convert::convert(file, text, read)
}
