//! What this binary can run: the NFs and ports of all crates it is built with.

use std::sync::{Arc, OnceLock};

use catena_engine::chain::registry::Registry;
use catena_engine::nf::NfKind;

/// NFs of the crate that calls [`main_with`](crate::main_with).
static ADDED: OnceLock<Vec<&'static NfKind>> = OnceLock::new();

/// Makes `kinds` known beside those of the crates.
///
/// # Errors
/// What is wrong with them, or that some were added before.
pub(crate) fn add(kinds: &[&'static NfKind]) -> Result<(), String> {
    if kinds.is_empty() {
        return Ok(());
    }
    let mut registry = (*registry()).clone();
    registry.nfs.extend(kinds);
    registry.check()?;
    ADDED
        .set(kinds.to_vec())
        .map_err(|_| "main_with is called once".to_owned())
}

/// Every NF, port and wrapper.
pub(crate) fn registry() -> Arc<Registry> {
    let added = ADDED.get().map_or(&[][..], Vec::as_slice);
    Arc::new(Registry {
        nfs: [
            catena_engine::nfs::KINDS,
            catena_epon::NFS,
            catena_upf::NFS,
            catena_flow::NFS,
            added,
        ]
        .concat(),
        ports: [
            catena_port::PORTS,
            catena_measure::traffic::PORTS,
            catena_epon::PORTS,
            catena_upf::PORTS,
        ]
        .concat(),
        wraps: catena_port::WRAPS.to_vec(),
        files: catena_port::FILES.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn our_kinds_keep_to_names_and_limits() {
        assert_eq!(registry().check(), Ok(()));
    }

    #[test]
    fn a_kind_with_a_name_that_is_taken_is_refused() {
        let taken = catena_engine::nfs::KINDS[0];
        let fault = add(&[taken]).unwrap_err();
        assert!(fault.contains(taken.name), "{fault}");
    }

    /// Settings that a schema lets out, says nothing of, and does not let be null.
    fn silent(schema: &Value, path: &str, found: &mut Vec<String>) {
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            let required = schema.get("required").and_then(Value::as_array);
            for (name, own) in properties {
                let mut names = required.into_iter().flatten();
                let is_required = names.any(|one| one == name.as_str());
                let is_nullable = own.to_string().contains("\"null\"");
                // A list or map that is left out is empty.
                let may_be_empty = ["items", "additionalProperties"];
                let may_be_empty = may_be_empty.iter().any(|key| own.get(key).is_some());
                if !is_required && !is_nullable && !may_be_empty && own.get("default").is_none() {
                    found.push(format!("{path}: {name}"));
                }
            }
        }
        match schema {
            Value::Object(map) => map.values().for_each(|one| silent(one, path, found)),
            Value::Array(items) => items.iter().for_each(|one| silent(one, path, found)),
            _ => (),
        }
    }

    /// Reports fill in what a chain file leaves out, as the schemas tell it.
    #[test]
    fn schemas_say_what_each_setting_is_where_it_is_left_out() {
        let all = registry();
        let nfs = all.nfs.iter().map(|kind| (kind.name, kind.schema));
        let ports = all.ports.iter().map(|kind| (kind.name, kind.schema));
        let wraps = all.wraps.iter().map(|kind| (kind.name, kind.schema));
        let mut found = Vec::new();
        for (name, schema) in nfs.chain(ports).chain(wraps) {
            silent(&serde_json::json!(schema()), name, &mut found);
        }
        assert!(found.is_empty(), "{found:#?}");
    }
}
