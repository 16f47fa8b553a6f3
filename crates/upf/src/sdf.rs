//! SDF filters: which packets of a UE a PDR is for.
//!
//! Third step of a packet's way through the UPF, after its session is found. A flow description is
//! an IPFilterRule (RFC 6733, 4.3.1) as TS 29.212 5.4.2 restricts it: `permit out PROTOCOL from
//! SOURCE [PORTS] to DESTINATION [PORTS]`, no options, no `!`. It is written for downlink packets;
//! uplink ones are compared with both sides exchanged (TS 29.244, 5.2.1A.2). Limits:
//! [`PORT_RANGES_MAX`] ranges per side.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::stored;
use crate::stored::{Field, Fields, List};

/// Most port ranges of one side of a flow description.
pub const PORT_RANGES_MAX: usize = 6;

stored! {
    /// One side of a flow description.
    pub struct Side {
        /// What kind of address: one of the constants of this type.
        pub kind: u8,
        /// Bits of the network.
        pub bits: u8,
        /// The network of [`Side::V4`].
        pub v4: Ipv4Addr,
        /// Lowest and highest port of each range; none for all ports.
        pub ports: List<[u16; 2], PORT_RANGES_MAX>,
        /// The network of [`Side::V6`].
        pub v6: Ipv6Addr,
    }

    /// An SDF filter, ready to be compared with packets. All that is there must fit.
    pub struct Filter {
        /// Whether there is a flow description: sides and protocol.
        pub has_flow: bool,
        /// IP protocol; none for all (`ip`).
        pub protocol: Option<u8>,
        /// ToS or Traffic Class, and its mask.
        pub traffic_class: Option<[u8; 2]>,
        /// Security parameter index.
        pub spi: Option<u32>,
        /// Flow label of IPv6.
        pub flow_label: Option<u32>,
        /// `from`: the remote side.
        pub from: Side,
        /// `to`: the UE's side.
        pub to: Side,
        /// SDF Filter ID.
        pub filter_id: Option<u32>,
    }
}

impl Side {
    /// Every address.
    pub const ANY: u8 = 0;
    /// An IPv4 network.
    pub const V4: u8 = 1;
    /// An IPv6 network.
    pub const V6: u8 = 2;
    /// Addresses of the UE: `assigned`.
    pub const ASSIGNED: u8 = 3;

    /// Every address and port.
    pub fn any() -> Self {
        Self {
            kind: Self::ANY,
            v4: Ipv4Addr::UNSPECIFIED,
            v6: Ipv6Addr::UNSPECIFIED,
            bits: 0,
            ports: List::default(),
        }
    }

    /// As [`Side::holds`], of a side where it lies in a filter, for a packet with ports.
    #[inline(always)]
    fn holds_at(side: Field<Filter, Self>, record: &[u8], address: IpAddr, port: u16) -> bool {
        type S = Fields<Side>;
        let bits = || side.then(S::bits()).get(record);
        let is_address = match (side.then(S::kind()).get(record), address) {
            (Self::ANY | Self::ASSIGNED, _) => true,
            (Self::V4, IpAddr::V4(address)) => {
                is_in_v4(side.then(S::v4()).get(record), bits(), address)
            }
            (Self::V6, IpAddr::V6(address)) => {
                is_in_v6(side.then(S::v6()).get(record), bits(), address)
            }
            _ => false,
        };
        // The length of a list stands in front of it.
        let ports = side.then(S::ports());
        let has_ports = Field::<Filter, u8>::at(ports.offset()).get(record) != 0;
        is_address
            && (!has_ports
                || ports
                    .get(record)
                    .as_slice()
                    .iter()
                    .any(|one| holds(one, port)))
    }

    fn holds(&self, address: IpAddr, port: Option<u16>) -> bool {
        let is_address = match (self.kind, address) {
            // The session was found by the UE's address, or is held to it by its PDI.
            (Self::ANY | Self::ASSIGNED, _) => true,
            (Self::V4, IpAddr::V4(address)) => is_in_v4(self.v4, self.bits, address),
            (Self::V6, IpAddr::V6(address)) => is_in_v6(self.v6, self.bits, address),
            _ => false,
        };
        let ports = self.ports.as_slice();
        is_address
            && (ports.is_empty()
                || port.is_some_and(|port| ports.iter().any(|one| holds(one, port))))
    }
}

fn holds([low, high]: &[u16; 2], port: u16) -> bool {
    (*low..=*high).contains(&port)
}

#[inline]
fn is_in_v4(net: Ipv4Addr, bits: u8, address: Ipv4Addr) -> bool {
    let shift = 32 - u32::from(bits.min(32));
    let differs = u64::from(address.to_bits() ^ net.to_bits());
    differs >> shift == 0
}

#[inline]
fn is_in_v6(net: Ipv6Addr, bits: u8, address: Ipv6Addr) -> bool {
    let shift = 128 - u32::from(bits.min(128));
    let differs = address.to_bits() ^ net.to_bits();
    differs.checked_shr(shift).unwrap_or(0) == 0
}

/// What filters look at of a usual packet: addresses of one version, and the ports of TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends<A> {
    pub(crate) protocol: u8,
    pub(crate) traffic_class: u8,
    /// 0 of IPv4.
    pub(crate) flow_label: u32,
    pub(crate) src: A,
    pub(crate) dst: A,
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
}

/// What filters look at of a user's packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Protocol behind all extension headers.
    pub protocol: u8,
    /// Source and destination port; none in fragments but the first, and of protocols without.
    pub ports: Option<(u16, u16)>,
    /// ToS or Traffic Class.
    pub traffic_class: u8,
    /// Flow label; 0 of IPv4.
    pub flow_label: u32,
    /// Security parameter index of AH and ESP.
    pub spi: Option<u32>,
    /// Length in bytes from the IP header on, as its length field says.
    pub len: usize,
    /// Whether it is a fragment.
    pub is_part: bool,
}

impl Inner {
    /// Of what has no header that rules know: addresses and a length, and nothing else.
    pub(crate) const fn opaque(src: IpAddr, dst: IpAddr, len: usize) -> Self {
        Self {
            src,
            dst,
            protocol: u8::MAX,
            ports: None,
            traffic_class: 0,
            flow_label: 0,
            spi: None,
            len,
            is_part: false,
        }
    }
}

impl Filter {
    /// A filter that every packet passes.
    pub fn all() -> Self {
        Self {
            has_flow: false,
            protocol: None,
            from: Side::any(),
            to: Side::any(),
            traffic_class: None,
            spi: None,
            flow_label: None,
            filter_id: None,
        }
    }

    /// As [`Filter::fits`], of a record where it lies, for a usual packet: of most filters no more
    /// is read than what it does not fit.
    #[inline(always)]
    pub(crate) fn fits_at<A: Copy + Into<IpAddr>>(
        record: &[u8],
        ends: &Ends<A>,
        is_uplink: bool,
    ) -> bool {
        type F = Fields<Filter>;
        let protocol = F::protocol().get(record);
        if protocol.is_some_and(|protocol| protocol != ends.protocol) {
            return false;
        }
        let class = F::traffic_class().get(record);
        if class.is_some_and(|[value, mask]| (ends.traffic_class ^ value) & mask != 0) {
            return false;
        }
        // Of AH and ESP.
        if F::spi().get(record).is_some() {
            return false;
        }
        let (src, dst) = (ends.src.into(), ends.dst.into());
        let label = F::flow_label().get(record);
        if label.is_some_and(|label| src.is_ipv4() || ends.flow_label != label) {
            return false;
        }
        let (from, to) = match is_uplink {
            true => (F::to(), F::from()),
            false => (F::from(), F::to()),
        };
        !F::has_flow().get(record)
            || Side::holds_at(from, record, src, ends.src_port)
                && Side::holds_at(to, record, dst, ends.dst_port)
    }

    /// Whether the packet fits; `is_uplink` says which side the UE is on.
    #[inline]
    pub fn fits(&self, packet: &Inner, is_uplink: bool) -> bool {
        let class = self
            .traffic_class
            .is_none_or(|[value, mask]| packet.traffic_class & mask == value & mask);
        let spi = self.spi.is_none_or(|spi| packet.spi == Some(spi));
        let label = self
            .flow_label
            .is_none_or(|label| packet.src.is_ipv6() && packet.flow_label == label);
        class && spi && label && (!self.has_flow || self.flow_fits(packet, is_uplink))
    }

    fn flow_fits(&self, packet: &Inner, is_uplink: bool) -> bool {
        let (from, to) = if is_uplink {
            (&self.to, &self.from)
        } else {
            (&self.from, &self.to)
        };
        let (src_port, dst_port) = packet.ports.unzip();
        self.protocol.is_none_or(|one| one == packet.protocol)
            && from.holds(packet.src, src_port)
            && to.holds(packet.dst, dst_port)
    }
}

/// What is wrong with a flow description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct FlowError {
    /// The word, counted from 1, at which it is wrong.
    pub word: usize,
    /// What was found there, cut at 40 characters; empty at the end.
    pub found: String,
    /// What could have stood there.
    pub expected: &'static str,
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            word,
            found,
            expected,
        } = self;
        match found.as_str() {
            "" => write!(
                f,
                "the flow description ends before word {word}: {expected}"
            ),
            found => write!(
                f,
                "word {word} of the flow description is \"{found}\": {expected}"
            ),
        }
    }
}

struct Words<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn fault(&self, expected: &'static str) -> FlowError {
        FlowError {
            word: self.at + 1,
            found: self.peek().unwrap_or_default().chars().take(40).collect(),
            expected,
        }
    }

    fn keyword(&mut self, word: &str, expected: &'static str) -> Result<(), FlowError> {
        match self.peek() {
            Some(found) if found.eq_ignore_ascii_case(word) => {
                self.at += 1;
                Ok(())
            }
            _ => Err(self.fault(expected)),
        }
    }

    fn read<T>(
        &mut self,
        expected: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, FlowError> {
        let value = self.peek().and_then(read);
        let value = value.ok_or_else(|| self.fault(expected))?;
        self.at += 1;
        Ok(value)
    }

    fn side(&mut self) -> Result<Side, FlowError> {
        const ADDRESS: &str = "write any, assigned, or an address with or without /bits";
        let mut side = self.read(ADDRESS, address)?;
        let is_ports = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
        if self.peek().is_some_and(is_ports) {
            side.ports = self.read("write up to 6 ports or ranges, as 80,443,1000-2000", ports)?;
        }
        Ok(side)
    }
}

/// Reads a flow description.
///
/// # Errors
/// The first word that is not as TS 29.212 5.4.2 has it.
pub fn parse_flow(description: &[u8]) -> Result<Filter, FlowError> {
    let text = std::str::from_utf8(description).map_err(|_| FlowError {
        word: 1,
        found: description
            .escape_ascii()
            .to_string()
            .chars()
            .take(40)
            .collect(),
        expected: "write ASCII",
    })?;
    let mut words = Words {
        words: text.split_ascii_whitespace().collect(),
        at: 0,
    };
    words.keyword("permit", "write permit: filters detect and refuse nothing")?;
    words.keyword("out", "write out: descriptions are of downlink packets")?;
    let protocol = words.read("write ip or a protocol number", |word| {
        if word.eq_ignore_ascii_case("ip") {
            return Some(None);
        }
        word.parse().ok().map(Some)
    })?;
    words.keyword("from", "write from")?;
    let from = words.side()?;
    words.keyword("to", "write to")?;
    let to = words.side()?;
    if words.peek().is_some() {
        return Err(words.fault("end it there: options are not for SDF filters"));
    }
    let is_mixed = matches!(
        (from.kind, to.kind),
        (Side::V4, Side::V6) | (Side::V6, Side::V4)
    );
    if is_mixed {
        words.at -= 1;
        return Err(words.fault("write addresses of one version"));
    }
    Ok(Filter {
        has_flow: true,
        protocol,
        from,
        to,
        ..Filter::all()
    })
}

fn address(word: &str) -> Option<Side> {
    let mut side = Side::any();
    if word.eq_ignore_ascii_case("any") {
        return Some(side);
    }
    if word.eq_ignore_ascii_case("assigned") {
        side.kind = Side::ASSIGNED;
        return Some(side);
    }
    let (text, bits) = match word.split_once('/') {
        Some((text, bits)) => (text, Some(bits.parse::<u8>().ok()?)),
        None => (word, None),
    };
    match text.parse().ok()? {
        IpAddr::V4(v4) => {
            side.kind = Side::V4;
            side.v4 = v4;
            side.bits = bits.unwrap_or(32);
            (side.bits <= 32).then_some(side)
        }
        IpAddr::V6(v6) => {
            side.kind = Side::V6;
            side.v6 = v6;
            side.bits = bits.unwrap_or(128);
            (side.bits <= 128).then_some(side)
        }
    }
}

fn ports(word: &str) -> Option<List<[u16; 2], PORT_RANGES_MAX>> {
    let mut list = List::default();
    for part in word.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let range = [low.parse().ok()?, high.parse().ok()?];
        if range[0] > range[1] || !list.push(range) {
            return None;
        }
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packet(src: &str, dst: &str, ports: Option<(u16, u16)>) -> Inner {
        Inner {
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
            protocol: 17,
            ports,
            traffic_class: 0xb8,
            flow_label: 5,
            spi: None,
            len: 100,
            is_part: false,
        }
    }

    #[test]
    fn descriptions_are_of_downlink_and_turn_round_for_uplink() {
        let text = b"permit out 17 from 8.8.8.0/24 53,1000-2000 to assigned";
        let filter = parse_flow(text).unwrap();
        let down = packet("8.8.8.8", "10.45.0.2", Some((53, 5000)));
        let up = packet("10.45.0.2", "8.8.8.8", Some((5000, 1500)));
        assert!(filter.fits(&down, false) && filter.fits(&up, true));
        assert!(!filter.fits(&down, true) && !filter.fits(&up, false));
        let other_port = packet("8.8.8.8", "10.45.0.2", Some((54, 5000)));
        let fragment = packet("8.8.8.8", "10.45.0.2", None);
        let other_net = packet("8.8.9.8", "10.45.0.2", Some((53, 5000)));
        for other in [other_port, fragment, other_net] {
            assert!(!filter.fits(&other, false), "{other:?}");
        }
        assert!(!filter.fits(
            &Inner {
                protocol: 6,
                ..down
            },
            false
        ));
    }

    #[test]
    fn the_other_fields_must_fit_too() {
        let v6 = packet("2001:db8::1", "2001:db8:45::2", None);
        let with = |change: fn(&mut Filter)| {
            let mut filter = Filter::all();
            change(&mut filter);
            filter.fits(&v6, false)
        };
        assert!(with(|filter| filter.traffic_class = Some([0xbb, 0xfc])));
        assert!(!with(|filter| filter.traffic_class = Some([0xb0, 0xfc])));
        assert!(with(|filter| filter.flow_label = Some(5)));
        assert!(!with(|filter| filter.flow_label = Some(6)));
        assert!(!with(|filter| filter.spi = Some(1)));
    }

    #[test]
    fn networks_of_every_length_hold_what_they_name() {
        let v6 = parse_flow(b"permit out ip from 2001:db8::/32 to any").unwrap();
        assert!(v6.fits(&packet("2001:db8:1::1", "2001:db9::1", None), false));
        assert!(!v6.fits(&packet("2001:db9::1", "2001:db8::1", None), false));
        assert!(!v6.fits(&packet("1.2.3.4", "2.2.2.2", None), false));
        for text in ["0.0.0.0/0", "::/0"] {
            let text = format!("permit out ip from {text} to any");
            let filter = parse_flow(text.as_bytes()).unwrap();
            let fits = filter.fits(&packet("1.2.3.4", "2.2.2.2", None), false)
                || filter.fits(&packet("::1", "::2", None), false);
            assert!(fits, "{text}");
        }
    }

    #[test]
    fn what_29_212_does_not_allow_is_refused_at_its_word() {
        for (text, word) in [
            ("", 1),
            ("deny out ip from any to any", 1),
            ("permit in ip from any to any", 2),
            ("permit out tcp from any to any", 3),
            ("permit out 256 from any to any", 3),
            ("permit out ip any to any", 4),
            ("permit out ip from !1.2.3.4 to any", 5),
            ("permit out ip from 1.2.3.4/33 to any", 5),
            ("permit out 6 from any 80-20 to any", 6),
            ("permit out 6 from any 70000 to any", 6),
            ("permit out 6 from any 1,2,3,4,5,6,7 to any", 6),
            ("permit out ip from any", 6),
            ("permit out ip from any to any frag", 8),
            ("permit out ip from 1.2.3.4 to ::1", 7),
        ] {
            let fault = parse_flow(text.as_bytes()).unwrap_err();
            assert_eq!(fault.word, word, "{text}: {fault}");
        }
        assert!(parse_flow(&[0xff, 0xfe]).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ -~]{0,80}", bytes: Vec<u8>) {
            let _ = parse_flow(text.as_bytes());
            let _ = parse_flow(&bytes);
        }

        /// A network of any length holds exactly the addresses with its bits.
        #[test]
        fn a_network_holds_the_addresses_with_its_bits(net: u32, other: u32, bits in 0u32..=32) {
            let text = format!("permit out ip from {}/{bits} to any", Ipv4Addr::from(net));
            let filter = parse_flow(text.as_bytes()).unwrap();
            let other = Ipv4Addr::from(other).to_string();
            let is_in = (0..bits).all(|bit| {
                let other: Ipv4Addr = other.parse().unwrap();
                (other.to_bits() ^ net) >> (31 - bit) & 1 == 0
            });
            prop_assert_eq!(filter.fits(&packet(&other, "1.1.1.1", None), false), is_in);
        }
    }
}
