//! The template under `examples/own-nf`, built as the workspace of its own that it is: a binary
//! that is the whole command with one NF more, whose workers have that NF too.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn template() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-nf")
}

/// Builds it with the versions that the repository is locked to and what cargo has at hand, and
/// gives its binary.
fn built(subcommand: &str) -> PathBuf {
    let template = template();
    let lock = template.join("../../Cargo.lock");
    std::fs::copy(lock, template.join("Cargo.lock")).unwrap();
    let target = Path::new(env!("CARGO_BIN_EXE_catena")).ancestors().nth(2);
    let target = target.unwrap();
    let status = Command::new(env!("CARGO"))
        .args([subcommand, "--offline", "--manifest-path"])
        .arg(template.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .status()
        .unwrap();
    assert!(status.success(), "cargo {subcommand} of the template");
    target.join("debug/own-nf")
}

#[test]
fn the_template_runs_its_nf_in_every_mode() {
    let binary = built("build");
    let described = Command::new(&binary)
        .args(["nf", "describe", "sample"])
        .output()
        .unwrap();
    assert!(described.status.success());
    for mode in ["inline", "thread", "process"] {
        let place = tempfile::tempdir().unwrap();
        let output = Command::new(&binary)
            .env("CATENA_RUNTIME_DIR", place.path())
            .args(["run", "--json", "--mode", mode])
            .arg(template().join("chain.yaml"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{mode}: {said}");
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        let nodes = status["nodes"].as_array().unwrap();
        let thin = nodes.iter().find(|node| node["name"] == "thin").unwrap();
        assert_eq!(thin["tx_packets"], 100, "{mode}: {thin}");
        assert_eq!(thin["drops"]["thinned"], 900, "{mode}: {thin}");
        assert_eq!(thin["counters"]["passed"], 100, "{mode}: {thin}");
    }
}

#[test]
fn the_templates_own_tests_pass() {
    built("test");
}
