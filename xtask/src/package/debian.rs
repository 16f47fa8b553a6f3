//! The Debian package: the root folder and what dpkg wants to know of it. It depends on nothing,
//! since the binary is static.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::error::Error;
use std::path::Path;
use std::process::Command;

use super::root::{Root, VERSION};
use crate::image;

/// Builds `catena_VERSION_ARCHITECTURE.deb`.
pub(super) fn build(repository: &Path, root: &Root, out: &Path) -> Result<(), Box<dyn Error>> {
    let folder = out.join("deb");
    let _ = std::fs::remove_dir_all(&folder);
    image::complete(
        Command::new("cp")
            .arg("--archive")
            .arg(&root.path)
            .arg(&folder),
    )?;
    let control = folder.join("DEBIAN");
    std::fs::create_dir_all(&control)?;
    let architecture = architecture(std::env::consts::ARCH);
    let size_kib = size(&folder)?.div_ceil(1024);
    std::fs::write(
        control.join("control"),
        control_file(architecture, size_kib),
    )?;
    let file = out.join(format!("catena_{VERSION}_{architecture}.deb"));
    let mut build = Command::new("dpkg-deb");
    build
        .current_dir(repository)
        .env("SOURCE_DATE_EPOCH", root.time_s.to_string());
    build.args(["--root-owner-group", "-Zxz", "-z3", "--build"]);
    image::complete(build.arg(&folder).arg(&file))
        .map_err(|error| format!("{error}; dpkg-deb comes with the package dpkg"))?;
    println!("{}", file.display());
    Ok(())
}

/// Debian's name of a machine.
fn architecture(machine: &str) -> &str {
    match machine {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn control_file(architecture: &str, size_kib: u64) -> String {
    format!(
        "Package: catena\n\
         Version: {VERSION}\n\
         Architecture: {architecture}\n\
         Maintainer: The Catena authors <catena@localhost>\n\
         Installed-Size: {size_kib}\n\
         Section: net\n\
         Priority: optional\n\
         Suggests: podman | docker.io\n\
         Description: chains network functions over shared-memory links\n \
         A chain is a graph of small network functions that run in one loop, in\n \
         threads, in processes or in containers. Links say how far their two sides\n \
         trust each other; a function that is killed is started again, and every\n \
         packet is accounted for.\n"
    )
}

/// Bytes of all files in a folder.
fn size(folder: &Path) -> std::io::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.metadata()?;
        sum += if found.is_dir() {
            size(&entry.path())?
        } else {
            found.len()
        };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_file_has_a_field_in_each_line() {
        let text = control_file(architecture("x86_64"), 7);
        assert!(text.contains("\nArchitecture: amd64\n"), "{text}");
        for line in text.lines() {
            assert!(line.starts_with(' ') || line.contains(": "), "{line}");
        }
        assert!(text.ends_with('\n') && !text.contains("\n\n"), "{text}");
    }
}
