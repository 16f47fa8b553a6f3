//! A chain as the device under test: it is started for a trial, and ends with it.
//!
//! The chain has one port `traffic`, which offers the load, and one port `receiver`, which tells
//! what came back. Each trial starts the chain anew, in its own mode and placement: nothing of the
//! trial before is left in links, pools or NFs, and what depends on the luck of one start varies
//! between trials instead of passing for a property of the device. Counts are read from the files
//! that both ports write after the chain has drained and stopped.

mod baseline;
mod defaults;
mod describe;
mod foreign;
mod offer;
mod outcome;
mod probes;
mod probing;
mod profile;
mod rivals;
mod spent;
mod together;
mod under_test;
mod watch;
mod windows;

pub use baseline::{Baseline, Extremes, Own, rows as baseline_rows};
pub use offer::Offer;
pub use outcome::{Fate, LOOPS, Outcome};
pub use profile::TrialProfile;
pub use rivals::{RIVALS_MAX, rivals_text};
pub use spent::Spent;
pub use together::{Taken, Turns, take_turns};
pub use under_test::{Device, DeviceError, Setting};
