//! QUIC of the scripted users: the Initials with which a client says hello.
//!
//! Beside the segments of `tcp`. What a UE sends is sealed as a client's Initials are, so that the
//! UPF has to open them.

use crate::application::quic::DATAGRAM_MIN;
use crate::application::quic::keys::{Keys, VERSIONS, Version};

use super::scenario::Packets;
use super::tcp::client_hello;

/// Bytes of a tag.
const TAG: usize = 16;
/// Behind a TLS record's header its handshake begins.
const RECORD: usize = 5;

/// An Initial to a connection ID: its packet number, and frames, which are padded until the
/// datagram is as long as it must be.
pub(crate) fn initial(version: &Version, to: &[u8], number: u32, frames: &[u8]) -> Vec<u8> {
    let mut header = vec![0xc3 | version.initial << 4];
    header.extend(version.number.to_be_bytes());
    header.push(to.len() as u8);
    header.extend_from_slice(to);
    // No ID of its own, no token, and the length in two bytes.
    header.extend([0, 0]);
    let behind = header.len() + 2 + 4 + TAG;
    let mut text = frames.to_vec();
    text.resize(frames.len().max(DATAGRAM_MIN - behind), 0);
    let len = (4 + text.len() + TAG) as u16;
    header.extend((0x4000 | len).to_be_bytes());
    let number_at = header.len();
    header.extend(number.to_be_bytes());
    let keys = Keys::of(version, to);
    let nonce = keys.nonce(number);
    keys.text.crypt(&nonce, &mut text);
    let tag = keys.text.tag(&nonce, &header, &text);
    text.extend(tag);
    if let Some(sample) = text.first_chunk() {
        let mask = keys.mask(sample);
        header[0] ^= mask[0] & 0x0f;
        for (byte, mask) in header[number_at..].iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
        }
    }
    header.extend(text);
    header
}

/// A CRYPTO frame.
pub(crate) fn crypto(offset: usize, data: &[u8]) -> Vec<u8> {
    let number = |number: usize| (0x8000_0000 | number as u32).to_be_bytes();
    let mut frame = vec![6];
    frame.extend(number(offset));
    frame.extend(number(data.len()));
    frame.extend_from_slice(data);
    frame
}

/// The hello of a client to a server: an Initial, or several of them, the last one first.
pub(super) fn initials(name: &str, packets: &Packets, number: u32) -> Vec<Vec<u8>> {
    let hello = client_hello(name, packets.padding);
    let hello = &hello[RECORD..];
    let to = [&[0xca, 0x7e][..], &number.to_be_bytes(), &[0, 0]].concat();
    let version = &VERSIONS[usize::from(packets.quic_v2)];
    let most = packets.segment.unwrap_or(1000).clamp(1, 1000);
    let parts = hello.chunks(most).enumerate();
    let mut all: Vec<_> = parts
        .map(|(at, part)| initial(version, &to, at as u32, &crypto(at * most, part)))
        .collect();
    all.reverse();
    all
}
