//! Reads a line file: the header, then bits from any place, a piece at a time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use catena_pcs::line_file::{HEADER_LEN, Header};

use crate::commands::Failure;

/// Line bits that are read at once; whole bytes.
const PIECE_BITS: u64 = 8 << 20;

/// A line file that is open.
#[derive(Debug)]
pub(crate) struct LineReader {
    name: String,
    file: File,
    header: Header,
    present_bits: u64,
    trailing_octets: u64,
    piece: Vec<u8>,
}

/// Bits `offset..offset + len` of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

impl LineReader {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is no line file.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let fail = |error: std::io::Error| Failure::running(format!("{name}: {error}"));
        // To open a FIFO would wait for whoever writes to it.
        let metadata = std::fs::metadata(path).map_err(fail)?;
        if !metadata.is_file() {
            return Err(Failure::running(format!(
                "{name}: is no regular file, and a line file is read from more than one place; \
                 copy it into a file first"
            )));
        }
        let file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        let mut bytes = [0; HEADER_LEN];
        let len = HEADER_LEN.min(usize::try_from(metadata.len()).unwrap_or(HEADER_LEN));
        file.read_exact_at(&mut bytes[..len], 0).map_err(fail)?;
        let header = Header::parse(&bytes[..len]).map_err(|error| {
            Failure::running(format!(
                "{name}: header: {error}; `catena pcs encode` writes line files, and \
                 docs/reference/line-file.md says how to put bits from elsewhere into one"
            ))
        })?;
        let octets = metadata.len() - HEADER_LEN as u64;
        let held = 8 * octets;
        let line_octets = header.bit_count.saturating_add(header.offset.into());
        let line_octets = line_octets.div_ceil(8);
        Ok(Self {
            name,
            file,
            header,
            present_bits: held
                .saturating_sub(header.offset.into())
                .min(header.bit_count),
            trailing_octets: octets.saturating_sub(line_octets),
            piece: Vec::new(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Line bits in the file: less than the header says if it was cut off.
    pub(crate) fn present_bits(&self) -> u64 {
        self.present_bits
    }

    /// Octets behind the line, which belong to nothing.
    pub(crate) fn trailing_octets(&self) -> u64 {
        self.trailing_octets
    }

    /// Line bits from bit `from` on: `count` of them, less at the end or where more would be too
    /// much at once.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub(crate) fn bits(&mut self, from: u64, count: u64) -> Result<Bits<'_>, Failure> {
        let count = count
            .min(self.present_bits.saturating_sub(from))
            .min(PIECE_BITS);
        let first = u64::from(self.header.offset) + from;
        let (byte, offset) = (first / 8, (first % 8) as usize);
        // Fits: at most a piece.
        let len = count as usize;
        self.piece.resize((offset + len).div_ceil(8), 0);
        let at = HEADER_LEN as u64 + byte;
        self.file
            .read_exact_at(&mut self.piece, at)
            .map_err(|error| {
                Failure::running(format!(
                    "{}: reading at byte {at} failed: {error}",
                    self.name
                ))
            })?;
        Ok(Bits {
            bytes: &self.piece,
            offset,
            len,
        })
    }
}
