//! Checks of documents: links and paths lead somewhere, every NF is described and shown, and the
//! change log knows every crate.

use catena_engine::nfs::KINDS;

use crate::{File, Finding, at, report, repository, root, sample, whole};

/// Lines of a document outside fenced blocks, with their index.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Where the links of a line lead.
fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some((_, after)) = rest.split_once("](") {
        let Some((target, behind)) = after.split_once(')') else {
            break;
        };
        found.push(target);
        rest = behind;
    }
    found
}

/// The anchor that a heading gets.
fn slug(heading: &str) -> String {
    let plain = heading.trim_start_matches('#').trim().to_lowercase();
    plain
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            c if c.is_alphanumeric() => Some(c),
            _ => None,
        })
        .collect()
}

/// A path without `.` and `..`; none if it leaves the repository.
fn joined(file: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn links(files: &[File], exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is(".md")) {
        for (index, line) in prose(&file.text) {
            for target in targets(line) {
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
                let path = match path {
                    "" => Some(file.path.clone()),
                    path => joined(&file.path, path),
                };
                let Some(path) = path.filter(|path| exists(path)) else {
                    let message = format!("the link {target} leads nowhere; correct the path");
                    findings.push(at(file, index, message));
                    continue;
                };
                let page = files.iter().find(|other| other.path == path);
                let has_anchor = |page: &File| {
                    let mut headings = prose(&page.text).filter(|(_, line)| line.starts_with('#'));
                    headings.any(|(_, heading)| slug(heading) == anchor)
                };
                // A line of a source file: see `function_links`.
                let is_line = path.ends_with(".rs") && anchor.starts_with('L');
                if !anchor.is_empty() && !is_line && !page.is_some_and(has_anchor) {
                    let message = format!("no heading of {path} has the anchor #{anchor}");
                    findings.push(at(file, index, message));
                }
            }
        }
    }
    findings
}

#[test]
fn links_in_documents_lead_somewhere() {
    report(&links(&repository(), |path| root().join(path).exists()));
    let files = [
        sample(
            "docs/a.md",
            "# A page\n[one](../b.md) [two](b.md)\n[three](../b.md#no)\n[four](#a-page)\n\
             ```\n[five](none.md)\n```\n[six](https://example.org/x)\n",
        ),
        sample("b.md", "# B\n"),
    ];
    let found = links(&files, |path| ["b.md", "docs/a.md"].contains(&path));
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!((found[0].line, found[1].line), (2, 3));
}

/// The function that a link names, as in ``[`Turn::receive`](turn.rs#L90)``, with file and line.
fn named_functions(line: &str) -> impl Iterator<Item = (&str, String, usize)> {
    line.split("[`").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once("`](")?;
        let (path, rest) = rest.split_once(".rs#L")?;
        let number = rest.split(')').next()?.parse().ok()?;
        Some((name.rsplit("::").next()?, format!("{path}.rs"), number))
    })
}

/// The paths of packets that documents show as lists of links to lines.
fn function_links(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is(".md")) {
        for (index, line) in prose(&file.text) {
            for (name, target, number) in named_functions(line) {
                let path = joined(&file.path, &target);
                let source = path.and_then(|path| files.iter().find(|other| other.path == path));
                let Some(source) = source else { continue };
                let begins = |line: &str| {
                    let found = line.split_once("fn ").map(|(_, found)| found);
                    let behind = found.and_then(|found| found.strip_prefix(name));
                    behind.is_some_and(|behind| behind.starts_with(['(', '<']))
                };
                let at_line = source.text.lines().nth(number.saturating_sub(1));
                if at_line.is_some_and(begins) {
                    continue;
                }
                let is = source.text.lines().position(begins);
                let message = match is {
                    Some(is) => format!("{name} is at line {} of {target} now", is + 1),
                    None => format!("{target} has no function {name}"),
                };
                findings.push(at(file, index, message));
            }
        }
    }
    findings
}

#[test]
fn links_to_functions_name_their_lines() {
    report(&function_links(&repository()));
    let files = [
        sample(
            "docs/a.md",
            "[`A::f`](../b.rs#L2) [`f`](../b.rs#L1)\n[`g`](../b.rs#L2), then [`h`](../b.rs#L3)\n",
        ),
        sample("b.rs", "struct A;\n    pub fn f(&self) {}\nfn h<T>() {}\n"),
    ];
    let found = function_links(&files);
    let messages: Vec<_> = found.iter().map(|finding| &finding.message[..]).collect();
    assert_eq!(
        messages,
        ["f is at line 2 of ../b.rs now", "../b.rs has no function g"]
    );
}

/// The path of a packet in ARCHITECTURE, with its functions, files and their lines.
fn path_of_a_packet(files: &[File]) -> (usize, usize, usize) {
    let page = files.iter().find(|file| file.path == "ARCHITECTURE.md");
    let text = page.map_or("", |page| page.text.as_str());
    let path = text.split("<!-- begin path -->").nth(1);
    let path = path.and_then(|rest| rest.split("<!-- end path -->").next());
    let functions: Vec<_> = path.into_iter().flat_map(named_functions).collect();
    let mut names: Vec<_> = functions.iter().map(|(_, target, _)| target).collect();
    names.sort_unstable();
    names.dedup();
    let found = files.iter().filter(|file| names.contains(&&file.path));
    let lines = found.map(|file| file.text.lines().count()).sum();
    (functions.len(), names.len(), lines)
}

#[test]
fn a_stranger_can_follow_a_packet() {
    let (functions, files, lines) = path_of_a_packet(&repository());
    assert!(
        (2..=12).contains(&functions) && files <= 8 && lines <= 2500,
        "{functions} functions in {files} files of {lines} lines: 12, 8 and 2,500 at most; move \
         what is not on the path out of its files"
    );
    let page = "[`z`](z.rs#L1)<!-- begin path -->\n1. [`f`](a.rs#L1)\n2. [`g`](a.rs#L2): it\n\
                3. [`h`](b.rs#L1)\n<!-- end path -->";
    let files = [
        sample("ARCHITECTURE.md", page),
        sample("a.rs", "fn f() {}\nfn g() {}\n"),
        sample("b.rs", "fn h() {}\n"),
    ];
    assert_eq!(path_of_a_packet(&files), (3, 2, 3));
}

/// Folders whose files documents name in backticks.
const FOLDERS: &[&str] = &[
    "crates/", "chains/", "docs/", "fuzz/", "tests/", "xtask/", ".ci/",
];

/// Paths in backticks; one with a placeholder in it names no file.
fn named_paths(line: &str) -> impl Iterator<Item = &str> {
    line.split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)))
        .filter(|word| !word.contains([' ', '*', '{', '<', '…', ':']))
        .filter(|word| !word.contains("NAME") && !word.contains("..."))
}

fn paths(files: &[File], exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    // A change log names what was there once; a walk-through, what its reader will make.
    let is_current = |file: &&File| file.is(".md") && file.path != "CHANGELOG.md";
    for file in files.iter().filter(is_current) {
        if file.path == "docs/guide/first-nf.md" {
            continue;
        }
        for (index, line) in prose(&file.text) {
            for path in named_paths(line).filter(|path| !exists(path)) {
                let message = format!("`{path}` does not exist; name where it is now");
                findings.push(at(file, index, message));
            }
        }
    }
    findings
}

#[test]
fn paths_named_in_documents_exist() {
    report(&paths(&repository(), |path| root().join(path).exists()));
    let page = sample(
        "a.md",
        "`crates/shm/src/gone.rs`, `crates/NAME`, `cargo x`\n",
    );
    assert_eq!(paths(&[page], |_| false).len(), 1);
}

fn nf_documents(names: &[&str], reference: &str, files: &[File]) -> Vec<Finding> {
    let sections = files.iter().find(|file| file.path == reference);
    let sections = sections.map_or("", |file| file.text.as_str());
    let is_chain =
        |file: &&File| file.path.starts_with("chains/") && !file.path.starts_with("chains/expect/");
    let mut findings = Vec::new();
    for name in names {
        if !sections.lines().any(|line| line == format!("## `{name}`")) {
            let message = format!("add a section \"## `{name}`\": settings, drops, an example");
            findings.push(whole(reference, message));
        }
        let uses = |file: &File| {
            file.text.lines().any(|line| {
                let after = line.split_once("type: ").map(|(_, after)| after);
                let word = after.and_then(|after| after.split([' ', ',', '}']).next());
                word == Some(name)
            })
        };
        if !files.iter().filter(is_chain).any(uses) {
            let message = format!("add a chain that shows {name}, and chains/expect beside it");
            findings.push(whole("chains", message));
        }
    }
    findings
}

#[test]
fn every_nf_is_described_and_has_a_chain() {
    for (kinds, reference) in [
        (KINDS, "docs/reference/nfs.md"),
        (catena_epon::NFS, "docs/reference/epon.md"),
        (catena_upf::NFS, "docs/reference/upf.md"),
        (catena_flow::NFS, "docs/reference/flow.md"),
    ] {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        report(&nf_documents(&names, reference, &repository()));
    }
    let files = [
        sample("docs/reference/nfs.md", "## `acl`\n"),
        sample(
            "chains/a.yaml",
            "nfs: { e: { type: acl, default: deny } }\n",
        ),
        sample("chains/expect/b.yaml", "type: ttl\n"),
    ];
    let reference = "docs/reference/nfs.md";
    assert!(nf_documents(&["acl"], reference, &files).is_empty());
    assert_eq!(nf_documents(&["ttl"], reference, &files).len(), 2);
}

fn change_log(files: &[File]) -> Vec<Finding> {
    let log = files.iter().find(|file| file.path == "CHANGELOG.md");
    let log = log.map_or("", |file| file.text.as_str());
    let mut findings = Vec::new();
    if !log.lines().any(|line| line.starts_with("## [Unreleased]")) {
        findings.push(whole("CHANGELOG.md", "add a section ## [Unreleased]"));
    }
    let manifests = files
        .iter()
        .filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
    for crate_path in manifests.filter_map(|path| path.strip_prefix("crates/")) {
        if !log
            .lines()
            .any(|line| line.trim_end() == format!("#### {crate_path}"))
        {
            let message = format!("add \"#### {crate_path}\" and what has changed in that crate");
            findings.push(whole("CHANGELOG.md", message));
        }
    }
    findings
}

#[test]
fn the_change_log_knows_every_crate() {
    report(&change_log(&repository()));
    let files = [
        sample("CHANGELOG.md", "## [Unreleased]\n### Added\n#### wire\n"),
        sample("crates/wire/Cargo.toml", ""),
        sample("crates/shm/Cargo.toml", ""),
    ];
    assert_eq!(change_log(&files).len(), 1);
}

/// Where chain files are wrong on purpose, or have NFs that the repository's schema does not know.
const OF_NO_SCHEMA: [&str; 2] = ["crates/", "examples/own-nf/"];

/// The first line by which editors find the rules of a chain file, as `file` has to name them.
fn schema_line(file: &str) -> String {
    let ups = "../".repeat(file.matches('/').count());
    let ups = match file.starts_with("docs/") {
        true => ups.replacen("../", "", 1),
        false => format!("{ups}docs/"),
    };
    format!("# yaml-language-server: $schema={ups}reference/chain.schema.json")
}

fn chains_without_schema(files: &[File]) -> Vec<Finding> {
    let is_chain = |file: &&File| {
        let has = |key: &str| file.text.lines().any(|line| line.starts_with(key));
        let is_ours = !OF_NO_SCHEMA
            .iter()
            .any(|place| file.path.starts_with(place));
        file.is(".yaml") && has("name:") && has("links:") && is_ours
    };
    let chains = files.iter().filter(is_chain);
    let without = chains.filter(|file| file.text.lines().next() != Some(&schema_line(&file.path)));
    without
        .map(|file| {
            let message = format!("let the first line be: {}", schema_line(&file.path));
            whole(&file.path, message)
        })
        .collect()
}

#[test]
fn every_chain_file_names_its_schema() {
    report(&chains_without_schema(&repository()));
    let chain = "name: a\nlinks: []\n";
    let right =
        format!("# yaml-language-server: $schema=../docs/reference/chain.schema.json\n{chain}");
    let files = [
        sample("chains/a.yaml", &right),
        sample("chains/deep/a.yaml", &right),
        sample("docs/pictures/a.yaml", chain),
        sample("chains/expect/a.yaml", "nodes: {}\n"),
    ];
    assert_eq!(chains_without_schema(&files).len(), 2);
    let found = &chains_without_schema(&files)[1].message;
    assert!(
        found.ends_with("$schema=../reference/chain.schema.json"),
        "{found}"
    );
}
