//! What a shell can complete beside options: running chains, their nodes, types of NFs and ports.
//!
//! The shell asks the binary itself at each press of the key (`catena completions SHELL` prints the
//! script that does so), so it knows what runs now and the NFs of a binary of one's own. Nothing
//! here prints or fails: a chain that does not answer has no names.

use std::ffi::OsStr;

use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};

use crate::commands::control::{Request, ask, running_chains, status_in};
use crate::registry::registry;

/// Names of running chains.
pub(crate) fn chains() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        running_chains()
            .into_iter()
            .map(CompletionCandidate::new)
            .collect()
    })
}

/// Names of nodes of the chain that the line names, or else of all running chains.
pub(crate) fn nodes() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let words: Vec<String> = std::env::args().collect();
        let chains = chains_of(&words, running_chains());
        nodes_of(&chains, &current.to_string_lossy())
    })
}

/// Types of network functions, with their summaries.
pub(crate) fn nf_types() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let registry = registry();
        let kinds = registry.nfs.iter();
        kinds
            .map(|kind| described(kind.name, kind.summary))
            .collect()
    })
}

/// Types of ports and of what is put around one, with their summaries.
pub(crate) fn port_types() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let registry = registry();
        let ports = registry.ports.iter().map(|kind| (kind.name, kind.summary));
        let wraps = registry.wraps.iter().map(|kind| (kind.name, kind.summary));
        let all = ports.chain(wraps);
        all.map(|(name, summary)| described(name, summary))
            .collect()
    })
}

fn described(name: &str, summary: &str) -> CompletionCandidate {
    CompletionCandidate::new(name).help(Some(summary.to_owned().into()))
}

/// The running chains that the line names, or all if it names none.
fn chains_of(words: &[String], running: Vec<String>) -> Vec<String> {
    let named: Vec<_> = running
        .iter()
        .filter(|chain| words.contains(chain))
        .cloned()
        .collect();
    if named.is_empty() { running } else { named }
}

fn nodes_of(chains: &[String], start: &str) -> Vec<CompletionCandidate> {
    let statuses = chains
        .iter()
        .filter_map(|chain| ask(chain, &Request::Status).and_then(status_in).ok());
    let nodes = statuses.flat_map(|status| status.nodes);
    let nodes = nodes.filter(|node| node.name.starts_with(start));
    nodes
        .map(|node| described(&node.name, &node.type_name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_whose_nodes_are_wanted() {
        let words = ["catena", "nf", "control", "web", "po"].map(str::to_owned);
        let running = || vec!["lab".to_owned(), "web".to_owned()];
        assert_eq!(chains_of(&words, running()), ["web"]);
        assert_eq!(chains_of(&words[..3], running()), ["lab", "web"]);
    }
}
