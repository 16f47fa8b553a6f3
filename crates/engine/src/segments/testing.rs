//! Packets for tests of NFs and ports: large ones, as a host hands them to a network card.
//!
//! Not part of a chain.

use catena_wire::checksum::Sum;

use super::cut::Cut;

/// What kind of packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    /// IPv6, else IPv4.
    pub is_v6: bool,
    /// TCP, else UDP.
    pub is_tcp: bool,
    /// VLAN tags.
    pub tags: usize,
    /// Words of IPv4 and of TCP options.
    pub options: usize,
    /// Bytes of payload.
    pub payload: usize,
}

/// A packet with the sum of its pseudo header where its checksum will be. Sequence numbers and
/// identifications are about to wrap; ACK, PSH, FIN and CWR are set.
pub fn packet(shape: Shape) -> Vec<u8> {
    let Shape {
        is_v6,
        is_tcp,
        options,
        payload,
        ..
    } = shape;
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    for tag in 0..shape.tags {
        bytes.extend([0x81, 0, 0, tag as u8]);
    }
    let protocol = if is_tcp { 6 } else { 17 };
    let l4_len = payload + if is_tcp { 20 + 4 * options } else { 8 };
    let l4_len_bytes = u16::try_from(l4_len).unwrap().to_be_bytes();
    if is_v6 {
        bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        bytes.extend(l4_len_bytes);
        bytes.extend([protocol, 64]);
        bytes.extend([0xfd; 32]);
    } else {
        let start = bytes.len() + 2;
        bytes.extend([8, 0, 0x45 + options as u8, 0]);
        bytes.extend(
            u16::try_from(20 + 4 * options + l4_len)
                .unwrap()
                .to_be_bytes(),
        );
        bytes.extend([0xff, 0xf0, 0x40, 0, 64, protocol, 0, 0]);
        bytes.extend([198, 18, 0, 1, 198, 18, 0, 2]);
        bytes.extend(vec![1; 4 * options]);
        let checksum = Sum::of(&bytes[start..]).checksum();
        bytes[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
    }
    let addresses = if is_v6 {
        &[0xfd; 32][..]
    } else {
        &[198, 18, 0, 1, 198, 18, 0, 2]
    };
    let pseudo = Sum::of(addresses) + Sum::of(&[0, protocol]) + Sum::of(&l4_len_bytes);
    let seed = (!pseudo.checksum()).to_be_bytes();
    bytes.extend([0x1f, 0x90, 0x23, 0x28]);
    if is_tcp {
        bytes.extend([0xff, 0xff, 0xff, 0, 0, 0, 0, 7]);
        bytes.extend([(5 + options as u8) << 4, 0x99, 0xff, 0xff]);
        bytes.extend([seed[0], seed[1], 0, 0]);
        bytes.extend(vec![1; 4 * options]);
    } else {
        bytes.extend(l4_len_bytes);
        bytes.extend(seed);
    }
    bytes.extend((0..payload).map(|at| ((at * 7) >> 2) as u8));
    bytes
}

/// All segments of a packet, over bytes that are not zero; none if it is not to be cut.
pub fn cut_apart(whole: &[u8], size: usize) -> Option<Vec<Vec<u8>>> {
    let mut cut = Cut::of(whole, size)?;
    let mut segments = Vec::new();
    while let Some(len) = cut.next_len() {
        let mut segment = vec![0xaa; len];
        cut.write(whole, &mut segment);
        segments.push(segment);
    }
    Some(segments)
}
