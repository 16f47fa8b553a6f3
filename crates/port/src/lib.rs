//! Packet input and output: where packets enter and leave a chain.
//!
//! - [`capture`]: the codec of capture files, which knows nothing of the engine.
//! - [`pcap`], [`generator`], [`sink`]: kinds of ports, [`PORTS`].
//! - [`tap`], [`packet_socket`]: bindings of the kernel.
//! - [`port_bench`]: drives one port in a test.
//!
//! Checking a configuration never touches the world; opening a port does, and resolves relative
//! paths against the folder of the chain file. The reference is `docs/reference/ports.md`.

use catena_engine::port::PortKind;

mod buffer_wait;
pub mod capture;
pub mod generator;
mod opening;
mod pacer;
pub mod packet_socket;
pub mod pcap;
pub mod port_bench;
mod random;
pub mod sink;
pub mod tap;
mod wall_clock;

/// Every kind of port of this crate.
pub const PORTS: &[&PortKind] = &[&pcap::KIND, &generator::KIND, &sink::KIND];
