//! `cargo xtask book`: the documents as a book with search, by mdBook, and every link in it
//! checked.
//!
//! `source` lays out what mdBook reads: a copy of all documents and of the files that they link to,
//! and a table of contents made of their headings. `links` looks at the pages that come out.
//!
//! SPDX-License-Identifier: Apache-2.0

mod links;
mod source;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::image;

/// Where the book goes.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// Folder for the pages
    #[arg(long, value_name = "FOLDER", default_value = "target/book")]
    out: PathBuf,
}

/// Where `tests/setup/book.sh` puts mdBook, if there is none in the path.
const TOOL: &str = "target/tools/mdbook/bin/mdbook";

const SETTINGS: &str = r#"[book]
title = "Catena"
language = "en"
src = "src"

[output.html]
default-theme = "light"
preferred-dark-theme = "navy"

[output.html.search]
limit-results = 30

[output.html.fold]
enable = true
level = 1
"#;

/// Builds the book and checks it.
///
/// # Errors
///
/// mdBook is missing or fails, or a link leads nowhere: all of those are named.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let repository = image::repository()?;
    let out = std::path::absolute(repository.join(&arguments.out))?;
    let place = repository.join("target/book-source");
    if place.exists() {
        std::fs::remove_dir_all(&place)?;
    }
    let pages = source::lay_out(repository, &place.join("src"))?;
    std::fs::write(place.join("book.toml"), SETTINGS)?;
    let mut build = Command::new(mdbook(repository));
    image::complete(build.arg("build").arg("--dest-dir").arg(&out).arg(&place))
        .map_err(|error| format!("{error}; tests/setup/book.sh installs mdBook"))?;
    let broken = links::broken(&out)?;
    if !broken.is_empty() {
        return Err(format!("{} broken links:\n{}", broken.len(), broken.join("\n")).into());
    }
    println!(
        "{}: {pages} pages, no broken link",
        out.join("index.html").display()
    );
    Ok(())
}

fn mdbook(repository: &Path) -> PathBuf {
    let ours = repository.join(TOOL);
    if ours.exists() { ours } else { "mdbook".into() }
}
