//! `cargo xtask fuzz` as CONTRIBUTING prints it: what it lists, and that coverage leads. A file of
//! its own, since it builds for a minute.

mod chores;

use std::process::{Command, Output};

fn fuzz(words: &[&str]) -> Output {
    let mut command = chores::limited(env!("CARGO"));
    command.args(["xtask", "fuzz"]).args(words);
    command.output().unwrap()
}

#[test]
fn targets_run_with_coverage_on_this_compiler() {
    const NAME: &str = "targets_run_with_coverage_on_this_compiler";
    let compiler = Command::new("c++").arg("--version").output();
    if !compiler.is_ok_and(|output| output.status.success()) {
        return println!("SKIP {NAME}: no C++ compiler");
    }
    let listed = fuzz(&[]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(
        listed.lines().any(|line| line == "wire_dissect"),
        "{listed}"
    );

    let output = fuzz(&["wire_dissect", "--brief"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("inline 8-bit counters"), "{said}");
    // What is behind the first branches is found only by who sees where inputs lead.
    let found = said.lines().filter(|line| line.contains("NEW  ")).count();
    assert!(found > 3, "{said}");
    assert!(said.contains("Done 20000 runs"), "{said}");

    let refused = fuzz(&["wire_nothing"]);
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("wire_dissect"), "{said}");
}
