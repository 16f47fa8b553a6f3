//! Quantities in chain files: `10kpps`, `1.5Gbps`, `64KiB`, `250us`, `1%`.
//!
//! A quantity is written with its unit; a bare number is refused where the unit could be misread.
//! Rates are of packets (`pps`) or of bits on layer 2 without FCS (`bps`); sizes are bytes with
//! decimal (`kB`) or binary (`KiB`) multiples. Control path only.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A rate of packets or of layer-2 bits per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Packets per second.
    PacketsPerSecond(f64),
    /// Layer-2 bits per second (frame without FCS, preamble and gap).
    BitsPerSecond(f64),
}

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Its length.
    pub ns: u64,
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize {
    /// The number.
    pub bytes: u64,
}

/// A share between 0 and 1, written `2.5%` or `0.025`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Default)]
pub struct Share(pub f64);

fn split_number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(text.len());
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    Some((number, text[end..].trim()))
}

fn decimal_multiple(prefix: &str) -> Option<f64> {
    Some(match prefix {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return None,
    })
}

impl Rate {
    /// Parses `10kpps`, `2.5Mpps`, `1Gbps`.
    ///
    /// # Errors
    /// A sentence that shows the accepted form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not a rate; write it like 10kpps or 1.5Gbps");
        let (number, unit) = split_number(text).ok_or_else(wrong)?;
        let (prefix, packets) = match (unit.strip_suffix("pps"), unit.strip_suffix("bps")) {
            (Some(prefix), _) => (prefix, true),
            (None, Some(prefix)) => (prefix, false),
            (None, None) => return Err(wrong()),
        };
        let value = number * decimal_multiple(prefix).ok_or_else(wrong)?;
        if !value.is_finite() || value <= 0.0 || value > 1e13 {
            return Err(format!(
                "rate \"{text}\" is out of range; it must be above 0"
            ));
        }
        Ok(if packets {
            Self::PacketsPerSecond(value)
        } else {
            Self::BitsPerSecond(value)
        })
    }
}

impl Span {
    /// Parses `5ns`, `250us`, `10ms`, `2s`.
    ///
    /// # Errors
    /// A sentence that shows the accepted form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not a time; write it like 250us, 10ms or 2s");
        let (number, unit) = split_number(text).ok_or_else(wrong)?;
        let scale = match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" | "min" => 60e9,
            _ => return Err(wrong()),
        };
        let ns = number * scale;
        if ns > 1e18 {
            return Err(format!("time \"{text}\" is out of range"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked"
        )]
        Ok(Self {
            ns: ns.round() as u64,
        })
    }
}

impl ByteSize {
    /// Parses `1500`, `64B`, `2kB`, `128KiB`, `1MiB`.
    ///
    /// # Errors
    /// A sentence that shows the accepted form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not a size; write it like 1500B, 2kB or 128KiB");
        let (number, unit) = split_number(text).ok_or_else(wrong)?;
        let scale = match unit {
            "" | "B" => 1.0,
            "kB" | "KB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            "KiB" | "kiB" => 1024.0,
            "MiB" => 1_048_576.0,
            "GiB" => 1_073_741_824.0,
            _ => return Err(wrong()),
        };
        let bytes = number * scale;
        if bytes > 1e15 {
            return Err(format!("size \"{text}\" is out of range"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked"
        )]
        Ok(Self {
            bytes: bytes.round() as u64,
        })
    }
}

impl Share {
    /// Parses `2.5%` or `0.025`.
    ///
    /// # Errors
    /// A sentence that shows the accepted form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not a share; write it like 2.5% or 0.025");
        let (number, unit) = split_number(text).ok_or_else(wrong)?;
        let share = match unit {
            "" => number,
            "%" => number / 100.0,
            _ => return Err(wrong()),
        };
        if !(0.0..=1.0).contains(&share) {
            return Err(format!(
                "share \"{text}\" is out of range; it must lie within 0% and 100%"
            ));
        }
        Ok(Self(share))
    }
}

/// Text or number, as YAML gives it.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Scalar {
    Number(f64),
    Text(String),
}

impl Scalar {
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

/// Reads a type written as one word or number from chain files with its `parse`.
macro_rules! quantity {
    ($type:ident, $pattern:literal, $example:literal) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = $crate::units::Scalar::deserialize(deserializer)?.into_text();
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": ["string", "number"],
                    "pattern": $pattern,
                    "examples": [$example],
                })
            }
        }
    };
}

pub(crate) use quantity;

quantity!(Rate, "^[0-9._]+ *[kKMG]?(pps|bps)$", "10kpps");
quantity!(Span, "^[0-9._]+ *(ns|us|µs|ms|s|m|min)$", "250us");
quantity!(
    ByteSize,
    "^[0-9._]+ *(B|kB|KB|MB|GB|KiB|kiB|MiB|GiB)?$",
    "128KiB"
);
quantity!(Share, "^[0-9._]+ *%?$", "2.5%");

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::PacketsPerSecond(rate) => serializer.serialize_str(&format!("{rate}pps")),
            Self::BitsPerSecond(rate) => serializer.serialize_str(&format!("{rate}bps")),
        }
    }
}

/// A number with the first of some units that has it whole, the largest first, the last being 1.
fn with_unit(number: u64, units: &[(u64, &str)]) -> String {
    let has_whole = |(unit, _): &&(u64, &str)| number.is_multiple_of(*unit);
    let (unit, name) = units.iter().find(has_whole).copied().unwrap_or((1, ""));
    format!("{}{name}", number / unit)
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let units = [
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1000, "us"),
            (1, "ns"),
        ];
        serializer.serialize_str(&with_unit(self.ns, &units))
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let units = [
            (1 << 30, "GiB"),
            (1 << 20, "MiB"),
            (1 << 10, "KiB"),
            (1, "B"),
        ];
        serializer.serialize_str(&with_unit(self.bytes, &units))
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_parse_with_their_units() {
        assert_eq!(Rate::parse("10kpps"), Ok(Rate::PacketsPerSecond(10e3)));
        assert_eq!(Rate::parse("1.5 Gbps"), Ok(Rate::BitsPerSecond(1.5e9)));
        assert_eq!(Span::parse("250us"), Ok(Span { ns: 250_000 }));
        assert_eq!(Span::parse("1.5ms"), Ok(Span { ns: 1_500_000 }));
        assert_eq!(ByteSize::parse("128KiB"), Ok(ByteSize { bytes: 131_072 }));
        assert_eq!(ByteSize::parse("1500"), Ok(ByteSize { bytes: 1500 }));
        assert_eq!(Share::parse("2.5%"), Ok(Share(0.025)));
    }

    #[test]
    fn wrong_quantities_are_refused_with_the_form() {
        for text in ["10", "kpps", "10xpps", "-1pps", "0pps", ""] {
            let error = Rate::parse(text).unwrap_err();
            assert!(error.contains("rate"), "{text}: {error}");
        }
        for text in ["10", "5h", "ms"] {
            assert!(Span::parse(text).unwrap_err().contains("250us"), "{text}");
        }
        assert!(Share::parse("101%").unwrap_err().contains("within"));
        assert!(ByteSize::parse("12 apples").unwrap_err().contains("128KiB"));
    }

    #[test]
    fn numbers_and_text_deserialise_alike() {
        let size: ByteSize = serde_json::from_value(serde_json::json!(1500)).unwrap();
        assert_eq!(
            size,
            serde_json::from_value(serde_json::json!("1500")).unwrap()
        );
    }

    /// What schemas and reports say of defaults is what a chain file could say.
    #[test]
    fn what_is_written_is_read_back() {
        for ns in [
            0,
            1,
            999,
            1000,
            1500,
            250_000,
            1_000_000,
            3_000_000_000,
            3_000_000_001,
        ] {
            let text = serde_json::to_value(Span { ns }).unwrap();
            assert_eq!(
                Span::parse(text.as_str().unwrap()),
                Ok(Span { ns }),
                "{text}"
            );
        }
        for bytes in [0, 1, 1023, 4096, 6 << 20, (6 << 20) + 1, 1 << 40] {
            let text = serde_json::to_value(ByteSize { bytes }).unwrap();
            let read = ByteSize::parse(text.as_str().unwrap());
            assert_eq!(read, Ok(ByteSize { bytes }), "{text}");
        }
        let shown = [250_000, 3_000_000_000].map(|ns| serde_json::json!(Span { ns }));
        assert_eq!(shown, ["250us", "3s"]);
        assert_eq!(serde_json::json!(ByteSize { bytes: 8192 }), "8KiB");
        assert_eq!(serde_json::json!(Share(0.25)), 0.25);
    }
}
