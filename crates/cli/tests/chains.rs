//! Every chain in `chains/` runs as printed and counts what `chains/expect/` says.
//!
//! Adding one needs no Rust: a chain `chains/NAME.yaml` and `chains/expect/NAME.yaml`, or both in a
//! folder of the same name there (`chains/epon/NAME.yaml`, `chains/expect/epon/NAME.yaml`),
//! which names counters of nodes and links as `catena run --json` prints them, and packets in files
//! that the chain writes. What is not named is not compared; what holds for every chain is checked
//! for every chain. Each runs twice: in the mode of its file, and with `--mode thread`, which must
//! not change what its nodes count.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Chains that need more than this file sets up, and the test that runs each.
const ELSEWHERE: &[(&str, &str)] = &[
    ("container", "containers.rs"),
    ("cut", "segments.rs"),
    ("epon/compose", "compose.rs"),
    ("epon/container", "containers.rs"),
    ("flow-balancer", "flow_peers.rs"),
    ("flow-offload", "flow_peers.rs"),
    ("nat44-netns", "nat44.rs"),
    ("netns", "netns.rs"),
    ("segments", "segments.rs"),
    ("tap", "tap.rs"),
    ("upf/namespaces", "upf.rs"),
    ("upf/nat44", "upf.rs"),
    ("upf/psa", "upf.rs"),
    ("upf/ul-cl", "upf.rs"),
    ("upf/xdp", "xdp.rs"),
    ("xdp", "xdp.rs"),
];

fn chains() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains")
}

/// Folders of chains, within `chains/` and within `chains/expect/`.
const FOLDERS: &[&str] = &["", "epon", "upf"];

/// Names of the chain files, without ending, with the folder in front.
fn names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for part in FOLDERS {
        for entry in fs::read_dir(folder.join(part)).unwrap().flatten() {
            let path = Path::new(part).join(entry.file_name());
            if path.extension().is_some_and(|ending| ending == "yaml") {
                names.push(path.with_extension("").to_string_lossy().into_owned());
            }
        }
    }
    names.sort();
    names
}

fn read_yaml(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A copy of the example library in a folder of its own, since chains write beside their file.
fn library() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("chains");
    for part in FOLDERS.iter().chain(&["traces", "upf/scenarios"]) {
        fs::create_dir_all(to.join(part)).unwrap();
        for entry in fs::read_dir(chains().join(part)).unwrap().flatten() {
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), to.join(part).join(entry.file_name())).unwrap();
            }
        }
    }
    // A PON runs in real time: what is later than its lead is lost, and other tests run beside it.
    // An ONU that hears no GATE for a second leaves: so long a lead that one may be lost.
    let pon = to.join("epon/pon.yaml");
    let file = fs::read_to_string(&pon).unwrap();
    assert!(file.contains("lead: 20ms"), "{file}");
    fs::write(&pon, file.replace("lead: 20ms", "lead: 200ms")).unwrap();
    folder
}

/// Runs a chain to its end; gives its final counters.
fn run(library: &Path, name: &str, options: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_catena"))
        .args(["run", "--json", "--seconds", "120"])
        .args(options)
        .arg(library.join("chains").join(format!("{name}.yaml")))
        .env("CATENA_RUNTIME_DIR", library.join("run"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{name} {options:?}: {}: {errors}",
        output.status
    );
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{name}: {e}\n{errors}"))
}

fn number(value: &Value, key: &str) -> u64 {
    let number = value[key].as_u64();
    number.unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// What holds for every chain that has come to its end.
fn check_conservation(name: &str, status: &Value) {
    assert_eq!(number(status, "deaths"), 0, "{name}");
    for node in status["nodes"].as_array().unwrap() {
        if node["kind"] == "nf" {
            let drops = node["drops"].as_object().unwrap().values();
            let drops: u64 = drops.map(|count| count.as_u64().unwrap()).sum();
            let gone = number(node, "tx_packets") + drops + number(node, "killed");
            assert_eq!(number(node, "rx_packets"), gone, "{name}: {node}");
        }
    }
    for link in status["links"].as_array().unwrap() {
        let (sent, taken) = (number(link, "tx_packets"), number(link, "rx_packets"));
        assert_eq!(sent, taken, "{name}: {link}");
        assert_eq!(number(link, "occupancy"), 0, "{name}: {link}");
        assert_eq!(number(link, "violations"), 0, "{name}: {link}");
    }
    let buffers = &status["buffers"];
    assert_eq!(number(buffers, "in_flight"), 0, "{name}: {buffers}");
    assert_eq!(buffers["free"], buffers["allocated"], "{name}");
}

/// Compares what is expected with what is there, key by key.
fn check_part(at: &str, expected: &Value, found: &Value) {
    match (expected.as_object(), found.as_object()) {
        // Drops are named completely: another reason would be a surprise.
        (Some(expected), Some(found)) if !at.ends_with("/drops") => {
            for (key, value) in expected {
                let found = found.get(key).unwrap_or(&Value::Null);
                check_part(&format!("{at}/{key}"), value, found);
            }
        }
        _ => assert_eq!(found, expected, "{at}"),
    }
}

fn check_list(name: &str, list: &str, expected: &Value, status: &Value) {
    for (key, value) in expected[list].as_object().into_iter().flatten() {
        let mut items = status[list].as_array().unwrap().iter();
        let found = items.find(|item| item["name"] == key.as_str());
        let found = found.unwrap_or_else(|| panic!("{name} has nothing called {key} in {list}"));
        check_part(&format!("{name}/{list}/{key}"), value, found);
    }
}

/// Number of packets in a pcap file.
fn packet_count(path: &Path) -> u64 {
    const HEADER_LEN: usize = 24;
    const RECORD_HEADER_LEN: usize = 16;
    let bytes = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut rest = &bytes[HEADER_LEN..];
    let mut count = 0;
    while !rest.is_empty() {
        let captured: [u8; 4] = rest[8..12].try_into().unwrap();
        let captured = usize::try_from(u32::from_le_bytes(captured)).unwrap();
        rest = &rest[RECORD_HEADER_LEN + captured..];
        count += 1;
    }
    count
}

#[test]
fn every_chain_has_expectations_or_a_reason() {
    let folder = chains();
    let expected = names(&folder.join("expect"));
    for name in names(&folder) {
        let elsewhere = ELSEWHERE.iter().any(|(other, _)| *other == name);
        assert!(
            expected.contains(&name) != elsewhere,
            "chains/{name}.yaml: add chains/expect/{name}.yaml, or name its test in ELSEWHERE"
        );
    }
    for (name, test) in ELSEWHERE {
        let test = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests")
            .join(test);
        assert!(
            test.exists(),
            "no {} runs chains/{name}.yaml",
            test.display()
        );
    }
    for name in expected {
        let path = folder.join(format!("{name}.yaml"));
        assert!(path.exists(), "no chain is called {name}");
    }
}

#[test]
fn chains_count_what_is_expected() {
    let library = library();
    for name in names(&chains().join("expect")) {
        let expected = read_yaml(&chains().join(format!("expect/{name}.yaml")));
        let status = run(library.path(), &name, &[]);
        check_conservation(&name, &status);
        check_list(&name, "nodes", &expected, &status);
        check_list(&name, "links", &expected, &status);
        for (file, count) in expected["files"].as_object().into_iter().flatten() {
            let path = library.path().join("chains").join(file);
            assert_eq!(Some(packet_count(&path)), count.as_u64(), "{name}: {file}");
        }
        let status = run(library.path(), &name, &["--mode", "thread"]);
        check_conservation(&name, &status);
        check_list(&name, "nodes", &expected, &status);
    }
}

/// A wrong expectation is found out; otherwise the test above would say nothing.
#[test]
#[should_panic(expected = "left: Number(911)")]
fn a_wrong_expectation_fails() {
    let expected = serde_json::json!({ "nodes": { "police": { "rx_packets": 910 } } });
    let status = run(library().path(), "hello", &["--mode", "inline"]);
    check_list("hello", "nodes", &expected, &status);
}
