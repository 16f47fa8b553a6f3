//! Machine code for flow programs: a backend of [`catena_flow::program`] beside its interpreter.
//!
//! Before any packet, a verified program goes in; what comes out runs for each packet, between the
//! lookup of its flow and its verdict. [`compile`] makes a function of each piece of code with
//! Cranelift; whoever builds a binary gives it to [`catena_flow::nf::set_compiler`].
//!
//! - `generate`: blocks, jumps, and what a function begins and ends with.
//! - `arithmetic`: numbers. `access`: packets. `registers`: those of flow and program. `checksum`:
//!   fields that are written, with what covers them. `meter`: rates. All in line. `key`, `plain`:
//!   keys.
//! - `call`: all other operations, which call [`Env`](catena_flow::program::env::Env).
//! - `edge`: executable memory and the calls into it and out of it: all `unsafe` of this crate.
//!
//! What code means is what the interpreter does; the two are compared over random programs and
//! packets (`tests/same.rs`, and the fuzz target `flow_jit`). A piece of code with more than
//! [`OP_COUNT_MAX`] operations is left to the interpreter, as is all code on other processors than
//! x86-64, and where the kernel refuses executable memory.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod access;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod arithmetic;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod call;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod checksum;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod edge;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod generate;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod key;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod meter;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod plain;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod registers;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod wrong;

// Tests share files with those in `tests/`, which name the crate.
#[cfg(test)]
extern crate self as catena_jit;

use catena_flow::program::ir::Program;
use catena_flow::program::run::Compiled;

/// Most operations of a piece of code that is compiled: the time it takes grows faster than they.
pub const OP_COUNT_MAX: usize = 4096;

/// Compiles a verified program, in some milliseconds.
///
/// # Errors
/// Why it is interpreted instead: for people.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub fn compile(program: &Program) -> Result<Box<dyn Compiled>, String> {
    generate::compile(program)
}

/// Compiles a verified program, in some milliseconds.
///
/// # Errors
/// Why it is interpreted instead: for people.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub fn compile(_: &Program) -> Result<Box<dyn Compiled>, String> {
    Err("code is made for x86-64 on Linux only".to_owned())
}
