//! Checks of documents: what they promise names the tests that hold it, and these tests exist.
//!
//! A promise is a row of a table with a column "held by the test", or a paragraph that begins with
//! "**Invariant:**". Whether a test would fail if the promise were broken, only a reader can say.

use crate::documents::prose;
use crate::{File, Finding, at, report, repository, sample};

/// Documents with tables of what is promised, and of the tests that hold it.
const PROMISING: &[&str] = &[
    "README.md",
    "SECURITY.md",
    "docs/guide/aggregation.md",
    "docs/guide/chain-file.md",
    "docs/guide/getting-started.md",
    "docs/guide/install.md",
    "docs/guide/isolation.md",
    "docs/guide/ports.md",
    "docs/guide/upf.md",
    "docs/internals/epon-limits.md",
];
/// Heading of the column in which they stand.
const COLUMN: &str = "held by the test";
/// Documents of what must stay true, each in a paragraph that begins so.
const OF_INVARIANTS: &[&str] = &["ARCHITECTURE.md"];
const INVARIANT: &str = "**Invariant:**";
/// What is written as names of tests are: names of metrics.
const NO_TESTS: &[&str] = &["catena_"];

/// What stands between backticks in a text.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Whether it is a name with so many words or more, as functions have.
fn is_name_of(words: usize, text: &str) -> bool {
    text.split('_').count() >= words
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !NO_TESTS.iter().any(|begin| text.starts_with(begin))
}

/// What a table says in its column of tests, and names of tests anywhere else.
fn promises(page: &File, files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut column = None;
    let missing = |name: &str| format!("there is no test {name}; name the one that holds this");
    for (index, line) in prose(&page.text) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if !line.starts_with('|') {
            column = None;
        } else if let Some(at) = cells.iter().position(|cell| *cell == COLUMN) {
            column = Some(at);
        } else if let Some(cell) = column.map(|at| cells.get(at).copied().unwrap_or_default()) {
            if cell.chars().all(|c| c == '-') && !cell.is_empty() {
                continue;
            }
            let names = quoted(cell);
            if names.is_empty() {
                findings.push(at(page, index, "nothing holds this; name the test"));
            }
            for name in names.into_iter().filter(|name| !is_test(name, files)) {
                findings.push(at(page, index, missing(name)));
            }
        }
        // Tests have long names, and what else is written so is short.
        let words = quoted(line).into_iter();
        let named = words.filter(|word| is_name_of(5, word) && column.is_none());
        for name in named.filter(|name| !is_test(name, files)) {
            findings.push(at(page, index, missing(name)));
        }
    }
    findings
}

/// Paragraphs of what must stay true in which no test is named.
fn invariants(page: &File, files: &[File]) -> Vec<Finding> {
    let mut paragraphs: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (index, line) in prose(&page.text) {
        if line.starts_with(INVARIANT) {
            paragraphs.push((index, String::new()));
            is_open = true;
        }
        is_open &= !line.trim().is_empty();
        if let Some((_, text)) = paragraphs.last_mut().filter(|_| is_open) {
            text.push_str(line);
            text.push('\n');
        }
    }
    let is_held = |text: &str| {
        let names = quoted(text).into_iter();
        let mut names = names.filter(|name| is_name_of(3, name));
        names.any(|name| is_test(name, files))
    };
    let without = paragraphs.into_iter().filter(|(_, text)| !is_held(text));
    without
        .map(|(index, _)| {
            let message = "no test holds this; name one, or say what is held";
            at(page, index, message)
        })
        .collect()
}

/// Whether a function of this name is a test, or one of those that a program of tests calls.
fn is_test(name: &str, files: &[File]) -> bool {
    let (function, listed) = (format!("fn {name}("), format!("(\"{name}\", "));
    let is_in = |file: &File| {
        let is_program = file.path.starts_with("crates/cli/tests/");
        if is_program {
            return file.text.contains(&function) || file.text.contains(&listed);
        }
        let mut found = file.text.match_indices(&function);
        found.any(|(at, _)| {
            let item = file.text[..at].rsplit("\n\n").next().unwrap_or_default();
            item.contains("#[test]")
        })
    };
    files.iter().filter(|file| file.is(".rs")).any(is_in)
}

#[test]
fn every_promise_names_its_test() {
    let files = repository();
    let page = |path: &str| files.iter().find(|file| file.path == path).unwrap();
    let mut findings = Vec::new();
    for path in PROMISING {
        let page = page(path);
        assert!(page.text.contains(COLUMN), "{path} has its table");
        findings.extend(promises(page, &files));
    }
    for path in OF_INVARIANTS {
        findings.extend(promises(page(path), &files));
    }
    report(&findings);
    let sources = [
        sample("a.rs", "#[test]\nfn there() {}\n\nfn helps() {}\n"),
        sample("crates/cli/tests/a.rs", "(\"it_is_one_of_a_list\", one)\n"),
    ];
    let page = sample(
        "SECURITY.md",
        "| threat | held by the test |\n|---|---|\n| a | `there` |\n| b | `gone` |\n| c | |\n\
         | d | `helps` |\n\n| e | f |\n\n`it_is_one_of_a_list`, `a_short_one`\n\
         `it_is_none_of_a_list`, `catena_is_a_metric_total`\n",
    );
    let found = promises(&page, &sources);
    let lines: Vec<usize> = found.iter().map(|finding| finding.line).collect();
    assert_eq!(lines, [4, 5, 6, 11], "{found:?}");
}

#[test]
fn every_invariant_names_its_test() {
    let files = repository();
    for path in OF_INVARIANTS {
        let page = files.iter().find(|file| file.path == *path).unwrap();
        assert!(page.text.contains(&format!("\n{INVARIANT}")), "{path}");
        report(&invariants(page, &files));
    }
    let sources = [
        sample(
            "a.rs",
            "#[test]\nfn it_holds_this() {}\n\nfn it_helps_only() {}\n",
        ),
        sample("crates/cli/tests/a.rs", "fn held() {}\n"),
    ];
    let page = sample(
        "ARCHITECTURE.md",
        "Lines with **Invariant:** say what stays.\n\n**Invariant:** a\n(`it_holds_this`).\n\n\
         **Invariant:** b, `held`.\n\n`it_holds_this`\n\n**Invariant:** c (`it_helps_only`).\n\
         **Invariant:** d (`it_is_gone`).\n",
    );
    let found = invariants(&page, &sources);
    let lines: Vec<usize> = found.iter().map(|finding| finding.line).collect();
    assert_eq!(lines, [6, 10, 11], "{found:?}");
}
