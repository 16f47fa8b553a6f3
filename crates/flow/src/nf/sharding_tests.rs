//! Which programs can be sharded, and what comes together.

use std::collections::BTreeSet;

use catena_engine::shard::{Choice, Chooser, Sharding};
use serde_json::{Value, json};

use super::KIND;
use crate::efsm::tests::{TCP, UDP, packet};

/// One element that passes all, with these members; `more` of the program.
fn config(element: &Value, more: &Value) -> Value {
    let mut first = json!({"name": "first", "registers": {"n": 8},
        "transitions": [{"do": ["flow.n = flow.n + 1", "output(out)"]}]});
    merge(&mut first, element);
    let mut program = json!({"elements": [first]});
    merge(&mut program, more);
    json!({"program": program})
}

fn merge(to: &mut Value, from: &Value) {
    for (key, value) in from.as_object().unwrap() {
        to[key] = value.clone();
    }
}

fn sharding(config: &Value) -> Sharding {
    (KIND.plan)(config, &[]).unwrap().sharding
}

fn refusal(config: &Value) -> String {
    match sharding(config) {
        Sharding::No(why) => why.into_owned(),
        other => panic!("{other:?}: {config:#}"),
    }
}

fn chooser(config: &Value, shards: u16, input: u8) -> Box<dyn Chooser> {
    let Sharding::Own(make) = sharding(config) else {
        panic!("no key of its own: {config:#}")
    };
    let seed = 7;
    (make.0)(
        config,
        Choice {
            shards,
            seed,
            input,
        },
    )
    .unwrap()
}

#[test]
fn both_directions_of_a_connection_go_to_one_shard_and_others_elsewhere() {
    let both = json!({"key": ["ip.protocol"],
        "biflow": [["ip.src", "ip.dst"], ["l4.src_port", "l4.dst_port"]]});
    let mut choose = chooser(&config(&both, &json!({})), 16, 0);
    let mut seen = BTreeSet::new();
    for port in 0..200 {
        let there = choose.shard_of(&packet(TCP, (1, 1000 + port), (9, 80), 2));
        let back = choose.shard_of(&packet(TCP, (9, 80), (1, 1000 + port), 0x12));
        assert!(there.is_some() && there == back, "{there:?} {back:?}");
        seen.insert(there);
    }
    assert_eq!(seen.len(), 16, "all shards have flows");
    // A packet without the key's headers is the first shard's, and so is a malformed one.
    let mut arp = packet(UDP, (1, 1), (2, 2), 0);
    arp[12..14].copy_from_slice(&[8, 6]);
    assert_eq!(choose.shard_of(&arp), None);
    assert_eq!(choose.shard_of(&arp[..9]), None);
}

#[test]
fn a_key_may_depend_on_the_input() {
    let keys = json!({"keys": [
        {"if": "packet.input == 1", "key": ["ipv4.dst"]},
        {"if": "packet.input == 0", "key": ["ipv4.src"]},
    ]});
    let config = config(&keys, &json!({}));
    let (mut up, mut down) = (chooser(&config, 16, 0), chooser(&config, 16, 1));
    let mut seen = BTreeSet::new();
    for host in 1..100 {
        let sent = up.shard_of(&packet(UDP, (host, 5), (200, 6), 0));
        assert_eq!(sent, down.shard_of(&packet(UDP, (200, 6), (host, 5), 0)));
        seen.insert(sent);
    }
    assert!(seen.len() > 8, "{seen:?}");
}

#[test]
fn programs_whose_keys_no_splitter_knows_are_refused_with_the_reason() {
    let src = json!({"key": ["ipv4.src"]});
    let second = |members: &Value| {
        let mut both = config(&src, &json!({"metadata": {"m": 32}}));
        let mut second = json!({"name": "second", "registers": {"n": 8},
            "transitions": [{"do": ["flow.n = flow.n + 1", "output(out)"]}]});
        merge(&mut second, members);
        both["program"]["elements"][0]["transitions"] =
            json!([{"do": ["flow.n = flow.n + 1", "meta.m = ipv4.dst"]}]);
        both["program"]["elements"]
            .as_array_mut()
            .unwrap()
            .push(second);
        both
    };
    for (wrong, why) in [
        (
            config(
                &json!({"key": ["eth.dst"], "update_key": ["eth.src"]}),
                &json!({}),
            ),
            "first writes flows of another key",
        ),
        (
            second(&json!({"key": ["ipv4.dst"]})),
            "first and second have different keys",
        ),
        (
            config(&json!({"key": ["hash(ipv4.src) as 8"]}), &json!({})),
            "depends on a hash",
        ),
        (
            config(&json!({"key": ["ipv4.src", "now"]}), &json!({})),
            "depends on the time",
        ),
    ] {
        let said = refusal(&wrong);
        assert!(said.contains(why), "{said}\n{wrong:#}");
    }
    // By a seed that the program gives, a splitter makes the same key as the shards.
    let seeded = config(
        &json!({"key": ["hash(ipv4.src) as 8"]}),
        &json!({"hash_seed": 5}),
    );
    let shard = |config: &Value| {
        let mut chooser = chooser(config, 16, 0);
        let sources = (1..60).map(|host| packet(UDP, (host, 5), (200, 6), 0));
        sources
            .map(|packet| chooser.shard_of(&packet))
            .collect::<Vec<_>>()
    };
    let mut otherwise = seeded.clone();
    otherwise["program"]["hash_seed"] = 6.into();
    assert_eq!(shard(&seeded), shard(&seeded));
    assert_ne!(shard(&seeded), shard(&otherwise));
    // The same key twice is one, as long as nobody changes what it is read from in between.
    let mut same = second(&src);
    assert!(matches!(sharding(&same), Sharding::Own(_)));
    same["program"]["elements"][0]["transitions"] =
        json!([{"do": ["flow.n = flow.n + 1", "ipv4.src = 1"]}]);
    assert!(refusal(&same).contains("first changes packets before second"));
    let mut told = second(&json!({"key": ["meta.m"]}));
    told["program"]["elements"][0]["key"] = json!([]);
    told["program"]["elements"][0]["registers"] = json!({});
    told["program"]["elements"][0]["transitions"] = json!([{"do": ["meta.m = ipv4.dst"]}]);
    assert!(refusal(&told).contains("depends on metadata"));
}

#[test]
fn without_flows_any_key_does_and_registers_may_be_of_each_shard() {
    let mut stateless = config(
        &json!({}),
        &json!({"globals": {"seen": {"width": 32, "scope": "merged"}}}),
    );
    stateless["program"]["elements"][0] = json!({"name": "first",
        "transitions": [{"do": ["global.seen = global.seen + 1", "output(out)"]}]});
    assert_eq!(sharding(&stateless), Sharding::Any);
}

/// What one register would have counted, however many shards there are; what all share is told
/// once; those of each shard are not of the whole.
#[test]
fn registers_that_are_merged_come_to_their_sum() {
    let globals = json!({"globals": {
        "seen": {"width": 8, "scope": "merged"},
        "begun": {"width": 8, "initial": 250, "scope": "merged"},
        "each": {"width": 64, "count": 2, "scope": "merged"},
        "own": {"width": 8, "scope": "per_core"},
        "one": {"width": 8, "initial": 3, "scope": "shared"},
        "all": {"width": 8, "count": 2, "scope": "shared"},
    }});
    let config = config(&json!({"key": ["ipv4.src"]}), &globals);
    let answers = [
        json!({"seen": 200, "begun": 252, "each": [1, u64::MAX], "own": 1, "one": 9,
            "all": [4, 5]}),
        json!({"seen": 57, "begun": 255, "each": [5, 2], "own": 2, "one": 9, "all": [4, 5]}),
    ];
    let answers: Vec<&Value> = answers.iter().collect();
    let sum = |config: &Value, request: &Value| super::sharding::sum(config, request, &answers);
    let globals = json!({"show": "globals"});
    assert_eq!(
        sum(&config, &globals),
        Some(json!({"seen": 1, "begun": 1, "each": [6, 1], "one": 9, "all": [4, 5]})),
        "a shared one is told once"
    );
    assert_eq!(sum(&config, &json!({"show": "flows"})), None);
    let none = self::config(&json!({"key": ["ipv4.src"]}), &json!({}));
    assert_eq!(sum(&none, &globals), None);
}
