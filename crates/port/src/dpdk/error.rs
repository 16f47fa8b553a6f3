//! Why a DPDK port could not be opened: what, why, and what to do.

use std::path::PathBuf;

use thiserror::Error;

/// Why a DPDK port could not be opened. Nothing is left open.
#[derive(Debug, Error)]
pub enum DpdkError {
    /// A binary without a dynamic linker.
    #[error(
        "this catena is a static binary, which cannot load the DPDK plug-in: use one that is \
         linked to the C library (`cargo build --release`, or the Debian package)"
    )]
    Static,
    /// There is no plug-in.
    #[error(
        "there is no DPDK plug-in (looked for {}): build it with `catena port dpdk build`",
        list(places)
    )]
    NoPlugin {
        /// Where it was looked for.
        places: Vec<PathBuf>,
    },
    /// The plug-in cannot be loaded.
    #[error(
        "the DPDK plug-in {} cannot be used: {why}; build it anew with `catena port dpdk build`",
        file.display()
    )]
    Plugin {
        /// Its file.
        file: PathBuf,
        /// What the linker, or the check of its version, says.
        why: String,
    },
    /// The runtime of DPDK refuses.
    #[error("{why}")]
    NoStart {
        /// What DPDK says.
        why: String,
    },
    /// A device that cannot be opened.
    #[error("DPDK device '{device}': {why}")]
    Device {
        /// Its name or address.
        device: String,
        /// What DPDK says.
        why: String,
    },
    /// The other side of a socket is not there.
    #[error(
        "DPDK device '{device}': nobody listens at {}: start the peer first, or take the \
         listening role here", path.display()
    )]
    NoPeer {
        /// Its name.
        device: String,
        /// The socket.
        path: PathBuf,
    },
    /// A socket that somebody has.
    #[error(
        "DPDK device '{device}': another process listens at {}: end it, or choose another path",
        path.display()
    )]
    SocketBusy {
        /// Its name.
        device: String,
        /// The socket.
        path: PathBuf,
    },
    /// There is no pool whose buffers a device can take packets in.
    #[error(
        "DPDK device '{device}': packets with an MTU of {mtu} need buffers of {needed} bytes: \
         write `buffers: {{ {size}: 4096 }}` under `run`",
        size = size(*needed)
    )]
    NoPool {
        /// Its name.
        device: String,
        /// Longest packet without its header.
        mtu: u32,
        /// Smallest size that is large enough.
        needed: u32,
    },
    /// The port was opened for a worker whose memory is with its data path already.
    #[error(
        "DPDK device '{device}' cannot be opened in a worker that runs: stop the chain and run it \
         with the new settings"
    )]
    NoMemory {
        /// Its name.
        device: String,
    },
}

fn list(places: &[PathBuf]) -> String {
    let names = places.iter().map(|place| place.display().to_string());
    names.collect::<Vec<_>>().join(", ")
}

/// As chain files write sizes of buffers.
fn size(bytes: u32) -> String {
    if bytes.is_multiple_of(1024) {
        format!("{}KiB", bytes / 1024)
    } else {
        format!("{bytes}B")
    }
}
