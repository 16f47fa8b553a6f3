//! Every link of the pages that mdBook made: does it lead to a file, and to a place in it?
//!
//! Links to other hosts are not followed.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Links that lead nowhere, with their pages.
pub(super) fn broken(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    read(folder, &mut pages)?;
    let mut broken = Vec::new();
    for (path, text) in &pages {
        // The print page repeats all others, with links from the root.
        if path.ends_with("print.html") || path.ends_with("404.html") || path.ends_with("toc.html")
        {
            continue;
        }
        for target in attributes(text, &["href=\"", "src=\""]) {
            if let Some(why) = fault(path, &target, &pages) {
                let page = path.strip_prefix(folder).unwrap_or(path);
                broken.push(format!("{}: {target}: {why}", page.display()));
            }
        }
    }
    broken.dedup();
    Ok(broken)
}

fn read(folder: &Path, pages: &mut BTreeMap<PathBuf, String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(&path, pages)?;
        } else if path.extension().is_some_and(|ending| ending == "html") {
            let text = std::fs::read(&path)?;
            pages.insert(path, String::from_utf8_lossy(&text).into_owned());
        }
    }
    Ok(())
}

/// Values of attributes, without what stands for itself in HTML.
fn attributes(text: &str, names: &[&str]) -> BTreeSet<String> {
    let values = names.iter().flat_map(|name| text.split(name).skip(1));
    let values = values.filter_map(|rest| rest.split('"').next());
    values.map(|value| value.replace("&amp;", "&")).collect()
}

/// Why a link leads nowhere.
fn fault(page: &Path, target: &str, pages: &BTreeMap<PathBuf, String>) -> Option<&'static str> {
    let is_elsewhere = target.contains(':') || target.starts_with("//") || target.is_empty();
    if is_elsewhere {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = file.split('?').next().unwrap_or("");
    let mut path = match file {
        "" => page.to_owned(),
        file => normal(&page.parent()?.join(file)),
    };
    if path.is_dir() {
        path.push("index.html");
    }
    if !path.exists() {
        return Some("no such page");
    }
    // A line of a source file.
    let is_page = path.extension().is_some_and(|ending| ending == "html");
    if anchor.is_empty() || !is_page {
        return None;
    }
    let text = pages.get(&path)?;
    let is_there = [format!("id=\"{anchor}\""), format!("name=\"{anchor}\"")]
        .iter()
        .any(|place| text.contains(place));
    (!is_there).then_some("no such place in the page")
}

/// A path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(normal.pop()),
            std::path::Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_nowhere_are_found() {
        let folder = std::env::temp_dir().join(format!("catena-links-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("a")).unwrap();
        let page = "<a href=\"../b.html#x\">1</a><a href=\"../b.html#y\">2</a>\
                    <img src=\"none.svg\"><a href=\"https://x.org\">3</a><a href=\"#z\" id=\"z\">4</a>";
        std::fs::write(folder.join("a/a.html"), page).unwrap();
        std::fs::write(folder.join("b.html"), "<h1 id=\"x\">b</h1>").unwrap();
        let found = broken(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("b.html#y: no such place"), "{found:?}");
        assert!(found[1].contains("none.svg: no such page"), "{found:?}");
    }
}
