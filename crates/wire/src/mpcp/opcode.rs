// SPDX-License-Identifier: Apache-2.0
//! Which MPCPDU a frame is (IEEE 802.3-2022, 31.4 and table 31A-1).

use core::fmt;

/// Which MPCPDU (802.3, table 31A-1). Constants have the names of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Opcode(pub u16);

impl Opcode {
    /// The OLT lets ONUs transmit.
    pub const GATE: Self = Self(2);
    /// An ONU says what waits in its queues.
    pub const REPORT: Self = Self(3);
    /// An ONU asks to be registered, or no longer to be.
    pub const REGISTER_REQ: Self = Self(4);
    /// The OLT registers an ONU, or ends a registration.
    pub const REGISTER: Self = Self(5);
    /// An ONU has understood its registration.
    pub const REGISTER_ACK: Self = Self(6);
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::GATE => f.write_str("gate"),
            Self::REPORT => f.write_str("report"),
            Self::REGISTER_REQ => f.write_str("register_req"),
            Self::REGISTER => f.write_str("register"),
            Self::REGISTER_ACK => f.write_str("register_ack"),
            Self(other) => write!(f, "0x{other:04x}"),
        }
    }
}
