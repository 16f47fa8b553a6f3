//! Flow programs: what an element of a pipeline does with packets and their flows, as data.
//!
//! A program is made by a front end, held to its rules once ([`verify`]),
//! and then run for each burst ([`run`]), by the interpreter or by compiled code.
//!
//! - [`ir`]: the representation: what front ends give and backends take. Begin here.
//! - [`verify`]: what every program must keep to.
//! - [`header`], [`field`]: where headers are, fields and the checksums over them.
//! - [`frame`], [`tunnel`]: bytes that change and grow.
//! - [`table`]: match-action tables. [`template`]: packets of a program's own making.
//! - [`env`](mod@env), [`interpret`]: what code works on, and what it means.
//! - [`layout`]: where state lies. [`run`]: bursts, flows and their ends.
//! - [`queue`]: what waits to be sent or told. [`trace`]: what one packet went through.

pub mod env;
pub mod field;
pub mod frame;
pub mod header;
pub mod interpret;
pub mod ir;
pub mod layout;
pub mod queue;
pub mod run;
mod store;
pub mod table;
pub mod template;
pub mod trace;
pub mod tunnel;
pub mod verify;

#[cfg(test)]
mod tests;
