//! The template under `examples/own-nf`, built as the workspace of its own that it is: a binary
//! that is the whole command with one NF more, whose workers have that NF too, in containers as
//! anywhere. Engines are set up by `tests/setup/containers.sh`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The image of workers with the template's binary.
const IMAGE: &str = "catena-own-nf";

fn template() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-nf")
}

/// Builds it with the versions that the repository is locked to and what cargo has at hand, with
/// the C library inside as its guide says, so that it runs in an image too. Gives the folder of
/// what was built.
fn cargo(subcommand: &str) -> PathBuf {
    let template = template();
    let lock = template.join("../../Cargo.lock");
    std::fs::copy(lock, template.join("Cargo.lock")).unwrap();
    let target = Path::new(env!("CARGO_BIN_EXE_catena")).ancestors().nth(2);
    let target = target.unwrap();
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let status = Command::new(env!("CARGO"))
        .args([subcommand, "--offline", "--target", &host])
        .arg("--manifest-path")
        .arg(template.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .status()
        .unwrap();
    assert!(status.success(), "cargo {subcommand} of the template");
    target.join(host).join("debug")
}

fn assert_thinned(run: &mut Command, what: &str) {
    let place = tempfile::tempdir().unwrap();
    let output = run.env("CATENA_RUNTIME_DIR", place.path()).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {said}");
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let nodes = status["nodes"].as_array().unwrap();
    let thin = nodes.iter().find(|node| node["name"] == "thin").unwrap();
    assert_eq!(thin["tx_packets"], 100, "{what}: {thin}");
    assert_eq!(thin["drops"]["thinned"], 900, "{what}: {thin}");
    assert_eq!(thin["counters"]["passed"], 100, "{what}: {thin}");
}

#[test]
fn the_template_runs_its_nf_in_every_mode() {
    let binary = cargo("build").join("own-nf");
    let described = Command::new(&binary)
        .args(["nf", "describe", "sample"])
        .output()
        .unwrap();
    assert!(described.status.success());
    let chain = template().join("chain.yaml");
    for mode in ["inline", "thread", "process"] {
        let mut run = Command::new(&binary);
        run.args(["run", "--json", "--mode", mode]).arg(&chain);
        assert_thinned(&mut run, mode);
    }
    for engine in ["podman", "docker"] {
        if let Err(reason) = make_image(engine, &binary) {
            println!("SKIP the_template_runs_its_nf_in_every_mode: {engine}: {reason}");
            continue;
        }
        let place = tempfile::tempdir().unwrap();
        let chain = std::fs::read_to_string(&chain).unwrap();
        let file = place.path().join("chain.yaml");
        let run = format!("{chain}\nrun: {{ mode: container, image: {IMAGE} }}\n");
        std::fs::write(&file, run).unwrap();
        let mut run = Command::new(&binary);
        run.args(["run", "--json"]).arg(&file);
        run.env("CATENA_CONTAINER_ENGINE", engine);
        assert_thinned(&mut run, engine);
    }
}

/// The image that the guide describes.
fn make_image(engine: &str, binary: &Path) -> Result<(), String> {
    let info = Command::new(engine).arg("info").output();
    if !info.is_ok_and(|info| info.status.success()) {
        return Err("does not answer; run tests/setup/containers.sh".to_owned());
    }
    let context = tempfile::tempdir().unwrap();
    std::fs::copy(binary, context.path().join("catena")).unwrap();
    let recipe = template().join("../../containers/Containerfile");
    let mut build = Command::new(engine);
    build.args(["build", "--quiet", "--tag", IMAGE, "--file"]);
    let build = build.arg(recipe).arg(context.path()).output().unwrap();
    let said = String::from_utf8_lossy(&build.stderr);
    assert!(build.status.success(), "{engine}: {said}");
    Ok(())
}

#[test]
fn the_templates_own_tests_pass() {
    cargo("test");
}
