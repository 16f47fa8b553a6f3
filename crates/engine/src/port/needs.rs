//! What a kind of port needs of the machine, which its worker keeps when it gives up the rest.
//!
//! Control path: read once, when a worker confines itself (`worker::confine`).

pub use rustix::thread::CapabilitySet;

/// Rights and threads of a kind of port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortNeeds {
    /// Capabilities that opening one takes, where its user has them.
    pub rights: CapabilitySet,
    /// Whether the data path needs them as well: for a device that comes back while the port runs.
    pub rights_while_running: bool,
    /// Whether it starts threads of its own.
    pub threads: bool,
}

impl PortNeeds {
    /// Nothing.
    pub const NONE: Self = Self::to_open(CapabilitySet::empty());

    /// These capabilities, while it is opened.
    pub const fn to_open(rights: CapabilitySet) -> Self {
        Self {
            rights,
            rights_while_running: false,
            threads: false,
        }
    }

    /// These capabilities, as long as it runs.
    pub const fn always(rights: CapabilitySet) -> Self {
        Self {
            rights,
            rights_while_running: true,
            threads: false,
        }
    }
}
