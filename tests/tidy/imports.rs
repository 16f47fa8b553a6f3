//! Who imports whom: no circles between files.
//!
//! Files are the nodes. A path that begins with `crate::`, `self::` or `super::`, or with a child
//! module in a `use`, is an edge from the file that has it to the file of the innermost module that
//! it names. Tests are left out, and modules that are there for tests alone: they look into what
//! they test.
//!
//! What two files need of each other goes into a file of its own. A large type (`Supervisor`,
//! `PoolOwner`, `Device`) has its fields in a file that knows none of those with its methods, and a
//! module that hands on what its children define does not define what they use.

use std::collections::{BTreeMap, BTreeSet};

use crate::{File, Finding, report, repository, sample, whole};

/// A module's path within its crate.
type Module = Vec<String>;

/// The crate that a source file is of, and the module that it is.
fn module(path: &str) -> Option<(&str, Module)> {
    let (owner, inside) = path.split_once("/src/")?;
    let inside = inside.strip_suffix(".rs")?;
    if inside.ends_with("tests") || inside.contains("tests/") || inside.starts_with("bin/") {
        return None;
    }
    let inside = inside.strip_suffix("/mod").unwrap_or(inside);
    let parts: Module = match inside {
        "lib" | "main" | "mod" => Vec::new(),
        inside => inside.split('/').map(str::to_owned).collect(),
    };
    Some((owner, parts))
}

/// A file's text without comments and without its tests.
fn code(text: &str) -> String {
    let mut lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""))
        .peekable();
    let mut kept = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with(' ') && line.trim() == "#[cfg(test)]" {
            // One statement, or one line of a longer list, within something else.
            lines.next_if(|next| next.ends_with(';'));
            continue;
        }
        let is_test = ["#[cfg(test)]", "#[cfg(all(test,"];
        if is_test.iter().any(|start| line.starts_with(start)) {
            while lines.next_if(|next| next.starts_with("#[")).is_some() {}
            // A module elsewhere is one line; behind one that begins here is the end of the file.
            match lines.next() {
                Some(item) if item.ends_with(';') => continue,
                _ => break,
            }
        }
        kept.push(line);
    }
    kept.join("\n")
}

/// The modules that a file declares for tests alone.
fn for_tests(text: &str, of: &Module) -> Vec<Module> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line != "#[cfg(test)]" {
            continue;
        }
        let mut next = lines.next().unwrap_or("");
        // Another file than the name says lies beside this one.
        let path = next.strip_prefix("#[path = \"");
        let path = path.and_then(|path| path.strip_suffix(".rs\"]"));
        if path.is_some() {
            next = lines.next().unwrap_or("");
        }
        let Some((_, name)) = next.split_once("mod ").filter(|_| next.ends_with(';')) else {
            continue;
        };
        let beside = of.split_last().map_or(&[][..], |(_, folder)| folder);
        let (folder, name) = path.map_or((of.as_slice(), name.trim_end_matches(';')), |path| {
            (beside, path)
        });
        found.push([folder, &[name.to_owned()]].concat());
    }
    found
}

/// The paths of all `use` statements, each written out, and those that stand in the code.
fn uses(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let is_word = code[..at].ends_with([' ', '\n', ')']) || at == 0;
        let Some((tree, _)) = code[at + 4..].split_once(';').filter(|_| is_word) else {
            continue;
        };
        let tree: Vec<&str> = tree.split_whitespace().collect();
        spread("", &tree.join(" "), &mut found);
    }
    let is_of_path = |letter: char| letter.is_alphanumeric() || "_:".contains(letter);
    let paths = code.split(|letter| !is_of_path(letter));
    let paths = paths.map(|path| path.split("::").map(str::to_owned).collect::<Vec<_>>());
    found.extend(paths.filter(|path: &Vec<String>| {
        let starts = ["crate", "self", "super"].contains(&path[0].as_str());
        // What ends in `::` is the beginning of a tree of a `use`.
        starts && path.len() > 1 && path.iter().all(|part| !part.is_empty())
    }));
    found
}

/// `a::{b, c::d}` as `a::b` and `a::c::d`.
fn spread(front: &str, tree: &str, found: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        let path = format!("{front}{tree}");
        let path = path.split(" as ").next().unwrap_or("");
        found.push(
            path.split("::")
                .map(|part| part.trim().to_owned())
                .collect(),
        );
        return;
    };
    let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let front = format!("{front}{head}");
    let (mut depth, mut start) = (0_usize, 0);
    for (at, letter) in inside.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                spread(&front, &inside[start..at], found);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !inside[start..].trim().is_empty() {
        spread(&front, &inside[start..], found);
    }
}

/// The module of the same crate that a path leads into, if it does.
fn target(path: &[String], from: &Module, modules: &BTreeSet<Module>) -> Option<Module> {
    let (mut base, rest) = match path.first()?.as_str() {
        "crate" => (Vec::new(), &path[1..]),
        "self" => (from.clone(), &path[1..]),
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            let kept = from.len().checked_sub(ups)?;
            (from[..kept].to_vec(), &path[ups..])
        }
        child => {
            let inner = [from.as_slice(), &[child.to_owned()]].concat();
            modules.contains(&inner).then_some(())?;
            (from.clone(), path)
        }
    };
    base.extend_from_slice(rest);
    while !modules.contains(&base) {
        base.pop()?;
    }
    (base != *from).then_some(base)
}

type Graph = BTreeMap<Module, BTreeSet<Module>>;

fn graph(files: &[(Module, &File)]) -> Graph {
    let modules: BTreeSet<Module> = files.iter().map(|(module, _)| module.clone()).collect();
    let tests: Vec<Module> = files
        .iter()
        .flat_map(|(module, file)| for_tests(&file.text, module))
        .collect();
    let is_test = |module: &Module| tests.iter().any(|test| module.starts_with(test));
    let kept = files.iter().filter(|(module, _)| !is_test(module));
    let edges = kept.map(|(module, file)| {
        let paths = uses(&code(&file.text));
        let targets = paths
            .iter()
            .filter_map(|path| target(path, module, &modules));
        let targets = targets.filter(|target| !is_test(target));
        (module.clone(), targets.collect())
    });
    edges.collect()
}

/// Every module that can be reached from one.
fn reached(graph: &Graph, from: &Module) -> BTreeSet<Module> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Module> = graph[from].iter().collect();
    while let Some(next) = open.pop() {
        if found.insert(next.clone()) {
            open.extend(graph.get(next).into_iter().flatten());
        }
    }
    found
}

fn circles(files: &[File]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<(Module, &File)>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is(".rs")) {
        if let Some((owner, module)) = module(&file.path) {
            crates.entry(owner).or_default().push((module, file));
        }
    }
    let mut findings = Vec::new();
    for (owner, files) in crates {
        let graph = graph(&files);
        let is_in_circle = |module: &&Module| reached(&graph, module).contains(*module);
        let found: Vec<String> = graph
            .keys()
            .filter(is_in_circle)
            .map(|m| m.join("::"))
            .collect();
        if !found.is_empty() {
            let message = format!(
                "{} files import each other in circles: move what both need into a file of its \
                 own, or import from where it is defined: {}",
                found.len(),
                found.join(", ")
            );
            findings.push(whole(owner, message));
        }
    }
    findings
}

#[test]
fn files_do_not_import_each_other_in_circles() {
    report(&circles(&repository()));
    let files = [
        sample("crates/a/src/lib.rs", "mod b;\nmod c;\nmod d;\n"),
        sample("crates/a/src/b.rs", "use super::c::{self, C};\n"),
        sample(
            "crates/a/src/c.rs",
            "use crate::{\n    d::D,\n    std::x,\n};\n",
        ),
        sample(
            "crates/a/src/d.rs",
            "use crate::b::B;\n#[cfg(test)]\nmod tests {\n}\n",
        ),
        sample(
            "crates/a/src/e.rs",
            "use crate::b::B;\n#[cfg(test)]\nmod tests { use crate::e::E; }\n",
        ),
        sample(
            "crates/b/src/x.rs",
            "// use crate::y::Y;\nuse self::z::Z;\nfn f() {\n    #[cfg(test)]\n    crate::y::g();\n}\n\
             #[cfg(all(test, unix))]\nmod tests { use crate::y::Y; }\n",
        ),
        sample("crates/b/src/y.rs", "use super::x::X;\n"),
        sample(
            "crates/c/src/v.rs",
            "#[cfg(test)]\n#[path = \"u.rs\"]\nmod t;\n#[cfg(test)]\npub(crate) mod w;\n\
             fn f() {\n    w::g();\n    match a {\n        #[cfg(test)]\n        A => \
             crate::v::w::g(),\n    }\n}\n",
        ),
        sample(
            "crates/c/src/u.rs",
            "use crate::v::V;\nuse crate::u::x::X;\n",
        ),
        sample("crates/c/src/u/x.rs", "use crate::u::U;\n"),
        sample("crates/c/src/v/w.rs", "use crate::v::V;\n"),
    ];
    let found = circles(&files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].message.ends_with(": b, c, d"), "{found:?}");
}

/// A plan of where things run is made before anybody runs: it knows neither workers nor supervisor.
fn plans_that_know_who_runs(files: &[File]) -> Vec<Finding> {
    let is_plan = |path: &str| path.starts_with("crates/engine/src/placement");
    let plans = files.iter().filter(|file| is_plan(&file.path));
    let knows = plans.filter(|file| {
        let code = code(&file.text);
        code.contains("crate::supervisor") || code.contains("crate::worker")
    });
    knows
        .map(|file| {
            let message = "a plan imports from supervisor or worker: move what it needs below both";
            whole(&file.path, message.to_owned())
        })
        .collect()
}

#[test]
fn plans_know_nobody_who_runs() {
    report(&plans_that_know_who_runs(&repository()));
    let bad = sample(
        "crates/engine/src/placement/x.rs",
        "use crate::worker::open::x;\n",
    );
    assert_eq!(plans_that_know_who_runs(&[bad]).len(), 1);
}
