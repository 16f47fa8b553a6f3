//! The keys of an element as code.
//!
//! Part of making an element: which packets have a key, and what it is. Both directions of a
//! connection, and one key of several, become selections of values.

use crate::program::header::Header;
use crate::program::ir::{Binary, Code, Key, Op, Slot, Value, Width};
use crate::program::layout::pack_key;

use super::builder::Builder;
use super::element::ElementLowering;
use super::expression::Node;
use super::lower::Lowering;
use super::names::either_headers;
use super::syntax;

/// Part of a key: value, width, and what it is.
type Part = (Value, Width, String);
/// Whether a packet has a key, and its parts.
type Parts = (Value, Vec<Part>);

impl ElementLowering<'_> {
    pub(super) fn key(&mut self, is_keyed: bool) -> Option<(Key, usize)> {
        let mut builder = Some(Builder::new(self.widths));
        if !is_keyed {
            let key = Key {
                code: Code::empty(self.widths),
                ..Key::default()
            };
            return Some((key, 1));
        }
        let path = self.parsed.path.clone();
        let kinds = [
            !self.model.keys.is_empty(),
            !self.model.key.is_empty() || !self.model.biflow.is_empty(),
        ];
        if kinds == [true, true] {
            let repair = "write either keys, or key and biflow";
            self.problems.error(
                &format!("{path}.keys"),
                "there are two kinds of keys",
                repair,
            );
            return None;
        }
        let (present, parts) = if self.model.keys.is_empty() {
            let (present, mut parts) =
                self.parts(&path, "key", &self.model.key.clone(), &mut builder)?;
            let (other, more) = self.biflow(&path, &mut builder)?;
            let present = self.both(present, other, &mut builder);
            parts.extend(more);
            (present, parts)
        } else {
            self.cases(&path, &mut builder)?
        };
        let (mut key, words) = self.finish_key(builder?, present, &parts, &path)?;
        // None where there are several kinds of keys.
        key.pairs = self.model.biflow.len();
        Some((key, words))
    }

    fn finish_key(
        &mut self,
        mut builder: Builder,
        present: Value,
        parts: &[Part],
        path: &str,
    ) -> Option<(Key, usize)> {
        let mut slot = |value: Value, width: Width| match value {
            Value::Slot(slot) => slot,
            Value::Const(..) => {
                let to = builder.slot(width);
                builder.op(Op::Set { to, from: value });
                to
            }
        };
        let present = slot(present, 1);
        let parts: Vec<(Slot, Width, String)> = parts
            .iter()
            .map(|(value, width, name)| (slot(*value, *width), *width, name.clone()))
            .collect();
        let Some((parts, words)) = pack_key(&parts) else {
            let repair = "take fewer fields, or hash(...) of some";
            self.problems
                .error(&format!("{path}.key"), "a key has at most 64 bytes", repair);
            return None;
        };
        let key = Key {
            code: builder.finish(),
            present,
            parts,
            pairs: 0,
        };
        Some((key, words))
    }

    fn both(&mut self, a: Value, b: Value, builder: &mut Option<Builder>) -> Value {
        let op = Binary::And;
        match builder {
            Some(builder) => builder.value(1, |to| Op::Binary { to, op, a, b }),
            None => a,
        }
    }

    /// Key parts of strings: whether the packet has all their headers, and their values.
    fn parts(
        &mut self,
        path: &str,
        field: &str,
        texts: &[String],
        builder: &mut Option<Builder>,
    ) -> Option<Parts> {
        let mut present = Value::Const(1, 1);
        let mut parts = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            let path = format!("{path}.{field}[{number}]");
            let node = self.problems.take(&path, syntax::expression(text))?;
            let (value, width, is_there) = self.lower(&path, builder, |lowering| {
                let (value, width) = lowering.sized(&node)?;
                Ok((value, width, presence(lowering, &node)))
            })?;
            present = self.both(present, is_there, builder);
            parts.push((value, width, node.to_string()));
        }
        Some((present, parts))
    }

    /// Pairs of which the smaller comes first; metadata says whether they were swapped.
    fn biflow(&mut self, path: &str, builder: &mut Option<Builder>) -> Option<Parts> {
        let mut present = Value::Const(1, 1);
        let (mut ones, mut others) = (Vec::new(), Vec::new());
        for (number, pair) in self.model.biflow.clone().iter().enumerate() {
            let (there, mut parts) =
                self.parts(path, &format!("biflow[{number}]"), pair, builder)?;
            present = self.both(present, there, builder);
            let (other, one) = (parts.pop()?, parts.pop()?);
            if one.1 != other.1 {
                let path = format!("{path}.biflow[{number}]");
                self.problems
                    .error(&path, "the two have different widths", "pair alike fields");
                return None;
            }
            ones.push(one);
            others.push(other);
        }
        let Some(reversed) = self.names.reversed.filter(|_| !ones.is_empty()) else {
            return Some((present, Vec::new()));
        };
        let builder = builder.as_mut()?;
        // From the last pair to the first: whether what comes from there on is greater.
        let mut greater = Value::Const(0, 1);
        for (one, other) in ones.iter().zip(&others).rev() {
            let (a, b) = (one.0, other.0);
            let less = |to, op, a, b| Op::Binary { to, op, a, b };
            let is_greater = builder.value(1, |to| less(to, Binary::Lt, b, a));
            let is_equal = builder.value(1, |to| less(to, Binary::Eq, a, b));
            greater = builder.value(1, |to| Op::Select {
                to,
                when: is_equal,
                then: greater,
                otherwise: is_greater,
            });
        }
        builder.op(Op::Set {
            to: reversed,
            from: greater,
        });
        let mut parts = Vec::new();
        for (one, other) in ones.into_iter().zip(others) {
            let (a, b, width) = (one.0, other.0, one.1);
            for (then, otherwise, name) in [(b, a, one.2), (a, b, other.2)] {
                let value = builder.value(width, |to| Op::Select {
                    to,
                    when: greater,
                    then,
                    otherwise,
                });
                parts.push((value, width, name));
            }
        }
        Some((present, parts))
    }

    /// The first key whose condition holds.
    fn cases(&mut self, path: &str, builder: &mut Option<Builder>) -> Option<Parts> {
        let mut chosen: Option<Parts> = None;
        for (number, case) in self.model.keys.clone().iter().enumerate().rev() {
            let path = format!("{path}.keys[{number}]");
            let (there, parts) = self.parts(&path, "key", &case.key, builder)?;
            let when_path = format!("{path}.if");
            let node = self
                .problems
                .take(&when_path, syntax::expression(&case.when))?;
            let when = self.lower(&when_path, builder, |lowering| lowering.condition(&node))?;
            let (other_there, others) =
                chosen.unwrap_or_else(|| (Value::Const(0, 1), parts.clone()));
            let widths = |parts: &[Part]| -> Vec<Width> {
                parts.iter().map(|(_, width, _)| *width).collect()
            };
            if widths(&parts) != widths(&others) {
                let repair = "give all keys of an element the same parts, in the same order";
                self.problems
                    .error(&path, "the keys have different widths", repair);
                return None;
            }
            let builder = builder.as_mut()?;
            let mut select = |then, otherwise, width| {
                builder.value(width, |to| Op::Select {
                    to,
                    when,
                    then,
                    otherwise,
                })
            };
            let present = select(there, other_there, 1);
            let parts = parts.into_iter().zip(others).enumerate().map(
                |(at, ((then, width, name), other))| {
                    // One name for what is something else in each case would mislead.
                    let is_same = name == other.2;
                    let name = if is_same { name } else { format!("key[{at}]") };
                    (select(then, other.0, width), width, name)
                },
            );
            chosen = Some((present, parts.collect()));
        }
        chosen
    }

    pub(super) fn update_key(
        &mut self,
        parts: &[String],
        key: &Key,
        key_words: usize,
    ) -> Option<Key> {
        let path = self.parsed.path.clone();
        let mut builder = Some(Builder::new(self.widths));
        let (present, parts) = self.parts(&path, "update_key", parts, &mut builder)?;
        let (update, words) = self.finish_key(builder?, present, &parts, &path)?;
        let widths = |key: &Key| key.parts.iter().map(|part| part.width).collect::<Vec<_>>();
        if words != key_words || widths(&update) != widths(key) {
            let repair = "give it the same parts as the key, in the same order";
            self.problems.error(
                &format!("{path}.update_key"),
                "it has other widths than the key",
                repair,
            );
            return None;
        }
        Some(update)
    }
}

/// Whether the packet has all headers that an expression names.
fn presence(lowering: &mut Lowering<'_>, node: &Node) -> Value {
    let mut groups: Vec<Vec<Header>> = Vec::new();
    node.names(&mut |name, _| {
        let scope = name.rsplit_once('.').map_or(name, |(scope, _)| scope);
        let group = match (either_headers(scope), Header::named(scope)) {
            (Some(headers), _) => headers.to_vec(),
            (None, Some(header)) => vec![header],
            (None, None) => return,
        };
        if !groups.contains(&group) {
            groups.push(group);
        }
    });
    let mut present = Value::Const(1, 1);
    for group in groups {
        let mut any = Value::Const(0, 1);
        for header in group {
            let is_there = lowering.code.value(1, |to| Op::Valid { to, header });
            let (a, b, op) = (any, is_there, Binary::Or);
            any = lowering.code.value(1, |to| Op::Binary { to, op, a, b });
        }
        let (a, b, op) = (present, any, Binary::And);
        present = lowering.code.value(1, |to| Op::Binary { to, op, a, b });
    }
    present
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn parts_of_a_key_have_names_where_all_cases_agree() {
        let document = json!({"elements": [{"name": "e", "keys": [
            {"if": "packet.input == 0", "key": ["ipv4.src", "ipv4.protocol"]},
            {"if": "packet.input == 1", "key": ["ipv4.dst", "ipv4.protocol"]},
        ], "transitions": [{"do": ["output(out)"]}]}]});
        let document = serde_json::from_value(document).unwrap();
        let compiled = crate::efsm::compile(&document).unwrap_or_else(|all| panic!("{all:#?}"));
        let parts = &compiled.program.elements[0].key.parts;
        let names: Vec<&str> = parts.iter().map(|part| &*part.name).collect();
        assert_eq!(names, ["key[0]", "ipv4.protocol"]);
    }
}
