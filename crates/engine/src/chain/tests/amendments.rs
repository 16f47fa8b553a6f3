//! What control requests change of a chain: kept, compacted, bounded, and fitted to another file.

use std::path::Path;

use serde_json::{Value, json};

use super::kinds::registry;
use crate::chain::amendments::{AMENDMENT_BYTES_MAX, Amended, Amendment, Amendments, config_of};
use crate::chain::{Chain, Registry};

fn chain(nf: &str) -> Chain {
    let nfs = vec![&crate::nfs::acl::KIND, &crate::nfs::macswap::KIND];
    let registry = Registry { nfs, ..registry() };
    let text = format!(
        "name: x\nports:\n  a: {{ tap: {{}} }}\n  b: {{ tap: {{}} }}\nnfs:\n  edge: {nf}\n\
         links: [ a -> edge -> b ]\n"
    );
    let checked = Chain::parse(&text, Path::new("."), &registry, None);
    checked.unwrap_or_else(|errors| panic!("{errors}")).chain
}

fn config(chain: &Chain) -> Value {
    config_of(&chain.nodes[chain.node_index("edge").unwrap()]).clone()
}

/// Asks, and keeps what follows, as a supervisor does.
fn ask(
    kept: &mut Amendments,
    chain: &mut Chain,
    written: &Value,
    request: &Value,
) -> Result<Option<Amended>, String> {
    let at = chain.node_index("edge").unwrap();
    let amended = kept.propose(("edge", &chain.nodes[at]), written, request)?;
    if let Some(amended) = &amended {
        kept.keep("edge", amended.kept.clone());
        crate::chain::amendments::set_config(&mut chain.nodes[at], amended.config.clone());
    }
    Ok(amended)
}

fn rules(count: usize) -> Value {
    json!({"rules": vec![json!({"action": "deny", "dst_port": 80}); count]})
}

#[test]
fn what_changes_is_kept_once_and_what_asks_is_not() {
    let mut now = chain("{ type: acl, rules: [] }");
    let written = config(&now);
    let mut kept = Amendments::default();
    let mut ask = |request: &Value| ask(&mut kept, &mut now, &written, request);
    assert_eq!(ask(&json!({"show": "hits"})), Ok(None));
    assert!(ask(&json!({"rules": [{"action": "maybe"}]})).is_err());
    for count in [3, 1, 2] {
        let amended = ask(&rules(count)).unwrap().unwrap();
        assert_eq!(amended.kept.len(), 1, "the last takes the place of others");
        assert_eq!(amended.config["rules"], rules(count)["rules"]);
    }
    let back = ask(&rules(0)).unwrap().unwrap();
    assert_eq!(back.kept, [], "it is as the file says");
    assert!(kept.is_empty());
}

#[test]
fn what_fits_another_file_is_kept_and_what_it_says_itself_is_not() {
    let mut now = chain("{ type: acl, rules: [] }");
    let written = config(&now);
    let mut kept = Amendments::default();
    ask(&mut kept, &mut now, &written, &rules(2)).unwrap();
    let mut other = chain("{ type: acl, rules: [], non_ip: deny }");
    let (fits, gone) = kept.amend(&mut other);
    assert_eq!((fits, gone), (kept.clone(), Vec::new()));
    assert_eq!(config(&other)["rules"], rules(2)["rules"]);
    assert_eq!(config(&other)["non_ip"], "deny");
    let said = format!("{{ type: acl, rules: {} }}", rules(2)["rules"]);
    let (fits, gone) = kept.amend(&mut chain(&said));
    assert!(fits.is_empty() && gone.is_empty(), "{fits:?} {gone:?}");
    let mut swap = chain("{ type: macswap }");
    let (fits, gone) = kept.amend(&mut swap);
    assert!(fits.is_empty() && gone[0].contains("node edge"), "{gone:?}");
    assert_eq!(config(&swap), json!({}));
}

#[test]
fn no_more_is_kept_than_a_file_may_have() {
    let mut now = chain("{ type: acl, rules: [] }");
    let written = config(&now);
    let mut kept = Amendments::default();
    let elsewhere = Amendment {
        key: "all".to_owned(),
        request: "x".repeat(AMENDMENT_BYTES_MAX - 200).into(),
    };
    kept.keep("elsewhere", vec![elsewhere]);
    assert!(ask(&mut kept, &mut now, &written, &rules(1)).is_ok());
    let before = (kept.clone(), config(&now));
    let why = ask(&mut kept, &mut now, &written, &rules(20)).unwrap_err();
    assert!(
        why.contains("1048576 is the limit") && why.contains("catena export"),
        "{why}"
    );
    assert_eq!((kept, config(&now)), before, "what was kept is as it was");
}
