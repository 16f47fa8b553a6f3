//! Writes a line file: bits from a transmitter, silence and noise, with errors put into them.
//!
//! The header says how many bits there are, which is known at the end. Until then it says more than
//! any file holds, so that a file whose writing was broken off reads as cut off.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use catena_pcs::line_file::Header;
use catena_pcs::params::CODEWORD_BITS;
use catena_pcs::stage::{Direction, Transmit};

use super::bit_errors::{BitErrors, Random};
use crate::commands::Failure;

/// Line bits that are held before they are written.
const BUFFER_BITS: usize = 8 << 18;

/// A line file that is being written.
#[derive(Debug)]
pub(crate) struct LineWriter {
    name: String,
    file: File,
    header: Header,
    errors: BitErrors,
    flipped: u64,
    /// Line bits in whole bytes that were written.
    written_bits: u64,
    /// Bits up to `end` are waiting; the first ones may be those of a byte that is not full.
    buffer: Vec<u8>,
    end: usize,
}

impl LineWriter {
    /// Creates the file, or empties the one that is there. The line begins at bit `first_bit` of
    /// its first byte, 0 to 7.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub(crate) fn create(
        path: &Path,
        direction: Direction,
        first_bit: u8,
        errors: BitErrors,
    ) -> Result<Self, Failure> {
        let name = path.display().to_string();
        // Asked before it is opened: that would wait for whoever reads it.
        let kind = std::fs::metadata(path).map(|metadata| metadata.file_type());
        if kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket()) {
            return Err(Failure::running(format!(
                "{name}: is a pipe, and the header of a line file is written last; write to a file"
            )));
        }
        let file = File::create(path)
            .map_err(|error| Failure::running(format!("{name}: cannot be created: {error}")))?;
        let mut writer = Self {
            name,
            file,
            header: Header {
                direction,
                offset: first_bit,
                bit_count: u64::MAX,
            },
            errors,
            flipped: 0,
            written_bits: 0,
            buffer: vec![0; BUFFER_BITS / 8],
            end: first_bit.into(),
        };
        let header = writer.header.emit();
        writer.write(&header)?;
        writer.header.bit_count = 0;
        Ok(writer)
    }

    fn failure(&self, error: &std::io::Error) -> Failure {
        Failure::running(format!(
            "{}: writing stopped after {} line bits: {error}",
            self.name, self.written_bits
        ))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| self.failure(&error))
    }

    /// Writes whole bytes; the rest of the buffer is zero then.
    fn flush(&mut self) -> Result<(), Failure> {
        let whole = self.end / 8;
        let buffer = std::mem::take(&mut self.buffer);
        let written = self.write(&buffer[..whole]);
        self.buffer = buffer;
        written?;
        self.written_bits += 8 * whole as u64;
        let rest = self.end % 8;
        let open = if rest > 0 { self.buffer[whole] } else { 0 };
        self.buffer[..whole].fill(0);
        // Nothing but what was written lies behind `end`.
        if rest > 0 {
            self.buffer[whole] = 0;
        }
        self.buffer[0] = open;
        self.end = rest;
        Ok(())
    }

    /// Takes up bits that stand behind `end`.
    fn take(&mut self, count: usize) {
        self.flipped += self.errors.flip(&mut self.buffer, self.end, count);
        self.end += count;
        self.header.bit_count += count as u64;
    }

    fn make_room(&mut self) -> Result<usize, Failure> {
        if BUFFER_BITS - self.end < BUFFER_BITS / 2 {
            self.flush()?;
        }
        Ok(BUFFER_BITS - self.end)
    }

    /// Takes at most so many codewords' bits from a transmitter; returns how many bits came.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub(crate) fn pull(
        &mut self,
        transmitter: &mut dyn Transmit,
        codewords: usize,
    ) -> Result<usize, Failure> {
        let room = self.make_room()?;
        // A byte more, because the last may be begun.
        let bits = (codewords * CODEWORD_BITS).min(room);
        let reach = (self.end + bits).div_ceil(8);
        let count = transmitter.pull(&mut self.buffer[..reach], self.end);
        self.take(count);
        Ok(count)
    }

    /// Writes zeros, as while the laser is off, or noise.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub(crate) fn fill(&mut self, mut count: u64, noise: Option<Random>) -> Result<(), Failure> {
        let mut noise = noise;
        while count > 0 {
            let room = self.make_room()? as u64;
            // Fits: at most the buffer.
            let step = count.min(room) as usize;
            if let Some(random) = &mut noise {
                for bit in self.end..self.end + step {
                    self.buffer[bit / 8] |= ((random.bits() >> 63) as u8) << (bit % 8);
                }
            }
            self.take(step);
            count -= step as u64;
        }
        Ok(())
    }

    /// Line bits so far, and how many of them were flipped.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.header.bit_count, self.flipped)
    }

    /// Writes what is left, and the header as it is now known.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.flush()?;
        if self.end > 0 {
            let last = [self.buffer[0]];
            self.write(&last)?;
        }
        let header = self.header.emit();
        let written = self.file.write_all_at(&header, 0);
        written.map_err(|error| self.failure(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::reading::LineReader;

    #[test]
    fn bits_read_back_as_they_were_written_and_a_broken_file_reads_as_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.line");
        let none = BitErrors::new(0.0, 1);
        let mut writer = LineWriter::create(&path, Direction::Upstream, 5, none).unwrap();
        let mut wanted = Vec::new();
        for (count, seed) in [(3, 1), (1_000_000, 0), (2_500_001, 2), (66, 0)] {
            let noise = (seed > 0).then_some(Random::new(seed));
            let mut random = Random::new(seed);
            wanted.extend((0..count).map(|_| seed > 0 && random.bits() >> 63 == 1));
            writer.fill(count, noise).unwrap();
        }
        let torn = LineReader::open(&path).unwrap();
        assert!(torn.present_bits() < torn.header().bit_count);
        writer.finish().unwrap();
        let mut reader = LineReader::open(&path).unwrap();
        assert_eq!(reader.present_bits(), wanted.len() as u64);
        assert_eq!(reader.header().bit_count, wanted.len() as u64);
        let mut found = Vec::new();
        while found.len() < wanted.len() {
            let bits = reader.bits(found.len() as u64, 77_777).unwrap();
            let all = bits.offset..bits.offset + bits.len;
            found.extend(all.map(|bit| bits.bytes[bit / 8] >> (bit % 8) & 1 == 1));
        }
        assert!(found == wanted);
    }
}
