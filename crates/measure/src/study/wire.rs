//! Wires: what lies between the tester's ports and the device's, made by the kernel.
//!
//! A study that needs some runs in a network namespace of its own, so that nothing on the machine
//! is touched and everything is gone with the process, however it ends. Needs `ip` (iproute2).

use std::process::Command;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a wire is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WireKind {
    /// A veth pair: the device has one end, the tester the other.
    #[default]
    Veth,
    /// A TAP interface: the device opens it, the tester sees what the host would.
    Tap,
    /// Nothing: interfaces are named in the template, and stay as they are.
    None,
}

/// Names of the device's and the tester's interface, where packets go in and where they come out.
pub const ENDS: [(&str, &str); 2] = [("cat-d0", "cat-t0"), ("cat-d1", "cat-t1")];

/// Why there are no wires.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The tool is missing, or did not start.
    #[error("`{command}` does not start: {reason}; install iproute2")]
    Start {
        /// What was called.
        command: String,
        /// Why it did not start.
        reason: std::io::Error,
    },
    /// The kernel refused.
    #[error("`{command}`: {reason}; run as root, on a kernel with veth and tun")]
    Refused {
        /// What was called.
        command: String,
        /// What it said.
        reason: String,
    },
}

fn ip(arguments: &str) -> Result<(), WireError> {
    let command = format!("ip {arguments}");
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|reason| WireError::Start {
        command: command.clone(),
        reason,
    })?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(WireError::Refused { command, reason })
}

/// The wires of one kind of port; they go when this is dropped.
#[derive(Debug)]
pub struct Wires {
    kind: WireKind,
}

impl Wires {
    /// Lays both.
    ///
    /// # Errors
    /// What the kernel refused. What was laid before is taken away.
    pub fn lay(kind: WireKind) -> Result<Self, WireError> {
        // Keeps neighbour discovery off the wires; where there is no IPv6 there is none anyway.
        let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        let wires = Self { kind };
        for (device, tester) in ENDS {
            match kind {
                WireKind::None => {}
                WireKind::Tap => {
                    ip(&format!("tuntap add dev {device} mode tap"))?;
                    ip(&format!("link set dev {device} up"))?;
                }
                WireKind::Veth => {
                    ip(&format!(
                        "link add name {device} type veth peer name {tester}"
                    ))?;
                    ip(&format!("link set dev {device} up"))?;
                    ip(&format!("link set dev {tester} up"))?;
                }
            }
        }
        Ok(wires)
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        for (device, _) in ENDS {
            // What cannot be taken away goes with the namespace.
            let _ = match self.kind {
                WireKind::None => Ok(()),
                WireKind::Tap => ip(&format!("tuntap del dev {device} mode tap")),
                WireKind::Veth => ip(&format!("link del dev {device}")),
            };
        }
    }
}
