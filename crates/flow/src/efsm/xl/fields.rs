//! Bytes of a packet that are fields.
//!
//! Part of the importer's third step: where XL names bytes, programs name fields, so that checksums
//! follow.

use super::XlError;

/// Fields of an untagged Ethernet frame with IPv4 of 20 bytes: first byte, count, name.
const FIELDS: [(u64, u64, &str); 22] = [
    (0, 6, "eth.dst"),
    (6, 6, "eth.src"),
    (12, 2, "eth.type"),
    (15, 1, "ipv4.tos"),
    (16, 2, "ipv4.len"),
    (18, 2, "ipv4.id"),
    (22, 1, "ipv4.ttl"),
    (23, 1, "ipv4.protocol"),
    (24, 2, "ipv4.checksum"),
    (26, 4, "ipv4.src"),
    (30, 4, "ipv4.dst"),
    (34, 2, "l4.src_port"),
    (36, 2, "l4.dst_port"),
    (38, 4, "tcp.seq"),
    (42, 4, "tcp.ack_seq"),
    (47, 1, "tcp.flags"),
    (48, 2, "tcp.window"),
    (50, 2, "tcp.checksum"),
    (52, 2, "tcp.urgent"),
    (34, 1, "icmp.type"),
    (35, 1, "icmp.code"),
    (38, 2, "udp.len"),
];

/// Bytes of a packet: a field by its name where they are one.
pub(super) fn bytes(file: &str, line: usize, from: u64, count: u64) -> Result<String, XlError> {
    if !(1..=16).contains(&count) || from > 9000 {
        return Err(XlError::new(
            file,
            line,
            "fields have 1 to 16 bytes",
            "split the field",
        ));
    }
    let found = FIELDS
        .iter()
        .find(|(at, len, _)| (*at, *len) == (from, count));
    Ok(match found {
        Some((.., name)) => (*name).to_owned(),
        None => format!("packet[{from}:+{count}]"),
    })
}
