//! A link over TCP: packets as records in a byte stream, the conventional way between containers,
//! as the baseline to which links through shared memory are compared (ADR 13).
//!
//! First and last step of a packet's life in a worker, as any port: [`TcpRx`] receives, [`TcpTx`]
//! sends, each beside the node at its end of the link (`worker/ends.rs`).
//!
//! It is as fast as a connection of the kernel allows: no delay of small segments, large socket
//! buffers, one system call per burst in either direction, and no copy but the kernel's own two.
//! Sockets never block; a worker that sleeps is woken by the kernel (`worker/socket_wait.rs`).
//!
//! What a connection carries, numbers in little-endian order:
//!
//! | bytes | what |
//! |---|---|
//! | 8, once | index of the first packet, of all that this link has ever sent |
//! | 4 | length of a packet |
//! | 4 | its tag |
//! | 4 | its room: length and the bytes free behind it |
//! | length | its bytes |
//!
//! A packet keeps its room, so that what grows in place over a shared link grows over this one too.
//!
//! The index makes losses exact: what lay in a broken connection, or in the hands of a worker that
//! was killed, is the difference between the index that comes and the one that was expected, and is
//! counted as `link_lost`. Who may connect is settled before (`worker/connect.rs`).
//!
//! `tx.rs` sends, `rx.rs` receives, `inflow.rs` turns bytes into packets.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg, sockopt};

use crate::packet::Packet;

mod inflow;
mod rx;
mod tx;

pub use rx::{RX_NAMES, TcpRx, rx_counters};
pub use tx::{TX_NAMES, TcpTx, tx_counters};

/// Bytes in front of each packet.
pub const HEADER_BYTES: usize = 12;
/// Bytes at the beginning of a connection.
pub const PREFACE_BYTES: usize = 8;
/// Bytes that a socket may hold in each direction, where the kernel lets this process say so.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// What stands in front of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Header {
    len: u32,
    tag: u32,
    /// Length and the bytes free behind.
    room: u32,
}

impl Header {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a packet fits a buffer")]
    fn of(packet: &Packet) -> Self {
        Self {
            len: packet.len() as u32,
            tag: packet.metadata(),
            room: (packet.len() + packet.tailroom()) as u32,
        }
    }

    /// Whether the packet takes as much place as that of `other`.
    #[inline]
    fn is_like(self, other: Self) -> bool {
        (self.len, self.room) == (other.len, other.room)
    }

    #[inline]
    fn bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.len.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.tag.to_le_bytes());
        bytes[8..].copy_from_slice(&self.room.to_le_bytes());
        bytes
    }

    /// From the first bytes of `bytes`; zeros where there are too few.
    #[inline]
    fn parse(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
            u32::from_le_bytes(four.unwrap_or_default())
        };
        Self {
            len: word(0),
            tag: word(4),
            room: word(8),
        }
    }
}

/// What a port of a link is told by its worker's control thread.
#[derive(Debug)]
pub enum News<S = Arc<OwnedFd>> {
    /// There is a connection, or another one.
    Connected(S),
    /// There is none any more.
    Disconnected,
    /// The receiver is down, and packets for it are to be dropped.
    PeerDown,
}

/// One direction of a connection that does not block.
pub trait Conduit {
    /// Sends the first bytes of `parts`, and says how many.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if none can be sent now; others end the connection.
    fn send(&self, parts: &[IoSlice<'_>]) -> Result<usize, Errno>;

    /// Receives into `parts`; 0 bytes at the end of the connection.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if there are none now; others end the connection.
    fn receive(&self, parts: &mut [IoSliceMut<'_>]) -> Result<usize, Errno>;
}

impl Conduit for Arc<OwnedFd> {
    #[inline]
    fn send(&self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let mut nothing = SendAncillaryBuffer::default();
        sendmsg(self, parts, &mut nothing, SendFlags::NOSIGNAL)
    }

    #[inline]
    fn receive(&self, parts: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        rustix::io::readv(self, parts)
    }
}

/// Prepares a socket before it listens or connects: the kernel settles the scale of windows then.
///
/// Where this process may not exceed the system's limits, the kernel's own sizing is left on: it
/// grows further than what could be asked for.
///
/// # Errors
/// The kernel refuses `TCP_NODELAY`.
pub fn prepare(socket: impl AsFd) -> Result<(), Errno> {
    let socket = socket.as_fd();
    sockopt::set_tcp_nodelay(socket, true)?;
    let _ = sockopt::set_socket_send_buffer_size_force(socket, SOCKET_BUFFER_BYTES);
    let _ = sockopt::set_socket_recv_buffer_size_force(socket, SOCKET_BUFFER_BYTES);
    Ok(())
}
