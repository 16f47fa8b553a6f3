//! Framed routes: networks behind a UE, beside its own address.
//!
//! Between N4 and the data path. An SMF names them in PDIs, as RADIUS does (RFC 2865 5.22, RFC 3162
//! 2.5): "192.0.2.0/24 192.0.2.1 1", of which a UPF needs the network. Downlink packets to such a
//! network find the session of its UE by the longest prefix (`ranges`); uplink packets may come
//! from it. Specification: TS 29.244 5.16, 8.2.109 to 8.2.111. Limits: IPv6 networks of up to 64
//! bits, no default route.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::stored;

/// Longest prefix of an IPv6 route: a key has room for so many bits.
pub const V6_BITS_MAX: u8 = 64;

stored! {
    /// A framed route of a PDR, or of a Traffic Endpoint.
    pub struct Route {
        /// PDR ID.
        pub pdr_id: u16,
        /// Traffic Endpoint ID, of an endpoint's: then it is that of no PDR alone.
        pub endpoint: Option<u8>,
        /// Whether the network is of IPv6.
        pub is_v6: bool,
        /// The network, on the right of IPv4, on the left of IPv6; bits behind its prefix are 0.
        pub net: u64,
        /// Bits of its prefix.
        pub bits: u8,
    }
}

const fn v4_mask(bits: u8) -> u64 {
    let bits = if bits > 32 { 32 } else { bits };
    (u32::MAX as u64) << (32 - bits) & u32::MAX as u64
}

fn v6_mask(bits: u8) -> u64 {
    let shift = 64u32.saturating_sub(bits.into());
    u64::MAX.checked_shl(shift).unwrap_or(0)
}

const fn high(address: Ipv6Addr) -> u64 {
    (address.to_bits() >> 64) as u64
}

impl Route {
    /// Reads Framed-Route or Framed-IPv6-Route. None of text that is no network of that version,
    /// that names hosts in it, or that this UPF has no key for.
    pub fn parse(pdr_id: u16, text: &[u8], is_v6: bool) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let net = text
            .trim_end_matches('\0')
            .split_ascii_whitespace()
            .next()?;
        let (address, bits) = match net.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
            None => (net, None),
        };
        let (net, bits, mask) = match address.parse().ok()? {
            IpAddr::V4(address) if !is_v6 => {
                let bits = bits.unwrap_or(32);
                (u64::from(address.to_bits()), bits, v4_mask(bits))
            }
            IpAddr::V6(address) if is_v6 => {
                let bits = bits?;
                if address.to_bits() << 64 != 0 {
                    return None;
                }
                (high(address), bits, v6_mask(bits))
            }
            _ => return None,
        };
        let most = if is_v6 { V6_BITS_MAX } else { 32 };
        let is_net = (1..=most).contains(&bits) && net & !mask == 0;
        is_net.then_some(Self {
            pdr_id,
            endpoint: None,
            is_v6,
            net,
            bits,
        })
    }

    /// The network of so many bits, 64 at most, that an address is in.
    pub(crate) const fn of_prefix(pdr_id: u16, address: Ipv6Addr, bits: u8) -> Self {
        let mask = match bits {
            0 => 0,
            1..=64 => u64::MAX << (64 - bits),
            _ => u64::MAX,
        };
        Self {
            pdr_id,
            endpoint: None,
            is_v6: true,
            net: high(address) & mask,
            bits,
        }
    }

    /// Whether it is a route of the PDR with this ID, which names this endpoint.
    #[inline]
    pub fn is_of(&self, pdr_id: u16, endpoint: Option<u8>) -> bool {
        match self.endpoint {
            None => self.pdr_id == pdr_id,
            its => its == endpoint,
        }
    }

    /// Whether an address is in the network.
    #[inline]
    pub fn holds(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => {
                !self.is_v6 && u64::from(address.to_bits()) & v4_mask(self.bits) == self.net
            }
            IpAddr::V6(address) => self.is_v6 && high(address) & v6_mask(self.bits) == self.net,
        }
    }

    /// Version, bits and network of the route of so many bits that an address would be in.
    #[inline]
    pub fn around(address: IpAddr, bits: u8) -> (bool, u8, u64) {
        match address {
            IpAddr::V4(address) => (false, bits, u64::from(address.to_bits()) & v4_mask(bits)),
            IpAddr::V6(address) => (true, bits, high(address) & v6_mask(bits)),
        }
    }

    /// The network as text.
    pub fn shown(&self) -> String {
        let net = match self.is_v6 {
            true => IpAddr::V6(Ipv6Addr::from_bits(u128::from(self.net) << 64)),
            #[expect(clippy::cast_possible_truncation, reason = "32 bits of IPv4")]
            false => IpAddr::V4(Ipv4Addr::from_bits(self.net as u32)),
        };
        format!("{net}/{}", self.bits)
    }
}

/// Which prefix lengths there are, so that only those are looked for: the longest first.
#[derive(Clone, Debug)]
pub struct Lengths {
    v4: [u32; 33],
    v6: [u32; V6_BITS_MAX as usize + 1],
    used_v4: u64,
    used_v6: u128,
}

impl Default for Lengths {
    fn default() -> Self {
        Self {
            v4: [0; 33],
            v6: [0; V6_BITS_MAX as usize + 1],
            used_v4: 0,
            used_v6: 0,
        }
    }
}

impl Lengths {
    /// Notes one more route of a length, or one less.
    pub fn count(&mut self, is_v6: bool, bits: u8, is_more: bool) {
        let place = usize::from(bits);
        let count = match is_v6 {
            true => self.v6.get_mut(place),
            false => self.v4.get_mut(place),
        };
        let Some(count) = count else {
            return;
        };
        *count = match is_more {
            true => count.saturating_add(1),
            false => count.saturating_sub(1),
        };
        let is_used = *count > 0;
        if is_v6 {
            self.used_v6 = self.used_v6 & !(1 << place) | u128::from(is_used) << place;
        } else {
            self.used_v4 = self.used_v4 & !(1 << place) | u64::from(is_used) << place;
        }
    }

    /// The lengths of routes that an address may be in, the longest first.
    #[inline]
    pub fn of(&self, address: IpAddr) -> impl Iterator<Item = u8> + use<> {
        let mut left = match address {
            IpAddr::V4(_) => u128::from(self.used_v4),
            IpAddr::V6(_) => self.used_v6,
        };
        std::iter::from_fn(move || {
            let place = 127u32.checked_sub(left.leading_zeros())?;
            left &= !(1 << place);
            u8::try_from(place).ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(text: &str) -> Option<Route> {
        Route::parse(1, text.as_bytes(), text.contains(':'))
    }

    #[test]
    fn a_route_is_the_network_in_front_of_its_gateway() {
        let v4 = route("192.0.2.0/24 192.0.2.1 1").unwrap();
        assert!(v4.holds("192.0.2.255".parse().unwrap()));
        assert!(!v4.holds("192.0.3.0".parse().unwrap()));
        assert!(!v4.holds("::c000:200".parse().unwrap()));
        assert_eq!(v4.shown(), "192.0.2.0/24");
        let v6 = route("2001:db8:7::/48 :: 1").unwrap();
        assert!(v6.holds("2001:db8:7:ffff::1".parse().unwrap()));
        assert!(!v6.holds("2001:db8:8::1".parse().unwrap()));
        assert_eq!(v6.shown(), "2001:db8:7::/48");
        assert_eq!(route("192.0.2.7").unwrap().bits, 32);
        assert_eq!(route("192.0.2.0/24\0").unwrap().bits, 24);
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            " ",
            "network",
            "192.0.2.1/24",
            "192.0.2.0/33",
            "192.0.2.0/",
            "0.0.0.0/0",
            "2001:db8::/65",
            "2001:db8::1/64",
            "2001:db8::",
            "::/0",
            "2001:db8:7::/32",
        ] {
            assert_eq!(route(text), None, "{text}");
        }
        assert_eq!(Route::parse(1, b"192.0.2.0/24", true), None);
        assert_eq!(Route::parse(1, &[0xff, 0xfe], false), None);
    }

    #[test]
    fn lengths_in_use_come_longest_first() {
        let mut lengths = Lengths::default();
        for (is_v6, bits) in [(false, 8), (false, 32), (false, 8), (true, 64), (true, 1)] {
            lengths.count(is_v6, bits, true);
        }
        let of = |lengths: &Lengths, address: &str| {
            let address: IpAddr = address.parse().unwrap();
            lengths.of(address).collect::<Vec<_>>()
        };
        assert_eq!(of(&lengths, "10.0.0.1"), [32, 8]);
        assert_eq!(of(&lengths, "::1"), [64, 1]);
        lengths.count(false, 32, false);
        lengths.count(false, 8, false);
        assert_eq!(of(&lengths, "10.0.0.1"), [8], "one of two is left");
        lengths.count(false, 200, true);
        assert_eq!(of(&lengths, "10.0.0.1"), [8]);
    }
}
