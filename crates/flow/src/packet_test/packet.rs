//! Packets as text: hexadecimal digits, names of others, or words.
//!
//! ```text
//! [TUNNEL(VALUE, ...)]... udp|tcp|icmp|ip SRC > DST [syn|ack|...]... [payload=HEX] [len=N]
//! NAME
//! either of these [HEADER.FIELD=VALUE]...
//! ```
//!
//! What is made of words has all lengths and checksums; fields that are set keep them right, as a
//! program's do. Tunnels are those of `encap(...)`, the outermost first.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use crate::efsm::{hex, pattern};
use crate::program::field::{self, Width};
use crate::program::frame::{Buffer, Frame};
use crate::program::header::{Field, Header, Headers};
use crate::program::table::{Match, Pattern};
use crate::program::template::fill_checksums;
use crate::program::tunnel::{TUNNELS, Tunnel, encap};

/// Most bytes of a packet.
const LEN_MAX: usize = 9216;
/// Packets that packets are made of, at most one from the other.
const DEPTH_MAX: usize = 8;
/// Tunnels around a packet, at most.
const TUNNEL_COUNT_MAX: usize = 4;
const TCP_FLAGS: [&str; 6] = ["fin", "syn", "rst", "psh", "ack", "urg"];

/// What packets may refer to.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) packets: &'a BTreeMap<String, String>,
    /// What `packet` is: the one of the step.
    pub(super) came: Option<&'a [u8]>,
}

/// A number of a width: an expression as in programs, an address among them.
pub(super) fn number(text: &str, width: Width) -> Result<u128, String> {
    if width == 48
        && let Some(address) = mac(text)
    {
        return Ok(address);
    }
    match pattern(text, Match::Exact, width)? {
        Pattern::Masked(number, _) => Ok(number),
        Pattern::Range(..) => Err(format!("\"{text}\" is not one number")),
    }
}

fn mac(text: &str) -> Option<u128> {
    let octets: Option<Vec<u8>> = text
        .split(':')
        .map(|octet| {
            u8::from_str_radix(octet, 16)
                .ok()
                .filter(|_| octet.len() == 2)
        })
        .collect();
    let octets = octets.filter(|octets| octets.len() == 6)?;
    Some(
        octets
            .iter()
            .fold(0, |all, octet| all << 8 | u128::from(*octet)),
    )
}

/// A header's field by its name in programs.
pub(super) fn field(name: &str) -> Result<(Field, bool), String> {
    let found = name.rsplit_once('.').and_then(|(header, last)| {
        let header = Header::named(header)?;
        field::named(header, last)
    });
    found.ok_or_else(|| format!("there is no field {name}"))
}

/// The packet that a text means.
pub(super) fn packet(names: Names<'_>, text: &str) -> Result<Vec<u8>, String> {
    made(names, text, 0)
}

fn made(names: Names<'_>, text: &str, depth: usize) -> Result<Vec<u8>, String> {
    if depth > DEPTH_MAX {
        return Err("packets are made of each other".to_owned());
    }
    if let Some(bytes) = hex(text).filter(|_| !names.packets.contains_key(text.trim())) {
        let fits = (1..=LEN_MAX).contains(&bytes.len());
        return fits.then_some(bytes).ok_or_else(too_long);
    }
    let (tunnels, rest) = tunnels(text)?;
    let mut words: Vec<&str> = rest.split_whitespace().collect();
    let first = words.first().copied().unwrap_or_default();
    words.drain(..words.len().min(1));
    let mut bytes = match (names.came, names.packets.get(first)) {
        (_, Some(text)) => made(
            Names {
                came: None,
                ..names
            },
            text,
            depth + 1,
        )?,
        (Some(came), None) if first == "packet" => came.to_vec(),
        _ => plain(first, &mut words, names)?,
    };
    for (tunnel, values) in tunnels.iter().rev() {
        let mut frame = Buffer::new(&bytes);
        encap(&mut frame, &Headers::parse(&bytes), *tunnel, values)
            .map_err(|why| format!("a tunnel cannot carry this packet: {why:?}"))?;
        bytes = frame.bytes().to_vec();
    }
    for word in words {
        set(&mut bytes, word)?;
    }
    Ok(bytes)
}

fn too_long() -> String {
    format!("a packet has 1 to {LEN_MAX} bytes")
}

/// A tunnel and its values.
type Around = (Tunnel, Vec<u128>);

/// Tunnels in front of a packet's words.
fn tunnels(text: &str) -> Result<(Vec<Around>, &str), String> {
    let (mut found, mut rest) = (Vec::new(), text.trim());
    while let Some((name, tail)) = rest.split_once('(') {
        let known = TUNNELS.iter().find(|(known, _)| *known == name.trim());
        let Some((_, tunnel)) = known else { break };
        let (values, tail) = tail.split_once(')').ok_or("a ) is missing")?;
        let widths = tunnel.values();
        let values: Vec<&str> = values.split(',').map(str::trim).collect();
        if values.len() != widths.len() || found.len() == TUNNEL_COUNT_MAX {
            let names: Vec<&str> = widths.iter().map(|(name, _)| *name).collect();
            return Err(format!("write {name}({})", names.join(", ")));
        }
        let numbers = values.iter().zip(widths);
        let numbers = numbers.map(|(value, (_, width))| number(value, *width));
        found.push((*tunnel, numbers.collect::<Result<_, _>>()?));
        rest = tail.trim_start();
    }
    Ok((found, rest))
}

/// A packet of a kind between two ends. Takes the words that belong to its making.
fn plain(kind: &str, words: &mut Vec<&str>, names: Names<'_>) -> Result<Vec<u8>, String> {
    if !["udp", "tcp", "icmp", "ip"].contains(&kind) {
        let known: Vec<&str> = names.packets.keys().map(String::as_str).collect();
        return Err(format!(
            "\"{kind}\" is neither hexadecimal digits, nor udp, tcp, icmp or ip, nor one of \
             packets: {}",
            known.join(", ")
        ));
    }
    let [from, ">", to, ..] = words[..] else {
        return Err(format!("write {kind} FROM > TO"));
    };
    let ends = (end(kind, from)?, end(kind, to)?);
    words.drain(..3);
    let (mut flags, mut payload, mut len) = (0, Ok(Vec::new()), Ok(0));
    words.retain(|word| {
        let flag = TCP_FLAGS.iter().position(|flag| flag == word);
        if let Some(bit) = flag.filter(|_| kind == "tcp") {
            flags |= 1 << bit;
        } else if let Some(digits) = word.strip_prefix("payload=") {
            payload = hex(digits).ok_or("a payload is pairs of hexadecimal digits");
        } else if let Some(number) = word.strip_prefix("len=") {
            len = number.parse().map_err(|_| format!("{word} is no length"));
        } else {
            return true;
        }
        false
    });
    framed(kind, ends, flags, payload?, len?)
}

/// An address, with a port where the kind has ports.
fn end(kind: &str, text: &str) -> Result<SocketAddr, String> {
    let found = match kind {
        "udp" | "tcp" => text.parse().ok(),
        _ => text.parse().ok().map(|address| SocketAddr::new(address, 0)),
    };
    let repair = match kind {
        "udp" | "tcp" => "10.0.0.1:80 or [fd00::1]:80",
        _ => "10.0.0.1 or fd00::1",
    };
    found.ok_or_else(|| format!("\"{text}\" is no end of {kind}: write it as {repair}"))
}

fn framed(
    kind: &str,
    (from, to): (SocketAddr, SocketAddr),
    flags: u8,
    mut payload: Vec<u8>,
    len: usize,
) -> Result<Vec<u8>, String> {
    let ports = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    let (protocol, l4) = match (kind, from.ip()) {
        ("udp", _) => (17, [&ports[..], &[0; 4]].concat()),
        ("tcp", _) => {
            let rest = [0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0];
            (6, [&ports[..], &rest].concat())
        }
        ("icmp", IpAddr::V4(_)) => (1, vec![8, 0, 0, 0, 0, 0, 0, 0]),
        ("icmp", IpAddr::V6(_)) => (58, vec![128, 0, 0, 0, 0, 0, 0, 0]),
        _ => (253, Vec::new()),
    };
    let network = if from.is_ipv4() { 20 } else { 40 };
    let front = 14 + network + l4.len();
    if front + payload.len() > LEN_MAX || len > LEN_MAX {
        return Err(too_long());
    }
    payload.resize(payload.len().max(len.saturating_sub(front)), 0);
    let mut l4 = [l4, payload].concat();
    if kind == "udp" {
        let length = l4.len() as u16;
        l4[4..6].copy_from_slice(&length.to_be_bytes());
    }
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + l4.len() as u16).to_be_bytes());
            frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
            frame.extend([from.octets(), to.octets()].concat());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((l4.len() as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend([from.octets(), to.octets()].concat());
        }
        _ => return Err("both ends are of the same version of IP".to_owned()),
    }
    frame.extend(l4);
    let headers = Headers::parse(&frame);
    fill_checksums(&mut frame, &headers);
    Ok(frame)
}

/// `HEADER.FIELD=VALUE`, with every checksum.
fn set(bytes: &mut [u8], word: &str) -> Result<(), String> {
    let Some((name, value)) = word.split_once('=') else {
        return Err(format!("\"{word}\" is nothing that a packet has"));
    };
    let (field, is_writable) = field(name)?;
    let headers = Headers::parse(bytes);
    if !headers.has(field.header) {
        return Err(format!("the packet has no {}", field.header.name()));
    }
    if !is_writable {
        return Err(format!(
            "{name} follows from the packet: write it in hexadecimal digits"
        ));
    }
    let value = number(value, field.width)?;
    field::write(bytes, &headers, field, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<u8>, String> {
        let packets = BTreeMap::from(
            [
                ("syn", "tcp 10.0.0.1:5 > 10.0.0.2:80 syn"),
                ("loop", "loop"),
                ("beef", "0102"),
            ]
            .map(|(name, text)| (name.to_owned(), text.to_owned())),
        );
        let names = Names {
            packets: &packets,
            came: Some(&[1, 2, 3]),
        };
        packet(names, text)
    }

    fn read(bytes: &[u8], name: &str) -> u128 {
        field::read(bytes, &Headers::parse(bytes), field(name).unwrap().0)
    }

    #[test]
    fn packets_are_made_of_words_with_all_checksums() {
        for text in [
            "udp 10.0.0.1:5 > 10.0.0.2:53 payload=0102",
            "tcp [fd00::1]:5 > [fd00::2]:80 syn ack tcp.seq=7 len=100",
            "icmp 10.0.0.1 > 10.0.0.2 icmp.id=9",
            "icmp fd00::1 > fd00::2",
            "ip 10.0.0.1 > 10.0.0.2 ipv4.ttl=3 eth.dst=02:00:00:00:00:09",
            "gtpu_downlink(10.9.0.1, 10.9.0.2, 11, 9) udp 10.0.0.1:5 > 10.0.0.2:53",
            "vlan(0, 7) syn ipv4.dst=10.0.0.77",
        ] {
            let bytes = of(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            let headers = Headers::parse(&bytes);
            assert!(!headers.is_malformed(), "{text}");
            if headers.has(Header::Gtpu) {
                // Over IPv4 the UDP of a tunnel has no checksum.
                continue;
            }
            let mut sealed = bytes.clone();
            fill_checksums(&mut sealed, &headers);
            assert_eq!(sealed, bytes, "{text}");
        }
        let bytes = of("tcp [fd00::1]:5 > [fd00::2]:80 syn ack tcp.seq=7 len=100").unwrap();
        assert_eq!(bytes.len(), 100);
        assert_eq!(
            [read(&bytes, "tcp.flags"), read(&bytes, "tcp.seq")],
            [0x12, 7]
        );
        let bytes = of("gtpu(10.9.0.1, 10.9.0.2, 11) syn gtpu.teid=12").unwrap();
        assert_eq!(
            [
                read(&bytes, "gtpu.teid"),
                read(&bytes, "inner.tcp.dst_port")
            ],
            [12, 80]
        );
        let bytes = of("vlan(0, 7) syn ipv4.dst=10.0.0.77").unwrap();
        assert_eq!(
            [read(&bytes, "vlan.vid"), read(&bytes, "ipv4.dst")],
            [7, 0x0a00_004d]
        );
    }

    #[test]
    fn digits_and_names_mean_packets_too() {
        assert_eq!(of("01 02\n0a"), Ok(vec![1, 2, 10]));
        assert_eq!(of("packet"), Ok(vec![1, 2, 3]));
        assert_eq!(
            of("beef"),
            Ok(vec![1, 2]),
            "a name, though it is digits as well"
        );
    }

    #[test]
    fn what_is_no_packet_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "1 to 9216 bytes"),
            ("012", "neither hexadecimal"),
            ("ack", "one of packets: beef, loop, syn"),
            ("udp 10.0.0.1 > 10.0.0.2:1", "write it as 10.0.0.1:80"),
            ("udp 10.0.0.1:1 10.0.0.2:1", "write udp FROM > TO"),
            ("udp 10.0.0.1:1 > [fd00::1]:1", "the same version"),
            ("udp 10.0.0.1:1 > 10.0.0.2:1 len=70000", "1 to 9216"),
            (
                "udp 10.0.0.1:1 > 10.0.0.2:1 syn",
                "nothing that a packet has",
            ),
            ("udp 10.0.0.1:1 > 10.0.0.2:1 tcp.seq=1", "has no tcp"),
            ("udp 10.0.0.1:1 > 10.0.0.2:1 udp.seq=1", "no field udp.seq"),
            (
                "udp 10.0.0.1:1 > 10.0.0.2:1 ipv4.ttl=256",
                "does not fit 8 bits",
            ),
            (
                "udp 10.0.0.1:1 > 10.0.0.2:1 udp.len=9",
                "follows from the packet",
            ),
            ("loop", "made of each other"),
            ("gtpu(1, 2) syn", "write gtpu(src, dst, teid)"),
            ("vlan(1, 2", "a ) is missing"),
        ] {
            let error = of(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
