//! Packet input and output: where packets enter and leave a chain.
//!
//! - [`capture`]: the codec of capture files, which knows nothing of the engine.
//! - [`pcap`], [`generator`], [`sink`], [`tap`], [`packet_socket`], [`xdp`], [`dpdk`]: the
//!   kinds of ports, [`PORTS`].
//! - [`wrap`]: ports that hold a port, [`WRAPS`].
//! - [`offers`]: what this machine has for them.
//! - [`port_bench`]: drives one port in a test.
//!
//! Checking a configuration never touches the world; opening a port does, and resolves relative
//! paths against the folder of the chain file. The reference is `docs/reference/ports.md`.

use catena_engine::chain::registry::FileKey;
use catena_engine::port::{PortKind, WrapKind};

mod attachment;
pub mod buffer_wait;
pub mod capture;
pub mod dpdk;
pub mod generator;
mod lending;
pub mod offered;
pub mod offers;
mod offload;
mod opening;
mod pacer;
pub mod packet_socket;
pub mod pcap;
pub mod port_bench;
pub mod random;
#[cfg(test)]
mod scripted_port;
pub mod sink;
#[cfg(test)]
mod small_disk;
pub mod tap;
mod wall_clock;
pub mod wrap;
pub mod xdp;

/// Every kind of port of this crate.
pub const PORTS: &[&PortKind] = &[
    &pcap::KIND,
    &generator::KIND,
    &sink::KIND,
    &tap::KIND,
    &packet_socket::KIND,
    &xdp::KIND,
    &dpdk::KIND,
];

/// Every kind of wrapper of this crate.
pub const WRAPS: &[&WrapKind] = &[
    &wrap::capture::KIND,
    &wrap::trace::KIND,
    &wrap::fault::KIND,
    &wrap::pace::KIND,
];

const fn file(of: &'static str, key: &'static str, writes: bool) -> FileKey {
    FileKey { of, key, writes }
}

/// Settings of this crate's ports and wrappers that name files.
pub const FILES: &[FileKey] = &[
    file("pcap", "read", false),
    file("pcap", "write", true),
    file("capture", "file", true),
    file("trace", "file", true),
];
