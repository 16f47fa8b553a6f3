//! What can be chosen about a packet socket, and the limits of each choice.

use std::time::Duration;

use thiserror::Error;

/// The smallest block, in bytes: one page of the smallest page size. It holds two full frames.
pub const BLOCK_SIZE_BYTES_MIN: usize = 4 << 10;
/// The largest block, in bytes. The kernel wants each block contiguous in its memory.
pub const BLOCK_SIZE_BYTES_MAX: usize = 4 << 20;
/// The most blocks in a ring.
pub const BLOCK_COUNT_MAX: usize = 4096;
/// The smallest frame slot, in bytes: a header and a frame of the shortest length.
pub const FRAME_SLOT_BYTES_MIN: usize = 256;
/// The largest frame slot, in bytes: a header and a frame that awaits segmentation.
pub const FRAME_SLOT_BYTES_MAX: usize = 128 << 10;
/// The largest ring, in bytes. Its memory is the kernel's, not swappable, and taken at once.
pub const RING_SIZE_BYTES_MAX: usize = 1 << 30;
/// The longest time until the kernel hands over a block that is not full.
pub const RETIRE_MAX: Duration = Duration::from_secs(1);

const _: () = assert!(BLOCK_SIZE_BYTES_MAX <= RING_SIZE_BYTES_MAX);
const _: () = assert!(FRAME_SLOT_BYTES_MAX <= BLOCK_SIZE_BYTES_MAX);
// Ring sizes and offsets are passed to the kernel as 32-bit numbers.
const _: () = assert!(RING_SIZE_BYTES_MAX < u32::MAX as usize);

/// How to open a packet socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// In which pieces the kernel hands over received frames.
    pub delivery: Delivery,
    /// Share the interface's frames with other sockets of the same group.
    pub fanout: Option<Fanout>,
    /// Receive frames for other Ethernet addresses too, which a chain usually wants.
    pub is_promiscuous: bool,
    /// Transmit around the interface's queueing discipline: less work per frame, but no queue, so
    /// frames that the interface cannot take at once come back, and no local capture shows them.
    pub bypass_qdisc: bool,
    /// Transmit runs of packets of one UDP flow as one frame that the kernel cuts apart (UDP GSO,
    /// kernel 6.2 or newer). The interface must not offer to cut itself; not with `bypass_qdisc`,
    /// which leaves cutting out.
    pub segments: bool,
    /// Transmit frames with what is left open in them, by
    /// [`send_open`](super::PacketSocket::send_open). Not with `segments`.
    pub carries: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            delivery: Delivery::default(),
            fanout: None,
            is_promiscuous: true,
            bypass_qdisc: false,
            segments: false,
            carries: false,
        }
    }
}

/// In which pieces the kernel hands over received frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Blocks of many frames, closed when full or after a time (TPACKET_V3). For throughput.
    Blocks {
        /// A power of two from [`BLOCK_SIZE_BYTES_MIN`] (and the page size) to
        /// [`BLOCK_SIZE_BYTES_MAX`]. A frame longer than a block less some 150 bytes is cut.
        block_size_bytes: usize,
        /// From 2 to [`BLOCK_COUNT_MAX`].
        block_count: usize,
        /// Whole milliseconds, from 1 ms to [`RETIRE_MAX`].
        retire: Duration,
    },
    /// Single frames, each as it arrives (TPACKET_V2). For latency.
    Frames {
        /// A power of two from [`FRAME_SLOT_BYTES_MIN`] to [`FRAME_SLOT_BYTES_MAX`]. A frame longer
        /// than a slot less some 80 bytes is cut.
        slot_size_bytes: usize,
        /// A power of two; the ring as a whole takes at least one page.
        slot_count: usize,
    },
}

impl Default for Delivery {
    /// 16 blocks of 256 KiB, closed after 1 ms: 4 MiB hold some 2,500 full frames, and a block
    /// holds a frame of any length that the kernel makes.
    fn default() -> Self {
        Self::Blocks {
            block_size_bytes: 256 << 10,
            block_count: 16,
            retire: Duration::from_millis(1),
        }
    }
}

impl Delivery {
    /// Immediate delivery of frames up to 1,514 bytes and a tag: 2,048 slots of 2 KiB, 4 MiB.
    #[must_use]
    pub const fn immediate() -> Self {
        Self::Frames {
            slot_size_bytes: 2048,
            slot_count: 2048,
        }
    }

    /// Checks every limit, so that the kernel's EINVAL has a name.
    pub(super) fn check(self, page_size_bytes: usize) -> Result<(), OptionsError> {
        let (piece_bytes, pieces) = match self {
            Self::Blocks {
                block_size_bytes,
                block_count,
                retire,
            } => {
                let smallest = BLOCK_SIZE_BYTES_MIN.max(page_size_bytes);
                let sizes = smallest..=BLOCK_SIZE_BYTES_MAX;
                if !block_size_bytes.is_power_of_two() || !sizes.contains(&block_size_bytes) {
                    return Err(OptionsError::BlockSize { smallest });
                }
                if !(2..=BLOCK_COUNT_MAX).contains(&block_count) {
                    return Err(OptionsError::BlockCount);
                }
                let is_whole = retire.subsec_nanos().is_multiple_of(1_000_000);
                if retire.is_zero() || retire > RETIRE_MAX || !is_whole {
                    return Err(OptionsError::Retire);
                }
                (block_size_bytes, block_count)
            }
            Self::Frames {
                slot_size_bytes,
                slot_count,
            } => {
                let sizes = FRAME_SLOT_BYTES_MIN..=FRAME_SLOT_BYTES_MAX;
                if !slot_size_bytes.is_power_of_two() || !sizes.contains(&slot_size_bytes) {
                    return Err(OptionsError::SlotSize);
                }
                let smallest = (page_size_bytes / slot_size_bytes).max(2);
                if !slot_count.is_power_of_two() || slot_count < smallest {
                    return Err(OptionsError::SlotCount { smallest });
                }
                (slot_size_bytes, slot_count)
            }
        };
        match piece_bytes.checked_mul(pieces) {
            Some(ring_bytes) if ring_bytes <= RING_SIZE_BYTES_MAX => Ok(()),
            _ => Err(OptionsError::RingSize),
        }
    }
}

/// A group of sockets that share an interface's frames (PACKET_FANOUT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fanout {
    /// The group, one number space per network namespace.
    pub group: u16,
    /// Which member gets a frame. All members must agree.
    pub mode: FanoutMode,
    /// Pass a frame to the next member where the ring of the chosen one is full.
    pub rolls_over: bool,
}

/// Which member of a [`Fanout`] group gets a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FanoutMode {
    /// By the processor that received it.
    Cpu,
    /// By a hash of addresses and ports: a flow stays with one member. Fragments, which carry no
    /// ports, go by their addresses alone.
    FlowHash,
    /// By the interface's receive queue.
    Queue,
    /// In turn.
    RoundRobin,
}

/// Which limit an option misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OptionsError {
    /// See [`BLOCK_COUNT_MAX`].
    #[error("the number of blocks must be from 2 to {BLOCK_COUNT_MAX}")]
    BlockCount,
    /// See [`BLOCK_SIZE_BYTES_MIN`] and [`BLOCK_SIZE_BYTES_MAX`].
    #[error(
        "the block size must be a power of two from {smallest} to {BLOCK_SIZE_BYTES_MAX} bytes"
    )]
    BlockSize {
        /// The lower limit here, which follows the page size.
        smallest: usize,
    },
    /// See [`RETIRE_MAX`].
    #[error("the time to close a block must be whole milliseconds, from 1 ms to {RETIRE_MAX:?}")]
    Retire,
    /// See [`RING_SIZE_BYTES_MAX`].
    #[error("the receive ring must not exceed {RING_SIZE_BYTES_MAX} bytes")]
    RingSize,
    /// See [`Delivery::Frames`].
    #[error("the number of frame slots must be a power of two, at least {smallest}")]
    SlotCount {
        /// The lower limit for this slot size.
        smallest: usize,
    },
    /// See [`FRAME_SLOT_BYTES_MIN`] and [`FRAME_SLOT_BYTES_MAX`].
    #[error(
        "the frame slot must be a power of two from {FRAME_SLOT_BYTES_MIN} to \
         {FRAME_SLOT_BYTES_MAX} bytes"
    )]
    SlotSize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(block_size_bytes: usize, block_count: usize, retire_us: u64) -> Delivery {
        Delivery::Blocks {
            block_size_bytes,
            block_count,
            retire: Duration::from_micros(retire_us),
        }
    }

    #[test]
    fn defaults_lie_within_the_limits() {
        assert_eq!(Delivery::default().check(4096), Ok(()));
        assert_eq!(Delivery::immediate().check(4096), Ok(()));
        assert_eq!(Delivery::default().check(64 << 10), Ok(()));
    }

    #[test]
    fn each_limit_has_its_error() {
        let size = |smallest| Err(OptionsError::BlockSize { smallest });
        assert_eq!(blocks(2048, 16, 1000).check(4096), size(4096));
        assert_eq!(blocks(4096, 16, 1000).check(64 << 10), size(64 << 10));
        assert_eq!(blocks(5000, 16, 1000).check(4096), size(4096));
        assert_eq!(blocks(8 << 20, 16, 1000).check(4096), size(4096));
        assert_eq!(
            blocks(4096, 1, 1000).check(4096),
            Err(OptionsError::BlockCount)
        );
        assert_eq!(blocks(4096, 2, 0).check(4096), Err(OptionsError::Retire));
        assert_eq!(blocks(4096, 2, 1500).check(4096), Err(OptionsError::Retire));
        assert_eq!(
            blocks(4 << 20, 512, 1000).check(4096),
            Err(OptionsError::RingSize)
        );
        let slots = |slot_size_bytes, slot_count| Delivery::Frames {
            slot_size_bytes,
            slot_count,
        };
        assert_eq!(slots(128, 64).check(4096), Err(OptionsError::SlotSize));
        let few = OptionsError::SlotCount { smallest: 16 };
        assert_eq!(slots(256, 8).check(4096), Err(few));
        assert_eq!(slots(256, 24).check(4096), Err(few));
        assert_eq!(
            slots(2048, 1 << 63).check(4096),
            Err(OptionsError::RingSize)
        );
    }
}
