//! A link over TCP: packets as records in a byte stream, the conventional way between containers,
//! as the baseline to which links through shared memory are compared (ADR 13).
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
//! | length | its bytes |
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

mod inflow;
mod rx;
mod tx;

pub use rx::TcpRx;
pub use tx::TcpTx;

/// Bytes in front of each packet.
pub const HEADER_BYTES: usize = 8;
/// Bytes at the beginning of a connection.
pub const PREFACE_BYTES: usize = 8;
/// Bytes that a socket may hold in each direction, where the kernel lets this process say so.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// The header of a packet of `len` bytes.
#[inline]
fn header(len: usize, tag: u32) -> [u8; HEADER_BYTES] {
    #[expect(clippy::cast_possible_truncation, reason = "a packet fits a buffer")]
    let len = len as u32;
    (u64::from(tag) << 32 | u64::from(len)).to_le_bytes()
}

/// Length and tag that a header says.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "takes the halves")]
fn parse_header(header: [u8; HEADER_BYTES]) -> (usize, u32) {
    let word = u64::from_le_bytes(header);
    (word as u32 as usize, (word >> 32) as u32)
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
