// SPDX-License-Identifier: Apache-2.0
//! G-PDUs as nearly all of them are: no field but length and TEID, and at most the PDU session
//! container with a QFI and nothing else. Read and written at fixed places.
//!
//! ```text
//! 0                      4      8                             12                            16
//! | 0x30 | 0xff | length | TEID | payload ...
//! | 0x34 | 0xff | length | TEID | sequence | N-PDU    | 0x85 | 1 | PDU type | flags, QFI | 0 | ...
//! ```
//!
//! What is none of these is no error: [`View`](super::View) and [`Header`](super::Header) are for
//! all messages, and say of these the same.

use super::{ExtensionType, PROTOCOL_TYPE, VERSION_1, pdu_session::QFI_MAX};
use super::{FLAG_E, HEADER_LEN_MIN, LEN, MESSAGE_TYPE, MessageType, NEXT_TYPE, TEID};
use crate::field;

/// Length in bytes of a header with a container.
pub const HEADER_LEN: usize = 16;

const BARE: u8 = VERSION_1 | PROTOCOL_TYPE;
const WITH_EXTENSION: u8 = BARE | FLAG_E;
const UPLINK: u8 = 1 << 4;
const RQI: u8 = 1 << 6;

/// A plain G-PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain<'a> {
    /// The tunnel at its receiver.
    pub teid: u32,
    /// QFI of its container, which is that of an uplink packet.
    pub qfi: Option<u8>,
    /// Length of its header.
    pub header_len: usize,
    /// The user's packet.
    pub payload: &'a [u8],
}

impl<'a> Plain<'a> {
    /// Reads the message at the front of `bytes`; none if it is not plain, or not whole.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let fixed = bytes.first_chunk::<HEADER_LEN_MIN>()?;
        if fixed[MESSAGE_TYPE] != MessageType::G_PDU.0 {
            return None;
        }
        let end = HEADER_LEN_MIN + usize::from(field::u16(fixed, LEN));
        let message = bytes.get(..end)?;
        let (header_len, qfi) = match fixed[0] {
            BARE => (HEADER_LEN_MIN, None),
            WITH_EXTENSION => match message.first_chunk::<HEADER_LEN>()?[NEXT_TYPE..] {
                [PDU_SESSION_CONTAINER, 1, UPLINK, qfi @ ..=QFI_MAX, 0] => (HEADER_LEN, Some(qfi)),
                _ => return None,
            },
            _ => return None,
        };
        Some(Self {
            teid: field::u32(fixed, TEID),
            qfi,
            header_len,
            payload: &message[header_len..],
        })
    }
}

const PDU_SESSION_CONTAINER: u8 = ExtensionType::PDU_SESSION_CONTAINER.0;

/// How many bytes [`emit`] writes.
#[inline]
pub const fn header_len(has_container: bool) -> usize {
    if has_container {
        HEADER_LEN
    } else {
        HEADER_LEN_MIN
    }
}

/// Writes the header of a G-PDU towards the access network to the front of `bytes`, with a
/// container if there is a QFI.
///
/// # Panics
/// If `bytes` is shorter than the header, or if more than 65535 bytes follow its first 8.
#[inline]
pub fn emit(bytes: &mut [u8], teid: u32, (qfi, rqi): (Option<u8>, bool), payload_len: usize) {
    let behind = payload_len + header_len(qfi.is_some()) - HEADER_LEN_MIN;
    let len = u16::try_from(behind).expect("a GTP-U message has at most 65535 bytes behind 8");
    let flags = if qfi.is_some() { WITH_EXTENSION } else { BARE };
    bytes[0] = flags;
    bytes[MESSAGE_TYPE] = MessageType::G_PDU.0;
    field::set_u16(bytes, LEN, len);
    field::set_u32(bytes, TEID, teid);
    if let Some(qfi) = qfi {
        let rqi = if rqi { RQI } else { 0 };
        let container = [0, 0, 0, PDU_SESSION_CONTAINER, 1, 0, rqi | qfi & QFI_MAX, 0];
        bytes[HEADER_LEN_MIN..HEADER_LEN].copy_from_slice(&container);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::super::pdu_session::{Downlink, PduSession, Uplink};
    use super::super::{Extension, Extensions, Header, View};
    use super::*;

    /// A message of a few kinds, with a few octets changed.
    fn a_message() -> impl Strategy<Value = Vec<u8>> {
        let container = select(vec![
            vec![],
            vec![0, 0, 0, 0x85, 1, 0x10, 9, 0],
            vec![0, 0, 0, 0x85, 1, 0, 9, 0],
            vec![0, 0, 0, 0x85, 2, 0x10, 9, 0, 0, 0, 0, 0],
            vec![0, 0, 0, 0],
        ]);
        let flags = select(vec![0x30, 0x34, 0x34, 0x36, 0x31, 0x20, 0x50]);
        let changes = prop::collection::vec((0usize..24, any::<u8>()), 0..2);
        (flags, container, 0usize..12, changes).prop_map(|(flags, container, len, changes)| {
            let mut bytes = vec![flags, 0xff, 0, 0, 1, 2, 3, 4];
            bytes.extend(&container);
            bytes.resize(bytes.len() + len, 7);
            bytes[3] = u8::try_from(bytes.len() - HEADER_LEN_MIN).unwrap();
            // Bytes behind a message are none of it.
            bytes.push(0xee);
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            bytes
        })
    }

    proptest! {
        /// What is plain is what a view of all messages says it is, and nothing plain is missed.
        #[test]
        fn a_plain_message_is_what_a_view_says(bytes in a_message()) {
            let plain = Plain::parse(&bytes);
            let view = View::parse(&bytes[..]);
            let wanted = view.as_ref().ok().and_then(|view| {
                let is_g_pdu = view.message_type() == MessageType::G_PDU;
                let extensions = view.extensions();
                let qfi = match (bytes[0], extensions.pdu_session()) {
                    (0x30, Ok(None)) => None,
                    (0x34, Ok(Some(PduSession::Uplink(frame)))) => {
                        let qfi = frame.qfi;
                        let lone = Uplink { qfi, ..Uplink::default() };
                        (frame == lone && view.header_len() == HEADER_LEN).then_some(Some(qfi))?
                    }
                    _ => return None,
                };
                is_g_pdu.then_some((view.teid(), qfi, view.header_len(), view.payload()))
            });
            // Spare bits, which a view does not look at, are set in no message as it is written.
            let has_spare = qfi_is_spare(&bytes);
            let found = plain.map(|one| (one.teid, one.qfi, one.header_len, one.payload));
            let agree = found == wanted || found.is_none() && has_spare;
            prop_assert!(agree, "{:?} {:?}", found, wanted);
        }

        /// What is written is what the header of all messages writes.
        #[test]
        fn a_header_is_written_as_any_other(
            teid in any::<u32>(),
            qfi in prop::option::of(0..=QFI_MAX),
            rqi in any::<bool>(),
            payload_len in 0usize..2000,
        ) {
            let (mut content, mut chain) = ([0; 2], [0; 4]);
            let mut extensions = Extensions::NONE;
            if let Some(qfi) = qfi {
                let frame = Downlink { qfi, rqi, ..Downlink::default() };
                PduSession::Downlink(frame).emit(&mut content);
                let extension = Extension {
                    extension_type: ExtensionType::PDU_SESSION_CONTAINER,
                    content: &content,
                };
                extensions = Extensions::write(&mut chain, &[extension]).unwrap();
            }
            let mut header = Header::new(MessageType::G_PDU, teid, None);
            (header.extensions, header.payload_len) = (extensions, payload_len);
            let [mut wanted, mut found] = [[0xee; HEADER_LEN]; 2];
            header.emit(&mut wanted);
            emit(&mut found, teid, (qfi, rqi), payload_len);
            prop_assert_eq!(found, wanted);
            prop_assert_eq!(header_len(qfi.is_some()), header.header_len());
        }
    }

    /// Bits of a container that mean nothing, or say that more follows.
    fn qfi_is_spare(bytes: &[u8]) -> bool {
        bytes.len() >= HEADER_LEN && (bytes[13] != UPLINK || bytes[14] > QFI_MAX)
    }

    #[test]
    fn a_message_that_is_cut_is_none() {
        let whole = [
            0x34, 0xff, 0, 9, 0, 0, 0, 5, 0, 0, 0, 0x85, 1, 0x10, 9, 0, 0x45,
        ];
        let plain = Plain::parse(&whole).unwrap();
        assert_eq!(
            (plain.teid, plain.qfi, plain.payload),
            (5, Some(9), &[0x45][..])
        );
        for len in 0..whole.len() {
            assert_eq!(Plain::parse(&whole[..len]), None);
        }
    }
}
