//! The `catena` command, with the NFs that this repository has.

use std::process::ExitCode;

fn main() -> ExitCode {
    catena::main()
}
