//! Records of any size: as many rules as documented when a chain starts, changes and is asked, and
//! requests that are larger than any chain takes. Whoever asks too much harms nobody.

#[path = "support/mod.rs"]
mod support;

use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use support::{Running, flows, node, number};

/// What `docs/reference/nfs.md` promises.
const RULES: usize = 4096;

/// Rules that hold for nothing that is sent, about 150 bytes each.
fn rules(count: usize, network: usize) -> Vec<Value> {
    let rule = |index: usize| {
        json!({
            "action": "deny",
            "src": format!("10.{network}.{}.{}/32", index / 256, index % 256),
            "dst": format!("203.0.113.{}/32", index % 256),
            "src_port": format!("1024-{}", 2000 + index),
            "protocol": "tcp",
            "priority": index,
        })
    };
    (0..count).map(rule).collect()
}

fn chain(count: usize, network: usize) -> String {
    let rules: String = rules(count, network)
        .iter()
        .map(|rule| format!("      - {rule}\n"))
        .collect();
    format!(
        "ports:
  in:  {{ generator: {{ rate: 20kpps, size: 64 }} }}
  out: {{ sink: {{ verify: true }} }}
nfs:
  edge:
    type: acl
    default: permit
    rules:
{rules}links:
  - in -> edge -> out
run: {{ mode: process }}
"
    )
}

fn apply(chain: &Running, text: &str) -> Output {
    let file = chain.dir.path().join("new.yaml");
    std::fs::write(&file, format!("name: large\n{text}")).unwrap();
    chain.ask(&["apply", file.to_str().unwrap()])
}

fn control(chain: &Running, request: &Value) -> Result<Value, String> {
    let mut child = chain
        .command(&["nf", "control", "large", "edge", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // It may have had enough before the end.
    let _ = input.write_all(request.to_string().as_bytes());
    drop(input);
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        Ok(serde_json::from_slice(&output.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn assert_unharmed(status: &Value) {
    assert_eq!(number(&status["deaths"]), 0, "{status:#}");
    let counters = &node(status, "out")["counters"];
    for wrong in ["lost", "duplicated", "reordered", "corrupted"] {
        assert_eq!(counters[wrong], 0, "{wrong}: {status:#}");
    }
    support::assert_conserved(status);
}

#[test]
fn as_many_rules_as_documented_run_and_are_applied_and_set_by_control() {
    let running = Running::start("large", &chain(RULES, 1));
    flows(&running);
    for (count, network) in [(1, 2), (RULES, 3), (RULES, 1)] {
        let applied = apply(&running, &chain(count, network));
        assert!(applied.status.success(), "{applied:?}");
        flows(&running);
    }
    let set = control(&running, &json!({ "rules": rules(RULES, 4) }));
    assert_eq!(set, Ok(json!({ "rules": RULES })));
    let hits = control(&running, &json!({ "show": "hits" })).unwrap();
    assert_eq!(hits["rules"].as_array().unwrap().len(), RULES);
    flows(&running);
    assert_unharmed(&running.stop());
}

#[test]
fn a_request_that_is_too_large_harms_nobody() {
    let running = Running::start("large", &chain(1, 1));
    // More than the control socket takes; nearly as much, of what the NF refuses; and deep.
    let much = control(&running, &json!({ "rules": "x".repeat(9 << 20) })).unwrap_err();
    assert!(much.contains("at most"), "{much}");
    let much = control(&running, &json!({ "rules": "x".repeat(7 << 20) })).unwrap_err();
    assert!(much.contains("edge: nothing was changed"), "{much:.200}");
    assert!(
        much.len() < 1000,
        "what is said is for people: {}",
        much.len()
    );
    let many = control(&running, &json!({ "rules": rules(40_000, 1) })).unwrap_err();
    assert!(many.contains("4096"), "{many}");
    let hits = control(&running, &json!({ "show": "hits" })).unwrap();
    assert_eq!(hits["rules"].as_array().unwrap().len(), 1);
    flows(&running);
    assert_unharmed(&running.stop());
}
