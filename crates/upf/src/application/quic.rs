//! Whom a connection of QUIC is to: the server's name in the hello of its first packets.
//!
//! On a packet's way, between its session and its PDR, for datagrams of UEs whose sessions have
//! applications. A client's Initials are sealed by keys that whoever sees them can derive: their
//! protection is removed, and what their CRYPTO frames have of the hello is put together, in
//! whatever order it comes, over several datagrams. Specification: RFC 9000 14.1, 17.2, 19; RFC
//! 9001 5; RFC 9369. Limits: [`PER_SECOND`] Initials are opened in a second, of which one session
//! has a fourth, none longer than [`INITIAL_LEN_MAX`], and the others are counted;
//! [`INITIAL_COUNT`] of a datagram; as many hellos as [`flows`](super::flows) has of TCP;
//! [`PIECE_COUNT`](pieces::PIECE_COUNT) pieces of one.

use super::flows::{Connection, HELLO_LEN_MAX, HELLO_NS, make_way};
use super::hello::{self, Seen};
use crate::limiter::Limiter;
use aes::BLOCK;
use keys::{Keys, VERSIONS, Version};

pub mod aes;
pub mod keys;
pub mod pieces;
pub mod sha256;

use pieces::Pieces;

/// Most Initials that are opened in a second.
pub const PER_SECOND: u64 = 1000;
/// Longest Initial that is opened, in bytes: what opening takes grows with them, and a client's fit
/// into the packets of nearly all networks.
pub const INITIAL_LEN_MAX: usize = 1500;
/// Most Initials of a datagram that are looked at.
pub const INITIAL_COUNT: usize = 4;
/// Shortest datagram with a client's Initial (RFC 9000, 14.1).
pub const DATAGRAM_MIN: usize = 1200;
/// Longest connection ID (RFC 9000, 17.2).
const ID_MAX: usize = 20;
/// From a packet number to the sample of the ciphertext behind it.
const SAMPLE: usize = 4;

/// Bytes that are read one after the other, until there are no more.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// A number whose first two bits say how long it is (RFC 9000, 16).
    fn number(&mut self) -> Option<u64> {
        let first = self.byte()?;
        let more = self.take((1 << (first >> 6)) - 1)?;
        let first = u64::from(first & 0x3f);
        Some(
            more.iter()
                .fold(first, |all, byte| all << 8 | u64::from(*byte)),
        )
    }

    fn len(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    fn id(&mut self) -> Option<&'a [u8]> {
        let len = usize::from(self.byte()?);
        self.take(len).filter(|id| id.len() <= ID_MAX)
    }
}

/// A packet with a long header.
#[derive(Clone, Copy)]
struct Packet<'a> {
    version: &'static Version,
    is_initial: bool,
    /// Destination Connection ID.
    to: &'a [u8],
    /// From its first byte to its last.
    bytes: &'a [u8],
    /// Where its packet number lies.
    number_at: usize,
}

/// The first packet of a datagram, and what is behind it; none if it has no long header of a
/// version that is known, or no length.
fn split(datagram: &[u8]) -> Option<(Packet<'_>, &[u8])> {
    let mut bytes = Bytes(datagram);
    let first = bytes.byte().filter(|first| first & 0x80 != 0)?;
    let number = bytes.take(4)?;
    let number = number
        .iter()
        .fold(0, |all, byte| all << 8 | u32::from(*byte));
    let version = VERSIONS.iter().find(|one| one.number == number)?;
    let to = bytes.id()?;
    bytes.id()?;
    let kind = first >> 4 & 0b11;
    if kind == version.retry {
        return None;
    }
    let is_initial = kind == version.initial;
    if is_initial {
        let token = bytes.len()?;
        bytes.take(token)?;
    }
    let len = bytes.len()?;
    let number_at = datagram.len() - bytes.0.len();
    bytes.take(len)?;
    let (whole, rest) = datagram.split_at(number_at + len);
    let packet = Packet {
        version,
        is_initial,
        to,
        bytes: whole,
        number_at,
    };
    Some((packet, rest))
}

/// Whether a datagram may have a client's Initial: all but a few have none.
#[inline]
pub fn may_say_hello(datagram: &[u8]) -> bool {
    datagram.len() >= DATAGRAM_MIN
        && datagram[0] & 0x80 != 0
        && VERSIONS
            .iter()
            .any(|version| datagram[1..5] == version.number.to_be_bytes())
}

impl Packet<'_> {
    /// The frames of an Initial; none if its seal is not that of its connection's client.
    fn open(&self) -> Option<Vec<u8>> {
        let keys = Keys::of(self.version, self.to);
        let sample = self.bytes.get(self.number_at + SAMPLE..)?.first_chunk()?;
        let mask = keys.mask(sample);
        let first = self.bytes[0] ^ mask[0] & 0x0f;
        let number_len = usize::from(first & 0b11) + 1;
        let (header, sealed) = self.bytes.split_at_checked(self.number_at + number_len)?;
        let mut header = header.to_vec();
        header[0] = first;
        let mut number = 0;
        for (byte, mask) in header[self.number_at..].iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
            number = number << 8 | u32::from(*byte);
        }
        let (text, tag) = sealed.split_at_checked(sealed.len().checked_sub(BLOCK)?)?;
        // An Initial's number is its whole one: nobody sends as many as are cut off.
        let nonce = keys.nonce(number);
        if keys.text.tag(&nonce, &header, text) != tag {
            return None;
        }
        let mut text = text.to_vec();
        keys.text.crypt(&nonce, &mut text);
        Some(text)
    }
}

/// Finds CRYPTO frames among those of an Initial, until something else than they, or what
/// acknowledges, comes.
fn crypto_frames(frames: &[u8], mut found: impl FnMut(u64, &[u8])) {
    let mut bytes = Bytes(frames);
    while let Some(()) = frame(&mut bytes, &mut found) {}
}

/// Passes over a frame; none behind the last one, and for one that no Initial of a client has.
fn frame(bytes: &mut Bytes<'_>, found: &mut impl FnMut(u64, &[u8])) -> Option<()> {
    match bytes.number()? {
        // PADDING, PING.
        0 | 1 => {}
        // ACK, and with ECN counts.
        kind @ (2 | 3) => {
            bytes.number()?;
            bytes.number()?;
            let ranges = bytes.number()?;
            bytes.number()?;
            for _ in 0..ranges {
                bytes.number()?;
                bytes.number()?;
            }
            if kind == 3 {
                (0..3).try_for_each(|_| bytes.number().map(drop))?;
            }
        }
        6 => {
            let offset = bytes.number()?;
            let len = bytes.len()?;
            found(offset, bytes.take(len)?);
        }
        _ => return None,
    }
    Some(())
}

/// A hello that is not whole.
#[derive(Debug)]
struct Hello {
    of: Connection,
    /// The ID to which its Initials are sent.
    to: Vec<u8>,
    came_ns: u64,
    pieces: Pieces,
}

/// Hellos in pieces, and how many may still be opened.
#[derive(Debug)]
pub struct Hellos {
    hellos: Vec<Hello>,
    limiter: Limiter,
    /// Initials that were not opened, since they were too long or too many came.
    pub unread: u64,
}

impl Default for Hellos {
    fn default() -> Self {
        Self {
            hellos: Vec::new(),
            limiter: Limiter::shared(PER_SECOND),
            unread: 0,
        }
    }
}

impl Hellos {
    /// Hears what a UE's datagram says of the hello of a connection: calls `heard` once whom it is
    /// to is known.
    pub fn hear(
        &mut self,
        of: &Connection,
        datagram: &[u8],
        now_ns: u64,
        heard: impl FnOnce(&Seen<'_>),
    ) {
        let mut rest = datagram;
        for _ in 0..INITIAL_COUNT {
            let Some((packet, behind)) = split(rest) else {
                break;
            };
            rest = behind;
            if !packet.is_initial {
                continue;
            }
            #[expect(clippy::cast_possible_truncation, reason = "a slot's number is in it")]
            let session = of.session() as u32;
            let is_too_long = packet.bytes.len() > INITIAL_LEN_MAX;
            if is_too_long || !self.limiter.passes_of(session, now_ns) {
                self.unread += 1;
                break;
            }
            let Some(frames) = packet.open() else {
                continue;
            };
            let mut hello = self.take(of, packet.to, now_ns);
            crypto_frames(&frames, |offset, data| hello.pieces.add(offset, data));
            match hello::look_at_handshake(hello.pieces.beginning()) {
                Seen::Incomplete => self.keep(hello, now_ns),
                Seen::Nothing => {}
                seen => {
                    heard(&seen);
                    break;
                }
            }
        }
    }

    /// What is known of a hello so far.
    fn take(&mut self, of: &Connection, to: &[u8], now_ns: u64) -> Hello {
        let is_it = |one: &Hello| one.of == *of && one.to == to;
        match self.hellos.iter().position(is_it) {
            Some(at) => self.hellos.remove(at),
            None => Hello {
                of: *of,
                to: to.to_vec(),
                came_ns: now_ns,
                pieces: Pieces::default(),
            },
        }
    }

    fn keep(&mut self, hello: Hello, now_ns: u64) {
        // Of a connection there is one hello: another ID is that of another one.
        let waits = |one: &Hello| now_ns.saturating_sub(one.came_ns) < HELLO_NS;
        self.hellos.retain(|one| one.of != hello.of && waits(one));
        if hello.pieces.beginning().len() < HELLO_LEN_MAX && hello.pieces.has_room() {
            make_way(&mut self.hellos, |one| {
                one.of.session() == hello.of.session()
            });
            self.hellos.push(hello);
        }
    }
}

#[cfg(test)]
mod tests;
