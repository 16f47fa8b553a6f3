//! The `ports` and `nfs` sections: from tree to drafts, which links then join.

use super::config::Subject;
use super::cores::Available;
use super::fields::{check_name, choice, core, entry, known_keys, map, name, suggestion};
use super::run::MODES;
use super::sharding::{ShardsDraft, shards};
use crate::chain::diagnostic::{Position, Report};
use crate::chain::model::{Mode, OnDeath, Run, WrapSpec};
use crate::chain::parse::{Entry, Tree, Value};
use crate::chain::registry::Registry;
use crate::config::PortSide;
use crate::nf::{NfKind, NfPlan};
use crate::port::{PortKind, PortRole};

pub(crate) const ON_DEATHS: &[&str] = &["hold", "bypass", "drop"];
/// Keys of every node that are not its kind's.
const PLACE_KEYS: &[&str] = &["mode", "core", "netns", "group", "on_death"];
/// The key of an NF that says how it is sharded, and that of a port.
const SHARDS: &str = "shards";
const QUEUES: &str = "queues";
/// Group of nodes that name none.
pub(crate) const GROUP: &str = "default";

/// A node as the file describes it, before it is known which links it has.
#[derive(Debug)]
pub(super) struct Draft<'t> {
    pub(super) name: &'t str,
    pub(super) at: Position,
    pub(super) mode: Mode,
    /// The core, and where the file says so.
    pub(super) core: Option<(usize, Position)>,
    /// The network namespace, and where the file says so.
    pub(super) netns: Option<(String, Position)>,
    pub(super) group: String,
    pub(super) on_death: OnDeath,
    /// Where the file says that it is bypassed when it dies.
    pub(super) bypass_at: Option<Position>,
    /// How it is sharded, if the file says so and says it well.
    pub(super) shards: Option<ShardsDraft>,
    pub(super) part: Part,
}

/// The nodes that links may join.
pub(super) type Drafts<'a> = &'a [Draft<'a>];

/// What a node is; the kind is missing if it is unknown.
#[derive(Debug)]
pub(super) enum Part {
    Port {
        kind: Option<&'static PortKind>,
        config: serde_json::Value,
        role: Option<PortRole>,
        wraps: Vec<WrapSpec>,
    },
    Nf {
        kind: Option<&'static NfKind>,
        kind_at: Position,
        config: Tree,
        /// What it is planned as, once its configuration is right.
        plan: Option<Box<NfPlan>>,
    },
}

impl Draft<'_> {
    /// Names of its outputs, if they are known. A port has one.
    pub(super) fn outputs(&self) -> Option<Vec<&str>> {
        match &self.part {
            Part::Port { .. } => Some(vec!["out"]),
            Part::Nf { plan, .. } => {
                let plan = plan.as_ref()?;
                Some(plan.outputs.iter().map(String::as_str).collect())
            }
        }
    }

    /// Whether packets that reach it end there.
    pub(super) fn ends_paths(&self) -> bool {
        match &self.part {
            Part::Port { .. } => true,
            Part::Nf { plan, .. } => plan.as_ref().is_some_and(|plan| plan.ends_paths()),
        }
    }

    pub(super) fn is_port(&self) -> bool {
        matches!(self.part, Part::Port { .. })
    }

    /// Plans an NF; `links` are the names of the outputs that its links leave by.
    pub(super) fn plan(&mut self, report: &mut Report<'_>, links: &[PortSide]) {
        let Part::Nf {
            kind: Some(kind),
            kind_at,
            config,
            plan,
        } = &mut self.part
        else {
            return;
        };
        let subject = Subject {
            kind: kind.name,
            schema: kind.schema,
            at: *kind_at,
            tree: config,
        };
        match (kind.plan)(&config.to_json(), links) {
            Ok(planned) => match planned.check() {
                Ok(()) => *plan = Some(Box::new(planned)),
                Err(fault) => report.error(
                    *kind_at,
                    format!(
                        "{} is planned as {} cannot be: {fault}",
                        self.name, kind.name
                    ),
                    "split it into several, or mend the NF",
                ),
            },
            Err(errors) => subject.report(report, errors),
        }
        self.check_bypass(report);
    }

    /// What packets end at cannot be bypassed.
    fn check_bypass(&self, report: &mut Report<'_>) {
        if let (Some(at), true) = (self.bypass_at, self.ends_paths()) {
            let noun = if self.is_port() { "port " } else { "" };
            report.error(
                at,
                format!("{noun}{} cannot be bypassed: packets end there", self.name),
                "write hold or drop",
            );
        }
    }
}

/// Reads both sections; `run` gives the default mode.
pub(super) fn nodes<'t>(
    report: &mut Report<'_>,
    sections: (Option<&'t Entry>, Option<&'t Entry>),
    registry: &Registry,
    run: &Run,
    available: Available<'_>,
) -> Vec<Draft<'t>> {
    let reader = Reader {
        registry,
        run,
        available,
    };
    let mut drafts: Vec<Draft<'t>> = Vec::new();
    let (ports, nfs) = sections;
    for (section, is_port) in [(ports, true), (nfs, false)] {
        let Some(section) = section else { continue };
        for entry in map(report, &section.tree, &section.key).unwrap_or_default() {
            let noun = if is_port { "a port" } else { "an NF" };
            check_name(report, entry.at, noun, &entry.key);
            if let Some(other) = drafts.iter().find(|draft| draft.name == entry.key) {
                report.error(
                    entry.at,
                    format!(
                        "\"{}\" is the name of a port on line {} and of an NF",
                        entry.key, other.at.line
                    ),
                    "rename one of the two",
                );
                continue;
            }
            drafts.push(reader.node(report, entry, is_port));
        }
    }
    drafts
}

struct Reader<'a> {
    registry: &'a Registry,
    run: &'a Run,
    available: Available<'a>,
}

impl Reader<'_> {
    fn node<'t>(&self, report: &mut Report<'_>, node: &'t Entry, is_port: bool) -> Draft<'t> {
        let entries = map(report, &node.tree, &node.key).unwrap_or_default();
        let mut draft = Draft {
            name: &node.key,
            at: node.at,
            mode: self.run.mode,
            core: None,
            netns: None,
            group: GROUP.to_owned(),
            on_death: OnDeath::default(),
            bypass_at: None,
            shards: None,
            part: if is_port {
                self.port(report, node, entries)
            } else {
                self.nf(report, node, entries)
            },
        };
        self.place(report, entries, &mut draft);
        let key = if is_port { QUEUES } else { SHARDS };
        draft.shards = entry(entries, key).and_then(|entry| shards(report, entry));
        draft
    }

    /// Keys that say where a node runs.
    fn place(&self, report: &mut Report<'_>, entries: &[Entry], draft: &mut Draft<'_>) {
        if let Some(entry) = entry(entries, "mode") {
            draft.mode = choice(report, entry, MODES).unwrap_or(self.run.mode);
        }
        if let Some(entry) = entry(entries, "core") {
            let core = core(report, &entry.tree, self.available);
            draft.core = core.map(|core| (core, entry.tree.at));
            let cores = &self.run.cores;
            if let Some(core) = core.filter(|core| !cores.is_empty() && !cores.contains(core)) {
                report.error(
                    entry.tree.at,
                    format!("core {core} is not among run.cores"),
                    "add it there, or use one of them",
                );
            }
        }
        if let Some(entry) = entry(entries, "netns") {
            let netns = name(report, &entry.tree, "a network namespace");
            draft.netns = netns.map(|netns| (netns, entry.tree.at));
            if draft.mode == Mode::Container {
                report.error(
                    entry.tree.at,
                    format!("{} has the network namespace of its container", draft.name),
                    "remove netns, or write mode: process",
                );
            }
        }
        if let Some(entry) = entry(entries, "group") {
            let group = name(report, &entry.tree, "a group");
            draft.group = group.unwrap_or_else(|| GROUP.to_owned());
        }
        if let Some(entry) = entry(entries, "on_death") {
            draft.on_death = choice(report, entry, ON_DEATHS).unwrap_or_default();
            draft.bypass_at = (draft.on_death == OnDeath::Bypass).then_some(entry.tree.at);
            // An NF says so in its plan, which is not made yet.
            if draft.is_port() {
                draft.check_bypass(report);
            }
        }
    }

    fn nf(&self, report: &mut Report<'_>, node: &Entry, entries: &[Entry]) -> Part {
        let known: Vec<&str> = self.registry.nfs.iter().map(|kind| kind.name).collect();
        let (kind, kind_at) = match entry(entries, "type") {
            Some(entry) => {
                let kind = type_name(&entry.tree).and_then(|name| self.registry.nf(name));
                if kind.is_none() {
                    let found = entry.tree.shown();
                    report.error(
                        entry.tree.at,
                        format!("there is no NF type \"{found}\""),
                        suggestion(&found, &known),
                    );
                }
                (kind, entry.tree.at)
            }
            None => {
                let like = match &node.tree.value {
                    Value::Text(word) => word,
                    _ => &node.key,
                };
                let like = self.registry.nf(like).map_or("macswap", |kind| kind.name);
                if matches!(node.tree.value, Value::Map(_) | Value::Null) {
                    report.error(
                        node.at,
                        format!("NF {} has no type", node.key),
                        format!("add one, like type: {like}"),
                    );
                }
                (None, node.at)
            }
        };
        let is_config = |entry: &&Entry| {
            !PLACE_KEYS.contains(&&*entry.key) && !["type", SHARDS].contains(&&*entry.key)
        };
        let config = Tree {
            at: node.tree.at,
            value: Value::Map(entries.iter().filter(is_config).cloned().collect()),
        };
        Part::Nf {
            kind,
            kind_at,
            config,
            plan: None,
        }
    }

    fn port(&self, report: &mut Report<'_>, node: &Entry, entries: &[Entry]) -> Part {
        let is_kind = |entry: &&Entry| {
            !PLACE_KEYS.contains(&&*entry.key) && !["wrap", QUEUES].contains(&&*entry.key)
        };
        let mut kinds = entries.iter().filter(is_kind);
        let known: Vec<&str> = self.registry.ports.iter().map(|kind| kind.name).collect();
        let first = kinds.next();
        if first.is_none() && matches!(node.tree.value, Value::Map(_) | Value::Null) {
            report.error(
                node.at,
                format!("port {} has no type", node.key),
                format!("add one of {}, as a key", known.join(", ")),
            );
        }
        // With two keys, the one that is no port type is more likely the mistake.
        let others: Vec<&Entry> = first.into_iter().chain(kinds).collect();
        let chosen = others
            .iter()
            .position(|entry| self.registry.port(&entry.key).is_some())
            .unwrap_or(0);
        for (index, entry) in others.iter().enumerate() {
            if index != chosen {
                self.extra_port_key(report, node, entry);
            }
        }
        let mut part = Part::Port {
            kind: None,
            config: serde_json::Value::Null,
            role: None,
            wraps: self.wraps(report, entries),
        };
        if let Some(entry) = others.get(chosen) {
            self.port_kind(report, entry, &known, &mut part);
        }
        part
    }

    fn extra_port_key(&self, report: &mut Report<'_>, node: &Entry, entry: &Entry) {
        if self.registry.port(&entry.key).is_some() {
            report.error(
                entry.at,
                format!("port {} has a second type, {}", node.key, entry.key),
                "make two ports of it",
            );
        } else {
            let mut keys = vec!["wrap", QUEUES];
            keys.extend(PLACE_KEYS);
            report.error(
                entry.at,
                format!("unknown key \"{}\" in port {}", entry.key, node.key),
                suggestion(&entry.key, &keys),
            );
        }
    }

    fn port_kind(&self, report: &mut Report<'_>, entry: &Entry, known: &[&str], part: &mut Part) {
        let Part::Port {
            kind, config, role, ..
        } = part
        else {
            return;
        };
        let Some(found) = self.registry.port(&entry.key) else {
            let message = format!("there is no port type \"{}\"", entry.key);
            let mut keys = known.to_vec();
            keys.extend(PLACE_KEYS);
            keys.extend(["wrap", QUEUES]);
            let near = suggestion(&entry.key, &keys);
            let repair = match near.starts_with("write one of") {
                true => suggestion(&entry.key, known),
                false => near,
            };
            return report.error(entry.at, message, repair);
        };
        *kind = Some(found);
        *config = json_object(&entry.tree);
        match (found.check)(config) {
            Ok(found) => *role = Some(found),
            Err(errors) => Subject {
                kind: found.name,
                schema: found.schema,
                at: entry.at,
                tree: &entry.tree,
            }
            .report(report, errors),
        }
    }

    fn wraps(&self, report: &mut Report<'_>, entries: &[Entry]) -> Vec<WrapSpec> {
        let Some(entry) = entry(entries, "wrap") else {
            return Vec::new();
        };
        let Value::List(items) = &entry.tree.value else {
            report.error(
                entry.tree.at,
                format!("wrap must be a list, not {}", entry.tree.noun()),
                "write it like [ { trace: {} } ]",
            );
            return Vec::new();
        };
        items
            .iter()
            .filter_map(|item| self.wrap(report, item))
            .collect()
    }

    fn wrap(&self, report: &mut Report<'_>, item: &Tree) -> Option<WrapSpec> {
        let Value::Map(entries) = &item.value else {
            report.error(
                item.at,
                format!("a wrapper must be a map, not {}", item.noun()),
                "write it like { trace: {} }",
            );
            return None;
        };
        let [entry] = entries.as_slice() else {
            report.error(
                item.at,
                "a wrapper must have one key, its type",
                "write each as an item of its own, like { trace: {} }",
            );
            return None;
        };
        let Some(kind) = self.registry.wrap(&entry.key) else {
            let known: Vec<&str> = self.registry.wraps.iter().map(|kind| kind.name).collect();
            report.error(
                entry.at,
                format!("there is no wrapper \"{}\"", entry.key),
                suggestion(&entry.key, &known),
            );
            return None;
        };
        let config = json_object(&entry.tree);
        if let Err(errors) = (kind.check)(&config) {
            let subject = Subject {
                kind: kind.name,
                schema: kind.schema,
                at: entry.at,
                tree: &entry.tree,
            };
            subject.report(report, errors);
        }
        Some(WrapSpec { kind, config })
    }
}

/// A configuration as JSON; nothing at all (`trace:`) is the empty configuration.
fn json_object(tree: &Tree) -> serde_json::Value {
    match tree.value {
        Value::Null => serde_json::json!({}),
        _ => tree.to_json(),
    }
}

fn type_name(tree: &Tree) -> Option<&str> {
    match &tree.value {
        Value::Text(name) => Some(name),
        _ => None,
    }
}

/// Reports unknown keys at the top of the file.
pub(super) fn top_keys(report: &mut Report<'_>, entries: &[Entry], known: &[&str]) {
    known_keys(report, entries, "the chain", known);
}
