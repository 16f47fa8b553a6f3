//! Whether `docs/internals/trials.md` says of each trial of `./test --trials` what it does, and of
//! no other.

use super::{Finding, root, whole};

const DOCUMENT: &str = "docs/internals/trials.md";

/// Names in lines like `trial "few descriptors" 3 "ulimit ..."` of a shell script.
fn in_script(script: &str) -> Vec<&str> {
    let calls = script
        .lines()
        .filter_map(|line| line.trim().strip_prefix("trial "));
    let names = calls.map(|call| match call.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or_default(),
        None => call.split(' ').next().unwrap_or_default(),
    });
    names.collect()
}

/// Names in the first table of the document.
fn in_document(document: &str) -> Vec<&str> {
    let rows = document
        .lines()
        .skip_while(|line| !line.starts_with("|---"));
    let rows = rows.skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split('|').nth(1).unwrap_or_default().trim())
        .collect()
}

fn trials(script: &str, document: &str) -> Vec<Finding> {
    let (run, told) = (in_script(script), in_document(document));
    let untold = run.iter().filter(|name| !told.contains(name));
    let untold = untold.map(|name| format!("add a row for the trial {name} of ./test"));
    let gone = told.iter().filter(|name| !run.contains(name));
    let gone = gone.map(|name| format!("no trial of ./test is called {name}: remove its row"));
    untold
        .chain(gone)
        .map(|message| whole(DOCUMENT, message))
        .collect()
}

#[test]
fn every_trial_has_its_row_and_every_row_its_trial() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).unwrap();
    let (script, document) = (read("test"), read(DOCUMENT));
    assert!(in_script(&script).len() > 10, "the trials were found");
    super::report(&trials(&script, &document));

    let script = "    trial a 3 \"x\"\n    trial \"b c\" 4 \"y\"\ntrial() {\n";
    let document = "| trial | |\n|---|---|\n| a | x |\n| d | y |\n\n| e | z |\n";
    let found = trials(script, document);
    let found: Vec<_> = found.iter().map(|one| one.message.as_str()).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].contains("trial b c") && found[1].contains("called d"),
        "{found:?}"
    );
}
