// SPDX-License-Identifier: Apache-2.0
//! Goal: the example programs do as machine code what they are for. Method: the packets and times
//! by which they are tested interpreted, in `crates/flow`.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use catena_flow::program::ir::Program;
use catena_flow::program::run::Compiled;

#[path = "../../flow/tests/use_cases/mod.rs"]
mod use_cases;

fn compiled(program: &Program) -> Option<Box<dyn Compiled>> {
    let compiled = catena_jit::compile(program);
    Some(compiled.unwrap_or_else(|error| panic!("{error}")))
}
