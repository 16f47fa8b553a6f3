//! TAP interface: the host kernel as the peer of a port.
//!
//! A TAP is an Ethernet interface whose other end is a file descriptor: what the kernel sends on
//! the interface is read here, what is written here the kernel receives. One system call carries
//! one frame in each direction, so a TAP is the port to start with, not the fastest one.
//!
//! The frames are complete as they stand. The kernel puts a VLAN tag back in its place before the
//! frame is read, and, since the offloads of a TAP are off unless asked for
//! ([`Tap::take_offloads`]), it also completes checksums and segments TCP itself.
//!
//! Not supported: TUN (frames without Ethernet header), packet information headers, persistent
//! interfaces: an interface made by [`Tap::open`]
//! disappears with its last queue.

mod options;
mod port;
mod sys;

pub use options::{INTERFACE_NAME_LEN_MAX, Options, TapError, VNET_HEADER_LEN};
pub use port::{Config, KIND};
pub use sys::Tap;
