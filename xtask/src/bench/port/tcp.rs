//! TCP between two hosts with their default offloads: by a veth pair, and by chains that carry what
//! hosts leave to a network card (`segments: carry`), with packet sockets and with TAPs.
//!
//! Hosts are network namespaces. A chain of packet sockets stands in a third one, with a pair to
//! each; TAPs are interfaces of the hosts themselves. iperf3 sends for so many seconds on whatever
//! core the kernel chooses, and each worker of the chain runs where it likes, too.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::child::{Guarded, output};
use super::super::install;
use super::super::running::Running;
use super::chain::NAME;
use super::lab::Lab;

/// How long the server may take until it listens.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// By what hosts reach each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Pair,
    PacketSocket,
    Tap,
}

impl Way {
    pub(super) const ALL: [Self; 3] = [Self::Pair, Self::PacketSocket, Self::Tap];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Pair => "TCP, veth pair alone",
            Self::PacketSocket => "TCP, packet_socket that carries",
            Self::Tap => "TCP, tap that carries",
        }
    }

    /// The second host's address; the first one's ends with 1.
    const fn address(self) -> &'static str {
        match self {
            Self::Pair => "198.19.0.2",
            Self::PacketSocket => "198.18.0.2",
            Self::Tap => "198.19.1.2",
        }
    }
}

/// Two hosts, and a namespace between them.
pub(super) struct Hosts {
    ends: [String; 2],
    middle: String,
    folder: PathBuf,
    binary: PathBuf,
}

impl Hosts {
    pub(super) fn new(folder: &Path, is_brief: bool, binary: PathBuf) -> Result<Self, String> {
        Lab::require(folder, is_brief)?;
        install::require("iperf3", &["iperf3"], folder)?;
        let named = |what: &str| format!("catena-{what}-{}", std::process::id());
        let hosts = Self {
            ends: ["left", "right"].map(named),
            middle: named("middle"),
            folder: folder.to_owned(),
            binary,
        };
        let (middle, [left, right]) = (&hosts.middle, &hosts.ends);
        for name in [middle, left, right] {
            output(&format!("ip netns add {name}"))?;
        }
        output(&format!(
            "ip -n {left} link add direct type veth peer name direct netns {right}"
        ))?;
        for (end, name) in hosts.ends.iter().zip(["left", "right"]) {
            output(&format!(
                "ip -n {middle} link add {name} type veth peer name far netns {end}"
            ))?;
            output(&format!("ip -n {middle} link set {name} up"))?;
        }
        hosts.address(Way::Pair, "direct")?;
        hosts.address(Way::PacketSocket, "far")?;
        Ok(hosts)
    }

    /// Gives an interface of both hosts its address.
    fn address(&self, way: Way, interface: &str) -> Result<(), String> {
        let net = way.address().trim_end_matches('2');
        for (at, end) in (1..).zip(&self.ends) {
            output(&format!(
                "ip -n {end} address add {net}{at}/24 dev {interface}"
            ))?;
            output(&format!("ip -n {end} link set {interface} up"))?;
        }
        Ok(())
    }

    /// Gbit/s that the second host receives from the first one.
    pub(super) fn rate(&self, way: Way, seconds: u32) -> Result<f64, String> {
        let chain = match way {
            Way::Pair => None,
            Way::PacketSocket => Some(self.chain(|name, _| {
                format!("packet_socket: {{ interface: {name}, segments: carry }}")
            })?),
            Way::Tap => Some(self.chain(|_, end| {
                format!("tap: {{ name: carried, segments: carry }}, netns: {end}")
            })?),
        };
        if way == Way::Tap {
            self.address(way, "carried")?;
        }
        let rate = self.iperf3(way.address(), seconds);
        drop(chain);
        rate
    }

    /// A chain of four workers that carries both ways.
    fn chain(&self, port: impl Fn(&str, &str) -> String) -> Result<Running, String> {
        let [left, right] = [0, 1].map(|at| port(["left", "right"][at], &self.ends[at]));
        let text = format!(
            "name: ports\nports:\n  left: {{ {left} }}\n  right: {{ {right} }}\nnfs:\n  \
             to-right: {{ type: count }}\n  to-left: {{ type: count }}\nlinks:\n  \
             - left -> to-right -> right\n  - right -> to-left -> left\n\
             run: {{ mode: process, buffers: {{ 128KiB: 256 }} }}\n"
        );
        let enter = |words| within(&self.middle, words);
        Running::start(
            self.binary.clone(),
            self.folder.clone(),
            (NAME, &text),
            enter,
        )
    }

    fn iperf3(&self, address: &str, seconds: u32) -> Result<f64, String> {
        let [client, server] = &self.ends;
        let words = within(server, ["iperf3", "-s", "-1"].map(str::to_owned).into());
        let log = self.folder.join("iperf3.log");
        let mut server = Guarded::start(&words[0], &words[1..], &[], log)
            .map_err(|error| format!("iperf3: {error}"))?;
        let asked = format!("ip netns exec {client} iperf3 -c {address} -t {seconds} --json");
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let told = output(&asked)?;
            let told: Value =
                serde_json::from_str(&told).map_err(|error| format!("iperf3: {error}"))?;
            let rate = told["end"]["sum_received"]["bits_per_second"].as_f64();
            if let Some(rate) = rate.filter(|_| told["error"].is_null()) {
                return Ok(rate / 1e9);
            }
            // The server may not listen yet; that is no failure of the command.
            if server.ended().is_some() || Instant::now() >= deadline {
                return Err(format!("iperf3: {} {}", told["error"], server.error_tail()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Words that run a command in a namespace.
fn within(namespace: &str, command: Vec<String>) -> Vec<String> {
    let enter = ["ip", "netns", "exec", namespace].map(str::to_owned);
    enter.into_iter().chain(command).collect()
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // Pairs go with their namespaces; one that is left over harms nobody.
        for name in self.ends.iter().chain([&self.middle]) {
            let _ = output(&format!("ip netns del {name}"));
        }
    }
}
