//! Capture files built field by field, independent of the writer, in either byte order.

use std::io::Cursor;

use super::{CaptureError, CaptureReader};

pub(super) const SHB: u32 = 0x0a0d_0d0a;
pub(super) const IDB: u32 = 1;
pub(super) const SPB: u32 = 3;
pub(super) const EPB: u32 = 6;

/// A record that outlives its reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) timestamp_ns: u64,
    pub(super) original_len: u32,
    pub(super) data: Vec<u8>,
}

pub(super) fn owned(timestamp_ns: u64, original_len: u32, data: &[u8]) -> Owned {
    Owned {
        timestamp_ns,
        original_len,
        data: data.to_vec(),
    }
}

/// Bytes under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Bytes {
    pub(super) bytes: Vec<u8>,
    pub(super) big_endian: bool,
}

impl Bytes {
    pub(super) fn new(big_endian: bool) -> Self {
        Self {
            bytes: vec![],
            big_endian,
        }
    }

    pub(super) fn u16(mut self, value: u16) -> Self {
        self.bytes.extend(if self.big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        });
        self
    }

    pub(super) fn u32(mut self, value: u32) -> Self {
        self.bytes.extend(if self.big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        });
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Self {
        self.bytes.extend(if self.big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        });
        self
    }

    pub(super) fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(super) fn padded(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    pub(super) fn pcap_header(self, magic: u32, link_type: u32) -> Self {
        self.u32(magic)
            .u16(2)
            .u16(4)
            .u32(0)
            .u32(0)
            .u32(65535)
            .u32(link_type)
    }

    pub(super) fn pcap_record(
        self,
        seconds: u32,
        fraction: u32,
        original_len: u32,
        data: &[u8],
    ) -> Self {
        self.u32(seconds)
            .u32(fraction)
            .u32(data.len() as u32)
            .u32(original_len)
            .raw(data)
    }

    pub(super) fn block(self, block_type: u32, body: &Self) -> Self {
        assert_eq!(self.big_endian, body.big_endian);
        let body_len = body.bytes.len().next_multiple_of(4);
        let block_len = body_len as u32 + 12;
        self.u32(block_type)
            .u32(block_len)
            .padded(&body.bytes)
            .u32(block_len)
    }

    pub(super) fn section(self) -> Self {
        let body = Self::new(self.big_endian)
            .u32(0x1a2b_3c4d)
            .u16(1)
            .u16(0)
            .u64(u64::MAX);
        self.block(SHB, &body)
    }

    pub(super) fn interface(self, link_type: u16, snap_len: u32, options: &[(u16, &[u8])]) -> Self {
        let mut body = Self::new(self.big_endian)
            .u16(link_type)
            .u16(0)
            .u32(snap_len);
        for (code, value) in options {
            body = body.u16(*code).u16(value.len() as u16).padded(value);
        }
        self.block(IDB, &body)
    }

    pub(super) fn enhanced(
        self,
        interface: u32,
        ticks: u64,
        original_len: u32,
        data: &[u8],
    ) -> Self {
        let body = Self::new(self.big_endian)
            .u32(interface)
            .u32((ticks >> 32) as u32)
            .u32(ticks as u32)
            .u32(data.len() as u32)
            .u32(original_len)
            .padded(data);
        self.block(EPB, &body)
    }
}

/// Reads a whole file from memory: its records, and the error after them if there is one.
pub(super) fn read_all(bytes: &[u8]) -> (Vec<Owned>, Option<CaptureError>) {
    match CaptureReader::from_input("sample", Cursor::new(bytes)) {
        Ok(mut reader) => drain(&mut reader),
        Err(error) => (vec![], Some(error)),
    }
}

pub(super) fn drain<R: std::io::Read + std::io::Seek>(
    reader: &mut CaptureReader<R>,
) -> (Vec<Owned>, Option<CaptureError>) {
    let mut records = vec![];
    loop {
        match reader.next() {
            Ok(Some(record)) => {
                records.push(owned(record.timestamp_ns, record.original_len, record.data));
            }
            Ok(None) => return (records, None),
            Err(error) => {
                assert_eq!(error.record_count(), records.len() as u64, "{error}");
                assert!(matches!(reader.next(), Ok(None)), "the error comes once");
                return (records, Some(error));
            }
        }
    }
}

/// Reads a whole file that must be sound.
pub(super) fn read_sound(bytes: &[u8]) -> Vec<Owned> {
    let (records, error) = read_all(bytes);
    assert!(error.is_none(), "{}", error.unwrap());
    records
}
