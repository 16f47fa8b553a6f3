//! What a rule asks of a packet, in one place for every NF that has rules.
//!
//! A [`Match`] is the checked form of the fields of one rule: those left out ask nothing. A [`Key`]
//! is what one packet answers. A [`RuleSet`] finds the first rule, by priority and then by file
//! order, that all of a key's answers fit; how, is the matter of [`search`].
//!
//! A packet has no answer to a field that it lacks, and then fits only rules that do not ask:
//! - addresses, protocol and DSCP: packets that are not IPv4 or IPv6;
//! - ports: all but TCP and UDP, and fragments other than the first, which carry no ports;
//! - VLAN: untagged frames. Of several tags the outermost is asked for.

use crate::config::{ConfigError, ConfigErrors};

mod fields;
mod key;
mod rule;
mod search;
pub(crate) use fields::{EtherTypeName, PortRange, Prefix, ProtocolName};
pub(crate) use key::Key;
pub(crate) use rule::Match;
use search::{RULE_COUNT_MAX, Search};

/// Rules, ready to search, and how often each was the first to match.
#[derive(Debug)]
pub(crate) struct RuleSet {
    search: Search,
    /// Index in the file of each rule, in the order of the search.
    file_indices: Vec<usize>,
    hits: Vec<u64>,
}

impl RuleSet {
    /// Checks and compiles rules, given in file order with their priorities. Those of greater
    /// priority come first, equal ones in file order. Control path: tens of
    /// milliseconds for thousands.
    ///
    /// # Errors
    /// All that is wrong, with paths under `rules`.
    pub(crate) fn new(rules: &[(u32, Match)]) -> Result<Self, ConfigErrors> {
        Self::check(rules)?;
        let mut file_indices: Vec<usize> = (0..rules.len()).collect();
        // Stable, so that equal priorities stay in file order.
        file_indices.sort_by_key(|index| std::cmp::Reverse(rules[*index].0));
        let ordered: Vec<Match> = file_indices.iter().map(|index| rules[*index].1).collect();
        Ok(Self {
            search: Search::new(&ordered),
            file_indices,
            hits: vec![0; rules.len()],
        })
    }

    /// Checks rules without compiling them.
    ///
    /// # Errors
    /// All that is wrong, with paths under `rules`.
    pub(crate) fn check(rules: &[(u32, Match)]) -> Result<(), ConfigErrors> {
        let mut errors = Vec::new();
        for (index, (_, rule)) in rules.iter().enumerate() {
            rule.check(&format!("rules[{index}]"), &mut errors);
        }
        if rules.len() > RULE_COUNT_MAX {
            let message = format!("there are {} rules", rules.len());
            let repair = format!("write at most {RULE_COUNT_MAX}; NFs may follow one another");
            errors.push(ConfigError::new("rules", message, repair));
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(errors),
        }
    }

    /// Index in the file of the first rule that `key` fits; counts the hit.
    #[inline]
    pub(crate) fn first_match(&mut self, key: &Key) -> Option<usize> {
        let index = self.file_indices[self.search.first(key)?];
        self.hits[index] += 1;
        Some(index)
    }

    /// How often each rule, in file order, was the first to match.
    pub(crate) fn hits(&self) -> &[u64] {
        &self.hits
    }
}

#[cfg(test)]
mod tests;
