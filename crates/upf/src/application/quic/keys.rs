//! The keys of a client's Initials: from its connection's first ID and the version's salt.
//!
//! On a packet's way where a UE says hello by QUIC. Specification: RFC 9001 5.2 to 5.4, RFC 9369
//! 3.3.

use super::aes::{Aes, BLOCK, NONCE};
use super::sha256::{expand, hmac};

/// What differs between versions.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its number.
    pub number: u32,
    /// The type of an Initial in its first byte.
    pub initial: u8,
    /// The type of a Retry, which has no length.
    pub retry: u8,
    salt: [u8; 20],
    labels: [&'static [u8]; 3],
}

/// QUIC version 1 (RFC 9001) and version 2 (RFC 9369).
pub const VERSIONS: [Version; 2] = [
    Version {
        number: 1,
        initial: 0,
        retry: 3,
        salt: [
            0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8,
            0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a,
        ],
        labels: [b"quic key", b"quic iv", b"quic hp"],
    },
    Version {
        number: 0x6b33_43cf,
        initial: 1,
        retry: 0,
        salt: [
            0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26,
            0x9d, 0xcb, 0xf9, 0xbd, 0x2e, 0xd9,
        ],
        labels: [b"quicv2 key", b"quicv2 iv", b"quicv2 hp"],
    },
];

/// Keys of the Initials that a client sends.
#[derive(Clone, Debug)]
pub struct Keys {
    /// That of the text.
    pub text: Aes,
    /// What packet numbers are mixed with.
    pub iv: [u8; NONCE],
    header: Aes,
}

impl Keys {
    /// Those of a connection whose client has sent its first packet to this ID.
    pub fn of(version: &Version, destination: &[u8]) -> Self {
        let secret = hmac(&version.salt, &[destination]);
        let secret: [u8; 32] = expand(&secret, b"client in");
        let [key, iv, header] = version.labels;
        Self {
            text: Aes::new(&expand(&secret, key)),
            iv: expand(&secret, iv),
            header: Aes::new(&expand(&secret, header)),
        }
    }

    /// What hides the first byte and the packet number, by a sample of the ciphertext.
    pub fn mask(&self, sample: &[u8; BLOCK]) -> [u8; BLOCK] {
        self.header.encrypt(sample)
    }

    /// The nonce of a packet.
    pub fn nonce(&self, number: u32) -> [u8; NONCE] {
        let mut nonce = self.iv;
        for (byte, number) in nonce[NONCE - 4..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= number;
        }
        nonce
    }
}
