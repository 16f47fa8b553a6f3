//! What the reader makes of sound, cut, damaged and foreign files.

use std::io::Cursor;

use proptest::prelude::*;

use super::samples::{Bytes, EPB, IDB, SPB, drain, owned, read_all, read_sound};
use super::{CaptureError, CapturePart, CaptureReader, MAX_RECORD_LEN};

const MAGIC_US: u32 = 0xa1b2_c3d4;
const MAGIC_NS: u32 = 0xa1b2_3c4d;
const BYTE_ORDERS: [bool; 2] = [false, true];

/// A small pcap file, with the offsets at which a record ends (the first: the header).
fn pcap_sample(big_endian: bool) -> (Vec<u8>, Vec<usize>) {
    let mut file = Bytes::new(big_endian).pcap_header(MAGIC_NS, 1);
    let mut borders = vec![file.bytes.len()];
    for (index, len) in [14usize, 0, 61].into_iter().enumerate() {
        file = file.pcap_record(10 + index as u32, 5, 1500, &vec![index as u8 + 1; len]);
        borders.push(file.bytes.len());
    }
    (file.bytes, borders)
}

/// Appends one block to a file.
type Step = fn(Bytes) -> Bytes;

/// A small pcapng file with other blocks between its packets, and where each of its blocks ends
/// together with the packets seen by then.
fn pcapng_sample(big_endian: bool) -> (Vec<u8>, Vec<(usize, usize)>) {
    let mut file = Bytes::new(big_endian);
    let mut borders = vec![];
    let steps: [(Step, usize); 7] = [
        (|file| file.section(), 0),
        (|file| file.interface(1, 0, &[(2, b"eth0"), (9, &[9])]), 0),
        (|file| file.enhanced(0, 7, 60, &[1; 13]), 1),
        (
            |file| {
                let body = Bytes::new(file.big_endian).raw(&[9; 20]);
                file.block(0x0bad, &body)
            },
            1,
        ),
        (|file| file.interface(1, 96, &[]), 1),
        (|file| file.enhanced(1, 9, 60, &[2; 60]), 2),
        (
            |file| {
                let body = Bytes::new(file.big_endian).u32(3).padded(&[5; 3]);
                file.block(SPB, &body)
            },
            3,
        ),
    ];
    for (step, packet_count) in steps {
        file = step(file);
        borders.push((file.bytes.len(), packet_count));
    }
    (file.bytes, borders)
}

#[test]
fn pcap_is_read_in_both_byte_orders_and_units() {
    for big_endian in BYTE_ORDERS {
        for (magic, unit_ns) in [(MAGIC_US, 1000), (MAGIC_NS, 1)] {
            let file = Bytes::new(big_endian)
                .pcap_header(magic, 1)
                .pcap_record(1_700_000_000, 123_456, 4, b"abcd")
                .pcap_record(u32::MAX, 999_999, 1514, b"xyz");
            let records = read_sound(&file.bytes);
            let first_ns = 1_700_000_000_000_000_000 + 123_456 * unit_ns;
            let last_ns = u64::from(u32::MAX) * 1_000_000_000 + 999_999 * unit_ns;
            assert_eq!(
                records,
                [owned(first_ns, 4, b"abcd"), owned(last_ns, 1514, b"xyz")]
            );
        }
    }
}

#[test]
fn pcap_with_long_record_headers_is_read() {
    let file = Bytes::new(false)
        .pcap_header(0xa1b2_cd34, 1)
        .u32(1)
        .u32(2)
        .u32(3)
        .u32(60)
        .raw(&[0xee; 8])
        .raw(b"abc");
    assert_eq!(read_sound(&file.bytes), [owned(1_000_002_000, 60, b"abc")]);
}

#[test]
fn an_fcs_is_not_part_of_the_packet() {
    // Bit 26 and two 16-bit words of FCS; the second packet was cut inside its FCS, the third
    // before it.
    let pcap = Bytes::new(false)
        .pcap_header(MAGIC_NS, 0x2400_0001)
        .pcap_record(0, 0, 10, b"abcdefFCS!")
        .pcap_record(0, 0, 10, b"abcdefF")
        .pcap_record(0, 0, 10, b"abc");
    let expected = [
        owned(0, 6, b"abcdef"),
        owned(0, 6, b"abcdef"),
        owned(0, 6, b"abc"),
    ];
    assert_eq!(read_sound(&pcap.bytes), expected);

    let pcapng = Bytes::new(true)
        .section()
        .interface(1, 0, &[(13, &[4])])
        .enhanced(0, 0, 10, b"abcdefFCS!");
    assert_eq!(read_sound(&pcapng.bytes), [owned(0, 6, b"abcdef")]);
}

#[test]
fn an_original_length_below_the_captured_one_is_raised() {
    let file = Bytes::new(false)
        .pcap_header(MAGIC_NS, 1)
        .pcap_record(0, 0, 1, b"abcd");
    assert_eq!(read_sound(&file.bytes), [owned(0, 4, b"abcd")]);
}

#[test]
fn pcapng_interfaces_have_their_own_clocks_and_sections_their_own_order() {
    let mut bytes = vec![];
    for big_endian in BYTE_ORDERS {
        let offset_s = Bytes::new(big_endian).u64(100).bytes;
        let file = Bytes::new(big_endian)
            .section()
            .interface(1, 0, &[])
            .interface(1, 0, &[(2, b"nano"), (9, &[9]), (0, &[])])
            .interface(1, 0, &[(9, &[0x8a]), (14, &offset_s)])
            .enhanced(1, 1 << 40, 4, b"abcd")
            .enhanced(0, 5, 4, b"efg")
            .enhanced(2, 512, 4, b"hi");
        bytes.extend(file.bytes);
    }
    let section = [
        owned(1 << 40, 4, b"abcd"),
        owned(5_000, 4, b"efg"),
        owned(100_500_000_000, 4, b"hi"),
    ];
    assert_eq!(read_sound(&bytes), [section.clone(), section].concat());
}

#[test]
fn a_simple_packet_is_cut_at_the_snapshot_length_and_takes_the_time_before_it() {
    let simple = |original_len: u32, data: &[u8]| Bytes::new(false).u32(original_len).padded(data);
    let file = Bytes::new(false)
        .section()
        .interface(1, 5, &[])
        .block(SPB, &simple(3, b"abc"))
        .enhanced(0, 7, 4, b"efgh")
        .block(SPB, &simple(60, b"abcde"));
    let expected = [
        owned(0, 3, b"abc"),
        owned(7_000, 4, b"efgh"),
        owned(7_000, 60, b"abcde"),
    ];
    assert_eq!(read_sound(&file.bytes), expected);

    let short = Bytes::new(false)
        .section()
        .interface(1, 0, &[])
        .block(SPB, &simple(60, b"abcde"));
    let (_, error) = read_all(&short.bytes);
    assert!(
        matches!(error, Some(CaptureError::Damaged { .. })),
        "{error:?}"
    );
}

#[test]
fn unknown_blocks_of_any_size_are_skipped_and_counted() {
    let large = Bytes::new(true).raw(&vec![0; 3 * MAX_RECORD_LEN]);
    let file = Bytes::new(true)
        .section()
        .interface(1, 0, &[])
        .block(0x7777_7777, &large)
        .enhanced(0, 1, 4, b"abcd")
        .block(5, &Bytes::new(true).u32(0));
    let mut reader = CaptureReader::from_input("sample", Cursor::new(&file.bytes)).unwrap();
    assert_eq!(drain(&mut reader).0, [owned(1_000, 4, b"abcd")]);
    assert_eq!(reader.skipped_block_count(), 2);
    assert_eq!(reader.record_count(), 1);
}

#[test]
fn a_file_cut_anywhere_delivers_the_whole_records_before_the_cut() {
    for big_endian in BYTE_ORDERS {
        let (pcap, borders) = pcap_sample(big_endian);
        let all = read_sound(&pcap);
        assert_eq!(all.len(), 3);
        for cut in 0..=pcap.len() {
            let whole_count = borders[1..].iter().filter(|&&end| end <= cut).count();
            let (records, error) = read_all(&pcap[..cut]);
            assert_eq!(records, all[..whole_count], "cut at {cut}");
            assert_eq!(
                error.is_none(),
                borders.contains(&cut),
                "cut at {cut}: {error:?}"
            );
        }

        let (pcapng, borders) = pcapng_sample(big_endian);
        let all = read_sound(&pcapng);
        assert_eq!(all.len(), 3);
        for cut in 0..=pcapng.len() {
            let before = borders.iter().rev().find(|(end, _)| *end <= cut);
            let whole_count = before.map_or(0, |(_, packet_count)| *packet_count);
            let (records, error) = read_all(&pcapng[..cut]);
            assert_eq!(records, all[..whole_count], "cut at {cut}");
            let at_border = before.is_some_and(|(end, _)| *end == cut);
            assert_eq!(error.is_none(), at_border, "cut at {cut}: {error:?}");
        }
    }
}

#[test]
fn a_cut_is_described_by_record_offset_and_lengths() {
    let (bytes, borders) = pcap_sample(false);
    let (_, error) = read_all(&bytes[..borders[2] + 20]);
    let error = error.unwrap();
    assert_eq!(
        error.to_string(),
        "sample: record 3 at byte 70 is cut short (needs 77 bytes, file has 20 more)"
    );
    assert_eq!((error.offset(), error.record_count()), (Some(70), 2));

    let (bytes, borders) = pcapng_sample(true);
    let (_, error) = read_all(&bytes[..borders[3].0 - 1]);
    assert_eq!(
        error.unwrap().to_string(),
        "sample: block of type 0x00000bad (after 1 record) at byte 112 is cut short \
         (needs 32 bytes, file has 31 more)"
    );
}

#[test]
fn a_damaged_length_is_refused_before_memory_is_spent() {
    let sound = Bytes::new(false)
        .pcap_header(MAGIC_US, 1)
        .pcap_record(0, 0, 4, b"abcd");
    let damaged = sound.u32(0).u32(0).u32(u32::MAX).u32(4).raw(&[0; 64]);
    let (records, error) = read_all(&damaged.bytes);
    assert_eq!(records.len(), 1);
    assert_eq!(
        error.unwrap().to_string(),
        "sample: record 2 at byte 44 is damaged: it claims 4294967295 bytes, \
         more than the limit of 262144"
    );
}

#[test]
fn the_longest_record_is_read_and_one_byte_more_is_not() {
    for (len, is_sound) in [(MAX_RECORD_LEN, true), (MAX_RECORD_LEN + 1, false)] {
        let data = vec![3; len];
        let pcap = Bytes::new(false)
            .pcap_header(MAGIC_NS, 1)
            .pcap_record(0, 0, 0, &data);
        let pcapng = Bytes::new(false)
            .section()
            .interface(1, 0, &[])
            .enhanced(0, 0, 0, &data);
        for file in [pcap, pcapng] {
            let (records, error) = read_all(&file.bytes);
            assert_eq!(
                (records.len() == 1, error.is_none()),
                (is_sound, is_sound),
                "{error:?}"
            );
        }
    }
}

#[test]
fn contradictions_in_blocks_are_damage() {
    let start = || Bytes::new(false).section().interface(1, 0, &[]);
    let epb = |captured_len: u32| {
        Bytes::new(false)
            .u32(0)
            .u32(0)
            .u32(0)
            .u32(captured_len)
            .u32(4)
            .raw(b"abcd")
    };
    let cases = [
        (
            "unequal lengths",
            start().u32(EPB).u32(32).raw(&[0; 20]).u32(36),
        ),
        ("length too small", start().u32(EPB).u32(8).raw(&[0; 24])),
        ("length zero", start().u32(0x0bad).u32(0).raw(&[0; 24])),
        (
            "length not padded",
            start().u32(0x0bad).u32(13).raw(&[0; 24]),
        ),
        (
            "block too small for its kind",
            start().block(EPB, &Bytes::new(false).u32(0)),
        ),
        ("data beyond its block", start().block(EPB, &epb(5))),
        (
            "data far beyond its block",
            start().block(EPB, &epb(u32::MAX)),
        ),
        ("unknown interface", start().enhanced(1, 0, 4, b"abcd")),
        (
            "no interface",
            Bytes::new(false).section().enhanced(0, 0, 4, b"abcd"),
        ),
        (
            "packet too large",
            start().u32(EPB).u32(0x7fff_fff0).raw(&[0; 64]),
        ),
        (
            "wrong byte-order magic",
            start().u32(0x0a0d_0d0a).u32(28).raw(&[1; 20]),
        ),
        (
            "interface too small",
            start().block(IDB, &Bytes::new(false).u32(1)),
        ),
    ];
    for (name, file) in cases {
        let (records, error) = read_all(&file.bytes);
        assert!(records.is_empty(), "{name}");
        assert!(
            matches!(error, Some(CaptureError::Damaged { .. })),
            "{name}: {error:?}"
        );
    }
}

#[test]
fn a_section_with_too_many_interfaces_is_refused() {
    let mut file = Bytes::new(false).section();
    for _ in 0..=super::MAX_INTERFACE_COUNT {
        file = file.interface(1, 0, &[]);
    }
    let (_, error) = read_all(&file.bytes);
    assert!(
        error
            .unwrap()
            .to_string()
            .contains("more than 4096 interfaces")
    );
}

#[test]
fn foreign_link_types_are_named() {
    let pcap = Bytes::new(true).pcap_header(MAGIC_US, 113);
    let pcapng = Bytes::new(false).section().interface(113, 0, &[]);
    for file in [pcap, pcapng] {
        let (_, error) = read_all(&file.bytes);
        assert_eq!(
            error.unwrap().to_string(),
            "sample: holds packets of link type 113 (Linux cooked capture, LINUX_SLL), \
             only Ethernet (1) is supported"
        );
    }
}

#[test]
fn an_unused_foreign_interface_does_no_harm() {
    let file = Bytes::new(false)
        .section()
        .interface(101, 0, &[])
        .interface(1, 0, &[]);
    let file = file.enhanced(1, 0, 4, b"abcd");
    assert_eq!(read_sound(&file.bytes).len(), 1);
    let (records, error) = read_all(&file.enhanced(0, 0, 4, b"abcd").bytes);
    assert_eq!(records.len(), 1);
    assert!(
        matches!(error, Some(CaptureError::LinkType { link_type: 101, .. })),
        "{error:?}"
    );
}

#[test]
fn other_versions_and_obsolete_blocks_are_unsupported() {
    let pcap = Bytes::new(false).u32(MAGIC_US).u16(3).u16(0).raw(&[0; 16]);
    let section = Bytes::new(true)
        .u32(0x1a2b_3c4d)
        .u16(2)
        .u16(0)
        .u64(u64::MAX);
    let pcapng = Bytes::new(true).block(0x0a0d_0d0a, &section);
    let obsolete = Bytes::new(false).section().interface(1, 0, &[]);
    let obsolete = obsolete.block(2, &Bytes::new(false).raw(&[0; 20]));
    for file in [pcap, pcapng, obsolete] {
        let (_, error) = read_all(&file.bytes);
        assert!(
            matches!(error, Some(CaptureError::Unsupported { .. })),
            "{error:?}"
        );
    }
}

#[test]
fn files_of_other_kinds_are_not_captures() {
    for (bytes, words) in [
        (&b""[..], "it is empty"),
        (b"\xd4", "it has only 1 bytes"),
        (b"\x1f\x8b\x08\x00more", "gzip: decompress it first"),
        (b"\x28\xb5\x2f\xfdmore", "zstd: decompress it first"),
        (
            b"text, not packets",
            "it starts with the bytes [74, 65, 78, 74]",
        ),
    ] {
        let (_, error) = read_all(bytes);
        let error = error.unwrap();
        assert!(
            matches!(error, CaptureError::NotACapture { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains(words), "{error}");
    }
    let error = CaptureReader::open("/nonexistent/x.pcap").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("/nonexistent/x.pcap: cannot be opened: "),
        "{error}"
    );
}

#[test]
fn rewinding_replays_the_same_records_even_after_damage() {
    let (pcap, _) = pcap_sample(true);
    let (pcapng, _) = pcapng_sample(false);
    for bytes in [pcap, pcapng] {
        let cut = &bytes[..bytes.len() - 1];
        for file in [&bytes[..], cut] {
            let mut reader = CaptureReader::from_input("sample", Cursor::new(file)).unwrap();
            let (first, first_error) = drain(&mut reader);
            for _ in 0..3 {
                reader.rewind().unwrap();
                assert_eq!(reader.record_count(), 0);
                let (again, error) = drain(&mut reader);
                assert_eq!(again, first);
                assert_eq!(error.is_some(), first_error.is_some());
            }
        }
    }
}

#[test]
fn records_longer_than_the_buffer_and_across_its_end_are_whole() {
    let mut file = Bytes::new(false).pcap_header(MAGIC_NS, 1);
    let mut expected = vec![];
    for index in 0..200u32 {
        let len = (index * 7919 % 2500) as usize + if index % 50 == 49 { 150_000 } else { 0 };
        let data: Vec<u8> = (0..len).map(|at| (at as u32 ^ index) as u8).collect();
        file = file.pcap_record(index, 0, len as u32, &data);
        expected.push(owned(u64::from(index) * 1_000_000_000, len as u32, &data));
    }
    assert_eq!(read_sound(&file.bytes), expected);
}

#[test]
fn parts_are_named_for_people() {
    assert_eq!(
        CapturePart::Record { ordinal: 812 }.to_string(),
        "record 812"
    );
    let block = CapturePart::Block {
        block_type: Some(1),
        record_count: 4,
    };
    assert_eq!(
        block.to_string(),
        "interface description block (after 4 records)"
    );
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..Default::default()
    })]

    /// Any bytes behind a sound beginning end in finitely many records, without a panic.
    #[test]
    fn garbage_ends(kind in 0..6usize, garbage in proptest::collection::vec(any::<u8>(), 0..600)) {
        let beginning = match kind {
            0 => Bytes::new(false),
            1 => Bytes::new(false).pcap_header(MAGIC_US, 1),
            2 => Bytes::new(true).pcap_header(MAGIC_NS, 1),
            3 => Bytes::new(false).section().interface(1, 0, &[]),
            4 => Bytes::new(true).section().interface(1, 0, &[]),
            _ => Bytes::new(true).section(),
        };
        let bytes = beginning.raw(&garbage).bytes;
        let (records, _) = read_all(&bytes);
        prop_assert!(records.len() <= bytes.len() / 12);
    }

    /// One changed byte in a sound file changes what is read, and never ends in a panic.
    #[test]
    fn one_changed_byte_ends(
        big_endian: bool,
        is_pcapng: bool,
        at in any::<proptest::sample::Index>(),
        value: u8,
    ) {
        let mut bytes =
            if is_pcapng { pcapng_sample(big_endian).0 } else { pcap_sample(big_endian).0 };
        let at = at.index(bytes.len());
        bytes[at] = value;
        let (records, _) = read_all(&bytes);
        prop_assert!(records.len() <= bytes.len() / 12);
    }
}
