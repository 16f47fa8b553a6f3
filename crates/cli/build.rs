//! Notes the commit that the command is built from, for reports: `CATENA_COMMIT`,
//! and the profile: `CATENA_PROFILE`, `CATENA_OPT_LEVEL`.
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

/// The profile by its name: `PROFILE` only tells releases and others apart, but files are built
/// below a folder that is named after it, `PROFILE/build/catena-HASH/out`.
fn profile() -> String {
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    let folder = std::path::Path::new(&out).ancestors().nth(3);
    let name = folder.and_then(|folder| folder.file_name());
    let name = name.map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| std::env::var("PROFILE").unwrap_or_default())
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
    println!("cargo:rustc-env=CATENA_PROFILE={}", profile());
    let level = std::env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo:rustc-env=CATENA_OPT_LEVEL={level}");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        for file in ["logs/HEAD", "index"] {
            if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", file]) {
                println!("cargo:rerun-if-changed={path}");
            }
        }
    }
}
