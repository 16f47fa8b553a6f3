//! Documents and what is wrong with them, orders, and chains.

use proptest::prelude::*;
use serde_json::json;

use super::cell::{MODE, RATE, SIZE, STATES};
use super::*;

fn parse(text: &str) -> Result<Study, String> {
    Study::KIND
        .parse(text, "study.yaml")
        .map_err(|errors| errors.to_string())
}

#[track_caller]
pub(super) fn study(text: &str) -> Study {
    parse(text).unwrap_or_else(|errors| panic!("{errors}"))
}

pub(super) const CROSSED: &str = "\
name: crossed
seed: 3
blocks: 4
factors:
  mode: [process, thread]
  size: [64, 1518, imix]
  rate: [max, 10kpps, 50%]
without:
  - { mode: thread, size: [1518, imix] }
";

fn example(name: &str) -> Study {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = path.join("../../chains/studies").join(name);
    Study::KIND
        .load(&file)
        .unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn the_study_of_containers_has_its_size() {
    let study = example("cnf-vs-bnf.yaml");
    assert_eq!((study.cells().len(), study.order().len()), (312, 3744));
    // Containers over processes within each port and load.
    let compared: Vec<_> = study.compared().collect();
    assert_eq!(compared, [(MODE, vec![cell::PORT, RATE])]);
    // p99.9 needs ten packets above it, at the lowest load too.
    assert!(study.trial_ns >= 500_000_000);
    let is_without = |cell: &cell::Cell| study.level(cell, STATES) == "-c";
    let cells = study.cells();
    let without: Vec<_> = cells.iter().filter(|cell| is_without(cell)).collect();
    assert_eq!(without.len(), 2 * 5 * 2 * 2);
    for cell in without {
        assert!(["64", "1500"].contains(&study.level(cell, SIZE)));
        assert!(["20kpps", "max"].contains(&study.level(cell, RATE)));
    }
}

/// The figures of two papers: chunks of up to 128 KiB by three ways, bundles by size and length.
#[test]
fn the_studies_of_papers_have_their_axes() {
    let ntt = example("ntt.yaml");
    assert_eq!((ntt.cells().len(), ntt.order().len()), (36, 216));
    let levels = |study: &Study, place: usize| {
        let levels = study.levels[place].iter();
        levels.map(|level| level.text.clone()).collect::<Vec<_>>()
    };
    assert_eq!(levels(&ntt, cell::PROTOCOL), ["ring", "flag", "tcp"]);
    assert_eq!(levels(&ntt, SIZE).last().unwrap(), "131072");
    // p99 needs ten chunks above it.
    assert!(ntt.trial_ns >= 2_000_000_000);
    let pa_flow = example("pa-flow.yaml");
    assert_eq!((pa_flow.cells().len(), pa_flow.order().len()), (162, 972));
    assert_eq!(levels(&pa_flow, cell::AGGREGATE), ["off", "auto", "on"]);
    assert_eq!(levels(&pa_flow, cell::NFS)[0], "2");
}

#[test]
fn links_hand_over_as_the_combination_says() {
    use catena_engine::chain::{Protocol, Trust};
    let study = study(
        "name: x\nfactors: { mode: [process, inline], trust: copy, protocol: [ring, flag, tcp] }\n\
         without: [{ mode: inline, protocol: [flag, tcp] }]\n",
    );
    let registry = document::registry();
    for cell in study.cells() {
        let chain = study.chain_of(&cell, &registry).unwrap().chain;
        let wanted = match (study.level(&cell, MODE), study.level(&cell, cell::PROTOCOL)) {
            ("inline", _) | (_, "ring") => Protocol::Ring,
            (_, "flag") => Protocol::Flag,
            _ => Protocol::Tcp,
        };
        assert_eq!(chain.links.len(), 2);
        for link in &chain.links {
            assert_eq!(link.protocol, wanted, "{}", study.title(&cell));
            let is_copied = study.level(&cell, MODE) == "process";
            assert_eq!(
                link.trust == Trust::Copy,
                is_copied,
                "{}",
                study.title(&cell)
            );
        }
    }
}

#[test]
fn the_larger_study_of_containers_has_every_mode() {
    let study = example("cnf-vs-bnf-full.yaml");
    let modes: Vec<_> = study.levels[MODE]
        .iter()
        .map(|level| level.text.as_str())
        .collect();
    for mode in ["inline", "thread", "process", "container"] {
        assert!(modes.contains(&mode), "{mode}");
    }
    assert!(study.cells().len() > 1000);
}

#[test]
fn examples_of_the_reference_are_studies() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path.join("../../docs/reference/study.md")).unwrap();
    let examples: Vec<_> = text.split("```yaml\n").skip(1).collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        study(example.split("```").next().unwrap());
    }
    let schema = (Study::KIND.schema)().to_value().to_string();
    for field in [
        "blocks",
        "samples",
        "without",
        "aggregate",
        "states",
        "tester",
        "wire",
    ] {
        assert!(schema.contains(&format!("\"{field}\":")), "{field}");
        assert!(text.contains(&format!("| `{field}` |")), "{field}");
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once_with_place_and_repair() {
    let wrong = "\
nome: typo
blocks: 0
trial: 5
nf: { type: macswapp }
profile: { sizes: 64, load: { rate: 1kpps } }
factors:
  mode: [process, podman, process]
  size: [20, 64]
  rate: [50%]
  port: [link, xdp]
  nfs: [0]
  speed: [1]
  states: [-pc, fast]
ports:
  tap: { device: { tap: { name: $device } }, wire: string }
";
    let errors = parse(wrong).unwrap_err();
    for (place, words) in [
        ("1:1", "unknown key \"nome\""),
        ("2:9", "give 1 to 1000"),
        ("3:8", "250us"),
        ("4:5", "macswapp"),
        ("5:19", "factors.size"),
        ("5:37", "factors.rate"),
        ("7:19", "podman"),
        ("7:27", "is there already"),
        ("9:9", "add max"),
        ("10:16", "no port kind is called \"xdp\""),
        ("11:9", "give 1 to 32"),
        ("12:10", "\"speed\" is no factor"),
        ("13:17", "write it like +pc"),
        ("15:", "string"),
    ] {
        let found = errors
            .lines()
            .any(|line| line.starts_with(&format!("study.yaml:{place}")) && line.contains("error"));
        assert!(found && errors.contains(words), "{place} {words}\n{errors}");
    }
    assert_eq!(
        errors.matches("repair:").count(),
        errors.matches(": error:").count()
    );
    let wrong = "name: x\nwithout:\n  - { mode: vm, colour: red }\n";
    let errors = parse(wrong).unwrap_err();
    for (place, words) in [
        ("3:13", "mode has no level \"vm\""),
        ("3:25", "\"colour\" is no factor"),
    ] {
        assert!(errors.contains(place) && errors.contains(words), "{errors}");
    }
    // What only shows when chains and profiles are made of it.
    let wrong = "name: x\nnf: { type: macswap, fast: true }\n";
    assert!(
        parse(wrong).unwrap_err().contains("study.yaml:2:5: error"),
        "{:?}",
        parse(wrong)
    );
    let wrong = "name: x\nfactors: { size: [64, 20], trust: [shared, ro] }\n";
    let errors = parse(wrong).unwrap_err();
    assert!(
        errors.contains("study.yaml:2:23") && errors.contains("give 64 or more"),
        "{errors}"
    );
    let wrong = "name: x\nfactors: { trust: [shared, ro] }\n";
    let errors = parse(wrong).unwrap_err();
    assert!(errors.contains("trust=ro"), "{errors}");
    let wrong = "\
name: x
factors: { port: [veth] }
ports:
  veth: { device: { packet_socket: {} } }
";
    let errors = parse(wrong).unwrap_err();
    assert!(errors.contains("study.yaml:4:"), "{errors}");
    for nothing in [
        "",
        "[]",
        "5",
        "name: x\nfactors: 5\n",
        "name: x\nwithout: [{ mode: process }]\n",
    ] {
        assert!(parse(nothing).unwrap_err().contains("repair:"), "{nothing}");
    }
}

#[test]
fn a_chain_is_not_compared_with_itself() {
    let inline = "name: x\nfactors:\n  mode: [process, inline]\n  protocol: [ring, flag, tcp]\n";
    let errors = parse(inline).unwrap_err();
    for words in [
        "study.yaml:4:13: error: factors.protocol: mode=inline protocol=ring and mode=inline \
         protocol=flag are the same chain",
        "repair: write without: [{ mode: inline, protocol: flag }]",
    ] {
        assert!(errors.contains(words), "{words}\n{errors}");
    }
    assert_eq!(errors.matches("error:").count(), 1, "{errors}");
    study(&format!(
        "{inline}without: [{{ mode: inline, protocol: [flag, tcp] }}]\n"
    ));
    let tcp = "name: x\nfactors: { aggregate: [auto, off], protocol: [ring, tcp] }\n";
    let errors = parse(tcp).unwrap_err();
    assert!(
        errors.contains("[{ protocol: tcp, aggregate: off }]"),
        "{errors}"
    );
    study(&format!(
        "{tcp}without: [{{ protocol: tcp, aggregate: off }}]\n"
    ));
}

#[test]
fn combinations_are_crossed_and_left_out() {
    let study = study(CROSSED);
    let cells = study.cells();
    assert_eq!(cells.len(), 3 * 3 + 3);
    let is_left_out =
        |cell: &&Cell| study.level(cell, MODE) == "thread" && study.level(cell, cell::SIZE) != "64";
    assert_eq!(cells.iter().filter(is_left_out).count(), 0);
    assert_eq!(study.title(&cells[1]), "mode=process size=64 rate=10kpps");
    let shares = cells.iter().filter(|cell| study.load(cell).is_share());
    for cell in shares {
        let reference = study.reference_of(cell).unwrap();
        assert_eq!(study.level(&reference, RATE), "max");
        assert!(cells.contains(&reference));
    }
    let mut part = study.clone();
    part.keep_only("size", &["imix"]).unwrap();
    assert_eq!(part.cells().len(), 3);
    assert!(
        part.keep_only("size", &["64"])
            .unwrap_err()
            .contains("it has imix")
    );
    assert!(
        part.keep_only("colour", &["red"])
            .unwrap_err()
            .contains("mode, port")
    );
    assert!(
        part.keep_only("mode", &["thread"])
            .unwrap_err()
            .contains("no combination")
    );
}

proptest! {
    /// Every trial once; blocks are contiguous, states take turns within them, shares come after
    /// what they are shares of; another number gives another order.
    #[test]
    fn every_order_is_whole(seed in 0u64..1000, blocks in 1u32..6) {
        let mut crossed = study(CROSSED).with_states(vec![Level::word("+pc"), Level::word("-pc")]);
        crossed.seed = seed;
        crossed.blocks = blocks;
        let cells = crossed.cells();
        let order = crossed.order();
        let mut sorted = order.clone();
        sorted.sort();
        let of_block = |block| (0..cells.len()).map(move |cell| Unit { block, cell });
        prop_assert_eq!(sorted, (0..blocks).flat_map(of_block).collect::<Vec<_>>());
        prop_assert!(order.is_sorted_by_key(|unit| unit.block));
        let state = |unit: &Unit| (unit.block, cells[unit.cell][STATES]);
        let turns: Vec<_> = order.chunk_by(|a, b| state(a) == state(b)).collect();
        prop_assert_eq!(turns.len(), 2 * blocks as usize);
        let is_max = |unit: &Unit| crossed.level(&cells[unit.cell], RATE) == "max";
        for turn in turns {
            prop_assert!(turn.is_sorted_by_key(|unit| !is_max(unit)));
        }
        prop_assert_eq!(&crossed.order(), &order);
        crossed.seed += 1;
        prop_assert_ne!(crossed.order(), order);
    }
}

#[test]
fn ports_of_both_wires_are_numbered() {
    let text = "\
name: numbered
nf: { type: macswap }
factors: { port: [link, veth] }
ports:
  veth: { device: { tap: { name: tap$number } }, tester: { tap: { name: $tester } } }
";
    let study = study(text);
    let cells = study.cells();
    let chain = study.chain_of(&cells[1], &document::registry()).unwrap();
    let names = |wanted: &str| -> Vec<_> {
        let nodes = chain.chain.nodes.iter();
        let named = nodes.filter(|node| node.name.starts_with(wanted));
        let config = named.filter_map(|node| match &node.kind {
            catena_engine::chain::NodeKind::Port { config, .. } => Some(config["name"].clone()),
            catena_engine::chain::NodeKind::Nf { .. } => None,
        });
        config.collect()
    };
    assert_eq!(names("device"), [json!("tap0"), json!("tap1")]);
    assert_eq!(names("tester"), [json!("cat-t1"), json!("cat-t0")]);
}

#[test]
fn chains_have_the_parts_that_a_combination_asks_for() {
    let text = "\
name: parts
nf: [{ type: macswap }, { type: ttl }]
factors: { mode: [inline, container], port: [link, veth], nfs: [3], trust: copy }
ports:
  veth: { device: { packet_socket: { interface: $device } } }
";
    let study = study(text);
    let registry = document::registry();
    let cells = study.cells();
    let chain = |index: usize| study.chain_of(&cells[index], &registry).unwrap().chain;
    let types = |chain: &catena_engine::chain::Chain| {
        let nodes = chain.nodes.iter().map(|node| node.type_name().to_owned());
        nodes.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(types(&chain(0)), "receiver traffic macswap ttl macswap");
    let wired = chain(3);
    assert_eq!(
        types(&wired),
        "packet_socket packet_socket receiver packet_socket packet_socket traffic macswap ttl \
         macswap"
    );
    assert_eq!(wired.links.len(), 6);
    let interfaces: Vec<_> = wired.nodes[..6]
        .iter()
        .map(|node| match &node.kind {
            catena_engine::chain::NodeKind::Port { config, .. } => config["interface"].clone(),
            catena_engine::chain::NodeKind::Nf { .. } => json!(null),
        })
        .collect();
    assert_eq!(
        interfaces,
        [
            json!("cat-d0"),
            json!("cat-d1"),
            json!(null),
            json!("cat-t1"),
            json!("cat-t0"),
            json!(null)
        ]
    );
    use catena_engine::chain::{Mode, Trust};
    assert!(
        wired.nodes[6..]
            .iter()
            .all(|node| node.mode == Mode::Container)
    );
    assert!(
        wired.nodes[..6]
            .iter()
            .all(|node| node.mode == Mode::Process)
    );
    assert_eq!(
        wired
            .links
            .iter()
            .filter(|link| link.trust == Trust::Copy)
            .count(),
        4
    );
}
