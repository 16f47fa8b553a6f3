//! The `links` section: from text like `a.red -> b` to pairs of nodes.

use super::fields::{choice, entry, integer, known_keys, suggestion};
use super::nodes::Drafts;
use crate::chain::diagnostic::{Position, Report};
use crate::chain::model::{
    Aggregate, LINK_COUNT_MAX, Overflow, Protocol, SLOT_COUNT, SLOT_COUNT_LIMITS,
    SLOT_COUNT_PACKING, Trust,
};
use crate::chain::parse::{Entry, Tree, Value};
use crate::chain::registry::nearest;

/// Keys of a link that is written as a map.
pub(crate) const LINK_KEYS: &[&str] = &[
    "link",
    "trust",
    "overflow",
    "slots",
    "protocol",
    "aggregate",
];
pub(crate) const TRUSTS: &[&str] = &["shared", "ro", "copy"];
pub(crate) const OVERFLOWS: &[&str] = &["block", "drop_tail", "drop_head"];
pub(crate) const AGGREGATES: &[&str] = &["auto", "off", "on"];
pub(crate) const PROTOCOLS: &[&str] = &["ring", "flag", "tcp"];

/// One side of a link as the file names it.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) node: usize,
    pub(super) at: Position,
}

/// A link between two nodes that exist.
#[derive(Clone, Debug)]
pub(super) struct LinkDraft {
    pub(super) at: Position,
    pub(super) from: End,
    /// Name of the output it leaves by, if the file says so.
    pub(super) output: Option<String>,
    pub(super) to: End,
    pub(super) options: LinkOptions,
}

impl LinkDraft {
    /// Name of the output it leaves by; `out` unless the file says otherwise.
    pub(super) fn output_name(&self) -> &str {
        self.output.as_deref().unwrap_or("out")
    }
}

/// What a link may say beside its two sides, and where.
#[derive(Clone, Debug, Default)]
pub(super) struct LinkOptions {
    pub(super) trust: Option<(Trust, Position)>,
    pub(super) slots: Option<(u32, Position)>,
    pub(super) overflow: Option<(Overflow, Position)>,
    pub(super) protocol: Option<(Protocol, Position)>,
    pub(super) aggregate: Option<(Aggregate, Position)>,
}

impl LinkOptions {
    pub(super) fn slot_count(&self) -> u32 {
        match (self.protocol, self.slots) {
            (Some((Protocol::Flag, _)), _) => 1,
            (Some((Protocol::Tcp, _)), _) => 0,
            (_, Some((slots, _))) => slots,
            _ if matches!(self.aggregate, Some((Aggregate::Off, _))) => SLOT_COUNT,
            _ => SLOT_COUNT_PACKING,
        }
    }

    /// The trust that the file says; what goes over TCP is copied.
    pub(super) fn said_trust(&self) -> Option<Trust> {
        match self.protocol {
            Some((Protocol::Tcp, _)) => Some(Trust::Copy),
            _ => self.trust.map(|(trust, _)| trust),
        }
    }

    /// Where something is said that only a ring can have.
    pub(super) fn ring_only(&self) -> impl Iterator<Item = (&'static str, Position)> {
        let trust = self.trust.map(|(_, at)| ("trust", at));
        let slots = self.slots.map(|(_, at)| ("slots", at));
        let overflow = self.overflow.map(|(_, at)| ("overflow", at));
        let protocol = self.protocol.map(|(_, at)| ("protocol", at));
        let aggregate = self.aggregate.map(|(_, at)| ("aggregate", at));
        [trust, overflow, slots, protocol, aggregate]
            .into_iter()
            .flatten()
    }
}

/// Links whose two sides exist, and which nodes any link means, also a misspelt or half one.
#[derive(Debug, Default)]
pub(super) struct Links {
    pub(super) links: Vec<LinkDraft>,
    /// Per node: whether a link is meant to leave it.
    pub(super) leaves: Vec<bool>,
    /// Per node: whether a link is meant to reach it.
    pub(super) arrives: Vec<bool>,
    /// Whether there are more than a chain may have.
    too_many: bool,
    /// Whether there are so many that some are missing here.
    pub(super) are_missing: bool,
}

/// Links of a file that are looked at, more than a chain may have.
const LINKS_LOOKED_AT_MAX: usize = 2 * LINK_COUNT_MAX;

/// Reads the section.
pub(super) fn links(report: &mut Report<'_>, section: Option<&Entry>, drafts: Drafts<'_>) -> Links {
    let mut reader = Reader {
        drafts,
        link_count: 0,
        found: Links {
            links: Vec::new(),
            leaves: vec![false; drafts.len()],
            arrives: vec![false; drafts.len()],
            too_many: false,
            are_missing: false,
        },
    };
    let Some(section) = section.filter(|section| !section.is_empty()) else {
        reader.means_everything();
        return reader.found;
    };
    if matches!(section.tree.value, Value::Broken) {
        reader.means_everything();
        return reader.found;
    }
    let Value::List(items) = &section.tree.value else {
        report.error(
            section.tree.at,
            format!("links must be a list, not {}", section.tree.noun()),
            "write lines like - in -> out",
        );
        reader.means_everything();
        return reader.found;
    };
    for item in items {
        reader.item(report, item);
        if reader.found.are_missing {
            break;
        }
    }
    reader.found
}

struct Reader<'a> {
    drafts: Drafts<'a>,
    /// Arrows seen so far.
    link_count: usize,
    found: Links,
}

impl Reader<'_> {
    /// Without a list of links, what each node lacks is not worth saying.
    fn means_everything(&mut self) {
        self.found.leaves.fill(true);
        self.found.arrives.fill(true);
    }

    fn item(&mut self, report: &mut Report<'_>, item: &Tree) {
        match &item.value {
            Value::Text(text) => self.path(report, item, text, &LinkOptions::default()),
            Value::Map(entries) => {
                known_keys(report, entries, "a link", LINK_KEYS);
                let options = options(report, entries);
                match entry(entries, "link").map(|entry| (&entry.tree, &entry.tree.value)) {
                    Some((tree, Value::Text(text))) => self.path(report, tree, text, &options),
                    _ => report.error(
                        item.at,
                        "this link does not say what it joins",
                        "add link: a -> b",
                    ),
                }
            }
            // Whatever it joins: that it cannot be read has been said.
            Value::Broken => self.means_everything(),
            _ => report.error(
                item.at,
                format!("a link must be text, not {}", item.noun()),
                "write it like in -> out",
            ),
        }
    }

    /// `a -> b -> c`: a link per arrow.
    fn path(&mut self, report: &mut Report<'_>, tree: &Tree, text: &str, options: &LinkOptions) {
        let start = text_start(report, tree, text);
        let mut offset = 0;
        let mut stops = Vec::new();
        for part in text.split("->") {
            let lead = part.len() - part.trim_start().len();
            let at = start.map_or(tree.at, |start| start.right(offset + lead));
            offset += part.chars().count() + 2;
            stops.push((part.trim(), at));
        }
        if stops.len() < 2 || stops.iter().any(|(name, _)| name.is_empty()) {
            let message = format!("\"{text}\" does not join two nodes");
            return report.error(tree.at, message, "write it like in -> out");
        }
        self.link_count += stops.len() - 1;
        if self.link_count > LINK_COUNT_MAX && !self.found.too_many {
            self.found.too_many = true;
            let message = format!("there are more than {LINK_COUNT_MAX} links");
            report.error(tree.at, message, "split the chain into several");
        }
        if self.link_count > LINKS_LOOKED_AT_MAX {
            self.found.are_missing = true;
            let message =
                format!("links from here on were not looked at: {LINKS_LOOKED_AT_MAX} were");
            return report.error(tree.at, message, "split the chain into several");
        }
        let last = stops.len() - 1;
        let ends: Vec<Option<(End, Option<String>)>> = stops
            .iter()
            .enumerate()
            .map(|(index, &(stop, at))| {
                let side = Side {
                    leaves: index < last,
                    arrives: index > 0,
                };
                self.end(report, stop, at, side)
            })
            .collect();
        for pair in ends.windows(2) {
            if let [Some((from, output)), Some((to, _))] = pair {
                self.found.links.push(LinkDraft {
                    at: from.at,
                    from: from.clone(),
                    output: output.clone(),
                    to: to.clone(),
                    options: options.clone(),
                });
            }
        }
    }

    fn end(
        &mut self,
        report: &mut Report<'_>,
        stop: &str,
        at: Position,
        side: Side,
    ) -> Option<(End, Option<String>)> {
        let (name, output) = match stop.split_once('.') {
            Some((name, output)) => (name.trim_end(), Some(output.trim_start().to_owned())),
            None => (stop, None),
        };
        if !side.leaves && output.is_some() {
            report.error(
                at,
                format!("\"{stop}\" names an output, but a link arrives at a node"),
                format!("write {name}"),
            );
        }
        let names: Vec<&str> = self.drafts.iter().map(|draft| draft.name).collect();
        if let Some(node) = names.iter().position(|known| *known == name) {
            self.mean(node, side);
            return Some((End { node, at }, output));
        }
        let near = nearest(name, names.iter().copied());
        if let Some(node) = names.iter().position(|known| Some(*known) == near) {
            self.mean(node, side);
        }
        report.error(
            at,
            format!("there is no port or NF \"{name}\""),
            suggestion(name, &names),
        );
        None
    }
}

impl Reader<'_> {
    fn mean(&mut self, node: usize, side: Side) {
        self.found.leaves[node] |= side.leaves;
        self.found.arrives[node] |= side.arrives;
    }
}

/// Whether links leave a stop of `a -> b -> c`, and whether they arrive at it.
#[derive(Clone, Copy, Debug)]
struct Side {
    leaves: bool,
    arrives: bool,
}

/// Where the characters of a one-line text value begin, behind its quote if it has one.
fn text_start(report: &Report<'_>, tree: &Tree, text: &str) -> Option<Position> {
    let skipped = (tree.at.column as usize).saturating_sub(1);
    let line = report.line(tree.at)?;
    let rest = &line[line.char_indices().nth(skipped)?.0..];
    if rest.starts_with(text) {
        return Some(tree.at);
    }
    let quoted = rest.strip_prefix(['"', '\''])?;
    quoted.starts_with(text).then(|| tree.at.right(1))
}

fn options(report: &mut Report<'_>, entries: &[Entry]) -> LinkOptions {
    let mut options = LinkOptions::default();
    for entry in entries {
        let at = entry.tree.at;
        match &*entry.key {
            "trust" => options.trust = choice(report, entry, TRUSTS).map(|trust| (trust, at)),
            "overflow" => {
                options.overflow = choice(report, entry, OVERFLOWS).map(|word| (word, at));
            }
            "protocol" => {
                options.protocol = choice(report, entry, PROTOCOLS).map(|word| (word, at));
            }
            "aggregate" => {
                options.aggregate = choice(report, entry, AGGREGATES).map(|word| (word, at));
            }
            "slots" => options.slots = slots(report, &entry.tree).map(|slots| (slots, at)),
            _ => {}
        }
    }
    if let (Some((Protocol::Flag, _)), Some((slots, at))) = (options.protocol, options.slots) {
        report.error(
            at,
            format!("a link of protocol flag has 1 slot, not {slots}"),
            "remove slots, or write protocol: ring",
        );
    }
    if let (Some((Protocol::Flag, _)), Some((Aggregate::On, at))) =
        (options.protocol, options.aggregate)
    {
        report.error(
            at,
            "a link of protocol flag hands over one unit at a time, so it cannot aggregate",
            "remove aggregate, or write protocol: ring",
        );
    }
    if let Some((Protocol::Tcp, _)) = options.protocol {
        not_over_tcp(report, &options);
    }
    options
}

/// What a connection cannot do.
fn not_over_tcp(report: &mut Report<'_>, options: &LinkOptions) {
    if let Some((Trust::Shared | Trust::Ro, at)) = options.trust {
        report.error(
            at,
            "a link of protocol tcp shares no memory: its packets are copied",
            "remove trust, or write protocol: ring",
        );
    }
    if let Some((_, at)) = options.slots {
        report.error(
            at,
            "a link of protocol tcp has no slots: the kernel's socket buffers hold what is on the way",
            "remove slots, or write protocol: ring",
        );
    }
    if let Some((Overflow::DropHead, at)) = options.overflow {
        report.error(
            at,
            "a link of protocol tcp cannot drop its oldest packets: they are with the kernel",
            "write block or drop_tail, or protocol: ring",
        );
    }
    if let Some((Aggregate::On, at)) = options.aggregate {
        report.error(
            at,
            "a link of protocol tcp sends each burst as one stretch of bytes, so it has no bundles",
            "remove aggregate, or write protocol: ring",
        );
    }
}

fn slots(report: &mut Report<'_>, tree: &Tree) -> Option<u32> {
    let (low, high) = SLOT_COUNT_LIMITS;
    let slots = integer(report, tree, "slots", u64::from(low)..=u64::from(high))?;
    let slots = u32::try_from(slots).ok()?;
    if slots.is_power_of_two() {
        return Some(slots);
    }
    let above = slots.next_power_of_two();
    report.error(
        tree.at,
        format!("slots must be a power of two, and {slots} is not"),
        format!("write {} or {above}", above / 2),
    );
    None
}
