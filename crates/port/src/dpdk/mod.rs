//! DPDK: packets of any device that DPDK has a driver for, by a plug-in.
//!
//! ```text
//!   device ── driver ── DPDK ─┤ plug-in ├─ port ── links, other processes
//!                               (C, own       numbers of buffers, offsets, lengths;
//!                                file)        packets stay in the pool of the worker
//! ```
//!
//! The binary is not linked to DPDK. A plug-in is built against the DPDK of the machine by `catena
//! port dpdk build` and loaded when a worker opens such a port. Packet headers (mbufs) are DPDK's,
//! the buffers behind them those of a pool of the worker, one header for each buffer (ADR 28).

mod config;
mod counts;
mod device;
mod error;
mod flows;
mod plugin;
mod port;
mod share;
mod socket;
mod sys;

use catena_engine::config::parse_config;
use catena_engine::port::{CapabilitySet, PortKind, PortNeeds};

pub use config::{Config, Memory, Rss};
pub use error::DpdkError;
pub use plugin::{BuildError, Installed, VARIABLE, build, installed, usual_place};

use crate::opening::{failed, parse};
use port::DpdkPort;

/// Of a device, whichever driver it has: DPDK's interrupt thread opens it again, too.
const NEEDS: PortNeeds = PortNeeds {
    rights: CapabilitySet::NET_ADMIN
        .union(CapabilitySet::NET_RAW)
        .union(CapabilitySet::DAC_OVERRIDE)
        .union(CapabilitySet::IPC_LOCK)
        .union(CapabilitySet::SYS_NICE)
        .union(CapabilitySet::SYS_ADMIN)
        .union(CapabilitySet::BPF),
    rights_while_running: true,
    threads: true,
};

/// The chain file's entry.
pub const KIND: PortKind = PortKind {
    name: "dpdk",
    summary: "Exchanges packets with any device of DPDK, by a plug-in, in the chain's own memory",
    counters: counts::COUNTERS,
    drop_reasons: &[],
    needs: NEEDS,
    schema: || schemars::schema_for!(Config),
    check: |config| parse_config::<Config>(config)?.check(),
    open: |config, opening| {
        let config: Config = parse(config)?;
        let settings = config.settings(opening);
        let port = DpdkPort::open(settings, opening.pools).map_err(failed)?;
        Ok(Box::new(port))
    },
};
