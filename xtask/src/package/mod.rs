//! `cargo xtask package`: Catena for machines that do not build it: a static binary, a Debian
//! package, a container image. Each is one command, and all are made of the same binary.
//!
//! `root` lays out the files of a machine that has Catena; the others pack that folder.
//!
//! SPDX-License-Identifier: Apache-2.0

mod debian;
mod root;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::image::{self, Engine};
use root::Root;

/// What to make.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
    /// Folder for what is made
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "target/packages",
        global = true
    )]
    out: PathBuf,
}

#[derive(clap::Subcommand, Clone, Copy, Debug)]
enum What {
    /// A binary that needs no library, in an archive with manual pages and examples
    Static,
    /// A Debian package: manual pages, completions, a systemd unit
    Deb,
    /// An image with the whole command, for each container engine that answers
    Image,
    /// All three; the image only if an engine answers
    All,
}

/// Makes it.
///
/// # Errors
///
/// A build fails, or a tool is missing.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let repository = image::repository()?;
    let out = std::path::absolute(repository.join(&arguments.out))?;
    std::fs::create_dir_all(&out)?;
    let binary = image::build(repository)?;
    let root = Root::lay_out(repository, &binary, &out.join("root"))?;
    let engines = image::answering();
    match arguments.what {
        What::Static => archive(&root, &out)?,
        What::Deb => debian::build(repository, &root, &out)?,
        What::Image if engines.is_empty() => return Err(image::NO_ENGINE.into()),
        What::Image => images(repository, &root, &out, &engines)?,
        What::All => {
            archive(&root, &out)?;
            debian::build(repository, &root, &out)?;
            images(repository, &root, &out, &engines)?;
        }
    }
    Ok(())
}

/// `catena-VERSION-MACHINE.tar.gz`: a folder with the binary in front, and what belongs to it.
fn archive(root: &Root, out: &Path) -> Result<(), Box<dyn Error>> {
    let name = format!("catena-{}-{}", root::VERSION, std::env::consts::ARCH);
    let file = out.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args([
        "--create",
        "--gzip",
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
    ]);
    tar.arg(format!("--mtime=@{}", root.time_s));
    // Beside the binary stand its manual pages, completions and examples; no unit, no /etc.
    tar.arg(format!("--transform=s,^\\./usr/bin/catena$,{name}/catena,"));
    tar.arg(format!("--transform=s,^\\./usr,{name},"));
    tar.args(["--exclude=./usr/lib"]).arg("--file").arg(&file);
    image::complete(tar.arg("--directory").arg(&root.path).arg("./usr"))?;
    println!("{}", file.display());
    Ok(())
}

fn images(
    repository: &Path,
    root: &Root,
    out: &Path,
    engines: &[Engine],
) -> Result<(), Box<dyn Error>> {
    let context = out.join("image");
    let copy = context.join("root");
    let _ = std::fs::remove_dir_all(&context);
    std::fs::create_dir_all(&context)?;
    image::complete(
        Command::new("cp")
            .arg("--archive")
            .arg(&root.path)
            .arg(&copy),
    )?;
    // Where running chains have their sockets: nobody else may write there.
    let runtime = copy.join("run/catena");
    std::fs::create_dir_all(&runtime)?;
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&runtime, private)?;
    let recipe = repository.join("containers").join("command.Containerfile");
    for engine in engines {
        image::build_image(*engine, "catena", &recipe, &context)?;
    }
    Ok(())
}
