//! The kinds of NFs, ports and wrappers that chain files may name.
//!
//! The binary assembles one from the `KINDS` lists of the crates it is built with. Control path
//! only.

use std::collections::BTreeSet;

use crate::nf::{NfKind, check_name, check_own_names};
use crate::port::{PortKind, WrapKind};

/// What chain files choose from.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// NF types.
    pub nfs: Vec<&'static NfKind>,
    /// Port types.
    pub ports: Vec<&'static PortKind>,
    /// Port wrappers.
    pub wraps: Vec<&'static WrapKind>,
    /// Settings of ports and wrappers that name a file.
    pub files: Vec<FileKey>,
}

/// A setting of a port or wrapper that names a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileKey {
    /// The type of port or wrapper.
    pub of: &'static str,
    /// Name of the setting.
    pub key: &'static str,
    /// Whether the file is written, else read.
    pub writes: bool,
}

impl Registry {
    /// Holds the kinds to what chain files and metrics need: names of the right form, each once
    /// among its own, and examples that can be planned.
    ///
    /// # Errors
    /// The first fault, which is that of whoever wrote the kind.
    pub fn check(&self) -> Result<(), String> {
        let nfs = self.nfs.iter().map(|kind| kind.name);
        check_kinds("NF type", nfs)?;
        check_kinds("port type", self.ports.iter().map(|kind| kind.name))?;
        check_kinds("wrapper", self.wraps.iter().map(|kind| kind.name))?;
        for kind in &self.ports {
            let [counters, reasons] = [kind.counters, kind.drop_reasons].map(|names| {
                names
                    .iter()
                    .map(|name| (*name).to_owned())
                    .collect::<Vec<_>>()
            });
            check_own_names(&counters, &reasons)
                .map_err(|fault| format!("the port type {}: {fault}", kind.name))?;
        }
        for kind in &self.nfs {
            let plan = kind.example_plan()?;
            plan.check()
                .map_err(|fault| format!("the NF type {}: {fault}", kind.name))?;
        }
        Ok(())
    }

    /// The NF type named `name`.
    pub fn nf(&self, name: &str) -> Option<&'static NfKind> {
        self.nfs.iter().copied().find(|kind| kind.name == name)
    }

    /// The port type named `name`.
    pub fn port(&self, name: &str) -> Option<&'static PortKind> {
        self.ports.iter().copied().find(|kind| kind.name == name)
    }

    /// The wrapper named `name`.
    pub fn wrap(&self, name: &str) -> Option<&'static WrapKind> {
        self.wraps.iter().copied().find(|kind| kind.name == name)
    }
}

fn check_kinds<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        check_name(name).map_err(|fault| format!("the {what} \"{name}\" {fault}"))?;
        if !seen.insert(name) {
            return Err(format!("there are two of the {what} {name}"));
        }
    }
    Ok(())
}

/// The candidate that `name` most likely misspells, if one is close enough to be worth a
/// suggestion: within a third of its length in edits, and at least one shared letter.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (wanted, wanted_len) = beginning_of(name);
    let allowed = (wanted_len / 3).max(1);
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let (start, len) = beginning_of(candidate);
            let distance = strsim::osa_distance(wanted, start);
            let is_near = distance <= allowed && distance < len.max(wanted_len);
            is_near.then_some((distance, candidate))
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Longer names are compared by their beginning: the cost is quadratic, and files may be hostile.
const NAME_CHARS_MAX: usize = 64;

/// The part of a name that is compared, and its length in characters.
fn beginning_of(name: &str) -> (&str, usize) {
    let end = name.char_indices().nth(NAME_CHARS_MAX);
    let start = end.map_or(name, |(end, _)| &name[..end]);
    (start, start.chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_and_a_far_one_is_not() {
        let names = ["policer", "macswap", "tee"];
        assert_eq!(nearest("polizer", names), Some("policer"));
        assert_eq!(nearest("mcswap", names), Some("macswap"));
        assert_eq!(nearest("te", names), Some("tee"));
        assert_eq!(
            nearest("polcier", names),
            Some("policer"),
            "a swap is one edit"
        );
        let long = "é".repeat(1 << 16);
        assert_eq!(nearest(&long, names), None);
        assert_eq!(nearest("firewall", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("x", ["y"]), None);
    }
}
