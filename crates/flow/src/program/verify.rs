//! Holds a program to what [`ir`](super::ir) says, whoever made it.
//!
//! Once, before it runs: backends rely on it and on nothing else. A fault here is one of the front
//! end, so it names places by number; what people did wrong, front ends tell them in their words.

use std::collections::HashSet;

use super::field::ones;
use super::header::Field;
use super::ir::{
    Binary, Code, ELEMENT_COUNT_MAX, Element, End, Flows, Key, METADATA_COUNT_MAX, OP_COUNT_MAX,
    Op, Program, SLOT_COUNT_MAX, Slot, Value, Verdict, WIDTH_MAX, WhenFull, Width,
};
use super::maglev::{BACKEND_COUNT_MAX, MAGLEV_SLOT_COUNT_MAX, is_prime};
use super::queue::NOTICE_VALUE_COUNT_MAX;
use super::table::{KEY_PART_COUNT_MAX, Match, TableShape};

/// Most outputs of a program: a bit says whether one gets a copy.
pub const OUTPUT_COUNT_MAX: usize = 64;
/// Most drop reasons that a program names itself.
pub const REASON_COUNT_MAX: usize = 30;
/// Most words of global registers.
pub const GLOBAL_WORD_COUNT_MAX: u64 = 1 << 24;

/// What is wrong with a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("element {element}, {part}: {message}")]
pub struct Fault {
    /// The element's name, or nothing.
    pub element: String,
    /// Which part of it.
    pub part: String,
    /// What is wrong.
    pub message: String,
}

type Checked = Result<(), String>;

fn need(holds: bool, message: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(message()) }
}

/// Checks a program.
///
/// # Errors
/// The first fault.
pub fn verify(program: &Program) -> Result<(), Fault> {
    let fault = |element: &str, part: &str, message| Fault {
        element: element.to_owned(),
        part: part.to_owned(),
        message,
    };
    check_whole(program).map_err(|message| fault("", "program", message))?;
    for element in &program.elements {
        let name = &element.name;
        if let Some(flows) = &element.flows {
            check_flows(flows).map_err(|message| fault(name, "flows", message))?;
            let words = flows.shape.key_words;
            let keys = [
                ("key", Some(&element.key)),
                ("update key", element.update.as_ref()),
            ];
            for (part, key) in keys {
                if let Some(key) = key {
                    check_key(program, element, key, words)
                        .map_err(|message| fault(name, part, message))?;
                }
            }
        }
        check_changes(program, element).map_err(|message| fault(name, "changes", message))?;
        let codes = [
            ("body", &element.body),
            ("keyless", &element.keyless),
            ("timeout", &element.timeout),
        ];
        for (part, code) in codes {
            check_code(program, element, code).map_err(|message| fault(name, part, message))?;
        }
    }
    Ok(())
}

/// That the event of an element's changes is its alone, and that its flows have states.
fn check_changes(program: &Program, element: &Element) -> Checked {
    let Some(event) = element.changes else {
        return Ok(());
    };
    need(usize::from(event) < program.events.len(), || {
        "no such event".into()
    })?;
    let has_states = |flows: &Flows| !flows.states.is_empty();
    need(element.flows.as_ref().is_some_and(has_states), || {
        "its flows have no states".into()
    })?;
    let tellers = program
        .elements
        .iter()
        .filter(|one| one.changes == Some(event));
    let is_told = |op: &Op| matches!(op, Op::Notify { event: told, .. } if *told == event);
    need(tellers.count() == 1 && !program.ops().any(is_told), || {
        "somebody else tells this event".into()
    })
}

fn check_whole(program: &Program) -> Checked {
    let widths = |widths: &[Width]| widths.iter().all(|width| (1..=WIDTH_MAX).contains(width));
    need(widths(&program.metadata), || "metadata of no width".into())?;
    let limits = [
        ("elements", program.elements.len(), ELEMENT_COUNT_MAX),
        ("metadata", program.metadata.len(), METADATA_COUNT_MAX),
        ("outputs", program.outputs.len(), OUTPUT_COUNT_MAX),
        ("drop reasons", program.reasons.len(), REASON_COUNT_MAX),
    ];
    for (what, count, most) in limits {
        need(count <= most, || format!("{count} {what}, at most {most}"))?;
    }
    check_verdict(program, program.verdict)?;
    for global in &program.globals {
        let fits = (1..=64).contains(&global.width) && global.count > 0;
        let begins = u128::from(global.initial) <= ones(global.width);
        need(fits && begins, || format!("the register {}", global.name))?;
    }
    let words: u64 = program.globals.iter().map(|one| u64::from(one.count)).sum();
    need(words <= GLOBAL_WORD_COUNT_MAX, || {
        format!("{words} global registers")
    })?;
    for table in &program.tables {
        let parts = table.key.iter().map(|(_, width)| *width);
        let data = table.data.iter().map(|(_, width)| *width);
        let all: Vec<Width> = parts.chain(data).collect();
        let fits = !table.key.is_empty()
            && table.key.len() <= KEY_PART_COUNT_MAX
            && table.default.len() == table.data.len()
            && widths(&all)
            && table.entries.len() <= table.capacity;
        let defaults = table.default.iter().zip(&table.data);
        let right = defaults
            .into_iter()
            .all(|(value, (_, width))| *value <= ones(*width));
        need(fits && right, || format!("the table {}", table.name))?;
        for entry in &table.entries {
            table
                .check(entry)
                .map_err(|error| format!("the table {}: {error}", table.name))?;
        }
        check_derived(program, table)?;
    }
    Ok(())
}

/// Entries that follow from another table's: numbers of slots to its keys.
fn check_derived(program: &Program, table: &TableShape) -> Checked {
    let Some(maglev) = table.maglev else {
        return Ok(());
    };
    let fault = || format!("the slots of the table {}", table.name);
    let of = program
        .tables
        .get(usize::from(maglev.of))
        .ok_or_else(fault)?;
    let (&[(Match::Exact, number)], &[(_, width)]) = (&*table.key, &*table.data) else {
        return Err(fault());
    };
    let &[(Match::Exact, key)] = &*of.key else {
        return Err(fault());
    };
    let has_weight = maglev
        .weight
        .is_none_or(|at| usize::from(at) < of.data.len());
    let fits = maglev.slots <= MAGLEV_SLOT_COUNT_MAX
        && is_prime(maglev.slots)
        && u128::from(maglev.slots - 1) <= ones(number)
        && maglev.slots as usize <= table.capacity;
    let is_alone = table.entries.is_empty() && of.maglev.is_none();
    let is_small = of.capacity <= BACKEND_COUNT_MAX;
    need(
        fits && has_weight && is_alone && is_small && key == width,
        fault,
    )
}

fn check_flows(flows: &Flows) -> Checked {
    flows.shape.words().map_err(|error| error.to_string())?;
    let state_words = flows.shape.state_words as usize;
    let mut used = vec![0u64; state_words + 1];
    for register in &flows.registers {
        let (word, shift) = (usize::from(register.word), u32::from(register.shift));
        let low = register.width.min(64);
        let fits = (1..=WIDTH_MAX).contains(&register.width)
            && u32::from(low) + shift <= 64
            && (register.width <= 64 || shift == 0)
            && word + usize::from(register.width > 64) < state_words;
        need(fits, || {
            format!("the register {} lies nowhere", register.name)
        })?;
        let parts = [
            (word, (ones(low) as u64) << shift),
            (word + 1, ones(register.width - low) as u64),
        ];
        for (word, mask) in parts {
            need(used[word] & mask == 0, || {
                format!("{} lies on another", register.name)
            })?;
            used[word] |= mask;
        }
    }
    let label = flows.registers.first().map_or(0, |label| ones(label.width));
    need(
        flows.states.is_empty() || flows.states.len() as u128 <= label.saturating_add(1),
        || "more states than labels".into(),
    )?;
    match flows.when_full {
        WhenFull::EvictLowest(register) | WhenFull::EvictHighest(register) => {
            let register = flows.registers.get(usize::from(register));
            need(register.is_some_and(|one| one.width <= 64), || {
                "no register to evict by".into()
            })
        }
        WhenFull::EvictOldestIn(states) => {
            let known = ones(flows.states.len().min(64) as Width) as u64;
            need(states != 0 && states & !known == 0, || {
                "no states to evict from".into()
            })
        }
        _ => Ok(()),
    }
}

fn check_key(program: &Program, element: &Element, key: &Key, words: u32) -> Checked {
    check_code(program, element, &key.code)?;
    for op in key.code.ops() {
        let is_pure = matches!(
            op,
            Op::Set { .. }
                | Op::Unary { .. }
                | Op::Binary { .. }
                | Op::Select { .. }
                | Op::Resize { .. }
                | Op::Slice { .. }
                | Op::Concat { .. }
                | Op::Hash { .. }
                | Op::Field { .. }
                | Op::Valid { .. }
                | Op::Bytes { .. }
                | Op::Fact { .. }
                | Op::Lookup { .. }
        );
        need(is_pure, || format!("a key may not do {op:?}"))?;
    }
    let slots = &key.code.slots;
    let width = |slot: Slot| slots.get(usize::from(slot)).copied();
    need(width(key.present) == Some(1), || {
        "no slot says whether there is a key".into()
    })?;
    let mut used = vec![0u64; words as usize + 1];
    for part in &key.parts {
        let low = part.width.min(64);
        let word = usize::from(part.word);
        let fits = width(part.slot) == Some(part.width)
            && u32::from(low) + u32::from(part.shift) <= 64
            && (part.width <= 64 || part.shift == 0)
            && word + usize::from(part.width > 64) < words as usize;
        need(fits, || format!("the key part {} lies nowhere", part.name))?;
        let high = ones(part.width - low) as u64;
        for (word, mask) in [(word, (ones(low) as u64) << part.shift), (word + 1, high)] {
            need(used[word] & mask == 0, || {
                format!("{} lies on another", part.name)
            })?;
            used[word] |= mask;
        }
    }
    Ok(())
}

fn check_verdict(program: &Program, verdict: Verdict) -> Checked {
    let is_known = match verdict {
        Verdict::Output(output) => usize::from(output) < program.outputs.len(),
        Verdict::Drop(reason) => usize::from(reason) < program.reasons.len(),
    };
    need(is_known, || format!("{verdict:?} has no name"))
}

fn check_code(program: &Program, element: &Element, code: &Code) -> Checked {
    need(code.slots.len() <= SLOT_COUNT_MAX, || {
        "too many slots".into()
    })?;
    need(code.ops().count() <= OP_COUNT_MAX, || {
        "too many operations".into()
    })?;
    need(code.slots.starts_with(&program.metadata), || {
        "metadata is not the first".into()
    })?;
    let right = code
        .slots
        .iter()
        .all(|width| (1..=WIDTH_MAX).contains(width));
    need(right, || "a slot of no width".into())?;
    let checker = Checker {
        program,
        element,
        code,
    };
    for (number, block) in code.blocks.iter().enumerate() {
        for op in &block.ops {
            checker
                .op(op)
                .map_err(|fault| format!("block {number}, {op:?}: {fault}"))?;
        }
        checker
            .end(&block.end, number)
            .map_err(|fault| format!("block {number}, {:?}: {fault}", block.end))?;
    }
    Ok(())
}

struct Checker<'a> {
    program: &'a Program,
    element: &'a Element,
    code: &'a Code,
}

impl Checker<'_> {
    fn slot(&self, slot: Slot) -> Result<Width, String> {
        let width = self.code.slots.get(usize::from(slot)).copied();
        width.ok_or_else(|| format!("there is no slot {slot}"))
    }

    fn value(&self, value: Value) -> Result<Width, String> {
        match value {
            Value::Slot(slot) => self.slot(slot),
            Value::Const(number, width) => {
                let fits = (1..=WIDTH_MAX).contains(&width) && number <= ones(width);
                need(fits, || format!("{number} has no {width} bits"))?;
                Ok(width)
            }
        }
    }

    fn same(&self, to: Slot, values: &[Value]) -> Checked {
        let width = self.slot(to)?;
        values.iter().try_for_each(|value| self.is(*value, width))
    }

    fn is(&self, value: Value, width: Width) -> Checked {
        let found = self.value(value)?;
        need(found == width, || {
            format!("{found} bits where {width} belong")
        })
    }

    fn to(&self, to: Slot, width: Width) -> Checked {
        let found = self.slot(to)?;
        need(found == width, || {
            format!("a slot of {found} bits for {width}")
        })
    }

    fn end(&self, end: &End, number: usize) -> Checked {
        let forward = |to: u16| {
            let to = usize::from(to);
            let holds = to > number && to < self.code.blocks.len();
            need(holds, || format!("a jump to block {to}"))
        };
        match end {
            End::Jump(to) => forward(*to),
            End::Branch {
                when,
                then,
                otherwise,
                ..
            } => {
                self.to(*when, 1)?;
                forward(*then)?;
                forward(*otherwise)
            }
            End::Switch { on, cases, default } => {
                let width = self.slot(*on)?;
                let mut seen = HashSet::new();
                for (value, to) in cases {
                    let fits = *value <= ones(width) && seen.insert(*value);
                    need(fits, || format!("the case {value}"))?;
                    forward(*to)?;
                }
                forward(*default)
            }
            End::Next | End::Done => Ok(()),
        }
    }

    fn op(&self, op: &Op) -> Checked {
        match op {
            Op::Set { to, from } => self.same(*to, &[*from]),
            Op::Unary { to, a, .. } => self.same(*to, &[*a]),
            Op::Binary { to, op, a, b } => self.binary(*to, *op, *a, *b),
            Op::Select {
                to,
                when,
                then,
                otherwise,
            } => {
                self.is(*when, 1)?;
                self.same(*to, &[*then, *otherwise])
            }
            Op::Resize { to, from, .. } => {
                self.slot(*to)?;
                self.value(*from).map(|_| ())
            }
            Op::Slice { to, from, low } => {
                let (to, from) = (self.slot(*to)?, self.value(*from)?);
                let fits = u32::from(*low) + u32::from(to) <= u32::from(from);
                need(fits, || "bits beyond the value".into())
            }
            Op::Concat { to, high, low } => {
                let sum = u32::from(self.value(*high)?) + u32::from(self.value(*low)?);
                let to = u32::from(self.slot(*to)?);
                need(to == sum, || format!("{sum} bits in a slot of {to}"))
            }
            Op::Hash { to, of } => {
                of.iter()
                    .try_for_each(|value| self.value(*value).map(|_| ()))?;
                need(self.slot(*to)? <= 64, || "a hash has 64 bits".into())
            }
            Op::Field { to, field } => {
                check_field(*field)?;
                self.to(*to, field.width)
            }
            Op::SetField { field, from } => {
                check_field(*field)?;
                self.is(*from, field.width)
            }
            Op::Valid { to, .. } => self.to(*to, 1),
            Op::Bytes { to, at } => {
                self.value(*at)?;
                let width = self.slot(*to)?;
                need(width % 8 == 0, || "bytes have 8 bits".into())
            }
            Op::SetBytes { at, from } => {
                self.value(*at)?;
                let width = self.value(*from)?;
                need(width % 8 == 0, || "bytes have 8 bits".into())
            }
            Op::Fact { to, fact } => self.to(*to, fact.width()),
            Op::Mark { note } => {
                let is_known = usize::from(*note) < self.program.notes.len();
                need(is_known, || "a mark without a note".into())
            }
            Op::Verdict(verdict) => check_verdict(self.program, *verdict),
            Op::Parse | Op::Decap { .. } | Op::Forget => Ok(()),
            Op::Splice { at, .. } => self.value(*at).map(|_| ()),
            Op::Encap { tunnel, values } => {
                let widths = tunnel.values();
                need(values.len() == widths.len(), || {
                    "another number of values".into()
                })?;
                let mut pairs = values.iter().zip(widths);
                pairs.try_for_each(|(value, (_, width))| self.is(*value, *width))
            }
            Op::Timeouts { idle_ns, hard_ns } => {
                self.is(*idle_ns, 64)?;
                self.is(*hard_ns, 64)
            }
            _ => self.reference(op),
        }
    }

    fn binary(&self, to: Slot, op: Binary, a: Value, b: Value) -> Checked {
        let width = self.value(a)?;
        if op.is_shift() {
            self.value(b)?;
        } else {
            self.is(b, width)?;
        }
        self.to(to, if op.is_comparison() { 1 } else { width })
    }

    /// Operations that name something of the program.
    fn reference(&self, op: &Op) -> Checked {
        let program = self.program;
        match op {
            Op::Flow { to, register } => self.to(*to, self.register(*register)?),
            Op::SetFlow { register, from } => self.is(*from, self.register(*register)?),
            Op::Global { to, global, index } => {
                self.value(*index)?;
                self.to(*to, self.global(*global)?)
            }
            Op::SetGlobal {
                global,
                index,
                from,
            } => {
                self.value(*index)?;
                self.is(*from, self.global(*global)?)
            }
            Op::StepGlobal {
                old,
                global,
                index,
                op,
                by,
            } => {
                need(op.is_step(), || format!("{op:?} is no step"))?;
                self.value(*index)?;
                let width = self.global(*global)?;
                self.is(*by, width)?;
                self.to(*old, width)
            }
            Op::Lookup {
                table,
                key,
                hit,
                data,
            } => {
                let table = program
                    .tables
                    .get(usize::from(*table))
                    .ok_or("no such table")?;
                let counts = key.len() == table.key.len() && data.len() == table.data.len();
                need(counts, || "another number of keys or data".into())?;
                self.to(*hit, 1)?;
                let mut parts = key.iter().zip(&table.key);
                parts.try_for_each(|(value, (_, width))| self.is(*value, *width))?;
                let mut data = data.iter().zip(&table.data);
                data.try_for_each(|(to, (_, width))| self.to(*to, *width))
            }
            Op::Meter {
                to,
                meter,
                register,
                cost,
                before,
            } => {
                self.to(*to, 2)?;
                self.is(*cost, 32)?;
                self.is(*before, 2)?;
                let meter = program
                    .meters
                    .get(usize::from(*meter))
                    .ok_or("no such meter")?;
                (0..meter.kind.words()).try_for_each(|at| {
                    let number = usize::from(*register) + at;
                    let width = self.register(u8::try_from(number).unwrap_or(u8::MAX))?;
                    need(width == 64, || "a meter's word has 64 bits".into())
                })
            }
            Op::Clone { output } | Op::Mirror { output } => {
                check_verdict(program, Verdict::Output(*output))
            }
            Op::Emit {
                template,
                values,
                output,
            } => {
                check_verdict(program, Verdict::Output(*output))?;
                let template = program.templates.get(usize::from(*template));
                let fields = &template.ok_or("no such template")?.fields;
                need(values.len() == fields.len(), || {
                    "another number of values".into()
                })?;
                let mut pairs = values.iter().zip(fields);
                pairs.try_for_each(|(value, field)| self.is(*value, field.width))
            }
            Op::Notify { event, values } => {
                need(usize::from(*event) < program.events.len(), || {
                    "no such event".into()
                })?;
                need(values.len() <= NOTICE_VALUE_COUNT_MAX, || {
                    "too many values".into()
                })?;
                values
                    .iter()
                    .try_for_each(|value| self.value(*value).map(|_| ()))
            }
            _ => Ok(()),
        }
    }

    fn register(&self, number: u8) -> Result<Width, String> {
        let flows = self.element.flows.as_ref();
        let register = flows.and_then(|flows| flows.registers.get(usize::from(number)));
        register
            .map(|one| one.width)
            .ok_or_else(|| format!("there is no register {number}"))
    }

    fn global(&self, number: u16) -> Result<Width, String> {
        let global = self.program.globals.get(usize::from(number));
        global
            .map(|one| one.width)
            .ok_or_else(|| format!("there is no global {number}"))
    }
}

fn check_field(field: Field) -> Checked {
    let fits = (1..=WIDTH_MAX).contains(&field.width) && field.bit < 1 << 14;
    need(fits, || "a field of no width".into())
}
