//! Statements to operations.
//!
//! | statement | does |
//! |---|---|
//! | `flow.x = ...`, `global.x = ...`, `global.x[i] = ...`, `meta.x = ...` | writes a register |
//! | `ipv4.dst = ...`, `payload[0:+4] = ...` | writes a field; checksums follow |
//! | `global.x = global.x + ...`, `fetch_add(global.y, ...)` | changes one in one step (`step`) |
//! | `packet[0:+6] = ...` | writes bytes, and no checksum |
//! | `output(NAME)`, `drop(REASON)` | the packet's verdict; no element further on sees it |
//! | `clone(NAME)`, `mirror(NAME)` | sends a copy as well: as the packet leaves, as it came |
//! | `emit(TEMPLATE, OUTPUT, VALUE, ...)` | sends a packet of the program's own making |
//! | `notify(EVENT, VALUE, ...)` | tells the control half |
//! | `encap(TUNNEL, VALUE, ...)`, `decap(TUNNEL)` | puts headers on, takes them off |
//! | `lookup(TABLE, KEY, ...)` | then `TABLE.hit` and `TABLE.FIELD` are what it said |
//! | `forget()` | the flow's entry ends |
//!
//! Each may end with `if CONDITION`.

use crate::program::header::Header;
use crate::program::ir::{End, Op, Slot, Value, Verdict};
use crate::program::tunnel::{TUNNELS, Tunnel};

use super::expression::{Action, Expression, Node, Statement};
use super::lower::{Lowered, Lowering, fail};
use super::names::Meaning;
use super::syntax::SyntaxError;

/// Whether statements have set a verdict.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Decided {
    always: bool,
    /// Slot of one bit that says so, where only some do.
    sometimes: Option<Slot>,
}

/// Where statements stand: what they may not do there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In front of all conditions.
    Before,
    /// Of a transition, or where there is none.
    Packet,
    /// Of a packet without a key.
    Keyless,
    /// Of a flow whose time is over.
    Timeout,
}

/// A call's arguments.
type Arguments = [(Option<String>, Node)];

impl Lowering<'_> {
    /// One statement.
    pub(super) fn statement(
        &mut self,
        statement: &Statement,
        place: Place,
        decided: &mut Decided,
    ) -> Lowered<()> {
        let Some(guard) = &statement.guard else {
            let is_verdict = self.action(&statement.kind, place)?;
            decided.always |= is_verdict;
            return Ok(());
        };
        let when = self.condition(guard)?;
        let (then, behind) = (self.code.label(), self.code.label());
        // Made in front of the branch, so that it is zero where the branch is not taken.
        let done = *decided.sometimes.get_or_insert_with(|| self.code.slot(1));
        self.code.branch(when, [then, behind], None);
        self.code.place(then);
        if self.action(&statement.kind, place)? {
            let from = Value::Const(1, 1);
            self.code.op(Op::Set { to: done, from });
        }
        self.code.place(behind);
        Ok(())
    }

    /// What comes behind statements.
    pub(super) fn finish(&mut self, decided: Decided) {
        match decided {
            Decided { always: true, .. } => self.code.end(End::Done),
            Decided {
                sometimes: Some(slot),
                ..
            } => {
                let (done, next) = (self.code.label(), self.code.label());
                self.code.branch(Value::Slot(slot), [done, next], None);
                self.code.place(done);
                self.code.end(End::Done);
                self.code.place(next);
                self.code.end(End::Next);
            }
            Decided { .. } => self.code.end(End::Next),
        }
    }

    /// Whether it sets a verdict.
    fn action(&mut self, action: &Action, place: Place) -> Lowered<bool> {
        match action {
            Action::Assign(target, value) => self.assign(target, value, place).map(|()| false),
            Action::Call {
                at,
                name,
                arguments,
            } => self.procedure(*at, name, arguments, place),
        }
    }

    fn assign(&mut self, target: &Node, value: &Node, place: Place) -> Lowered<()> {
        if self.step(target, value)? {
            return Ok(());
        }
        let at = target.at;
        let no_packet = || fail(at, "there is no packet here", "write a register instead");
        match &target.kind {
            Expression::Bytes(name, from, count) => {
                if place == Place::Timeout {
                    return no_packet();
                }
                let from_value = self.assigned(value, count * 8)?;
                if name == "packet" {
                    let (at, _) = self.sized(from)?;
                    self.code.op(Op::SetBytes {
                        at,
                        from: from_value,
                    });
                } else {
                    let field = self.raw_field(name, from, *count, at)?;
                    if !matches!(field.header, Header::Payload | Header::Ethernet) {
                        let repair = "write a named field, payload[...] or packet[...]";
                        return fail(at, "bytes of this header are not written so", repair);
                    }
                    self.code.op(Op::SetField {
                        field,
                        from: from_value,
                    });
                }
                Ok(())
            }
            Expression::Index(name, index) => {
                let Meaning::Global(global, width, count) = self.meaning(name, at)? else {
                    return fail(at, format!("{name} is no array"), "leave the index away");
                };
                self.element.written.insert(name.clone());
                let index = self.index(name, index, count)?;
                let from = self.assigned(value, width)?;
                self.code.op(Op::SetGlobal {
                    global,
                    index,
                    from,
                });
                Ok(())
            }
            Expression::Name(name) => {
                let meaning = self.meaning(name, at)?;
                if matches!(meaning, Meaning::Field(..)) && place == Place::Timeout {
                    return no_packet();
                }
                if matches!(meaning, Meaning::Register(..)) && place == Place::Keyless {
                    return fail(at, "there is no flow here", "write a global or metadata");
                }
                self.assign_name(name, &meaning, value, at)
            }
            _ => fail(
                at,
                "this cannot be written",
                "name a register, metadata or a field",
            ),
        }
    }

    fn assign_name(
        &mut self,
        name: &str,
        meaning: &Meaning,
        value: &Node,
        at: usize,
    ) -> Lowered<()> {
        let op = match *meaning {
            Meaning::Field(field, true) => Op::SetField {
                field,
                from: self.assigned(value, field.width)?,
            },
            Meaning::Register(register, width) => Op::SetFlow {
                register,
                from: self.assigned(value, width)?,
            },
            Meaning::Global(global, width, 1) => Op::SetGlobal {
                global,
                index: Value::Const(0, 32),
                from: self.assigned(value, width)?,
            },
            Meaning::Global(..) => {
                return fail(
                    at,
                    format!("{name} is an array"),
                    format!("write {name}[INDEX]"),
                );
            }
            Meaning::Metadata(to, width) if name.starts_with("meta.") => Op::Set {
                to,
                from: self.assigned(value, width)?,
            },
            Meaning::Field(_, false) => {
                let repair = "lengths, types and checksums follow by themselves";
                return fail(at, format!("{name} is not written"), repair);
            }
            _ => {
                let repair = "name a register, metadata or a field of one header";
                return fail(at, format!("{name} is not written"), repair);
            }
        };
        self.element.written.insert(name.to_owned());
        self.code.op(op);
        Ok(())
    }

    fn procedure(
        &mut self,
        at: usize,
        name: &str,
        arguments: &Arguments,
        place: Place,
    ) -> Lowered<bool> {
        let needs_packet = matches!(
            name,
            "output" | "drop" | "clone" | "mirror" | "encap" | "decap"
        );
        if needs_packet && place == Place::Timeout {
            return fail(
                at,
                "there is no packet here",
                "use emit, notify or a register",
            );
        }
        if matches!(name, "output" | "drop") && place == Place::Before {
            return fail(
                at,
                "conditions come first",
                format!("write {name} in a transition"),
            );
        }
        match (name, arguments) {
            ("output", [_]) => {
                let output = self.output(arguments, 0)?;
                self.code.op(Op::Verdict(Verdict::Output(output)));
                return Ok(true);
            }
            ("drop", [_]) => {
                let reason = self.reason(arguments)?;
                self.code.op(Op::Verdict(Verdict::Drop(reason)));
                return Ok(true);
            }
            ("clone", [_]) => {
                let output = self.output(arguments, 0)?;
                self.code.op(Op::Clone { output });
            }
            ("mirror", [_]) => {
                let output = self.output(arguments, 0)?;
                self.code.op(Op::Mirror { output });
            }
            ("emit", [_, _, rest @ ..]) => self.emit(arguments, rest, at)?,
            ("notify", [_, rest @ ..]) => self.notify(arguments, rest, at)?,
            ("encap", [_, rest @ ..]) => {
                let tunnel = tunnel(arguments, at)?;
                let values = self.values(rest, tunnel.values(), at)?;
                self.code.op(Op::Encap { tunnel, values });
            }
            ("decap", [_]) => {
                let tunnel = tunnel(arguments, at)?;
                self.code.op(Op::Decap { tunnel });
            }
            ("lookup", [_, rest @ ..]) => self.lookup(arguments, rest, at)?,
            ("forget", []) => self.code.op(Op::Forget),
            _ => {
                let repair = "write output, drop, clone, mirror, emit, notify, encap, decap, \
                              lookup or forget, with their arguments";
                return fail(
                    at,
                    format!("there is no statement {name} with these arguments"),
                    repair,
                );
            }
        }
        Ok(false)
    }

    fn output(&self, arguments: &Arguments, number: usize) -> Lowered<u8> {
        let (name, at) = word(arguments, number)?;
        let found = self
            .program
            .outputs
            .iter()
            .position(|output| output == name);
        match found {
            Some(output) => Ok(output as u8),
            None => {
                let repair = format!("write one of: {}", self.program.outputs.join(", "));
                fail(at, format!("there is no output {name}"), repair)
            }
        }
    }

    fn reason(&mut self, arguments: &Arguments) -> Lowered<u8> {
        let (name, at) = word(arguments, 0)?;
        let reasons = &mut self.program.reasons;
        if let Some(known) = reasons.iter().position(|reason| reason == name) {
            return Ok(known as u8);
        }
        let is_right = name.len() <= 40 && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        if !is_right {
            return fail(
                at,
                format!("{name} is no reason"),
                "write small letters and _",
            );
        }
        if reasons.len() == crate::program::verify::REASON_COUNT_MAX {
            return fail(at, "too many reasons", "use one that there is already");
        }
        reasons.push(name.to_owned());
        Ok((reasons.len() - 1) as u8)
    }

    fn emit(&mut self, all: &Arguments, rest: &Arguments, at: usize) -> Lowered<()> {
        let (name, name_at) = word(all, 0)?;
        let found = self
            .program
            .templates
            .iter()
            .position(|template| template.name == name);
        let Some(template) = found else {
            return fail(
                name_at,
                format!("there is no template {name}"),
                "name one of templates",
            );
        };
        self.element.read.insert(format!("templates.{name}"));
        let output = self.output(all, 1)?;
        let names = self.program.template_fields[template].clone();
        let widths = self.program.templates[template]
            .fields
            .iter()
            .map(|field| field.width);
        let fields: Vec<(&str, u8)> = names.iter().map(String::as_str).zip(widths).collect();
        let values = self.values(rest, &fields, at)?;
        self.code.op(Op::Emit {
            template: template as u16,
            values,
            output,
        });
        Ok(())
    }

    fn notify(&mut self, all: &Arguments, rest: &Arguments, at: usize) -> Lowered<()> {
        let (name, name_at) = word(all, 0)?;
        if rest.len() > crate::program::queue::NOTICE_VALUE_COUNT_MAX {
            return fail(at, "an event has at most 8 values", "leave some out");
        }
        let events = &mut self.program.events;
        let event = events
            .iter()
            .position(|event| event == name)
            .unwrap_or_else(|| {
                events.push(name.to_owned());
                events.len() - 1
            });
        if self.program.changes.contains(&(event as u16)) {
            let message = format!("{name} tells changes of state");
            return fail(name_at, message, "name this event otherwise");
        }
        let mut values = Vec::new();
        for (_, node) in rest {
            values.push(self.sized(node)?.0);
        }
        self.code.op(Op::Notify {
            event: event as u16,
            values,
        });
        Ok(())
    }

    fn lookup(&mut self, all: &Arguments, rest: &Arguments, at: usize) -> Lowered<()> {
        let (name, name_at) = word(all, 0)?;
        let found = self
            .program
            .tables
            .iter()
            .position(|table| table.name == name);
        let Some(number) = found else {
            return fail(
                name_at,
                format!("there is no table {name}"),
                "name one of tables",
            );
        };
        self.element.read.insert(format!("tables.{name}"));
        let table = self.program.tables[number].clone();
        let parts: Vec<(&str, u8)> = table.key.iter().map(|(_, width)| ("key", *width)).collect();
        let key = self.values(rest, &parts, at)?;
        let slot = |field: &str| {
            let found = self.program.metadata.get(&format!("{name}.{field}"));
            found.map_or(0, |(slot, _)| *slot)
        };
        let op = Op::Lookup {
            table: number as u16,
            key,
            hit: slot("hit"),
            data: table.data.iter().map(|(field, _)| slot(field)).collect(),
        };
        self.code.op(op);
        Ok(())
    }

    /// Values in the order and the widths that are asked for; each may name its place.
    fn values(
        &mut self,
        arguments: &Arguments,
        wanted: &[(&str, u8)],
        at: usize,
    ) -> Lowered<Vec<Value>> {
        let form: Vec<String> = wanted
            .iter()
            .map(|(name, width)| format!("{name} ({width} bits)"))
            .collect();
        let repair = format!("give: {}", form.join(", "));
        if arguments.len() != wanted.len() {
            return fail(
                at,
                format!("{} values, not {}", wanted.len(), arguments.len()),
                repair,
            );
        }
        let mut values = vec![None; wanted.len()];
        for (number, (name, node)) in arguments.iter().enumerate() {
            let place = match name {
                None => Some(number),
                Some(name) => wanted.iter().position(|(wanted, _)| wanted == name),
            };
            let Some(place) = place.filter(|place| values[*place].is_none()) else {
                return fail(node.at, "this value has no place", repair);
            };
            values[place] = Some(self.of_width(node, wanted[place].1)?);
        }
        Ok(values.into_iter().flatten().collect())
    }
}

/// An argument that is a name.
fn word(arguments: &Arguments, number: usize) -> Lowered<(&str, usize)> {
    match arguments.get(number) {
        Some((None, node)) => match &node.kind {
            Expression::Name(name) => Ok((name, node.at)),
            _ => fail(node.at, "a name belongs here", "write a name"),
        },
        Some((_, node)) => fail(node.at, "a name belongs here", "write the name alone"),
        None => fail(0, "an argument is missing", "write a name"),
    }
}

fn tunnel(arguments: &Arguments, at: usize) -> Result<Tunnel, SyntaxError> {
    let (name, at) = word(arguments, 0).unwrap_or(("", at));
    match TUNNELS.iter().find(|(known, _)| *known == name) {
        Some((_, tunnel)) => Ok(*tunnel),
        None => {
            let names: Vec<&str> = TUNNELS.iter().map(|(name, _)| *name).collect();
            let repair = format!("write one of: {}", names.join(", "));
            fail(at, format!("there is no tunnel {name}"), repair)
        }
    }
}
