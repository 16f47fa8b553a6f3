//! What control requests change is state of the chain: it outlives NFs, changes and supervisors, is
//! shown, and can be written out.
//!
//! A firewall is told to drop all that the generator makes. From then on not one packet may pass
//! it, whoever dies.

mod support;

use std::process::Output;

use rustix::process::Signal;
use serde_json::{Value, json};
use support::*;

const CHAIN: &str = "
ports:
  in:  { generator: { rate: 20kpps, size: 64 } }
  out: { sink: { verify: true } }
nfs:
  # Nothing is denied.
  edge:
    type: acl
    default: permit
    rules: []
links:
  - in -> edge -> out
run: { mode: process, orphan: 60s }
";

const DENY: &str = r#"{"rules": [{"action": "deny", "protocol": "udp"}]}"#;

/// A chain whose workers do not stay behind if a test fails.
struct Guarded(Running, &'static str);

impl Guarded {
    fn start(name: &'static str, text: &str) -> Self {
        let chain = Running::start(name, text);
        flows(&chain);
        Self(chain, name)
    }

    fn control(&self, node: &str, request: &str) -> Output {
        self.0.ask(&["nf", "control", self.1, node, request])
    }

    fn said(&self, arguments: &[&str]) -> String {
        let output = self.0.ask(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.said(arguments)).unwrap()
    }

    /// Puts a whole chain file into the chain's folder; gives its path.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Kills the firewall, and waits until another drops packets.
    fn kill_edge(&self) {
        let status = self.0.until("it runs", |status| {
            worker(status, "edge")["state"] == "running"
        });
        let before = epoch(&status, "edge");
        assert!(signal(&status, "edge", Signal::KILL));
        self.0
            .until("another runs", |status| runs_after(status, "edge", before));
        self.drops_on();
    }

    /// A thousand packets more are dropped, and none has passed since `passed` had.
    fn drops_on(&self) {
        let drops = |status: &Value| number(&node(status, "edge")["drops"]["acl_deny"]);
        let before = self.0.until("status", |_| true);
        self.0.until("packets are dropped", |now| {
            drops(now) > drops(&before) + 1000
        });
    }

    fn passed(&self) -> u64 {
        let status = self.0.until("status", |_| true);
        number(&node(&status, "edge")["tx_packets"])
    }

    fn amended(&self) -> Value {
        self.0.until("status", |_| true)["amended"].clone()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.kill();
            self.0.ask(&["stop", self.1]);
        }
    }
}

#[test]
fn a_blocked_port_stays_blocked_whoever_dies() {
    let mut chain = Guarded::start("blocked", CHAIN);
    // What cannot be, and what would be right in a chain file, and is no request.
    for wrong in [
        r#"{"rules": [{"action": "maybe"}]}"#,
        r#"{"rules": [{"action": "deny", "protocol": "udp"}], "more": 1}"#,
    ] {
        let refused = chain.control("edge", wrong);
        assert!(!refused.status.success(), "{refused:?}");
        assert_eq!(chain.amended(), json!({}), "what is refused is forgotten");
        assert_eq!(
            chain.json(&["export", "blocked", "--json"])["amended"],
            json!([])
        );
    }

    assert!(chain.control("edge", DENY).status.success());
    chain.drops_on();
    let passed = chain.passed();
    assert_eq!(chain.amended(), json!({"edge": 1}));
    for _ in 0..3 {
        chain.kill_edge();
    }
    assert_eq!(chain.passed(), passed, "after kill -9");

    // A change of the file that concerns another setting of the same NF.
    let other =
        format!("name: blocked\n{CHAIN}").replace("rules: []", "rules: []\n    non_ip: deny");
    let other = chain.file("other.yaml", &other);
    let shown = chain.said(&["plan", &other]);
    assert!(
        shown.contains("! node edge restarts (config)\n    non_ip: (not set) -> deny\n"),
        "{shown}"
    );
    assert!(
        shown.contains(
            "= node edge (kept: changed by catena nf control)\n    rules[0]: (not set) -> {"
        ),
        "{shown}"
    );
    let applied = chain.said(&["apply", &other]);
    assert_eq!(applied, shown);
    chain.drops_on();
    assert_eq!(chain.passed(), passed, "after apply");
    assert_eq!(chain.amended(), json!({"edge": 1}));

    chain.0.kill();
    std::fs::copy(&other, chain.0.dir.path().join("chain.yaml")).unwrap();
    chain.0.adopt();
    assert_eq!(chain.amended(), json!({"edge": 1}));
    chain.kill_edge();
    assert_eq!(chain.passed(), passed, "after another supervisor took over");

    // Without a change in the file, plan has nothing to do, and says what is another.
    let same = chain.said(&["plan", &other]);
    assert!(
        same.starts_with("nothing to do") && same.contains("= node edge"),
        "{same}"
    );
    let machine = chain.json(&["plan", &other, "--json"]);
    assert_eq!(machine["actions"], json!([]));
    let new = json!({"action": "deny", "protocol": "udp"});
    let values = json!([{"setting": "rules[0]", "new": new}]);
    assert_eq!(
        machine["amended"],
        json!([{"node": "edge", "values": values}])
    );
    let text = chain.said(&["status", "blocked"]);
    assert!(
        text.contains("amended: edge, by 1 control request"),
        "{text}"
    );

    // Written out, it is what the file says, and nothing is amended any more.
    let exported = chain.said(&["export", "blocked"]);
    assert!(
        exported.contains("  # Nothing is denied.\n  edge:\n"),
        "{exported}"
    );
    let written = chain.file("written.yaml", &exported);
    let discarded = chain.said(&["plan", &written, "--discard"]);
    assert_eq!(discarded.lines().count(), 1, "{discarded}");
    chain.said(&["apply", &written]);
    assert_eq!(chain.amended(), json!({}));
    chain.kill_edge();
    assert_eq!(chain.passed(), passed, "as the file says now");

    // What is opened by a request is closed again by the file, if that is asked for.
    assert!(chain.control("edge", r#"{"rules": []}"#).status.success());
    let now = chain.0.until("status", |_| true);
    chain.0.until("packets pass", |status| {
        number(&node(status, "edge")["tx_packets"])
            > number(&node(&now, "edge")["tx_packets"]) + 100
    });
    let undone = chain.said(&["apply", &written, "--discard"]);
    assert!(undone.contains("rules[0]: (not set) -> {"), "{undone}");
    chain.drops_on();
    assert_eq!(chain.amended(), json!({}));
    chain.kill_edge();
    let Guarded(running, _) = &mut chain;
    let running = std::mem::replace(running, Running::idle("blocked"));
    assert_conserved(&running.stop());
}

/// Requests of many sizes, and supervisors and NFs that are killed at any moment: what the NF does
/// and what the chain says that it does are the same.
#[test]
fn the_chain_and_its_nf_agree_whenever_a_supervisor_dies() {
    let mut chain = Guarded::start("agree", CHAIN);
    let mut random = seed();
    let mut kept = 0;
    for round in 1..=12_usize {
        let rules: Vec<Value> = (0..round)
            .map(|port| json!({"action": "permit", "dst_port": port}))
            .collect();
        let request = json!({ "rules": rules }).to_string();
        let mut asking = chain
            .0
            .command(&["nf", "control", "agree", "edge", &request]);
        let asking = asking.stdout(std::process::Stdio::null());
        let mut asking = asking.stderr(std::process::Stdio::null()).spawn().unwrap();
        dither(&mut random, 12_000_000);
        if random.below(3) == 0
            && let Some(status) = chain.0.try_status()
        {
            signal(&status, "edge", Signal::KILL);
        }
        chain.0.kill();
        let accepted = asking.wait().unwrap().success();
        chain.0.adopt();
        // Its answer may still be on its way.
        let said = |chain: &Guarded| {
            let export = chain.json(&["export", "agree", "--json"]);
            let values = export["amended"][0]["values"]
                .as_array()
                .map_or(0, Vec::len);
            let hits = chain.control("edge", r#"{"show": "hits"}"#);
            let hits: Value = serde_json::from_slice(&hits.stdout).unwrap_or_default();
            (values, hits["rules"].as_array().map(Vec::len))
        };
        let mut now = (0, None);
        chain.0.until("they agree", |_| {
            now = said(&chain);
            now.1 == Some(now.0)
        });
        assert!(
            now.0 == kept || now.0 == round,
            "{now:?} in round {round}, {kept} before"
        );
        assert!(
            !accepted || now.0 == round,
            "{now:?} after {round} were accepted"
        );
        kept = now.0;
        let Some(status) = chain.0.try_status() else {
            continue;
        };
        let before = epoch(&status, "edge");
        signal(&status, "edge", Signal::KILL);
        chain
            .0
            .until("another runs", |status| runs_after(status, "edge", before));
        assert_eq!(
            said(&chain),
            (kept, Some(kept)),
            "its successor in round {round}"
        );
    }
    let Guarded(running, _) = &mut chain;
    let running = std::mem::replace(running, Running::idle("agree"));
    assert_conserved(&running.stop());
}

/// All shards of a node do the same, those that come later too.
#[test]
fn what_a_sharded_nf_was_told_its_new_shards_are_told() {
    let sharded = |count: u16| {
        let shards = format!("rules: []\n    shards: {{ count: {count}, key: flow }}");
        CHAIN
            .replace("rules: []", &shards)
            .replace("size: 64", "size: 64, flows: 64")
    };
    let chain = Guarded::start("many", &sharded(2));
    let one = chain.control("edge/1", DENY);
    let why = String::from_utf8(one.stderr).unwrap();
    assert!(
        why.contains("edge/1 is a shard") && why.contains("ask edge"),
        "{why}"
    );
    assert!(chain.control("edge", DENY).status.success());
    let more = chain.file("more.yaml", &format!("name: many\n{}", sharded(4)));
    chain.said(&["apply", &more]);
    let hits: Value = chain.json(&["nf", "control", "many", "edge", r#"{"show": "hits"}"#]);
    assert_eq!(hits.as_object().unwrap().len(), 4);
    for (shard, hits) in hits.as_object().unwrap() {
        assert_eq!(
            hits["rules"].as_array().unwrap().len(),
            1,
            "{shard}: {hits}"
        );
    }
    assert_eq!(chain.amended(), json!({"edge": 1}));
    let mut chain = chain;
    let Guarded(running, _) = &mut chain;
    let running = std::mem::replace(running, Running::idle("many"));
    assert_conserved(&running.stop());
}
