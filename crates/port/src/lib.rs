//! Packet input and output: where frames enter and leave a chain.
//!
//! [`capture`] reads and writes capture files; it is a codec that knows nothing of the engine.

pub mod capture;
