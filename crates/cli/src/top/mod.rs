//! The live view of a chain: two statuses become rates, rates become lines, lines go to a terminal.
//!
//! - `rates`: what changed between two statuses, per second; pure.
//! - `frame`: rates as lines of a given size; pure.
//! - `terminal`: raw mode, keys, drawing; the only part that touches the world.

pub(crate) mod frame;
pub(crate) mod rates;
pub(crate) mod terminal;
