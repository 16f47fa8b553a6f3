//! What a port of a link over TCP is told by its worker's control thread: connections, as they come
//! and go.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Something about the link's connection, which is an `S`.
#[derive(Debug)]
pub enum News<S = Arc<OwnedFd>> {
    /// There is a connection, or another one.
    Connected(S),
    /// There is none any more.
    Disconnected,
    /// The receiver is down, and packets for it are to be dropped.
    PeerDown,
}
