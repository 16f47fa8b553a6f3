//! What can be wrong with a capture file, said so that its owner can act.
//!
//! Every error names the file. An error about its contents also names the byte where the damage
//! starts and counts the records before it. Errors are cheap to clone: a closed writer hands out
//! the same one for ever.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::record::MAX_RECORD_LEN;

/// Why a capture file could not be opened, read or written.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file cannot be opened for reading.
    #[error("{file}: cannot be opened: {source}")]
    Open {
        /// The file's name.
        file: Arc<str>,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// The first bytes are those of no capture file.
    #[error("{file}: is not a capture file: {reason}")]
    NotACapture {
        /// The file's name.
        file: Arc<str>,
        /// What was found instead.
        reason: String,
    },
    /// The packets are not Ethernet frames.
    #[error(
        "{file}: holds packets of link type {link_type} ({}), only Ethernet (1) is supported",
        link_type_name(*link_type)
    )]
    LinkType {
        /// The file's name.
        file: Arc<str>,
        /// The number in the registry of link types.
        link_type: u16,
        /// Records delivered before.
        record_count: u64,
    },
    /// The file is well formed and holds something that this reader does not handle.
    #[error("{file}: {part} at byte {offset} is not supported: {reason}")]
    Unsupported {
        /// The file's name.
        file: Arc<str>,
        /// What is not supported.
        part: CapturePart,
        /// Where it starts.
        offset: u64,
        /// Records delivered before.
        record_count: u64,
        /// What it is, and what can be done.
        reason: String,
    },
    /// The file ends in the middle of something.
    #[error(
        "{file}: {part} at byte {offset} is cut short \
         (needs {needed_len} bytes, file has {available_len} more)"
    )]
    CutShort {
        /// The file's name.
        file: Arc<str>,
        /// What is cut.
        part: CapturePart,
        /// Where it starts.
        offset: u64,
        /// Records delivered before.
        record_count: u64,
        /// Its length as far as is known; at least its fixed header.
        needed_len: u64,
        /// Bytes from `offset` to the end of the file.
        available_len: u64,
    },
    /// The bytes contradict themselves or the format.
    #[error("{file}: {part} at byte {offset} is damaged: {reason}")]
    Damaged {
        /// The file's name.
        file: Arc<str>,
        /// What is damaged.
        part: CapturePart,
        /// Where it starts.
        offset: u64,
        /// Records delivered before.
        record_count: u64,
        /// The contradiction.
        reason: String,
    },
    /// Reading or seeking failed.
    #[error("{file}: reading at byte {offset} failed after {}: {source}", Count(*record_count))]
    Read {
        /// The file's name.
        file: Arc<str>,
        /// Where the unread part starts.
        offset: u64,
        /// Records delivered before.
        record_count: u64,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// The file that was being written cannot be gone on with.
    #[error("{file}: cannot be gone on with: {source}")]
    Resume {
        /// The file's name.
        file: Arc<str>,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// The file cannot be created, or its header cannot be written.
    #[error("{file}: cannot be created: {source}")]
    Create {
        /// The file's name.
        file: Arc<str>,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// Writing failed and the writer is closed; the file holds `record_count` whole records.
    #[error("{file}: writing stopped after {}: {source}", Count(*record_count))]
    Write {
        /// The file's name.
        file: Arc<str>,
        /// Whole records in the file.
        record_count: u64,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// Writing failed, and so did cutting off the half-written record.
    #[error(
        "{file}: writing stopped after {}: {source}; \
         the file may end in part of a record: {truncate_error}",
        Count(*record_count)
    )]
    WriteTorn {
        /// The file's name.
        file: Arc<str>,
        /// Whole records in the file.
        record_count: u64,
        /// Why writing stopped.
        source: Arc<io::Error>,
        /// Why the file could not be shortened.
        truncate_error: Arc<io::Error>,
    },
    /// The record has more bytes than a record may have; the writer stays open.
    #[error("{file}: a record of {len} bytes is longer than the limit of {MAX_RECORD_LEN}")]
    RecordTooLong {
        /// The file's name.
        file: Arc<str>,
        /// Bytes in the record.
        len: usize,
    },
    /// The time does not fit the format; the writer stays open.
    #[error("{file}: time {timestamp_ns} ns is after 2106, too late for pcap (use .pcapng)")]
    TimeTooLate {
        /// The file's name.
        file: Arc<str>,
        /// The time asked for.
        timestamp_ns: u64,
    },
}

impl CaptureError {
    /// Whole records delivered or written before the error; zero where none could be.
    #[must_use]
    pub fn record_count(&self) -> u64 {
        match self {
            Self::LinkType { record_count, .. }
            | Self::Unsupported { record_count, .. }
            | Self::CutShort { record_count, .. }
            | Self::Damaged { record_count, .. }
            | Self::Read { record_count, .. }
            | Self::Write { record_count, .. }
            | Self::WriteTorn { record_count, .. } => *record_count,
            Self::Open { .. }
            | Self::NotACapture { .. }
            | Self::Create { .. }
            | Self::Resume { .. }
            | Self::RecordTooLong { .. }
            | Self::TimeTooLate { .. } => 0,
        }
    }

    /// Byte of the file where the trouble starts, for an error about the file's contents.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::Unsupported { offset, .. }
            | Self::CutShort { offset, .. }
            | Self::Damaged { offset, .. }
            | Self::Read { offset, .. } => Some(*offset),
            _ => None,
        }
    }
}

/// The part of a capture file that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapturePart {
    /// The header of the file.
    FileHeader,
    /// A packet; `ordinal` counts from one.
    Record {
        /// Number of the record in the file.
        ordinal: u64,
    },
    /// A pcapng block that holds no packet, or whose type could not be read.
    Block {
        /// Its type, where known.
        block_type: Option<u32>,
        /// Records delivered before it.
        record_count: u64,
    },
}

impl fmt::Display for CapturePart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::FileHeader => formatter.write_str("file header"),
            Self::Record { ordinal } => write!(formatter, "record {ordinal}"),
            Self::Block {
                block_type,
                record_count,
            } => {
                match block_type {
                    Some(0x0a0d_0d0a) => formatter.write_str("section header block")?,
                    Some(1) => formatter.write_str("interface description block")?,
                    Some(2) => formatter.write_str("packet block")?,
                    Some(other) => write!(formatter, "block of type {other:#010x}")?,
                    None => formatter.write_str("block")?,
                }
                write!(formatter, " (after {})", Count(record_count))
            }
        }
    }
}

/// A number of records, in words that agree with it.
struct Count(u64);

impl fmt::Display for Count {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0 == 1 { "" } else { "s" };
        write!(formatter, "{} record{plural}", self.0)
    }
}

/// Names of the link types that people meet, from the registry.
fn link_type_name(link_type: u16) -> &'static str {
    match link_type {
        0 => "BSD loopback, NULL",
        1 => "Ethernet",
        6 => "Token Ring, IEEE802_5",
        9 => "PPP",
        10 => "FDDI",
        50 => "PPP in HDLC framing, PPP_HDLC",
        51 => "PPPoE, PPP_ETHER",
        101 => "raw IP, RAW",
        104 => "Cisco HDLC, C_HDLC",
        105 => "Wi-Fi, IEEE802_11",
        107 => "Frame Relay, FRELAY",
        108 => "OpenBSD loopback, LOOP",
        113 => "Linux cooked capture, LINUX_SLL",
        117 => "pf log, PFLOG",
        127 => "Wi-Fi with radiotap, IEEE802_11_RADIOTAP",
        147..=162 => "private use, USER0 to USER15",
        187 => "Bluetooth HCI, BLUETOOTH_HCI_H4",
        189 => "USB, USB_LINUX",
        192 => "PPI",
        195 => "IEEE802_15_4_WITHFCS",
        220 => "USB, USB_LINUX_MMAPPED",
        227 => "CAN, CAN_SOCKETCAN",
        228 => "raw IPv4, IPV4",
        229 => "raw IPv6, IPV6",
        239 => "Linux netfilter log, NFLOG",
        240 => "Hilscher netANALYZER, NETANALYZER",
        249 => "USB, USBPCAP",
        252 => "Wireshark upper PDU, WIRESHARK_UPPER_PDU",
        253 => "Linux netlink, NETLINK",
        276 => "Linux cooked capture v2, LINUX_SLL2",
        _ => "one without a common name",
    }
}
