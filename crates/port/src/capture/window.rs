//! A sliding window over a file: the bounded buffer under the capture reader.
//!
//! ```text
//!   file   ......[ consumed | unread bytes | free ]......
//!   buffer       0          start          end    len
//! ```
//!
//! The reader asks for `fill(n)` bytes, looks at them, and consumes them. Memory grows to the
//! largest `n` ever asked for and no further; the reader keeps that bounded.

use std::io::{self, Read, Seek, SeekFrom};

/// Bytes read from the file at a time; large enough that system calls do not show in a replay.
const CHUNK_LEN: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Window<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
}

impl<R: Read + Seek> Window<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            buffer: vec![0; CHUNK_LEN],
            start: 0,
            end: 0,
            offset: 0,
        }
    }

    /// Offset in the file of the first unread byte.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The unread bytes that are in memory.
    pub(super) fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads until `len` unread bytes are in memory or the file ends; returns how many there are,
    /// at most `len`.
    pub(super) fn fill(&mut self, len: usize) -> io::Result<usize> {
        if self.start + len > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if len > self.buffer.len() {
                self.buffer.resize(len, 0);
            }
        }
        while self.end - self.start < len {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(read_len) => self.end += read_len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(len.min(self.end - self.start))
    }

    /// Steps over `len` unread bytes and returns them.
    ///
    /// # Panics
    ///
    /// If fewer than `len` bytes are unread; a caller has made sure with [`Self::fill`].
    pub(super) fn consume(&mut self, len: usize) -> &[u8] {
        assert!(
            len <= self.end - self.start,
            "consumed more than was filled"
        );
        let from = self.start;
        self.start += len;
        self.offset += len as u64;
        &self.buffer[from..self.start]
    }

    /// Steps over `len` bytes without holding them; returns how many there were, fewer than `len`
    /// only at the end of the file.
    pub(super) fn skip(&mut self, len: u64) -> io::Result<u64> {
        let mut left = len;
        while left > 0 {
            let step = usize::try_from(left).unwrap_or(CHUNK_LEN).min(CHUNK_LEN);
            let available = self.fill(step)?;
            if available == 0 {
                break;
            }
            self.consume(available);
            left -= available as u64;
        }
        Ok(len - left)
    }

    /// Goes back to the first byte of the file.
    pub(super) fn rewind(&mut self) -> io::Result<()> {
        self.input.seek(SeekFrom::Start(0))?;
        self.start = 0;
        self.end = 0;
        self.offset = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn memory_stays_bounded_while_skipping() {
        let mut window = Window::new(Cursor::new(vec![7u8; 10 * CHUNK_LEN + 3]));
        assert_eq!(
            window.skip(9 * CHUNK_LEN as u64).unwrap(),
            9 * CHUNK_LEN as u64
        );
        assert_eq!(window.offset(), 9 * CHUNK_LEN as u64);
        assert_eq!(window.buffer.len(), CHUNK_LEN);
        assert_eq!(window.skip(u64::MAX).unwrap(), CHUNK_LEN as u64 + 3);
        assert_eq!(window.fill(1).unwrap(), 0);
    }

    #[test]
    fn a_request_larger_than_the_buffer_keeps_the_unread_bytes() {
        let bytes: Vec<u8> = (0..3 * CHUNK_LEN)
            .map(|index| (index % 251) as u8)
            .collect();
        let mut window = Window::new(Cursor::new(bytes.clone()));
        window.fill(10).unwrap();
        window.consume(5);
        assert_eq!(window.fill(2 * CHUNK_LEN).unwrap(), 2 * CHUNK_LEN);
        assert_eq!(
            &window.unread()[..2 * CHUNK_LEN],
            &bytes[5..5 + 2 * CHUNK_LEN]
        );
    }
}
