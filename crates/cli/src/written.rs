//! A chain file's text with other settings of some of its NFs: what `catena export` prints.
//!
//! An NF that stands on lines of its own, as block or in braces, is written anew there, and every
//! other line stays as it is. Where the text is of another form (the whole section in braces,
//! settings by way of anchors), the document is written anew as a whole, without comments. Either
//! way the result is read again, and must say what was meant.

use catena_engine::chain::FILE_BYTES_MAX;
use catena_engine::chain::document::Located;
use serde_json::{Map, Value};

/// `text` with these nodes of its section `nfs`: names, settings as they were written and as they
/// are to be.
///
/// # Errors
/// Why no chain file says that, for people.
pub(crate) fn with_nodes(text: &str, nodes: &[(&str, &Value, &Value)]) -> Result<String, String> {
    if nodes.is_empty() {
        return Ok(text.to_owned());
    }
    let mut meant = read(text)?;
    let mut changed = text.to_owned();
    for (name, written, runs) in nodes {
        let node = meant["nfs"][*name].as_object_mut();
        let node = node.ok_or_else(|| format!("the chain's file has no node {name}"))?;
        for key in written.as_object().into_iter().flat_map(Map::keys) {
            node.remove(key);
        }
        node.extend(runs.as_object().cloned().unwrap_or_default());
        if let Some(other) = replaced(&changed, name, node) {
            changed = other;
        }
    }
    let is_right = |text: &str| read(text).is_ok_and(|said| said == meant);
    if !is_right(&changed) {
        changed.clear();
        block(&mut changed, 0, &meant);
    }
    match changed.len() {
        _ if !is_right(&changed) => Err("its settings cannot be written as YAML".to_owned()),
        bytes if bytes > FILE_BYTES_MAX => Err(format!(
            "the chain file would have {bytes} bytes, and {FILE_BYTES_MAX} is the limit"
        )),
        _ => Ok(changed),
    }
}

fn read(text: &str) -> Result<Value, String> {
    let read = Located::parse("chain", text).map_err(|errors| errors.to_string())?;
    Ok(read.json())
}

/// `text` with the lines of node `name` written anew, if it stands on lines of its own.
fn replaced(text: &str, name: &str, node: &Map<String, Value>) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let section = lines.iter().position(|line| line.trim_end() == "nfs:")?;
    let is_text = |line: &str| !matches!(line.trim_start().chars().next(), None | Some('#'));
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let mut at = section + 1;
    while !is_text(lines.get(at)?) {
        at += 1;
    }
    let depth = indent(lines[at]);
    let begins = |line: &&str| {
        let line = line.trim_start();
        let quoted = [name.to_owned(), format!("\"{name}\""), format!("'{name}'")];
        quoted.iter().any(|key| {
            line.strip_prefix(&**key)
                .is_some_and(|rest| rest.starts_with(':'))
        })
    };
    let in_section = |line: &&&str| !is_text(line) || indent(line) >= depth.max(1);
    let here = lines[at..].iter().take_while(in_section);
    let first = here
        .enumerate()
        .find(|(_, line)| is_text(line) && indent(line) == depth && begins(line))
        .map(|(offset, _)| at + offset)?;
    let rest = lines[first + 1..].iter();
    let mut end = first
        + 1
        + rest
            .take_while(|line| !is_text(line) || indent(line) > depth)
            .count();
    // Comments above what follows are that one's.
    while end > first + 1 && !is_text(lines[end - 1]) {
        end -= 1;
    }
    let mut written = lines[..first].concat();
    written += &format!("{}{}:\n", " ".repeat(depth), key_text(name));
    map(&mut written, depth + 2, node);
    written += &lines[end..].concat();
    Some(written)
}

fn block(out: &mut String, depth: usize, value: &Value) {
    if let Value::Object(entries) = value {
        map(out, depth, entries);
    }
}

/// A map, a line for each of its scalars, and for each item of its lists.
fn map(out: &mut String, depth: usize, entries: &Map<String, Value>) {
    let margin = " ".repeat(depth);
    let first = ["name", "type"].map(|key| entries.get_key_value(key));
    let rest = entries
        .iter()
        .filter(|(key, _)| !["name", "type"].contains(&key.as_str()));
    for (key, value) in first.into_iter().flatten().chain(rest) {
        let key = key_text(key);
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                *out += &format!("{margin}{key}:\n");
                map(out, depth + 2, inner);
            }
            Value::Array(items) if !items.is_empty() => {
                *out += &format!("{margin}{key}:\n");
                for item in items {
                    *out += &format!("{margin}  - {item}\n");
                }
            }
            // JSON is YAML.
            value => *out += &format!("{margin}{key}: {value}\n"),
        }
    }
}

/// A key as it is, if it can be taken for nothing else.
fn key_text(key: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_plain = key.starts_with(|c: char| c.is_ascii_alphabetic()) && key.chars().all(is_word);
    match is_plain && !["null", "true", "false", "y", "n"].contains(&key) {
        true => key.to_owned(),
        false => Value::from(key).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = "\
# Mine.
name: x
ports:
  in: { tap: {} } # tap
nfs:
  # The edge.
  edge:
    type: acl   # permits
    mode: thread
    rules:
      - { action: deny, dst_port: 22 }

  # Counts.
  all: { type: count }
links:
  - in -> edge -> all -> in
";

    fn rules(port: u16) -> Value {
        json!({"rules": [{"action": "deny", "dst_port": port}], "default": "permit"})
    }

    #[test]
    fn only_what_has_changed_is_written_anew() {
        let written = json!({"rules": [{"action": "deny", "dst_port": 22}]});
        let exported = with_nodes(FILE, &[("edge", &written, &rules(80))]).unwrap();
        let edge = "  edge:
    type: \"acl\"
    default: \"permit\"
    mode: \"thread\"
    rules:
      - {\"action\":\"deny\",\"dst_port\":80}
";
        let (before, _) = FILE.split_once("  edge:\n").unwrap();
        let (_, after) = FILE.split_once("22 }\n").unwrap();
        assert_eq!(exported, format!("{before}{edge}{after}"));
        assert_eq!(with_nodes(FILE, &[]).unwrap(), FILE);
        let both = [
            ("edge", &written, &rules(80)),
            ("all", &json!({}), &json!({"a": [{}]})),
        ];
        let said = read(&with_nodes(FILE, &both).unwrap()).unwrap();
        assert_eq!(said["nfs"]["all"], json!({"type": "count", "a": [{}]}));
        assert_eq!(said["nfs"]["edge"]["mode"], "thread");
    }

    #[test]
    fn a_text_of_another_form_is_written_anew_as_a_whole() {
        for form in [
            "nfs: { edge: { type: acl, rules: [] }, \"null\": { type: count } }\n",
            "nfs:\n  edge: &same { type: acl, rules: [] }\n  other: *same\n  \"null\": {type: t}\n",
        ] {
            let text = format!("name: \"a: b\"\n{form}run: {{ burst: 32 }}\n");
            let written = json!({"rules": []});
            let exported = with_nodes(&text, &[("edge", &written, &rules(1))]).unwrap();
            let mut meant = read(&text).unwrap();
            let edge = json!({"type": "acl", "rules": rules(1)["rules"], "default": "permit"});
            meant["nfs"]["edge"] = edge;
            assert_eq!(read(&exported).unwrap(), meant, "{exported}");
        }
        let absent = with_nodes(FILE, &[("none", &json!({}), &json!({}))]);
        assert!(absent.unwrap_err().contains("no node none"));
    }
}
