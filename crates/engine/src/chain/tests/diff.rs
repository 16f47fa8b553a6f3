//! Plans: what they say, and that taking their actions in order leads from one chain to the other.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::check_text;
use super::right::FULL;
use crate::chain::{Action, Chain, Link, Node, NodeKind, Plan, diff};

fn chain(text: &str) -> Chain {
    match check_text(text) {
        Ok(checked) => checked.chain,
        Err(errors) => panic!("{text}\n{errors}"),
    }
}

fn plan(old: &str, new: &str) -> Vec<String> {
    let plan = diff(&chain(old), &chain(new));
    plan.actions.iter().map(ToString::to_string).collect()
}

/// `FULL` with one piece replaced.
fn plan_of(right: &str, other: &str) -> Vec<String> {
    let new = FULL.replace(right, other);
    assert_ne!(new, FULL, "{right}");
    plan(FULL, &new)
}

#[test]
fn nothing_changes_between_equal_chains() {
    let plan = diff(&chain(FULL), &chain(FULL));
    assert!(plan.is_empty());
    assert_eq!(plan.to_string(), "nothing changes\n");
}

#[test]
fn an_nf_is_taken_out_downstream_and_put_in_upstream() {
    let without = FULL
        .replace(
            "  policer: { type: policer, rate: 10kpps, burst: 32 }\n",
            "",
        )
        .replace(
            "  - in -> policer\n  - policer.out -> swap\n",
            "  - in -> swap\n",
        );
    assert_eq!(
        plan(FULL, &without),
        [
            "- link in -> policer",
            "- node policer",
            "- link policer -> swap",
            "+ link in -> swap"
        ]
    );
    assert_eq!(
        plan(&without, FULL),
        [
            "- link in -> swap",
            "+ node policer",
            "+ link policer -> swap",
            "+ link in -> policer"
        ]
    );
}

#[test]
fn only_what_differs_is_touched() {
    assert_eq!(
        plan_of("10kpps", "20kpps"),
        ["! node policer restarts (config)"]
    );
    assert_eq!(
        plan_of("on_death: bypass", "on_death: drop"),
        ["~ node swap (on_death)"]
    );
    assert_eq!(plan_of("core: 1", "core: 0"), ["~ node out (core)"]);
    assert_eq!(
        plan_of("{ trace: {} }, ", ""),
        ["! node out restarts (wrap)"]
    );
    assert_eq!(
        plan_of("wait: spin, burst: 32", "wait: auto"),
        ["~ run (wait, burst)"]
    );
    assert_eq!(
        plan_of("drop_tail", "drop_head"),
        ["~ link swap -> out (overflow)"]
    );
    assert_eq!(
        plan_of("slots: 1024", "slots: 64"),
        ["- link swap -> out", "+ link swap -> out"]
    );
}

#[test]
fn fusing_two_nodes_takes_their_ring_away() {
    let plan = plan_of(
        "type: macswap, mode: process, group: edge",
        "type: macswap, mode: inline",
    );
    assert_eq!(
        plan,
        [
            "- link policer -> swap",
            "! node swap restarts (mode, group)",
            "+ link policer -> swap"
        ]
    );
}

/// What stands beneath each step.
fn values_of(right: &str, other: &str) -> Vec<String> {
    let text = diff(&chain(FULL), &chain(&FULL.replace(right, other))).to_string();
    let values = text.lines().filter_map(|line| line.strip_prefix("    "));
    values.map(str::to_owned).collect()
}

#[test]
fn each_setting_that_changes_is_shown_as_it_was_and_as_it_will_be() {
    for (right, other, values) in [
        ("10kpps", "20kpps", &["rate: 10kpps -> 20kpps"][..]),
        (
            "rate: 10kpps, burst: 32",
            "rate: 10kpps",
            &["burst: 32 -> (not set)"],
        ),
        (
            "on_death: bypass",
            "on_death: drop",
            &["on_death: bypass -> drop"],
        ),
        ("core: 1", "core: 0", &["core: 1 -> 0"]),
        (
            "{ trace: {} }, ",
            "",
            &["wrap[0]: {\"trace\":{}} -> (not set)"],
        ),
        (
            "wait: spin, burst: 32",
            "wait: auto",
            &["wait: spin -> auto", "burst: 32 -> 128"],
        ),
        (
            "drop_tail",
            "drop_head",
            &["overflow: drop_tail -> drop_head"],
        ),
        ("slots: 1024", "slots: 64", &["slots: 1024 -> 64"]),
    ] {
        assert_eq!(values_of(right, other), values, "{right} -> {other}");
    }
}

#[test]
fn plans_are_json_for_programs() {
    let plan = diff(&chain(FULL), &chain(&FULL.replace("10kpps", "20kpps")));
    assert_eq!(
        plan.to_json(),
        serde_json::json!([{
            "action": "replace_node",
            "node": "policer",
            "changed": ["config"],
            "values": [{"setting": "rate", "old": "10kpps", "new": "20kpps"}]
        }])
    );
}

/// What a running chain is, as far as plans are concerned.
#[derive(Debug, PartialEq)]
struct Running {
    nodes: BTreeMap<String, String>,
    links: BTreeMap<String, Joined>,
    run: String,
}

/// A link by the names of its nodes.
#[derive(Clone, Debug, PartialEq)]
struct Joined {
    from: String,
    to: String,
    settings: String,
}

impl Running {
    fn of(chain: &Chain) -> Self {
        let nodes = chain
            .nodes
            .iter()
            .map(|node| (node.name.clone(), settings(node)));
        let links = chain.links.iter();
        let links = links.map(|link| (link.name.clone(), Joined::of(chain, link)));
        Self {
            nodes: nodes.collect(),
            links: links.collect(),
            run: format!("{:?}", chain.run),
        }
    }

    fn apply(&mut self, plan: &Plan, new: &Chain) {
        let link_of = |name: &str| new.links.iter().find(|link| link.name == name).unwrap();
        let node_of = |name: &str| settings(&new.nodes[new.node_index(name).unwrap()]);
        for action in &plan.actions {
            match action {
                Action::SetRun { .. } => self.run = format!("{:?}", new.run),
                Action::RemoveLink { link } => {
                    self.links.remove(link).expect("the link is there");
                }
                Action::RemoveNode { node } => {
                    self.nodes.remove(node).expect("the node is there");
                    assert!(self.links.values().all(|link| link.to != *node), "{action}");
                }
                Action::AddNode { node } => {
                    assert_eq!(self.nodes.insert(node.clone(), node_of(node)), None);
                }
                Action::ReplaceNode { node, .. } | Action::SetNode { node, .. } => {
                    assert!(self.nodes.insert(node.clone(), node_of(node)).is_some());
                }
                Action::AddLink { link } => {
                    let joined = Joined::of(new, link_of(link));
                    assert!(self.nodes.contains_key(&joined.from), "{action}");
                    assert!(self.nodes.contains_key(&joined.to), "{action}");
                    assert_eq!(self.links.insert(link.clone(), joined), None);
                }
                Action::SetLink { link, .. } => {
                    let joined = Joined::of(new, link_of(link));
                    assert!(self.links.insert(link.clone(), joined).is_some());
                }
            }
        }
    }
}

impl Joined {
    fn of(chain: &Chain, link: &Link) -> Self {
        let rest = (
            link.trust,
            link.overflow,
            link.slot_count,
            link.output,
            link.input,
        );
        Self {
            from: chain.nodes[link.from].name.clone(),
            to: chain.nodes[link.to].name.clone(),
            settings: format!("{rest:?}"),
        }
    }
}

fn settings(node: &Node) -> String {
    let what = match &node.kind {
        NodeKind::Port { config, .. } => config.to_string(),
        NodeKind::Nf { config, plan, .. } => format!("{config} {:?}", plan.outputs),
    };
    let place = (node.mode, node.core, &node.group, node.on_death);
    format!("{} {what} {place:?}", node.type_name())
}

/// A chain: in -> some of six NFs in some order -> out; tees also send to the second port.
fn chain_text() -> impl Strategy<Value = String> {
    let types = prop::sample::select(vec!["macswap", "count", "tee", "policer, rate: 1kpps"]);
    let modes = prop::sample::select(vec!["", ", mode: inline", ", mode: thread", ", group: g"]);
    let options = prop::sample::select(vec![
        "",
        ", slots: 64",
        ", trust: copy",
        ", overflow: drop_tail",
    ]);
    let nf = (types, modes, options);
    let nfs = prop::collection::vec(nf, 6);
    let order = prop::sample::subsequence((0..6).collect::<Vec<usize>>(), 0..=6).prop_shuffle();
    let run = prop::sample::select(vec!["", "run: { mode: inline }\n", "run: { wait: spin }\n"]);
    (nfs, order, run).prop_map(|(nfs, order, run)| {
        let mut text = "name: x\nports:\n  in: { tap: {} }\n  out: { tap: {} }\nnfs:\n".to_owned();
        let mut links = String::new();
        let mut last = "in".to_owned();
        for index in order {
            let (kind, mode, options) = &nfs[index];
            text += &format!("  n{index}: {{ type: {kind}{mode} }}\n");
            links += &format!("  - {{ link: {last} -> n{index}{options} }}\n");
            if *kind == "tee" {
                links += &format!("  - n{index}.side -> in\n");
            }
            last = format!("n{index}");
        }
        format!("{text}links:\n{links}  - {last} -> out\n{run}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn a_plan_leads_from_the_old_chain_to_the_new(old in chain_text(), new in chain_text()) {
        let (Ok(old), Ok(new)) = (check_text(&old), check_text(&new)) else {
            return Ok(()); // An inline port between two loops.
        };
        let mut running = Running::of(&old.chain);
        running.apply(&diff(&old.chain, &new.chain), &new.chain);
        prop_assert_eq!(running, Running::of(&new.chain));
        prop_assert!(diff(&new.chain, &new.chain).is_empty());
    }
}
