// SPDX-License-Identifier: Apache-2.0
//! Packet formats: checked views over bytes, one file per protocol.
//!
//! What belongs here: how bits on the wire are laid out, how lengths in headers bound what may be
//! read, and checksums. What does not: sockets, clocks, allocation, tables, policy. The crate is
//! `no_std`, depends on nothing, and never panics on bytes from the network.
//!
//! # The skeleton of every format file
//!
//! Each protocol file has the same parts in the same order, so that reading one teaches all:
//!
//! 1. `HEADER_LEN` (or `HEADER_LEN_MIN`), the length of the fixed part in bytes;
//! 2. the named byte ranges, as in the diagrams of the specification;
//! 3. `View<T>`, typed access to bytes in place. `View::parse` reads every length field **once**,
//!    checks it against the bytes at hand and keeps the result. From then on no accessor panics and
//!    none reaches outside the checked range, even where a setter, or another process that shares
//!    the memory, changes a length field afterwards (the `AsRef` must keep yielding a slice of the
//!    same length). A view is faithful to nonsense: a reserved bit or a wrong checksum is shown,
//!    not refused;
//! 4. setters, where `T: AsMut<[u8]>`, which write one field and nothing else; a checksum is
//!    brought up to date only by a method that says so;
//! 5. `Header`, the owned form: `parse` reads it, `emit` writes it, `header_len` says how much
//!    `emit` writes. Writing a header and reading it back gives the same header;
//! 6. `Display`, one line, for traces and test failures;
//! 7. tests.
//!
//! A payload is always cut to what the length fields say: the padding of a short Ethernet frame
//! never shows up as data.
//!
//! # Where to start
//!
//! A function that classifies packets wants [`dissect`]: one pass from the Ethernet header to the
//! ports. A function that edits packets takes the offsets found there and opens the view it needs.
//!
//! # Formats
//!
//! | Module | Format | Specification |
//! |---|---|---|
//! | [`ethernet`] | Ethernet II and 802.3 frames | IEEE 802.3 3.1 |
//! | [`vlan`] | C-tag and S-tag (QinQ) | IEEE 802.1Q 9.6 |
//! | [`arp`] | ARP for IPv4 on Ethernet | RFC 826 |
//! | [`ipv4`] | IPv4 | RFC 791 |
//! | [`ipv6`] | IPv6 and its extension headers | RFC 8200 |
//! | [`icmpv4`], [`icmpv6`] | ICMP | RFC 792, RFC 4443 |
//! | [`udp`] | UDP | RFC 768 |
//! | [`tcp`] | TCP and its options | RFC 9293 |
//! | [`mpcp`] | MPCPDUs of EPON | IEEE 802.3 64.3.6, 77.3.6 |
//! | [`gtpu`] | GTP-U and the PDU session container | 3GPP TS 29.281, TS 38.415 |
//! | [`pfcp`] | PFCP: messages, information elements | 3GPP TS 29.244 |
//!
//! Beside them: [`ip`] (what both IP versions share), [`checksum`] (the Internet checksum, RFC 1071
//! and RFC 1624), [`options`] (storage for IPv4 and TCP options).

#![cfg_attr(not(test), no_std)]

pub mod arp;
pub mod checksum;
mod checksum_simd;
pub mod dissect;
mod error;
pub mod ethernet;
mod field;
pub mod gtpu;
pub mod icmpv4;
pub mod icmpv6;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod mpcp;
mod octets;
pub mod options;
pub mod pfcp;
pub mod tcp;
#[cfg(test)]
mod testing;
pub mod udp;
pub mod vlan;

pub use error::{Layer, ParseError, Reason};
