//! The supervisor is killed, at any point; workers go on, and another takes them over.
//!
//! No test waits for a time: each waits for a state, and gives up after a patience that no healthy
//! machine needs. `CATENA_SEED` sets the seed.

mod support;

use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use support::*;

const PORTS: &str = "
ports:
  in:  { generator: { rate: 50kpps, size: 64 } }
  out: { sink: { verify: true } }
";

/// A chain of NFs `links`, whose workers go on for so long.
fn text(nfs: &str, links: &str, orphan: &str) -> String {
    format!("{PORTS}nfs:\n{nfs}links:\n{links}run: {{ mode: process, orphan: {orphan} }}\n")
}

const THREE: &str = "  a: { type: macswap }\n  b: { type: count }\n  c: { type: macswap }\n";

fn chain(orphan: &str) -> String {
    text(THREE, "  - in -> a -> b -> c -> out\n", orphan)
}

/// Processes whose command line names the chain as a worker's or a keeper's.
fn survivors(name: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    let (worker, keeper) = (
        format!("--label {name}/"),
        format!("keeper --label {name} "),
    );
    lines
        .filter(|line| line.contains(&worker) || line.contains(&keeper))
        .collect()
}

fn until_nothing_is_left(name: &str) {
    let start = Instant::now();
    while !survivors(name).is_empty() {
        assert!(start.elapsed() < PATIENCE, "{:?}", survivors(name));
    }
}

/// Nothing of a test that fails stays behind.
struct Cleared(Running, &'static str);

impl Cleared {
    fn start(name: &'static str, text: &str) -> Self {
        Self(Running::start(name, text), name)
    }

    fn stop(mut self) -> Value {
        let chain = std::mem::replace(&mut self.0, Running::idle(self.1));
        chain.stop()
    }
}

impl Drop for Cleared {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.kill();
            self.0.ask(&["stop", self.1]);
        }
    }
}

fn pids(status: &Value) -> Vec<u64> {
    workers(status)
        .map(|worker| number(&worker["pid"]))
        .collect()
}

/// For how long the chain will be without a supervisor; none if it has one.
fn left_s(chain: &Running, name: &str) -> Option<u64> {
    let Output { stdout, .. } = chain.ask(&["list", "--json"]);
    let list: Value = serde_json::from_slice(&stdout).unwrap();
    let mut all = list["chains"].as_array().unwrap().iter();
    all.find(|entry| entry["chain"] == name)?["left_s"].as_u64()
}

/// All that was made has arrived, once and in order, but for what the dead held.
fn assert_verified(status: &Value) {
    assert_conserved(status);
    let counted = &node(status, "out")["counters"];
    for wrong in ["duplicated", "reordered", "corrupted"] {
        assert_eq!(number(&counted[wrong]), 0, "{wrong}: {status:#}");
    }
    let killed = killed(status);
    let made = number(&node(status, "in")["rx_packets"]);
    let arrived = number(&node(status, "out")["tx_packets"]);
    assert_eq!(made, arrived + killed, "{status:#}");
}

#[test]
fn packets_go_on_without_a_supervisor_and_another_takes_the_workers_over() {
    let mut chain = Cleared::start("adopted", &chain("60s"));
    let before = flows(&chain.0);
    let counted = |chain: &Running| -> u64 {
        let request = "{\"show\": \"counts\"}";
        let asked = chain.ask(&["nf", "control", "adopted", "b", request]);
        assert!(asked.status.success(), "{asked:?}");
        let counts: Value = serde_json::from_slice(&asked.stdout).unwrap();
        number(&counts["packets"])
    };
    chain.0.kill();
    let first = left_s(&chain.0, "adopted").unwrap();
    let start = Instant::now();
    while left_s(&chain.0, "adopted").unwrap() + 1 >= first {
        assert!(start.elapsed() < PATIENCE);
    }
    let asked = chain.0.ask(&["status", "adopted"]);
    let said = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(said.contains("--adopt"), "{said}");
    let file = chain.0.dir.path().join("chain.yaml");
    let again = chain.0.command(&["run"]).arg(file).output().unwrap();
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(said.contains("--adopt"), "{said}");
    chain.0.adopt();
    let after = flows(&chain.0);
    assert!(
        packets_out(&after) > packets_out(&before) + 5_000,
        "{before:#}{after:#}"
    );
    assert_eq!(pids(&before), pids(&after));
    assert_ne!(before["pid"], after["pid"]);
    assert_eq!(number(&after["deaths"]), 0);
    // It recovers and is asked as before, and what it had counted is still there.
    let passed = counted(&chain.0);
    assert!(
        passed > number(&node(&before, "b")["tx_packets"]) + 5_000,
        "{passed}"
    );
    chain.0.revive(&after, &["b"]);
    let again = counted(&chain.0);
    assert!(again > passed, "{again} packets counted after {passed}");
    flows(&chain.0);
    let end = chain.stop();
    assert_eq!(number(&end["deaths"]), 1);
    assert_verified(&end);
    until_nothing_is_left("adopted");
}

#[test]
fn supervisors_are_killed_at_random_points() {
    let rounds = std::env::var("CATENA_ROUNDS").ok();
    let rounds: u64 = rounds.and_then(|text| text.parse().ok()).unwrap_or(20);
    let mut chain = Cleared::start("often", &chain("60s"));
    let mut random = seed();
    for _ in 0..rounds {
        let status = flows(&chain.0);
        // Of any of the NFs, before the supervisor dies, and while there is none.
        for victim in ["a", "b", "c"] {
            if random.below(3) == 0 {
                signal(&status, victim, Signal::KILL);
            }
        }
        dither(&mut random, 20_000_000);
        chain.0.kill();
        for victim in ["a", "b", "c"] {
            if random.below(4) == 0 {
                signal(&status, victim, Signal::KILL);
            }
        }
        chain.0.adopt();
    }
    flows(&chain.0);
    let end = chain.stop();
    eprintln!("  {rounds} supervisors killed, {} workers", end["deaths"]);
    assert!(number(&end["deaths"]) >= rounds / 2);
    assert_verified(&end);
    until_nothing_is_left("often");
}

#[test]
fn the_owner_of_the_pools_dies_without_a_supervisor() {
    let mut chain = Cleared::start("owner-orphan", &chain("60s"));
    let mut random = seed();
    for _ in 0..5 {
        let status = flows(&chain.0);
        chain.0.kill();
        dither(&mut random, 2_000_000);
        let before = epoch(&status, "ports");
        assert!(signal(&status, "ports", Signal::KILL));
        signal(&status, "b", Signal::KILL);
        chain.0.adopt();
        chain
            .0
            .until("it runs again", |now| runs_after(now, "ports", before));
    }
    flows(&chain.0);
    assert_conserved(&chain.stop());
}

#[test]
fn a_supervisor_is_killed_while_it_starts() {
    let mut random = seed();
    for _ in 0..6 {
        let mut chain = Cleared(Running::idle("early"), "early");
        chain.0.begin(&self::chain("60s"));
        dither(&mut random, 150_000_000);
        chain.0.kill();
        // Whatever it had come to: either nothing is left, or all of it can be taken over.
        chain.0.adopt();
        flows(&chain.0);
        assert_verified(&chain.stop());
        until_nothing_is_left("early");
    }
}

#[test]
fn a_supervisor_is_killed_in_the_middle_of_a_change() {
    let one = text("  a: { type: macswap }\n", "  - in -> a -> out\n", "60s");
    let nfs = "  a: { type: macswap }\n  b: { type: count }\n";
    let behind = text(nfs, "  - in -> a -> b -> out\n", "60s");
    let mut chain = Cleared::start("changed", &one);
    let mut random = seed();
    let (mut made, mut forgotten) = (0, 0);
    for round in 0..12 {
        let (old, new) = if round % 2 == 0 {
            (&one, &behind)
        } else {
            (&behind, &one)
        };
        flows(&chain.0);
        chain.0.write("new.yaml", new);
        let path = chain.0.dir.path().join("new.yaml");
        let mut asked = chain.0.command(&["apply"]);
        let asked = asked.arg(&path).stdout(Stdio::null()).stderr(Stdio::null());
        let mut asked = asked.spawn().unwrap();
        dither(&mut random, 60_000_000);
        chain.0.kill();
        asked.wait().unwrap();
        chain.0.write("chain.yaml", new);
        if chain.0.try_adopt() {
            made += 1;
            continue;
        }
        forgotten += 1;
        assert!(chain.0.stderr().contains("not what the file says"));
        chain.0.write("chain.yaml", old);
        chain.0.adopt();
        let start = Instant::now();
        loop {
            let applied = chain.0.command(&["apply"]).arg(&path).output().unwrap();
            if applied.status.success() {
                break;
            }
            // A worker may not have said yet that it has forgotten the change.
            let said = String::from_utf8_lossy(&applied.stderr).into_owned();
            assert!(said.contains("try again"), "{said}");
            assert!(start.elapsed() < PATIENCE, "{said}");
        }
    }
    eprintln!("  {made} changes were made, {forgotten} forgotten");
    flows(&chain.0);
    assert_conserved(&chain.stop());
}

#[test]
fn of_two_at_once_one_takes_it_over() {
    let mut chain = Cleared::start("contested", &chain("60s"));
    for _ in 0..5 {
        flows(&chain.0);
        chain.0.kill();
        let mut other = chain.0.adopter();
        let other = other.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut other = other.spawn().unwrap();
        chain.0.begin_adopting();
        // The one that is refused ends.
        let start = Instant::now();
        let is_other_refused = loop {
            if other.try_wait().unwrap().is_some() {
                break true;
            }
            if chain.0.has_ended() {
                break false;
            }
            assert!(start.elapsed() < PATIENCE);
        };
        let said = if is_other_refused {
            let said = other.wait_with_output().unwrap().stderr;
            String::from_utf8(said).unwrap()
        } else {
            let said = chain.0.stderr();
            chain.0.replace_child(other);
            said
        };
        assert!(said.contains("supervises it"), "{said}");
    }
    flows(&chain.0);
    assert_verified(&chain.stop());
}

#[test]
fn a_chain_is_not_taken_over_by_whom_it_does_not_concern() {
    let mut chain = Cleared::start("refused", &chain("60s"));
    flows(&chain.0);
    // It has a supervisor.
    let said = chain.0.adopter().output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("supervises it"), "{said}");
    chain.0.kill();
    // Another chain of the same name.
    let other = text("  a: { type: macswap }\n", "  - in -> a -> out\n", "60s");
    chain.0.write("chain.yaml", &other);
    assert!(!chain.0.try_adopt());
    let said = chain.0.stderr();
    assert!(said.contains("not what the file says"), "{said}");
    // Another user.
    if rustix::process::getuid().is_root() {
        use std::os::unix::fs::PermissionsExt;
        use std::os::unix::process::CommandExt;
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(chain.0.dir.path(), open).unwrap();
        chain.0.write("chain.yaml", &self::chain("60s"));
        let said = chain.0.adopter().uid(65_534).gid(65_534).output().unwrap();
        assert!(!said.status.success());
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(
            said.contains("another user") || said.contains("denied"),
            "{said}"
        );
    } else {
        eprintln!("SKIP another user: needs root");
    }
    chain.0.write("chain.yaml", &self::chain("60s"));
    chain.0.adopt();
    flows(&chain.0);
    assert_verified(&chain.stop());
}

#[test]
fn what_nobody_takes_over_ends() {
    let mut chain = Cleared::start("forgotten", &chain("1s"));
    let status = flows(&chain.0);
    // Even one that can do nothing itself.
    signal(&status, "b", Signal::STOP);
    chain.0.kill();
    assert!(survivors("forgotten").len() >= 4);
    until_nothing_is_left("forgotten");
    // There is nothing to take over: it is started.
    chain.0.adopt();
    let status = flows(&chain.0);
    assert!(number(&status["uptime_s"]) < 30);
    chain.0.kill();
    // Or at once.
    let asked = chain.0.ask(&["stop", "forgotten"]);
    assert!(asked.status.success(), "{asked:?}");
    until_nothing_is_left("forgotten");
}

#[test]
fn without_its_keeper_a_chain_ends_with_its_supervisor() {
    let mut chain = Cleared::start("unkept", &chain("60s"));
    flows(&chain.0);
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let keeper = processes.filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        line.contains("keeper --label unkept ").then_some(pid)
    });
    let keeper: Vec<i32> = keeper.collect();
    let [pid] = keeper[..] else {
        panic!("{keeper:?}");
    };
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    let status = flows(&chain.0);
    chain.0.revive(&status, &["a"]);
    let start = Instant::now();
    while !chain.0.stderr().contains("not kept any more") {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{}",
            chain.0.stderr()
        );
    }
    chain.0.kill();
    until_nothing_is_left("unkept");
}

#[test]
fn no_thread_can_go_on_without_a_supervisor() {
    let chain = Running::idle("threads");
    chain.write("chain.yaml", &self::chain("keep"));
    let file = chain.dir.path().join("chain.yaml");
    let mut run = chain.command(&["run", "--mode", "thread"]);
    let refused = run.arg(&file).output().unwrap();
    assert!(!refused.status.success(), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("only processes and containers can go on"),
        "{said}"
    );
    assert!(
        said.contains("chain.yaml:") && said.contains("orphan"),
        "{said}"
    );
}
