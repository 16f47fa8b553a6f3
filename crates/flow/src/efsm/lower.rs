//! Expressions to operations: names get meanings, values get widths.
//!
//! A number takes the width of what it meets. Two values of different widths are brought to the
//! wider one. Nothing is cut off unless the author says so (`as`).

use std::net::Ipv4Addr;

use catena_engine::chain::registry::nearest;

use crate::program::arithmetic::binary;
use crate::program::field::ones;
use crate::program::header::{Field, Header};
use crate::program::ir::{Binary, Op, Unary, Value, Width};

use super::builder::Builder;
use super::expression::{Expression, FETCH_ADD, Infix, Node};
use super::names::{ElementNames, Meaning, ProgramNames, either_headers};
use super::pattern::{ipv4, mapped, mask_of_mapped};
use super::syntax::SyntaxError;

pub(super) type Lowered<T> = Result<T, SyntaxError>;

/// A value: a number without a width, or one with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Typed {
    Free(u128),
    Of(Value, Width),
}

/// Lowers code of one element.
pub(super) struct Lowering<'a> {
    pub(super) program: &'a mut ProgramNames,
    pub(super) element: &'a mut ElementNames,
    pub(super) code: Builder,
    /// How deep constants and conditions name each other.
    pub(super) depth: usize,
}

/// Most levels of constants and conditions within each other.
const NESTED_MAX: usize = 16;
/// Most slots that expressions of one piece of code may take.
const SLOT_BUDGET: usize = crate::program::ir::SLOT_COUNT_MAX - 24;

pub(super) fn fail<T>(
    at: usize,
    message: impl Into<String>,
    repair: impl Into<String>,
) -> Lowered<T> {
    Err(SyntaxError {
        at,
        message: message.into(),
        repair: repair.into(),
    })
}

/// Bits that a number needs.
fn bits(number: u128) -> Width {
    (128 - number.leading_zeros()).max(1) as Width
}

impl Lowering<'_> {
    /// A value of exactly this width: narrower ones are extended.
    pub(super) fn of_width(&mut self, node: &Node, width: Width) -> Lowered<Value> {
        let typed = self.expression(node)?;
        self.fit_of(node, typed, width)
    }

    /// What a node came to, fitted: an address of IPv4 as the mapped one where there is room for
    /// IPv6, as `ip.src` is.
    fn fit_of(&mut self, node: &Node, typed: Typed, width: Width) -> Lowered<Value> {
        match ipv4(self.program, node, 0) {
            Some(address) if width == 128 => Ok(Value::Const(mapped(address), width)),
            _ => self.fit(typed, width, node.at),
        }
    }

    /// As [`Lowering::fit_of`], of a side of an infix: a mask keeps what maps an address.
    fn side(&mut self, infix: Infix, node: &Node, typed: Typed, width: Width) -> Lowered<Value> {
        match ipv4(self.program, node, 0) {
            Some(mask) if width == 128 && infix == Infix::And => {
                Ok(Value::Const(mask_of_mapped(mask), width))
            }
            _ => self.fit_of(node, typed, width),
        }
    }

    /// A condition: one bit.
    pub(super) fn condition(&mut self, node: &Node) -> Lowered<Value> {
        match self.expression(node)? {
            Typed::Of(value, 1) => Ok(value),
            Typed::Free(number) if number < 2 => Ok(Value::Const(number, 1)),
            Typed::Free(_) => fail(
                node.at,
                "a number is no condition",
                "compare it with something",
            ),
            Typed::Of(_, width) => fail(
                node.at,
                format!("{node} has {width} bits: it is no condition"),
                format!("write {node} != 0"),
            ),
        }
    }

    pub(super) fn fit(&mut self, typed: Typed, width: Width, at: usize) -> Lowered<Value> {
        match typed {
            Typed::Free(number) if number <= ones(width) => Ok(Value::Const(number, width)),
            Typed::Free(number) => fail(
                at,
                format!("{number} does not fit {width} bits"),
                format!("write a number of at most {}", ones(width)),
            ),
            Typed::Of(value, found) if found == width => Ok(value),
            Typed::Of(value, found) if found < width => Ok(self.resize(value, width)),
            Typed::Of(_, found) => fail(
                at,
                format!("{found} bits do not fit {width}"),
                format!("write (...) as {width} to cut off the rest, or make it wider"),
            ),
        }
    }

    fn resize(&mut self, from: Value, width: Width) -> Value {
        self.code.value(width, |to| Op::Resize {
            to,
            from,
            is_signed: false,
        })
    }

    /// A value with a width, which for a number is the least that it needs.
    pub(super) fn sized(&mut self, node: &Node) -> Lowered<(Value, Width)> {
        Ok(match self.expression(node)? {
            Typed::Free(number) => (Value::Const(number, bits(number)), bits(number)),
            Typed::Of(value, width) => (value, width),
        })
    }

    pub(super) fn expression(&mut self, node: &Node) -> Lowered<Typed> {
        if self.code.slot_count() > SLOT_BUDGET {
            return fail(
                node.at,
                "the element computes too much",
                "split it into two elements",
            );
        }
        let at = node.at;
        match &node.kind {
            Expression::Number(number, None) => Ok(Typed::Free(*number)),
            Expression::Number(number, Some(width)) => {
                Ok(Typed::Of(Value::Const(*number, *width), *width))
            }
            Expression::Name(name) => self.name(name, at),
            Expression::Index(name, index) => self.element_of(name, index, at),
            Expression::Bytes(name, from, count) => self.bytes(name, from, *count, at),
            Expression::Unary(sign, one) => self.unary(*sign, one),
            Expression::Binary(infix, one, other) => self.binary(*infix, one, other, at),
            Expression::Call(name, arguments) => self.call(name, arguments, at),
            Expression::Resized(one, width) => match self.expression(one)? {
                Typed::Free(number) => Ok(Typed::Of(
                    Value::Const(number & ones(*width), *width),
                    *width,
                )),
                Typed::Of(value, _) => Ok(Typed::Of(self.resize(value, *width), *width)),
            },
        }
    }

    /// What a name is, or who it may have been meant for.
    pub(super) fn meaning(&self, name: &str, at: usize) -> Lowered<Meaning> {
        if let Some(meaning) = self.program.meaning(self.element, name) {
            return Ok(meaning);
        }
        let known = self.program.known(self.element);
        let repair = match nearest(name, known.iter().map(String::as_str)) {
            Some(near) => format!("write {near}"),
            None => "name a field, flow.REGISTER, global.REGISTER, meta.NAME or a constant".into(),
        };
        fail(at, format!("there is no {name}"), repair)
    }

    fn name(&mut self, name: &str, at: usize) -> Lowered<Typed> {
        Ok(match self.meaning(name, at)? {
            Meaning::Field(field, _) => self.field(field),
            Meaning::Either([v4, v6], width) => {
                let v6_value = self.field(v6);
                let v6_value = self.fit(v6_value, width, at)?;
                let v4_value = self.field(v4);
                let mut v4_value = self.fit(v4_value, width, at)?;
                if width == 128 {
                    // As an IPv4-mapped address (RFC 4291, 2.5.5.2).
                    v4_value = self.code.value(width, |to| Op::Binary {
                        to,
                        op: Binary::Or,
                        a: v4_value,
                        b: Value::Const(mapped(Ipv4Addr::UNSPECIFIED), width),
                    });
                }
                let header = v6.header;
                let when = self.code.value(1, |to| Op::Valid { to, header });
                let value = self.code.value(width, |to| Op::Select {
                    to,
                    when,
                    then: v6_value,
                    otherwise: v4_value,
                });
                Typed::Of(value, width)
            }
            Meaning::Fact(fact) => {
                let value = self.code.value(fact.width(), |to| Op::Fact { to, fact });
                Typed::Of(value, fact.width())
            }
            Meaning::Register(register, width) => {
                self.element.read.insert(name.to_owned());
                let value = self.code.value(width, |to| Op::Flow { to, register });
                Typed::Of(value, width)
            }
            Meaning::Global(global, width, count) => {
                if count > 1 {
                    return fail(
                        at,
                        format!("{name} is an array"),
                        format!("write {name}[INDEX]"),
                    );
                }
                self.element.read.insert(name.to_owned());
                let index = Value::Const(0, 32);
                let value = self
                    .code
                    .value(width, |to| Op::Global { to, global, index });
                Typed::Of(value, width)
            }
            Meaning::Metadata(slot, width) => {
                self.element.read.insert(name.to_owned());
                Typed::Of(Value::Slot(slot), width)
            }
            Meaning::Constant(node) | Meaning::Condition(node) => {
                self.element.read.insert(format!("conditions.{name}"));
                if self.depth == NESTED_MAX {
                    return fail(
                        at,
                        format!("{name} names itself"),
                        "write out what it stands for",
                    );
                }
                self.depth += 1;
                // What is wrong within it is told where it stands.
                let typed = self
                    .expression(&node)
                    .map_err(|error| SyntaxError { at, ..error });
                self.depth -= 1;
                typed?
            }
        })
    }

    fn field(&mut self, field: Field) -> Typed {
        let value = self.code.value(field.width, |to| Op::Field { to, field });
        Typed::Of(value, field.width)
    }

    fn element_of(&mut self, name: &str, index: &Node, at: usize) -> Lowered<Typed> {
        let Meaning::Global(global, width, count) = self.meaning(name, at)? else {
            return fail(at, format!("{name} is no array"), "leave the index away");
        };
        self.element.read.insert(name.to_owned());
        let index = self.index(name, index, count)?;
        let value = self
            .code
            .value(width, |to| Op::Global { to, global, index });
        Ok(Typed::Of(value, width))
    }

    /// An index; one that is known lies within the array.
    pub(super) fn index(&mut self, name: &str, index: &Node, count: u32) -> Lowered<Value> {
        let (value, _) = self.sized(index)?;
        match value {
            Value::Const(number, _) if number >= u128::from(count) => fail(
                index.at,
                format!("{name} has {count} elements: there is no {name}[{number}]"),
                format!("write an index from 0 to {}", count.saturating_sub(1)),
            ),
            value => Ok(value),
        }
    }

    fn bytes(&mut self, name: &str, from: &Node, count: u8, at: usize) -> Lowered<Typed> {
        let width = count * 8;
        if name == "packet" {
            let (at, _) = self.sized(from)?;
            let value = self.code.value(width, |to| Op::Bytes { to, at });
            return Ok(Typed::Of(value, width));
        }
        let field = self.raw_field(name, from, count, at)?;
        Ok(self.field(field))
    }

    /// Bytes of a header, at a place that is known.
    pub(super) fn raw_field(
        &mut self,
        name: &str,
        from: &Node,
        count: u8,
        at: usize,
    ) -> Lowered<Field> {
        let Some(header) = Header::named(name) else {
            return fail(
                at,
                format!("there is no header {name}"),
                "write packet, or a header's name",
            );
        };
        match self.expression(from)? {
            Typed::Free(from) if from < 1500 => Ok(Field {
                header,
                bit: from as u16 * 8,
                width: count * 8,
            }),
            _ => fail(
                from.at,
                "this is no place in a header",
                "write a number below 1500",
            ),
        }
    }

    fn unary(&mut self, sign: char, one: &Node) -> Lowered<Typed> {
        let op = match (sign, self.expression(one)?) {
            ('!', _) => {
                let a = self.condition(one)?;
                let op = Unary::Not;
                return Ok(Typed::Of(
                    self.code.value(1, |to| Op::Unary { to, op, a }),
                    1,
                ));
            }
            (_, Typed::Free(_)) => {
                return fail(one.at, "a number of no width", "write (NUMBER as WIDTH)");
            }
            ('~', Typed::Of(value, width)) => (Unary::Not, value, width),
            (_, Typed::Of(value, width)) => (Unary::Negate, value, width),
        };
        let (op, a, width) = op;
        Ok(Typed::Of(
            self.code.value(width, |to| Op::Unary { to, op, a }),
            width,
        ))
    }

    fn binary(&mut self, infix: Infix, one: &Node, other: &Node, at: usize) -> Lowered<Typed> {
        if matches!(infix, Infix::Both | Infix::Either) {
            let (a, b) = (self.condition(one)?, self.condition(other)?);
            let op = if infix == Infix::Both {
                Binary::And
            } else {
                Binary::Or
            };
            return Ok(Typed::Of(
                self.code.value(1, |to| Op::Binary { to, op, a, b }),
                1,
            ));
        }
        let (op, is_swapped) = operation(infix);
        let (left, right) = (self.expression(one)?, self.expression(other)?);
        if let (Typed::Free(a), Typed::Free(b)) = (left, right) {
            return free(infix, a, b, at);
        }
        if op.is_shift() {
            let Typed::Of(a, width) = left else {
                return fail(at, "a number of no width", "write (NUMBER as WIDTH)");
            };
            let b = match right {
                Typed::Free(number) => Value::Const(number, bits(number)),
                Typed::Of(value, _) => value,
            };
            return Ok(Typed::Of(
                self.code.value(width, |to| Op::Binary { to, op, a, b }),
                width,
            ));
        }
        let width = match (left, right) {
            (Typed::Of(_, a), Typed::Of(_, b)) => a.max(b),
            (Typed::Of(_, width), _) | (_, Typed::Of(_, width)) => width,
            (Typed::Free(a), Typed::Free(b)) => bits(a.max(b)),
        };
        let (a, b) = (
            self.side(infix, one, left, width)?,
            self.side(infix, other, right, width)?,
        );
        let (a, b) = if is_swapped { (b, a) } else { (a, b) };
        let result = if op.is_comparison() { 1 } else { width };
        Ok(Typed::Of(
            self.code.value(result, |to| Op::Binary { to, op, a, b }),
            result,
        ))
    }

    fn call(&mut self, name: &str, arguments: &[Node], at: usize) -> Lowered<Typed> {
        match (name, arguments) {
            ("valid", [header]) => self.valid(header),
            ("hash", [_, ..]) => {
                let mut of = Vec::new();
                for argument in arguments {
                    of.push(self.sized(argument)?.0);
                }
                Ok(Typed::Of(self.code.value(64, |to| Op::Hash { to, of }), 64))
            }
            ("min" | "max" | "sat_sub", [one, other]) => {
                let (left, right) = (self.expression(one)?, self.expression(other)?);
                let width = match (left, right) {
                    (Typed::Of(_, a), Typed::Of(_, b)) => a.max(b),
                    (Typed::Of(_, width), _) | (_, Typed::Of(_, width)) => width,
                    _ => return fail(at, "two numbers", "write the result instead"),
                };
                let (a, b) = (
                    self.fit_of(one, left, width)?,
                    self.fit_of(other, right, width)?,
                );
                let op = match name {
                    "min" => Binary::Min,
                    "max" => Binary::Max,
                    _ => Binary::SubSat,
                };
                Ok(Typed::Of(
                    self.code.value(width, |to| Op::Binary { to, op, a, b }),
                    width,
                ))
            }
            ("select", [when, then, otherwise]) => {
                let when = self.condition(when)?;
                let (a, b) = (self.expression(then)?, self.expression(otherwise)?);
                let width = match (a, b) {
                    (Typed::Of(_, a), Typed::Of(_, b)) => a.max(b),
                    (Typed::Of(_, width), _) | (_, Typed::Of(_, width)) => width,
                    (Typed::Free(a), Typed::Free(b)) => bits(a.max(b)),
                };
                let then = self.fit_of(then, a, width)?;
                let otherwise = self.fit_of(otherwise, b, width)?;
                let value = self.code.value(width, |to| Op::Select {
                    to,
                    when,
                    then,
                    otherwise,
                });
                Ok(Typed::Of(value, width))
            }
            (FETCH_ADD, _) => fail(
                at,
                "fetch_add changes a register: it stands alone behind =",
                "write meta.x = fetch_add(global.y, 1), and use meta.x here",
            ),
            ("meter", [which]) => self.meter(which, Value::Const(0, 2)),
            ("meter", [which, colour]) => {
                let before = self.of_width(colour, 2)?;
                self.meter(which, before)
            }
            _ => {
                let form = match name {
                    "valid" => "valid(HEADER)",
                    "hash" => "hash(VALUE, ...)",
                    "select" => "select(CONDITION, VALUE, VALUE)",
                    "meter" => "meter(METER) or meter(METER, COLOUR)",
                    _ => "min(VALUE, VALUE)",
                };
                fail(
                    at,
                    format!("{name} has other arguments"),
                    format!("write {form}"),
                )
            }
        }
    }

    fn valid(&mut self, header: &Node) -> Lowered<Typed> {
        let Expression::Name(name) = &header.kind else {
            return fail(header.at, "this is no header", "write valid(tcp)");
        };
        if let Some(headers) = either_headers(name) {
            let [a, b] = headers.map(|header| self.code.value(1, |to| Op::Valid { to, header }));
            let op = Binary::Or;
            return Ok(Typed::Of(
                self.code.value(1, |to| Op::Binary { to, op, a, b }),
                1,
            ));
        }
        let Some(header) = Header::named(name) else {
            return fail(
                header.at,
                format!("there is no header {name}"),
                "write valid(tcp)",
            );
        };
        Ok(Typed::Of(
            self.code.value(1, |to| Op::Valid { to, header }),
            1,
        ))
    }

    /// Charges a meter for a packet that has this colour already.
    fn meter(&mut self, which: &Node, before: Value) -> Lowered<Typed> {
        let found = match &which.kind {
            Expression::Name(name) => self.element.meters.get(name).copied(),
            _ => None,
        };
        let Some((meter, register, is_of_bytes)) = found else {
            let names: Vec<&str> = self.element.meters.keys().map(String::as_str).collect();
            let repair = format!("write one of the element's meters: {}", names.join(", "));
            return fail(which.at, format!("there is no meter {which}"), repair);
        };
        self.element.read.insert(format!("meters.{which}"));
        let cost = if is_of_bytes {
            let fact = crate::program::ir::Fact::Len;
            let len = self.code.value(fact.width(), |to| Op::Fact { to, fact });
            self.resize(len, 32)
        } else {
            Value::Const(1, 32)
        };
        let value = self.code.value(2, |to| Op::Meter {
            to,
            meter,
            register,
            cost,
            before,
        });
        Ok(Typed::Of(value, 2))
    }
}

/// The operation of an infix, and whether its arguments change places.
fn operation(infix: Infix) -> (Binary, bool) {
    match infix {
        Infix::Both | Infix::And => (Binary::And, false),
        Infix::Either | Infix::Or => (Binary::Or, false),
        Infix::Xor => (Binary::Xor, false),
        Infix::Equal => (Binary::Eq, false),
        Infix::Unequal => (Binary::Ne, false),
        Infix::Less => (Binary::Lt, false),
        Infix::LessEqual => (Binary::Le, false),
        Infix::Greater => (Binary::Lt, true),
        Infix::GreaterEqual => (Binary::Le, true),
        Infix::Left => (Binary::Shl, false),
        Infix::Right => (Binary::Shr, false),
        Infix::Add => (Binary::Add, false),
        Infix::Sub => (Binary::Sub, false),
        Infix::Mul => (Binary::Mul, false),
        Infix::Div => (Binary::Div, false),
        Infix::Mod => (Binary::Mod, false),
    }
}

/// Arithmetic of two numbers without widths; what does not fit 128 bits is refused.
fn free(infix: Infix, a: u128, b: u128, at: usize) -> Lowered<Typed> {
    let checked = match infix {
        Infix::Add => a.checked_add(b),
        Infix::Sub => a.checked_sub(b),
        Infix::Mul => a.checked_mul(b),
        Infix::Div => a.checked_div(b),
        Infix::Mod => a.checked_rem(b),
        _ => {
            let (op, is_swapped) = operation(infix);
            let (a, b) = if is_swapped { (b, a) } else { (a, b) };
            let value = binary(op, a, b, 128);
            if op.is_comparison() {
                return Ok(Typed::Of(Value::Const(value, 1), 1));
            }
            Some(value)
        }
    };
    match checked {
        Some(value) => Ok(Typed::Free(value)),
        None => fail(
            at,
            "this has no result from 0 to 2^128",
            "write other numbers",
        ),
    }
}
