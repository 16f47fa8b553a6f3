//! One packet of a capture file, as it is read and written.

/// Most bytes of packet data in one record.
///
/// The same limit that libpcap sets (262,144): room for any Ethernet frame and for the 64 KiB
/// segments that a kernel hands out when offloads are on, small enough that a damaged length field
/// cannot make the reader allocate without bound.
pub const MAX_RECORD_LEN: usize = 256 * 1024;

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
