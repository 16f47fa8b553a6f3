//! A region that shards share goes with the shards, whichever of them come and go.

use std::path::Path;

use serde_json::Value;

use super::*;
use crate::chain::Registry;
use crate::chain::tests::kinds::registry;
use crate::config::parse_config;
use crate::nf::{NfKind, NfPlan};
use crate::shard::Sharding;
use crate::supervisor::renumber::renumber;

/// Has a region of its own and one that its shards share, of the layouts that it is told.
const TELLER: NfKind = NfKind {
    name: "teller",
    summary: "Counts for all",
    example: "{}",
    schema: || schemars::schema_for!(Value),
    plan: |config, _| {
        let region = |name: &str, layout, is_shared| StatePlan {
            name: name.to_owned(),
            bytes: 100,
            layout,
            is_shared,
        };
        let layouts = parse_config::<std::collections::BTreeMap<String, u64>>(config)?;
        let layout = |name: &str| layouts.get(name).copied().unwrap_or(1);
        let plan = NfPlan::new().sharding(Sharding::Any);
        let plan = plan.moved_by(|_, _, _| Err("nothing is moved here".to_owned()));
        Ok(plan
            .state(region("own", layout("own"), false))
            .state(region("all", layout("layout"), true)))
    },
    build: |_, _| panic!("an NF was built by who only plans it"),
};

fn parse(shards: u16, layout: u64) -> Chain {
    parse_with(shards, &format!("layout: {layout}"))
}

fn parse_with(shards: u16, layouts: &str) -> Chain {
    let registry = Registry {
        nfs: vec![&TELLER],
        ..registry()
    };
    let text = format!(
        "name: x
ports:
  in: {{ pcap: {{ read: in.pcap }} }}
  out: {{ pcap: {{ write: out.pcap }} }}
nfs:
  tell: {{ type: teller, shards: {{ count: {shards}, key: flow }}, {layouts} }}
links: [ in -> tell -> out ]
"
    );
    let checked = Chain::parse(&text, Path::new("."), &registry, None);
    checked.unwrap_or_else(|errors| panic!("{errors}")).chain
}

fn shard(chain: &Chain, name: &str) -> usize {
    let found = chain.nodes.iter().position(|node| node.name == name);
    found.unwrap_or_else(|| panic!("no {name}"))
}

fn plan(chain: &Chain, node: usize) -> StatePlan {
    states_of(&chain.nodes[node])[1].clone()
}

/// What all shards of a chain are given when it starts.
fn given(chain: &Chain) -> States {
    let mut states = States::default();
    let shards = (0..chain.nodes.len()).filter(|node| chain.nodes[*node].shard.is_some());
    for node in shards {
        let plan = plan(chain, node);
        let found = states.find(chain, node, &plan);
        let (key, mut kept) = found.unwrap_or_else(|| {
            let key = (node, plan.name.clone());
            (key, make(&plan).unwrap())
        });
        kept.users.insert(node);
        states.kept.insert(key, kept);
    }
    states
}

#[test]
fn shards_find_one_region_whichever_of_them_is_there_still() {
    let old = parse(3, 1);
    let states = given(&old);
    assert_eq!(states.kept.len(), 1);
    let key = (shard(&old, "tell/0"), "all".to_owned());
    let found = |chain: &Chain, name: &str| {
        let node = shard(chain, name);
        let found = states.find(chain, node, &plan(chain, node));
        found.map(|(key, _)| key)
    };
    // The first two run elsewhere from now on, so they are other nodes; the third stays.
    let mut moved = old.clone();
    for name in ["tell/0", "tell/1"] {
        let node = shard(&moved, name);
        moved.nodes[node].core = Some(5);
    }
    let moved = renumber(&old, &moved);
    assert_ne!(shard(&moved, "tell/0"), key.0);
    for name in ["tell/0", "tell/1", "tell/2"] {
        assert_eq!(found(&moved, name).as_ref(), Some(&key), "{name}");
    }
    // More of them, or only one.
    assert_eq!(
        found(&renumber(&old, &parse(5, 1)), "tell/4"),
        Some(key.clone())
    );
    assert_eq!(found(&renumber(&old, &parse(1, 1)), "tell/0"), Some(key));
    // Of another layout, or where none is left that had it.
    assert_eq!(found(&renumber(&old, &parse(3, 2)), "tell/2"), None);
    let mut all = old.clone();
    all.nodes.iter_mut().for_each(|node| node.core = Some(5));
    assert_eq!(found(&renumber(&old, &all), "tell/2"), None);
}

#[test]
fn a_new_supervisor_knows_all_who_have_it() {
    let chain = parse(3, 1);
    let before = given(&chain);
    let mut after = States::default();
    for (node, name, fd, len) in before.everything() {
        after.restore(&chain, (node, name), fd.clone(), len);
    }
    let users = |states: &States| -> Vec<usize> {
        let kept = states.kept.values().flat_map(|kept| &kept.users);
        kept.copied().collect()
    };
    assert_eq!(users(&after), users(&before));
    assert_eq!(users(&after).len(), 3);
}

#[test]
fn flows_go_with_their_shard_whatever_becomes_of_what_all_share() {
    let (old, told) = (parse(3, 1), "  node tell: flows go with their shard, of");
    for (layouts, shards, goes) in [
        ("layout: 1", 5, true),
        ("layout: 2", 5, true),
        ("layout: 2", 2, true),
        ("own: 2", 5, false),
        ("layout: 2", 3, false),
    ] {
        let new = parse_with(shards, layouts);
        let [before, after] = [&old, &new].map(|chain| &chain.nodes[shard(chain, "tell/0")]);
        let is_moved = mover_between(before, after).is_some();
        assert_eq!(is_moved, goes, "{layouts}, {shards} shards");
        let lines = fates(&old, &new);
        assert_eq!(lines.iter().any(|line| line.starts_with(told)), goes);
    }
}

#[test]
fn people_are_told_once_what_becomes_of_it() {
    let told = |new: &Chain| {
        let lines = fates(&parse(3, 1), new);
        let shared = lines.into_iter().filter(|line| line.contains(" all "));
        shared.collect::<Vec<_>>()
    };
    assert_eq!(told(&parse(3, 1)), [""; 0]);
    assert_eq!(told(&parse(5, 1)), ["  node tell: all is kept"]);
    assert_eq!(told(&parse(3, 2)), ["  node tell: all starts anew"]);
}
