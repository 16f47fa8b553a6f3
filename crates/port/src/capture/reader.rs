//! Reads packets from a capture file, one at a time and in bounded memory.
//!
//! A file is not trusted. Every length is checked against a limit before memory or time is spent on
//! it, and every step consumes bytes, so that reading any input ends. All records before a damaged
//! one are delivered, then one error says what is wrong and where; after that the reader is at its
//! end until [`CaptureReader::rewind`].
//!
//! Where files end is judged strictly: at a border of records (or blocks) the end is clean,
//! anywhere else the last record is cut short.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::sync::Arc;

use pcap_parser::pcap::{
    parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified, parse_pcap_header,
};

use super::error::{CaptureError, CapturePart};
use super::format::LINKTYPE_ETHERNET;
use super::record::{MAX_RECORD_LEN, Record};
use super::section::{
    ENHANCED_PACKET, INTERFACE_DESCRIPTION, Located, PACKET, Refusal, SECTION_HEADER,
    SIMPLE_PACKET, Section, checked_data_len, u32_at,
};
use super::window::Window;

/// Bytes of the pcap file header.
const PCAP_HEADER_LEN: usize = 24;
/// Bytes of type and length, with which every pcapng block starts.
const BLOCK_HEADER_LEN: usize = 8;
/// Bytes of type, length and repeated length: the smallest pcapng block.
const BLOCK_LEN_MIN: usize = 12;
/// Most bytes of a pcapng block that is held in memory: a record of the largest size and as much
/// again for options. Other blocks are stepped over and may be of any size.
const BLOCK_LEN_MAX: usize = 2 * MAX_RECORD_LEN;
/// The pcapng byte-order magic as it reads in its own order.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// A capture file being read.
///
/// Holds one block in memory (at most 512 KiB), allocates nothing per record except for the options
/// of a pcapng packet, and copies nothing.
#[derive(Debug)]
pub struct CaptureReader<R = File> {
    file: Arc<str>,
    window: Window<R>,
    format: Format,
    record_count: u64,
    skipped_block_count: u64,
    has_ended: bool,
}

#[derive(Debug)]
enum Format {
    Pcap(PcapLayout),
    PcapNg(Section),
}

#[derive(Clone, Copy, Debug)]
struct PcapLayout {
    big_endian: bool,
    record_header_len: usize,
    /// Nanoseconds in a unit of the fraction of a second.
    fraction_unit_ns: u64,
    fcs_len: u32,
}

impl CaptureReader<File> {
    /// Opens a pcap or pcapng file; its contents decide which, not its name.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened, is not a capture, holds other packets than Ethernet, or is
    /// damaged before its first record.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Self::from_input(name, file),
            Err(error) => Err(CaptureError::Open {
                file: name.into(),
                source: Arc::new(error),
            }),
        }
    }
}

impl<R: Read + Seek> CaptureReader<R> {
    /// Reads a capture from any input, which stands at its first byte; `name` is for errors.
    ///
    /// Only [`Self::rewind`] seeks.
    ///
    /// # Errors
    ///
    /// As [`CaptureReader::open`].
    pub fn from_input(name: impl Into<Arc<str>>, input: R) -> Result<Self, CaptureError> {
        let mut reader = Self {
            file: name.into(),
            window: Window::new(input),
            format: Format::Pcap(PcapLayout {
                big_endian: false,
                record_header_len: 16,
                fraction_unit_ns: 1,
                fcs_len: 0,
            }),
            record_count: 0,
            skipped_block_count: 0,
            has_ended: false,
        };
        reader.read_preamble()?;
        Ok(reader)
    }

    /// The next record, or `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// When the file is cut short, damaged or unreadable here, or the next packet is not Ethernet.
    /// The error comes once; the calls after it return `None`.
    #[expect(
        clippy::should_implement_trait,
        reason = "a record borrows from the reader, which Iterator cannot express"
    )]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        if self.has_ended {
            return Ok(None);
        }
        let located = match self.format {
            Format::Pcap(layout) => self.locate_in_pcap(layout),
            Format::PcapNg(_) => self.locate_in_section(),
        };
        match located {
            Ok(Some((record_len, located))) => {
                self.record_count += 1;
                let bytes = self.window.consume(record_len);
                Ok(Some(Record {
                    timestamp_ns: located.timestamp_ns,
                    original_len: located.original_len,
                    data: &bytes[located.data_at..located.data_at + located.data_len],
                }))
            }
            Ok(None) => {
                self.has_ended = true;
                Ok(None)
            }
            Err(error) => {
                self.has_ended = true;
                Err(error)
            }
        }
    }

    /// Goes back to the first record, also after an error; the counts start again at zero.
    ///
    /// # Errors
    ///
    /// When the input cannot seek (a pipe, for one), or its beginning has changed for the worse.
    pub fn rewind(&mut self) -> Result<(), CaptureError> {
        self.has_ended = true;
        if let Err(error) = self.window.rewind() {
            return Err(self.read_error(error));
        }
        self.record_count = 0;
        self.skipped_block_count = 0;
        self.read_preamble()?;
        self.has_ended = false;
        Ok(())
    }

    /// Records delivered since the beginning or the last rewind.
    #[must_use]
    pub fn record_count(&self) -> u64 {
        self.record_count
    }

    /// pcapng blocks of other kinds than packets, interfaces and section headers, stepped over
    /// since the beginning or the last rewind.
    #[must_use]
    pub fn skipped_block_count(&self) -> u64 {
        self.skipped_block_count
    }

    /// Reads everything before the first packet, and judges it.
    fn read_preamble(&mut self) -> Result<(), CaptureError> {
        let available = self.fill(4)?;
        if available < 4 {
            let reason = match available {
                0 => "it is empty".to_string(),
                len => format!("it has only {len} bytes"),
            };
            return Err(CaptureError::NotACapture {
                file: self.file.clone(),
                reason,
            });
        }
        let magic = u32_at(self.window.unread(), 0, false);
        match magic {
            SECTION_HEADER => {
                self.read_section_header()?;
                self.next_packet_block()?;
                if let Format::PcapNg(section) = &self.format
                    && let Some(link_type) = section.foreign_link_type()
                {
                    return Err(self.link_type_error(link_type));
                }
                Ok(())
            }
            0xa1b2_c3d4 | 0xa1b2_3c4d | 0xa1b2_cd34 | 0xd4c3_b2a1 | 0x4d3c_b2a1 => {
                self.read_pcap_header()
            }
            _ => {
                let hint = match magic & 0xffff {
                    0x8b1f => ", gzip: decompress it first",
                    _ if magic == 0xfd2f_b528 => ", zstd: decompress it first",
                    _ => "",
                };
                let bytes = &self.window.unread()[..4];
                let reason = format!("it starts with the bytes {bytes:02x?}{hint}");
                Err(CaptureError::NotACapture {
                    file: self.file.clone(),
                    reason,
                })
            }
        }
    }

    fn read_pcap_header(&mut self) -> Result<(), CaptureError> {
        let part = CapturePart::FileHeader;
        self.need(PCAP_HEADER_LEN, part)?;
        let Ok((_, header)) = parse_pcap_header(&self.window.unread()[..PCAP_HEADER_LEN]) else {
            return Err(self.damaged(part, "its fields do not fit in it".into()));
        };
        if header.version_major != 2 {
            let (major, minor) = (header.version_major, header.version_minor);
            return Err(self.unsupported(part, format!("pcap version {major}.{minor}, not 2.x")));
        }
        // The pcap draft, section 4: the low 16 bits are the link type; bit 26 says that the top
        // four count the FCS in 16-bit words.
        let field = header.network.0.cast_unsigned();
        let link_type = field as u16;
        if link_type != LINKTYPE_ETHERNET {
            return Err(self.link_type_error(link_type));
        }
        self.format = Format::Pcap(PcapLayout {
            big_endian: header.is_bigendian(),
            record_header_len: if header.is_modified_format() { 24 } else { 16 },
            fraction_unit_ns: if header.is_nanosecond_precision() {
                1
            } else {
                1000
            },
            fcs_len: if field & 1 << 26 != 0 {
                (field >> 28) * 2
            } else {
                0
            },
        });
        self.window.consume(PCAP_HEADER_LEN);
        Ok(())
    }

    /// Finds the next pcap record; the first number is its whole length.
    fn locate_in_pcap(
        &mut self,
        layout: PcapLayout,
    ) -> Result<Option<(usize, Located)>, CaptureError> {
        if self.fill(1)? == 0 {
            return Ok(None);
        }
        let part = self.next_record();
        let header_len = layout.record_header_len;
        self.need(header_len, part)?;
        let captured_len = u32_at(self.window.unread(), 8, layout.big_endian);
        let data_len = match checked_data_len(captured_len) {
            Ok(data_len) => data_len,
            Err(refusal) => return Err(self.refused(part, refusal)),
        };
        let record_len = header_len + data_len;
        self.need(record_len, part)?;
        let parse = match (header_len, layout.big_endian) {
            (24, _) => parse_pcap_frame_modified,
            (_, true) => parse_pcap_frame_be,
            (_, false) => parse_pcap_frame,
        };
        let Ok((_, record)) = parse(&self.window.unread()[..record_len]) else {
            return Err(self.damaged(part, "its fields do not fit in it".into()));
        };
        // Cannot overflow: both factors are below 2^32, and the sum below 2^63.
        let timestamp_ns = u64::from(record.ts_sec) * 1_000_000_000
            + u64::from(record.ts_usec) * layout.fraction_unit_ns;
        let located = Located::new(
            timestamp_ns,
            header_len,
            data_len,
            record.origlen,
            layout.fcs_len,
        );
        Ok(Some((record_len, located)))
    }

    /// Finds the next packet of a pcapng file; the first number is its block's whole length.
    fn locate_in_section(&mut self) -> Result<Option<(usize, Located)>, CaptureError> {
        let Some(block_len) = self.next_packet_block()? else {
            return Ok(None);
        };
        let part = self.next_record();
        self.need_block(block_len, part)?;
        let Format::PcapNg(section) = &mut self.format else {
            return Ok(None);
        };
        match section.locate(&self.window.unread()[..block_len as usize]) {
            Ok(located) => Ok(Some((block_len as usize, located))),
            Err(refusal) => Err(self.refused(part, refusal)),
        }
    }

    /// Steps to the next packet block, which is left unread, and returns the length it claims.
    fn next_packet_block(&mut self) -> Result<Option<u32>, CaptureError> {
        loop {
            if self.fill(1)? == 0 {
                return Ok(None);
            }
            self.need(BLOCK_HEADER_LEN, self.block_part(None))?;
            let Format::PcapNg(section) = &self.format else {
                return Ok(None);
            };
            let block_type = section.u32_at(self.window.unread(), 0);
            let block_len = section.u32_at(self.window.unread(), 4);
            let part = self.block_part(Some(block_type));
            match block_type {
                SECTION_HEADER => self.read_section_header()?,
                INTERFACE_DESCRIPTION => self.read_interface(block_len)?,
                ENHANCED_PACKET | SIMPLE_PACKET => return Ok(Some(block_len)),
                PACKET => {
                    let reason = "it is of an obsolete kind; \
                                  convert the file with `editcap -F pcapng IN OUT`";
                    return Err(self.unsupported(part, reason.into()));
                }
                _ => self.skip_block(block_len, part)?,
            }
        }
    }

    fn read_section_header(&mut self) -> Result<(), CaptureError> {
        let part = self.block_part(Some(SECTION_HEADER));
        // The byte order of the length is known only after the magic behind it.
        self.need(BLOCK_LEN_MIN, part)?;
        let bytes = self.window.unread();
        let big_endian = match u32_at(bytes, 8, false) {
            BYTE_ORDER_MAGIC => false,
            magic if magic == BYTE_ORDER_MAGIC.swap_bytes() => true,
            magic => {
                let reason = format!("its byte-order magic is {magic:#010x}");
                return Err(self.damaged(part, reason));
            }
        };
        let block_len = u32_at(bytes, 4, big_endian);
        self.need_block_of(block_len, big_endian, part)?;
        match Section::parse(&self.window.unread()[..block_len as usize]) {
            Ok(section) => self.format = Format::PcapNg(section),
            Err(refusal) => return Err(self.refused(part, refusal)),
        }
        self.window.consume(block_len as usize);
        Ok(())
    }

    fn read_interface(&mut self, block_len: u32) -> Result<(), CaptureError> {
        let part = self.block_part(Some(INTERFACE_DESCRIPTION));
        self.need_block(block_len, part)?;
        if let Format::PcapNg(section) = &mut self.format
            && let Err(refusal) = section.add_interface(&self.window.unread()[..block_len as usize])
        {
            return Err(self.refused(part, refusal));
        }
        self.window.consume(block_len as usize);
        Ok(())
    }

    fn skip_block(&mut self, block_len: u32, part: CapturePart) -> Result<(), CaptureError> {
        self.check_block_len(block_len, part)?;
        let offset = self.window.offset();
        let skipped_len = match self.window.skip(u64::from(block_len)) {
            Ok(skipped_len) => skipped_len,
            Err(error) => return Err(self.read_error(error)),
        };
        if skipped_len < u64::from(block_len) {
            return Err(self.cut_short(part, offset, u64::from(block_len), skipped_len));
        }
        self.skipped_block_count += 1;
        Ok(())
    }

    /// Brings a whole block into memory and compares its two length fields.
    fn need_block(&mut self, block_len: u32, part: CapturePart) -> Result<(), CaptureError> {
        let big_endian = match &self.format {
            Format::PcapNg(section) => section.is_big_endian(),
            Format::Pcap(layout) => layout.big_endian,
        };
        self.need_block_of(block_len, big_endian, part)
    }

    fn need_block_of(
        &mut self,
        block_len: u32,
        big_endian: bool,
        part: CapturePart,
    ) -> Result<(), CaptureError> {
        self.check_block_len(block_len, part)?;
        let len = block_len as usize;
        if len > BLOCK_LEN_MAX {
            let reason = format!("it claims {len} bytes, more than the limit of {BLOCK_LEN_MAX}");
            return Err(self.damaged(part, reason));
        }
        self.need(len, part)?;
        let repeated_len = u32_at(self.window.unread(), len - 4, big_endian);
        if repeated_len != block_len {
            let reason = format!("its length is {block_len} in front and {repeated_len} behind");
            return Err(self.damaged(part, reason));
        }
        Ok(())
    }

    fn check_block_len(&self, block_len: u32, part: CapturePart) -> Result<(), CaptureError> {
        if (block_len as usize) < BLOCK_LEN_MIN || !block_len.is_multiple_of(4) {
            let reason = format!("its length {block_len} is not a multiple of 4 from 12 on");
            return Err(self.damaged(part, reason));
        }
        Ok(())
    }

    fn fill(&mut self, len: usize) -> Result<usize, CaptureError> {
        match self.window.fill(len) {
            Ok(available) => Ok(available),
            Err(error) => Err(self.read_error(error)),
        }
    }

    /// Brings `len` bytes into memory, or says that `part` is cut short.
    fn need(&mut self, len: usize, part: CapturePart) -> Result<(), CaptureError> {
        let available = self.fill(len)?;
        if available < len {
            let offset = self.window.offset();
            return Err(self.cut_short(part, offset, len as u64, available as u64));
        }
        Ok(())
    }

    fn next_record(&self) -> CapturePart {
        CapturePart::Record {
            ordinal: self.record_count + 1,
        }
    }

    fn block_part(&self, block_type: Option<u32>) -> CapturePart {
        CapturePart::Block {
            block_type,
            record_count: self.record_count,
        }
    }

    fn read_error(&self, error: io::Error) -> CaptureError {
        CaptureError::Read {
            file: self.file.clone(),
            offset: self.window.offset(),
            record_count: self.record_count,
            source: Arc::new(error),
        }
    }

    fn cut_short(
        &self,
        part: CapturePart,
        offset: u64,
        needed_len: u64,
        available_len: u64,
    ) -> CaptureError {
        CaptureError::CutShort {
            file: self.file.clone(),
            part,
            offset,
            record_count: self.record_count,
            needed_len,
            available_len,
        }
    }

    fn damaged(&self, part: CapturePart, reason: String) -> CaptureError {
        CaptureError::Damaged {
            file: self.file.clone(),
            part,
            offset: self.window.offset(),
            record_count: self.record_count,
            reason,
        }
    }

    fn unsupported(&self, part: CapturePart, reason: String) -> CaptureError {
        CaptureError::Unsupported {
            file: self.file.clone(),
            part,
            offset: self.window.offset(),
            record_count: self.record_count,
            reason,
        }
    }

    fn link_type_error(&self, link_type: u16) -> CaptureError {
        CaptureError::LinkType {
            file: self.file.clone(),
            link_type,
            record_count: self.record_count,
        }
    }

    fn refused(&self, part: CapturePart, refusal: Refusal) -> CaptureError {
        match refusal {
            Refusal::Damaged(reason) => self.damaged(part, reason),
            Refusal::LinkType(link_type) => self.link_type_error(link_type),
            Refusal::Unsupported(reason) => self.unsupported(part, reason),
        }
    }
}
