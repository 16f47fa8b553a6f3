//! What control requests have changed of a running chain, as its supervisor keeps it: what was
//! accepted, and what is under way to NFs (`requests`). Written down with the book.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chain::Chain;
use crate::chain::amendments::{Amendment, Amendments, config_of};
use crate::supervisor::estate::{Origin, read_text};

/// A request to a node, on its way or answered.
#[derive(Debug)]
pub(super) struct Question {
    /// Who was asked.
    pub(super) worker: usize,
    pub(super) answer: Option<Result<Value, String>>,
}

/// What control requests have changed of the chain.
#[derive(Clone, Debug, Default)]
pub(super) struct Drift {
    /// What is kept.
    pub(super) kept: Amendments,
    /// What the file says of nodes that are amended, or asked to be.
    pub(super) written: BTreeMap<String, Value>,
    /// What is under way, by names of nodes in the file.
    pub(super) pending: BTreeMap<String, Pending>,
}

/// A request that amends a node, on its way to all instances that run it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pending {
    /// The node's configuration before it, and what was kept of it.
    pub(super) config: Value,
    pub(super) kept: Vec<Amendment>,
    /// Who has not answered.
    pub(super) asked: Vec<Asked>,
    pub(super) is_accepted: bool,
    /// Since when this supervisor has waited.
    #[serde(skip)]
    pub(super) since: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) id: u64,
    pub(super) worker: usize,
    pub(super) epoch: u32,
}

impl Drift {
    /// As it is written down: see [`Drift::read`].
    pub(super) fn text(&self) -> String {
        serde_json::to_string(&(&self.kept, &self.pending)).unwrap_or_default()
    }

    /// What a former supervisor has written down, which amends `chain`.
    pub(super) fn read(written: Option<&Origin>, chain: &mut Chain) -> Result<Self, String> {
        let Some(Origin { memory, len }) = written else {
            return Ok(Self::default());
        };
        let text = read_text(memory, *len)?;
        let (kept, pending): (Amendments, BTreeMap<String, Pending>) =
            serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let names = kept.nodes().map(|(name, _)| name);
        let written = written_of(names.chain(pending.keys().map(String::as_str)), chain);
        kept.amend(chain);
        Ok(Self {
            kept,
            written,
            pending,
        })
    }

    /// A node of which a change is under way.
    pub(super) fn under_way(&self) -> Option<&str> {
        self.pending.keys().next().map(String::as_str)
    }
}

/// What a chain, as its file says, has for these nodes: those of which something is kept, or may be
/// again.
pub(super) fn written_of<'a>(
    names: impl Iterator<Item = &'a str>,
    chain: &Chain,
) -> BTreeMap<String, Value> {
    let written = names.filter_map(|name| {
        let node = *chain.nodes_named(name).first()?;
        Some((name.to_owned(), config_of(&chain.nodes[node]).clone()))
    });
    written.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::supervisor::estate::write_text;
    use crate::supervisor::simulation::registry;

    #[test]
    fn what_the_file_says_is_known_also_while_a_node_is_asked_to_be_as_it_says() {
        let text = "name: x\nports: { in: { source: {} }, out: { drain: {} } }\n\
                    nfs: { edge: { type: acl, rules: [] } }\nlinks: [ in -> edge -> out ]\n";
        let mut chain = Chain::parse(text, Path::new("."), registry(), None)
            .unwrap()
            .chain;
        let written = config_of(&chain.nodes[chain.nodes_named("edge")[0]]).clone();
        let other = json!({"rules": [{"action": "deny", "dst_port": 80}]});
        let kept = Amendment {
            key: "rules".to_owned(),
            request: other.clone(),
        };
        // Nothing is kept of it, unless its NF refuses.
        let back = Pending {
            config: other,
            kept: vec![kept],
            asked: Vec::new(),
            is_accepted: false,
            since: None,
        };
        let pending = BTreeMap::from([("edge".to_owned(), back)]);
        let text = Drift {
            pending,
            ..Drift::default()
        }
        .text();
        let origin = Origin {
            memory: Arc::new(write_text(&text).unwrap()),
            len: text.len(),
        };
        let read = Drift::read(Some(&origin), &mut chain).unwrap();
        assert_eq!(read.written, BTreeMap::from([("edge".to_owned(), written)]));
    }
}
