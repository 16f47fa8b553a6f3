//! Installs the programs that peers need, where this machine lets us.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::child::Guarded;

/// Longest time for a package installation.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(300);

/// Whether peers are left out.
static LEFT_OUT: AtomicBool = AtomicBool::new(false);

/// From now on no peer is there.
pub(crate) fn leave_peers_out() {
    LEFT_OUT.store(true, Ordering::Relaxed);
}

/// Finds `program` on the path; if absent and we are root, installs `packages` by apt-get.
///
/// # Errors
///
/// A sentence that says what is missing and what to do.
pub(crate) fn require(program: &str, packages: &[&str], logs: &Path) -> Result<(), String> {
    require_where(program, || is_on_path(program), packages, logs)
}

/// Finds a header file of a library; if absent and we are root, installs `packages` by apt-get.
///
/// # Errors
///
/// As of [`require`].
pub(crate) fn require_file(header: &str, packages: &[&str], logs: &Path) -> Result<(), String> {
    let is_there = || Path::new("/usr/include").join(header).is_file();
    require_where(header, is_there, packages, logs)
}

fn require_where(
    what: &str,
    is_there: impl Fn() -> bool,
    packages: &[&str],
    logs: &Path,
) -> Result<(), String> {
    if LEFT_OUT.load(Ordering::Relaxed) {
        return Err(format!("{what}: left out of a brief run"));
    }
    if is_there() {
        return Ok(());
    }
    let by_hand = format!(
        "{what} is missing; run: apt-get install {}",
        packages.join(" ")
    );
    if !rustix::process::geteuid().is_root() || !is_on_path("apt-get") {
        return Err(by_hand);
    }
    eprintln!("installing {}", packages.join(" "));
    let deadline = Instant::now() + INSTALL_TIMEOUT;
    let log = logs.join("apt-get.log");
    let mut install = vec!["install", "--yes", "--quiet", "--no-install-recommends"];
    install.extend(packages);
    // A fresh machine has no package lists, an old one those of packages that are gone.
    let mut cause = String::new();
    for arguments in [&install[..], &["update", "--quiet"], &install[..]] {
        match apt_get(arguments, &log, deadline) {
            Ok(()) if is_there() => return Ok(()),
            Ok(()) => {}
            Err(error) => cause = error,
        }
    }
    Err(format!("{by_hand} (apt-get: {cause})"))
}

fn apt_get(arguments: &[&str], log: &Path, deadline: Instant) -> Result<(), String> {
    let environment = [("DEBIAN_FRONTEND", Path::new("noninteractive"))];
    let mut child = Guarded::start("apt-get", arguments, &environment, log.to_owned())
        .map_err(|error| error.to_string())?;
    match child.wait(deadline) {
        None => Err("took too long".to_owned()),
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("{status}: {}", child.error_tail())),
    }
}

/// Whether a program of that name is found.
pub(crate) fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
