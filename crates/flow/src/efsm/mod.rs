//! EFSM documents: extended finite state machines as YAML, made into programs.
//!
//! A front end of [`program`](crate::program). A [`Document`] is what an author writes;
//! [`compile`] makes a program of it, or says all that is wrong, each with its path and what to
//! write instead. [`source`] gives paths their lines.

mod builder;
mod check;
mod compile;
mod element;
mod expression;
mod lower;
pub mod model;
mod names;
mod problem;
pub mod source;
mod statement;
mod syntax;

#[cfg(test)]
mod tests;

pub use compile::{Compiled, compile};
pub use model::Document;
pub use problem::Problem;
pub(crate) use compile::pattern_of as pattern;
