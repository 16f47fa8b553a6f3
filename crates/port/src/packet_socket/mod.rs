//! Packet socket: frames of a network interface, read from a ring that the kernel fills.
//!
//! ```text
//!   interface ──► receive ring (mmap) ──► recv ──► chain ──► send ──► sendmmsg ──► interface
//!                 socket 1, ETH_P_ALL                                 socket 2, no protocol
//! ```
//!
//! The kernel puts incoming frames into memory shared with this process and hands it over piece by
//! piece, so receiving costs no system call as long as frames wait. Transmission copies, 32 frames
//! to a system call, on a second socket that receives nothing. References: packet(7),
//! `Documentation/networking/packet_mmap.rst`, `if_packet.h`; kernel 4.20 or newer.
//!
//! **A received frame is not yet what was on the wire.** The kernel takes a VLAN tag out of the
//! frame, and a sender on the same host (the other end of a veth pair) leaves the checksum, and the
//! segmentation of TCP, to a network card that is not there. [`RxInfo`] says which of the three
//! applies; [`RxInfo::copy_frame`] repairs the first two while it copies, and refuses segmentation
//! with [`CopyError::Segmentation`]. The port cuts such frames apart, or gives them to the chain as
//! they are (`segments: carry`, ADR 29).
//!
//! **Latency.** [`Delivery::Blocks`] (TPACKET_V3) hands over a block when the next frame does not
//! fit in it or when its timer ends, so a lone frame waits for the timer: up to 1 ms by default
//! (a tick of the kernel, 4 ms at 250 Hz, before kernel 6.18). Smaller blocks fill sooner under
//! load, but do not spare a lone frame the wait. [`Delivery::Frames`] (TPACKET_V2) hands over each
//! frame at once, at a fixed amount of memory per frame.
//!
//! **Runs.** With [`Options::segments`] packets of one UDP flow that follow each other go to the
//! kernel as one frame, which it cuts apart before the interface sees it: several times the packets
//! per second. An interface that offers to cut itself must be told not to
//! (`ethtool -K <interface> tx-udp-segmentation off`), or the other end of a veth pair gets the run
//! as it is.
//!
//! The host's own protocols see the same frames. Give the interface no address, or the host answers
//! beside the chain.
//!
//! Not supported: interfaces without Ethernet header, a transmit ring, hardware timestamps,
//! tunnels in segmentation offload (dropped and counted, by the kernel or as `unsegmented`).

mod config;
mod errors;
pub(crate) mod frame;
mod header;
mod options;
mod port;
mod reception;
mod segments;
mod socket;
mod sys;

pub use config::Config;
pub use errors::{OpenError, SocketError};
pub use frame::{Checksum, CopyError, RxInfo, Segmentation, Vlan, complete_checksum};
pub use options::{
    BLOCK_COUNT_MAX, BLOCK_SIZE_BYTES_MAX, BLOCK_SIZE_BYTES_MIN, Delivery, FRAME_SLOT_BYTES_MAX,
    FRAME_SLOT_BYTES_MIN, Fanout, FanoutMode, Options, OptionsError, RETIRE_MAX,
    RING_SIZE_BYTES_MAX,
};
pub use port::KIND;
pub use segments::VNET_HEADER_LEN;
pub use socket::{PacketSocket, Sent, Statistics};
