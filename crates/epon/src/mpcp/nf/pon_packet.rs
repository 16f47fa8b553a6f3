//! A packet on the PON's side: preamble with LLID, then the frame without its check sequence.

use catena_pcs::llid;
use catena_pcs::params::PREAMBLE_LEN;
use catena_wire::ethernet::{self, EtherType, MacAddr};
use catena_wire::mpcp::{self, MPCPDU_LEN, Message};

/// Longest frame without check sequence: the envelope frame of IEEE 802.3 3.2.7.
pub(super) const FRAME_LEN_MAX: usize = 1996;
/// Length of a packet with an MPCPDU.
pub(super) const MPCPDU_PACKET_LEN: usize = PREAMBLE_LEN + ethernet::HEADER_LEN + MPCPDU_LEN;

/// What is wrong with a packet on the PON's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// Too short for preamble and Ethernet header, or too long.
    Length,
    /// No preamble of EPON, or its CRC-8 is wrong.
    Preamble,
    /// A MAC control frame that is no MPCPDU.
    Control,
}

/// A packet on the PON's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PonPacket<'a> {
    /// LLID with mode bit.
    pub(super) llid: u16,
    /// The frame.
    pub(super) frame: &'a [u8],
    /// Its destination.
    pub(super) dst: MacAddr,
    /// Its source.
    pub(super) src: MacAddr,
    /// What it says, if it is an MPCPDU.
    pub(super) mpcpdu: Option<mpcp::Header>,
}

impl<'a> PonPacket<'a> {
    /// Reads `bytes`.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (preamble, frame) = bytes
            .split_first_chunk::<PREAMBLE_LEN>()
            .ok_or(Malformed::Length)?;
        let llid = llid::parse(preamble).map_err(|_| Malformed::Preamble)?;
        if !(ethernet::HEADER_LEN..=FRAME_LEN_MAX).contains(&frame.len()) {
            return Err(Malformed::Length);
        }
        let (header, payload) = frame.split_at(ethernet::HEADER_LEN);
        let header = ethernet::Header {
            dst: mac(header, 0),
            src: mac(header, 6),
            ether_type: EtherType(u16::from_be_bytes([header[12], header[13]])),
        };
        let is_control = header.ether_type == EtherType::MAC_CONTROL;
        let mpcpdu = is_control
            .then(|| mpcp::Header::parse(payload).map_err(|_| Malformed::Control))
            .transpose()?;
        Ok(Self {
            llid,
            frame,
            dst: header.dst,
            src: header.src,
            mpcpdu,
        })
    }
}

fn mac(bytes: &[u8], at: usize) -> MacAddr {
    let mut octets = [0; 6];
    octets.copy_from_slice(&bytes[at..at + 6]);
    MacAddr(octets)
}

/// Writes a packet with an MPCPDU into `bytes`, which are [`MPCPDU_PACKET_LEN`] long.
pub(super) fn write_mpcpdu(
    bytes: &mut [u8],
    llid: u16,
    dst: MacAddr,
    src: MacAddr,
    timestamp: u32,
    message: Message,
) {
    let (preamble, frame) = bytes.split_at_mut(PREAMBLE_LEN);
    preamble.copy_from_slice(&llid::preamble(llid));
    let header = ethernet::Header {
        dst,
        src,
        ether_type: EtherType::MAC_CONTROL,
    };
    header.emit(frame);
    let pdu = mpcp::Header { timestamp, message };
    pdu.emit(&mut frame[ethernet::HEADER_LEN..]);
}

/// Writes a packet with `frame` into `bytes`, which are longer by a preamble.
pub(super) fn write_frame(bytes: &mut [u8], llid: u16, frame: (&[u8], &[u8])) {
    let (preamble, rest) = bytes.split_at_mut(PREAMBLE_LEN);
    preamble.copy_from_slice(&llid::preamble(llid));
    copy_parts(rest, frame);
}

/// Copies a frame that may lie in two parts.
pub(super) fn copy_parts(bytes: &mut [u8], (first, second): (&[u8], &[u8])) {
    let (a, b) = bytes.split_at_mut(first.len());
    a.copy_from_slice(first);
    b.copy_from_slice(second);
}
