// SPDX-License-Identifier: Apache-2.0
//! The 72-bit vector between reconciliation sublayer and PCS: two columns of XGMII
//! (IEEE 802.3 46.3.2, 49.2.4.1).

/// Idle.
pub const IDLE: u8 = 0x07;
/// Low power idle.
pub const LOW_POWER_IDLE: u8 = 0x06;
/// Start of a frame.
pub const START: u8 = 0xfb;
/// End of a frame.
pub const TERMINATE: u8 = 0xfd;
/// Error.
pub const ERROR: u8 = 0xfe;
/// Sequence ordered set.
pub const SEQUENCE: u8 = 0x9c;
/// Signal ordered set.
pub const SIGNAL: u8 = 0x5c;

/// Eight octets and which of them are control characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector {
    /// The octets, the first in the lowest byte.
    pub data: u64,
    /// A bit per octet, the first in bit 0; set for control characters.
    pub ctrl: u8,
}

impl Vector {
    /// Eight idles.
    pub const IDLE: Self = Self::control(IDLE);
    /// Eight errors: what the decoder gives for what it cannot decode (EBLOCK_R).
    pub const ERROR: Self = Self::control(ERROR);
    /// Local fault twice (LBLOCK_R): what a receiver without lock gives.
    pub const LOCAL_FAULT: Self = Self {
        data: u64::from_le_bytes([SEQUENCE, 0, 0, 1, SEQUENCE, 0, 0, 1]),
        ctrl: 0b0001_0001,
    };

    const fn control(character: u8) -> Self {
        Self {
            data: u64::from_le_bytes([character; 8]),
            ctrl: 0xff,
        }
    }

    /// Octet of a lane, and whether it is a control character.
    #[inline]
    pub fn lane(self, lane: usize) -> (u8, bool) {
        (self.data.to_le_bytes()[lane], self.ctrl >> lane & 1 == 1)
    }
}

/// What a vector or block is to the state machines of Clause 49: T_TYPE and R_TYPE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Idles, other control characters or ordered sets.
    Control,
    /// Start of a frame.
    Start,
    /// Data only.
    Data,
    /// End of a frame.
    Terminate,
    /// None of these.
    Error,
}
