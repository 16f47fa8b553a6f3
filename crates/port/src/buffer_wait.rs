//! Waiting for a buffer instead of losing a packet, for ports that can wait: files and generators.
//!
//! [`RxBurst::has_buffer`] says no for two reasons: every buffer of that size is in use, or there
//! is no such size. Only asking for the buffer tells which, and that counts a drop. So a length
//! that never had a buffer is waited for first, and asked for only when pools have had ample time.

use catena_engine::nf::DropReason;
use catena_engine::port::RxBurst;

/// Calls without a buffer after which a length that never had one is asked for: thousands of turns,
/// in which a pool that is merely busy has given a buffer back.
const CALLS_BEFORE_ASKING: u32 = 4096;

/// What to do about the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// A buffer is there.
    Ready,
    /// None is free now: keep the packet and try again in a later turn.
    Busy,
    /// There will never be one. Counted as `too_large`; go on with the next packet.
    Never,
}

/// What is known of the pools so far.
#[derive(Clone, Copy, Debug)]
pub struct BufferWait {
    /// The longest packet that has had a buffer.
    longest: usize,
    /// The shortest packet for which there is none.
    too_long: usize,
    calls: u32,
}

impl BufferWait {
    /// Nothing is known yet.
    #[expect(clippy::new_without_default, reason = "a default would say no more")]
    pub const fn new() -> Self {
        Self {
            longest: 0,
            too_long: usize::MAX,
            calls: 0,
        }
    }

    /// Whether there is a buffer for a packet of `len` bytes.
    #[inline]
    pub fn ask(&mut self, burst: &mut RxBurst<'_>, len: usize) -> Buffer {
        if burst.has_buffer(len) {
            self.longest = self.longest.max(len);
            self.calls = 0;
            return Buffer::Ready;
        }
        self.ask_again(burst, len)
    }

    #[cold]
    fn ask_again(&mut self, burst: &mut RxBurst<'_>, len: usize) -> Buffer {
        if len <= self.longest {
            return Buffer::Busy;
        }
        if len >= self.too_long {
            burst.drop_packet(DropReason::TooLarge);
            return Buffer::Never;
        }
        self.calls += 1;
        if self.calls < CALLS_BEFORE_ASKING {
            return Buffer::Busy;
        }
        self.calls = 0;
        match burst.alloc(len) {
            Ok(packet) => {
                burst.discard(packet);
                Buffer::Ready
            }
            Err(DropReason::TooLarge) => {
                self.too_long = len;
                Buffer::Never
            }
            Err(_) => {
                self.longest = len;
                Buffer::Busy
            }
        }
    }
}
