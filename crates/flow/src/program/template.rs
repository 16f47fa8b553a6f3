//! Packets of a program's own making: bytes with holes for values.
//!
//! Checked when the program is made, filled in on the data path. A template is a whole packet with
//! right checksums; a value goes into a field, and the checksums follow as for any field.

use super::field;
use super::header::{Field, Header, Headers};
use catena_wire::checksum::Sum;
use catena_wire::ip::Addresses;
use catena_wire::{icmpv4, icmpv6, ipv4, ipv6, tcp, udp};

/// Most bytes of a template.
pub const TEMPLATE_LEN_MAX: usize = 1514;
/// Most fields of a template.
pub const TEMPLATE_FIELD_COUNT_MAX: usize = 16;

/// A packet with holes.
#[derive(Clone, Debug)]
pub struct Template {
    /// Its name.
    pub name: String,
    /// The packet, at most [`TEMPLATE_LEN_MAX`] bytes.
    pub bytes: Vec<u8>,
    /// Where its headers are.
    pub headers: Headers,
    /// The fields that are filled in, in the order of the values that they are given.
    pub fields: Vec<Field>,
}

impl Template {
    /// A template of these bytes, whose checksums it puts right. None if a header is malformed, a
    /// field is of a header that the packet lacks, or there is too much of anything.
    pub fn new(name: &str, mut bytes: Vec<u8>, fields: Vec<Field>) -> Option<Self> {
        let headers = Headers::parse(&bytes);
        let has_all = fields.iter().all(|field| headers.has(field.header));
        let fits = bytes.len() <= TEMPLATE_LEN_MAX && fields.len() <= TEMPLATE_FIELD_COUNT_MAX;
        if headers.is_malformed() || !has_all || !fits {
            return None;
        }
        fill_checksums(&mut bytes, &headers);
        Some(Self {
            name: name.to_owned(),
            bytes,
            headers,
            fields,
        })
    }

    /// Writes the packet into `out`, which is as long as it.
    pub fn fill(&self, values: &[u128], out: &mut [u8]) {
        if out.len() != self.bytes.len() {
            return;
        }
        out.copy_from_slice(&self.bytes);
        for (field, value) in self.fields.iter().zip(values) {
            field::write(out, &self.headers, *field, *value);
        }
    }
}

/// Puts all checksums right, inner ones first: outer ones cover them.
pub fn fill_checksums(bytes: &mut [u8], headers: &Headers) {
    let inner = [Header::InnerIpv4, Header::InnerIpv6];
    let inner_l4 = [Header::InnerTcp, Header::InnerUdp, Header::InnerIcmp];
    fill_level(bytes, headers, inner, inner_l4);
    let outer = [Header::Ipv4, Header::Ipv6];
    fill_level(
        bytes,
        headers,
        outer,
        [Header::Tcp, Header::Udp, Header::Icmp],
    );
}

fn fill_level(bytes: &mut [u8], headers: &Headers, ip: [Header; 2], l4: [Header; 3]) {
    let (addresses, end) = if let Some(at) = headers.at(ip[0]) {
        let Ok(mut view) = ipv4::View::parse(&mut bytes[at..]) else {
            return;
        };
        view.fill_checksum();
        (view.addresses(), at + view.total_len())
    } else if let Some(at) = headers.at(ip[1]) {
        let Ok(view) = ipv6::View::parse(&bytes[at..]) else {
            return;
        };
        (view.addresses(), at + ipv6::HEADER_LEN + view.payload_len())
    } else {
        return;
    };
    if let Some(at) = headers.at(l4[0]) {
        if let Ok(mut view) = tcp::View::parse(&mut bytes[at..end]) {
            view.fill_checksum(&addresses);
        }
    } else if let Some(at) = headers.at(l4[1]) {
        if let Ok(mut view) = udp::View::parse(&mut bytes[at..end]) {
            view.fill_checksum(&addresses);
        }
    } else if let Some(at) = headers.at(l4[2]) {
        fill_icmp(&mut bytes[at..end], &addresses);
    }
}

fn fill_icmp(message: &mut [u8], addresses: &Addresses) {
    let least = icmpv4::HEADER_LEN.max(icmpv6::HEADER_LEN).max(4);
    if message.len() < least {
        return;
    }
    message[2..4].fill(0);
    let pseudo = match addresses {
        Addresses::V4 { .. } => Sum::ZERO,
        Addresses::V6 { .. } => {
            let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
            addresses.pseudo_header(catena_wire::ip::Protocol::ICMPV6, len)
        }
    };
    let checksum = (pseudo + Sum::of(message)).checksum();
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
}
