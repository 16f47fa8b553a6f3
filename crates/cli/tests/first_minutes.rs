//! A new user's first ten minutes, as `docs/internals/first-ten-minutes.md` has them: the script
//! that takes the times does every step. A file of its own, since it builds everything anew.

mod chores;

use std::process::Command;

/// Steps that every machine can do, by how their rows begin.
const STEPS: [&str; 8] = [
    "a copy of the files",
    "the first command, which builds first",
    "the same again",
    "a mistake on purpose",
    "`nf list`, `nf describe`",
    "a chain of one's own that stays",
    "`apply` of a changed file",
    "`kill -9` of a worker",
];

#[test]
fn every_step_can_be_done() {
    const NAME: &str = "every_step_can_be_done";
    if Command::new("jq").arg("--version").output().is_err() {
        return println!("SKIP {NAME}: no jq");
    }
    let script = chores::repository().join("docs/internals/first-ten-minutes.sh");
    let output = chores::limited(script).arg("--here").output().unwrap();
    let table = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{table}\n{errors}");
    for step in STEPS {
        let row = format!("| {step}");
        let is_done = |line: &str| line.starts_with(&row) && line.contains(" s | ");
        assert!(table.lines().any(is_done), "{step}: {table}");
    }
    for row in table.lines().filter(|line| line.contains("left out: ")) {
        println!("SKIP {NAME}: {row}");
    }
    println!("{table}");
}
