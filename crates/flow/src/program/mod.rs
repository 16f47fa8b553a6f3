//! Flow programs: what an element of a pipeline does with packets and their flows, as data.
//!
//! A program is made by a front end, held to its rules once ([`verify`]),
//! and then run for each burst ([`run`]), by the interpreter or by compiled code.
//!
//! - [`ir`]: the representation: what front ends give and backends take. Begin here.
//! - [`verify`]: what every program must keep to.
//! - [`header`], [`field`]: where headers are, fields and the checksums over them.
//! - [`frame`], [`tunnel`]: bytes that change and grow.
//! - [`table`], [`entries`]: match-action tables, and what changes them.
//! - [`template`]: packets of a program's own making.
//! - [`env`](mod@env), [`interpret`]: what code works on, and what it means.
//! - [`layout`]: where state lies. [`run`]: bursts, flows and their ends. [`outside`]: flows that
//!   somebody sets.
//! - [`keys`]: keys alone, for whoever sends to shards.
//! - [`mirror`]: packets as they came. [`queue`]: what waits to be sent or told. [`trace`],
//!   [`value`], [`kind`]: what one packet went through, and how values print.
//!
//! # Writing a backend
//!
//! A backend makes of each piece of [`ir::Code`] whatever does what [`interpret::run`] does, and
//! gives it out as [`run::Compiled`] (which may make keys without an [`env::Env`], or leave that to
//! its other method); [`nf::set_compiler`](crate::nf::set_compiler) makes the NF
//! use it.
//!
//! - Code begins at block 0 with all slots set: metadata as the packet carries it, the others zero;
//!   metadata alone stands in memory so, the others count as zero whatever stands there.
//!   Behind it, metadata must stand in its slots again; for a key, the slots of
//!   [`ir::Key::present`] and [`ir::Key::parts`] too. Others are nobody's.
//! - Arithmetic is that of [`ir::Binary`] and [`ir::Unary`] ([`arithmetic`]), at the width of the
//!   first argument. Every value stays below 2^width. Jumps go forward, so blocks can be laid out
//!   in their order.
//! - Operations that are more than arithmetic have a method of [`env::Env`] each, of the same name.
//!   Calling these is right for all of them; [`ir::Op::Field`], [`ir::Op::Flow`],
//!   [`ir::Op::SetFlow`], [`ir::Op::Fact`] and [`ir::Op::Valid`] are those worth doing in line.
//!   [`ir::Op::Verdict`], `Clone`, `Mirror`, `Timeouts`, `Forget` and `Mark` set a member of
//!   [`env::Outcome`].
//! - Words of [`ir::Scope::Shared`] registers are written by other shards at any time: each read
//!   is one atomic load, each write one atomic store, and [`ir::Op::StepGlobal`] one atomic change,
//!   all of what [`globals::Raised`] makes of a value.
//! - [`env::Env::splice`] and [`env::Env::encap`] say `false` where there is no room: the code ends
//!   with [`env::Exit::NoHeadroom`]. Else it ends as its [`ir::End`] says.
//! - Code is verified before a backend sees it, and nothing else needs to be checked.

pub mod arithmetic;
mod changes;
pub mod entries;
pub mod env;
mod exact;
pub mod field;
pub mod frame;
mod gate;
pub mod globals;
pub mod header;
pub mod interpret;
pub mod ir;
pub mod keys;
pub mod kind;
pub mod layout;
mod lookup;
pub mod maglev;
pub mod mirror;
mod needs;
pub mod outside;
pub mod queue;
pub mod run;
mod sparing;
mod store;
pub mod table;
pub mod template;
pub mod trace;
pub mod tunnel;
pub mod value;
pub mod verify;

#[cfg(test)]
mod tests;
