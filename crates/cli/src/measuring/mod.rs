//! What the verbs of `catena measure` share: running trials that count, and writing their report.
//!
//! - [`bench`]: a trial is repeated until it says something of the device, and every one is noted.
//! - [`environment`]: the machine, the commands and the noise floor, for the report.
//! - [`output`]: the folder with the report.
//! - [`laboratory`]: trials of a study, each in its states, over its wires.
//! - [`probing`], [`probe_text`]: what probes found in trials, and how it is shown.
//! - [`power`], [`starts`], [`settled`]: rows on power, on how chains start, on steady state.
//! - [`row`]: chains that a measurement makes up.
//! - [`progress`]: what people see meanwhile.

pub(crate) mod bench;
pub(crate) mod environment;
pub(crate) mod laboratory;
pub(crate) mod output;
mod power;
pub(crate) mod probe_text;
pub(crate) mod probing;
pub(crate) mod progress;
pub(crate) mod row;
pub(crate) mod settled;
mod starts;
