//! What control requests change of a chain: kept, compacted, bounded, and fitted to another file.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::kinds::registry;
use crate::chain::amendments::{AMENDMENT_BYTES_MAX, Amended, Amendment, Amendments, config_of};
use crate::chain::{Chain, Registry};
use crate::config::ConfigError;
use crate::nf::{NfKind, NfPlan};

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

static PLANS: AtomicUsize = AtomicUsize::new(0);

/// Has a list of numbers, to which each request adds one; no number in a file's `not` may be there.
const LISTED: NfKind = NfKind {
    name: "listed",
    summary: "Has a list",
    example: "{}",
    schema: || schemars::schema_for!(Value),
    plan: |config, _| {
        PLANS.fetch_add(1, Ordering::Relaxed);
        let of = |key: &str| config[key].as_array().cloned().unwrap_or_default();
        let not = of("not");
        if of("all").iter().any(|one| not.contains(one)) {
            return Err(vec![ConfigError::new(
                "all",
                "it is excluded",
                "leave it out",
            )]);
        }
        Ok(NfPlan::new().amended_by(|config, requests| {
            let add = |request: &Value| {
                let mut all = config["all"].as_array().cloned().unwrap_or_default();
                all.push(request.clone());
                config["all"] = all.into();
                Ok(Some(format!("all/{request}")))
            };
            requests.iter().map(add).collect()
        }))
    },
    build: |_, _| panic!("an NF was built by who only reads the file"),
};

/// A chain of a thousand entries that were added one by one becomes what another file says, which
/// has no place for two of them.
#[test]
fn a_few_that_do_not_fit_among_many_are_found_in_a_few_tries() {
    let chain = |not: &str| {
        let nfs = vec![&LISTED];
        let registry = Registry { nfs, ..registry() };
        let text = format!(
            "name: x\nports:\n  a: {{ tap: {{}} }}\n  b: {{ tap: {{}} }}\nnfs:\n  \
             edge: {{ type: listed, not: [{not}] }}\nlinks: [ a -> edge -> b ]\n"
        );
        let checked = Chain::parse(&text, Path::new("."), &registry, None);
        checked.unwrap_or_else(|errors| panic!("{errors}")).chain
    };
    let entry = |number: u64| Amendment {
        key: format!("all/{number}"),
        request: number.into(),
    };
    let mut kept = Amendments::default();
    kept.keep("edge", (0..1000).map(entry).collect());
    let mut other = chain("77, 500");
    let before = PLANS.load(Ordering::Relaxed);
    let (fits, gone) = kept.amend(&mut other);
    let tries = PLANS.load(Ordering::Relaxed) - before;
    assert!(tries <= 2 * 2 * 11, "{tries} tries");
    assert_eq!(gone.len(), 2, "{gone:?}");
    for (why, key) in gone.iter().zip(["(all/77)", "(all/500)"]) {
        assert!(why.contains(key) && why.contains("excluded"), "{why}");
    }
    let here: Vec<u64> = (0..1000).filter(|one| ![77, 500].contains(one)).collect();
    assert_eq!(config(&other)["all"], json!(here), "in their order");
    assert_eq!(fits.of("edge").len(), 998);
}
