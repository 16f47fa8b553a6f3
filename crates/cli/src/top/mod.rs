//! The live view of a chain: two statuses become rates, rates become lines, lines go to a terminal.
//!
//! - `rates`: what changed between two statuses, per second; pure.
//! - `history`: the last rates, as sparklines; pure.
//! - `columns`: tables as wide as there is room for; pure.
//! - `line`: letters and their colours.
//! - `frame`: rates as lines of a given size; pure.
//! - `terminal`: raw mode, keys, drawing; the only part that touches the world.

mod columns;
pub(crate) mod frame;
pub(crate) mod history;
mod line;
pub(crate) mod rates;
pub(crate) mod terminal;
