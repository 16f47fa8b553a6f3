//! What is tried: how functions are joined, what they do, and how large chunks are.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::fmt;

pub(super) const KIB: u32 = 1024;

/// How the functions are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// Processes, shared memory.
    Metal,
    /// Processes, shared memory, links of depth 1 with an update flag.
    MetalFlag,
    /// Containers, shared memory.
    Shared,
    /// Containers, TCP through veth pairs and a bridge.
    Tcp,
    /// Processes in network namespaces, TCP through veth pairs and a bridge.
    TcpSpaces,
    /// Processes, TCP over the loopback.
    TcpMetal,
}

impl Way {
    pub(super) const ALL: [Self; 6] = [
        Self::Metal,
        Self::MetalFlag,
        Self::Shared,
        Self::Tcp,
        Self::TcpSpaces,
        Self::TcpMetal,
    ];

    pub(super) const fn is_tcp(self) -> bool {
        matches!(self, Self::Tcp | Self::TcpSpaces | Self::TcpMetal)
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Metal => "bare metal",
            Self::MetalFlag => "bare metal, update flag",
            Self::Shared => "shared-memory containers",
            Self::Tcp => "TCP containers",
            Self::TcpSpaces => "TCP network namespaces",
            Self::TcpMetal => "TCP processes, loopback",
        })
    }
}

/// What the chain does with a chunk.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) enum Work {
    /// Nothing.
    Raw,
    /// Coding, with this bit error rate on the line.
    Coding(f64),
}

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) struct Setting {
    pub(super) way: Way,
    pub(super) work: Work,
    /// Bytes.
    pub(super) chunk: u32,
}
