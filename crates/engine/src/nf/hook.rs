//! A function that a kind of NF may have beside its plan: for control requests, for shards.
//!
//! Beside packets, in the supervisor.

use std::fmt;

use serde_json::Value;

/// What the answers of all shards come to, for a configuration and a request that each has
/// answered; none if there is nothing that is of the node as a whole.
pub type Sum = fn(config: &Value, request: &Value, answers: &[&Value]) -> Option<Value>;

/// Whether, and how, a kind's answers are summed over shards.
pub type Sums = Hook<Sum>;

/// A function, if the kind has one. Of two plans of a kind it tells only whether both have it: a
/// kind has one at most.
#[derive(Clone, Copy)]
pub struct Hook<F>(pub Option<F>);

impl<F> Default for Hook<F> {
    fn default() -> Self {
        Self(None)
    }
}

impl<F> fmt::Debug for Hook<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hook").field(&self.0.is_some()).finish()
    }
}

impl<F> PartialEq for Hook<F> {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_some() == other.0.is_some()
    }
}

impl<F> Eq for Hook<F> {}
