// SPDX-License-Identifier: Apache-2.0
//! Goal: the example programs do what they are for. Method: each from its file, with packets and
//! times; interpreted here, and as machine code by the test of the same name in `crates/jit`.

use catena_flow::program::ir::Program;
use catena_flow::program::run::Compiled;

#[path = "use_cases/mod.rs"]
mod use_cases;

fn compiled(_: &Program) -> Option<Box<dyn Compiled>> {
    None
}
