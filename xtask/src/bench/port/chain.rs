//! Catena as the one that forwards: a chain of two ports and `macswap`, in one worker.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::running::Running;

pub(super) const NAME: &str = "ports";

/// Where the chain's nodes run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// `left` to `right`, in one loop on a core.
    OneWay { core: usize },
    /// Both ways, in one loop on a core.
    BothWays { core: usize },
    /// `left` to `right` through an NF in a process of its own.
    Isolated,
}

/// The chain file.
pub(super) fn text(left: &str, right: &str, shape: Shape) -> String {
    let nodes = |core: usize| format!("run: {{ mode: inline, wait: spin, cores: [{core}] }}\n");
    let head = format!("name: {NAME}\nports:\n  left: {left}\n  right: {right}\n");
    let swap = "nfs:\n  swap: { type: macswap }\n";
    let back = "  back: { type: macswap }\n";
    let to_right = "links:\n  - left -> swap -> right\n";
    match shape {
        Shape::OneWay { core } => head + swap + to_right + &nodes(core),
        Shape::BothWays { core } => {
            head + swap + back + to_right + "  - right -> back -> left\n" + &nodes(core)
        }
        Shape::Isolated => {
            head + swap
                + "links:\n  - { link: left -> swap, aggregate: off }\n  \
                   - { link: swap -> right, aggregate: off }\nrun: { mode: process }\n"
        }
    }
}

/// Mpps that the ports send, over so many seconds.
pub(super) fn rate(chain: &Running, seconds: u32) -> Result<f64, String> {
    let (before, start) = (sent(&chain.status()?), Instant::now());
    std::thread::sleep(Duration::from_secs(seconds.into()));
    let (after, elapsed) = (sent(&chain.status()?), start.elapsed());
    if after == before {
        return Err("catena: nothing was sent".to_owned());
    }
    Ok((after - before) as f64 / elapsed.as_secs_f64() / 1e6)
}

/// Packets that ports have sent.
pub(super) fn sent(status: &Value) -> u64 {
    let nodes = status["nodes"].as_array().into_iter().flatten();
    let ports = nodes.filter(|node| node["name"] == "left" || node["name"] == "right");
    ports.filter_map(|port| port["tx_packets"].as_u64()).sum()
}

/// Bytes that Catena has copied: ports where a packet does not lie in their pool, links where they
/// pack packets.
pub(super) fn copied(status: &Value) -> u64 {
    let nodes = status["nodes"].as_array().into_iter().flatten();
    let ports = nodes.filter_map(|node| node["counters"]["copied_bytes"].as_u64());
    let links = status["links"].as_array().into_iter().flatten();
    let packed = links.filter_map(|link| link["packed_bytes"].as_u64());
    ports.chain(packed).sum()
}
