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
