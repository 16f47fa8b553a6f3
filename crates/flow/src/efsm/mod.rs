//! EFSM documents: extended finite state machines as YAML, made into programs.
//!
//! A front end of [`program`](crate::program). A [`Document`] is what an author writes;
//! [`compile`] makes a program of it, or says all that is wrong, each with its path and what to
//! write instead. [`source`] gives paths their lines.

mod builder;
mod check;
mod compile;
mod element;
pub mod explain;
mod expression;
pub mod graph;
mod key;
mod lower;
mod meters;
pub mod model;
mod names;
mod pattern;
mod problem;
pub mod source;
mod statement;
mod step;
mod syntax;
pub(crate) mod tables;

#[cfg(test)]
pub(crate) mod tests;
pub mod xl;

pub use compile::{Compiled, compile};
pub use model::Document;
pub(crate) use pattern::pattern_of as pattern;
pub use problem::Problem;
pub use tables::{hex, to_hex};
