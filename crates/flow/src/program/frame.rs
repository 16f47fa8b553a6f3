//! A packet's bytes as programs change them: in place, and at either end.
//!
//! What an operation on bytes is given. Packets of a chain are frames; so are [`Buffer`]s, for
//! tools, tests and templates.

use catena_engine::packet::Packet;

/// Bytes that may grow in front. Sizes of what does not fit are refused, and nothing changes.
pub trait Frame {
    /// The bytes.
    fn bytes(&self) -> &[u8];
    /// The bytes, to be changed.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// Grows by `count` bytes in front, of whatever content; `false` if there is no room.
    fn push_front(&mut self, count: usize) -> bool;
    /// Loses `count` bytes in front; `false` if nothing would be left.
    fn pull_front(&mut self, count: usize) -> bool;
    /// Is cut off behind `len` bytes, if it is longer.
    fn truncate(&mut self, len: usize);
    /// A number that travels with it.
    fn tag(&self) -> u16;
}

impl Frame for Packet {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.bytes()
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes_mut()
    }

    fn push_front(&mut self, count: usize) -> bool {
        self.push_front(count).is_ok()
    }

    fn pull_front(&mut self, count: usize) -> bool {
        self.pull_front(count).is_ok()
    }

    fn truncate(&mut self, len: usize) {
        if len < self.len() {
            // Shorter than it is and, by the check, not refused unless it is 0.
            let _ = self.set_len(len);
        }
    }

    fn tag(&self) -> u16 {
        self.tag()
    }
}

/// A frame of its own memory, with room for 128 bytes in front.
#[derive(Clone, Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    /// Its tag.
    pub tag: u16,
}

/// Room in front of a [`Buffer`].
const ROOM: usize = 128;

impl Buffer {
    /// A copy of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        let mut room = vec![0; ROOM];
        room.extend_from_slice(bytes);
        Self {
            bytes: room,
            start: ROOM,
            tag: 0,
        }
    }
}

impl Frame for Buffer {
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    fn push_front(&mut self, count: usize) -> bool {
        let start = self.start.checked_sub(count);
        self.start = start.unwrap_or(self.start);
        start.is_some()
    }

    fn pull_front(&mut self, count: usize) -> bool {
        let is_less = count < self.bytes().len();
        self.start += if is_less { count } else { 0 };
        is_less
    }

    fn truncate(&mut self, len: usize) {
        if len > 0 {
            self.bytes.truncate(self.start + len);
        }
    }

    fn tag(&self) -> u16 {
        self.tag
    }
}

/// Makes room for `count` bytes in front of byte `at`, of whatever content; `false` if there is no
/// room.
pub(super) fn open(frame: &mut dyn Frame, at: usize, count: usize) -> bool {
    if at > frame.bytes().len() || !frame.push_front(count) {
        return false;
    }
    frame.bytes_mut().copy_within(count..count + at, 0);
    true
}

/// Takes `count` bytes out from byte `at` on; `false` if there are not so many.
pub(super) fn close(frame: &mut dyn Frame, at: usize, count: usize) -> bool {
    if at + count >= frame.bytes().len() {
        return false;
    }
    frame.bytes_mut().copy_within(0..at, count);
    frame.pull_front(count)
}
