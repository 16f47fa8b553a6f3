//! The `catena` command with one NF more.

use std::process::ExitCode;

mod sample;

fn main() -> ExitCode {
    catena::main_with(&[&sample::KIND])
}
