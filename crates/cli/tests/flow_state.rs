//! Flows of a program while the running chain changes: they go with their shard when there are more
//! shards or fewer, also when shards are killed on the way, and stay where a program is replaced.
//!
//! Each flow counts its packets, so that one which began anew says so: its count is lower.

mod support;

use std::collections::BTreeMap;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;
use support::*;

const FLOWS: usize = 500;

fn of_shards(count: u64) -> String {
    counted("20kpps", count)
}

/// How many packets each flow has had, and that it is in one shard only.
fn told(chain: &Running, name: &str, shards: u64) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for shard in 0..shards {
        let node = format!("tell/{shard}");
        let answer = chain.ask(&["nf", "control", name, &node, r#"{"show": "flows"}"#]);
        assert!(answer.status.success(), "{answer:?}");
        let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
        // By itself, or by shard.
        let answer = answer.get(&node).unwrap_or(&answer);
        for flow in answer["flows"].as_array().unwrap() {
            let packets = flow["state"]["packets"].as_str().unwrap().parse().unwrap();
            let before = all.insert(flow["key"].to_string(), packets);
            assert_eq!(before, None, "{flow} is in two shards");
        }
    }
    all
}

/// What the shards have counted in a register that is merged.
fn seen(chain: &Running, name: &str) -> u64 {
    let answer = chain.ask(&["nf", "control", name, "tell", r#"{"show": "globals"}"#]);
    assert!(answer.status.success(), "{answer:?}");
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
    number(&answer["tell"]["seen"])
}

/// Each flow is there, and has had no fewer packets than before.
fn none_began_anew(before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) {
    assert_eq!(now.len(), FLOWS);
    for (flow, packets) in before {
        assert!(
            now[flow] >= *packets,
            "{flow}: {packets}, then {}",
            now[flow]
        );
    }
}

fn known(status: &Value, shards: u64) -> usize {
    let shards = (0..shards).map(|shard| &node(status, &format!("tell/{shard}"))["counters"]);
    let flows: u64 = shards
        .map(|counters| counters["flows"].as_u64().unwrap_or(0))
        .sum();
    flows.try_into().unwrap()
}

fn write(chain: &Running, name: &str, text: &str) -> String {
    let file = chain.dir.path().join("new.yaml");
    std::fs::write(&file, format!("name: {name}\n{text}")).unwrap();
    file.to_str().unwrap().to_owned()
}

fn apply(chain: &Running, name: &str, text: &str) {
    let applied = chain.ask(&["apply", &write(chain, name, text)]);
    assert!(applied.status.success(), "{applied:?}");
}

/// As [`apply`], behind a change that has failed: workers may still be taking that one back.
fn apply_again(chain: &Running, name: &str, text: &str) {
    let file = write(chain, name, text);
    chain.until("the change before is taken back", |_| {
        let applied = chain.ask(&["apply", &file]);
        let why = String::from_utf8_lossy(&applied.stderr);
        let is_early = why.contains("is still at the change before");
        assert!(applied.status.success() || is_early, "{applied:?}");
        applied.status.success()
    });
}

#[test]
fn flows_go_with_their_shard_when_there_are_more_or_fewer() {
    let name = "flows-move";
    let chain = Running::start(name, &of_shards(3));
    chain.until("all flows are known", |status| known(status, 3) == FLOWS);
    let mut before = told(&chain, name, 3);
    for count in [5, 2, 1, 7] {
        apply(&chain, name, &of_shards(count));
        let at_least = seen(&chain, name);
        let now = told(&chain, name, count);
        none_began_anew(&before, &now);
        // Asked before and behind: flows and the register have counted the same packets.
        let packets = now.values().sum();
        assert!(
            (at_least..=seen(&chain, name)).contains(&packets),
            "{packets}"
        );
        flows(&chain);
        before = told(&chain, name, count);
        none_began_anew(&now, &before);
    }
    let end = chain.stop();
    assert_conserved(&end);
    // Its shards wait for each other, so no flow overtakes itself either.
    for fault in ["lost", "duplicated", "reordered", "stale", "corrupted"] {
        assert_eq!(
            number(&node(&end, "out")["counters"][fault]),
            0,
            "{fault}: {end:#}"
        );
    }
}

/// Shards are killed at whatever moment of the change, those that give flows and those that get
/// some: what they knew is there, in one shard.
#[test]
fn shards_killed_while_flows_move_lose_none() {
    let name = "flows-kill";
    let chain = Running::start(name, &of_shards(3));
    chain.until("all flows are known", |status| known(status, 3) == FLOWS);
    let mut random = seed();
    let (mut shards, mut before) = (3, told(&chain, name, 3));
    for count in [5, 2, 6, 3, 4, 1] {
        let text = of_shards(count);
        let file = write(&chain, name, &text);
        let status = flows(&chain);
        let mut applying = chain.command(&["apply", &file]);
        applying.stdout(Stdio::null()).stderr(Stdio::null());
        let mut applying = applying.spawn().unwrap();
        dither(&mut random, 60_000_000);
        let index = random.below(shards);
        let victim = format!("tell/{index}");
        let before_kill = epoch(&status, &victim);
        let is_hit = signal(&status, &victim, Signal::KILL) && index < count;
        let is_applied = applying.wait().unwrap().success();
        // One that stays runs again; one that went may have been hit when it was gone.
        let all_run = |status: &Value| {
            let mut all = workers(status);
            all.all(|one| one["state"] == "running")
                && (!is_hit || runs_after(status, &victim, before_kill))
        };
        chain.until("all run", all_run);
        if !is_applied {
            // It died before anything was changed: nothing is, and another try succeeds.
            apply_again(&chain, name, &text);
            chain.until("all run", all_run);
        }
        let now = told(&chain, name, count);
        none_began_anew(&before, &now);
        (shards, before) = (count, now);
    }
    assert_conserved(&chain.stop());
}

#[test]
fn a_program_that_is_replaced_keeps_flows_where_their_layout_is_the_same() {
    let name = "flows-replaced";
    let text = of_shards(2);
    let chain = Running::start(name, &text);
    let sent = |status: &Value| -> u64 {
        let shards = ["tell/0", "tell/1"].map(|shard| number(&node(status, shard)["rx_packets"]));
        shards.iter().sum()
    };
    chain.until("there is something to lose", |status| {
        known(status, 2) == FLOWS && sent(status) > 20_000
    });
    let before = told(&chain, name, 2);
    let other = "transitions:
            - { if: flow.packets > 4000000000, do: [drop(enough)] }
            - { do: [flow.packets = flow.packets + 1, output(out)] }
";
    let at = text.find("transitions:").unwrap();
    let end = at + text[at..].find('\n').unwrap() + 1;
    let other = format!("{}{other}{}", &text[..at], &text[end..]);
    let planned = chain.ask(&["plan", &write(&chain, name, &other)]);
    let planned = String::from_utf8(planned.stdout).unwrap();
    assert!(planned.contains("node tell/1: flows is kept"), "{planned}");
    apply(&chain, name, &other);
    let now = told(&chain, name, 2);
    none_began_anew(&before, &now);
    // Registers of another width: nothing of it can be kept, and it is said before.
    let wider = other.replace("packets: 32", "packets: 48");
    let planned = chain.ask(&["plan", &write(&chain, name, &wider)]);
    let planned = String::from_utf8(planned.stdout).unwrap();
    assert!(
        planned.contains("node tell/1: flows starts anew"),
        "{planned}"
    );
    let sent_before = sent(&flows(&chain));
    apply(&chain, name, &wider);
    let now = told(&chain, name, 2);
    let counted: u64 = now.values().sum();
    let sent_now = sent(&flows(&chain));
    assert!(
        counted + sent_before / 2 <= sent_now,
        "{counted} of {sent_now}"
    );
    assert_conserved(&chain.stop());
}

/// Who adds shards is told before that flows go with them.
#[test]
fn the_plan_says_that_flows_move() {
    let name = "flows-planned";
    let chain = Running::start(name, &of_shards(3));
    let planned = chain.ask(&["plan", &write(&chain, name, &of_shards(4))]);
    let planned = String::from_utf8(planned.stdout).unwrap();
    let wanted = "node tell: flows go with their shard, of 4 instead of 3";
    assert!(planned.contains(wanted), "{planned}");
    assert!(!planned.contains("anew"), "{planned}");
    chain.stop();
}
