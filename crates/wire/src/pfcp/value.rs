// SPDX-License-Identifier: Apache-2.0
//! Values of information elements: identifiers, numbers and times here, the others by family.
//!
//! A value is faithful: spare bits are dropped, and what the specification calls spare values, for
//! future use, is kept as the number it is. Contradictions and reserved values are refused.

use super::coding::{Fault, Value};
use super::ie_type::IeType;
use crate::octets::{Octets, Pen};
use core::fmt;

pub mod address;
pub mod detection;
pub mod flags;
pub mod forwarding;
pub mod node;
pub mod qos;
#[cfg(test)]
mod tests;
pub mod usage;

macro_rules! numbers {
    ($($read:ident $(, $(#[$doc:meta])* $name:ident)*;)*) => {
        $(impl Value for $read {
            type At<'a> = Self;

            fn read<'a>(octets: &mut Octets<'a>) -> Result<Self::At<'a>, Fault> {
                Ok(octets.$read()?)
            }

            fn write(value: &Self::At<'_>, pen: &mut Pen<'_>) {
                pen.$read(*value);
            }
        }

        $($(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $read);

        impl Value for $name {
            type At<'a> = Self;

            fn read<'a>(octets: &mut Octets<'a>) -> Result<Self::At<'a>, Fault> {
                Ok(Self(octets.$read()?))
            }

            fn write(value: &Self::At<'_>, pen: &mut Pen<'_>) {
                pen.$read(value.0);
            }

            fn show(value: &Self::At<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&value.0, f)
            }
        })*)*
    };
}

numbers! {
    u8,
        /// Buffering action rule (8.2.57).
        BarId,
        /// Session reporting rule (8.2.151).
        SrrId,
        /// Traffic endpoint (8.2.92).
        TrafficEndpointId,
        /// Downlink Data Notification Delay (8.2.28) in units of 50 ms; 0 for none.
        NotificationDelay;
    u16,
        /// Packet detection rule (8.2.36).
        PdrId,
        /// Multi-access rule (8.2.123).
        MarId;
    u32,
        /// Forwarding action rule (8.2.74). The highest bit is set if it is predefined in the UPF.
        FarId,
        /// QoS enforcement rule (8.2.75). The highest bit is set if it is predefined in the UPF.
        QerId,
        /// Usage reporting rule (8.2.54). The highest bit is set if it is predefined in the UPF.
        UrrId,
        /// A duration in seconds.
        Seconds,
        /// A duration in milliseconds.
        Milliseconds,
        /// An instant: seconds since 1900-01-01 00:00 UTC (the first half of RFC 5905's timestamp).
        Time;
}

impl Time {
    /// Seconds between 1900 and 1970.
    pub const UNIX_EPOCH: u32 = 2_208_988_800;

    /// Seconds since 1970, where the era of 1900 goes on until 2036.
    pub const fn since_unix_epoch(self) -> u32 {
        self.0.wrapping_sub(Self::UNIX_EPOCH)
    }

    /// The instant `seconds` after 1970.
    pub const fn from_unix_epoch(seconds: u32) -> Self {
        Self(seconds.wrapping_add(Self::UNIX_EPOCH))
    }
}

/// Octets that mean something only to their users, as names.
#[derive(Clone, Copy, Debug)]
pub struct Bytes;

impl Value for Bytes {
    type At<'a> = &'a [u8];

    fn read<'a>(octets: &mut Octets<'a>) -> Result<Self::At<'a>, Fault> {
        Ok(octets.rest())
    }

    fn write(value: &Self::At<'_>, pen: &mut Pen<'_>) {
        pen.put(value);
    }

    fn show(value: &Self::At<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", value.escape_ascii())
    }
}

/// Shows octets as text in quotes.
pub(crate) struct Quoted<'a>(pub(crate) &'a [u8]);

impl fmt::Debug for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Bytes::show(&self.0, f)
    }
}

/// A domain name as labels, each behind its length (RFC 1035, 3.1), without the zero at the end.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    /// Longest name in octets (RFC 1035, 3.1), without the zero.
    pub const LEN_MAX: usize = 254;

    /// The name of these labels, which a zero may end.
    ///
    /// # Errors
    /// [`Fault::Value`] unless every label has 1 to 63 octets and is whole, and the name is neither
    /// empty nor longer than [`LEN_MAX`](Self::LEN_MAX).
    pub fn new(labels: &'a [u8]) -> Result<Self, Fault> {
        let mut rest = labels;
        while let [len @ 1..=63, tail @ ..] = rest {
            rest = tail.get(usize::from(*len)..).ok_or(Fault::Value)?;
        }
        // A zero ends it behind a label only: one within the last label is the label's.
        let labels = &labels[..labels.len() - rest.len()];
        let is_name = matches!(rest, [] | [0]) && (1..=Self::LEN_MAX).contains(&labels.len());
        is_name.then_some(Self(labels)).ok_or(Fault::Value)
    }

    /// The labels, each behind its length.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The labels one after the other.
    pub fn labels(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut octets = Octets(self.0);
        core::iter::from_fn(move || {
            let len = octets.u8().ok()?;
            octets.take(len.into()).ok()
        })
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, label) in self.labels().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            write!(f, "{dot}{}", label.escape_ascii())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// APN or DNN (8.2.117): labels, as in a [`Name`], or whatever a network uses instead.
#[derive(Clone, Copy, Debug)]
pub struct ApnDnn;

impl Value for ApnDnn {
    type At<'a> = &'a [u8];

    fn read<'a>(octets: &mut Octets<'a>) -> Result<Self::At<'a>, Fault> {
        Ok(octets.rest())
    }

    fn write(value: &Self::At<'_>, pen: &mut Pen<'_>) {
        pen.put(value);
    }

    fn show(value: &Self::At<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Name::new(value) {
            Ok(name) => fmt::Display::fmt(&name, f),
            Err(_) => Bytes::show(value, f),
        }
    }
}

/// The value of Offending IE (8.2.22) is the number of another one.
impl Value for IeType {
    type At<'a> = Self;

    fn read<'a>(octets: &mut Octets<'a>) -> Result<Self::At<'a>, Fault> {
        Ok(Self(octets.u16()?))
    }

    fn write(value: &Self::At<'_>, pen: &mut Pen<'_>) {
        pen.u16(value.0);
    }
}

/// Implements [`Value`] for a type whose values have a `read` and a `write` of their own.
macro_rules! value {
    ($($name:ident $(<$a:lifetime>)?),*) => {
        $(impl $crate::pfcp::coding::Value for value!(@static $name $($a)?) {
            type At<'a> = value!(@at $name $($a)?);

            fn read<'a>(
                octets: &mut $crate::octets::Octets<'a>,
            ) -> Result<Self::At<'a>, $crate::pfcp::coding::Fault> {
                $name::parse(octets)
            }

            fn write(value: &Self::At<'_>, pen: &mut $crate::octets::Pen<'_>) {
                value.emit(pen);
            }
        })*
    };
    (@static $name:ident) => { $name };
    (@static $name:ident $a:lifetime) => { $name<'static> };
    (@at $name:ident) => { $name };
    (@at $name:ident $a:lifetime) => { $name<'a> };
}
pub(crate) use value;
