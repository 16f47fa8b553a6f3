//! TCP segments that fit: the maximum segment size that two ends agree on, lowered on its way.
//!
//! On a user's packet, in front of its tunnel. Only what opens a connection has the option. The
//! checksum is mended and never made anew, so that a wrong one stays wrong. Specification: RFC 9293
//! 3.7.1, RFC 1624.

use catena_wire::dissect::{Dissected, Fragment, Transport};
use catena_wire::tcp::Flags;
use catena_wire::tcp::option::TcpOption;
use catena_wire::{checksum, tcp};

/// Lowers the maximum segment size that an IP packet offers to `most`; whether it had to.
pub fn clamp(packet: &mut [u8], most: u16) -> bool {
    let Ok(read) = Dissected::parse_ip(packet) else {
        return false;
    };
    let is_later = read.ip.is_none_or(|ip| ip.fragment == Fragment::Later);
    let Transport::Tcp { flags, .. } = read.transport else {
        return false;
    };
    if is_later || !flags.contains(Flags::SYN) {
        return false;
    }
    let Ok(mut view) = tcp::View::parse(&mut packet[read.l4..read.end]) else {
        return false;
    };
    let mut options = view.options();
    let (at, old) = loop {
        match options.next() {
            Some(Ok(TcpOption::MaximumSegmentSize(size))) => break (options.offset() - 2, size),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return false,
        }
    };
    if old <= most {
        return false;
    }
    view.option_bytes_mut()[at..at + 2].copy_from_slice(&most.to_be_bytes());
    // The checksum is of words: a value that lies across two is turned round in both.
    let turn = |value: u16| {
        if at.is_multiple_of(2) {
            value
        } else {
            value.swap_bytes()
        }
    };
    view.update_checksum(|sum| checksum::update_u16(sum, turn(old), turn(most)));
    true
}

#[cfg(test)]
mod tests {
    use catena_wire::ip::Addresses;
    use catena_wire::ipv4;
    use catena_wire::options::Options;
    use proptest::prelude::*;

    use super::*;
    use crate::segment;

    fn syn(options: &[u8], flags: Flags) -> Vec<u8> {
        let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let header = tcp::Header {
            src_port: 0,
            dst_port: 0,
            sequence: 0,
            acknowledgment: 0,
            flags,
            window: 0,
            urgent: 0,
            options: Options::new(options).unwrap(),
        };
        segment::packet(&Addresses::V4 { src, dst }, &header, &[])
    }

    fn offered(packet: &[u8]) -> (u16, bool) {
        let read = ipv4::View::parse(packet).unwrap();
        let view = tcp::View::parse(read.payload()).unwrap();
        let size = view.options().find_map(|option| match option {
            Ok(TcpOption::MaximumSegmentSize(size)) => Some(size),
            _ => None,
        });
        (size.unwrap(), view.checksum_is_valid(&read.addresses()))
    }

    #[test]
    fn only_what_opens_a_connection_and_offers_more_is_changed() {
        let option = [2, 4, 5, 180];
        let mut larger = syn(&option, Flags::SYN);
        assert!(clamp(&mut larger, 1400));
        assert_eq!(offered(&larger), (1400, true));
        let mut smaller = syn(&option, Flags::SYN);
        assert!(!clamp(&mut smaller, 1460));
        let mut data = syn(&option, Flags::ACK);
        assert!(!clamp(&mut data, 1400));
        assert!(
            !clamp(&mut syn(&[2, 3, 0, 0], Flags::SYN), 1),
            "its length is wrong"
        );
        assert!(!clamp(&mut [0x45; 30], 1));
    }

    proptest! {
        /// Wherever the option stands, the checksum is right behind it, and a wrong one stays so.
        #[test]
        fn the_checksum_is_mended(nops in 0usize..4, size: u16, most: u16, spoils: bool) {
            let mut options = vec![1; nops];
            options.extend([2, 4]);
            options.extend(size.to_be_bytes());
            options.resize(8, 0);
            let mut packet = syn(&options, Flags::SYN);
            packet[36] ^= u8::from(spoils);
            clamp(&mut packet, most);
            prop_assert_eq!(offered(&packet), (size.min(most), !spoils));
        }
    }
}
