//! Notes the commit that the command is built from, for reports: `CATENA_COMMIT`.
//!
//! A packager who builds outside a repository gives it in the environment. Without either it is
//! empty, and reports say that it is not known. Only releases follow every commit: what is built
//! for tests would be built again after each.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CATENA_COMMIT");
    let given = std::env::var("CATENA_COMMIT").ok();
    let commit = given.or_else(|| git(&["describe", "--always", "--dirty", "--abbrev=12"]));
    println!(
        "cargo:rustc-env=CATENA_COMMIT={}",
        commit.unwrap_or_default()
    );
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        for file in ["logs/HEAD", "index"] {
            if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", file]) {
                println!("cargo:rerun-if-changed={path}");
            }
        }
    }
}
