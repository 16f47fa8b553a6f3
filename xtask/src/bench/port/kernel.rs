//! What the kernel forwards by itself: the simplest XDP program, and a bridge.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::super::child::{Guarded, output};
use super::super::install;
use super::lab::Lab;

const SOURCE: &str = include_str!("redirect.c");
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Builds the loader of the XDP program, or says why not.
pub(super) fn build_redirect(lab: &Lab) -> Result<PathBuf, String> {
    let packages = ["gcc", "libc6-dev"];
    install::require("cc", &packages, &lab.folder)?;
    let (source, program) = (lab.folder.join("redirect.c"), lab.folder.join("redirect"));
    std::fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
    let output = Command::new("cc")
        .args(["-O2", "-o"])
        .args([&program, &source])
        .output()
        .map_err(|error| format!("XDP redirect: cc: {error}"))?;
    if output.status.success() {
        return Ok(program);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let first = errors.lines().next().unwrap_or("failed");
    Err(format!("XDP redirect: {first}"))
}

/// Mpps of an XDP program that redirects from `left` to `right`.
pub(super) fn redirect(
    lab: &Lab,
    program: &Result<PathBuf, String>,
    mode: &str,
) -> Result<f64, String> {
    let program = program.as_ref().map_err(Clone::clone)?;
    let command = [
        program.display().to_string(),
        lab.number("left")?,
        lab.number("right")?,
        mode.to_owned(),
    ];
    let words = lab.words(command);
    let log = lab.folder.join("redirect.log");
    let running = Guarded::start(&words[0], &words[1..], &[], log)
        .map_err(|error| format!("XDP redirect: {error}"))?;
    let deadline = Instant::now() + START_TIMEOUT;
    match running.next_line(deadline) {
        Some((_, line)) if line == "attached" => lab.forwarded("left-far", "right-far"),
        _ => Err(format!("XDP redirect, {mode}: {}", running.error_tail())),
    }
}

/// Mpps of a bridge of `left` and `right`.
pub(super) fn bridge(lab: &Lab) -> Result<f64, String> {
    let name = &lab.namespace;
    for command in [
        format!("ip -n {name} link add bridge type bridge"),
        format!("ip -n {name} link set left master bridge"),
        format!("ip -n {name} link set right master bridge"),
        format!("ip -n {name} link set bridge up"),
        // It knows where the receiver is, as a bridge does that has heard it.
        format!("bridge -n {name} fdb replace 02:00:00:00:00:02 dev right master static"),
    ] {
        output(&command)?;
    }
    let rate = lab.forwarded("left-far", "right-far");
    output(&format!("ip -n {name} link delete bridge"))?;
    rate
}
