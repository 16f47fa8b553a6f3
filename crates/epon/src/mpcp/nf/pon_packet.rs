//! A packet on the PON's side: when it passes the OLT, preamble with LLID, then the frame without
//! its check sequence.
//!
//! ```text
//! 0  instant in quanta, as MPCP's clock of 32 bits, least significant octet first
//! 4  preamble of EPON with LLID and CRC-8
//! 12 frame
//! ```

use catena_pcs::llid;
use catena_pcs::params::PREAMBLE_LEN;
use catena_wire::ethernet::{self, EtherType, MacAddr};
use catena_wire::mpcp::{self, MPCPDU_LEN, Message};

/// Longest frame without check sequence: the envelope frame of IEEE 802.3 3.2.7.
pub(super) const FRAME_LEN_MAX: usize = 1996;
/// What stands in front of the frame: instant and preamble.
pub(super) const PON_HEADER_LEN: usize = INSTANT_LEN + PREAMBLE_LEN;
const INSTANT_LEN: usize = 4;
/// Length of a packet with an MPCPDU.
pub(super) const MPCPDU_PACKET_LEN: usize = PON_HEADER_LEN + ethernet::HEADER_LEN + MPCPDU_LEN;

/// Tag of a packet of an ONU's burst that is not its last one.
pub(super) const MORE_FOLLOW: u16 = 1;

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
    /// When its first octet passes the OLT's end of the fibre, in quanta.
    pub(super) instant: u32,
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
        let (instant, rest) = bytes
            .split_first_chunk::<INSTANT_LEN>()
            .ok_or(Malformed::Length)?;
        let (preamble, frame) = rest
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
            instant: u32::from_le_bytes(*instant),
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
    (instant, llid): (u32, u16),
    dst: MacAddr,
    src: MacAddr,
    timestamp: u32,
    message: Message,
) {
    let frame = write_header(bytes, instant, llid);
    let header = ethernet::Header {
        dst,
        src,
        ether_type: EtherType::MAC_CONTROL,
    };
    header.emit(frame);
    let pdu = mpcp::Header { timestamp, message };
    pdu.emit(&mut frame[ethernet::HEADER_LEN..]);
}

/// Writes a packet with `frame` into `bytes`, which are longer by [`PON_HEADER_LEN`].
pub(super) fn write_frame(bytes: &mut [u8], (instant, llid): (u32, u16), frame: (&[u8], &[u8])) {
    copy_parts(write_header(bytes, instant, llid), frame);
}

/// Writes what stands in front of a frame; gives the rest.
fn write_header(bytes: &mut [u8], instant: u32, llid: u16) -> &mut [u8] {
    let (header, frame) = bytes.split_at_mut(PON_HEADER_LEN);
    let (before, preamble) = header.split_at_mut(INSTANT_LEN);
    before.copy_from_slice(&instant.to_le_bytes());
    preamble.copy_from_slice(&llid::preamble(llid));
    frame
}

/// Copies a frame that may lie in two parts.
pub(super) fn copy_parts(bytes: &mut [u8], (first, second): (&[u8], &[u8])) {
    let (a, b) = bytes.split_at_mut(first.len());
    a.copy_from_slice(first);
    b.copy_from_slice(second);
}
