//! FB5G's functions as `examples/fb5g` has them, each in a container between real peers, with
//! podman and with docker: started, used and stopped. Set up by `tests/setup/containers.sh`.

use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use super::{Hosts, PATIENCE, SERVER, SERVERS, repository, run};

/// A function, and what is done with it.
pub(super) struct Function {
    /// Of its file; its chain is called `fb5g-` and this.
    pub(super) name: &'static str,
    pub(super) node: &'static str,
    pub(super) interfaces: [&'static str; 2],
    /// Makes the peers ready, before the chain starts.
    pub(super) join: fn(&mut Hosts),
    /// Sends what must come through.
    pub(super) exercise: fn(&Hosts),
    /// Drops that it causes: reason, and how many at least.
    pub(super) drops: &'static [(&'static str, u64)],
}

pub(super) const POLICER: Function = Function {
    name: "policer",
    node: "police",
    interfaces: ["left", "right"],
    join: |hosts| {
        let [left, _, right] = hosts.names.clone();
        hosts.ip(&left, "address add 10.77.0.1/24 dev eth0");
        hosts.ip(&right, "address add 10.77.0.2/24 dev eth0");
    },
    exercise: |hosts| {
        hosts.run_in(&hosts.names[0], "ping -c 5 -i 0.2 -W 20 10.77.0.2");
    },
    drops: &[],
};

pub(super) const BALANCER: Function = Function {
    name: "balancer",
    node: "balance",
    interfaces: ["clients", "servers"],
    join: |hosts| {
        hosts.join_servers();
        let right = hosts.names[2].clone();
        let script = hosts.folder.path().join("server.py");
        std::fs::write(&script, SERVER).unwrap();
        for (name, address) in SERVERS {
            let command = format!("python3 {} {address} {name} -", script.display());
            let command = hosts.command(&right, &command);
            hosts.start(command);
            let ask = format!("curl --silent --fail --max-time 5 http://{address}:8080/");
            hosts.until("the server listens", &right, &ask);
        }
    },
    exercise: |hosts| {
        let ask = "curl --silent --show-error --fail --max-time 20 http://10.0.0.100/";
        let answers = (0..6).map(|_| hosts.run_in(&hosts.names[0], ask).stdout);
        let answers: Vec<String> = answers
            .map(|answer| String::from_utf8_lossy(&answer).trim().to_owned())
            .collect();
        for (name, _) in SERVERS {
            let count = answers.iter().filter(|answer| *answer == name).count();
            assert_eq!(count, 2, "{answers:?}");
        }
        // From now on the second server has the first one's turns too.
        let data = serde_json::json!({"addr": "10.0.1.2", "port": 8080});
        let request = serde_json::json!({"set": "servers", "key": [0], "data": data});
        hosts.control("fb5g-balancer", "balance", &request);
        let answers = (0..6).map(|_| hosts.run_in(&hosts.names[0], ask).stdout);
        let count = answers.filter(|answer| answer == b"two\n").count();
        assert_eq!(count, 4);
    },
    drops: &[],
};

pub(super) const OFFLOAD: Function = Function {
    name: "offload",
    node: "offload",
    interfaces: ["radio", "core"],
    join: |hosts| hosts.join_ends(),
    exercise: |hosts| {
        let script = repository("crates/cli/tests/flow_peers/offload.py");
        let command = format!("python3 {} eth1 eth0 eth2", script.display());
        let output = hosts.run_in(&hosts.names[2], &command);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "all as it should be\n"
        );
    },
    drops: &[("probe_answer", 1), ("unknown_terminal", 1)],
};

/// Containers of the engine for chains of this folder, running or not.
fn containers(engine: &str, hosts: &Hosts) -> String {
    let folder = std::fs::canonicalize(hosts.folder.path()).unwrap();
    let folder = folder.to_string_lossy().into_owned();
    let mut list = Command::new(engine);
    let list = list.args(["ps", "--all", "--format", "{{.Names}} {{.Labels}}"]);
    let text = String::from_utf8_lossy(&run(list).stdout).into_owned();
    let ours = text.lines().filter(|line| line.contains(&folder));
    ours.collect::<Vec<_>>().join("\n")
}

fn worker<'a>(status: &'a Value, name: &str) -> &'a Value {
    let mut workers = status["workers"].as_array().unwrap().iter();
    workers.find(|worker| worker["name"] == name).unwrap()
}

/// Whether an engine has an image; if not, says so.
pub(super) fn has_image(test: &str, engine: &str, image: &str) -> bool {
    let found = Command::new(engine)
        .args(["image", "inspect", image])
        .output();
    let has_image = found.is_ok_and(|output| output.status.success());
    if !has_image {
        println!("SKIP {test}: {engine} has no image {image}; run tests/setup/containers.sh");
    }
    has_image
}

fn runs(test: &str, function: &Function, engine: &str) {
    // Of these chains, which name no other one.
    if !has_image(test, engine, "catena-worker") {
        return;
    }
    let label = format!("{engine:.3}-{test}");
    let Some(mut hosts) = Hosts::new(&label, function.interfaces) else {
        return;
    };
    (function.join)(&mut hosts);
    let file = repository(&format!("examples/fb5g/{}.yaml", function.name));
    let chain = format!("fb5g-{}", function.name);
    let mut command = hosts.in_the_middle(env!("CARGO_BIN_EXE_catena"));
    command.args(["run", "--json"]).arg(file);
    command.env("CATENA_RUNTIME_DIR", hosts.folder.path().join("run"));
    command.env("CATENA_CONTAINER_ENGINE", engine);
    let child = hosts.start(command);
    let start = Instant::now();
    loop {
        let status = hosts.status(&chain);
        if status.is_some_and(|status| worker(&status, function.node)["state"] == "running") {
            break;
        }
        let ended = hosts.children[child].try_wait().unwrap();
        assert!(ended.is_none(), "the chain has ended: {ended:?}");
        assert!(start.elapsed() < PATIENCE, "the chain does not run");
    }
    assert_ne!(containers(engine, &hosts), "");
    (function.exercise)(&hosts);
    hosts.catena(&["stop", &chain]);
    let output = hosts.children.remove(child).wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(!errors.contains("interpreted"), "{errors}");
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(worker(&status, function.node)["mode"], "container");
    assert_eq!(status["deaths"], 0, "{status}");
    let mut nodes = status["nodes"].as_array().unwrap().iter();
    let node = nodes.find(|node| node["name"] == function.node).unwrap();
    for (reason, least) in function.drops {
        assert!(node["drops"][reason].as_u64() >= Some(*least), "{node}");
    }
    assert_eq!(containers(engine, &hosts), "");
}

macro_rules! with_engines {
    ($($test:ident: $function:ident)*) => {
        mod podman { $(#[test] fn $test() {
            super::runs(stringify!($test), &super::$function, "podman");
        })* }
        mod docker { $(#[test] fn $test() {
            super::runs(stringify!($test), &super::$function, "docker");
        })* }
    };
}

with_engines! {
    policer_lets_pings_pass: POLICER
    balancer_takes_servers_in_turn: BALANCER
    offload_brings_terminals_to_the_edge: OFFLOAD
}
