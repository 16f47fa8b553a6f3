//! Which values differ between two chains: what `catena plan` shows beneath each step.
//!
//! Pure. A configuration is gone into as far as both have the same form; elsewhere the whole value
//! is old or new. Lists are compared from both ends, so that one rule more is one value more.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::model::{Chain, Link, Node, NodeKind, Run};

/// A value that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueChange {
    /// Where it stands: `rules[2].action`, or a key of the node, the link or `run`.
    pub setting: String,
    /// What it was; none if nothing was written there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// What it will be; none if nothing will be written there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}

/// Characters of a value that people are shown; JSON has all.
const SHOWN_MAX: usize = 120;

impl fmt::Display for ValueChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (old, new) = (shown(self.old.as_ref()), shown(self.new.as_ref()));
        write!(f, "{}: {old} -> {new}", on_a_line(&self.setting))
    }
}

/// On one line, with escapes where a terminal would be told something.
fn shown(value: Option<&Value>) -> String {
    let text = match value {
        None => return "(not set)".to_owned(),
        Some(Value::String(text)) if is_word(text) => text.clone(),
        Some(value) => value.to_string(),
    };
    on_a_line(&text)
}

fn on_a_line(text: &str) -> String {
    let text: String = text.chars().flat_map(printed).collect();
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

fn is_word(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:%".contains(c);
    !text.is_empty() && text.chars().all(is_plain)
}

/// A character as people may read it: what would tell their terminal something is written out.
pub fn printed(c: char) -> impl Iterator<Item = char> {
    let is_order = c.is_control() || turns_text(c);
    let escaped = is_order.then(|| c.escape_default());
    let plain = (!is_order).then_some(c);
    escaped.into_iter().flatten().chain(plain)
}

/// Characters that have others shown in another order (Unicode Standard Annex 9, section 2).
fn turns_text(c: char) -> bool {
    let marks = ['\u{61c}', '\u{200e}', '\u{200f}'];
    marks.contains(&c)
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
}

/// What differs between two configurations.
pub fn config_changes(old: &Value, new: &Value) -> Vec<ValueChange> {
    let mut changes = Vec::new();
    compare("", Some(old), Some(new), &mut changes);
    changes
}

fn compare(at: &str, old: Option<&Value>, new: Option<&Value>, changes: &mut Vec<ValueChange>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.iter().filter(|(key, _)| !old.contains_key(*key));
            for (key, value) in old {
                compare(&joined(at, key), Some(value), new.get(key), changes);
            }
            for (key, value) in added {
                compare(&joined(at, key), None, Some(value), changes);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => compare_lists(at, old, new, changes),
        _ => changes.push(ValueChange {
            setting: at.to_owned(),
            old: old.cloned(),
            new: new.cloned(),
        }),
    }
}

fn joined(at: &str, key: &str) -> String {
    match at {
        "" => key.to_owned(),
        at => format!("{at}.{key}"),
    }
}

/// What is alike at both ends stays; the rest is compared place by place.
fn compare_lists(at: &str, old: &[Value], new: &[Value], changes: &mut Vec<ValueChange>) {
    let alike = |(a, b): &(&Value, &Value)| a == b;
    let first = old.iter().zip(new).take_while(alike).count();
    let (old, new) = (&old[first..], &new[first..]);
    let last = old.iter().rev().zip(new.iter().rev());
    let last = last.take_while(alike).count();
    let (old, new) = (&old[..old.len() - last], &new[..new.len() - last]);
    for index in 0..old.len().max(new.len()) {
        let path = format!("{at}[{}]", first + index);
        compare(&path, old.get(index), new.get(index), changes);
    }
}

/// Settings with their values, of two sides, as far as they differ.
fn changed<const N: usize>(
    old: [(&str, Option<Value>); N],
    new: [(&str, Option<Value>); N],
) -> Vec<ValueChange> {
    let mut changes = Vec::new();
    for ((setting, old), (_, new)) in old.into_iter().zip(new) {
        compare(setting, old.as_ref(), new.as_ref(), &mut changes);
    }
    changes
}

fn word(value: impl Serialize) -> Option<Value> {
    let value = serde_json::to_value(value).ok()?;
    (!value.is_null()).then_some(value)
}

/// What differs between two ways to run.
pub(super) fn of_run(old: &Run, new: &Run) -> Vec<ValueChange> {
    let settings = |run: &Run| {
        let orphan = match run.orphan_ms {
            0 => json!("stop"),
            ms => json!(format!("{ms}ms")),
        };
        [
            ("mode", word(run.mode)),
            ("wait", word(run.wait)),
            ("burst", word(run.burst)),
            ("cores", word(&run.cores)),
            ("buffers", word(&run.buffers)),
            ("image", word(&run.image)),
            ("orphan", Some(orphan)),
        ]
    };
    changed(settings(old), settings(new))
}

/// What differs between two links of one name.
pub(super) fn of_link(old: &Link, new: &Link) -> Vec<ValueChange> {
    let settings = |link: &Link| {
        [
            ("trust", word(link.trust)),
            ("slots", word(link.slot_count)),
            ("protocol", word(link.protocol)),
            ("overflow", word(link.overflow)),
            ("aggregate", word(link.aggregate)),
            ("output", word(link.output)),
            ("input", word(link.input)),
        ]
    };
    changed(settings(old), settings(new))
}

/// What differs between two nodes of one name.
pub(super) fn of_node(
    (old, old_chain): (&Node, &Chain),
    (new, chain): (&Node, &Chain),
) -> Vec<ValueChange> {
    let mut changes = changed(placed(old, old_chain), placed(new, chain));
    if old.type_name() == new.type_name() && old.is_port() == new.is_port() {
        let (old, new) = (config_of(old), config_of(new));
        changes.extend(config_changes(old, new));
    }
    changes
}

fn config_of(node: &Node) -> &Value {
    match &node.kind {
        NodeKind::Port { config, .. } | NodeKind::Nf { config, .. } => config,
    }
}

/// What a chain says of a node beside its configuration.
fn placed(node: &Node, chain: &Chain) -> [(&'static str, Option<Value>); 12] {
    let (wraps, outputs) = match &node.kind {
        NodeKind::Port { wraps, .. } => {
            let wraps = wraps
                .iter()
                .map(|wrap| json!({wrap.kind.name: wrap.config}));
            (Some(wraps.collect()), None)
        }
        NodeKind::Nf { plan, .. } => (None, word(&plan.outputs)),
    };
    let wraps = wraps.filter(|wraps: &Value| wraps.as_array().is_some_and(|all| !all.is_empty()));
    let shards = node.shard.as_ref().map(|shard| json!(shard.count));
    let image = (node.mode == super::model::Mode::Container).then(|| word(&chain.run.image));
    let folder = node
        .is_port()
        .then(|| json!(chain.dir.display().to_string()));
    [
        ("type", word(node.type_name())),
        ("wrap", wraps),
        ("outputs", outputs),
        (if node.is_port() { "queues" } else { "shards" }, shards),
        ("folder", folder),
        ("mode", word(node.mode)),
        ("buffers", word(&chain.run.buffers)),
        ("netns", word(&node.netns)),
        ("image", image.flatten()),
        ("core", word(node.core)),
        ("group", word(&node.group)),
        ("on_death", word(node.on_death)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown_changes(old: Value, new: Value) -> Vec<String> {
        let changes = config_changes(&old, &new);
        changes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn one_rule_more_is_one_value_more() {
        let rule = |port: u16| json!({"action": "deny", "dst_port": port});
        let old = json!({"default": "deny", "rules": [rule(1), rule(2), rule(3)]});
        let new = json!({"default": "deny", "rules": [rule(1), rule(9), rule(2), rule(3)]});
        let added = r#"rules[1]: (not set) -> {"action":"deny","dst_port":9}"#;
        assert_eq!(shown_changes(old.clone(), new.clone()), [added]);
        let removed = r#"rules[1]: {"action":"deny","dst_port":9} -> (not set)"#;
        assert_eq!(shown_changes(new, old.clone()), [removed]);
        let other = json!({"rules": [rule(1), rule(7), rule(3)], "non_ip": "permit"});
        assert_eq!(
            shown_changes(old, other),
            [
                "default: deny -> (not set)",
                "rules[1].dst_port: 2 -> 7",
                "non_ip: (not set) -> permit"
            ]
        );
    }

    #[test]
    fn a_value_is_shown_on_one_line_and_tells_a_terminal_nothing() {
        let long = "x".repeat(500);
        let shown = shown_changes(json!({"a": "one\u{1b}[31m"}), json!({"a": long}));
        assert_eq!(shown.len(), 1);
        assert!(
            !shown[0].contains('\u{1b}') && shown[0].len() < 200,
            "{}",
            shown[0]
        );
        assert!(shown[0].ends_with("..."), "{}", shown[0]);
        let shown = shown_changes(json!({}), json!({"a\u{1b}[31m\n": {"b": 1}}));
        assert_eq!(shown, [r#"a\u{1b}[31m\n: (not set) -> {"b":1}"#]);
        let empty = shown_changes(json!({"a": ""}), json!({"a": [1]}));
        assert_eq!(empty, ["a: \"\" -> [1]"]);
    }
}
