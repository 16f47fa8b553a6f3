//! Blocks of a pcapng file that is written (draft-ietf-opsawg-pcapng), little-endian.
//!
//! For the writer of captures, and for whoever writes records of its own kind. What is read goes
//! through `pcap-parser`.

use super::format::LINKTYPE_ETHERNET;
use super::record::{MAX_RECORD_LEN, Record};

/// The option of a packet that says which way it went (`epb_flags`).
pub const PACKET_FLAGS: u16 = 2;
/// The option with a comment for people.
pub const COMMENT: u16 = 1;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
pub(super) const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const END_OF_OPTIONS: u16 = 0;

/// Begins a section whose length is not known in advance: the first block of a file.
pub fn section(out: &mut Vec<u8>) {
    let start = begin_block(out, SECTION);
    out.extend(BYTE_ORDER.to_le_bytes());
    out.extend(1_u16.to_le_bytes());
    out.extend(0_u16.to_le_bytes());
    out.extend((-1_i64).to_le_bytes());
    put_option(out, 4, b"catena"); // shb_userappl
    put_option(out, END_OF_OPTIONS, b"");
    end_block(out, start);
}

/// Describes the next interface of the section, by a name that is cut to 255 bytes.
pub fn interface(out: &mut Vec<u8>, name: &str) {
    let start = begin_block(out, INTERFACE);
    out.extend(LINKTYPE_ETHERNET.to_le_bytes());
    out.extend(0_u16.to_le_bytes());
    out.extend((MAX_RECORD_LEN as u32).to_le_bytes());
    put_option(out, 2, &name.as_bytes()[..name.floor_char_boundary(255)]); // if_name
    put_option(out, 9, &[9]); // if_tsresol: 10^-9 s
    put_option(out, END_OF_OPTIONS, b"");
    end_block(out, start);
}

/// A record of interface number `interface`, with options, by code and value.
pub fn packet(out: &mut Vec<u8>, interface: u32, record: &Record<'_>, options: &[(u16, &[u8])]) {
    let start = begin_block(out, ENHANCED_PACKET);
    let (time, data) = (record.timestamp_ns, record.data);
    let (high, low) = ((time >> 32) as u32, time as u32);
    // Fits: a record is of limited length.
    let captured_len = data.len() as u32;
    for field in [interface, high, low, captured_len, record.original_len] {
        out.extend(field.to_le_bytes());
    }
    out.extend_from_slice(data);
    if !options.is_empty() {
        put_padding(out, data.len());
        for (code, value) in options {
            put_option(out, *code, value);
        }
        put_option(out, END_OF_OPTIONS, b"");
    }
    end_block(out, start);
}

/// Appends an option of a block, padded; its value is cut to what a length can say.
fn put_option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    put_padding(out, value.len());
}

/// Pads a field of `len` bytes to 32 bits.
fn put_padding(out: &mut Vec<u8>, len: usize) {
    out.resize(out.len() + len.next_multiple_of(4) - len, 0);
}

/// Starts a block; the returned place goes to [`end_block`].
fn begin_block(out: &mut Vec<u8>, block_type: u32) -> usize {
    let start = out.len();
    out.extend(block_type.to_le_bytes());
    out.extend(0_u32.to_le_bytes());
    start
}

/// Pads the block that began at `start` and sets both of its length fields.
fn end_block(out: &mut Vec<u8>, start: usize) {
    let body_len = out.len() - start;
    out.resize(start + body_len.next_multiple_of(4), 0);
    // Fits: a block is a record of limited length and a few fields.
    let block_len = ((out.len() - start) as u32 + 4).to_le_bytes();
    out.extend(block_len);
    out[start + 4..start + 8].copy_from_slice(&block_len);
}
