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
mod format;
pub mod pcapng;
mod reader;
mod record;
mod resume;
mod section;
mod window;
mod writer;

#[cfg(test)]
mod reading_tests;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod writing_tests;

pub use error::{CaptureError, CapturePart};
pub use format::{CaptureFormat, MAX_INTERFACE_COUNT};
pub use reader::CaptureReader;
pub use record::{Direction, MAX_RECORD_LEN, Record};
pub use resume::Resumption;
pub use writer::{CaptureSummary, CaptureWriter};

#[cfg(test)]
pub(crate) use writer::Sink;
