//! The names of fields, and reading and writing them with every checksum that covers them.
//!
//! For each packet, between parsing and the verdict. A write changes the checksums by what has
//! changed and nothing else (RFC 1624, equation 3): the IPv4 header's own; TCP's, UDP's and
//! ICMP's, through the pseudo header too; and outside these, UDP's of a tunnel and that of an ICMP
//! error which quotes the field. A UDP checksum of zero stays (RFC 768: there is none). So a
//! checksum that was wrong stays wrong, and by the same amount.
//!
//! What a checksum, a length or a version would have to follow is read-only.

use catena_wire::checksum::Sum;

use super::header::{Field, Header, Headers};

/// Bits of a value, 1 to [`WIDTH_MAX`](super::ir::WIDTH_MAX).
pub type Width = u8;

/// A field by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name behind the header's.
    pub name: &'static str,
    /// First bit within the header.
    pub bit: u16,
    /// Bits.
    pub width: u8,
    /// Whether programs may write it.
    pub is_writable: bool,
}

const fn rw(name: &'static str, bit: u16, width: u8) -> Named {
    Named {
        name,
        bit,
        width,
        is_writable: true,
    }
}

const fn ro(name: &'static str, bit: u16, width: u8) -> Named {
    Named {
        is_writable: false,
        ..rw(name, bit, width)
    }
}

const ETHERNET: &[Named] = &[rw("dst", 0, 48), rw("src", 48, 48), ro("type", 96, 16)];
const VLAN: &[Named] = &[
    rw("pcp", 0, 3),
    rw("dei", 3, 1),
    rw("vid", 4, 12),
    ro("type", 16, 16),
];
const ARP: &[Named] = &[
    rw("op", 48, 16),
    rw("sender_mac", 64, 48),
    rw("sender_ip", 112, 32),
    rw("target_mac", 144, 48),
    rw("target_ip", 192, 32),
];
const IPV4: &[Named] = &[
    ro("version", 0, 4),
    ro("ihl", 4, 4),
    rw("tos", 8, 8),
    rw("dscp", 8, 6),
    rw("ecn", 14, 2),
    ro("len", 16, 16),
    rw("id", 32, 16),
    rw("df", 49, 1),
    ro("mf", 50, 1),
    ro("offset", 51, 13),
    rw("ttl", 64, 8),
    ro("protocol", 72, 8),
    ro("checksum", 80, 16),
    rw("src", 96, 32),
    rw("dst", 128, 32),
];
const IPV6: &[Named] = &[
    ro("version", 0, 4),
    rw("class", 4, 8),
    rw("dscp", 4, 6),
    rw("ecn", 10, 2),
    rw("label", 12, 20),
    ro("len", 32, 16),
    ro("next_header", 48, 8),
    rw("hop_limit", 56, 8),
    rw("src", 64, 128),
    rw("dst", 192, 128),
];
const PORTS: &[Named] = &[rw("src_port", 0, 16), rw("dst_port", 16, 16)];
const TCP: &[Named] = &[
    rw("src_port", 0, 16),
    rw("dst_port", 16, 16),
    rw("seq", 32, 32),
    rw("ack_seq", 64, 32),
    ro("data_offset", 96, 4),
    rw("flags", 104, 8),
    rw("cwr", 104, 1),
    rw("ece", 105, 1),
    rw("urg", 106, 1),
    rw("ack", 107, 1),
    rw("psh", 108, 1),
    rw("rst", 109, 1),
    rw("syn", 110, 1),
    rw("fin", 111, 1),
    rw("window", 112, 16),
    ro("checksum", 128, 16),
    rw("urgent", 144, 16),
];
const UDP: &[Named] = &[
    rw("src_port", 0, 16),
    rw("dst_port", 16, 16),
    ro("len", 32, 16),
    ro("checksum", 48, 16),
];
const ICMP: &[Named] = &[
    rw("type", 0, 8),
    rw("code", 8, 8),
    ro("checksum", 16, 16),
    rw("id", 32, 16),
    rw("seq", 48, 16),
];
const GTPU: &[Named] = &[
    ro("flags", 0, 8),
    ro("type", 8, 8),
    ro("len", 16, 16),
    rw("teid", 32, 32),
];
const PDU_SESSION: &[Named] = &[ro("pdu_type", 8, 4), rw("qfi", 18, 6)];
const VXLAN: &[Named] = &[ro("flags", 0, 8), rw("vni", 32, 24)];

/// The named fields of a header.
pub fn fields(header: Header) -> &'static [Named] {
    match header {
        Header::Ethernet | Header::InnerEthernet => ETHERNET,
        Header::Vlan | Header::Vlan2 => VLAN,
        Header::Arp => ARP,
        Header::Ipv4 | Header::InnerIpv4 | Header::QuotedIpv4 => IPV4,
        Header::Ipv6 | Header::InnerIpv6 | Header::QuotedIpv6 => IPV6,
        Header::Tcp | Header::InnerTcp => TCP,
        Header::Udp | Header::InnerUdp => UDP,
        Header::Icmp | Header::InnerIcmp => ICMP,
        Header::Ports | Header::InnerPorts | Header::QuotedPorts => PORTS,
        Header::Gtpu => GTPU,
        Header::PduSession => PDU_SESSION,
        Header::Vxlan => VXLAN,
        Header::Payload => &[],
    }
}

/// The field of a header by its name, and whether it may be written.
pub fn named(header: Header, name: &str) -> Option<(Field, bool)> {
    let found = fields(header).iter().find(|field| field.name == name)?;
    let field = Field {
        header,
        bit: found.bit,
        width: found.width,
    };
    Some((field, found.is_writable))
}

/// Bytes that a field of up to 128 bits touches.
const TOUCHED_MAX: usize = 17;

/// Where a field's bytes begin, how many they are, and how many bits lie below it in the last.
fn place(headers: &Headers, field: Field) -> Option<(usize, usize, u32)> {
    let start = headers.at(field.header)? * 8 + usize::from(field.bit);
    let end = start + usize::from(field.width);
    let below = (8 - end % 8) % 8;
    Some((start / 8, end.div_ceil(8) - start / 8, below as u32))
}

/// Bytes as a number, the first one highest; those beyond the end of the frame are zero.
#[inline]
pub(super) fn number(frame: &[u8], at: usize, count: usize) -> u128 {
    (at..at + count).fold(0, |number, at| {
        number << 8 | u128::from(frame.get(at).copied().unwrap_or(0))
    })
}

/// The value of a field; zero if the packet lacks the header.
#[inline]
pub fn read(frame: &[u8], headers: &Headers, field: Field) -> u128 {
    let Some((at, count, below)) = place(headers, field) else {
        return 0;
    };
    let value = if count == TOUCHED_MAX {
        // The field begins within its first byte: so many of its bits are the field's highest.
        let first = number(frame, at, 1);
        let rest = number(frame, at + 1, 16);
        first.checked_shl(128 - below).unwrap_or(0) | rest >> below
    } else {
        number(frame, at, count) >> below
    };
    value & ones(field.width)
}

/// So many low bits.
#[inline]
pub const fn ones(width: u8) -> u128 {
    if width >= 128 {
        u128::MAX
    } else {
        (1 << width) - 1
    }
}

/// Writes a field and mends the checksums that cover it; nothing if the packet lacks the header, or
/// the field does not lie within the frame.
pub fn write(frame: &mut [u8], headers: &Headers, field: Field, value: u128) {
    let Some((at, count, below)) = place(headers, field) else {
        return;
    };
    let Some(old) = frame.get(at..at + count) else {
        return;
    };
    let mut new = [0; TOUCHED_MAX];
    let is_whole = below == 0 && usize::from(field.width) == 8 * count;
    match value
        .to_be_bytes()
        .get(size_of::<u128>().wrapping_sub(count)..)
    {
        Some(whole) if is_whole => new[..count].copy_from_slice(whole),
        _ => {
            new[..count].copy_from_slice(old);
            put_bits(&mut new[..count], below, field.width, value);
        }
    }
    let base = headers.at(field.header).unwrap_or(at);
    let change = store(frame, base, at, &new[..count]);
    let is_address = match field.header {
        Header::Ipv4 | Header::InnerIpv4 => field.bit >= 96,
        Header::Ipv6 | Header::InnerIpv6 => field.bit >= 64,
        _ => false,
    };
    mend(frame, headers, field.header, is_address, change);
}

/// Puts the low `width` bits of `value` into bytes, `below` bits above the last one's lowest.
fn put_bits(bytes: &mut [u8], below: u32, width: u8, value: u128) {
    let (mut shift, mut left) = (below, u32::from(width));
    let mut value = value & ones(width);
    for byte in bytes.iter_mut().rev() {
        let bits = (8 - shift).min(left);
        let mask = (((1u16 << bits) - 1) << shift) as u8;
        *byte = *byte & !mask | ((value as u8) << shift) & mask;
        value = value.checked_shr(bits).unwrap_or(0);
        left -= bits;
        shift = 0;
        if left == 0 {
            break;
        }
    }
}

/// What a change of bytes adds to a sum over them: their complement and the new ones.
#[derive(Clone, Copy)]
struct Change(Sum);

impl Change {
    fn of(old: Sum, new: Sum) -> Self {
        Self(Sum::of_u16(old.checksum()) + new)
    }

    fn and(self, other: Option<Self>) -> Self {
        match other {
            Some(other) => Self(self.0 + other.0),
            None => self,
        }
    }
}

/// Writes bytes of a header that begins at `base`; gives what that changes in 16-bit words counted
/// from there. All headers begin an even number of bytes behind the one around them.
fn store(frame: &mut [u8], base: usize, at: usize, new: &[u8]) -> Change {
    let from = at - (at - base) % 2;
    let to = (at + new.len() + (at + new.len() - base) % 2).min(frame.len());
    let old = Sum::of(&frame[from..to]);
    frame[at..at + new.len()].copy_from_slice(new);
    Change::of(old, Sum::of(&frame[from..to]))
}

/// Brings a checksum in line with a change; gives what that changes itself. None if it is not
/// within the frame, or a UDP checksum that is not used.
fn mend_at(frame: &mut [u8], at: usize, is_udp: bool, change: Change) -> Option<Change> {
    let bytes: &mut [u8; 2] = frame.get_mut(at..at + 2)?.try_into().ok()?;
    let old = u16::from_be_bytes(*bytes);
    if is_udp && old == 0 {
        return None;
    }
    let mut new = (Sum::of_u16(!old) + change.0).checksum();
    if is_udp && new == 0 {
        new = 0xffff;
    }
    *bytes = new.to_be_bytes();
    Some(Change::of(Sum::of_u16(old), Sum::of_u16(new)))
}

/// Mends the transport checksum of one level; gives what changed by that.
fn mend_transport(
    frame: &mut [u8],
    headers: &Headers,
    [tcp, udp, icmp]: [Header; 3],
    change: Change,
) -> Option<Change> {
    if let Some(at) = headers.at(tcp) {
        mend_at(frame, at + 16, false, change)
    } else if let Some(at) = headers.at(udp) {
        mend_at(frame, at + 6, true, change)
    } else if let Some(at) = headers.at(icmp) {
        mend_at(frame, at + 2, false, change)
    } else {
        None
    }
}

const OUTER: [Header; 3] = [Header::Tcp, Header::Udp, Header::Icmp];
const INNER: [Header; 3] = [Header::InnerTcp, Header::InnerUdp, Header::InnerIcmp];

/// Mends all checksums that cover a change in a header.
fn mend(frame: &mut [u8], headers: &Headers, header: Header, is_address: bool, change: Change) {
    use Header::{
        Arp, Ethernet, Gtpu, Icmp, InnerEthernet, InnerIcmp, InnerIpv4, InnerIpv6, InnerPorts,
        InnerTcp, InnerUdp, Ipv4, Ipv6, Payload, PduSession, Ports, QuotedIpv4, QuotedIpv6,
        QuotedPorts, Tcp, Udp, Vlan, Vlan2, Vxlan,
    };
    let header_sum = |frame: &mut [u8]| {
        let at = headers.at(header)?;
        mend_at(frame, at + 10, false, change)
    };
    match header {
        Ethernet | Vlan | Vlan2 | Arp => {}
        Ipv4 => {
            header_sum(frame);
            // ICMP for IPv4 has no pseudo header (RFC 792).
            if is_address && !headers.has(Icmp) {
                mend_transport(frame, headers, OUTER, change);
            }
        }
        Ipv6 if is_address => {
            mend_transport(frame, headers, OUTER, change);
        }
        Ipv6 => {}
        Tcp | Udp | Icmp | Ports | Payload | Gtpu | PduSession | Vxlan | InnerEthernet => {
            mend_transport(frame, headers, OUTER, change);
        }
        InnerIpv4 => {
            let mut total = change.and(header_sum(frame));
            if is_address && !headers.has(InnerIcmp) {
                total = total.and(mend_transport(frame, headers, INNER, change));
            }
            mend_transport(frame, headers, OUTER, total);
        }
        InnerIpv6 => {
            let mut total = change;
            if is_address {
                total = total.and(mend_transport(frame, headers, INNER, change));
            }
            mend_transport(frame, headers, OUTER, total);
        }
        InnerTcp | InnerUdp | InnerIcmp | InnerPorts => {
            let total = change.and(mend_transport(frame, headers, INNER, change));
            mend_transport(frame, headers, OUTER, total);
        }
        QuotedIpv4 => {
            let total = change.and(header_sum(frame));
            mend_transport(frame, headers, OUTER, total);
        }
        QuotedIpv6 | QuotedPorts => {
            mend_transport(frame, headers, OUTER, change);
        }
    }
}
