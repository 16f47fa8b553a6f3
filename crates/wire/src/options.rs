// SPDX-License-Identifier: Apache-2.0
//! Storage for the options of an IPv4 or TCP header, so that a `Header` owns them without a heap.
//!
//! Both formats count their header in 32-bit words with a four-bit field and have a fixed part of
//! 20 bytes, which leaves at most 40 bytes of options (RFC 791 3.1, RFC 9293 3.1); in both, a zero
//! byte ends the list, so zeros are also the padding.

/// The most bytes of options a header can carry: 15 words less the fixed five.
pub const OPTIONS_LEN_MAX: usize = 40;

/// Option bytes in whole 32-bit words.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    // Bytes past `len` are zero, which makes the derived equality right.
    bytes: [u8; OPTIONS_LEN_MAX],
    len: u8,
}

impl Options {
    /// No options.
    pub const EMPTY: Self = Self {
        bytes: [0; OPTIONS_LEN_MAX],
        len: 0,
    };

    /// Takes a copy of `bytes`, padded with zeros to a whole number of words; `None` when they are
    /// longer than [`OPTIONS_LEN_MAX`].
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut options = Self::EMPTY;
        options.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        options.len = bytes.len().next_multiple_of(4) as u8;
        Some(options)
    }

    /// The bytes, padding included.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// Length in bytes, a multiple of four, at most [`OPTIONS_LEN_MAX`].
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are no options.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl core::fmt::Debug for Options {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Options({:02x?})", self.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_padded_to_words_and_bounded() {
        for len in 0..=OPTIONS_LEN_MAX {
            let options = Options::new(&vec![7; len]).unwrap();
            assert_eq!(options.len(), len.div_ceil(4) * 4);
            assert!(options.as_bytes()[..len].iter().all(|&byte| byte == 7));
            assert!(options.as_bytes()[len..].iter().all(|&byte| byte == 0));
            assert_eq!(options.is_empty(), len == 0);
        }
        assert_eq!(Options::new(&[0; OPTIONS_LEN_MAX + 1]), None);
    }
}
