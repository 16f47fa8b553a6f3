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
}
