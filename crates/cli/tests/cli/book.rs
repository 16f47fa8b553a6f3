//! The documents as a book: it is built, has a search index, and no link in it leads nowhere. Set
//! up by `tests/setup/book.sh`.

use std::process::Command;

use super::harness::repository;

#[test]
fn the_book_is_built_without_a_broken_link() {
    const NAME: &str = "the_book_is_built_without_a_broken_link";
    let root = repository();
    let ours = root.join("target/tools/mdbook/bin/mdbook");
    let has_tool = ours.exists() || Command::new("mdbook").arg("--version").output().is_ok();
    if !has_tool {
        return println!("SKIP {NAME}: no mdBook; run tests/setup/book.sh");
    }
    let output = Command::new(env!("CARGO"))
        .args(["xtask", "book", "--out", "target/book"])
        .current_dir(&root)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(text.contains("no broken link"), "{text}");
    let book = root.join("target/book");
    let entries = std::fs::read_dir(&book).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let index = names
        .into_iter()
        .find(|name| name.starts_with("searchindex"));
    let index = std::fs::read_to_string(book.join(index.expect("a search index"))).unwrap();
    assert!(index.contains("policer"), "what is written can be found");
    let page = std::fs::read_to_string(book.join("docs/guide/getting-started.html")).unwrap();
    assert!(page.contains("chains/hello.yaml"), "{page}");
}
