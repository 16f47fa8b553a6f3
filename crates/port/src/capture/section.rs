//! One pcapng section: its byte order, its interfaces, and the packets in its blocks.
//!
//! Works on whole blocks already in memory, whose two length fields the reader has compared. The
//! field-by-field parsing is pcap-parser's; times, link types and lengths are judged here.

use pcap_parser::OptionCode;
use pcap_parser::pcapng::{Block, parse_block_be, parse_block_le, parse_sectionheaderblock};

use super::clock::{Clock, DEFAULT_RESOLUTION};
use super::format::{LINKTYPE_ETHERNET, MAX_INTERFACE_COUNT};
use super::record::MAX_RECORD_LEN;

pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(super) const INTERFACE_DESCRIPTION: u32 = 1;
/// Obsolete since 2004 or so, and written by no tool of today.
pub(super) const PACKET: u32 = 2;
pub(super) const SIMPLE_PACKET: u32 = 3;
pub(super) const ENHANCED_PACKET: u32 = 6;

/// `if_fcslen`: bytes of FCS at the end of each packet (pcapng, section 4.2).
const OPTION_FCS_LEN: OptionCode = OptionCode(13);

/// Bytes of an Enhanced Packet Block before its packet data.
const ENHANCED_DATA_AT: usize = 28;
/// Bytes of a Simple Packet Block before its packet data.
const SIMPLE_DATA_AT: usize = 12;
/// Bytes after the data and options of any block: the repeated length.
const TRAILER_LEN: usize = 4;

/// Where in its block or record a packet lies, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Located {
    pub(super) timestamp_ns: u64,
    pub(super) original_len: u32,
    pub(super) data_at: usize,
    pub(super) data_len: usize,
}

impl Located {
    /// Takes the FCS off the packet and makes the lengths agree.
    pub(super) fn new(
        timestamp_ns: u64,
        data_at: usize,
        data_len: usize,
        original_len: u32,
        fcs_len: u32,
    ) -> Self {
        // Some writers understate the original length; what was captured was on the wire.
        let whole_len = (original_len as usize).max(data_len);
        let without_fcs = whole_len.saturating_sub(fcs_len as usize);
        Self {
            timestamp_ns,
            original_len: u32::try_from(without_fcs).unwrap_or(u32::MAX),
            data_at,
            data_len: data_len.min(without_fcs),
        }
    }
}

/// Why a block was refused.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The block contradicts itself or the section.
    Damaged(String),
    /// The block belongs to an interface that is not Ethernet.
    LinkType(u16),
    /// The block is of a version or kind that is not handled.
    Unsupported(String),
}

#[derive(Debug)]
struct Interface {
    link_type: u16,
    /// Zero for no limit.
    snap_len: u32,
    clock: Clock,
    fcs_len: u32,
}

/// The section being read.
#[derive(Debug)]
pub(super) struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
    /// For Simple Packet Blocks, which carry no time.
    timestamp_ns_last: u64,
}

impl Section {
    /// Starts a section from its whole header block.
    pub(super) fn parse(block: &[u8]) -> Result<Self, Refusal> {
        let Ok((_, header)) = parse_sectionheaderblock(block) else {
            return Err(Refusal::Damaged("its fields do not fit in it".into()));
        };
        if header.major_version != 1 {
            let (major, minor) = (header.major_version, header.minor_version);
            return Err(Refusal::Unsupported(format!(
                "pcapng version {major}.{minor}, not 1.x"
            )));
        }
        Ok(Self {
            big_endian: header.big_endian(),
            interfaces: vec![],
            timestamp_ns_last: 0,
        })
    }

    pub(super) fn is_big_endian(&self) -> bool {
        self.big_endian
    }

    /// Reads a `u32` of this section's byte order.
    pub(super) fn u32_at(&self, bytes: &[u8], at: usize) -> u32 {
        u32_at(bytes, at, self.big_endian)
    }

    /// The link type to complain about when interfaces are described and none is Ethernet.
    pub(super) fn foreign_link_type(&self) -> Option<u16> {
        let first = self.interfaces.first()?;
        let is_foreign = |interface: &Interface| interface.link_type != LINKTYPE_ETHERNET;
        self.interfaces
            .iter()
            .all(is_foreign)
            .then_some(first.link_type)
    }

    fn parse_block<'a>(&self, block: &'a [u8]) -> Result<Block<'a>, Refusal> {
        let parsed = if self.big_endian {
            parse_block_be(block)
        } else {
            parse_block_le(block)
        };
        match parsed {
            Ok((_, block)) => Ok(block),
            Err(_) => Err(Refusal::Damaged("its fields do not fit in it".into())),
        }
    }

    /// Adds the interface that a whole Interface Description Block describes.
    pub(super) fn add_interface(&mut self, block: &[u8]) -> Result<(), Refusal> {
        let Block::InterfaceDescription(description) = self.parse_block(block)? else {
            return Err(Refusal::Damaged(
                "its type changed while it was read".into(),
            ));
        };
        if self.interfaces.len() == MAX_INTERFACE_COUNT {
            let reason =
                format!("the section describes more than {MAX_INTERFACE_COUNT} interfaces");
            return Err(Refusal::Damaged(reason));
        }
        let mut interface = Interface {
            link_type: u16::try_from(description.linktype.0).unwrap_or(u16::MAX),
            snap_len: description.snaplen,
            clock: Clock {
                resolution: DEFAULT_RESOLUTION,
                offset_s: 0,
            },
            fcs_len: 0,
        };
        for option in &description.options {
            // The byte order of the offset is the section's; an option of another length than the
            // format's is passed over like an unknown one.
            match (option.code, option.as_bytes()) {
                (OptionCode::EndOfOpt, _) => break,
                (OptionCode::IfTsresol, Ok(&[resolution])) => {
                    interface.clock.resolution = resolution;
                }
                (OptionCode::IfTsoffset, Ok(bytes)) => {
                    if let Ok(bytes) = <[u8; 8]>::try_from(bytes) {
                        let from_bytes = if self.big_endian {
                            i64::from_be_bytes
                        } else {
                            i64::from_le_bytes
                        };
                        interface.clock.offset_s = from_bytes(bytes);
                    }
                }
                (OPTION_FCS_LEN, Ok(&[fcs_len])) => interface.fcs_len = u32::from(fcs_len),
                _ => {}
            }
        }
        self.interfaces.push(interface);
        Ok(())
    }

    /// Finds the packet in a whole packet block.
    pub(super) fn locate(&mut self, block: &[u8]) -> Result<Located, Refusal> {
        let located = match self.parse_block(block)? {
            Block::EnhancedPacket(packet) => {
                let interface = self.interface(packet.if_id)?;
                let data_len = checked_data_len(packet.caplen)?;
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                Located::new(
                    interface.clock.timestamp_ns(ticks),
                    ENHANCED_DATA_AT,
                    data_len,
                    packet.origlen,
                    interface.fcs_len,
                )
            }
            Block::SimplePacket(packet) => {
                // Section 4.4: of interface 0; the captured length is the lesser of the original
                // length and the interface's snapshot length.
                let interface = self.interface(0)?;
                let captured_len = match interface.snap_len {
                    0 => packet.origlen,
                    snap_len => packet.origlen.min(snap_len),
                };
                let data_len = checked_data_len(captured_len)?;
                let room_len = block.len() - SIMPLE_DATA_AT - TRAILER_LEN;
                if data_len > room_len {
                    let reason = format!("its {data_len} bytes of packet do not fit in it");
                    return Err(Refusal::Damaged(reason));
                }
                Located::new(
                    self.timestamp_ns_last,
                    SIMPLE_DATA_AT,
                    data_len,
                    packet.origlen,
                    interface.fcs_len,
                )
            }
            _ => {
                return Err(Refusal::Damaged(
                    "its type changed while it was read".into(),
                ));
            }
        };
        self.timestamp_ns_last = located.timestamp_ns;
        Ok(located)
    }

    /// The interface that a packet names, which must be Ethernet.
    fn interface(&self, index: u32) -> Result<&Interface, Refusal> {
        let Some(interface) = self.interfaces.get(index as usize) else {
            let count = self.interfaces.len();
            let reason = format!("it names interface {index} of a section that describes {count}");
            return Err(Refusal::Damaged(reason));
        };
        if interface.link_type != LINKTYPE_ETHERNET {
            return Err(Refusal::LinkType(interface.link_type));
        }
        Ok(interface)
    }
}

/// Applies the limit on record lengths.
pub(super) fn checked_data_len(captured_len: u32) -> Result<usize, Refusal> {
    let data_len = captured_len as usize;
    if data_len > MAX_RECORD_LEN {
        let reason = format!("it claims {data_len} bytes, more than the limit of {MAX_RECORD_LEN}");
        return Err(Refusal::Damaged(reason));
    }
    Ok(data_len)
}

/// Reads a `u32`; the caller has made sure that four bytes are there.
pub(super) fn u32_at(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    if big_endian {
        u32::from_be_bytes(field)
    } else {
        u32::from_le_bytes(field)
    }
}
