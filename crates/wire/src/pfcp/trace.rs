// SPDX-License-Identifier: Apache-2.0
//! Messages as a line of text, for traces and test failures: the only place here that formats.

use super::element::{Group, Ie, Ies};
use super::grammar::DEPTH_MAX;
use super::{Header, MessageType, View, key};
use crate::octets::Octets;
use core::fmt;

impl fmt::Debug for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "PFCP message {}", self.0),
        }
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} seq {}", self.message_type, self.sequence)?;
        if let Some(seid) = self.seid {
            write!(f, " seid 0x{seid:016x}")?;
        }
        if let Some(priority) = self.priority {
            write!(f, " priority {priority}")?;
        }
        if self.follow_on {
            f.write_str(" follow-on")?;
        }
        Ok(())
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.header(), self.ies())
    }
}

impl fmt::Display for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        group(f, self.ies(), 0)
    }
}

impl fmt::Display for Ie<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        element(f, self, 0)
    }
}

impl fmt::Debug for Ie<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        element(f, self, 0)
    }
}

fn group(f: &mut fmt::Formatter<'_>, ies: Ies<'_>, depth: usize) -> fmt::Result {
    f.write_str("{")?;
    for (index, ie) in ies.enumerate() {
        f.write_str(if index == 0 { " " } else { ", " })?;
        match ie {
            Ok(ie) => element(f, &ie, depth)?,
            Err(refusal) => write!(f, "<{refusal}>")?,
        }
    }
    f.write_str(" }")
}

fn element(f: &mut fmt::Formatter<'_>, ie: &Ie<'_>, depth: usize) -> fmt::Result {
    write!(f, "{}", ie.ie_type)?;
    if let Some(enterprise) = ie.enterprise {
        write!(f, " of {enterprise}")?;
    }
    if let Some(inner) = ie.group().filter(|_| depth < DEPTH_MAX) {
        f.write_str(" ")?;
        return group(f, inner.ies(), depth + 1);
    }
    f.write_str(": ")?;
    if ie.value.is_empty() {
        return f.write_str("null");
    }
    key::show(ie.ie_type, ie.value, f).unwrap_or_else(|| octets(f, ie.value))
}

/// Hex digits, of the first bytes only.
fn octets(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let mut shown = Octets(bytes);
    for byte in shown.take(bytes.len().min(32)).unwrap_or_default() {
        write!(f, "{byte:02x}")?;
    }
    match shown.0.len() {
        0 => Ok(()),
        more => write!(f, "... {more} more"),
    }
}
