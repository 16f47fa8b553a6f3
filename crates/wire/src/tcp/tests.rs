// SPDX-License-Identifier: Apache-2.0
//! Goal: header and bytes agree both ways. The checksums come from an independent program.

use super::*;
use crate::checksum;
use crate::testing::{hex, truncation};
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;

const V4: Addresses = Addresses::V4 {
    src: Ipv4Addr::new(10, 0, 0, 1),
    dst: Ipv4Addr::new(10, 0, 0, 2),
};
const V6: Addresses = Addresses::V6 {
    src: Ipv6Addr::LOCALHOST,
    dst: Ipv6Addr::LOCALHOST,
};

const SYN: &str = "c000 0050 00000001 00000000 6002 ffff c3d2 0000 020405b4";
const DATA: &str = "0050 c000 12345678 00000002 5018 0100 c101 0000 61626364";

fn syn() -> Header {
    Header {
        src_port: 0xc000,
        dst_port: 80,
        sequence: 1,
        acknowledgment: 0,
        flags: Flags::SYN,
        window: 0xffff,
        urgent: 0,
        options: Options::new(&[2, 4, 5, 0xb4]).unwrap(),
    }
}

fn data() -> Header {
    Header {
        src_port: 80,
        dst_port: 0xc000,
        sequence: 0x1234_5678,
        acknowledgment: 2,
        flags: Flags::PSH | Flags::ACK,
        window: 0x100,
        urgent: 0,
        options: Options::EMPTY,
    }
}

#[test]
fn header_and_bytes_agree() {
    for (addresses, text, header) in [(V4, SYN, syn()), (V6, DATA, data())] {
        let bytes = hex(text);
        assert_eq!(Header::parse(&bytes), Ok(header), "{text}");
        assert!(
            View::parse(&bytes).unwrap().checksum_is_valid(&addresses),
            "{text}"
        );
        let mut written = bytes.clone();
        written[..header.header_len()].fill(0xee);
        header.emit(&mut written);
        View::parse(&mut written).unwrap().fill_checksum(&addresses);
        assert_eq!(written, bytes, "{header}");
        truncation(&bytes, header.header_len(), View::parse);
    }
}

#[test]
fn data_offset_is_checked() {
    for (byte, reason) in [
        (0x00, Reason::BadLength),
        (0x40, Reason::BadLength),
        (0x70, Reason::Truncated),
        (0xf0, Reason::Truncated),
    ] {
        let mut bytes = hex(DATA);
        bytes[DATA_OFFSET] = byte;
        assert_eq!(
            View::parse(&bytes),
            Err(Layer::Tcp.error(reason)),
            "{byte:#x}"
        );
    }
}

#[test]
fn setters_write_one_field() {
    let mut view = View::parse(hex(SYN)).unwrap();
    view.set_src_port(1);
    view.set_dst_port(2);
    view.set_sequence(3);
    view.set_acknowledgment(4);
    view.set_flags(Flags(0xffff));
    view.set_window(5);
    view.set_checksum(6);
    view.set_urgent(7);
    view.option_bytes_mut()[3] = 0;
    assert!(view.payload_mut().is_empty());
    let expected = "0001 0002 00000003 00000004 61ff 0005 0006 0007 02040500";
    assert_eq!(view.into_inner(), hex(expected));
}

#[test]
fn flags_are_a_set() {
    let both = Flags::SYN | Flags::ACK;
    assert!(both.contains(Flags::SYN) && both.contains(Flags::ACK) && both.contains(both));
    assert!(!Flags::SYN.contains(both));
    assert_eq!(both.to_string(), "S.");
    assert_eq!(Flags::ALL.to_string(), "FSRP.UEWe");
    assert_eq!(Flags::default().to_string(), "-");
}

#[test]
fn display_shows_the_exchange() {
    assert_eq!(
        syn().to_string(),
        "tcp 49152 > 80 [S] seq 1 ack 0 win 65535"
    );
    let text = View::parse(hex(DATA)).unwrap().to_string();
    assert_eq!(
        text,
        "tcp 80 > 49152 [P.] seq 305419896 ack 2 win 256 payload 4"
    );
}

proptest! {
    #[test]
    fn emit_then_parse_is_identity(
        (src_port, dst_port, sequence, acknowledgment) in any::<(u16, u16, u32, u32)>(),
        (flags, window, urgent) in (0_u16..0x200, any::<u16>(), any::<u16>()),
        options in proptest::collection::vec(any::<u8>(), 0..=40),
        payload in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let header = Header {
            src_port,
            dst_port,
            sequence,
            acknowledgment,
            flags: Flags(flags),
            window,
            urgent,
            options: Options::new(&options).unwrap(),
        };
        let mut bytes = vec![0; header.header_len()];
        header.emit(&mut bytes);
        bytes.extend(&payload);
        prop_assert_eq!(Header::parse(&bytes), Ok(header));
        let mut view = View::parse(bytes).unwrap();
        prop_assert_eq!(view.payload(), &payload);
        for addresses in [V4, V6] {
            view.fill_checksum(&addresses);
            prop_assert!(view.checksum_is_valid(&addresses));
        }
        view.set_sequence(!sequence);
        view.update_checksum(|sum| checksum::update_u32(sum, sequence, !sequence));
        prop_assert!(view.checksum_is_valid(&V6));
    }
}
