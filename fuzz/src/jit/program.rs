// SPDX-License-Identifier: Apache-2.0
//! Random programs: whatever the intermediate representation allows, of the fuzzer's choices.

use catena_flow::program::field;
use catena_flow::program::header::{Field, HEADERS, Header};
use catena_flow::program::ir::{
    Binary, Block, Code, Element, End, Fact, Flows, Global, Key, Op, Program, Scope, Slot, Unary,
    Value, Verdict, WhenFull, Width,
};
use catena_flow::program::layout::{pack_key, pack_registers};
use catena_flow::program::template::Template;
use catena_flow::program::tunnel::TUNNELS;
use catena_flow::{Shape, Timeouts};

use super::parts::{meters, tables};
use super::source::Source;

const WIDTHS: [Width; 16] = [
    1, 2, 7, 8, 13, 16, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128,
];
const BINARIES: [Binary; 21] = {
    use Binary::*;
    [
        Add, Sub, Mul, Div, Mod, AddSat, SubSat, And, Or, Xor, Shl, Shr, ShrSigned, Min, Max, Eq,
        Ne, Lt, Le, LtSigned, LeSigned,
    ]
};
const FACTS: [Fact; 6] = [
    Fact::Now,
    Fact::Len,
    Fact::Input,
    Fact::Tag,
    Fact::Found,
    Fact::Full,
];

/// A program that `verify` accepts.
pub fn program(source: &mut Source<'_>) -> Program {
    let mut program = frame_of(source);
    for number in 0..=source.below(2) {
        let element = element(source, &program, number);
        program.elements.push(element);
    }
    program
}

/// A program without elements.
fn frame_of(source: &mut Source<'_>) -> Program {
    let names = |count: usize| (0..count).map(|at| format!("n{at}")).collect();
    let global = |name: &str, scope, width, count, initial| Global {
        name: name.to_owned(),
        width,
        count,
        initial,
        scope,
    };
    let (own, shared) = (Scope::PerCore, Scope::Shared);
    let frame = Source::new(&[]).frame();
    let udp = |bit, width| Field {
        header: Header::Ipv4,
        bit,
        width,
    };
    let template = Template::new("t", frame, vec![udp(96, 32), udp(64, 8)]);
    Program {
        metadata: (0..source.below(5))
            .map(|_| source.one_of(&WIDTHS))
            .collect(),
        elements: Vec::new(),
        globals: vec![
            global("one", own, 33, 1, 5),
            global("all", shared, 64, 2, u64::MAX),
            global("five", own, 64, 5, u64::MAX),
            global("both", shared, 7, 3, 5),
            global("three", own, 7, 3, 0),
            global("flag", shared, 1, 1, 0),
        ],
        tables: tables(),
        meters: meters(),
        templates: template.into_iter().collect(),
        hash_seed: source.chance(128).then_some(7),
        outputs: names(3),
        reasons: names(2),
        events: names(1),
        notes: names(4),
        verdict: Verdict::Output(0),
        takes_malformed: source.chance(128),
    }
}

fn element(source: &mut Source<'_>, program: &Program, number: usize) -> Element {
    let mut registers = vec![("state".to_owned(), 3)];
    registers.extend((0..3).map(|at| (format!("meter{at}"), 64)));
    let more = source.below(8);
    registers.extend((0..more).map(|at| (format!("r{at}"), source.one_of(&WIDTHS))));
    let has_flows = source.chance(220);
    let packed = pack_registers(&registers).filter(|_| has_flows);
    let (key, words) = key(source, program);
    let update = source
        .chance(60)
        .then(|| key_like(source, program, &key))
        .filter(|_| packed.is_some());
    let flows = packed.map(|(registers, state_words)| Flows {
        shape: Shape::new(words as u32, state_words as u32, 4),
        registers,
        states: (0..8).map(|at| format!("s{at}")).collect(),
        timeouts: Timeouts::idle(if source.chance(128) { 3_000_000 } else { 0 }),
        state_timeouts: Vec::new(),
        when_full: source.one_of(&[
            WhenFull::Drop,
            WhenFull::Pass,
            WhenFull::EvictOldest,
            WhenFull::EvictOldestIn(0b110),
            WhenFull::EvictLowest(1),
            WhenFull::EvictHighest(2),
        ]),
    });
    let mut writer = Writer::new(source, program, flows.as_ref());
    let body = writer.code(16);
    let keyless = writer.code(4);
    let timeout = writer.code(4);
    Element {
        name: format!("e{number}"),
        flows,
        key,
        update,
        body,
        keyless,
        timeout,
        // Told behind all code, whichever engine has run it.
        changes: None,
    }
}

/// A key of a few addresses, so that flows are met again, behind some pure code.
fn key(source: &mut Source<'_>, program: &Program) -> (Key, usize) {
    let count = 1 + source.below(2);
    let widths: Vec<Width> = (0..count).map(|_| source.one_of(&WIDTHS)).collect();
    let mut writer = Writer::new(source, program, None);
    writer.is_pure = true;
    let mut code = writer.code(4);
    let present = push(&mut code, 1);
    let parts: Vec<(Slot, Width, String)> = widths
        .iter()
        .map(|width| (push(&mut code, *width), *width, "part".to_owned()))
        .collect();
    let slots: Vec<Slot> = parts.iter().map(|(slot, ..)| *slot).collect();
    let packed = pack_key(&parts);
    fill_key(&mut code, present, &slots);
    let (parts, words) = packed.unwrap_or_default();
    let key = Key {
        code,
        present,
        parts,
        pairs: 0,
    };
    (key, words.max(1))
}

/// Another key with the same parts.
fn key_like(source: &mut Source<'_>, program: &Program, like: &Key) -> Key {
    let mut writer = Writer::new(source, program, None);
    writer.is_pure = true;
    let mut code = writer.code(3);
    let present = push(&mut code, 1);
    let mut parts = like.parts.clone();
    for part in &mut parts {
        part.slot = push(&mut code, part.width);
    }
    let slots: Vec<Slot> = parts.iter().map(|part| part.slot).collect();
    fill_key(&mut code, present, &slots);
    Key {
        code,
        present,
        parts,
        pairs: 0,
    }
}

fn push(code: &mut Code, width: Width) -> Slot {
    code.slots.push(width);
    (code.slots.len() - 1) as Slot
}

/// Reads the key in the first block, so that it is there however the code ends.
fn fill_key(code: &mut Code, present: Slot, slots: &[Slot]) {
    if code.blocks.is_empty() {
        return;
    }
    let mut ops = vec![Op::Valid {
        to: present,
        header: Header::Ipv4,
    }];
    for slot in slots {
        let width = code.slots[usize::from(*slot)];
        let field = Field {
            header: Header::Ipv4,
            bit: 160 - u16::from(width.min(96)) - 32 * u16::from(width > 96),
            width,
        };
        ops.push(Op::Field { to: *slot, field });
    }
    ops.append(&mut code.blocks[0].ops);
    code.blocks[0].ops = ops;
}

/// Writes code.
pub(super) struct Writer<'a, 's, 'b> {
    pub(super) source: &'a mut Source<'b>,
    pub(super) program: &'s Program,
    pub(super) flows: Option<&'s Flows>,
    is_pure: bool,
    slots: Vec<Width>,
}

impl<'a, 's, 'b> Writer<'a, 's, 'b> {
    fn new(source: &'a mut Source<'b>, program: &'s Program, flows: Option<&'s Flows>) -> Self {
        Self {
            source,
            program,
            flows,
            is_pure: false,
            slots: Vec::new(),
        }
    }

    fn code(&mut self, ops_max: usize) -> Code {
        self.slots.clone_from(&self.program.metadata);
        for _ in 0..self.source.below(12) {
            let width = self.source.one_of(&WIDTHS);
            self.slots.push(width);
        }
        let count = self.source.below(6);
        let mut blocks = Vec::new();
        for number in 0..count {
            let mut ops = Vec::new();
            for _ in 0..self.source.below(ops_max) {
                let op = self.op();
                ops.push(op);
            }
            let end = self.end(number, count);
            blocks.push(Block { ops, end });
        }
        Code {
            slots: std::mem::take(&mut self.slots),
            blocks,
        }
    }

    fn end(&mut self, number: usize, count: usize) -> End {
        let left = count - number - 1;
        if left == 0 {
            return self
                .source
                .one_of(&[End::Next, End::Done].each_ref())
                .clone();
        }
        let to = |source: &mut Source<'_>| (number + 1 + source.below(left)) as u16;
        match self.source.below(6) {
            0 => End::Next,
            1 => End::Done,
            2 => End::Jump(to(self.source)),
            3 => {
                let on = self.any_slot();
                let width = self.slots[usize::from(on)];
                let mut cases: Vec<(u128, u16)> = Vec::new();
                for _ in 0..self.source.below(5) {
                    let case = (self.source.number(width), to(self.source));
                    if cases.iter().all(|(value, _)| *value != case.0) {
                        cases.push(case);
                    }
                }
                let default = to(self.source);
                End::Switch { on, cases, default }
            }
            _ => End::Branch {
                when: self.slot(1),
                then: to(self.source),
                otherwise: to(self.source),
                note: None,
            },
        }
    }

    fn any_slot(&mut self) -> Slot {
        if self.slots.is_empty() {
            self.slots.push(8);
        }
        self.source.below(self.slots.len()) as Slot
    }

    /// A slot of a width, new if there is none.
    pub(super) fn slot(&mut self, width: Width) -> Slot {
        let from = self.source.below(self.slots.len().max(1));
        let both = (from..self.slots.len()).chain(0..from);
        let mut found = both.filter(|at| self.slots[*at] == width);
        if let Some(at) = found.next() {
            return at as Slot;
        }
        self.slots.push(width);
        (self.slots.len() - 1) as Slot
    }

    pub(super) fn value(&mut self, width: Width) -> Value {
        if self.source.chance(90) {
            Value::Const(self.source.number(width), width)
        } else {
            Value::Slot(self.slot(width))
        }
    }

    pub(super) fn any_value(&mut self) -> Value {
        let width = self.source.one_of(&WIDTHS);
        self.value(width)
    }

    /// A place in a packet, mostly.
    fn place(&mut self) -> Value {
        if self.source.chance(180) {
            Value::Const(self.source.below(90) as u128, 16)
        } else {
            self.any_value()
        }
    }

    fn op(&mut self) -> Op {
        match self.source.below(if self.is_pure { 11 } else { 27 }) {
            0 => {
                let to = self.any_slot();
                let from = self.value(self.slots[usize::from(to)]);
                Op::Set { to, from }
            }
            1..=4 => self.binary(),
            5 => {
                let to = self.any_slot();
                let op = self.source.one_of(&[Unary::Not, Unary::Negate]);
                let a = self.value(self.slots[usize::from(to)]);
                Op::Unary { to, op, a }
            }
            6 => self.shaped(),
            7 => self.field_read(),
            8 => Op::Valid {
                to: self.slot(1),
                header: self.source.one_of(&HEADERS),
            },
            9 => {
                let fact = self.source.one_of(&FACTS);
                let to = self.slot(fact.width());
                Op::Fact { to, fact }
            }
            10 => self.seldom(),
            11..=13 => self.flow_read(),
            14 | 15 => self.flow_write(),
            16 => self.charge(),
            17 => {
                let field = self.field();
                let from = self.value(field.width);
                Op::SetField { field, from }
            }
            18 => Op::Verdict(self.source.one_of(&[
                Verdict::Output(1),
                Verdict::Output(2),
                Verdict::Drop(0),
                Verdict::Drop(1),
            ])),
            19 => Op::Mark {
                note: self.source.below(4) as u16,
            },
            20 | 21 => self.global(),
            _ => self.act(),
        }
    }

    pub(super) fn binary(&mut self) -> Op {
        let op = self.source.one_of(&BINARIES);
        let width = self.source.one_of(&WIDTHS);
        let is_quotient = matches!(op, Binary::Div | Binary::Mod);
        let (a, b) = match op.is_shift() {
            // About as far as registers of the machine are wide, where it goes round.
            true if self.source.chance(128) => {
                let by = self.source.one_of(&[1, 63, 64, 66, 127, 128, 131]);
                (self.value(width), Value::Const(by, 8))
            }
            true => (self.value(width), self.any_value()),
            false if is_quotient && self.source.chance(90) => {
                (self.value(width), Value::Const(0, width))
            }
            false => (self.value(width), self.value(width)),
        };
        let to = self.slot(if op.is_comparison() { 1 } else { width });
        Op::Binary { to, op, a, b }
    }

    /// Values of other widths made of values.
    fn shaped(&mut self) -> Op {
        let to = self.any_slot();
        let width = self.slots[usize::from(to)];
        match self.source.below(4) {
            0 => Op::Select {
                to,
                when: self.value(1),
                then: self.value(width),
                otherwise: self.value(width),
            },
            1 if width > 1 => {
                let low = 1 + self.source.below(usize::from(width) - 1) as Width;
                Op::Concat {
                    to,
                    high: self.value(width - low),
                    low: self.value(low),
                }
            }
            2 => {
                let from = width + self.source.below(129 - usize::from(width)) as Width;
                Op::Slice {
                    to,
                    low: self.source.below(usize::from(from - width) + 1) as Width,
                    from: self.value(from),
                }
            }
            _ => Op::Resize {
                to,
                from: self.any_value(),
                is_signed: self.source.chance(128),
            },
        }
    }

    fn field(&mut self) -> Field {
        let header = self.source.one_of(&HEADERS);
        let named = field::fields(header);
        if !named.is_empty() && self.source.chance(180) {
            let name = self.source.below(named.len());
            return Field {
                header,
                bit: named[name].bit,
                width: named[name].width,
            };
        }
        Field {
            header,
            bit: self.source.below(500) as u16,
            width: self.source.one_of(&WIDTHS),
        }
    }

    pub(super) fn field_read(&mut self) -> Op {
        let field = self.field();
        let to = self.slot(field.width);
        Op::Field { to, field }
    }

    /// What a key may do too, but seldom does.
    fn seldom(&mut self) -> Op {
        match self.source.below(3) {
            0 => {
                let count = self.source.below(20);
                let of = (0..count).map(|_| self.any_value()).collect();
                let width = self.source.one_of(&[1, 16, 33, 64]);
                let to = self.slot(width);
                Op::Hash { to, of }
            }
            1 => {
                let width = self.source.one_of(&[8, 16, 24, 64, 128]);
                Op::Bytes {
                    to: self.slot(width),
                    at: self.place(),
                }
            }
            _ => {
                let table = self.source.below(self.program.tables.len());
                let shape = &self.program.tables[table];
                Op::Lookup {
                    table: table as u16,
                    key: shape
                        .key
                        .iter()
                        .map(|(_, width)| self.value(*width))
                        .collect(),
                    hit: self.slot(1),
                    data: shape
                        .data
                        .iter()
                        .map(|(_, width)| self.slot(*width))
                        .collect(),
                }
            }
        }
    }

    /// What is seen behind the code.
    fn act(&mut self) -> Op {
        let output = self.source.below(3) as u8;
        match self.source.below(11) {
            0 if self.source.chance(128) => Op::Mirror { output },
            0 => Op::Clone { output },
            1 if !self.program.templates.is_empty() => Op::Emit {
                template: 0,
                values: vec![self.value(32), self.value(8)],
                output,
            },
            2 => {
                let count = self.source.below(8);
                let values = (0..count).map(|_| self.any_value()).collect();
                Op::Notify { event: 0, values }
            }
            3 => {
                let (_, tunnel) = self.source.one_of(&TUNNELS);
                let widths = tunnel.values().iter();
                let values = widths.map(|(_, width)| self.value(*width)).collect();
                Op::Encap { tunnel, values }
            }
            4 => Op::Decap {
                tunnel: self.source.one_of(&TUNNELS).1,
            },
            5 => Op::Timeouts {
                idle_ns: Value::Const(self.source.below(9) as u128 * 1_000_000, 64),
                hard_ns: Value::Const(self.source.below(9) as u128 * 1_000_000, 64),
            },
            6 => Op::Forget,
            7 => Op::Splice {
                at: self.place(),
                count: self.source.one_of(&[-20, -3, -1, 1, 4, 30]),
            },
            8 => Op::Parse,
            9 => {
                let width = self.source.one_of(&[8, 16, 24, 64, 128]);
                Op::SetBytes {
                    at: self.place(),
                    from: self.value(width),
                }
            }
            _ => self.global(),
        }
    }
}
