//! Programs in files: alone, or within a chain.
//!
//! For tools. A file is a program, or a chain of which some nodes are of the type `flow`; what is
//! wrong is told with its line and column in that file.

use catena_engine::chain::document::Located;
use catena_engine::chain::{ChainErrors, Diagnostic};
use catena_engine::config::parse_config;
use serde_json::Value;

use super::compile::{Compiled, compile};
use super::model::Document;

/// A program of a file.
#[derive(Debug)]
pub struct Found {
    /// The node of the chain, or nothing if the file is a program alone.
    pub node: String,
    /// The document.
    pub document: Document,
    /// What was made of it.
    pub compiled: Compiled,
}

/// All programs of a file, and what is suspicious about them.
///
/// # Errors
/// All that is wrong, with lines; also if there is no program.
pub fn load(file: &str, text: &str) -> Result<(Vec<Found>, Vec<Diagnostic>), ChainErrors> {
    let mut located = Located::parse(file, text)?;
    let json = located.json();
    let mut found = Vec::new();
    for (node, path) in places(&json) {
        let program = path
            .split('.')
            .filter(|step| !step.is_empty())
            .try_fold(&json, |value, step| value.get(step));
        let Some(program) = program else { continue };
        match parse_config::<Document>(program) {
            Ok(document) => match compile(&document) {
                Ok(compiled) => {
                    for problem in &compiled.warnings {
                        let at = join(&path, &problem.path);
                        located.warning(&at, problem.at, &problem.message, &problem.repair);
                    }
                    found.push(Found {
                        node,
                        document,
                        compiled,
                    });
                }
                Err(problems) => {
                    for problem in problems {
                        let at = join(&path, &problem.path);
                        if problem.is_error {
                            located.error(&at, problem.at, &problem.message, &problem.repair);
                        } else {
                            located.warning(&at, problem.at, &problem.message, &problem.repair);
                        }
                    }
                }
            },
            Err(errors) => {
                for error in errors {
                    let at = join(&path, &error.path);
                    let repair = error
                        .repair
                        .unwrap_or_else(|| "see catena schema --flow".to_owned());
                    located.error(&at, 0, &error.message, &repair);
                }
            }
        }
    }
    if found.is_empty() && !located.has_errors() {
        let repair = "write elements: [...], or a chain with an NF of the type flow";
        located.error("", 0, "there is no flow program in this file", repair);
    }
    let warnings = located.finish()?;
    Ok((found, warnings))
}

/// Where programs stand: node and path.
fn places(json: &Value) -> Vec<(String, String)> {
    let Some(nfs) = json.get("nfs").and_then(Value::as_object) else {
        return vec![(String::new(), String::new())];
    };
    let is_flow = |(_, node): &(&String, &Value)| node.get("type") == Some(&Value::from("flow"));
    let nodes = nfs.iter().filter(is_flow);
    nodes
        .map(|(name, _)| (name.clone(), format!("nfs.{name}.program")))
        .collect()
}

fn join(path: &str, rest: &str) -> String {
    match (path, rest) {
        ("", rest) => rest.to_owned(),
        (path, "") => path.to_owned(),
        (path, rest) => format!("{path}.{rest}"),
    }
}
