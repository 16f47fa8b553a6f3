// SPDX-License-Identifier: Apache-2.0
//! Why bytes are not a packet: the one error of all parsers of this crate.
//!
//! Names are stable and lower-case, so that a function that drops malformed packets can count them
//! by layer and reason without a table of its own.

use core::fmt;

/// Why bytes are not a packet: which header, and what is wrong with it.
///
/// Two bytes, `Copy`, no text: cheap enough to return per packet and to use as the key of a drop
/// counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParseError {
    /// The header that could not be read.
    pub layer: Layer,
    /// What is wrong with it.
    pub reason: Reason,
}

/// The header a [`ParseError`] is about, from the outside in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Layer {
    /// [`ethernet`](crate::ethernet).
    Ethernet,
    /// [`vlan`](crate::vlan).
    Vlan,
    /// [`arp`](crate::arp).
    Arp,
    /// [`ipv4`](crate::ipv4).
    Ipv4,
    /// The fixed header of [`ipv6`](crate::ipv6).
    Ipv6,
    /// An extension header, [`ipv6::extension`](crate::ipv6::extension).
    Ipv6Extension,
    /// [`icmpv4`](crate::icmpv4).
    Icmpv4,
    /// [`icmpv6`](crate::icmpv6).
    Icmpv6,
    /// [`udp`](crate::udp).
    Udp,
    /// The fixed header of [`tcp`](crate::tcp).
    Tcp,
    /// An option of [`tcp`](crate::tcp).
    TcpOption,
    /// [`mpcp`](crate::mpcp).
    Mpcp,
    /// The header of [`gtpu`](crate::gtpu).
    Gtpu,
    /// An extension header, [`gtpu::extension`](crate::gtpu::extension).
    GtpuExtension,
    /// An information element of a GTP-U message, [`gtpu::element`](crate::gtpu::element).
    GtpuElement,
    /// The header of [`pfcp`](crate::pfcp).
    Pfcp,
}

/// What is wrong with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// A length field contradicts the format: smaller than the header that holds it, or a value
    /// the format reserves.
    BadLength,
    /// The version field is not this format's version.
    BadVersion,
    /// A header stands where its specification forbids it.
    Misplaced,
    /// More nested headers than this crate walks.
    TooManyHeaders,
    /// The bytes end before the header, or before the end a length field announces.
    Truncated,
    /// A valid variant of the format that this crate does not read.
    Unsupported,
}

impl Layer {
    /// The error of this layer with `reason`.
    pub(crate) const fn error(self, reason: Reason) -> ParseError {
        ParseError {
            layer: self,
            reason,
        }
    }

    /// Lower-case name, stable, usable in the name of a counter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ethernet => "ethernet",
            Self::Vlan => "vlan",
            Self::Arp => "arp",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Ipv6Extension => "ipv6_extension",
            Self::Icmpv4 => "icmpv4",
            Self::Icmpv6 => "icmpv6",
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::TcpOption => "tcp_option",
            Self::Mpcp => "mpcp",
            Self::Gtpu => "gtpu",
            Self::GtpuExtension => "gtpu_extension",
            Self::GtpuElement => "gtpu_element",
            Self::Pfcp => "pfcp",
        }
    }
}

impl Reason {
    /// Lower-case name, stable, usable in the name of a counter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BadLength => "bad_length",
            Self::BadVersion => "bad_version",
            Self::Misplaced => "misplaced",
            Self::TooManyHeaders => "too_many_headers",
            Self::Truncated => "truncated",
            Self::Unsupported => "unsupported",
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.layer.name(), self.reason.name())
    }
}

impl core::error::Error for ParseError {}
