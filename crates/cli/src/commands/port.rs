//! `catena port`: what ports and wrappers there are, and what each takes.

use std::process::ExitCode;

use catena_engine::port::{PortKind, WrapKind};
use serde_json::{Value, json};

use super::{Outcome, kinds};
use crate::document;
use crate::registry::registry;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List ports, and wrappers to put around them
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Describe one port or wrapper and its settings
    Describe {
        /// Its type
        #[arg(add = crate::completion::port_types())]
        name: String,
        /// As JSON, with the schema of its settings
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(command: &Command) -> Outcome {
    let registry = registry();
    let ports = registry.ports.iter().map(|kind| Kind::of_port(kind));
    let wraps = registry.wraps.iter().map(|kind| Kind::of_wrap(kind));
    let all: Vec<Kind> = ports.chain(wraps).collect();
    match command {
        Command::List { json: true } => {
            let list: Vec<Value> = all.iter().map(Kind::as_json).collect();
            document::print("catena.ports/1", &json!({ "ports": list }))?;
        }
        Command::List { json: false } => {
            for kind in &all {
                let note = if kind.is_wrapper { " (wrapper)" } else { "" };
                outln!("{:<12} {}{note}", kind.name, kind.summary);
            }
        }
        Command::Describe { name, json } => {
            let names = all.iter().map(|kind| kind.name);
            let kind = all.iter().find(|kind| kind.name == name);
            let kind = kind.ok_or_else(|| kinds::unknown("port or wrapper", name, names))?;
            if *json {
                document::print("catena.port/1", &kind.as_json())?;
            } else {
                kind.describe();
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A type of port, or of what is put around one.
struct Kind {
    name: &'static str,
    summary: &'static str,
    schema: fn() -> schemars::Schema,
    is_wrapper: bool,
}

impl Kind {
    fn of_port(kind: &PortKind) -> Self {
        Self {
            name: kind.name,
            summary: kind.summary,
            schema: kind.schema,
            is_wrapper: false,
        }
    }

    fn of_wrap(kind: &WrapKind) -> Self {
        Self {
            name: kind.name,
            summary: kind.summary,
            schema: kind.schema,
            is_wrapper: true,
        }
    }

    fn as_json(&self) -> Value {
        json!({
            "name": self.name,
            "summary": self.summary,
            "is_wrapper": self.is_wrapper,
            "settings": (self.schema)(),
        })
    }

    fn describe(&self) {
        outln!("{}: {}", self.name, self.summary);
        if self.is_wrapper {
            outln!("a wrapper: written in the wrap list of a port");
        }
        kinds::print_settings(&(self.schema)());
        outln!("\n`--json` prints the schema.");
    }
}
