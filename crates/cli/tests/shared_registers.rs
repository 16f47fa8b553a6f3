//! Registers that all shards of a node share: every packet is counted once, whoever is killed.

mod support;

use std::collections::BTreeMap;

use serde_json::Value;
use support::*;

/// What a node's register says that all its shards share, and whether each shard says the same.
fn shared_value(chain: &Running, of: &str) -> u64 {
    let asked = chain.ask(&["nf", "control", of, "tell", r#"{"show": "globals"}"#]);
    assert!(asked.status.success(), "{asked:?}");
    let answers: BTreeMap<String, Value> = serde_json::from_slice(&asked.stdout).unwrap();
    let value = number(&answers["tell"]["seen"]);
    let each = answers.values().map(|answer| number(&answer["seen"]));
    assert!(each.clone().all(|one| one == value), "{answers:?}");
    value
}

const PACKETS: u64 = 200_000;
/// Shards that are killed, at most: as many as die while packets come, and two in any case.
const KILLS: u64 = 10;
/// What the register begins as.
const BEGUN: u64 = 1000;

/// A chain whose shards count packets in one register, which goes on when these have come through.
fn tallied(shards: u64) -> String {
    // As fast as they come, so that whoever is killed may have packets in hand.
    let text = counted("1000kpps", shards);
    let text = text.replace("flows: 500", &format!("flows: 500, count: {PACKETS}"));
    let text = text.replace("mode: process", "mode: process, orphan: 30s");
    let text = text.replace("scope: merged", "scope: shared, initial: 1000");
    // Somebody still sends when all has been counted: else the chain would end by itself.
    let beside = "  still: { generator: { rate: 1kpps } }\n  away: { sink: {} }\nnfs:";
    let text = text.replace("nfs:", beside);
    text.replace("links:\n", "links:\n  - still -> away\n")
}

#[test]
fn shards_in_threads_count_every_packet_once() {
    let text = tallied(4).replace("mode: process, orphan: 30s", "mode: thread");
    let chain = Running::start("threaded", &text);
    let end = chain.until("all packets have come through", |status| {
        packets_out(status) == PACKETS
    });
    assert_eq!(shared_value(&chain, "threaded"), BEGUN + PACKETS);
    let busy = |shard: &u64| number(&node(&end, &format!("tell/{shard}"))["rx_packets"]) > 1000;
    assert!((0..4).all(|shard| busy(&shard)), "{end:#}");
    assert_conserved(&chain.stop());
}

/// A register that all shards share has counted every packet that left, and none twice, whoever of
/// them was killed when: what is beyond that was in the hands of the killed. It stays where another
/// supervisor has taken over, another program runs, and where there are other shards.
#[test]
fn killed_shards_lose_no_update_of_a_shared_register() {
    let mut chain = Running::start("tallied", &tallied(4));
    let are_through = |status: &Value| packets_out(status) + killed(status) == PACKETS;
    let (mut random, mut round) = (seed(), 0);
    let mut status = chain.until("packets flow", |status| packets_out(status) > 0);
    while round < 2 || (round < KILLS && !are_through(&status)) {
        // The first one has no part of its own in it.
        let victim = format!("tell/{}", round % 2 * random.below(4));
        dither(&mut random, 100_000);
        status = chain.revive(&status, &[&victim]);
        round += 1;
    }
    let end = chain.until("all packets have come through", are_through);
    assert_eq!(number(&end["deaths"]), round, "{end:#}");
    let (out, killed) = (packets_out(&end), killed(&end));
    println!("{round} were killed, with {killed} packets");
    let seen = shared_value(&chain, "tallied") - BEGUN;
    assert!(
        (out..=out + killed).contains(&seen),
        "{seen}, {out} out, {killed} killed"
    );
    // Another supervisor knows it, and gives it to whoever dies then.
    chain.kill();
    chain.adopt();
    for victim in ["tell/0", "tell/3"] {
        let status = chain.until("an answer", |_| true);
        chain.revive(&status, &[victim]);
    }
    assert_eq!(shared_value(&chain, "tallied"), seen + BEGUN);
    // Fewer shards, and another program of the same layout, go on with the same word.
    let file = chain.dir.path().join("new.yaml");
    std::fs::write(&file, format!("name: tallied\n{}", tallied(2))).unwrap();
    let applied = chain.ask(&["apply", file.to_str().unwrap()]);
    assert!(applied.status.success(), "{applied:?}");
    assert_eq!(shared_value(&chain, "tallied"), seen + BEGUN);
    let program = r#"{"program": {
        "globals": {"seen": {"width": 64, "initial": INITIAL, "scope": "shared"}},
        "elements": [{"name": "tell", "key": ["ip.src", "ip.dst", "l4.src_port", "l4.dst_port"],
            "registers": {"packets": 32}, "before": ["global.seen = global.seen + 2"],
            "transitions": [{"do": ["flow.packets = flow.packets + 1", "output(out)"]}]}]}}"#;
    let control = |initial: &str| {
        let program = program.replace("INITIAL", initial);
        chain.ask(&["nf", "control", "tallied", "tell", &program])
    };
    let taken = control("1000");
    assert!(taken.status.success(), "{taken:?}");
    assert_eq!(shared_value(&chain, "tallied"), seen + BEGUN);
    let refused = control("999");
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(why.contains("memory or inputs would change"), "{why}");
    chain.stop();
}
