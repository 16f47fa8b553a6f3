//! Network functions of a 10G-EPON access network.
//!
//! `catena-pcs` turns frames into line bits and back and knows no chain; `catena-wire` knows the
//! formats of frames. This crate makes NFs of both: what stands in a chain file as a node.
#![forbid(unsafe_code)]
