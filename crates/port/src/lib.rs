//! Packet input and output: where packets enter and leave a chain.

pub mod capture;
pub mod packet_socket;
pub mod tap;
