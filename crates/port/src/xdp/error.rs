//! Why an AF_XDP port could not be opened: what, why, and what to do.

use std::io;

use rustix::io::Errno;
use thiserror::Error;

/// Why an AF_XDP port could not be opened. Nothing is left open or attached.
#[derive(Debug, Error)]
pub enum XdpError {
    /// No interface of that name in this network namespace.
    #[error("no interface '{name}' in this network namespace: `ip link` lists those there are")]
    NoInterface {
        /// The name.
        name: String,
    },
    /// The interface is not up.
    #[error("interface '{name}' is down: `ip link set dev {name} up`")]
    Down {
        /// The interface.
        name: String,
    },
    /// The process may not do this.
    #[error(
        "no permission to {step} on '{name}': run as root, or with CAP_NET_ADMIN, CAP_NET_RAW, \
         CAP_BPF and CAP_IPC_LOCK, and CAP_SYS_ADMIN where several workers share an interface"
    )]
    NotPermitted {
        /// The interface.
        name: String,
        /// What was attempted.
        step: &'static str,
    },
    /// The kernel was built without it.
    #[error("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS): use the port `packet_socket`")]
    NoKernel,
    /// The driver runs no XDP programs.
    #[error("the driver of '{name}' runs no XDP programs: write `mode: auto` or `mode: generic`")]
    NoNative {
        /// The interface.
        name: String,
    },
    /// The driver does not read and write packets where they lie.
    #[error(
        "the driver of '{name}' refuses zero-copy on queue {queue}: write `bind: auto` or \
         `bind: copy`"
    )]
    NoZeroCopy {
        /// The interface.
        name: String,
        /// The queue.
        queue: u32,
    },
    /// Another program is there.
    #[error(
        "interface '{name}' has another XDP program ({program}): end who attached it, or remove it \
         with `ip link set dev {name} xdp off` or `xdpgeneric off`"
    )]
    OtherProgram {
        /// The interface.
        name: String,
        /// What is known of it.
        program: String,
    },
    /// Another socket has the queue.
    #[error(
        "queue {queue} of '{name}' is in use by another AF_XDP socket: end who has it, or choose \
         another `queue`"
    )]
    QueueBusy {
        /// The interface.
        name: String,
        /// The queue.
        queue: u32,
    },
    /// The interface has fewer queues.
    #[error(
        "interface '{name}' has no queue {queue}: it has {has}{repair}",
        repair = if most > has {
            format!("; `ethtool -L {name} combined {most}` gives it as many as it can have")
        } else {
            String::new()
        }
    )]
    NoQueue {
        /// The interface.
        name: String,
        /// The queue asked for.
        queue: u32,
        /// How many there are.
        has: u32,
        /// How many there can be.
        most: u32,
    },
    /// There is no pool whose buffers a device can take packets in.
    #[error(
        "packets of '{name}' have up to {frame_len} bytes (its MTU is {mtu}) and need buffers of \
         {needed} with AF_XDP: {repair}"
    )]
    NoPool {
        /// The interface.
        name: String,
        /// Its MTU.
        mtu: u32,
        /// Longest frame.
        frame_len: u32,
        /// Which buffers.
        needed: &'static str,
        /// What to do.
        repair: String,
    },
    /// The port was opened for a worker whose memory is with its data path already.
    #[error(
        "'{name}' cannot be opened in a worker that runs: stop the chain and run it with the new \
         settings"
    )]
    NoMemory {
        /// The interface.
        name: String,
    },
    /// Memory cannot be pinned.
    #[error(
        "memory for packets of '{name}' cannot be pinned: `ulimit -l unlimited`, or CAP_IPC_LOCK"
    )]
    NotPinned {
        /// The interface.
        name: String,
    },
    /// The kernel's verifier refused the program.
    #[error("'{name}': {step}: {source}: {why}")]
    Verifier {
        /// The interface.
        name: String,
        /// What was attempted.
        step: &'static str,
        /// What the kernel answered.
        source: io::Error,
        /// What its verifier says.
        why: String,
    },
    /// Any other refusal by the kernel.
    #[error("'{name}': {step}: {source}")]
    System {
        /// The interface.
        name: String,
        /// What was attempted.
        step: &'static str,
        /// What the kernel answered.
        source: io::Error,
    },
}

impl XdpError {
    /// What an answer of the kernel to `step` means for interface `name`.
    pub(super) fn at(name: &str, step: &'static str) -> impl FnOnce(Errno) -> Self {
        move |error| {
            let name = name.to_owned();
            match error {
                Errno::PERM | Errno::ACCESS => Self::NotPermitted { name, step },
                Errno::NODEV | Errno::NXIO => Self::NoInterface { name },
                Errno::AFNOSUPPORT => Self::NoKernel,
                other => Self::System {
                    name,
                    step,
                    source: other.into(),
                },
            }
        }
    }
}
