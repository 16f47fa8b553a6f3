//! The two formats of capture files, and what of them is accepted.

use std::path::Path;

/// Most interfaces that one pcapng section may describe.
///
/// Keeps the table of interfaces bounded (about 100 KiB) whatever the file claims.
pub const MAX_INTERFACE_COUNT: usize = 4096;

/// LINKTYPE_ETHERNET in the registry of link types (<https://www.tcpdump.org/linktypes.html>).
pub(super) const LINKTYPE_ETHERNET: u16 = 1;

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
