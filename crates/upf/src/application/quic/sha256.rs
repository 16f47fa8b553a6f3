//! SHA-256, HMAC and HKDF: how keys of QUIC Initials come from a connection's first ID.
//!
//! On a packet's way where a UE says hello by QUIC. What goes in is public: nothing here is for
//! secrets. Specification: FIPS 180-4, RFC 2104, RFC 5869, RFC 8446 7.1. Limits: keys and messages
//! of HMAC of at most [`MESSAGE_MAX`] bytes, which those of Initials are.

/// Bytes of a digest.
pub const DIGEST: usize = 32;
/// Bytes of a block.
const BLOCK: usize = 64;
/// Longest message: what is longer is cut.
pub const MESSAGE_MAX: usize = 128;

const FIRST: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// The first 32 bits of the fractions of the cube roots of the first 64 primes (4.2.2).
const ROUND: [u32; 64] = {
    let mut table = [0; 64];
    let (mut at, mut candidate) = (0, 2u128);
    while at < table.len() {
        let mut divisor = 2;
        while candidate % divisor != 0 {
            divisor += 1;
        }
        if divisor == candidate {
            table[at] = cube_root(candidate << 96) as u32;
            at += 1;
        }
        candidate += 1;
    }
    table
};

/// The whole part of the cube root.
const fn cube_root(of: u128) -> u128 {
    let (mut low, mut high) = (0u128, 1 << 36);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if middle * middle * middle <= of {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

fn compress(state: &mut [u32; 8], block: &[u8]) {
    let mut words = [0u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes
            .iter()
            .fold(0, |all, byte| all << 8 | u32::from(*byte));
    }
    for at in 16..64 {
        let (early, late) = (words[at - 15], words[at - 2]);
        let early = early.rotate_right(7) ^ early.rotate_right(18) ^ early >> 3;
        let late = late.rotate_right(17) ^ late.rotate_right(19) ^ late >> 10;
        let sum = words[at - 16].wrapping_add(words[at - 7]);
        words[at] = sum.wrapping_add(early).wrapping_add(late);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (word, constant) in words.into_iter().zip(ROUND) {
        let of_e = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let chosen = e & f ^ !e & g;
        let first = [of_e, chosen, constant, word];
        let first = first.into_iter().fold(h, u32::wrapping_add);
        let of_a = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let second = of_a.wrapping_add(a & b ^ a & c ^ b & c);
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(second));
    }
    for (word, added) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(added);
    }
}

/// The digest of parts, one behind the other, of [`MESSAGE_MAX`] bytes and a block at most.
fn digest(parts: &[&[u8]]) -> [u8; DIGEST] {
    const ROOM: usize = MESSAGE_MAX + 2 * BLOCK;
    let mut message = [0u8; ROOM];
    let mut len = 0;
    for byte in parts
        .iter()
        .flat_map(|part| part.iter())
        .take(MESSAGE_MAX + BLOCK)
    {
        message[len] = *byte;
        len += 1;
    }
    message[len] = 0x80;
    let end = (len + 9).next_multiple_of(BLOCK);
    message[end - 8..end].copy_from_slice(&(len as u64 * 8).to_be_bytes());
    let mut state = FIRST;
    for block in message[..end].chunks_exact(BLOCK) {
        compress(&mut state, block);
    }
    let mut digest = [0; DIGEST];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

/// HMAC of parts, by a key of a block at most; this is HKDF-Extract, too, of a salt and a secret.
pub fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; DIGEST] {
    let padded = |with: u8| {
        let mut block = [with; BLOCK];
        for (byte, key) in block.iter_mut().zip(key) {
            *byte ^= key;
        }
        block
    };
    let (inner, outer) = (padded(0x36), padded(0x5c));
    let mut all: [&[u8]; 5] = [&[]; 5];
    all[0] = &inner;
    for (to, part) in all[1..].iter_mut().zip(parts) {
        *to = part;
    }
    digest(&[&outer, &digest(&all)])
}

/// HKDF-Expand-Label without context: `LEN` bytes, a digest at most.
pub fn expand<const LEN: usize>(secret: &[u8], label: &[u8]) -> [u8; LEN] {
    const { assert!(LEN <= DIGEST) };
    let prefix = b"tls13 ";
    let label_len = (prefix.len() + label.len()) as u8;
    let lengths = [0, LEN as u8, label_len];
    let whole = hmac(secret, &[&lengths, prefix, label, &[0, 1]]);
    std::array::from_fn(|at| whole[at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_flow::efsm::hex;

    fn assert_is(digest: [u8; DIGEST], wanted: &str) {
        assert_eq!(Some(digest.to_vec()), hex(wanted));
    }

    /// FIPS 180-4's examples, and lengths around the end of a block.
    #[test]
    fn digests_are_those_of_the_standard() {
        assert_eq!((ROUND[0], ROUND[63]), (0x428a_2f98, 0xc671_78f2));
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_is(digest(&[]), empty);
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_is(digest(&[b"a", b"", b"bc"]), abc);
        let two = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        let wanted = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
        assert_is(digest(&[two]), wanted);
    }

    /// RFC 4231, 4.2 and 4.3.
    #[test]
    fn codes_are_those_of_the_standard() {
        let wanted = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        assert_is(hmac(&[0x0b; 20], &[b"Hi There"]), wanted);
        let wanted = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let text: [&[u8]; 2] = [b"what do ya want ", b"for nothing?"];
        assert_is(hmac(b"Jefe", &text), wanted);
    }
}
