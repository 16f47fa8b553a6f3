//! `catena nf`: what network functions there are, and what each takes.

use std::process::ExitCode;

use catena_engine::chain::registry::nearest;
use catena_engine::nf::{Access, Inputs, NfKind};

use super::{Failure, Outcome};
use crate::registry::registry;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List network functions
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Describe one network function and its settings
    Describe {
        /// Its type
        name: String,
        /// As JSON, with the schema of its settings
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(command: &Command) -> Outcome {
    let registry = registry();
    match command {
        Command::List { json: true } => {
            let list: Vec<_> = registry.nfs.iter().map(|kind| as_json(kind)).collect();
            println!(
                "{}",
                serde_json::to_string_pretty(&list).map_err(Failure::running)?
            );
        }
        Command::List { json: false } => {
            for kind in &registry.nfs {
                println!("{:<12} {}", kind.name, kind.summary);
            }
        }
        Command::Describe { name, json } => {
            let names = registry.nfs.iter().map(|kind| kind.name);
            let kind = registry.nf(name).ok_or_else(|| {
                let hint = nearest(name, names)
                    .map_or(String::new(), |near| format!("; did you mean {near}?"));
                Failure::input(format!("there is no network function \"{name}\"{hint}"))
            })?;
            if *json {
                println!(
                    "{}",
                    serde_json::to_string_pretty(&as_json(kind)).map_err(Failure::running)?
                );
            } else {
                describe(kind);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(kind: &NfKind) -> serde_json::Value {
    serde_json::json!({
        "name": kind.name,
        "summary": kind.summary,
        "writes_packets": kind.access == Access::Write,
        "takes_many_inputs": kind.inputs == Inputs::Many,
        "settings": (kind.schema)(),
    })
}

fn describe(kind: &NfKind) {
    println!("{}: {}", kind.name, kind.summary);
    let access = match kind.access {
        Access::Read => "only reads packets",
        Access::Write => "changes packets (not on ro links)",
    };
    let inputs = match kind.inputs {
        Inputs::One => "one input",
        Inputs::Many => "one or more inputs",
    };
    println!("{access}; {inputs}");
    let schema = serde_json::to_value((kind.schema)()).unwrap_or_default();
    let Some(settings) = schema["properties"]
        .as_object()
        .filter(|map| !map.is_empty())
    else {
        println!("\nIt takes no settings.");
        return;
    };
    println!("\nSettings:");
    let required: Vec<_> = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, setting) in settings {
        let needed = if required.iter().any(|field| field == name) {
            " (required)"
        } else {
            ""
        };
        let text = setting["description"]
            .as_str()
            .unwrap_or("")
            .replace('\n', " ");
        println!("  {name}{needed}\n      {text}");
    }
    println!("\nThe reference is docs/reference/nfs.md; `--json` prints the schema.");
}
