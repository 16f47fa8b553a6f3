//! A link over TCP: packets as records in a byte stream, the conventional way between containers,
//! as the baseline to which links through shared memory are compared (ADR 13).
//!
//! First and last step of a packet's life in a worker, as any port: [`TcpRx`] receives, [`TcpTx`]
//! sends, each beside the node at its end of the link (`worker/ends.rs`).
//!
//! It is as fast as a connection of the kernel allows: no delay of small segments, large socket
//! buffers, one system call per burst in either direction, and no copy but the kernel's own two.
//! Sockets never block; a worker that sleeps is woken by the kernel (`worker/socket_wait.rs`).
//!
//! What a connection carries, numbers in little-endian order:
//!
//! | bytes | what |
//! |---|---|
//! | 8, once | index of the first packet, of all that this link has ever sent |
//! | 4 | length of a packet |
//! | 4 | its tag |
//! | 4 | its room: length and the bytes free behind it |
//! | length | its bytes |
//!
//! A packet keeps its room, so that what grows in place over a shared link grows over this one too.
//!
//! The index makes losses exact: what lay in a broken connection, or in the hands of a worker that
//! was killed, is the difference between the index that comes and the one that was expected, and is
//! counted as `link_lost`. Who may connect is settled before (`worker/connect.rs`).
//!
//! `tx.rs` sends, `rx.rs` receives, `inflow.rs` turns bytes into packets, `record.rs` has what
//! stands in front of each, `conduit.rs` the sockets, `news.rs` what ports are told.

mod conduit;
mod inflow;
mod news;
mod record;
mod rx;
mod tx;

pub use conduit::{Conduit, prepare};
pub use news::News;
pub use record::{HEADER_BYTES, PREFACE_BYTES};
pub use rx::{RX_NAMES, TcpRx, rx_counters};
pub use tx::{TX_NAMES, TcpTx, tx_counters};
