//! Workers are killed at random points, in every role a worker has: what they held is counted, what
//! they did not hold arrives, and every buffer comes home.
//!
//! No test waits for a time: each waits for a state, and gives up after a patience that no healthy
//! machine needs. `CATENA_SEED` sets the seed. The thousand kills are in `kills.rs`.

mod support;

use rustix::process::Signal;
use serde_json::Value;
use support::*;

const CHAIN: &str = "
ports:
  in:  { generator: { rate: 200kpps, size: 64 } }
  out: { sink: { verify: true } }
nfs:
  a: { type: macswap }
  b: { type: count }
  c: { type: macswap }
links:
  - in -> a
  - a -> b
  - b -> c
  - c -> out
run: { mode: process }
";

#[test]
fn the_owner_of_the_pools_is_killed() {
    let chain = Running::start("owner", CHAIN);
    let mut random = seed();
    for _ in 0..20 {
        let status = flows(&chain);
        dither(&mut random, 300_000);
        chain.revive(&status, &["ports"]);
    }
    flows(&chain);
    assert_conserved(&chain.stop());
}

#[test]
fn several_are_killed_at_once() {
    let chain = Running::start("several", CHAIN);
    let mut random = seed();
    let groups: [&[&str]; 4] = [
        &["a", "b"],
        &["ports", "b"],
        &["a", "b", "c"],
        &["ports", "a", "b", "c"],
    ];
    for round in 0..20 {
        let status = flows(&chain);
        dither(&mut random, 300_000);
        let victims = groups[round % groups.len()];
        chain.revive(&status, victims);
    }
    flows(&chain);
    assert_conserved(&chain.stop());
}

#[test]
fn a_worker_is_killed_while_it_starts() {
    let chain = Running::start("attach", CHAIN);
    let mut random = seed();
    for round in 0..20 {
        let victim = ["a", "ports", "b", "c"][round % 4];
        let status = flows(&chain);
        let mut before = epoch(&status, victim);
        signal(&status, victim, Signal::KILL);
        for _ in 0..3 {
            // Whatever it has come to by now.
            let next = chain.until("its next life", |now| {
                epoch(now, victim) > before && !worker(now, victim)["pid"].is_null()
            });
            dither(&mut random, 2_000_000);
            signal(&next, victim, Signal::KILL);
            before = epoch(&next, victim);
        }
        chain.until("it runs again", |now| runs_after(now, victim, before));
    }
    flows(&chain);
    assert_conserved(&chain.stop());
}

#[test]
fn a_stopped_worker_goes_on_and_a_stopped_worker_can_be_killed() {
    let chain = Running::start("stopped", CHAIN);
    for victim in ["a", "b", "c", "ports"] {
        let status = flows(&chain);
        signal(&status, victim, Signal::STOP);
        signal(&status, victim, Signal::CONT);
        let status = flows(&chain);
        signal(&status, victim, Signal::STOP);
        signal(&status, victim, Signal::KILL);
        let before = epoch(&status, victim);
        chain.until("it runs again", |now| runs_after(now, victim, before));
    }
    flows(&chain);
    assert_conserved(&chain.stop());
}

/// One that is not let go on is seen, shown, and replaced within the time that is stated.
#[test]
fn a_stopped_worker_is_replaced() {
    let chain = Running::start("stuck", CHAIN);
    let before = flows(&chain);
    signal(&before, "b", Signal::STOP);
    chain.until("it is called stuck", |now| {
        worker(now, "b")["state"] == "stuck"
    });
    let epoch = epoch(&before, "b");
    chain.until("its successor runs", |now| runs_after(now, "b", epoch));
    let after = flows(&chain);
    let detached = after["detached"].to_string();
    assert!(detached.contains("has not turned"), "{detached}");
    assert_conserved(&chain.stop());
}

/// A worker that ends by itself soon after its start waits longer each time.
fn crash_until_it_waits(chain: &Running, victim: &str, state: &str) -> Value {
    chain.until("the victim is down for a while", |now| {
        let worker = worker(now, victim);
        if worker["state"] == "running" {
            signal(now, victim, Signal::ABORT);
        }
        worker["state"] == state && number(&worker["restarts"]) >= 6
    })
}

fn with_policy(policy: &str) -> String {
    CHAIN.replace(
        "b: { type: count }",
        &format!("b: {{ type: count, on_death: {policy} }}"),
    )
}

#[test]
fn packets_wait_for_a_dead_worker() {
    let chain = Running::start("hold", &with_policy("hold"));
    flows(&chain);
    let down = crash_until_it_waits(&chain, "b", "dead");
    let before = epoch(&down, "b");
    chain.until("it runs again", |now| runs_after(now, "b", before));
    flows(&chain);
    let end = chain.stop();
    assert_conserved(&end);
    assert!(node(&end, "a")["drops"]["nf_down"].is_null());
}

#[test]
fn packets_for_a_dead_worker_are_dropped() {
    let chain = Running::start("drop", &with_policy("drop"));
    flows(&chain);
    crash_until_it_waits(&chain, "b", "dead");
    chain.until("packets are dropped meanwhile", |now| {
        number(&node(now, "a")["drops"]["nf_down"]) > 1000
    });
    chain.until("it runs again", |now| {
        worker(now, "b")["state"] == "running"
    });
    flows(&chain);
    assert_conserved(&chain.stop());
}

#[test]
fn packets_pass_by_a_dead_worker() {
    let chain = Running::start("bypass", &with_policy("bypass"));
    flows(&chain);
    chain.until("it has died often", |now| {
        if worker(now, "b")["state"] == "running" {
            signal(now, "b", Signal::ABORT);
        }
        number(&worker(now, "b")["restarts"]) >= 12
    });
    flows(&chain);
    assert_conserved(&chain.stop());
}

/// Copies by one branch, a read-only view by the other, each into a sink of its own.
const BRANCHES: &str = "
ports:
  in:    { generator: { rate: 100kpps, size: 64 } }
  out:   { sink: { verify: true } }
  copies: { sink: { verify: true } }
nfs:
  split: { type: tee }
  look:  { type: count }
  other: { type: count, group: strangers }
links:
  - in -> split
  - { link: split.look -> look, trust: ro }
  - { link: split.other -> other, trust: copy }
  - look -> out
  - other -> copies
run: { mode: process }
";

#[test]
fn workers_die_at_copy_and_read_only_links() {
    let chain = Running::start("branches", BRANCHES);
    let mut random = seed();
    for round in 0..20 {
        let victim = ["look", "other", "split", "ports"][round % 4];
        let status = flows(&chain);
        dither(&mut random, 300_000);
        chain.revive(&status, &[victim]);
    }
    flows(&chain);
    assert_conserved(&chain.stop());
}

/// Processes whose command line names the chain as a worker's.
fn survivors(name: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    lines
        .filter(|line| line.contains(&format!("--label {name}/")))
        .collect()
}

#[test]
fn nothing_survives_the_supervisor() {
    let mut chain = Running::start("orphans-of-recovery", CHAIN);
    let status = flows(&chain);
    assert!(survivors("orphans-of-recovery").len() >= 4);
    // Even one that can do nothing itself.
    signal(&status, "b", Signal::STOP);
    let pid = i32::try_from(chain.pid()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    chain.reap();
    let start = std::time::Instant::now();
    while !survivors("orphans-of-recovery").is_empty() {
        assert!(
            start.elapsed() < PATIENCE,
            "{:?}",
            survivors("orphans-of-recovery")
        );
    }
    chain.again(CHAIN);
    flows(&chain);
    assert_conserved(&chain.stop());
}
