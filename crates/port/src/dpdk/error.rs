//! Why a DPDK port could not be opened: what, why, and what to do.

use std::io;
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
    /// What the plug-in is linked to is older than what its source is for.
    #[error(
        "the DPDK plug-in {} has {found}, and DPDK 22.11 or newer is needed: install a newer one, \
         and build the plug-in anew with `catena port dpdk build`",
        file.display()
    )]
    TooOld {
        /// Its file.
        file: PathBuf,
        /// DPDK's name and version.
        found: String,
    },
    /// A plug-in that somebody else could have written.
    #[error("the DPDK plug-in {} is not loaded: {why}", file.display())]
    Untrusted {
        /// Its file.
        file: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// A process has one plug-in.
    #[error(
        "the DPDK plug-in {} is not loaded: this worker has loaded {} already; name one plug-in in \
         all its ports", file.display(), loaded.display()
    )]
    OtherPlugin {
        /// The file that is asked for.
        file: PathBuf,
        /// The one that is loaded.
        loaded: PathBuf,
    },
    /// The runtime of DPDK refuses.
    #[error(
        "{why}; if DPDK has changed, build the plug-in anew with `catena port dpdk build`, and see \
         whether `dpdk-testpmd --no-huge -m 128 --no-pci` starts"
    )]
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
    /// A socket that DPDK in this process has.
    #[error(
        "DPDK device '{device}': DPDK in this worker listens at {} already: choose another path, or \
         start the worker anew", path.display()
    )]
    SocketHere {
        /// Its name.
        device: String,
        /// The socket.
        path: PathBuf,
    },
    /// A socket of which nobody can say whether somebody listens there.
    #[error(
        "DPDK device '{device}': cannot tell whether somebody listens at {} ({source}): remove it \
         if nobody does, or choose another path", path.display()
    )]
    SocketUnknown {
        /// Its name.
        device: String,
        /// The socket.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The rings of a card want more buffers than there are.
    #[error(
        "DPDK device '{device}': its rings take {needed} buffers of {size}, and {left} are left for \
         it: write `buffers: {{ {size}: {enough} }}` under `run`, or a smaller `ring`",
        size = size(*stride)
    )]
    PoolSmall {
        /// Its name.
        device: String,
        /// Bytes of a buffer.
        stride: u32,
        /// Buffers that it takes.
        needed: u32,
        /// Buffers that other cards leave.
        left: u32,
        /// How many a pool should have.
        enough: u64,
    },
    /// A card that was never given the buffers that it starts with.
    #[error(
        "DPDK device '{device}' was not started: its rings take {needed} buffers, and {posted} were \
         free: give the chain more under `run: {{ buffers }}`"
    )]
    NotStarted {
        /// Its name.
        device: String,
        /// Buffers that its rings take.
        needed: u32,
        /// Buffers that it had got.
        posted: u32,
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
