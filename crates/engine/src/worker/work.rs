//! What a node of a worker does: it is a port, an NF, or stands in for a dead one.

use crate::nf::Nf;
use crate::port::{Port, RxState};

/// What a node does.
pub enum Work {
    /// Packet input and output.
    Port {
        /// The port, with its wrappers.
        port: Box<dyn Port>,
        /// Whether packets are taken from it.
        receives: bool,
        /// What it last said.
        state: RxState,
    },
    /// A network function.
    Nf(Box<dyn Nf>),
    /// Passes everything on: stands in for a dead NF whose policy is `bypass`.
    Bypass,
}

impl Work {
    /// Whether it is an NF at which packets end.
    pub fn ends_paths(&self) -> bool {
        matches!(self, Self::Nf(nf) if nf.ends_paths())
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Port { .. } => "Port",
            Self::Nf(_) => "Nf",
            Self::Bypass => "Bypass",
        })
    }
}
