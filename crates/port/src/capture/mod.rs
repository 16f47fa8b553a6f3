//! Capture files: reading and writing pcap and pcapng.
//!
//! This is a codec and nothing more. It knows files and byte slices; ports, packets and clocks are
//! built on top of it.
//!
//! | format | read | written |
//! |---|---|---|
//! | pcap, microseconds | both byte orders | no |
//! | pcap, nanoseconds | both byte orders | little-endian, the default |
//! | pcap, "modified" (24-byte record headers) | little-endian | no |
//! | pcapng 1.x | both byte orders, any number of interfaces | little-endian, one interface |
//!
//! Formats: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng. Only Ethernet is accepted
//! (LINKTYPE 1); a frame never includes its FCS, which is cut off where a file says it has one.
//!
//! Deliberately unsupported: compressed files, the obsolete pcapng Packet Block (an error, because
//! skipping it would lose packets silently), per-packet options other than the direction, which is
//! written and not read.
//!
//! Limits: a record holds at most [`MAX_RECORD_LEN`] bytes, a section describes at most
//! [`MAX_INTERFACE_COUNT`] interfaces, and the reader holds at most one block in memory.

mod clock;
mod error;
pub mod pcapng;
mod reader;
mod section;
mod window;
mod writer;

#[cfg(test)]
mod reading_tests;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod writing_tests;

use std::path::Path;

pub use error::{CaptureError, CapturePart};
pub use reader::CaptureReader;
pub use writer::{CaptureSummary, CaptureWriter};

#[cfg(test)]
pub(crate) use writer::Sink;

/// Most bytes of packet data in one record.
///
/// The same limit that libpcap sets (262,144): room for any Ethernet frame and for the 64 KiB
/// segments that a kernel hands out when offloads are on, small enough that a damaged length field
/// cannot make the reader allocate without bound.
pub const MAX_RECORD_LEN: usize = 256 * 1024;

/// Most interfaces that one pcapng section may describe.
///
/// Keeps the table of interfaces bounded (about 100 KiB) whatever the file claims.
pub const MAX_INTERFACE_COUNT: usize = 4096;

/// LINKTYPE_ETHERNET in the registry of link types (<https://www.tcpdump.org/linktypes.html>).
const LINKTYPE_ETHERNET: u16 = 1;

/// One packet of a capture file.
///
/// `data` borrows from the reader and lives until its next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time of capture in nanoseconds since 1970-01-01 00:00:00 UTC.
    ///
    /// Zero or the largest value where the file's time lies outside of `u64` nanoseconds. A pcapng
    /// Simple Packet Block carries no time: it takes the one of the record before it, or zero.
    pub timestamp_ns: u64,
    /// Length of the packet on the wire, without FCS; never less than `data.len()`.
    pub original_len: u32,
    /// The captured bytes: the packet from its destination address on, cut at the snapshot length
    /// of the capture.
    pub data: &'a [u8],
}

/// Which way a packet went, seen from this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// It arrived.
    Received,
    /// It left.
    Sent,
}

/// The two capture file formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaptureFormat {
    /// Classic pcap with nanosecond timestamps; times end in the year 2106.
    Pcap,
    /// pcapng with nanosecond timestamps.
    PcapNg,
}

impl CaptureFormat {
    /// The format that a file name asks for: pcapng for the extension `.pcapng` in any case, pcap
    /// for all else.
    #[must_use]
    pub fn from_path(path: impl AsRef<Path>) -> Self {
        match path.as_ref().extension() {
            Some(extension) if extension.eq_ignore_ascii_case("pcapng") => Self::PcapNg,
            _ => Self::Pcap,
        }
    }
}
