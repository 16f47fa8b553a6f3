//! Every `wrong/*.yaml` is refused with exactly the text beside it, `wrong/*.txt`.
//!
//! To add one, write the YAML file, run the test with `CATENA_BLESS=1` and read what it wrote.

use std::path::{Path, PathBuf};

use super::{check_text, short};

fn wrong_files() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/chain/tests/wrong");
    let entries = std::fs::read_dir(dir).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .collect();
    files.sort();
    files
}

#[test]
fn wrong_files_are_refused_with_place_reason_and_repair() {
    let files = wrong_files();
    assert!(files.len() > 30, "the files were found");
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let found = match check_text(&text) {
            Ok(checked) => panic!("{} is accepted: {:?}", path.display(), checked.chain),
            Err(errors) => errors.to_string(),
        };
        let expected = path.with_extension("txt");
        if std::env::var_os("CATENA_BLESS").is_some() {
            std::fs::write(&expected, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(found, expected, "{}", path.display());
    }
}

#[test]
fn errors_are_json_for_programs() {
    let errors = check_text("name: x\nportz: {}\n").unwrap_err();
    assert_eq!(
        serde_json::to_value(&errors).unwrap(),
        serde_json::json!([
            {
                "line": 1,
                "column": 1,
                "message": "the chain has no links",
                "repair": "add links: - in -> out"
            },
            {
                "line": 1,
                "column": 1,
                "message": "the chain has no ports",
                "repair": "add ports: with a port that receives and one that sends"
            },
            {
                "line": 2,
                "column": 1,
                "message": "unknown key \"portz\" in the chain",
                "repair": "write ports"
            }
        ])
    );
}

#[test]
fn a_file_with_very_many_errors_is_refused_in_few_words() {
    let keys: String = (0..5000).map(|n| format!("key{n}: 1\n")).collect();
    let errors = check_text(&keys).unwrap_err().errors;
    assert_eq!(errors.len(), 201);
    assert_eq!(
        short(&errors[..1]),
        ["0:0 there is more to find than these 200 | repair these first"]
    );
}

#[test]
fn a_file_that_is_too_large_is_refused_unread() {
    let text = format!("name: x # {}\n", "x".repeat(1 << 20));
    let errors = check_text(&text).unwrap_err().to_string();
    assert!(errors.starts_with("chain.yaml: error: the file has more than 1048576 bytes"));
}

#[test]
fn a_message_quotes_little_of_a_long_value() {
    let text = format!(
        "name: &long {}\nlinks: [ *long, *long ]\n",
        "x".repeat(100_000)
    );
    let errors = check_text(&text).unwrap_err();
    assert!(errors.to_string().len() < 5_000);
}

/// Each of these hides nothing that is wrong elsewhere in the file, nor accuses what was left out.
#[test]
fn a_syntax_error_hides_no_other_error() {
    let (port, nf) = ("  a: { tap: {} }\n", "  swap: { type: macswap }\n");
    let right =
        format!("name: x\nports:\n{port}  b: {{ tap: {{}} }}\nnfs:\n{nf}  n: {{ type: count }}\n");
    let links = "links:\n  - a -> swap -> n -> b\nrun:\n  burst: 32\n";
    let errors = |text: &str| {
        let errors = check_text(text).unwrap_err().errors;
        short(&errors)
    };
    let other = "links:\n  - a -> swap -> n -> b\n  - a -> none\nrun:\n  burst: 999\n";
    let two = ["there is no port or NF \"none\"", "burst"];
    for (good, bad, of) in [
        (nf, "  swap: { type: macswap\n", "swap"),
        (nf, "  swap:\n    type: \"macswap\n", "swap"),
        (nf, "  swap:\n\ttype: macswap\n", "swap"),
        (nf, "  swap: { type: macswap } }\n", "swap"),
        (port, "  a: { tap: {} ]\n", "a"),
        (port, "  a: tap: {}\n", "a"),
    ] {
        let text = right.replace(good, bad);
        assert_ne!(text, right);
        let found = errors(&format!("{text}{links}"));
        assert_eq!(found.len(), 1, "{of}: {found:#?}");
        let found = errors(&format!("{text}{other}"));
        assert_eq!(found.len(), 3, "{of}: {found:#?}");
        for words in two {
            assert!(
                found.iter().any(|error| error.contains(words)),
                "{found:#?}"
            );
        }
    }
    // Two, and in lists.
    let text = right
        .replace(nf, "  swap: { type: macswap\n")
        .replace(port, "  a: [\n");
    let found = errors(&format!("{text}{other}"));
    assert_eq!(found.len(), 4, "{found:#?}");
    let bad_links = "links:\n  - a -> swap -> n -> b\n  - { link: a -> b\nrun:\n  burst: 999\n";
    let found = errors(&format!("{right}{bad_links}"));
    assert_eq!(found.len(), 2, "{found:#?}");
    for setting in [
        "mode: [",
        "wait: { a",
        "burst: \"3",
        "cores: [0",
        "image: {",
        "orphan: [stop",
        "buffers: { 256B: 4",
    ] {
        let text = format!("{right}{links}").replace("burst: 32", setting);
        let found = errors(&text);
        assert_eq!(found.len(), 1, "{setting}: {found:#?}");
    }
    // What nothing else can be read beside is said.
    let found = errors("a: [\nb: *none\n");
    assert!(
        found
            .iter()
            .any(|error| error.contains("nothing behind this was looked at")),
        "{found:#?}"
    );
}

#[test]
fn a_file_with_a_few_nodes_too_many_is_looked_at_as_any() {
    use std::fmt::Write;

    let text = |count: usize| {
        let mut text = "name: x\nports:\n  in: { tap: {} }\n  out: { tap: {} }\nnfs:\n".to_owned();
        for number in 0..count {
            let _ = writeln!(text, "  n{number}: {{ type: count }}");
        }
        text += "  wrong: { type: counter }\nlinks:\n  - in";
        for number in 0..count {
            let _ = write!(text, " -> n{number}");
        }
        text + " -> out\nrun: { burst: 999 }\n"
    };
    let found = short(&check_text(&text(1100)).unwrap_err().errors);
    let said = |words: &str| found.iter().any(|error| error.contains(words));
    assert!(said("more than 1024 ports and NFs"), "{found:#?}");
    assert!(
        said("there is no NF type \"counter\"") && said("burst"),
        "{found:#?}"
    );
    assert!(said("no link arrives at wrong"), "{found:#?}");
    assert_eq!(found.len(), 4, "{found:#?}");
    let found = short(&check_text(&text(5000)).unwrap_err().errors);
    assert!(
        found
            .iter()
            .any(|error| error.contains("none was looked at")),
        "{found:#?}"
    );
    let (mut ports, mut many) = (String::new(), String::new());
    for number in 0..300 {
        let _ = writeln!(ports, "  p{number}: {{ tap: {{}} }}");
        let _ = writeln!(many, "  - p{number} -> all");
    }
    let text = format!("name: x\nports:\n{ports}nfs:\n  all: {{ type: merge }}\nlinks:\n{many}");
    let found = short(&check_text(&text).unwrap_err().errors);
    assert!(
        found
            .iter()
            .any(|error| error.contains("more than 255 links")),
        "{found:#?}"
    );
}
