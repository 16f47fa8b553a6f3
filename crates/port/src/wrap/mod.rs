//! Wrappers: ports that hold a port, listed under `wrap:` in a chain file, innermost first.
//!
//! Each does one thing to the packets that pass, leaves the rest to the port it holds, and adds its
//! counters to that port's. They nest in any order; the order matters: a `capture` inside a `fault`
//! shows what was really sent, one outside shows what the chain meant to send.

pub mod capture;
pub mod fault;
pub mod pace;
pub mod trace;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::capture::Direction;

/// Which packets a wrapper looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Directions {
    /// Received and sent ones.
    #[default]
    Both,
    /// Received ones.
    Rx,
    /// Sent ones.
    Tx,
}

impl Directions {
    const fn has(self, direction: Direction) -> bool {
        !matches!(
            (self, direction),
            (Self::Rx, Direction::Sent) | (Self::Tx, Direction::Received)
        )
    }
}
