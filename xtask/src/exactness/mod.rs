//! `cargo xtask exactness`: whether the stateful programs do exactly what they claim, beside
//! independent models, at the sizes that the claims are made for.
//!
//! Models and random packets are those of the programs' tests (`crates/flow/tests/exactness`),
//! which run them at small sizes; here they run as machine code, where the processor has it.
//! `--brief` is a small size too. A difference, or a comparison that breaks off, ends the command
//! with an error.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use catena_flow::program::ir::Program;
use catena_flow::program::run::Compiled;
use serde_json::{Value, json};

use crate::image;

#[path = "../../../crates/flow/tests/use_cases/bench.rs"]
mod bench;
#[path = "../../../crates/flow/tests/use_cases/clients.rs"]
mod clients;
#[path = "../../../crates/flow/tests/exactness/mod.rs"]
mod compared;
#[path = "../../../crates/flow/tests/use_cases/packet.rs"]
mod packet;
#[path = "../../../crates/flow/tests/random/mod.rs"]
mod random;
#[path = "../../../crates/flow/tests/use_cases/terminals.rs"]
mod terminals;

use compared::Compared;
use compared::balancer::{Size, no_live_connection_moves};
use compared::offload::nothing_enters_another_tunnel;
use compared::policers::{Policer, agrees};

/// Whether a program had no machine code.
static IS_INTERPRETED: AtomicBool = AtomicBool::new(false);

/// What to compare.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// A small size: shows that it runs
    #[arg(long)]
    brief: bool,
    /// Write the result to this file too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// How much is compared.
struct Extent {
    arrivals: u64,
    connections: Size,
    events: u64,
}

/// As the claims say.
const WHOLE: Extent = Extent {
    arrivals: 10_000_000,
    connections: Size {
        connections: 1_000_000,
        live: 30_000,
    },
    events: 10_000_000,
};
const BRIEF: Extent = Extent {
    arrivals: 20_000,
    connections: Size {
        connections: 5_000,
        live: 300,
    },
    events: 20_000,
};

/// A function, and what it is compared with.
struct Claim {
    function: &'static str,
    with: &'static str,
    compare: Box<dyn FnOnce() -> Compared + Send>,
}

/// What became of a claim.
struct Outcome {
    function: &'static str,
    with: &'static str,
    compared: Compared,
    seconds: f64,
}

fn claims(extent: &Extent) -> Vec<Claim> {
    let Extent {
        arrivals,
        connections,
        events,
    } = *extent;
    let policer = |function, with, policer| Claim {
        function,
        with,
        compare: Box::new(move || agrees(policer, arrivals)),
    };
    vec![
        policer(
            "policer, FB5G's window",
            "window from Tmin to Tmax, and the same as one due time",
            Policer::Window,
        ),
        policer(
            "policer, GCRA by packet",
            "bucket of tokens in 128 bits",
            Policer::Packets,
        ),
        policer(
            "policer, GCRA by byte",
            "bucket of tokens in 128 bits",
            Policer::Bytes,
        ),
        policer(
            "marker, srTCM",
            "two buckets as RFC 2697, section 3",
            Policer::SingleRate,
        ),
        policer(
            "marker, trTCM",
            "two buckets as RFC 2698, section 3",
            Policer::TwoRate,
        ),
        Claim {
            function: "load balancer",
            with: "each packet's server and its connection's first",
            compare: Box::new(move || no_live_connection_moves(&connections)),
        },
        Claim {
            function: "offload",
            with: "each packet's tunnel and its terminal's",
            compare: Box::new(move || nothing_enters_another_tunnel(events)),
        },
    ]
}

/// Machine code of a program, for what runs it.
fn compiled(program: &Program) -> Option<Box<dyn Compiled>> {
    match catena_jit::compile(program) {
        Ok(compiled) => Some(compiled),
        Err(error) => {
            IS_INTERPRETED.store(true, Ordering::Relaxed);
            eprintln!("interpreted: {error}");
            None
        }
    }
}

/// Compares in a thread of its own, so that what breaks off is told as a difference.
fn check(claim: Claim) -> Outcome {
    eprintln!("{}", claim.function);
    let started = Instant::now();
    let compared = std::thread::spawn(claim.compare).join();
    let compared = compared.unwrap_or_else(|_| {
        let mut broken = Compared::default();
        broken.differ(|| "broke off; what it said stands above".to_owned());
        broken
    });
    Outcome {
        function: claim.function,
        with: claim.with,
        compared,
        seconds: started.elapsed().as_secs_f64(),
    }
}

/// Runs all comparisons, prints them and writes them to the file asked for.
///
/// # Errors
/// There is a difference, or the file cannot be written.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let extent = if arguments.brief { &BRIEF } else { &WHOLE };
    let outcomes: Vec<Outcome> = claims(extent).into_iter().map(check).collect();
    print(&outcomes, &mut std::io::stdout().lock())?;
    if let Some(path) = &arguments.json {
        let mut text = serde_json::to_string_pretty(&as_json(&outcomes, arguments.brief))?;
        text.push('\n');
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let differences = outcomes.iter().map(|one| one.compared.differences);
    match differences.sum::<u64>() {
        0 => Ok(()),
        count => Err(format!("{count} differences").into()),
    }
}

const fn engine(is_interpreted: bool) -> &'static str {
    if is_interpreted {
        "interpreter"
    } else {
        "machine code"
    }
}

fn print(outcomes: &[Outcome], to: &mut impl Write) -> std::io::Result<()> {
    let engine = engine(IS_INTERPRETED.load(Ordering::Relaxed));
    writeln!(to, "exactness of stateful programs, by {engine}\n")?;
    writeln!(
        to,
        "{:<24} {:<55} {:>11} {:>11} {:>8}",
        "function", "compared", "number", "differences", "seconds"
    )?;
    for one in outcomes {
        let (number, differences) = (one.compared.number, one.compared.differences);
        writeln!(
            to,
            "{:<24} {:<55} {number:>11} {differences:>11} {:>8.1}",
            one.function, one.with, one.seconds
        )?;
    }
    writeln!(to)?;
    for one in outcomes {
        let seen = one.compared.seen.iter();
        let seen: Vec<String> = seen
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        writeln!(to, "{}: {}", one.function, seen.join(", "))?;
        if let Some(first) = &one.compared.first {
            writeln!(to, "{}: the first difference: {first}", one.function)?;
        }
    }
    Ok(())
}

fn as_json(outcomes: &[Outcome], is_brief: bool) -> Value {
    let row = |one: &Outcome| {
        let seen = one.compared.seen.iter();
        let seen: serde_json::Map<String, Value> = seen
            .map(|(what, count)| ((*what).to_owned(), json!(count)))
            .collect();
        json!({
            "function": one.function,
            "compared": one.with,
            "number": one.compared.number,
            "differences": one.compared.differences,
            "first": one.compared.first,
            "seconds": one.seconds,
            "seen": seen,
        })
    };
    let commit = image::repository().map(crate::bench::machine::commit);
    json!({
        "commit": commit.ok(),
        "engine": engine(IS_INTERPRETED.load(Ordering::Relaxed)),
        "brief": is_brief,
        "results": outcomes.iter().map(row).collect::<Vec<Value>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_that_breaks_off_is_a_difference_and_is_told() {
        let claim = Claim {
            function: "policer",
            with: "nothing",
            compare: Box::new(|| panic!("for this test")),
        };
        let outcome = check(claim);
        assert_eq!(outcome.compared.differences, 1);
        let mut text = Vec::new();
        print(&[outcome], &mut text).expect("a table");
        let text = String::from_utf8(text).expect("text");
        assert!(
            text.contains("policer: the first difference: broke off"),
            "{text}"
        );
    }
}
