// SPDX-License-Identifier: Apache-2.0
//! The PDU session container: what NG-RAN and UPF say about each user's packet, above all its QoS
//! flow.
//!
//! ```text
//! downlink | 0 | QMP SNP MSNP 0 | PPP RQI QFI | [ PPI ] [ time 8 ] [ sequence 3 ]
//!                                               [ MBS sequence 4 ]
//! uplink   | 1 | QMP DL UL SNP  | N3  NEW QFI | [ 3 times 8 ] [ DL delay 4 ] [ UL delay 4 ]
//!                                               [ sequence 3 ] [ N3/N9 delay 4 ]
//!                                               [ new flags [ D1 delay 4 ] ]
//! ```
//!
//! Specification: TS 38.415 (R17), 5.5.2.1 and 5.5.2.2. It is the content of the extension header
//! `PDU Session Container`, and padded to whole units of it. Times are 64-bit NTP timestamps,
//! delays are milliseconds (5.5.3). What is behind the fields of this release is ignored.

use crate::octets::{Ended, Octets, Pen};
use crate::{Layer, ParseError, Reason};
use core::fmt;

/// Longest content that [`PduSession::emit`] writes, in bytes.
pub const CONTENT_LEN_MAX: usize = 46;

/// Largest QoS flow identifier: it has 6 bits.
pub const QFI_MAX: u8 = 63;

const DL_QMP: u8 = 1 << 3;
const DL_SNP: u8 = 1 << 2;
const DL_MSNP: u8 = 1 << 1;
const DL_PPP: u8 = 1 << 7;
const DL_RQI: u8 = 1 << 6;
const UL_QMP: u8 = 1 << 3;
const UL_DL_DELAY: u8 = 1 << 2;
const UL_UL_DELAY: u8 = 1 << 1;
const UL_SNP: u8 = 1;
const UL_N3_N9_DELAY: u8 = 1 << 7;
const UL_NEW_FLAGS: u8 = 1 << 6;
const NEW_D1_UL_PDCP_DELAY: u8 = 1;

/// A frame of the PDU session user plane protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PduSession {
    /// DL PDU SESSION INFORMATION, from the UPF: PDU type 0.
    Downlink(Downlink),
    /// UL PDU SESSION INFORMATION, from NG-RAN: PDU type 1.
    Uplink(Uplink),
}

/// DL PDU SESSION INFORMATION.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Downlink {
    /// QoS flow identifier, at most [`QFI_MAX`].
    pub qfi: u8,
    /// Reflective QoS indicator.
    pub rqi: bool,
    /// Paging policy indicator, 0 to 7.
    pub ppi: Option<u8>,
    /// DL Sending Time Stamp, which asks for QoS monitoring.
    pub sending_time: Option<u64>,
    /// DL QFI Sequence Number, 24 bits.
    pub sequence: Option<u32>,
    /// DL MBS QFI Sequence Number.
    pub mbs_sequence: Option<u32>,
}

/// UL PDU SESSION INFORMATION.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Uplink {
    /// QoS flow identifier, at most [`QFI_MAX`].
    pub qfi: u8,
    /// Time stamps of QoS monitoring.
    pub times: Option<UplinkTimes>,
    /// DL Delay Result, in milliseconds.
    pub dl_delay: Option<u32>,
    /// UL Delay Result, in milliseconds.
    pub ul_delay: Option<u32>,
    /// UL QFI Sequence Number, 24 bits.
    pub sequence: Option<u32>,
    /// N3/N9 Delay Result, in milliseconds.
    pub n3_n9_delay: Option<u32>,
    /// D1 UL PDCP Delay Result, in tenths of a millisecond.
    pub d1_ul_pdcp_delay: Option<u32>,
}

/// What an uplink frame answers to a time stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct UplinkTimes {
    /// DL Sending Time Stamp Repeated.
    pub dl_sending: u64,
    /// DL Received Time Stamp.
    pub dl_received: u64,
    /// UL Sending Time Stamp.
    pub ul_sending: u64,
}

impl PduSession {
    /// Reads the content of an extension header.
    ///
    /// # Errors
    /// Layer `GtpuExtension`: `Truncated` when the content ends before the fields that its flags
    /// announce; `Unsupported` for PDU types other than 0 and 1.
    #[inline]
    pub fn parse(content: &[u8]) -> Result<Self, ParseError> {
        let mut octets = Octets(content);
        let read = |octets: &mut Octets<'_>| {
            let [first, second] = octets.array()?;
            Ok(match first >> 4 {
                0 => Some(Self::Downlink(Downlink::read(first, second, octets)?)),
                1 => Some(Self::Uplink(Uplink::read(first, second, octets)?)),
                _ => None,
            })
        };
        match read(&mut octets) {
            Ok(Some(session)) => Ok(session),
            Ok(None) => Err(Layer::GtpuExtension.error(Reason::Unsupported)),
            Err(Ended) => Err(Layer::GtpuExtension.error(Reason::Truncated)),
        }
    }

    /// The QoS flow of the packet.
    #[inline]
    pub const fn qfi(&self) -> u8 {
        match self {
            Self::Downlink(frame) => frame.qfi,
            Self::Uplink(frame) => frame.qfi,
        }
    }

    /// How many bytes [`emit`](Self::emit) writes: 2 more than a multiple of four, as the content
    /// of an extension header has.
    pub fn content_len(&self) -> usize {
        let mut pen = Pen::new(&mut []);
        self.write(&mut pen);
        (pen.len() + 2).next_multiple_of(4) - 2
    }

    /// Writes the content of an extension header to the front of `bytes`, padding included. Bits of
    /// a value that its field has no room for are left out.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`content_len`](Self::content_len).
    pub fn emit(&self, bytes: &mut [u8]) {
        let content = &mut bytes[..self.content_len()];
        content.fill(0);
        self.write(&mut Pen::new(content));
    }

    fn write(&self, pen: &mut Pen<'_>) {
        match self {
            Self::Downlink(frame) => frame.write(pen),
            Self::Uplink(frame) => frame.write(pen),
        }
    }
}

/// `flag` where there is a value.
fn flag<T>(flag: u8, value: &Option<T>) -> u8 {
    if value.is_some() { flag } else { 0 }
}

impl Downlink {
    #[inline]
    fn read(first: u8, second: u8, octets: &mut Octets<'_>) -> Result<Self, Ended> {
        Ok(Self {
            qfi: second & QFI_MAX,
            rqi: second & DL_RQI != 0,
            ppi: octets.when(second & DL_PPP != 0, |octets| Ok(octets.u8()? >> 5))?,
            sending_time: octets.when(first & DL_QMP != 0, Octets::u64)?,
            sequence: octets.when(first & DL_SNP != 0, sequence)?,
            mbs_sequence: octets.when(first & DL_MSNP != 0, Octets::u32)?,
        })
    }

    fn write(&self, pen: &mut Pen<'_>) {
        pen.u8(flag(DL_QMP, &self.sending_time)
            | flag(DL_SNP, &self.sequence)
            | flag(DL_MSNP, &self.mbs_sequence));
        let rqi = if self.rqi { DL_RQI } else { 0 };
        pen.u8(flag(DL_PPP, &self.ppi) | rqi | self.qfi & QFI_MAX);
        if let Some(ppi) = self.ppi {
            pen.u8(ppi << 5);
        }
        if let Some(time) = self.sending_time {
            pen.u64(time);
        }
        if let Some(sequence) = self.sequence {
            pen.uint::<3>(sequence.into());
        }
        if let Some(sequence) = self.mbs_sequence {
            pen.u32(sequence);
        }
    }
}

impl Uplink {
    #[inline]
    fn read(first: u8, second: u8, octets: &mut Octets<'_>) -> Result<Self, Ended> {
        let times = octets.when(first & UL_QMP != 0, |octets| {
            Ok(UplinkTimes {
                dl_sending: octets.u64()?,
                dl_received: octets.u64()?,
                ul_sending: octets.u64()?,
            })
        })?;
        let dl_delay = octets.when(first & UL_DL_DELAY != 0, Octets::u32)?;
        let ul_delay = octets.when(first & UL_UL_DELAY != 0, Octets::u32)?;
        let sequence = octets.when(first & UL_SNP != 0, sequence)?;
        let n3_n9_delay = octets.when(second & UL_N3_N9_DELAY != 0, Octets::u32)?;
        let new_flags = octets.when(second & UL_NEW_FLAGS != 0, Octets::u8)?;
        let has_d1 = new_flags.is_some_and(|flags| flags & NEW_D1_UL_PDCP_DELAY != 0);
        Ok(Self {
            qfi: second & QFI_MAX,
            times,
            dl_delay,
            ul_delay,
            sequence,
            n3_n9_delay,
            d1_ul_pdcp_delay: octets.when(has_d1, Octets::u32)?,
        })
    }

    fn write(&self, pen: &mut Pen<'_>) {
        pen.u8(1 << 4
            | flag(UL_QMP, &self.times)
            | flag(UL_DL_DELAY, &self.dl_delay)
            | flag(UL_UL_DELAY, &self.ul_delay)
            | flag(UL_SNP, &self.sequence));
        pen.u8(flag(UL_N3_N9_DELAY, &self.n3_n9_delay)
            | flag(UL_NEW_FLAGS, &self.d1_ul_pdcp_delay)
            | self.qfi & QFI_MAX);
        if let Some(times) = self.times {
            pen.u64(times.dl_sending);
            pen.u64(times.dl_received);
            pen.u64(times.ul_sending);
        }
        for delay in [self.dl_delay, self.ul_delay].into_iter().flatten() {
            pen.u32(delay);
        }
        if let Some(sequence) = self.sequence {
            pen.uint::<3>(sequence.into());
        }
        if let Some(delay) = self.n3_n9_delay {
            pen.u32(delay);
        }
        if let Some(delay) = self.d1_ul_pdcp_delay {
            pen.u8(NEW_D1_UL_PDCP_DELAY);
            pen.u32(delay);
        }
    }
}

/// A sequence number of 24 bits.
#[inline]
fn sequence(octets: &mut Octets<'_>) -> Result<u32, Ended> {
    octets.uint::<3>().map(|value| value as u32)
}

impl fmt::Display for PduSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Downlink(frame) => {
                write!(f, "dl qfi {}", frame.qfi)?;
                if frame.rqi {
                    f.write_str(" rqi")?;
                }
                show(f, "ppi", frame.ppi)?;
                show(f, "time", frame.sending_time)?;
                show(f, "seq", frame.sequence)?;
                show(f, "mbs seq", frame.mbs_sequence)
            }
            Self::Uplink(frame) => {
                write!(f, "ul qfi {}", frame.qfi)?;
                show(f, "time", frame.times.map(|times| times.ul_sending))?;
                show(f, "dl delay", frame.dl_delay)?;
                show(f, "ul delay", frame.ul_delay)?;
                show(f, "seq", frame.sequence)?;
                show(f, "n3/n9 delay", frame.n3_n9_delay)?;
                show(f, "d1 delay", frame.d1_ul_pdcp_delay)
            }
        }
    }
}

fn show(f: &mut fmt::Formatter<'_>, name: &str, value: Option<impl fmt::Display>) -> fmt::Result {
    value.map_or(Ok(()), |value| write!(f, " {name} {value}"))
}
