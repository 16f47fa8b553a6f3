//! The hash of a flow: symmetric, so that both directions have the same, and keyed, so that nobody
//! outside can choose flows that all meet at one shard.
//!
//! NH of RFC 4418 section 5 in wider words, folded once more: for any two different keys that were
//! chosen without knowing the seed the chance that their sums are equal is at most 2^-64. The
//! supervisor draws the seed when a chain starts; all splitters of the chain have the same.

use catena_wire::dissect::{Dissected, Fragment};
use catena_wire::ip::Addresses;

/// A hash function that its seed selects.
#[derive(Clone, Debug)]
pub struct FlowHash {
    keys: [u64; 6],
    fold: [u64; 2],
}

/// One end of a flow: the two halves of its address, the lower one with the port where the address
/// is short.
type End = [u64; 2];

impl FlowHash {
    /// The function of a seed.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        let mut next = || {
            // splitmix64
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        let keys = std::array::from_fn(|_| next());
        let fold = [next(), next() | 1];
        Self { keys, fold }
    }

    /// Hash of the addresses, the protocol and the ports of a packet; of a fragment the addresses
    /// and the protocol only, since the others of its datagram have no ports. None if it is not IP.
    #[inline]
    pub fn of(&self, packet: &Dissected) -> Option<u64> {
        let ip = packet.ip.as_ref()?;
        let ports = match ip.fragment {
            Fragment::Whole => packet.ports().unwrap_or_default(),
            Fragment::First | Fragment::Later => (0, 0),
        };
        let protocol = u64::from(ip.protocol.0);
        let (src, dst) = match ip.addresses {
            Addresses::V4 { src, dst } => {
                let end = |bits: u32, port: u16| [0, u64::from(bits) << 16 | u64::from(port)];
                (end(src.to_bits(), ports.0), end(dst.to_bits(), ports.1))
            }
            Addresses::V6 { src, dst } => (halves(src.to_bits()), halves(dst.to_bits())),
        };
        let ports = match ip.addresses {
            Addresses::V4 { .. } => 0,
            // In the order of the ends, so that (a, 1) to (b, 2) is not (a, 2) to (b, 1).
            Addresses::V6 { .. } if (src, ports.0) <= (dst, ports.1) => joined(ports.0, ports.1),
            Addresses::V6 { .. } => joined(ports.1, ports.0),
        };
        Some(self.of_ends(src.min(dst), src.max(dst), ports << 8 | protocol))
    }

    #[inline]
    fn of_ends(&self, low: End, high: End, rest: u64) -> u64 {
        let words = [low[0], low[1], high[0], high[1], rest, 0];
        let word = |at: usize| words[at].wrapping_add(self.keys[at]);
        let sum = [0, 2, 4].into_iter().fold(0_u128, |sum, at| {
            sum.wrapping_add(product(word(at), word(at + 1)))
        });
        self.folded(sum)
    }

    /// Both halves of the sum in every bit; the upper ones choose the bucket.
    #[inline]
    fn folded(&self, sum: u128) -> u64 {
        let [high, low] = halves(sum);
        let [high, low] = halves(product(low ^ self.fold[0], high ^ self.fold[1]));
        let [high, low] = halves(product(high ^ low ^ self.fold[0], self.fold[1]));
        high ^ low
    }
}

#[inline]
fn product(left: u64, right: u64) -> u128 {
    u128::from(left) * u128::from(right)
}

#[inline]
fn joined(low: u16, high: u16) -> u64 {
    u64::from(low) << 16 | u64::from(high)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "takes the halves")]
fn halves(bits: u128) -> End {
    [(bits >> 64) as u64, bits as u64]
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use catena_wire::ip::Protocol;
    use proptest::prelude::*;

    use super::*;
    use crate::nfs::frames::{self, IpPacket};

    fn hash(seed: u64, frame: &[u8]) -> Option<u64> {
        FlowHash::new(seed).of(&Dissected::parse(frame).unwrap())
    }

    fn udp(src: (IpAddr, u16), dst: (IpAddr, u16)) -> Vec<u8> {
        let (from, to) = (src.0.to_string(), dst.0.to_string());
        let packet = IpPacket {
            src: &from,
            dst: &to,
            ..IpPacket::default()
        };
        packet.ports(src.1, dst.1)
    }

    fn address() -> impl Strategy<Value = (bool, u32, u16)> {
        (any::<bool>(), any::<u32>(), any::<u16>())
    }

    fn ends(a: (bool, u32, u16), b: (bool, u32, u16)) -> ((IpAddr, u16), (IpAddr, u16)) {
        let ip = |bits: u32| -> IpAddr {
            match a.0 {
                true => Ipv4Addr::from_bits(bits).into(),
                false => Ipv6Addr::from_bits(u128::from(bits) << 60).into(),
            }
        };
        ((ip(a.1), a.2), (ip(b.1), b.2))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn both_directions_have_one_hash(a in address(), b in address(), seed in any::<u64>()) {
            let (a, b) = ends(a, b);
            prop_assert!(hash(seed, &udp(a, b)).is_some());
            prop_assert_eq!(hash(seed, &udp(a, b)), hash(seed, &udp(b, a)));
        }

        #[test]
        fn other_flows_have_other_hashes(a in address(), b in address(), seed in any::<u64>()) {
            let (a, b) = ends(a, b);
            let other = (a.0, a.1 ^ 1);
            prop_assume!((other, b) != (b, a));
            prop_assert_ne!(hash(seed, &udp(a, b)), hash(seed, &udp(other, b)));
            prop_assert_ne!(hash(seed, &udp(a, b)), hash(seed ^ 1, &udp(a, b)));
            // Ports belong to their ends.
            prop_assume!(a.1 != b.1 && a.0 != b.0);
            let crossed = udp((a.0, b.1), (b.0, a.1));
            prop_assert_ne!(hash(seed, &udp(a, b)), hash(seed, &crossed));
        }
    }

    #[test]
    fn all_fragments_of_a_datagram_have_one_hash() {
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let whole = udp((a.into(), 1000), (b.into(), 2000));
        let part = |flags_and_offset: u16| {
            let mut frame = whole.clone();
            frame[20..22].copy_from_slice(&flags_and_offset.to_be_bytes());
            hash(1, &frame).unwrap()
        };
        let (first, later, last) = (part(0x2000), part(0x2001), part(2));
        assert_eq!((first, later), (later, last));
        assert_ne!(first, part(0));
        let tcp = IpPacket {
            protocol: Protocol::TCP,
            ..IpPacket::default()
        };
        assert_ne!(hash(1, &whole), hash(1, &tcp.ports(1000, 2000)));
    }

    #[test]
    fn what_is_not_ip_has_none() {
        let arp = frames::ethernet(catena_wire::ethernet::EtherType::ARP, &[0; 28]);
        assert_eq!(hash(1, &arp), None);
    }
}
