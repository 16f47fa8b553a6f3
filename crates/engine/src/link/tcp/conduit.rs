//! The socket of a link over TCP: one direction of a connection, which never blocks.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg, sockopt};

/// Bytes that a socket may hold in each direction, where the kernel lets this process say so.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

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
