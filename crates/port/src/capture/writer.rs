//! Writes packets to a capture file.
//!
//! Records gather in memory and go to the file in large writes. The file is valid at every moment
//! that the writer is not in the middle of a write: the header goes out at once, and only whole
//! records are handed over. When a write fails half-way (a full disk), the file is cut back to the
//! last whole record, and the writer closes:
//!
//! | state | `write`, `flush` | on failure | `finish` |
//! |---|---|---|---|
//! | open | gathers, writes | cuts back, becomes closed | writes the rest, reports counts |
//! | closed | returns the error that closed it | stays closed | returns that error |
//!
//! There is no way back from closed: a file with a gap in it would look whole.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use super::error::CaptureError;
use super::format::{CaptureFormat, LINKTYPE_ETHERNET};
use super::pcapng;
use super::record::{Direction, MAX_RECORD_LEN, Record};

/// Bytes gathered before they are written; large enough that system calls do not show, small enough
/// that a reader of the growing file is not far behind.
pub(super) const GATHER_LEN: usize = 64 * 1024;

const NS_PER_S: u64 = 1_000_000_000;

/// Nanosecond magic of pcap, read little-endian.
const PCAP_MAGIC_NS: u32 = 0xa1b2_3c4d;

/// What the writer writes to: a file, or in tests a file that fills up.
pub(crate) trait Sink: Write + Send + fmt::Debug {
    /// Cuts the file to `len` bytes.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
}

impl Sink for File {
    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}

/// What a finished capture file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureSummary {
    /// Records in the file; of one that was gone on with ([`Resumption`](super::Resumption)), those
    /// of this writer.
    pub record_count: u64,
    /// Bytes in the file, headers included.
    pub file_len: u64,
}

impl CaptureSummary {
    /// What nobody has written.
    pub(super) const NONE: Self = Self {
        record_count: 0,
        file_len: 0,
    };
}

/// A capture file being written.
///
/// Dropping a writer writes what it has gathered and ignores errors; [`Self::finish`] reports them.
#[derive(Debug)]
pub struct CaptureWriter {
    file: Arc<str>,
    format: CaptureFormat,
    sink: Box<dyn Sink>,
    /// Whole records that are not in the file yet.
    gathered: Vec<u8>,
    /// Where each gathered record ends in `gathered`.
    record_ends: Vec<usize>,
    /// What the file held before.
    before: CaptureSummary,
    /// Bytes and records in the file.
    written: CaptureSummary,
    /// Why the writer is closed.
    closed_by: Option<CaptureError>,
}

impl CaptureWriter {
    /// Creates the file, or empties the one that is there, and writes its header.
    ///
    /// The interface in a pcapng file is named `catena`.
    ///
    /// # Errors
    ///
    /// When the file cannot be created or its header cannot be written.
    pub fn create(path: impl AsRef<Path>, format: CaptureFormat) -> Result<Self, CaptureError> {
        Self::create_named(path, format, "catena")
    }

    /// As [`Self::create`], with the name of the interface for a pcapng file, cut to 255 bytes;
    /// pcap has no room for a name.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    pub fn create_named(
        path: impl AsRef<Path>,
        format: CaptureFormat,
        interface_name: &str,
    ) -> Result<Self, CaptureError> {
        Self::create_by(path.as_ref(), (format, interface_name), |path| {
            File::create(path)
        })
    }

    /// As [`Self::create_named`], with another way to open the file, empty.
    pub(crate) fn create_by(
        path: &Path,
        (format, interface_name): (CaptureFormat, &str),
        open: impl FnOnce(&Path) -> io::Result<File>,
    ) -> Result<Self, CaptureError> {
        let name: Arc<str> = path.display().to_string().into();
        match open(path) {
            Ok(file) => Self::start(name, Box::new(file), format, interface_name),
            Err(error) => Err(CaptureError::Create {
                file: name,
                source: Arc::new(error),
            }),
        }
    }

    /// Writes the header to an empty sink.
    pub(crate) fn start(
        file: Arc<str>,
        sink: Box<dyn Sink>,
        format: CaptureFormat,
        interface_name: &str,
    ) -> Result<Self, CaptureError> {
        let mut writer = Self::behind(file, sink, format, CaptureSummary::NONE);
        writer.gathered.extend(header(format, interface_name));
        match writer.flush() {
            Ok(()) => Ok(writer),
            Err(
                CaptureError::Write { file, source, .. }
                | CaptureError::WriteTorn { file, source, .. },
            ) => Err(CaptureError::Create { file, source }),
            Err(error) => Err(error),
        }
    }

    /// Writes on behind what a sink holds, where it stands.
    pub(super) fn behind(
        file: Arc<str>,
        sink: Box<dyn Sink>,
        format: CaptureFormat,
        before: CaptureSummary,
    ) -> Self {
        Self {
            file,
            format,
            sink,
            gathered: Vec::with_capacity(GATHER_LEN),
            record_ends: vec![],
            before,
            written: CaptureSummary {
                record_count: 0,
                ..before
            },
            closed_by: None,
        }
    }

    /// What the file held when this writer went on in it.
    #[must_use]
    pub fn held_before(&self) -> CaptureSummary {
        self.before
    }

    /// Appends a record: `data` is the packet without FCS, `original_len` its length on the wire
    /// (raised to the length of `data` if it is less).
    ///
    /// The record is in the file after a later [`Self::flush`] or [`Self::finish`].
    ///
    /// # Errors
    ///
    /// When `data` is longer than [`MAX_RECORD_LEN`] or the time does not fit pcap, the record is
    /// left out and the writer stays open. When writing fails or has failed before, the error names
    /// the file and counts the records in it; the writer is closed and the call costs a clone of
    /// the error.
    pub fn write(
        &mut self,
        timestamp_ns: u64,
        data: &[u8],
        original_len: u32,
    ) -> Result<(), CaptureError> {
        self.write_directed(timestamp_ns, data, original_len, None)
    }

    /// As [`Self::write`], with the way the packet went, which pcapng keeps (`epb_flags`) and pcap
    /// has no room for.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub fn write_directed(
        &mut self,
        timestamp_ns: u64,
        data: &[u8],
        original_len: u32,
        direction: Option<Direction>,
    ) -> Result<(), CaptureError> {
        if let Some(error) = &self.closed_by {
            return Err(error.clone());
        }
        if data.len() > MAX_RECORD_LEN {
            return Err(CaptureError::RecordTooLong {
                file: self.file.clone(),
                len: data.len(),
            });
        }
        // Fits: the limit on records is far below `u32::MAX`.
        let captured_len = data.len() as u32;
        let original_len = original_len.max(captured_len);
        match self.format {
            CaptureFormat::Pcap => {
                let Ok(seconds) = u32::try_from(timestamp_ns / NS_PER_S) else {
                    return Err(CaptureError::TimeTooLate {
                        file: self.file.clone(),
                        timestamp_ns,
                    });
                };
                let fraction_ns = (timestamp_ns % NS_PER_S) as u32;
                for field in [seconds, fraction_ns, captured_len, original_len] {
                    self.gathered.extend(field.to_le_bytes());
                }
                self.gathered.extend_from_slice(data);
            }
            CaptureFormat::PcapNg => {
                // Bits 0 and 1: 01 inbound, 10 outbound.
                let flags = direction.map(|direction| match direction {
                    Direction::Received => 1_u32.to_le_bytes(),
                    Direction::Sent => 2_u32.to_le_bytes(),
                });
                let record = Record {
                    timestamp_ns,
                    original_len,
                    data,
                };
                let option = flags
                    .as_ref()
                    .map(|flags| (pcapng::PACKET_FLAGS, &flags[..]));
                pcapng::packet(&mut self.gathered, 0, &record, option.as_slice());
            }
        }
        self.record_ends.push(self.gathered.len());
        if self.gathered.len() >= GATHER_LEN {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Hands all gathered records to the operating system.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub fn flush(&mut self) -> Result<(), CaptureError> {
        if let Some(error) = &self.closed_by {
            return Err(error.clone());
        }
        let mut done_len = 0;
        while done_len < self.gathered.len() {
            let error = match self.sink.write(&self.gathered[done_len..]) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(step_len) => {
                    done_len += step_len;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            return Err(self.close(done_len, error));
        }
        self.written.file_len += self.gathered.len() as u64;
        self.written.record_count += self.record_ends.len() as u64;
        self.gathered.clear();
        self.record_ends.clear();
        Ok(())
    }

    /// Writes what is left and closes the file; says what it holds. Does not wait for the disk.
    ///
    /// # Errors
    ///
    /// The error that closed the writer, or the one that closes it now.
    pub fn finish(mut self) -> Result<CaptureSummary, CaptureError> {
        self.flush()?;
        Ok(self.written)
    }

    /// Records in the file; fewer than were given to [`Self::write`] by those still gathered.
    #[must_use]
    pub fn written_record_count(&self) -> u64 {
        self.written.record_count
    }

    /// Whether writing has failed, so that every later call returns the same error.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed_by.is_some()
    }

    /// Closes the writer after `done_len` of the gathered bytes went out and then `error` came.
    fn close(&mut self, done_len: usize, error: io::Error) -> CaptureError {
        let whole_count = self.record_ends.partition_point(|&end| end <= done_len);
        let whole_len = match whole_count {
            0 => 0,
            count => self.record_ends[count - 1],
        };
        self.written.file_len += whole_len as u64;
        self.written.record_count += whole_count as u64;
        let (file, source) = (self.file.clone(), Arc::new(error));
        let record_count = self.written.record_count;
        let truncated = match done_len - whole_len {
            0 => Ok(()),
            _ => self.sink.truncate(self.written.file_len),
        };
        let error = match truncated {
            Ok(()) => CaptureError::Write {
                file,
                record_count,
                source,
            },
            Err(error) => {
                let truncate_error = Arc::new(error);
                CaptureError::WriteTorn {
                    file,
                    record_count,
                    source,
                    truncate_error,
                }
            }
        };
        self.gathered = vec![];
        self.record_ends = vec![];
        self.closed_by = Some(error.clone());
        error
    }
}

impl Drop for CaptureWriter {
    fn drop(&mut self) {
        // A caller who wants the error has called `finish`, after which nothing is left to write.
        let _ = self.flush();
    }
}

/// What a file begins with.
pub(super) fn header(format: CaptureFormat, interface_name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    match format {
        CaptureFormat::Pcap => put_pcap_header(&mut bytes),
        CaptureFormat::PcapNg => {
            pcapng::section(&mut bytes);
            pcapng::interface(&mut bytes, interface_name);
        }
    }
    bytes
}

fn put_pcap_header(out: &mut Vec<u8>) {
    out.extend(PCAP_MAGIC_NS.to_le_bytes());
    out.extend(2u16.to_le_bytes());
    out.extend(4u16.to_le_bytes());
    let snap_len = MAX_RECORD_LEN as u32;
    for field in [0, 0, snap_len, u32::from(LINKTYPE_ETHERNET)] {
        out.extend(field.to_le_bytes());
    }
}
