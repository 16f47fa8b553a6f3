//! Packet input and output: where packets enter and leave a chain.
//!
//! [`capture`] reads and writes capture files; it is a codec that knows nothing of the engine.
//! [`tap`] and [`packet_socket`] bind the kernel.

pub mod capture;
pub mod packet_socket;
pub mod tap;
