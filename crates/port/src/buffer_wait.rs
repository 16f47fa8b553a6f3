//! Waiting for a buffer instead of losing a packet, for ports that can wait: files and generators.

use catena_engine::nf::DropReason;
use catena_engine::port::RxBurst;

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

impl Buffer {
    /// Whether there is a buffer for a packet of `len` bytes.
    #[inline]
    pub fn ask(burst: &mut RxBurst<'_>, len: usize) -> Self {
        if burst.has_buffer(len) {
            Self::Ready
        } else if len <= burst.packet_len_max() {
            Self::Busy
        } else {
            burst.drop_packet(DropReason::TooLarge);
            Self::Never
        }
    }
}
