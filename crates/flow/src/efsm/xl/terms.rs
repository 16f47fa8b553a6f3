//! XL's terms and values as expressions of a program.
//!
//! Part of the importer's third step. Registers have 64 bits, and so has what is computed: narrower
//! fields are extended first, so that nothing is cut off.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::XlError;
use super::convert::{Converted, Converter};
use super::fields::bytes;
use super::parser::{Term, Value};

impl Converter<'_> {
    pub(super) fn number(&self, term: &Term) -> Option<u64> {
        match term {
            Term::Number(number) => Some(*number),
            Term::Name(name) => match self.names.constants.get(name) {
                Some(Term::Number(number)) => Some(*number),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn register(&self, name: &str, line: usize) -> Converted<String> {
        if self.registers.contains(name) {
            Ok(format!("flow.{name}"))
        } else if self.globals.contains(name) {
            Ok(format!("global.{name}"))
        } else {
            self.fail(
                line,
                format!("there is no register {name}"),
                "write Register NAME;",
            )
        }
    }

    pub(super) fn value(&self, value: &Value, line: usize) -> Converted<String> {
        Ok(match value {
            Value::One(term) => self.term(term, line)?,
            Value::Two(sign, one, other) => {
                // Registers have 64 bits, and so has what is computed of them.
                let wide = |term: &Term| {
                    let text = self.term(term, line)?;
                    Ok::<String, XlError>(match self.is_narrow(term, line)? {
                        true => format!("({text} as 64)"),
                        false => text,
                    })
                };
                let (one, other) = (wide(one)?, wide(other)?);
                match sign.as_str() {
                    "min" | "max" => format!("{sign}({one}, {other})"),
                    sign => format!("{one} {sign} {other}"),
                }
            }
        })
    }

    /// Whether a term has, or may have, fewer than 64 bits.
    fn is_narrow(&self, term: &Term, line: usize) -> Converted<bool> {
        Ok(match term {
            Term::Number(_) => true,
            Term::Address(text) => self.address(text, line)?.1 < 64,
            Term::Bytes(_, _, _, count) => *count < 8,
            Term::Field(event, _) if event == "pktRcvd" => true,
            Term::Field(container, field) => {
                let key = (container.clone(), field.clone());
                self.names
                    .fields
                    .get(&key)
                    .is_some_and(|(_, count)| *count < 8)
            }
            Term::Name(name) => match self.names.constants.get(name) {
                Some(constant) => self.is_narrow(constant, line)?,
                None => false,
            },
        })
    }

    /// An address as programs write it, and its bits.
    fn address(&self, text: &str, line: usize) -> Converted<(String, u32)> {
        if text.parse::<Ipv4Addr>().is_ok() {
            return Ok((text.to_owned(), 32));
        }
        if text.parse::<Ipv6Addr>().is_ok() {
            return Ok((text.to_owned(), 128));
        }
        // XL has one digit or two for a byte.
        let byte = |part: &str| match part.len() {
            1 | 2 => u8::from_str_radix(part, 16).ok(),
            _ => None,
        };
        let parts: Vec<u8> = text.split(':').map_while(byte).collect();
        if parts.len() == 6 && text.split(':').count() == 6 {
            let parts: Vec<String> = parts.iter().map(|byte| format!("{byte:02x}")).collect();
            return Ok((parts.join(":"), 48));
        }
        let repair = "write it like \"10.0.0.1\", \"2001:db8::1\" or \"02:00:00:00:00:01\"";
        self.fail(line, format!("\"{text}\" is no address"), repair)
    }

    pub(super) fn term(&self, term: &Term, line: usize) -> Converted<String> {
        match term {
            Term::Number(number) => Ok(number.to_string()),
            Term::Address(text) => self.address(text, line).map(|(text, _)| text),
            Term::Name(name) if name == "currentTime" => Ok("(now / 1000)".to_owned()),
            Term::Name(name) => match self.names.constants.get(name) {
                Some(constant) => self.term(constant, line),
                None => self.register(name, line),
            },
            Term::Field(event, field) if event == "pktRcvd" => match field.as_str() {
                "port" => Ok("((packet.input as 16) + 1)".to_owned()),
                "length" | "len" => Ok("packet.len".to_owned()),
                _ => self.fail(line, format!("pktRcvd.{field} is not mapped"), "use port"),
            },
            Term::Field(container, field) => {
                let key = (container.clone(), field.clone());
                match self.names.fields.get(&key) {
                    Some((text, _)) => Ok(text.clone()),
                    None => {
                        let message = format!("{container}.{field} is not declared");
                        self.fail(
                            line,
                            message,
                            "write PacketField, or import a file that does",
                        )
                    }
                }
            }
            Term::Bytes(container, field, from, count)
                if container == "packet" && field == "data" =>
            {
                bytes(self.file, line, *from, *count)
            }
            Term::Bytes(container, field, ..) => {
                let message = format!("{container}.{field}[...] is not mapped");
                self.fail(line, message, "use packet.data")
            }
        }
    }
}
