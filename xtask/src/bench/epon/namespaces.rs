//! Network namespaces joined by veth pairs and a bridge: what a container engine makes, without it.
//!
//! Gone with the benchmark; what a killed one left is removed by the next.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::Path;
use std::process::{Command, Stdio};

/// Of the names of namespaces and bridges; the process id follows.
const PREFIX: &str = "cb";

/// Some namespaces and their bridge.
#[derive(Debug)]
pub(super) struct Namespaces {
    id: u32,
    count: usize,
}

impl Namespaces {
    /// Makes them.
    ///
    /// # Errors
    /// Why there are none: not root, or no `ip`.
    pub(super) fn new(count: usize) -> Result<Self, String> {
        remove_leftovers();
        let id = std::process::id();
        let spaces = Self { id, count };
        let bridge = spaces.bridge();
        ip(&format!("link add {bridge} type bridge"))?;
        ip(&format!("addr add 198.18.78.1/24 dev {bridge}"))?;
        ip(&format!("link set {bridge} up"))?;
        for node in 0..count {
            let (name, host) = (spaces.name(node), node + 2);
            let veth = format!("{PREFIX}v{id}-{node}");
            ip(&format!("netns add {name}"))?;
            ip(&format!(
                "link add {veth} type veth peer name eth0 netns {name}"
            ))?;
            ip(&format!("link set {veth} master {bridge} up"))?;
            ip(&format!("-n {name} addr add 198.18.78.{host}/24 dev eth0"))?;
            ip(&format!("-n {name} link set lo up"))?;
            ip(&format!("-n {name} link set eth0 up"))?;
        }
        Ok(spaces)
    }

    /// Name of one.
    pub(super) fn name(&self, node: usize) -> String {
        format!("{PREFIX}{}-{node}", self.id)
    }

    fn bridge(&self) -> String {
        format!("{PREFIX}{}", self.id)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for node in 0..self.count {
            let _ = ip(&format!("netns del {}", self.name(node)));
        }
        let _ = ip(&format!("link del {}", self.bridge()));
    }
}

/// Removes what benchmarks that are gone have left.
fn remove_leftovers() {
    let is_gone = |name: &str| {
        let id = name.strip_prefix(PREFIX)?.split('-').next()?;
        let id: u32 = id.parse().ok()?;
        (!Path::new("/proc").join(id.to_string()).exists()).then_some(())
    };
    for (folder, command) in [("/run/netns", "netns del"), ("/sys/class/net", "link del")] {
        let Ok(entries) = std::fs::read_dir(folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_gone(&name).is_some() {
                let _ = ip(&format!("{command} {name}"));
            }
        }
    }
}

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("ip {arguments}: {}", text.trim()))
}
