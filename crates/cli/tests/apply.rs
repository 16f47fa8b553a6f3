//! A running chain is changed under load; the sink checks every packet's number.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A chain that runs in a folder of its own.
struct Running {
    dir: tempfile::TempDir,
    child: Option<Child>,
}

const PORTS: &str = "name: live
ports:
  gen: { generator: { rate: 20kpps, size: 64 } }
  end: { sink: { verify: true } }
run: { mode: process }
";

fn chain(nfs: &str, links: &str) -> String {
    format!("{PORTS}nfs:\n{nfs}links:\n{links}")
}

impl Running {
    fn start(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("live.yaml"), text).unwrap();
        let child = catena(dir.path())
            .args(["run", "--json", "live.yaml"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let running = Self {
            dir,
            child: Some(child),
        };
        running.wait_for(|status| rx(status, "end") > 100);
        running
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        catena(self.dir.path()).args(arguments).output().unwrap()
    }

    fn status(&self) -> Option<Value> {
        let output = self.ask(&["status", "live", "--json"]);
        let is_there = output.status.success();
        is_there.then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Waits until the status is as wanted; the chain itself moves on meanwhile.
    fn wait_for(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(status) = self.status()
                && wanted(&status)
            {
                return status;
            }
            assert!(Instant::now() < deadline, "{:?}", self.status());
        }
    }

    fn apply(&self, text: &str) -> Output {
        std::fs::write(self.dir.path().join("new.yaml"), text).unwrap();
        self.ask(&["apply", "new.yaml"])
    }

    /// Lets a hundred more packets through.
    fn let_pass(&self) {
        let before = self.wait_for(|_| true);
        self.wait_for(|status| rx(status, "end") > rx(&before, "end") + 100);
    }

    fn stop(mut self) -> Value {
        assert!(self.ask(&["stop", "live"]).status.success());
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn catena(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catena"));
    command
        .current_dir(dir)
        .env("CATENA_RUNTIME_DIR", dir.join("run"));
    command
}

fn node<'a>(status: &'a Value, name: &str) -> &'a Value {
    let nodes = status["nodes"].as_array().unwrap();
    nodes
        .iter()
        .find(|node| node["name"] == name)
        .unwrap_or(&Value::Null)
}

fn rx(status: &Value, name: &str) -> u64 {
    let node = node(status, name);
    node["rx_packets"].as_u64().unwrap_or(0) + node["tx_packets"].as_u64().unwrap_or(0)
}

/// Everything the generator made has arrived, once, in order; every buffer is home.
fn assert_nothing_lost(status: &Value) {
    let counters = &node(status, "end")["counters"];
    for wrong in ["lost", "duplicated", "reordered", "corrupted"] {
        assert_eq!(counters[wrong], 0, "{wrong}: {status:#}");
    }
    assert_eq!(
        node(status, "gen")["rx_packets"],
        node(status, "end")["tx_packets"],
        "{status:#}"
    );
    assert_eq!(status["buffers"]["in_flight"], 0, "{status:#}");
    assert_eq!(status["deaths"], 0);
}

const ONE: &str = "  a: { type: macswap }\n";
const TWO: &str = "  a: { type: macswap }\n  b: { type: count }\n";

#[test]
fn nfs_come_and_go_and_no_packet_is_lost_or_overtaken() {
    let one = chain(ONE, "  - gen -> a -> end\n");
    let behind = chain(TWO, "  - gen -> a -> b -> end\n");
    let before = chain(TWO, "  - gen -> b -> a -> end\n");
    let running = Running::start(&one);
    for text in [&behind, &one, &before, &one, &before, &one, &behind, &one] {
        let applied = running.apply(text);
        assert!(applied.status.success(), "{applied:?}");
        running.let_pass();
    }
    assert!(running.apply(&behind).status.success());
    let refused = running.apply(&before);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && text.contains("one side first"),
        "{text}"
    );
    assert!(running.apply(&one).status.success());
    running.let_pass();
    let nothing = running.apply(&one);
    assert!(
        String::from_utf8_lossy(&nothing.stdout).contains("nothing to do"),
        "{nothing:?}"
    );
    let status = running.stop();
    assert_nothing_lost(&status);
    assert_eq!(status["workers"].as_array().unwrap().len(), 2, "{status:#}");
}

#[test]
fn an_nf_is_replaced_between_two_packets() {
    let running = Running::start(&chain(ONE, "  - gen -> a -> end\n"));
    let count = chain("  a: { type: count }\n", "  - gen -> a -> end\n");
    assert!(running.apply(&count).status.success());
    running.let_pass();
    let status = running.wait_for(|status| node(status, "a")["type"] == "count");
    assert_eq!(node(&status, "a")["drops"], serde_json::json!({}));
    assert_nothing_lost(&running.stop());
}

/// Held for 10 s, and then for 100 ms from when it came: all of it arrives, in order.
#[test]
fn what_an_nf_holds_is_its_successors() {
    let delay = |time: &str| {
        let nf = format!("  a: {{ type: delay, time: {time}, limit: 100000 }}\n");
        chain(&nf, "  - gen -> a -> end\n").replace("20kpps", "1kpps")
    };
    // Slow enough for the buffers to last while the machine is busy.
    let running = Running::start(&delay("1ms"));
    let slow = running.apply(&delay("10s"));
    assert!(slow.status.success(), "{slow:?}");
    let held = |status: &Value| node(status, "a")["held"].as_u64().unwrap_or(0);
    running.wait_for(|status| held(status) > 200);
    assert!(running.apply(&delay("100ms")).status.success());
    running.let_pass();
    let status = running.stop();
    assert_eq!(
        node(&status, "a")["drops"],
        serde_json::json!({}),
        "{status:#}"
    );
    assert_nothing_lost(&status);
}

/// What one shard knows of a flow, another one would be asked for.
#[test]
fn a_program_with_another_key_is_refused_while_its_shards_run() {
    let program = |key: &str, step: u32| {
        let nf = format!(
            "  a:
    type: flow
    shards: 2
    program:
      elements:
        - name: one
          key: [{key}]
          registers: {{ n: 32 }}
          transitions: [ {{ do: [flow.n = flow.n + {step}, output(out)] }} ]
"
        );
        chain(&nf, "  - gen -> a -> end\n")
    };
    let running = Running::start(&program("ip.src", 1));
    let refused = running.apply(&program("ip.dst", 1));
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(
        text.contains("by another key among the shards of a"),
        "{text}"
    );
    let changed = running.apply(&program("ip.src", 2));
    assert!(changed.status.success(), "{changed:?}");
    running.let_pass();
    assert_nothing_lost(&running.stop());
}

#[test]
fn a_change_that_fails_leaves_the_chain_as_it_was() {
    let one = chain(ONE, "  - gen -> a -> end\n");
    let running = Running::start(&one);
    let broken = "  a: { type: macswap }\n  b: { type: nonsense }\n";
    let refused = running.apply(&chain(broken, "  - gen -> a -> b -> end\n"));
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    // The port's device does not exist: found out only when the new worker opens it.
    let port = one.replace(
        "ports:\n",
        "ports:\n  extra: { pcap: { read: missing.pcap } }\n",
    ) + "  - extra -> b\n  - b -> gone\n";
    let port = port.replace("nfs:\n", "nfs:\n  b: { type: macswap, mode: thread }\n");
    let port = port.replace("ports:\n", "ports:\n  gone: { sink: {}, mode: thread }\n");
    let port = port.replace("extra: {", "extra: { mode: thread,");
    let refused = running.apply(&port);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(
        text.contains("missing.pcap") && text.contains("nothing was changed"),
        "{text}"
    );
    running.let_pass();
    let status = running.stop();
    assert_nothing_lost(&status);
    assert_eq!(status["nodes"].as_array().unwrap().len(), 3);
}

/// What workers that run were made with stays as it is; it is not accepted and then ignored, nor
/// planned.
#[test]
fn settings_that_need_new_workers_are_refused() {
    let one = chain(ONE, "  - gen -> a -> end\n");
    let running = Running::start(&one);
    for (setting, told) in [
        ("burst: 32", "run.burst"),
        ("wait: sleep", "run.wait"),
        ("cores: [0]", "run.cores"),
        ("buffers: { 128B: 9000 }", "run.buffers"),
    ] {
        let text = one.replace("mode: process }", &format!("mode: process, {setting} }}"));
        std::fs::write(running.dir.path().join("new.yaml"), text).unwrap();
        for verb in ["plan", "apply"] {
            let refused = running.ask(&[verb, "new.yaml"]);
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert_eq!(refused.status.code(), Some(1), "{verb} {setting}: {said}");
            assert!(said.contains(told), "{verb} {setting}: {said}");
        }
    }
    running.let_pass();
    assert_nothing_lost(&running.stop());
}

impl Running {
    /// Kills the worker `name`, if it runs just now.
    fn kill(&self, name: &str) {
        let Some(status) = self.status() else { return };
        let workers = status["workers"].as_array().unwrap();
        let worker = workers.iter().find(|worker| worker["name"] == name);
        let pid = worker.and_then(|worker| worker["pid"].as_u64());
        let Some(pid) = pid.and_then(|pid| rustix::process::Pid::from_raw(pid.try_into().unwrap()))
        else {
            return;
        };
        // It may have ended by itself.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }

    fn counts(&self, node: &str) -> u64 {
        let request = "{\"show\": \"counts\"}";
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let answer = self.ask(&["nf", "control", "live", node, request]);
            if answer.status.success() {
                let counts: Value = serde_json::from_slice(&answer.stdout).unwrap();
                return counts["packets"].as_u64().unwrap();
            }
            assert!(Instant::now() < deadline, "{answer:?}");
        }
    }
}

/// Counters of all nodes and links, by name, and of what.
fn counters(status: &Value) -> BTreeMap<String, u64> {
    let kinds = [
        (
            "nodes",
            ["rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "killed"],
        ),
        (
            "links",
            ["rx_packets", "rx_bytes", "tx_packets", "wakes", "blocked"],
        ),
    ];
    let mut all = BTreeMap::new();
    for (kind, counted) in kinds {
        for one in status[kind].as_array().unwrap() {
            for what in counted {
                let name = format!("{what} of {}", one["name"].as_str().unwrap());
                all.insert(name, one[what].as_u64().unwrap());
            }
        }
    }
    all
}

/// Whoever reads counters knows names, and takes one that falls for a restart: what is replaced,
/// moves to another worker, or leaves and comes again counts on.
#[test]
fn no_counter_of_a_name_falls_whatever_is_replaced() {
    let one = chain(ONE, "  - gen -> a -> end\n");
    let slots = "  - { link: gen -> a, slots: 64 }\n  - a -> end\n";
    let slots = chain(ONE, slots);
    let behind = chain(TWO, "  - gen -> a -> b -> end\n");
    let apart = one.replace("macswap", "macswap, group: strangers");
    let running = Running::start(&one);
    let mut before = counters(&running.wait_for(|_| true));
    for text in [&slots, &one, &behind, &one, &behind, &one, &apart, &one] {
        let applied = running.apply(text);
        assert!(applied.status.success(), "{applied:?}");
        let status = running.wait_for(|_| true);
        for (name, now) in counters(&status) {
            let was = before.insert(name.clone(), now).unwrap_or(0);
            assert!(
                now >= was,
                "{name} fell from {was} to {now}: {text}{status:#}"
            );
        }
        running.let_pass();
    }
    let status = running.stop();
    let links = status["links"].as_array().unwrap();
    for link in links {
        assert_eq!(link["tx_packets"], link["rx_packets"], "{status:#}");
    }
    let first = links.iter().find(|link| link["name"] == "gen -> a");
    let (passed, made) = (&first.unwrap()["rx_packets"], node(&status, "gen"));
    assert_eq!(passed, &made["rx_packets"], "{status:#}");
    assert_nothing_lost(&status);
}

/// What a node has dropped keeps its reasons when it gets another type.
#[test]
fn drops_keep_their_reasons_whatever_drops_them_next() {
    let of = |nf: &str| chain(&format!("  a: {nf}\n"), "  - gen -> a -> end\n");
    let policer = "{ type: policer, rate: 1kpps, burst: 1 }";
    let running = Running::start(&of(policer));
    let drops = |status: &Value, reason: &str| node(status, "a")["drops"][reason].as_u64();
    let made = |status: &Value| node(status, "gen")["rx_packets"].as_u64().unwrap();
    let next = |nf: &str, reason: &str| {
        let applied = running.apply(&of(nf));
        assert!(applied.status.success(), "{applied:?}");
        let first = running.wait_for(|_| true);
        // All but a few of the moment in which it turned.
        running.wait_for(|status| drops(status, reason) > Some(500));
        running.wait_for(|status| made(status) > made(&first) + 1000)
    };
    let before = running.wait_for(|status| drops(status, "policer_red") > Some(500));
    let status = next("{ type: acl, default: deny, rules: [] }", "acl_deny");
    let red = drops(&status, "policer_red").unwrap();
    assert!(red >= drops(&before, "policer_red").unwrap(), "{status:#}");
    let later = running.wait_for(|now| made(now) > made(&status) + 1000);
    assert_eq!(drops(&later, "policer_red"), Some(red), "{later:#}");
    let status = next(policer, "policer_red");
    assert!(
        drops(&status, "policer_red") > Some(red + 500),
        "{status:#}"
    );
    let status = running.stop();
    let a = node(&status, "a");
    let drops = a["drops"].as_object().unwrap().values();
    let drops: u64 = drops.map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(
        drops + a["tx_packets"].as_u64().unwrap(),
        a["rx_packets"],
        "{status:#}"
    );
}

/// What was made has arrived, once and in order, but for `lost`; every buffer is home.
fn assert_lost(status: &Value, lost: u64) {
    let counters = &node(status, "end")["counters"];
    for wrong in ["duplicated", "reordered", "corrupted"] {
        assert_eq!(counters[wrong], 0, "{wrong}: {status:#}");
    }
    let made = node(status, "gen")["rx_packets"].as_u64().unwrap();
    let arrived = node(status, "end")["tx_packets"].as_u64().unwrap();
    assert_eq!(made, arrived + lost, "{status:#}");
    let buffers = &status["buffers"];
    assert_eq!(buffers["in_flight"], 0, "{status:#}");
    assert_eq!(buffers["free"], buffers["allocated"], "{status:#}");
}

/// Packets that the supervisor says were killed, dropped or left, in nodes that are and that were.
fn accounted(status: &Value) -> u64 {
    let sum = |counts: &Value| -> u64 {
        // Where nobody has left with losses, nothing is said of them.
        let counts = counts.as_object().into_iter().flatten();
        counts.map(|(_, count)| count.as_u64().unwrap()).sum()
    };
    let of = |node: &Value| node["killed"].as_u64().unwrap() + sum(&node["drops"]);
    let here = status["nodes"].as_array().unwrap().iter().map(of);
    here.sum::<u64>() + sum(&status["left"])
}

/// Whatever links a node had in its life, what it held when it was killed is all that is lost.
#[test]
fn a_node_whose_link_was_replaced_and_that_is_killed_loses_what_it_held() {
    let running = Running::start(&chain(ONE, "  - gen -> a -> end\n"));
    let behind = chain(TWO, "  - gen -> a -> b -> end\n");
    assert!(running.apply(&behind).status.success());
    running.let_pass();
    let before = running.wait_for(|_| true);
    running.kill("a");
    let status = running.wait_for(|status| status["recovery"]["restarts"] == 1);
    for direction in ["rx_packets", "tx_packets"] {
        let of = |status: &Value| node(status, "a")[direction].as_u64().unwrap();
        assert!(of(&status) >= of(&before), "{direction} fell: {status:#}");
    }
    running.let_pass();
    let status = running.stop();
    let a = node(&status, "a");
    let killed = a["killed"].as_u64().unwrap();
    assert!(killed <= 256, "{status:#}");
    assert_eq!(
        a["rx_packets"].as_u64().unwrap(),
        a["tx_packets"].as_u64().unwrap() + killed,
        "{status:#}"
    );
    assert_lost(&status, killed);
}

/// Counts lie in memory that outlives the NF.
#[test]
fn kills_lose_no_count() {
    let running = Running::start(&chain("  a: { type: count }\n", "  - gen -> a -> end\n"));
    let mut before = 0;
    for lives in 1..=5 {
        running.let_pass();
        let counted = running.counts("a");
        assert!(counted >= before + 100, "{counted} after {before}");
        before = counted;
        running.kill("a");
        running.wait_for(|status| status["recovery"]["restarts"] == lives);
        let after = running.counts("a");
        assert!(after >= before, "{after} after {before}");
    }
    // What arrives while it is asked is not counted twice either.
    let passed = running.wait_for(|_| true);
    let counted = running.counts("a");
    let status = running.wait_for(|_| true);
    let a = |status: &Value, what: &str| node(status, "a")[what].as_u64().unwrap();
    assert!(counted >= a(&passed, "tx_packets"), "{counted}: {passed:#}");
    assert!(counted <= a(&status, "rx_packets"), "{counted}: {status:#}");
    running.stop();
}

/// A worker dies at any time while the chain is changed: the change is made or it is not, nobody
/// waits long, and what was lost is counted.
#[test]
fn kills_in_the_middle_of_a_change_are_survived() {
    let one = chain(ONE, "  - gen -> a -> end\n");
    let behind = chain(TWO, "  - gen -> a -> b -> end\n");
    let before = chain(TWO, "  - gen -> b -> a -> end\n");
    let running = Running::start(&one);
    let seed = std::env::var("CATENA_SEED").ok();
    let mut random = seed
        .and_then(|text| text.parse().ok())
        .unwrap_or(0x5eed_u64);
    let mut below = |end: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % end
    };
    let (mut made, mut refused) = (0, 0);
    for round in 0..24 {
        let text = match round % 4 {
            0 => &behind,
            2 => &before,
            _ => &one,
        };
        let victim = if below(3) == 0 { "b" } else { "a" };
        let wait = Duration::from_micros(below(30_000));
        std::fs::write(running.dir.path().join("new.yaml"), text).unwrap();
        let start = Instant::now();
        let child = catena(running.dir.path())
            .args(["apply", "new.yaml"])
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while start.elapsed() < wait {
            std::hint::spin_loop();
        }
        running.kill(victim);
        let mut said = child.wait_with_output().unwrap();
        // Nobody is waited for until patience (5 s) ends.
        let took = start.elapsed();
        assert!(took < Duration::from_secs(4), "{took:?}");
        // Made or not, the same file can be applied until it is.
        loop {
            let text = String::from_utf8_lossy(&said.stderr).into_owned();
            if said.status.success() {
                made += 1;
                break;
            }
            refused += 1;
            let is_kind = text.contains("nothing was changed") || text.contains("try again");
            assert!(is_kind, "{text}");
            assert!(start.elapsed() < Duration::from_secs(4), "{text}");
            said = running.ask(&["apply", "new.yaml"]);
        }
        running.let_pass();
    }
    eprintln!("  {made} changes made, {refused} refused");
    // With both there, the status tells what either has dropped.
    let both = running.apply(&behind);
    assert!(both.status.success(), "{both:?}");
    running.let_pass();
    let status = running.stop();
    assert!(status["deaths"].as_u64().unwrap() > 5, "{status:#}");
    // What Catena says of its losses, not what the sink missed.
    let lost = accounted(&status);
    assert_lost(&status, lost);
    let missed = &node(&status, "end")["counters"]["lost"];
    assert_eq!(missed.as_u64().unwrap(), lost, "{status:#}");
}
