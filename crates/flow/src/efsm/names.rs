//! What names of a program mean, and how wide it is.
//!
//! Collected from the document before any expression is lowered: constants, metadata, registers,
//! tables, conditions. Whatever an expression names is looked up here, then among headers.

use std::collections::{BTreeMap, BTreeSet};

use crate::program::header::{Field, Header};
use crate::program::ir::{Fact, FlowRegister, Global, Meter, Slot, Width};
use crate::program::table::TableShape;
use crate::program::template::Template;
use crate::program::{field, header};

use super::expression::Node;

/// What the whole program has names for.
#[derive(Debug, Default)]
pub(super) struct ProgramNames {
    pub(super) constants: BTreeMap<String, Node>,
    pub(super) metadata: BTreeMap<String, (Slot, Width)>,
    pub(super) globals: Vec<Global>,
    pub(super) tables: Vec<TableShape>,
    pub(super) templates: Vec<Template>,
    pub(super) template_fields: Vec<Vec<String>>,
    pub(super) meters: Vec<Meter>,
    pub(super) outputs: Vec<String>,
    pub(super) reasons: Vec<String>,
    pub(super) events: Vec<String>,
    /// Those of them that tell changes of state.
    pub(super) changes: Vec<u16>,
    pub(super) notes: Vec<String>,
}

/// What an element has names for.
#[derive(Debug, Default)]
pub(super) struct ElementNames {
    pub(super) registers: Vec<FlowRegister>,
    pub(super) conditions: BTreeMap<String, Node>,
    /// Meters: number, first register, whether bytes are what it counts.
    pub(super) meters: BTreeMap<String, (u16, u8, bool)>,
    /// Slot of metadata that says whether a packet's key was swapped.
    pub(super) reversed: Option<Slot>,
    /// Registers that code reads, and that it writes.
    pub(super) read: BTreeSet<String>,
    pub(super) written: BTreeSet<String>,
}

/// What a name is.
#[derive(Clone, Debug)]
pub(super) enum Meaning {
    Field(Field, bool),
    /// A field of IPv4 or of IPv6, in the width of the wider.
    Either([Field; 2], Width),
    Fact(Fact),
    Register(u8, Width),
    Global(u16, Width, u32),
    Metadata(Slot, Width),
    Constant(Node),
    Condition(Node),
}

/// Fields that both versions of IP have: name, IPv4's, IPv6's, width of the value.
const EITHER: [(&str, &str, &str, Width); 6] = [
    ("src", "src", "src", 128),
    ("dst", "dst", "dst", 128),
    ("protocol", "protocol", "next_header", 8),
    ("ttl", "ttl", "hop_limit", 8),
    ("dscp", "dscp", "dscp", 6),
    ("ecn", "ecn", "ecn", 2),
];

/// IPv4 and IPv6 of `ip`, `inner.ip` and `quoted.ip`.
pub(super) fn either_headers(name: &str) -> Option<[Header; 2]> {
    match name {
        "ip" => Some([Header::Ipv4, Header::Ipv6]),
        "inner.ip" => Some([Header::InnerIpv4, Header::InnerIpv6]),
        "quoted.ip" => Some([Header::QuotedIpv4, Header::QuotedIpv6]),
        _ => None,
    }
}

impl ProgramNames {
    /// What a name is to an element; none if it is nothing.
    pub(super) fn meaning(&self, element: &ElementNames, name: &str) -> Option<Meaning> {
        let fact = match name {
            "now" => Some(Fact::Now),
            "packet.len" => Some(Fact::Len),
            "packet.input" => Some(Fact::Input),
            "packet.tag" => Some(Fact::Tag),
            "flow.found" => Some(Fact::Found),
            "flow.full" => Some(Fact::Full),
            _ => None,
        };
        if let Some(fact) = fact {
            return Some(Meaning::Fact(fact));
        }
        if name == "flow.reversed" {
            return element.reversed.map(|slot| Meaning::Metadata(slot, 1));
        }
        if let Some(node) = element.conditions.get(name) {
            return Some(Meaning::Condition(node.clone()));
        }
        if let Some(node) = self.constants.get(name) {
            return Some(Meaning::Constant(node.clone()));
        }
        let (scope, last) = name.rsplit_once('.')?;
        match scope {
            "flow" => {
                let at = element.registers.iter().position(|one| one.name == last)?;
                Some(Meaning::Register(at as u8, element.registers[at].width))
            }
            "global" => {
                let at = self.globals.iter().position(|one| one.name == last)?;
                let global = &self.globals[at];
                Some(Meaning::Global(at as u16, global.width, global.count))
            }
            "meta" => {
                let (slot, width) = *self.metadata.get(last)?;
                Some(Meaning::Metadata(slot, width))
            }
            _ if self.tables.iter().any(|table| table.name == scope) => {
                let (slot, width) = *self.metadata.get(name)?;
                Some(Meaning::Metadata(slot, width))
            }
            _ => header_field(scope, last),
        }
    }

    /// All names that there are, for who misspells one.
    pub(super) fn known(&self, element: &ElementNames) -> Vec<String> {
        let mut known: Vec<String> = ["now", "packet.len", "packet.input", "packet.tag"]
            .iter()
            .chain(&["flow.found", "flow.full"])
            .map(|name| (*name).to_owned())
            .collect();
        known.extend(element.conditions.keys().cloned());
        known.extend(self.constants.keys().cloned());
        known.extend(
            element
                .registers
                .iter()
                .map(|one| format!("flow.{}", one.name)),
        );
        known.extend(
            self.globals
                .iter()
                .map(|one| format!("global.{}", one.name)),
        );
        let scoped = |name: &String| match name.contains('.') {
            true => name.clone(),
            false => format!("meta.{name}"),
        };
        known.extend(self.metadata.keys().map(scoped));
        for header in header::HEADERS {
            let fields = field::fields(header).iter();
            known.extend(fields.map(|field| format!("{}.{}", header.name(), field.name)));
        }
        for scope in ["ip", "inner.ip"] {
            known.extend(EITHER.iter().map(|(name, ..)| format!("{scope}.{name}")));
        }
        known
    }
}

fn header_field(scope: &str, last: &str) -> Option<Meaning> {
    if let Some([v4, v6]) = either_headers(scope) {
        let (_, of_v4, of_v6, width) = EITHER.into_iter().find(|(name, ..)| *name == last)?;
        let fields = [field::named(v4, of_v4)?.0, field::named(v6, of_v6)?.0];
        return Some(Meaning::Either(fields, width));
    }
    let (field, is_writable) = field::named(Header::named(scope)?, last)?;
    Some(Meaning::Field(field, is_writable))
}
