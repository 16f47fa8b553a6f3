//! Chains that a measurement makes up: the NFs of `--nf`, and the tester by itself.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::Path;

use catena_engine::chain::{Chain, Mode};

use crate::commands::Failure;
use crate::registry::registry;

/// NFs with their default settings in a row, on a core of their own if they have one.
pub(crate) fn row(nfs: &[String], mode: Option<Mode>) -> Result<Chain, Failure> {
    let mut text = format!(
        "name: measure-{}\nports:\n  traffic: {{ traffic: {{ profile: {{}} }} }}\n  \
         receiver: {{ receiver: {{}} }}\n",
        std::process::id()
    );
    let mut way = "traffic".to_owned();
    for (index, nf) in nfs.iter().enumerate() {
        if index == 0 {
            text += "nfs:\n";
        }
        let name = format!("{nf}{}", index + 1);
        text += &format!("  {name}: {{ type: {nf} }}\n");
        way += &format!(" -> {name}");
    }
    text += &format!("links: [{way} -> receiver]\n");
    let checked = Chain::parse(&text, Path::new("."), &registry(), mode);
    checked.map(|checked| checked.chain).map_err(|errors| {
        Failure::input(format!(
            "{errors}\nthe chain of --nf is wrong; `catena nf list` has the types, and those that \
             need settings stand in a chain file (--chain)"
        ))
    })
}
