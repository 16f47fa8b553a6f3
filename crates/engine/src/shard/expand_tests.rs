//! The pure pass against what it promises: every packet comes to the shard that the key says, and
//! the same file gives the same chain, with names and numbers that stay.

use std::path::Path;

use catena_wire::ethernet::EtherType;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::chain::{Checked, Registry};
use crate::config::ConfigErrors;
use crate::nf::{BuildContext, BuiltNf, Inputs, NfKind};
use crate::nfs::frames::{self, IpPacket};
use crate::nfs::macswap;
use crate::placement::{place, place_onto};
use crate::port::{PortError, PortKind, PortNeeds, PortRole};
use crate::shard::Sharding;
use crate::shard::key::KeyReader;
use crate::supervisor::renumber::renumber;

const SEED: u64 = 5;

fn never(_: &Value, _: &mut BuildContext<'_>) -> Result<BuiltNf, ConfigErrors> {
    panic!("an NF was built by who only places it")
}

fn nothing() -> schemars::Schema {
    schemars::schema_for!(Value)
}

/// Gives packets another source address, and so another key.
const NAT: NfKind = NfKind {
    name: "nat",
    summary: "Changes addresses",
    example: "{}",
    schema: nothing,
    plan: |_, _| {
        let plan = NfPlan::new().inputs(Inputs::Many);
        Ok(plan.writes().sharding(Sharding::Any))
    },
    build: never,
};

const QUEUED: PortKind = PortKind {
    name: "nic",
    summary: "Has queues",
    counters: &[],
    drop_reasons: &[],
    needs: PortNeeds::NONE,
    schema: nothing,
    check: |_| {
        Ok(PortRole {
            queues_max: 64,
            ..PortRole::of(true, true)
        })
    },
    open: |_, _| Err(PortError("not in tests".to_owned())),
};

fn parse(text: &str) -> Checked {
    let registry = Registry {
        nfs: vec![&macswap::KIND, &NAT],
        ports: vec![&QUEUED],
        wraps: Vec::new(),
        files: Vec::new(),
    };
    let checked = Chain::parse(text, Path::new("."), &registry, None);
    checked.unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// How a node is written: its type, and how it is sharded.
#[derive(Clone, Debug)]
struct Sketch {
    changes: bool,
    shards: Option<(u16, &'static str)>,
}

fn sketch() -> impl Strategy<Value = Sketch> {
    let count = prop::sample::select(vec![1_u16, 2, 3, 16]);
    let key = prop::sample::select(vec![
        "flow",
        "inner_flow",
        "{ teids: 0x10000000/4, ue: [10.60.0.0/16] }",
    ]);
    let shards = prop::option::of((count, key));
    (any::<bool>(), shards).prop_map(|(changes, shards)| Sketch { changes, shards })
}

/// A chain of NFs between ports with queues.
fn chain_of(queues: &[Option<(u16, &'static str)>; 2], nfs: &[Sketch]) -> String {
    let queues_of = |queues: &Option<(u16, &'static str)>| match queues {
        Some((count, "")) => format!(", queues: {count}"),
        Some((count, key)) => format!(", queues: {{ count: {count}, key: {key} }}"),
        None => String::new(),
    };
    let mut text = String::from("name: x\nports:\n");
    for (name, queues) in ["in", "out"].iter().zip(queues) {
        text += &format!("  {name}: {{ nic: {{}}{} }}\n", queues_of(queues));
    }
    text += "nfs:\n";
    let mut way = vec!["in".to_owned()];
    for (index, nf) in nfs.iter().enumerate() {
        let kind = if nf.changes { "nat" } else { "macswap" };
        let shards = nf.shards.as_ref().map_or_else(String::new, |(count, key)| {
            format!(", shards: {{ count: {count}, key: {key} }}")
        });
        // One input is enough for any number of shards that send.
        text += &format!("  n{index}: {{ type: {kind}{shards} }}\n");
        way.push(format!("n{index}"));
    }
    way.push("out".to_owned());
    text + &format!("links: [ {} ]\n", way.join(" -> "))
}

/// The key by which a node of the file is sharded, as the text says it.
fn key_of(word: &str) -> ShardKey {
    match word {
        "flow" => ShardKey::Flow,
        "inner_flow" => ShardKey::InnerFlow,
        _ => ShardKey::Session(crate::shard::UeSpace {
            teids: (0x1000_0000, 4),
            ue: vec![("10.60.0.0".parse().unwrap(), 16)],
        }),
    }
}

/// The only link that leaves an output.
fn leaving(chain: &Chain, node: usize, output: u8) -> &Link {
    let mut links = chain
        .links_from(node)
        .filter(|(_, link)| link.output == output);
    let (_, link) = links.next().expect("every output is connected");
    assert!(links.next().is_none(), "an output feeds one link");
    link
}

/// Sends a packet through a chain of NFs that drop nothing, as the engine would; holds it to the
/// keys of `nfs`.
fn walk(chain: &Chain, mut node: usize, mut packet: Vec<u8>, nfs: &[Sketch]) {
    let mut output = 0;
    loop {
        node = leaving(chain, node, output).to;
        let here = &chain.nodes[node];
        output = 0;
        let NodeKind::Nf { kind, config, .. } = &here.kind else {
            return;
        };
        if kind.name == split::NAME {
            let config: Config = serde_json::from_value(config.clone()).unwrap();
            let reader = KeyReader::new(config.key, config.shards, SEED);
            output = reader.shard_of(&packet).unwrap_or(0);
            continue;
        }
        let of = here.shard.as_ref().map_or(&here.name, |shard| &shard.of);
        let sketch = &nfs[of[1..].parse::<usize>().unwrap()];
        assert_eq!(here.shard.is_some(), sketch.shards.is_some());
        if let (Some(shard), Some((count, key))) = (&here.shard, &sketch.shards) {
            let wanted = KeyReader::new(key_of(key), *count, SEED).shard_of(&packet);
            assert_eq!(
                shard.index,
                u16::from(wanted.unwrap_or(0)),
                "at {}",
                here.name
            );
            assert_eq!(shard.count, *count);
        }
        if sketch.changes && packet.len() > 29 {
            packet[29] ^= 0x55;
        }
    }
}

fn packets() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let one = (0_u8..4, any::<u16>(), any::<u8>()).prop_map(|(what, port, host)| {
        let server = format!("10.1.0.{host}");
        let ue = format!("10.60.{host}.1");
        let packet = |src: &str, dst: &str| {
            let packet = IpPacket {
                src,
                dst,
                ..IpPacket::default()
            };
            packet.ports(port, 80)
        };
        match what {
            0 => packet(&server, "10.2.0.1"),
            1 => packet("198.51.100.1", &ue),
            2 => packet(&ue, "198.51.100.1"),
            _ => frames::ethernet(EtherType::ARP, &[host; 40]),
        }
    });
    prop::collection::vec(one, 1..20)
}

fn queues() -> impl Strategy<Value = Option<(u16, &'static str)>> {
    let key = prop::sample::select(vec!["", "flow", "inner_flow"]);
    prop::option::of((prop::sample::select(vec![1_u16, 3, 16]), key))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..Default::default()
    })]

    /// Goal: whatever stands before a shard, what comes to it is its own. Method: packets walk
    /// through the chain as the pass has made it, and at each shard the key is asked anew.
    #[test]
    fn every_packet_comes_to_the_shard_that_the_key_says(
        queues in [queues(), queues()], nfs in prop::collection::vec(sketch(), 1..5),
        packets in packets(),
    ) {
        let chain = parse(&chain_of(&queues, &nfs)).chain;
        for packet in packets {
            for (index, node) in chain.nodes.iter().enumerate() {
                if !node.is_port() || crate::shard::name_in_file(&node.name) != "in" {
                    continue;
                }
                // A device that splits by a key gives each queue what is its own.
                let is_its_own = match (&node.shard, &queues[0]) {
                    (Some(shard), Some((count, key))) if !key.is_empty() => {
                        let reader = KeyReader::new(key_of(key), *count, SEED);
                        u16::from(reader.shard_of(&packet).unwrap_or(0)) == shard.index
                    }
                    _ => true,
                };
                if is_its_own {
                    walk(&chain, index, packet.clone(), &nfs);
                }
            }
        }
    }

    /// Goal: the same file gives the same chain and placement, and splitters run in their senders'
    /// loops.
    #[test]
    fn the_pass_is_deterministic_and_adds_no_hop(
        queues in [queues(), queues()], nfs in prop::collection::vec(sketch(), 1..5),
    ) {
        let text = chain_of(&queues, &nfs);
        let (chain, again) = (parse(&text).chain, parse(&text).chain);
        prop_assert_eq!(format!("{chain:?}"), format!("{again:?}"));
        let placement = place(&chain).unwrap();
        prop_assert_eq!(&placement, &place(&again).unwrap());
        let mut names: Vec<_> = chain.nodes.iter().map(|node| &node.name).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        prop_assert_eq!(names.len(), count, "names are unique");
        for (index, node) in chain.nodes.iter().enumerate() {
            if node.type_name() == split::NAME {
                let sender = chain.links_to(index).next().unwrap().1.from;
                prop_assert_eq!(placement.worker_of[index], placement.worker_of[sender]);
            }
        }
        for ring in &placement.rings {
            let twice = placement.rings.iter()
                .filter(|other| (other.from, other.number) == (ring.from, ring.number));
            prop_assert_eq!(twice.count(), 1, "a ledger tells links apart");
        }
    }

    /// Goal: with other numbers of shards, what is in both keeps its name, place and numbers.
    #[test]
    fn names_and_numbers_stay_when_shards_come_and_go(
        counts in (1_u16..=16, 1_u16..=16), key in prop::sample::select(vec!["flow", "inner_flow"]),
    ) {
        let with = |count| parse(&chain_of(&[None, None], &[
            Sketch { changes: false, shards: Some((count, key)) },
            Sketch { changes: false, shards: None },
        ])).chain;
        let (old, new) = (with(counts.0), with(counts.1));
        let running = place(&old).unwrap();
        let chain = renumber(&old, &new);
        let placement = place_onto(&chain, Some(&running)).unwrap();
        for index in 0..counts.0.min(counts.1) {
            let name = shard_name("n0", index);
            let node = old.node_index(&name).unwrap();
            prop_assert_eq!(chain.node_index(&name), Some(node));
            prop_assert_eq!(placement.worker_of[node], running.worker_of[node]);
            let link = format!("in:split.{index} -> {name}");
            let ring = |chain: &Chain, placement: &crate::placement::Placement| {
                let at = chain.links.iter().position(|other| other.name == link).unwrap();
                placement.rings.iter().find(|ring| ring.link == at).unwrap().clone()
            };
            let (was, is) = (ring(&old, &running), ring(&chain, &placement));
            prop_assert_eq!((was.link, was.number), (is.link, is.number));
        }
        prop_assert_eq!(chain.node_index("in:split"), old.node_index("in:split"));
    }
}

#[test]
fn shards_alike_are_joined_without_a_splitter() {
    let alike = Sketch {
        changes: false,
        shards: Some((16, "flow")),
    };
    let queues = [Some((16, "flow")), Some((16, ""))];
    let chain = parse(&chain_of(&queues, &[alike.clone(), alike.clone()])).chain;
    assert_eq!(chain.nodes.len(), 4 * 16);
    assert_eq!(chain.links[5].name, "in/5 -> n0/5");
    assert_eq!(chain.links.len(), 3 * 16);
    // What changes the key is followed by splitters.
    let changes = Sketch {
        changes: true,
        ..alike.clone()
    };
    let chain = parse(&chain_of(&queues, &[changes, alike])).chain;
    assert_eq!(chain.nodes.len(), 4 * 16 + 16);
    assert!(chain.node_index("n0/3:split").is_some());
    assert_eq!(chain.links.len(), 16 + 16 * 17 + 16);
}

#[test]
fn a_chain_of_64_shards_is_placed_and_queues_of_a_number_share_a_worker() {
    let shards = |key| Sketch {
        changes: false,
        shards: Some((64, key)),
    };
    let queues = [Some((64, "flow")), Some((64, ""))];
    let chain = parse(&chain_of(&queues, &[shards("flow"), shards("inner_flow")])).chain;
    let placement = place(&chain).unwrap();
    // `ports/n` for both ports, and two NFs.
    assert_eq!(placement.workers.len(), 3 * 64);
    assert_eq!(placement.workers[7].name, "ports/7");
    // Four sizes where packets are received, and bundles at whoever sends them on.
    assert_eq!(placement.pools.len(), 64 * (4 + 3));
    assert_eq!(placement.rings.len(), 64 + 64 * 64 + 64);
    let cores: Vec<usize> = (0..64).collect();
    for (worker, spec) in placement.workers.iter().enumerate() {
        let number = spec.name.split_once('/').unwrap().1.parse().ok();
        assert_eq!(placement.core_of(&chain, worker, &cores), number);
    }
}
