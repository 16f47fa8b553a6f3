//! How a TAP interface is opened, and why it may be refused.

use std::io;

use thiserror::Error;

/// Bytes that precede each frame, both ways, where [`Options::vnet_header`] is set
/// (`struct virtio_net_hdr`, `virtio_net.h`).
pub const VNET_HEADER_LEN: usize = 10;

/// The longest name of a Linux interface, in bytes (`IFNAMSIZ` less the terminator).
pub const INTERFACE_NAME_LEN_MAX: usize = libc::IFNAMSIZ - 1;

/// How to open a TAP. The default suits a port with one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Let several [`Tap`](super::Tap)s open the same interface, one queue each. All of them must
    /// ask for it.
    pub multi_queue: bool,
    /// Precede each frame by a `virtio_net_hdr` of [`VNET_HEADER_LEN`] bytes in both directions.
    pub vnet_header: bool,
}

/// Why a TAP could not be opened or changed.
#[derive(Debug, Error)]
pub enum TapError {
    /// Another process, or another [`Tap`](super::Tap) of this one, holds the only queue.
    #[error(
        "TAP interface '{name}' is busy: another process has it open \
         (multi-queue lets several share it, if all of them ask for it)"
    )]
    Busy {
        /// The interface.
        name: String,
    },
    /// The interface that was there has gone, or another one has come in its place.
    #[error("TAP interface '{name}' was deleted while it was attached to")]
    Gone {
        /// The interface.
        name: String,
    },
    /// The name holds a byte that no interface name can hold.
    #[error("interface name '{name}' is not valid: no '/', ':', space or control character")]
    InvalidName {
        /// The refused name.
        name: String,
    },
    /// An interface of that name exists and is not a TAP with the same queue setting.
    #[error(
        "interface '{name}' exists but is not a TAP that these options fit: \
         delete it, or ask for the same multi-queue setting"
    )]
    Mismatch {
        /// The interface.
        name: String,
    },
    /// The name has more than [`INTERFACE_NAME_LEN_MAX`] bytes.
    #[error("interface name '{name}' is too long: at most {INTERFACE_NAME_LEN_MAX} bytes")]
    NameTooLong {
        /// The refused name.
        name: String,
    },
    /// The kernel offers no TAP here.
    #[error(
        "/dev/net/tun is not available ({source}): load the module with 'modprobe tun', \
         or pass the device to the container with '--device /dev/net/tun'"
    )]
    NoDriver {
        /// What opening the device answered.
        source: io::Error,
    },
    /// The process may not create or attach to the interface.
    #[error(
        "no permission for TAP interface '{name}': CAP_NET_ADMIN is needed, or an interface that \
         belongs to you: 'sudo ip tuntap add dev {name} mode tap user $USER{flags}'"
    )]
    NotPermitted {
        /// The interface.
        name: String,
        /// What to append to the command so that the interface fits the options.
        flags: &'static str,
    },
    /// The process may not set the interface's MTU.
    #[error(
        "no permission to set the MTU of '{name}': CAP_NET_ADMIN is needed, \
         or 'sudo ip link set dev {name} mtu {mtu}'"
    )]
    SetMtuNotPermitted {
        /// The interface.
        name: String,
        /// The MTU asked for.
        mtu: u16,
    },
    /// The process may not bring the interface up.
    #[error(
        "no permission to bring '{name}' up: CAP_NET_ADMIN is needed, \
         or 'sudo ip link set dev {name} up'"
    )]
    SetUpNotPermitted {
        /// The interface.
        name: String,
    },
    /// Any other refusal by the kernel.
    #[error("TAP interface '{name}': {operation}: {source}")]
    System {
        /// The interface.
        name: String,
        /// What was attempted.
        operation: &'static str,
        /// What the kernel answered.
        source: io::Error,
    },
}
