//! AES-128, its counter mode with GHASH (GCM): what seals QUIC Initials.
//!
//! On a packet's way where a UE says hello by QUIC. Keys of Initials are known to whoever sees the
//! packet, so nothing here has to hide how long it takes: it is short, and not for secrets.
//! Specification: FIPS 197, NIST SP 800-38D.

/// Bytes of a block and of a key.
pub const BLOCK: usize = 16;
/// Bytes of a nonce.
pub const NONCE: usize = 12;

const ROUNDS: usize = 10;

type Block = [u8; BLOCK];

/// A byte times x in the field of AES.
const fn times_x(byte: u8) -> u8 {
    (byte << 1) ^ ((byte >> 7) * 0x1b)
}

/// FIPS 197, 5.1.1: each byte's inverse, and an affine map of it.
const SUBSTITUTION: [u8; 256] = {
    let mut table = [0; 256];
    // All bytes but 0 are powers of 3: `power` goes through them, `inverse` the other way.
    let (mut power, mut inverse) = (1u8, 1u8);
    loop {
        power ^= times_x(power);
        inverse ^= inverse << 1;
        inverse ^= inverse << 2;
        inverse ^= inverse << 4;
        inverse ^= (inverse >> 7) * 0x09;
        let mapped = inverse
            ^ inverse.rotate_left(1)
            ^ inverse.rotate_left(2)
            ^ inverse.rotate_left(3)
            ^ inverse.rotate_left(4);
        table[power as usize] = mapped ^ 0x63;
        if power == 1 {
            break;
        }
    }
    table[0] = 0x63;
    table
};

fn substituted(byte: u8) -> u8 {
    SUBSTITUTION[usize::from(byte)]
}

fn xor(block: &mut Block, other: &Block) {
    for (byte, other) in block.iter_mut().zip(other) {
        *byte ^= other;
    }
}

/// A key, expanded.
#[derive(Clone, Debug)]
pub struct Aes([Block; ROUNDS + 1]);

impl Aes {
    /// Expands a key (5.2).
    pub fn new(key: &Block) -> Self {
        let mut keys = [[0; BLOCK]; ROUNDS + 1];
        keys[0] = *key;
        let mut constant = 1;
        for round in 1..=ROUNDS {
            let before = keys[round - 1];
            let next = &mut keys[round];
            for at in 0..4 {
                next[at] = before[at] ^ substituted(before[12 + (at + 1) % 4]);
            }
            next[0] ^= constant;
            constant = times_x(constant);
            for at in 4..BLOCK {
                next[at] = before[at] ^ next[at - 4];
            }
        }
        Self(keys)
    }

    /// Encrypts a block (5.1).
    pub fn encrypt(&self, block: &Block) -> Block {
        let mut state = *block;
        xor(&mut state, &self.0[0]);
        for (round, key) in self.0.iter().enumerate().skip(1) {
            // Bytes of a column come from rows that were shifted by 0 to 3.
            let mut next: Block =
                std::array::from_fn(|at| substituted(state[(at + at % 4 * 4) % BLOCK]));
            if round < ROUNDS {
                for column in next.chunks_exact_mut(4) {
                    let all = column.iter().fold(0, |all, byte| all ^ byte);
                    let first = column[0];
                    for at in 0..4 {
                        let following = if at == 3 { first } else { column[at + 1] };
                        column[at] ^= all ^ times_x(column[at] ^ following);
                    }
                }
            }
            xor(&mut next, key);
            state = next;
        }
        state
    }

    /// Turns text into ciphertext, or back (SP 800-38D, 6.5, from the second counter on).
    pub fn crypt(&self, nonce: &[u8; NONCE], text: &mut [u8]) {
        for (counter, part) in (2u32..).zip(text.chunks_mut(BLOCK)) {
            let stream = self.encrypt(&counted(nonce, counter));
            for (byte, stream) in part.iter_mut().zip(stream) {
                *byte ^= stream;
            }
        }
    }

    /// The tag of a ciphertext and of what it comes with (7.1).
    pub fn tag(&self, nonce: &[u8; NONCE], with: &[u8], ciphertext: &[u8]) -> Block {
        let key = u128::from_be_bytes(self.encrypt(&[0; BLOCK]));
        let mut hash = 0;
        for text in [with, ciphertext] {
            for part in text.chunks(BLOCK) {
                let mut block = [0; BLOCK];
                block[..part.len()].copy_from_slice(part);
                hash = product(hash ^ u128::from_be_bytes(block), key);
            }
        }
        let bits = |text: &[u8]| text.len() as u128 * 8;
        hash = product(hash ^ (bits(with) << 64 | bits(ciphertext)), key);
        let mut tag = hash.to_be_bytes();
        xor(&mut tag, &self.encrypt(&counted(nonce, 1)));
        tag
    }
}

fn counted(nonce: &[u8; NONCE], counter: u32) -> Block {
    let mut block = [0; BLOCK];
    block[..NONCE].copy_from_slice(nonce);
    block[NONCE..].copy_from_slice(&counter.to_be_bytes());
    block
}

/// Two elements of the field of GHASH (6.3), whose highest bit is the first one.
fn product(one: u128, other: u128) -> u128 {
    const REDUCTION: u128 = 0xe1 << 120;
    let (mut sum, mut shifted) = (0, other);
    for bit in (0..128).rev() {
        sum ^= shifted & (one >> bit & 1).wrapping_neg();
        shifted = shifted >> 1 ^ (REDUCTION & (shifted & 1).wrapping_neg());
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_flow::efsm::hex;

    fn block(text: &str) -> Block {
        hex(text).unwrap().try_into().unwrap()
    }

    /// FIPS 197, appendix B and C.1.
    #[test]
    fn blocks_are_those_of_the_standard() {
        for (key, plain, wanted) in [
            (
                "2b7e151628aed2a6abf7158809cf4f3c",
                "3243f6a8885a308d313198a2e0370734",
                "3925841d02dc09fbdc118597196a0b32",
            ),
            (
                "000102030405060708090a0b0c0d0e0f",
                "00112233445566778899aabbccddeeff",
                "69c4e0d86a7b0430d8cdb78070b4c55a",
            ),
        ] {
            assert_eq!(Aes::new(&block(key)).encrypt(&block(plain)), block(wanted));
        }
    }

    /// Test cases 1, 2 and 4 of McGrew and Viega's specification of GCM.
    #[test]
    fn tags_are_those_of_the_specification() {
        let zero = Aes::new(&[0; BLOCK]);
        let empty = zero.tag(&[0; NONCE], &[], &[]);
        assert_eq!(empty, block("58e2fccefa7e3061367f1d57a4e7455a"));
        let mut text = [0; BLOCK];
        zero.crypt(&[0; NONCE], &mut text);
        assert_eq!(text, block("0388dace60b6a392f328c2b971b2fe78"));
        let tag = zero.tag(&[0; NONCE], &[], &text);
        assert_eq!(tag, block("ab6e47d42cec13bdf53a67b21257bddf"));
        let aes = Aes::new(&block("feffe9928665731c6d6a8f9467308308"));
        let nonce = hex("cafebabefacedbaddecaf888").unwrap().try_into().unwrap();
        let mut text = hex(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
            1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        )
        .unwrap();
        let with = hex("feedfacedeadbeeffeedfacedeadbeefabaddad2").unwrap();
        aes.crypt(&nonce, &mut text);
        let wanted = hex(
            "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
            21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
        );
        assert_eq!(Some(&text), wanted.as_ref());
        let tag = aes.tag(&nonce, &with, &text);
        assert_eq!(tag, block("5bc94fbc3221a5db94fae95ae7121a47"));
    }
}
