//! What mdBook reads: documents where they lie in the repository, so that their links hold, the
//! files that they link to, and a table of contents.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;

/// Parts of the book: title, folder, and whether its pages come in the order of docs/README.md.
const PARTS: &[(&str, &str)] = &[
    ("Guide", "docs/guide/"),
    ("Reference", "docs/reference/"),
    ("Results", "docs/results/"),
    ("Internals", "docs/internals/"),
    ("Decisions", "docs/adr/"),
];
/// Pages of the root, in front and behind the parts.
const FIRST: &[&str] = &["README.md"];
const LAST: &[&str] = &[
    "ARCHITECTURE.md",
    "GLOSSARY.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
];

/// Copies everything; gives the number of pages.
pub(super) fn lay_out(repository: &Path, to: &Path) -> Result<usize, Box<dyn Error>> {
    let mut pages: Vec<String> = FIRST.iter().chain(LAST).map(ToString::to_string).collect();
    find(repository, "docs", &mut pages)?;
    let mut linked = BTreeSet::new();
    for page in &pages {
        let text = std::fs::read_to_string(repository.join(page))
            .map_err(|error| format!("{page}: {error}"))?;
        linked.extend(targets(&text).filter_map(|target| joined(page, target)));
        // mdBook makes an index of a README, and forgets the links to it.
        let text = text
            .replace("README.md)", "index.md)")
            .replace("README.md#", "index.md#");
        std::fs::create_dir_all(to.join(page).parent().ok_or("a page without a folder")?)?;
        std::fs::write(to.join(page), text)?;
    }
    // A report links to its figures.
    for page in linked.clone() {
        if page.ends_with(".html") && repository.join(&page).is_file() {
            let text = std::fs::read_to_string(repository.join(&page))?;
            linked.extend(targets(&text).filter_map(|target| joined(&page, target)));
        }
    }
    for file in &linked {
        if repository.join(file).is_file() && !to.join(file).exists() {
            copy(repository, file, to)?;
        } else if repository.join(file).is_dir() {
            copy_listing(repository, file, to)?;
        }
    }
    std::fs::write(to.join("SUMMARY.md"), summary(repository, &pages)?)?;
    Ok(pages.len())
}

/// Documents below a folder.
fn find(repository: &Path, folder: &str, pages: &mut Vec<String>) -> std::io::Result<()> {
    let mut entries: Vec<_> =
        std::fs::read_dir(repository.join(folder))?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            find(repository, &path, pages)?;
        } else if path.ends_with(".md") {
            pages.push(path);
        }
    }
    Ok(())
}

/// Where the links and pictures of a text lead, without anchors and other hosts.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let markdown = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let html = ["src=\"", "href=\""]
        .into_iter()
        .flat_map(move |name| text.split(name).skip(1))
        .filter_map(|rest| rest.split('"').next());
    let plain = markdown
        .chain(html)
        .map(|target| target.split('#').next().unwrap_or(""));
    plain.filter(|target| !target.is_empty() && !target.contains(':'))
}

/// A link's path from the root.
fn joined(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn copy(repository: &Path, file: &str, to: &Path) -> Result<(), Box<dyn Error>> {
    let place = to.join(file);
    std::fs::create_dir_all(place.parent().ok_or("a file without a folder")?)?;
    std::fs::copy(repository.join(file), place)?;
    Ok(())
}

/// A folder that is linked to becomes a page with its files.
fn copy_listing(repository: &Path, folder: &str, to: &Path) -> Result<(), Box<dyn Error>> {
    let mut names: Vec<String> = std::fs::read_dir(repository.join(folder))?
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_, _>>()?;
    names.sort();
    let mut page = format!("<title>{folder}</title>\n<h1>{folder}</h1>\n<ul>\n");
    for name in names {
        let file = format!("{folder}/{name}");
        if repository.join(&file).is_file() {
            copy(repository, &file, to)?;
            // mdBook makes pages of documents.
            let target = name
                .strip_suffix(".md")
                .map_or(name.clone(), |stem| format!("{stem}.html"));
            let target = if target == "README.html" {
                "../index.html".to_owned()
            } else {
                target
            };
            if !name.ends_with(".md") || folder.starts_with("docs") {
                let _ = writeln!(page, "<li><a href=\"{target}\">{name}</a></li>");
            }
        }
    }
    let place = to.join(folder).join("index.html");
    std::fs::create_dir_all(to.join(folder))?;
    std::fs::write(place, page + "</ul>\n")?;
    Ok(())
}

fn summary(repository: &Path, pages: &[String]) -> Result<String, Box<dyn Error>> {
    let index = std::fs::read_to_string(repository.join("docs/README.md"))?;
    // A page that the index names comes where it is named, others behind by their names.
    let place = |page: &String| {
        let name = page.strip_prefix("docs/").unwrap_or(page);
        index.find(name).unwrap_or(usize::MAX)
    };
    let mut text = String::from("# Summary\n\n");
    for page in FIRST {
        let _ = writeln!(text, "[{}]({page})", title(repository, page)?);
    }
    let _ = writeln!(text, "[All documents](docs/README.md)");
    for (part, folder) in PARTS {
        let mut own: Vec<&String> = pages
            .iter()
            .filter(|page| page.starts_with(folder))
            .collect();
        own.sort_by_key(|page| (place(page), page.to_owned()));
        let _ = writeln!(text, "\n# {part}\n");
        for page in own {
            let _ = writeln!(text, "- [{}]({page})", title(repository, page)?);
        }
    }
    let _ = writeln!(text, "\n# Project\n");
    for page in LAST {
        let _ = writeln!(text, "- [{}]({page})", title(repository, page)?);
    }
    Ok(text)
}

/// The first heading of a page.
fn title(repository: &Path, page: &str) -> Result<String, Box<dyn Error>> {
    let text = std::fs::read_to_string(repository.join(page))?;
    let heading = text.lines().find_map(|line| line.strip_prefix("# "));
    Ok(heading
        .ok_or(format!("{page}: no title"))?
        .replace(['[', ']'], ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_from_where_their_page_lies() {
        let text = "[a](b.md#c) [d](https://x.org/y) ![e](../p.svg)\n<img src=\"q.svg\"> [f](#g)";
        let found: Vec<_> = targets(text).collect();
        assert_eq!(found, ["b.md", "../p.svg", "q.svg"]);
        assert_eq!(joined("docs/guide/a.md", "../../x.rs").unwrap(), "x.rs");
        assert_eq!(joined("a.md", "../x.rs"), None);
    }
}
