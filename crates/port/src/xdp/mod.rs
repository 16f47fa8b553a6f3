//! AF_XDP: packets of a network interface, received and sent where they lie.
//!
//! ```text
//!                   fill ring: empty buffers
//!              ┌────────────────────────────────┐
//!   interface ─┤ program ─► receive ring: where ├─► pool of the worker ─► links, other processes
//!              │    └─► everything else: host   │      (the same memory)
//!              └── completion ◄─ transmit ring ◄┴──── packets that are kept until they are sent
//! ```
//!
//! The memory that the kernel is shown (UMEM) is a pool of the worker that runs the port, so that a
//! received packet needs no copy on its way to an NF in another process, and one that came by one
//! AF_XDP port of a worker is sent by another one without any (ADR 20). A program of our own, made
//! of instructions and loaded by bpf(2), sends packets to the sockets; nothing is compiled, no
//! library is needed, and all of it goes with the process.
//!
//! Needs Linux 5.11 and an interface with one packet per buffer: jumbo frames in several buffers
//! (`XDP_USE_SG`) and checksum offload by metadata are not used.

mod bpf;
mod config;
mod error;
mod netlink;
mod port;
mod program;
mod socket;
mod sys;

use catena_engine::config::parse_config;
use catena_engine::port::{CapabilitySet, PortKind, PortNeeds};

pub use bpf::{Hung, Mode};
pub use config::{BindMode, Config};
pub use error::XdpError;
pub use netlink::Features;
pub use program::Steering;

use crate::opening::{failed, parse};
use port::XdpPort;

pub(crate) use socket::{MTU_MAX, MTU_MAX_USUAL, asking, is_known};
pub(crate) use sys::{busy_poll, driver, is_up, mtu, queues};

/// A socket, a program on the interface, which is one with that of other workers (for which the
/// kernel wants all of the last), and memory that is pinned; again when the interface comes back.
const NEEDS: PortNeeds = PortNeeds::always(
    CapabilitySet::NET_ADMIN
        .union(CapabilitySet::NET_RAW)
        .union(CapabilitySet::IPC_LOCK)
        .union(CapabilitySet::BPF)
        .union(CapabilitySet::SYS_ADMIN),
);

/// The chain file's entry.
pub const KIND: PortKind = PortKind {
    name: "xdp",
    summary: "Exchanges packets with a network interface by AF_XDP, in the chain's own memory",
    counters: port::COUNTERS,
    drop_reasons: &[],
    needs: NEEDS,
    schema: || schemars::schema_for!(Config),
    check: |config| parse_config::<Config>(config)?.check(),
    open: |config, opening| {
        let config: Config = parse(config)?;
        let settings = config.settings(opening);
        let port = XdpPort::open(settings, opening.pools).map_err(failed)?;
        Ok(Box::new(port))
    },
};
