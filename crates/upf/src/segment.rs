//! Segments of TCP that the UPF makes itself: the answers of a redirect, and those of the scripted
//! users that try it.

use catena_wire::ip::{Addresses, Protocol};
use catena_wire::tcp;
use catena_wire::{ipv4, ipv6};

/// A segment with this data as an IP packet between these addresses, its checksums right.
pub(crate) fn packet(addresses: &Addresses, header: &tcp::Header, data: &[u8]) -> Vec<u8> {
    let len = header.header_len() + data.len();
    let mut packet = match *addresses {
        Addresses::V4 { src, dst } => {
            let mut packet = vec![0; ipv4::HEADER_LEN_MIN + len];
            ipv4::Header {
                dscp: 0,
                ecn: 0,
                ident: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 64,
                protocol: Protocol::TCP,
                src,
                dst,
                payload_len: len,
                options: Default::default(),
            }
            .emit(&mut packet);
            packet
        }
        Addresses::V6 { src, dst } => {
            let mut packet = vec![0; ipv6::HEADER_LEN + len];
            ipv6::Header {
                dscp: 0,
                ecn: 0,
                flow_label: 0,
                payload_len: u16::try_from(len).unwrap_or(u16::MAX),
                next_header: Protocol::TCP,
                hop_limit: 64,
                src,
                dst,
            }
            .emit(&mut packet);
            packet
        }
    };
    let at = packet.len() - len;
    let segment = &mut packet[at..];
    header.emit(segment);
    segment[len - data.len()..].copy_from_slice(data);
    if let Ok(mut view) = tcp::View::parse(segment) {
        view.fill_checksum(addresses);
    }
    packet
}
