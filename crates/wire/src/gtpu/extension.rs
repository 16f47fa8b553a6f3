// SPDX-License-Identifier: Apache-2.0
//! Extension headers of GTP-U: a chain in which each says what the next one is.
//!
//! ```text
//! 0        1                  4n - 1
//! | length | content ...      | next type |      length in units of 4 bytes
//! ```
//!
//! Specification: TS 29.281, 5.2. The two highest bits of a type say who must understand it, so
//! that a header of an unknown type is skipped, left out or refused by rule. A chain has at most
//! [`EXTENSIONS_MAX`] headers here; the specification names no limit, and uses two.

use super::pdu_session::PduSession;
use crate::octets::{Pen, fields};
use crate::{Layer, ParseError, Reason};
use core::fmt;

/// Most extension headers that are walked.
pub const EXTENSIONS_MAX: usize = 16;

/// What an extension header is (TS 29.281, figure 5.2.1-3). Constants have the names of the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExtensionType(pub u8);

/// Who must understand an extension header (TS 29.281, figure 5.2.1-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comprehension {
    /// Nobody; an intermediate node passes it on.
    NotRequired,
    /// Nobody; an intermediate node leaves it out.
    NotRequiredNorForwarded,
    /// The endpoint; an intermediate node passes it on.
    RequiredByEndpoint,
    /// Whoever receives it.
    RequiredByRecipient,
}

/// What the receiver of a message is to its tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The tunnel ends here.
    Endpoint,
    /// The message goes on through another tunnel.
    Intermediate,
}

impl ExtensionType {
    /// No more extension headers.
    pub const NONE: Self = Self(0);
    /// Long PDCP PDU Number, as far as nobody needs to understand it.
    pub const LONG_PDCP_PDU_NUMBER_NOT_REQUIRED: Self = Self(0x03);
    /// Service Class Indicator.
    pub const SERVICE_CLASS_INDICATOR: Self = Self(0x20);
    /// UDP Port.
    pub const UDP_PORT: Self = Self(0x40);
    /// RAN Container.
    pub const RAN_CONTAINER: Self = Self(0x81);
    /// Long PDCP PDU Number.
    pub const LONG_PDCP_PDU_NUMBER: Self = Self(0x82);
    /// Xw RAN Container.
    pub const XW_RAN_CONTAINER: Self = Self(0x83);
    /// NR RAN Container.
    pub const NR_RAN_CONTAINER: Self = Self(0x84);
    /// PDU Session Container.
    pub const PDU_SESSION_CONTAINER: Self = Self(0x85);
    /// PDCP PDU Number.
    pub const PDCP_PDU_NUMBER: Self = Self(0xc0);

    /// Who must understand a header of this type.
    #[inline]
    pub const fn comprehension(self) -> Comprehension {
        match self.0 >> 6 {
            0b00 => Comprehension::NotRequired,
            0b01 => Comprehension::NotRequiredNorForwarded,
            0b10 => Comprehension::RequiredByEndpoint,
            _ => Comprehension::RequiredByRecipient,
        }
    }

    /// Whether `role` may not process a message with a header of this type unless it understands
    /// it. If it does not, it answers with a Supported Extension Headers Notification.
    #[inline]
    pub const fn must_be_understood(self, role: Role) -> bool {
        match self.comprehension() {
            Comprehension::NotRequired | Comprehension::NotRequiredNorForwarded => false,
            Comprehension::RequiredByEndpoint => matches!(role, Role::Endpoint),
            Comprehension::RequiredByRecipient => true,
        }
    }

    /// Whether an intermediate node that does not understand this type passes it on.
    #[inline]
    pub const fn is_forwarded(self) -> bool {
        matches!(
            self.comprehension(),
            Comprehension::NotRequired | Comprehension::RequiredByEndpoint
        )
    }

    /// Name as in the specification, if this is a type of the user plane.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NONE => "No more extension headers",
            Self::SERVICE_CLASS_INDICATOR => "Service Class Indicator",
            Self::UDP_PORT => "UDP Port",
            Self::RAN_CONTAINER => "RAN Container",
            Self::LONG_PDCP_PDU_NUMBER | Self::LONG_PDCP_PDU_NUMBER_NOT_REQUIRED => {
                "Long PDCP PDU Number"
            }
            Self::XW_RAN_CONTAINER => "Xw RAN Container",
            Self::NR_RAN_CONTAINER => "NR RAN Container",
            Self::PDU_SESSION_CONTAINER => "PDU Session Container",
            Self::PDCP_PDU_NUMBER => "PDCP PDU Number",
            _ => return None,
        })
    }
}

/// One extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extension<'a> {
    /// What it is.
    pub extension_type: ExtensionType,
    /// Its content: between the length and the next type, padding included.
    pub content: &'a [u8],
}

/// What an extension header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value<'a> {
    /// A service class (TS 29.281, 5.2.2.3).
    ServiceClassIndicator(u8),
    /// The source port of the G-PDU that an error indication is about (5.2.2.1).
    UdpPort(u16),
    /// A PDCP sequence number (5.2.2.2).
    PdcpPduNumber(u16),
    /// A PDCP sequence number of 18 bits (5.2.2.2A).
    LongPdcpPduNumber(u32),
    /// Frame of the user plane protocol between NG-RAN and UPF (5.2.2.7).
    PduSession(PduSession),
    /// Of another type, or for radio networks: RAN, Xw RAN and NR RAN containers.
    Other(&'a [u8]),
}

impl<'a> Extension<'a> {
    /// What this header says.
    ///
    /// # Errors
    /// Layer `GtpuExtension`: `Truncated` when the content is too short for its type, `Unsupported`
    /// for frames of a PDU session that are neither downlink nor uplink information.
    pub fn value(&self) -> Result<Value<'a>, ParseError> {
        let layer = Layer::GtpuExtension;
        let long = |bytes| fields(bytes, layer, |octets| octets.uint::<3>());
        Ok(match self.extension_type {
            ExtensionType::SERVICE_CLASS_INDICATOR => {
                Value::ServiceClassIndicator(fields(self.content, layer, |octets| octets.u8())?)
            }
            ExtensionType::UDP_PORT => {
                Value::UdpPort(fields(self.content, layer, |octets| octets.u16())?)
            }
            ExtensionType::PDCP_PDU_NUMBER => {
                Value::PdcpPduNumber(fields(self.content, layer, |octets| octets.u16())?)
            }
            ExtensionType::LONG_PDCP_PDU_NUMBER
            | ExtensionType::LONG_PDCP_PDU_NUMBER_NOT_REQUIRED => {
                Value::LongPdcpPduNumber(long(self.content)? as u32 & 0x3_ffff)
            }
            ExtensionType::PDU_SESSION_CONTAINER => {
                Value::PduSession(PduSession::parse(self.content)?)
            }
            _ => Value::Other(self.content),
        })
    }
}

/// A checked chain of extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extensions<'a> {
    first: ExtensionType,
    bytes: &'a [u8],
}

impl<'a> Extensions<'a> {
    /// No extension headers.
    pub const NONE: Self = Self {
        first: ExtensionType::NONE,
        bytes: &[],
    };

    /// Checks the chain at the front of `bytes` whose first header is of the type `first`.
    ///
    /// # Errors
    /// Layer `GtpuExtension`: `BadLength` for a length of zero; `Truncated` when a header reaches
    /// past the end of `bytes`; `TooManyHeaders` for more than [`EXTENSIONS_MAX`].
    #[inline]
    pub fn parse(first: ExtensionType, bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (mut next, mut len, mut count) = (first, 0, 0);
        while next != ExtensionType::NONE {
            if count == EXTENSIONS_MAX {
                return Err(Layer::GtpuExtension.error(Reason::TooManyHeaders));
            }
            let (extension_len, following) = step(&bytes[len..])?;
            len += extension_len;
            next = following;
            count += 1;
        }
        Ok(Self {
            first,
            bytes: &bytes[..len],
        })
    }

    /// A chain that was checked before. If somebody else changed it meanwhile, it ends where it no
    /// longer makes sense.
    pub(super) const fn trusted(first: ExtensionType, bytes: &'a [u8]) -> Self {
        Self { first, bytes }
    }

    /// Writes a chain to the front of `bytes`. Contents are padded with zeros. `None` when there
    /// is no room, when there are more than [`EXTENSIONS_MAX`], or when a content exceeds the 1018
    /// bytes that a length can say.
    pub fn write(bytes: &'a mut [u8], extensions: &[Extension<'_>]) -> Option<Self> {
        if extensions.len() > EXTENSIONS_MAX {
            return None;
        }
        let mut pen = Pen::new(bytes);
        let mut types = extensions.iter().map(|extension| extension.extension_type);
        let following = types.clone().skip(1).chain([ExtensionType::NONE]);
        for (extension, next) in extensions.iter().zip(following) {
            let units = (extension.content.len() + 2).div_ceil(4);
            let padding = units * 4 - 2 - extension.content.len();
            pen.u8(u8::try_from(units).ok()?);
            pen.put(extension.content);
            pen.put(&[0; 3][..padding]);
            pen.u8(next.0);
        }
        let (len, is_whole) = (pen.len(), pen.is_whole());
        is_whole.then_some(Self {
            first: types.next().unwrap_or(ExtensionType::NONE),
            bytes: &bytes[..len],
        })
    }

    /// The type of the first header, which stands in front of the chain.
    #[inline]
    pub const fn first(&self) -> ExtensionType {
        self.first
    }

    /// The headers as they stand.
    #[inline]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Length in bytes, a multiple of four.
    #[inline]
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The first header that `role` must understand and for which `is_understood` says no.
    #[inline]
    pub fn not_understood(
        &self,
        role: Role,
        is_understood: impl Fn(ExtensionType) -> bool,
    ) -> Option<ExtensionType> {
        let mut types = self.into_iter().map(|extension| extension.extension_type);
        types.find(|&kind| kind.must_be_understood(role) && !is_understood(kind))
    }

    /// What the PDU session container says, if there is one; it stands first (TS 29.281, 5.2.1).
    ///
    /// # Errors
    /// Those of [`PduSession::parse`].
    #[inline]
    pub fn pdu_session(&self) -> Result<Option<PduSession>, ParseError> {
        self.into_iter()
            .find(|extension| extension.extension_type == ExtensionType::PDU_SESSION_CONTAINER)
            .map(|extension| PduSession::parse(extension.content))
            .transpose()
    }
}

/// Length of the header at the front of `bytes`, and the type of the next.
#[inline]
fn step(bytes: &[u8]) -> Result<(usize, ExtensionType), ParseError> {
    let error = |reason| Layer::GtpuExtension.error(reason);
    let units = *bytes.first().ok_or(error(Reason::Truncated))?;
    if units == 0 {
        return Err(error(Reason::BadLength));
    }
    let len = usize::from(units) * 4;
    let next = *bytes.get(len - 1).ok_or(error(Reason::Truncated))?;
    Ok((len, ExtensionType(next)))
}

/// The extension headers of a message, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Iter<'a> {
    next: ExtensionType,
    bytes: &'a [u8],
}

impl<'a> Iterator for Iter<'a> {
    type Item = Extension<'a>;

    #[inline]
    fn next(&mut self) -> Option<Extension<'a>> {
        if self.next == ExtensionType::NONE {
            return None;
        }
        let extension_type = self.next;
        // The chain was checked when it was made; this ends one that changed since.
        let (len, next) = step(self.bytes).ok()?;
        let content = &self.bytes[1..len - 1];
        self.bytes = &self.bytes[len..];
        self.next = next;
        Some(Extension {
            extension_type,
            content,
        })
    }
}

impl<'a> IntoIterator for Extensions<'a> {
    type Item = Extension<'a>;
    type IntoIter = Iter<'a>;

    #[inline]
    fn into_iter(self) -> Iter<'a> {
        Iter {
            next: self.first,
            bytes: self.bytes,
        }
    }
}

impl fmt::Debug for ExtensionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ExtensionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "extension 0x{:02x}", self.0),
        }
    }
}

impl fmt::Display for Extension<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value() {
            Ok(Value::PduSession(session)) => session.fmt(f),
            Ok(Value::ServiceClassIndicator(value)) => {
                write!(f, "{}: {value}", self.extension_type)
            }
            Ok(Value::UdpPort(value)) => write!(f, "{}: {value}", self.extension_type),
            Ok(Value::PdcpPduNumber(value)) => write!(f, "{}: {value}", self.extension_type),
            Ok(Value::LongPdcpPduNumber(value)) => write!(f, "{}: {value}", self.extension_type),
            Ok(Value::Other(content)) => {
                write!(f, "{}: {} bytes", self.extension_type, content.len())
            }
            Err(error) => write!(f, "{}: {error}", self.extension_type),
        }
    }
}
