//! `cargo xtask image`: the image of workers in containers, from a static binary.
//!
//! The binary is built for this machine's own target, with the C library inside, so that the image
//! needs nothing else. Each container engine that answers gets the image, unless one is named.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What to build.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// Build with this engine alone; without it, with each that answers
    #[arg(long, value_name = "ENGINE")]
    engine: Option<Engine>,
    /// Name of the image
    #[arg(long, value_name = "NAME", default_value = "catena-worker")]
    tag: String,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub(crate) enum Engine {
    /// podman
    Podman,
    /// docker
    Docker,
}

impl Engine {
    const fn program(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }

    /// Whether it is installed and, where it has a daemon, the daemon runs.
    fn answers(self) -> bool {
        Command::new(self.program())
            .arg("info")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }
}

/// Builds the binary and the image.
///
/// # Errors
///
/// No engine answers, or a build fails.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let engines = match arguments.engine {
        Some(engine) => vec![engine],
        None => answering(),
    };
    if engines.is_empty() {
        return Err(NO_ENGINE.into());
    }
    let root = repository()?;
    let binary = build(root)?;
    let context = root.join("target").join("image");
    std::fs::create_dir_all(&context)?;
    std::fs::copy(&binary, context.join("catena"))?;
    let recipe = root.join("containers").join("Containerfile");
    for engine in engines {
        build_image(engine, &arguments.tag, &recipe, &context)?;
    }
    Ok(())
}

/// Why there is no image.
pub(crate) const NO_ENGINE: &str =
    "no container engine answers: install podman, or docker and start its daemon";

/// Engines that can build an image.
pub(crate) fn answering() -> Vec<Engine> {
    let all = [Engine::Podman, Engine::Docker];
    all.into_iter().filter(|engine| engine.answers()).collect()
}

/// The repository's root.
pub(crate) fn repository() -> Result<&'static Path, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    root.ok_or_else(|| "the repository has no root".into())
}

/// Builds an image from a recipe and its context.
pub(crate) fn build_image(
    engine: Engine,
    tag: &str,
    recipe: &Path,
    context: &Path,
) -> Result<(), Box<dyn Error>> {
    let program = engine.program();
    let mut command = Command::new(program);
    command.args(["build", "--quiet", "--tag", tag, "--file"]);
    complete(command.arg(recipe).arg(context))?;
    println!("{program}: image {tag} is ready");
    Ok(())
}

/// Builds the static binary; gives its path.
pub(crate) fn build(root: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = host()?;
    let mut command = Command::new(cargo);
    command
        .current_dir(root)
        .args(["build", "--release", "--locked"]);
    command.args(["--package", "catena", "--target", &target]);
    complete(command.env("RUSTFLAGS", "-C target-feature=+crt-static"))?;
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    Ok(folder.join(target).join("release").join("catena"))
}

/// The target of this machine, as rustc calls it.
pub(crate) fn host() -> Result<String, Box<dyn Error>> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output()?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc -vV names no host")?.to_owned())
}

/// Runs a command to its end.
pub(crate) fn complete(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("{program}: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("{program}: {status}").into())
}
