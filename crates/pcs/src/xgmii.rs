// SPDX-License-Identifier: Apache-2.0
//! The 72-bit vector between reconciliation sublayer and PCS: two columns of XGMII
//! (IEEE 802.3 46.3.2, 49.2.4.1), and the ordered sets that a column may be (46.3.4).

use core::fmt;

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

    /// The ordered sets in its columns, the first one first.
    pub fn ordered_sets(self) -> impl Iterator<Item = OrderedSet> {
        [0, 4].into_iter().filter_map(move |lane| {
            let (code, is_control) = self.lane(lane);
            let is_code = is_control && matches!(code, SEQUENCE | SIGNAL);
            is_code.then(|| OrderedSet {
                code,
                data: [1, 2, 3].map(|behind| self.lane(lane + behind).0),
            })
        })
    }

    /// Octet of a lane, and whether it is a control character.
    #[inline]
    pub fn lane(self, lane: usize) -> (u8, bool) {
        (self.data.to_le_bytes()[lane], self.ctrl >> lane & 1 == 1)
    }
}

/// A column that says something of the link instead of carrying a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedSet {
    /// [`SEQUENCE`] or [`SIGNAL`].
    pub code: u8,
    /// The three octets behind it.
    pub data: [u8; 3],
}

impl fmt::Display for OrderedSet {
    /// The name that IEEE 802.3 gives it (Table 46-5), or its code and octets where it has none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match (self.code, self.data) {
            (SEQUENCE, [0, 0, 1]) => "local fault",
            (SEQUENCE, [0, 0, 2]) => "remote fault",
            (SEQUENCE, [0, 0, 3]) => "link interruption",
            (code, [a, b, c]) => {
                let kind = match code {
                    SIGNAL => "signal",
                    _ => "sequence",
                };
                return write!(f, "{kind} {a:02x} {b:02x} {c:02x}");
            }
        };
        f.write_str(name)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(octets: [u8; 8], ctrl: u8) -> Vec<String> {
        let data = u64::from_le_bytes(octets);
        let sets = Vector { data, ctrl }.ordered_sets();
        sets.map(|set| set.to_string()).collect()
    }

    #[test]
    fn ordered_sets_have_the_names_of_the_standard_and_others_their_octets() {
        let both = |a: u8, b: u8| names([SEQUENCE, 0, 0, a, SEQUENCE, 0, 0, b], 0x11);
        assert_eq!(both(1, 2), ["local fault", "remote fault"]);
        assert_eq!(both(3, 4), ["link interruption", "sequence 00 00 04"]);
        let signal = names([SIGNAL, 0, 0, 1, IDLE, IDLE, IDLE, IDLE], 0xf1);
        assert_eq!(signal, ["signal 00 00 01"]);
        // A data octet of that value, and columns without a set.
        assert!(names([SEQUENCE; 8], 0).is_empty());
        assert!(names([IDLE; 8], 0xff).is_empty());
        assert_eq!(
            names([SEQUENCE, 1, 0, 1, 0, 0, 0, 0], 1),
            ["sequence 01 00 01"]
        );
    }
}
