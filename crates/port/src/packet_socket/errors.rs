//! Why a packet socket cannot be opened, and why it cannot go on.

use std::io;

use thiserror::Error;

use super::options::OptionsError;

/// Why a packet socket could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No interface of that name in this network namespace.
    #[error("no interface '{name}' in this network namespace: `ip link` lists those there are")]
    NoInterface {
        /// The name.
        name: String,
    },
    /// The interface carries no Ethernet header.
    #[error("interface '{name}' is not Ethernet (hardware type {kind})")]
    NotEthernet {
        /// The interface.
        name: String,
        /// Its kind (`ARPHRD_*`, `if_arp.h`).
        kind: u16,
    },
    /// The process may not open packet sockets.
    #[error(
        "no permission for a packet socket on '{name}': CAP_NET_RAW is needed \
         ('setcap cap_net_raw+ep' on the program, or '--cap-add NET_RAW' for the container)"
    )]
    NotPermitted {
        /// The interface.
        name: String,
    },
    /// An option misses a limit.
    #[error("{0}")]
    Options(#[from] OptionsError),
    /// Any other refusal by the kernel.
    #[error("packet socket on '{name}': {operation}: {source}")]
    System {
        /// The interface.
        name: String,
        /// What was attempted.
        operation: &'static str,
        /// What the kernel answered.
        source: io::Error,
    },
}

/// Why a packet socket cannot receive or transmit.
#[derive(Debug, Error)]
pub enum SocketError {
    /// The interface is down. It may come up again, and the socket then works on.
    #[error("the interface is down")]
    InterfaceDown,
    /// The interface was deleted, or moved to another network namespace. The socket is of no more
    /// use: an interface of the same name needs a new one.
    #[error("the interface is gone")]
    InterfaceRemoved,
    /// Any other answer of the kernel.
    #[error("{operation}: {source}")]
    System {
        /// What was attempted.
        operation: &'static str,
        /// What the kernel answered.
        source: io::Error,
    },
}
