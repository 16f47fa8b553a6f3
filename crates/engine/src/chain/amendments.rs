//! What `catena nf control` has changed of a chain: requests that its NFs accepted, kept in order.
//!
//! Beside packets; pure. A request that [amends](crate::nf::Amend) the configuration of an NF is
//! kept by the node's name in the file, for all its shards, and one of the same key takes the place
//! of what was kept before. The chain that runs is what its file says, amended so; whoever runs a
//! node next is given that. What fits another file is kept when the chain becomes what that says.
//! Limit: [`AMENDMENT_BYTES_MAX`] in all, at which a request is refused.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::model::{Chain, Node, NodeKind};
use super::parse::FILE_BYTES_MAX;
use crate::nf::{Amend, NfKind, NfPlan};

/// Most bytes of requests, as JSON, that a chain keeps: as many as its file may have, into which
/// they can be written (`catena export`).
pub const AMENDMENT_BYTES_MAX: usize = FILE_BYTES_MAX;

/// A request that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amendment {
    /// What it changes, as its kind names it.
    pub key: String,
    /// The request.
    pub request: Value,
}

/// What is kept, by names of nodes in the chain file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amendments {
    nodes: BTreeMap<String, Vec<Amendment>>,
}

/// What a request would make of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amended {
    /// Its configuration.
    pub config: Value,
    /// What is kept of it then.
    pub kept: Vec<Amendment>,
}

impl Amendments {
    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// What is kept of a node.
    pub fn of(&self, node: &str) -> &[Amendment] {
        self.nodes.get(node).map_or(&[], Vec::as_slice)
    }

    /// Names of the nodes of which something is kept, with it.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &[Amendment])> {
        self.nodes.iter().map(|(name, kept)| (&**name, &**kept))
    }

    /// Keeps this of a node, and no more.
    pub fn keep(&mut self, node: &str, kept: Vec<Amendment>) {
        if kept.is_empty() {
            self.nodes.remove(node);
        } else {
            self.nodes.insert(node.to_owned(), kept);
        }
    }

    /// What `request` would make of node `name`, which is `node` now and as `written` in the file;
    /// none if it only asks or acts.
    ///
    /// # Errors
    /// Why it cannot be: a sentence for the person who asked.
    pub fn propose(
        &self,
        (name, node): (&str, &Node),
        written: &Value,
        request: &Value,
    ) -> Result<Option<Amended>, String> {
        let Some(amendable) = Amendable::of(node) else {
            return Ok(None);
        };
        let mut config = amendable.config.clone();
        let amended = (amendable.amend)(&mut config, std::slice::from_ref(request));
        let Some(key) = amended.into_iter().next().transpose()?.flatten() else {
            return Ok(None);
        };
        amendable.check(&config)?;
        let mut kept = self.of(name).to_vec();
        if config == *written {
            kept.clear();
        } else if config != *amendable.config {
            let request = request.clone();
            add(&mut kept, Amendment { key, request });
        }
        match self.bytes_but(name) + bytes_of(&kept) {
            bytes if bytes > AMENDMENT_BYTES_MAX => Err(format!(
                "with this, the chain would keep {bytes} bytes of what control requests have \
                 changed, and {AMENDMENT_BYTES_MAX} is the limit: write it to a file with \
                 `catena export`, then `catena apply` that"
            )),
            _ => Ok(Some(Amended { config, kept })),
        }
    }

    /// Bytes of all that is kept, but of one node.
    fn bytes_but(&self, node: &str) -> usize {
        let others = self.nodes().filter(|(name, _)| *name != node);
        others.map(|(_, kept)| bytes_of(kept)).sum()
    }

    /// Amends a chain, which is as its file says. Gives what of these fits it and says something
    /// that the file does not, and for people what does not fit.
    pub fn amend(&self, chain: &mut Chain) -> (Self, Vec<String>) {
        let (mut fitting, mut gone) = (Self::default(), Vec::new());
        for (name, kept) in self.nodes() {
            let nodes = chain.nodes_named(name);
            let found = nodes.first().map(|node| &chain.nodes[*node]);
            let Some(amendable) = found.and_then(Amendable::of) else {
                gone.push(format!(
                    "node {name}: what control requests have changed of it goes with it"
                ));
                continue;
            };
            let (config, fits) = amendable.amended(name, kept, &mut gone);
            if config != *amendable.config {
                fitting.keep(name, fits);
            }
            for node in nodes {
                set_config(&mut chain.nodes[node], config.clone());
            }
        }
        (fitting, gone)
    }
}

fn bytes_of(kept: &[Amendment]) -> usize {
    kept.iter().map(|one| one.request.to_string().len()).sum()
}

/// Puts an amendment behind those that are kept, and takes out what it takes the place of.
fn add(kept: &mut Vec<Amendment>, new: Amendment) {
    let lies_under = |key: &str| {
        let rest = key.strip_prefix(&*new.key);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    kept.retain(|one| !lies_under(&one.key));
    kept.push(new);
}

/// Gives a node, an NF, another configuration of the same plan.
pub fn set_config(node: &mut Node, new: Value) {
    if let NodeKind::Nf { config, .. } = &mut node.kind {
        *config = new;
    }
}

/// The configuration of a node.
pub fn config_of(node: &Node) -> &Value {
    match &node.kind {
        NodeKind::Nf { config, .. } | NodeKind::Port { config, .. } => config,
    }
}

/// A node whose kind says what requests make of its configuration.
struct Amendable<'a> {
    kind: &'static NfKind,
    config: &'a Value,
    plan: &'a NfPlan,
    amend: Amend,
}

impl<'a> Amendable<'a> {
    fn of(node: &'a Node) -> Option<Self> {
        let NodeKind::Nf { kind, config, plan } = &node.kind else {
            return None;
        };
        Some(Self {
            kind,
            config,
            plan,
            amend: plan.amends.0?,
        })
    }

    /// Whoever runs the node next must be able to: nothing of its plan may change.
    fn check(&self, config: &Value) -> Result<(), String> {
        let planned = (self.kind.plan)(config, &self.plan.outputs).map_err(|errors| {
            let sentences: Vec<_> = errors.iter().map(ToString::to_string).collect();
            sentences.join("; ")
        })?;
        if planned == *self.plan {
            return Ok(());
        }
        let why = "it would be another NF (its outputs, counters, memory or inputs would change): \
                   change the chain file and use catena apply";
        Err(why.to_owned())
    }

    /// Its configuration with all of `kept` that fits, and that; the rest is told.
    fn amended(
        &self,
        name: &str,
        kept: &[Amendment],
        gone: &mut Vec<String>,
    ) -> (Value, Vec<Amendment>) {
        let mut fitted = Fitted {
            config: self.config.clone(),
            kept: Vec::with_capacity(kept.len()),
        };
        self.fit(kept, &mut fitted, &mut |one, why| {
            gone.push(format!(
                "node {name}: what a control request has changed ({}) does not fit any more: {why}",
                one.key
            ));
        });
        (fitted.config, fitted.kept)
    }

    /// Adds what fits of `kept`: all of it if that fits, else what fits of each half. So a few that
    /// do not fit among many are found in a few tries each: a try plans the NF with all it has.
    fn fit(
        &self,
        kept: &[Amendment],
        fitted: &mut Fitted,
        refuse: &mut dyn FnMut(&Amendment, &str),
    ) {
        let requests: Vec<Value> = kept.iter().map(|one| one.request.clone()).collect();
        let mut next = fitted.config.clone();
        let results = (self.amend)(&mut next, &requests);
        let amended = results.into_iter().try_for_each(|result| result.map(drop));
        match (amended.and_then(|()| self.check(&next)), kept) {
            (Ok(()), _) => {
                fitted.config = next;
                fitted.kept.extend_from_slice(kept);
            }
            (Err(why), [one]) => refuse(one, &why),
            (Err(_), _) => {
                let (first, second) = kept.split_at(kept.len() / 2);
                self.fit(first, fitted, refuse);
                self.fit(second, fitted, refuse);
            }
        }
    }
}

/// A configuration, and which requests have made it what it is.
struct Fitted {
    config: Value,
    kept: Vec<Amendment>,
}
