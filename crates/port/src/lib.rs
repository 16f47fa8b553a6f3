//! Placeholder, replaced by the crate's first module.

pub mod packet_socket;
pub mod tap;
