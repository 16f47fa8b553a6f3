// SPDX-License-Identifier: Apache-2.0
//! A collector: learns templates, reads records by them, and holds messages to RFC 7011.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use catena_wire::dissect::Dissected;
use catena_wire::{ipv4, udp};

/// A flow that was told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) src: String,
    pub(crate) dst: String,
    pub(crate) ports: (u16, u16),
    pub(crate) protocol: u8,
    pub(crate) tcp_flags: u16,
    pub(crate) reason: u8,
    pub(crate) packets: u64,
    pub(crate) octets: u64,
    pub(crate) start_ms: u64,
    pub(crate) end_ms: u64,
}

/// What came so far.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    /// Elements and their lengths, by template.
    pub(crate) templates: BTreeMap<u16, Vec<(u16, usize)>>,
    pub(crate) times_told: usize,
    pub(crate) records: Vec<Record>,
    pub(crate) selections: Vec<(u64, u64, u64, u64)>,
    pub(crate) frames: Vec<Vec<u8>>,
    /// Records of all messages before.
    sequence: Option<u32>,
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |all, byte| all << 8 | u64::from(*byte))
}

impl Collector {
    /// A frame with a message.
    pub(crate) fn take(&mut self, frame: &[u8]) {
        self.frames.push(frame.to_vec());
        let found = Dissected::parse(frame).unwrap();
        assert_eq!(found.ports().map(|(_, dst)| dst), Some(4739));
        let packet = ipv4::View::parse(&frame[found.l3..]).unwrap();
        assert!(packet.checksum_is_valid());
        let datagram = udp::View::parse(packet.payload()).unwrap();
        assert!(datagram.checksum_is_valid(&packet.addresses()));
        self.message(datagram.payload());
    }

    fn message(&mut self, message: &[u8]) {
        assert_eq!(number(&message[..2]), 10);
        assert_eq!(number(&message[2..4]), message.len() as u64);
        assert!(number(&message[4..8]) >= 1_700_000_000);
        let sequence = number(&message[8..12]) as u32;
        // One that is taken over begins anew.
        let expected = self.sequence.filter(|_| sequence != 0).unwrap_or(sequence);
        assert_eq!(sequence, expected);
        let mut rest = &message[16..];
        let mut count = 0;
        while !rest.is_empty() {
            let (id, len) = (number(&rest[..2]) as u16, number(&rest[2..4]) as usize);
            assert!(len > 4 && len <= rest.len());
            let body = &rest[4..len];
            match id {
                2 => self.templates(body, 4),
                3 => self.templates(body, 6),
                id => count += self.data(id, body),
            }
            rest = &rest[len..];
        }
        self.sequence = Some(sequence.wrapping_add(count));
    }

    fn templates(&mut self, mut body: &[u8], header_len: usize) {
        while !body.is_empty() {
            let (id, fields) = (number(&body[..2]) as u16, number(&body[2..4]) as usize);
            if header_len == 6 {
                assert_eq!(number(&body[4..6]), 1, "scope fields");
                self.times_told += 1;
            }
            let end = header_len + 4 * fields;
            let list = body[header_len..end].chunks_exact(4);
            let list = list.map(|one| (number(&one[..2]) as u16, number(&one[2..]) as usize));
            self.templates.insert(id, list.collect());
            body = &body[end..];
        }
    }

    fn data(&mut self, id: u16, body: &[u8]) -> u32 {
        let template = self
            .templates
            .get(&id)
            .expect("a template that was told")
            .clone();
        let len: usize = template.iter().map(|(_, len)| len).sum();
        assert_eq!(body.len() % len, 0, "no padding");
        for record in body.chunks_exact(len) {
            let mut at = 0;
            let mut flow = Record::default();
            let mut selection = (0, 0, 0, 0);
            for (element, len) in &template {
                let bytes = &record[at..at + len];
                at += len;
                let value = if *len <= 8 { number(bytes) } else { 0 };
                match element {
                    8 => flow.src = Ipv4Addr::from_bits(value as u32).to_string(),
                    12 => flow.dst = Ipv4Addr::from_bits(value as u32).to_string(),
                    27 => {
                        flow.src = Ipv6Addr::from(<[u8; 16]>::try_from(bytes).unwrap()).to_string();
                    }
                    28 => {
                        flow.dst = Ipv6Addr::from(<[u8; 16]>::try_from(bytes).unwrap()).to_string();
                    }
                    7 => flow.ports.0 = value as u16,
                    11 => flow.ports.1 = value as u16,
                    4 => flow.protocol = value as u8,
                    6 => flow.tcp_flags = value as u16,
                    136 => flow.reason = value as u8,
                    2 => flow.packets = value,
                    1 => flow.octets = value,
                    152 => flow.start_ms = value,
                    153 => flow.end_ms = value,
                    149 => selection.0 = value,
                    304 => selection.1 = value,
                    305 => selection.2 = value,
                    306 => selection.3 = value,
                    other => panic!("element {other}"),
                }
            }
            match id {
                258 => self.selections.push(selection),
                _ => {
                    assert!(flow.packets > 0 && flow.start_ms <= flow.end_ms, "{flow:?}");
                    self.records.push(flow);
                }
            }
        }
        (body.len() / len) as u32
    }
}
