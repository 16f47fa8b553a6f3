//! `cargo xtask fuzz TARGET`: a fuzz target under libFuzzer, led by coverage.
//!
//! The counters of coverage are a pass of LLVM that stable compilers take, so neither a nightly one
//! nor `cargo-fuzz` is needed. What needs them is AddressSanitizer: `cargo-fuzz` finds the same
//! targets.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::image;

/// What to run.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// Fuzz target; without one, all are listed
    target: Option<String>,
    /// How long
    #[arg(long, value_name = "N", default_value_t = 60,
          value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Twenty thousand inputs and an unoptimized build: shows that it runs
    #[arg(long, conflicts_with = "seconds")]
    brief: bool,
    /// Options of libFuzzer, behind `--`
    #[arg(last = true)]
    options: Vec<String>,
}

/// Counters at every edge, and every comparison, as libFuzzer wants them.
const COVERAGE: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "-Cdebug-assertions",
    "-Coverflow-checks",
];

/// Builds and runs the target, or lists all.
///
/// # Errors
///
/// There is no such target, it cannot be built, or it failed: then libFuzzer says where the input
/// lies.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let folder = image::repository()?.join("fuzz");
    let targets = targets(&folder)?;
    let Some(target) = &arguments.target else {
        targets.iter().for_each(|name| println!("{name}"));
        return Ok(());
    };
    if !targets.contains(target) {
        return Err(format!(
            "no fuzz target is called {target}; there are {}",
            targets.join(", ")
        )
        .into());
    }
    let program = build(&folder, target, arguments.brief)?;
    let artifacts = folder.join("artifacts").join(target);
    std::fs::create_dir_all(&artifacts)?;
    let mut fuzzer = Command::new(program);
    fuzzer.current_dir(&folder);
    fuzzer.arg(format!("-artifact_prefix={}/", artifacts.display()));
    if arguments.brief {
        fuzzer.arg("-runs=20000");
    } else {
        let corpus = folder.join("corpus").join(target);
        std::fs::create_dir_all(&corpus)?;
        fuzzer.arg(format!("-max_total_time={}", arguments.seconds));
        fuzzer.arg(corpus);
    }
    image::complete(fuzzer.args(&arguments.options))
}

/// Names of all targets.
fn targets(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder.join("fuzz_targets"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "rs") {
            names.extend(
                path.file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned()),
            );
        }
    }
    names.sort();
    Ok(names)
}

/// Builds a target; gives its program.
fn build(folder: &Path, target: &str, is_brief: bool) -> Result<PathBuf, Box<dyn Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let machine = image::host()?;
    let place = folder.join("target");
    let mut command = Command::new(cargo);
    command
        .current_dir(folder)
        .args(["build", "--locked", "--bin", target]);
    // A target of its own keeps the counters out of build scripts.
    command
        .args(["--target", &machine, "--target-dir"])
        .arg(&place);
    if !is_brief {
        command.arg("--release");
    }
    let flags = COVERAGE.join("\u{1f}");
    image::complete(command.env("CARGO_ENCODED_RUSTFLAGS", flags))?;
    let profile = if is_brief { "debug" } else { "release" };
    Ok(place.join(machine).join(profile).join(target))
}
