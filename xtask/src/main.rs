//! Repository chores: `cargo xtask bench NAME` measures Catena beside its peers;
//! `cargo xtask image` builds the image of workers in containers; `cargo xtask package` makes what
//! machines install that do not build Catena; `cargo xtask exactness` compares the stateful
//! programs with models at full size.
//!
//! This binary ships with the repository, not with Catena; nothing depends on it.
//!
//! SPDX-License-Identifier: Apache-2.0

mod bench;
mod book;
mod breaks;
mod exactness;
mod fuzz;
mod image;
mod package;
mod record;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Repository chores of Catena.
#[derive(Parser)]
#[command(name = "cargo xtask", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure Catena and its peers in turn, in one command
    Bench(bench::Arguments),
    /// Compare the stateful programs with independent models, at the sizes of what they claim
    Exactness(exactness::Arguments),
    /// Build the image of workers in containers
    Image(image::Arguments),
    /// Make a static binary, a Debian package, or an image with the whole command
    Package(package::Arguments),
    /// Record the session of the README as an animated picture
    Record(record::Arguments),
    /// Build the documents as a book with search, and check its links
    Book(book::Arguments),
    /// Run a fuzz target, led by coverage
    Fuzz(fuzz::Arguments),
    /// Break each limit of a crate in turn, and say which breaks no test notices
    Break(breaks::Arguments),
    /// Run a command that dies with the process which started it
    #[command(name = bench::child::GUARD, hide = true)]
    Guard(bench::child::GuardArguments),
    /// Remove a directory when standard input ends
    #[command(name = bench::work_dir::SWEEP, hide = true)]
    Sweep(bench::work_dir::SweepArguments),
    /// Send datagrams for a benchmark
    #[command(name = bench::flow::nftables::SENDER, hide = true)]
    FlowSender(bench::flow::nftables::SenderArguments),
    /// Send segments of many connections for a benchmark
    #[command(name = bench::flow::dnat::SENDER, hide = true)]
    FlowConnections(bench::flow::dnat::SenderArguments),
    /// Have sessions of a UPF by UDP for a benchmark
    #[command(name = bench::upf::socket::SMF, hide = true)]
    UpfSmf(bench::upf::socket::SmfArguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Exactness(arguments) => exactness::run(&arguments),
        Command::Image(arguments) => image::run(&arguments),
        Command::Package(arguments) => package::run(&arguments),
        Command::Record(arguments) => record::run(&arguments),
        Command::Book(arguments) => book::run(&arguments),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Break(arguments) => breaks::run(&arguments),
        Command::Guard(arguments) => bench::child::guard(&arguments),
        Command::Sweep(arguments) => bench::work_dir::sweep(&arguments),
        Command::FlowSender(arguments) => bench::flow::nftables::send(&arguments),
        Command::FlowConnections(arguments) => bench::flow::dnat::send(&arguments),
        Command::UpfSmf(arguments) => bench::upf::socket::ask(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of documents that call this program.
    fn printed() -> Vec<String> {
        let root = image::repository().unwrap();
        let mut found = Vec::new();
        let mut open = vec![root.to_owned()];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let (path, name) = (entry.path(), entry.file_name());
                let name = name.to_string_lossy();
                if path.is_dir() && name != "target" && !name.starts_with('.') {
                    open.push(path);
                } else if name.ends_with(".md") && name != "CHANGELOG.md" {
                    let text = std::fs::read_to_string(path).unwrap();
                    let lines = text.lines().map(|line| line.trim_start_matches("$ "));
                    let lines = lines.filter(|line| line.starts_with("cargo xtask "));
                    found.extend(lines.map(str::to_owned));
                }
            }
        }
        found
    }

    #[test]
    fn what_documents_print_is_understood() {
        let lines = printed();
        assert!(lines.len() > 5, "{lines:?}");
        for line in lines {
            let line = line.split('#').next().unwrap();
            let words = line.split_whitespace().skip(1);
            if let Err(error) = Arguments::try_parse_from(words) {
                // A page of help is an answer.
                assert!(!error.use_stderr(), "{line}: {error}");
            }
        }
    }
}
