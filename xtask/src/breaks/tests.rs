//! What is found to break in a few lines of source, and how it is written back.

use std::path::Path;

use super::find::{Place, broken, places, switched};
use super::{Arguments, campaign, explained, numbers, trial};

/// Breaks of `source` as a crate's root.
fn of(source: &str) -> Vec<Place> {
    let folder = std::env::temp_dir().join(format!(
        "catena-breaks-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("lib.rs"), source).unwrap();
    let found = places(&folder, Path::new("lib.rs"));
    std::fs::remove_dir_all(&folder).unwrap();
    found.unwrap()
}

fn originals(source: &str) -> Vec<String> {
    of(source).into_iter().map(|place| place.original).collect()
}

#[test]
fn a_comparison_ends_where_looser_operators_and_closures_begin() {
    for (source, wanted) in [
        ("fn f() { if a + b < c(1, 2) && d { } }", "a + b < c(1, 2)"),
        (
            "fn f() { x.filter(|n| n.len() <= MAX | 1).count(); }",
            "n.len() <= MAX | 1",
        ),
        (
            "fn f() { let y = (a as u8) >= 'b' as u8; }",
            "(a as u8) >= 'b' as u8",
        ),
        ("fn f() { match x { n if n > 3 => 1, _ => 2 } }", "n > 3"),
        ("fn f() { while !a[i < 2] {} }", "i < 2"),
        ("fn f() { S { field: a\n    < b } }", "a < b"),
        (
            "fn f<'a>(x: Vec<&'a str>) -> bool { 1.5 < x.len() as f64 }",
            "1.5 < x.len() as f64",
        ),
    ] {
        assert_eq!(originals(source), [wanted], "{source}");
    }
}

#[test]
fn text_comments_types_and_tests_are_not_broken() {
    let source = r##"
        // a < b
        fn f(x: Vec<u8>) -> Option<u8> { say("a < b", r#"" < c"#, b'<'); x << 2 }
        fn least(x: &[u8]) { x.iter().min(); }
        macro_rules! m { () => { a < b } }
        #[cfg(test)]
        mod tests { fn g() { assert!(a < b); } }
        #[cfg(test)]
        use x::{a < b};
    "##;
    assert_eq!(originals(source), [""; 0]);
}

#[test]
fn limits_ranges_defaults_and_constants_are_moved() {
    let source = "const MAX: u32 = 3;
const SPAN: RangeInclusive<u8> = 2..=9;
fn f() { a.b(1)?.min(c); (1..=4).contains(&x); list.contains(&x); SPAN.contains(&x); }
impl Default for P { fn default() -> Self { Self { x: 7, is: false } } }
const fn g() -> bool { a < b }";
    let found = of(source);
    let shown: Vec<_> = found
        .iter()
        .map(|p| (p.original.as_str(), p.instead.len()))
        .collect();
    let wanted = [
        ("3", 2),
        ("2", 2),
        ("9", 2),
        ("a.b(1)?.min(c)", 1),
        ("(1..=4).contains(&x)", 4),
        ("SPAN.contains(&x)", 4),
        ("7", 2),
        ("false", 1),
        ("a < b", 3),
    ];
    assert_eq!(shown, wanted);
    let alone: Vec<_> = found.iter().filter(|place| !place.is_switched).collect();
    assert_eq!(
        alone.len(),
        4,
        "three ends of constants, and what must be constant"
    );
    assert_eq!((found[3].line, found[8].line), (3, 5));
    assert!(broken(source, &found[0], 1).starts_with("const MAX: u32 = 3 + 1;"));
    assert!(broken(source, &found[8], 0).ends_with("{ a <= b }"));
}

#[test]
fn a_switch_holds_all_breaks_of_its_place_and_those_within() {
    let source = "fn f() { if a.min(b) < c { } }";
    let found = of(source);
    let firsts = numbers(&found);
    let pairs: Vec<_> = found.iter().zip(firsts).collect();
    let wanted = "fn f() { if (match crate::broken::chosen() { 0 => a.min(b) <= c, 1 => true, \
                  2 => false, _ => (match crate::broken::chosen() { 3 => a, _ => a.min(b) }) < c \
                  }) { } }";
    assert_eq!(switched(source, &pairs), wanted);
}

#[test]
fn a_file_is_next_to_the_tests_of_its_module() {
    let module = |path: &str| trial::module_of(Path::new(path)).join("::");
    assert_eq!(module("crates/x/src/a/b.rs"), "a::b");
    assert_eq!(module("crates/x/src/a/mod.rs"), "a");
    assert_eq!(module("crates/x/src/lib.rs"), "");
}

#[test]
fn the_page_explains_by_text_and_not_by_line() {
    let page = "| `crates/x/src/a.rs` | `a < b` | `true` | never above |\n| `crates/x` | none |\n";
    let wanted = "| `crates/x/src/a.rs` | `a < b` | `true` |";
    assert_eq!(explained(page).into_iter().collect::<Vec<_>>(), [wanted]);
}

/// A crate whose tests hold one limit of three; the page explains another.
const TINY: &str = "\
const MOST: u32 = 7;
pub fn held(x: u32) -> bool { x < 3 }
pub fn unheld(x: u32) -> bool { x < MOST }
pub fn same(x: u32) -> u32 { x.max(0) }
#[cfg(test)]
mod tests {
    #[test]
    fn three_is_the_limit() {
        assert!(super::held(2) && !super::held(3) && super::same(1) == 1);
        let _ = super::unheld(1);
        std::fs::write(\"left-by-a-test\", []).unwrap();
    }
}
";

#[test]
fn a_campaign_says_what_no_test_notices_and_leaves_the_tree_as_it_was() {
    let root = std::env::temp_dir().join(format!("catena-breaks-tiny-{}", std::process::id()));
    let write = |name: &str, text: &str| {
        std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        std::fs::write(root.join(name), text).unwrap();
    };
    write(
        "Cargo.toml",
        "[workspace]\nmembers = [\"crates/tiny\"]\nresolver = \"3\"\n",
    );
    let package = "[package]\nname = \"catena-tiny\"\nversion = \"0.0.0\"\nedition = \"2024\"\n";
    write("crates/tiny/Cargo.toml", package);
    let lock = "version = 4\n\n[[package]]\nname = \"catena-tiny\"\nversion = \"0.0.0\"\n";
    write("Cargo.lock", lock);
    write("crates/tiny/src/lib.rs", "mod limits;\n");
    write("crates/tiny/src/limits.rs", TINY);
    let row = "| `crates/tiny/src/limits.rs` | `x.max(0)` | `x` | never below |\n";
    write("docs/internals/tiny-limits.md", row);
    let git = std::process::Command::new("git")
        .arg("init")
        .arg("-q")
        .arg(&root)
        .status();
    assert!(git.unwrap().success());
    let told = root.join("told.json");
    let arguments = Arguments {
        name: "tiny".to_owned(),
        only: None,
        switched: false,
        alone: false,
        list: false,
        target_dir: None,
        under: "nice".to_owned(),
        jobs: 2,
        quick_ms: 60_000,
        json: Some(told.clone()),
    };
    let error = campaign(&root, &arguments).unwrap_err().to_string();
    let told: Vec<serde_json::Value> =
        serde_json::from_slice(&std::fs::read(told).unwrap()).unwrap();
    let source = std::fs::read_to_string(root.join("crates/tiny/src/limits.rs")).unwrap();
    let is_left = root.join("crates/tiny/left-by-a-test").exists();
    std::fs::remove_dir_all(&root).unwrap();
    let outcome = |text: &str| {
        let here = told
            .iter()
            .filter(|one| one["break"].as_str().unwrap().contains(text));
        here.map(|one| one["outcome"].as_str().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(outcome("x < 3"), ["quick"; 3]);
    assert_eq!(outcome("`x < MOST`"), ["missed"; 3]);
    assert_eq!(outcome("MOST = 7"), ["missed"; 2]);
    assert_eq!(outcome("x.max(0)"), ["missed"]);
    assert_eq!(error, "5 breaks are noticed by no test");
    assert_eq!(source, TINY);
    // Neither here nor there.
    assert!(!is_left && !std::path::Path::new("left-by-a-test").exists());
}
