//! The load that whoever makes packets offers to a chain, as chain files and profiles say it.

use std::borrow::Cow;

use catena_engine::units::Rate;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A rate, or as fast as there is room.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Offered {
    /// Whenever there is room. Every packet is due when it is made, so none is ever late and
    /// latency does not count what waited outside.
    #[default]
    Max,
    /// At a rate.
    Rate(Rate),
}

impl<'de> Deserialize<'de> for Offered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A number without its unit is refused by its own text, as other rates are.
        let text = match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        match text.as_str() {
            "max" => Ok(Self::Max),
            rate => Rate::parse(rate)
                .map(Self::Rate)
                .map_err(|error| serde::de::Error::custom(format!("{error}, or max"))),
        }
    }
}

impl Serialize for Offered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Max => serializer.serialize_str("max"),
            Self::Rate(rate) => rate.serialize(serializer),
        }
    }
}

impl JsonSchema for Offered {
    fn schema_name() -> Cow<'static, str> {
        "Offered".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": "max" }, generator.subschema_for::<Rate>()] })
    }
}
