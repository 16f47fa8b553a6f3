//! Checks of manifests: which crate may use which, licences, and that every fuzz target is built.

use std::process::Command;

use serde_json::Value;

use crate::{File, Finding, report, repository, root, sample, whole};

/// What each crate of ours may use of ours. `cli` ties everything together.
const MAY_USE: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("shm", &[]),
    ("pcs", &[]),
    ("engine", &["shm", "wire"]),
    ("port", &["engine", "shm", "wire"]),
    ("flow", &["engine", "shm", "wire"]),
    ("jit", &["flow", "shm"]),
    ("upf", &["engine", "flow", "shm", "wire"]),
    ("measure", &["engine", "port", "shm", "wire"]),
    ("epon", &["engine", "measure", "pcs", "port", "shm", "wire"]),
    (
        "cli",
        &[
            "engine", "epon", "flow", "jit", "measure", "pcs", "port", "shm", "upf", "wire",
        ],
    ),
];

fn directions(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let Some(name) = file
            .path
            .strip_prefix("crates/")
            .and_then(|rest| rest.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        let Some((_, allowed)) = MAY_USE.iter().find(|(known, _)| *known == name) else {
            let message = "a new crate; say in tests/tidy/crates.rs what it may use, and why it is \
                           no module in ARCHITECTURE.md";
            findings.push(whole(&file.path, message));
            continue;
        };
        for line in file.text.lines() {
            let Some(rest) = line.strip_prefix("catena-") else {
                continue;
            };
            let used = rest.split(['.', ' ', '=']).next().unwrap_or_default();
            if used != name && !allowed.contains(&used) {
                let message = format!(
                    "{name} may not use {used}: dependencies point one way (ARCHITECTURE.md); \
                     move what is needed down, or the user up"
                );
                findings.push(whole(&file.path, message));
            }
        }
    }
    findings
}

#[test]
fn dependencies_point_one_way() {
    report(&directions(&repository()));
    let found = directions(&[
        sample("crates/wire/Cargo.toml", "catena-engine.workspace = true\n"),
        sample(
            "crates/port/Cargo.toml",
            "catena-engine = { path = \"\" }\n",
        ),
        sample("crates/stray/Cargo.toml", ""),
    ]);
    assert_eq!(found.len(), 2, "{found:?}");
}

/// Licences that allow use, change and distribution without conditions on what is linked with them.
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether an SPDX expression can be met by permissive licences alone.
fn is_permissive(expression: &str) -> bool {
    let plain = expression
        .replace(['(', ')'], "")
        .replace('/', " OR ")
        .replace("  ", " ");
    // `A AND B OR C` reads as (A AND B) OR C; parentheses the other way round are rare, and then
    // this asks for too much, never for too little.
    let all_parts = |part: &str| {
        part.split(" AND ")
            .all(|name| PERMISSIVE.contains(&name.trim()))
    };
    if expression.contains("AND (") {
        let names = plain.replace(" AND ", " OR ");
        return names
            .split(" OR ")
            .all(|name| PERMISSIVE.contains(&name.trim()));
    }
    plain.split(" OR ").any(all_parts)
}

fn licences(packages: &[Value]) -> Vec<Finding> {
    let text = |package: &Value, key: &str| package[key].as_str().unwrap_or_default().to_owned();
    packages
        .iter()
        .filter(|package| !is_permissive(&text(package, "license")))
        .map(|package| {
            let message = format!(
                "the licence of {} {} is \"{}\"; find a dependency with a permissive one",
                text(package, "name"),
                text(package, "version"),
                text(package, "license")
            );
            whole("Cargo.lock", message)
        })
        .collect()
}

#[test]
fn every_dependency_is_permissive() {
    // What this machine builds: other platforms' dependencies need not have been fetched.
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--locked", "--format-version", "1"])
        .args(["--filter-platform", &host])
        .current_dir(root())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {errors}");
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 20);
    report(&licences(packages));
    for (expression, permissive) in [
        ("MIT OR Apache-2.0", true),
        ("MIT/Apache-2.0", true),
        ("GPL-3.0-only OR MIT", true),
        ("GPL-2.0-only", false),
        ("MIT AND GPL-2.0-only", false),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
        ("", false),
    ] {
        assert_eq!(is_permissive(expression), permissive, "{expression}");
    }
}

fn own_licence(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let is_manifest = file.path.ends_with("Cargo.toml") && file.text.contains("[package]");
        let says = ["license.workspace = true", "license = \"Apache-2.0\""];
        if is_manifest && !says.iter().any(|line| file.text.contains(line)) {
            findings.push(whole(&file.path, "add license.workspace = true"));
        }
        let spdx = concat!("SPDX-License-", "Identifier:");
        for line in file.text.lines().filter(|line| line.contains(spdx)) {
            let is_ours = line.trim_end().ends_with(&format!("{spdx} Apache-2.0"));
            if !is_ours && !file.path.starts_with("tests/tidy") {
                findings.push(whole(
                    &file.path,
                    "the licence of this project is Apache-2.0",
                ));
            }
        }
    }
    findings
}

#[test]
fn everything_here_is_under_one_licence() {
    let files = repository();
    report(&own_licence(&files));
    let licence = std::fs::read_to_string(root().join("LICENSE")).unwrap();
    assert!(licence.contains("Apache License") && licence.contains("Version 2.0"));
    let other = format!("// {}{} MIT\n", "SPDX-License-", "Identifier:");
    let found = own_licence(&[
        sample("crates/a/Cargo.toml", "[package]\nname = \"a\"\n"),
        sample("crates/a/src/lib.rs", &other),
    ]);
    assert_eq!(found.len(), 2);
}

fn fuzz_targets(files: &[File]) -> Vec<Finding> {
    let manifest = files.iter().find(|file| file.path == "fuzz/Cargo.toml");
    let manifest = manifest.map_or("", |file| file.text.as_str());
    files
        .iter()
        .filter_map(|file| file.path.strip_prefix("fuzz/fuzz_targets/"))
        .filter_map(|name| name.strip_suffix(".rs"))
        .filter(|name| !manifest.contains(&format!("name = \"{name}\"")))
        .map(|name| {
            let message = format!("no [[bin]] is called {name}, so fuzz_targets/{name}.rs is dead");
            whole("fuzz/Cargo.toml", message)
        })
        .collect()
}

#[test]
fn every_fuzz_target_is_built() {
    report(&fuzz_targets(&repository()));
    let found = fuzz_targets(&[
        sample("fuzz/Cargo.toml", "name = \"one\"\n"),
        sample("fuzz/fuzz_targets/one.rs", ""),
        sample("fuzz/fuzz_targets/two.rs", ""),
    ]);
    assert_eq!(found.len(), 1);
}
