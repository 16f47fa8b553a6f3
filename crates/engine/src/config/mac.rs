//! Addresses of frames in chain files and profiles.
//!
//! Control path only.

use std::borrow::Cow;

use catena_wire::ethernet::MacAddr;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An Ethernet address, as in `02:00:00:00:00:01`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let address: Result<MacAddr, _> = text.parse();
        address.map(|address| Self(address.0)).map_err(|_| {
            serde::de::Error::custom(format!(
                "\"{text}\" is not an Ethernet address; write it like 02:00:00:00:00:01"
            ))
        })
    }
}

impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&MacAddr(self.0))
    }
}

impl JsonSchema for Mac {
    fn schema_name() -> Cow<'static, str> {
        "Mac".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$" })
    }
}
