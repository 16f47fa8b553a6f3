//! The files of a machine that has Catena, in a folder: binary, manual pages, completions, unit,
//! documents, examples.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::image;

/// Of the workspace.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Completion scripts: shell and where it looks for them.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/catena"),
    ("zsh", "usr/share/zsh/vendor-completions/_catena"),
    ("fish", "usr/share/fish/vendor_completions.d/catena.fish"),
];

/// The folder.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) path: PathBuf,
    /// Time of the commit, in seconds since 1970: the same source gives the same archive.
    pub(super) time_s: u64,
}

impl Root {
    /// Makes it anew.
    pub(super) fn lay_out(
        repository: &Path,
        binary: &Path,
        path: &Path,
    ) -> Result<Self, Box<dyn Error>> {
        if path.exists() {
            std::fs::remove_dir_all(path)?;
        }
        let root = Self {
            path: path.to_owned(),
            time_s: commit_time(repository),
        };
        root.copy(binary, "usr/bin/catena")?;
        std::fs::create_dir_all(root.path.join("etc/catena"))?;
        root.copy(
            &repository.join("packaging/catena@.service"),
            "usr/lib/systemd/system/catena@.service",
        )?;
        root.manual(binary)?;
        for (shell, place) in COMPLETIONS {
            let script = output(Command::new(binary).args(["completions", shell]))?;
            root.write(place, &script)?;
        }
        root.documents(repository)?;
        Ok(root)
    }

    /// Manual pages, packed as Debian wants them.
    fn manual(&self, binary: &Path) -> Result<(), Box<dyn Error>> {
        let folder = self.path.join("usr/share/man/man1");
        std::fs::create_dir_all(&folder)?;
        image::complete(Command::new(binary).arg("man").arg(&folder))?;
        let mut pages: Vec<_> = std::fs::read_dir(&folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        pages.sort();
        image::complete(Command::new("gzip").args(["-9", "--no-name"]).args(pages))
    }

    fn documents(&self, repository: &Path) -> Result<(), Box<dyn Error>> {
        let place = |name: &str| format!("usr/share/doc/catena/{name}");
        for name in ["README.md", "CHANGELOG.md", "SECURITY.md"] {
            self.copy(&repository.join(name), &place(name))?;
        }
        self.write(&place("copyright"), COPYRIGHT.as_bytes())?;
        for folder in ["chains", "examples/fb5g", "examples/netns"] {
            let files = output(
                Command::new("git")
                    .current_dir(repository)
                    .args(["ls-files", "-z", "--", folder]),
            )?;
            let files = String::from_utf8(files)?;
            for file in files.split('\0').filter(|file| !file.is_empty()) {
                self.copy(&repository.join(file), &place(&format!("examples/{file}")))?;
            }
        }
        Ok(())
    }

    fn copy(&self, from: &Path, to: &str) -> Result<(), Box<dyn Error>> {
        let to = self.parent(to)?;
        std::fs::copy(from, to).map_err(|error| format!("{}: {error}", from.display()))?;
        Ok(())
    }

    pub(super) fn write(&self, to: &str, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
        std::fs::write(self.parent(to)?, bytes)?;
        Ok(())
    }

    fn parent(&self, to: &str) -> Result<PathBuf, Box<dyn Error>> {
        let to = self.path.join(to);
        std::fs::create_dir_all(to.parent().ok_or("a file without a folder")?)?;
        Ok(to)
    }
}

/// Debian's form (copyright-format/1.0).
const COPYRIGHT: &str = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Catena

Files: *
Copyright: The Catena authors
License: Apache-2.0
 On Debian systems, the full text of the Apache License, Version 2.0 is in
 /usr/share/common-licenses/Apache-2.0.
";

/// What a command prints.
fn output(command: &mut Command) -> Result<Vec<u8>, Box<dyn Error>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

/// 0 where there is no repository, as in an archive of the sources.
fn commit_time(repository: &Path) -> u64 {
    let mut git = Command::new("git");
    git.current_dir(repository)
        .args(["log", "-1", "--format=%ct"]);
    let text = output(&mut git).unwrap_or_default();
    String::from_utf8_lossy(&text).trim().parse().unwrap_or(0)
}
