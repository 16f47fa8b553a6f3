// SPDX-License-Identifier: Apache-2.0
//! Information elements: what GTP-U's signalling messages carry behind their header.
//!
//! ```text
//! type < 128 | type | value of a length that the type says      |
//! else       | type | length | value ...                        |
//! ```
//!
//! Specification: TS 29.281 (R17), 8. The length has two bytes, in an extension header type list
//! one. An element of an unknown type below 128 ends the walk, since nobody knows how long it is.

use super::fields;
use crate::octets::{Ended, Octets, Pen};
use crate::{Layer, ParseError, Reason};
use core::{fmt, net::IpAddr};

const RECOVERY: u8 = 14;
const TEID_DATA_I: u8 = 16;
const PEER_ADDRESS: u8 = 133;
const EXTENSION_HEADER_TYPE_LIST: u8 = 141;
const TUNNEL_STATUS_INFORMATION: u8 = 230;
const RECOVERY_TIME_STAMP: u8 = 231;
const PRIVATE_EXTENSION: u8 = 255;
/// Types from here on have a length.
const WITH_LENGTH: u8 = 128;

/// One information element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element<'a> {
    /// Recovery: a restart counter, 0 on GTP-U and ignored by its receiver.
    Recovery(u8),
    /// Tunnel Endpoint Identifier Data I: which tunnel was unknown.
    TeidDataI(u32),
    /// GTP-U Peer Address: to which address the unknown tunnel was addressed.
    PeerAddress(IpAddr),
    /// Extension Header Type List: the types that the sender understands.
    ExtensionHeaderTypes(&'a [u8]),
    /// GTP-U Tunnel Status Information. True for SPOC: charging pauses.
    TunnelStatus(bool),
    /// Recovery Time Stamp: when the sender started, in seconds since 1900.
    RecoveryTimeStamp(u32),
    /// Private Extension of a vendor.
    Private {
        /// The vendor's enterprise number.
        identifier: u16,
        /// What only the vendor knows.
        value: &'a [u8],
    },
    /// Of a type that this release does not know.
    Unknown {
        /// The type, 128 or more.
        element_type: u8,
        /// The value.
        value: &'a [u8],
    },
}

/// The information elements of a message, in the order of the message.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// The elements in the payload of a signalling message.
    pub const fn new(payload: &'a [u8]) -> Self {
        Self(payload)
    }

    /// The elements that the message must have, whatever their order: which tunnel and peer an
    /// Error Indication is about.
    ///
    /// # Errors
    /// Layer `GtpuElement`: those of the elements; `BadLength` when one of the two is missing.
    pub fn error_indication(self) -> Result<(u32, IpAddr), ParseError> {
        let (mut teid, mut address) = (None, None);
        for element in self {
            match element? {
                Element::TeidDataI(value) => teid = teid.or(Some(value)),
                Element::PeerAddress(value) => address = address.or(Some(value)),
                _ => {}
            }
        }
        teid.zip(address)
            .ok_or(Layer::GtpuElement.error(Reason::BadLength))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Element<'a>, ParseError>;

    /// The next element. After an error there are none.
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let mut octets = Octets(self.0);
        let element = read(&mut octets);
        self.0 = if element.is_ok() { octets.0 } else { &[] };
        Some(element)
    }
}

fn read<'a>(octets: &mut Octets<'a>) -> Result<Element<'a>, ParseError> {
    let error = |reason| Layer::GtpuElement.error(reason);
    let cut = |Ended| error(Reason::Truncated);
    let element_type = octets.u8().map_err(cut)?;
    match element_type {
        RECOVERY => return Ok(Element::Recovery(octets.u8().map_err(cut)?)),
        TEID_DATA_I => return Ok(Element::TeidDataI(octets.u32().map_err(cut)?)),
        0..WITH_LENGTH => return Err(error(Reason::Unsupported)),
        _ => {}
    }
    let len = match element_type {
        EXTENSION_HEADER_TYPE_LIST => octets.u8().map_err(cut)?.into(),
        _ => octets.u16().map_err(cut)?,
    };
    let value = octets.take(len.into()).map_err(cut)?;
    let layer = Layer::GtpuElement;
    Ok(match element_type {
        PEER_ADDRESS => Element::PeerAddress(match value.len() {
            4 => fields(value, layer, |octets| octets.array::<4>())?.into(),
            16 => fields(value, layer, |octets| octets.array::<16>())?.into(),
            _ => return Err(error(Reason::BadLength)),
        }),
        EXTENSION_HEADER_TYPE_LIST => Element::ExtensionHeaderTypes(value),
        TUNNEL_STATUS_INFORMATION => {
            Element::TunnelStatus(fields(value, layer, |octets| octets.u8())? & 1 != 0)
        }
        RECOVERY_TIME_STAMP => {
            Element::RecoveryTimeStamp(fields(value, layer, |octets| octets.u32())?)
        }
        PRIVATE_EXTENSION => fields(value, layer, |octets| {
            Ok(Element::Private {
                identifier: octets.u16()?,
                value: octets.rest(),
            })
        })?,
        _ => Element::Unknown {
            element_type,
            value,
        },
    })
}

impl Element<'_> {
    /// How many bytes [`emit`](Self::emit) writes.
    pub fn len(&self) -> usize {
        let mut pen = Pen::new(&mut []);
        self.write(&mut pen);
        pen.len()
    }

    /// Never: an element has a type at least.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the element to the front of `bytes`. Values are cut to what their length can say: 255
    /// types in a list, 65535 bytes else.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`len`](Self::len).
    pub fn emit(&self, bytes: &mut [u8]) {
        let mut pen = Pen::new(bytes);
        self.write(&mut pen);
        assert!(pen.is_whole(), "an element needs {} bytes", pen.len());
    }

    fn write(&self, pen: &mut Pen<'_>) {
        match *self {
            Self::Recovery(counter) => pen.put(&[RECOVERY, counter]),
            Self::TeidDataI(teid) => {
                pen.u8(TEID_DATA_I);
                pen.u32(teid);
            }
            Self::PeerAddress(address) => {
                pen.u8(PEER_ADDRESS);
                match address {
                    IpAddr::V4(address) => pen.counted_u16(&address.octets()),
                    IpAddr::V6(address) => pen.counted_u16(&address.octets()),
                }
            }
            Self::ExtensionHeaderTypes(types) => {
                pen.u8(EXTENSION_HEADER_TYPE_LIST);
                pen.counted_u8(types);
            }
            Self::TunnelStatus(pauses) => {
                pen.put(&[TUNNEL_STATUS_INFORMATION, 0, 1, u8::from(pauses)]);
            }
            Self::RecoveryTimeStamp(time) => {
                pen.put(&[RECOVERY_TIME_STAMP, 0, 4]);
                pen.u32(time);
            }
            Self::Private { identifier, value } => {
                let value = &value[..value.len().min(usize::from(u16::MAX) - 2)];
                pen.u8(PRIVATE_EXTENSION);
                pen.u16(value.len() as u16 + 2);
                pen.u16(identifier);
                pen.put(value);
            }
            Self::Unknown {
                element_type,
                value,
            } => {
                pen.u8(element_type);
                pen.counted_u16(value);
            }
        }
    }
}

impl fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recovery(counter) => write!(f, "Recovery: {counter}"),
            Self::TeidDataI(teid) => write!(f, "Tunnel Endpoint Identifier Data I: 0x{teid:08x}"),
            Self::PeerAddress(address) => write!(f, "GTP-U Peer Address: {address}"),
            Self::ExtensionHeaderTypes(types) => {
                write!(f, "Extension Header Type List: {types:02x?}")
            }
            Self::TunnelStatus(pauses) => {
                write!(
                    f,
                    "GTP-U Tunnel Status Information: SPOC {}",
                    u8::from(*pauses)
                )
            }
            Self::RecoveryTimeStamp(time) => write!(f, "Recovery Time Stamp: {time}"),
            Self::Private { identifier, value } => {
                write!(f, "Private Extension: {identifier} {} bytes", value.len())
            }
            Self::Unknown {
                element_type,
                value,
            } => write!(f, "element {element_type}: {} bytes", value.len()),
        }
    }
}
