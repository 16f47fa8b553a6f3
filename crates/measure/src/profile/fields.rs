//! Fields of a profile that are written in more than one way: sizes, VLANs.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize};

/// Frame sizes with their shares, FCS counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sizes(pub Vec<SizeShare>);

/// A size and how many of the packets have it, in parts of the sum of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeShare {
    /// Bytes with FCS.
    pub size: usize,
    /// Parts.
    #[serde(default = "one_part")]
    pub parts: u32,
}

fn one_part() -> u32 {
    1
}

const fn share(size: usize, parts: u32) -> SizeShare {
    SizeShare { size, parts }
}

/// The mix that most testers call IMIX: 7 of 64, 4 of 594, 1 of 1518 bytes.
const IMIX: [SizeShare; 3] = [share(64, 7), share(594, 4), share(1518, 1)];
/// FD.io CSIT's: 28 of 64, 16 of 570, 4 of 1518 bytes.
const CSIT_IMIX: [SizeShare; 3] = [share(64, 28), share(570, 16), share(1518, 4)];

impl Default for Sizes {
    fn default() -> Self {
        Self(vec![share(64, 1)])
    }
}

impl Sizes {
    /// Mean size.
    pub fn mean(&self) -> f64 {
        let parts: f64 = self.0.iter().map(|share| f64::from(share.parts)).sum();
        let sum = |share: &SizeShare| share.size as f64 * f64::from(share.parts);
        self.0.iter().map(sum).sum::<f64>() / parts.max(1.0)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "this is no size; write 64, imix, csit-imix, or a list of sizes"
)]
enum Written {
    One(usize),
    Named(Mix),
    Several(Vec<Entry>),
}

/// A mix that has a name.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Mix {
    Imix,
    CsitImix,
}

#[derive(Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "this is no size; write 64, or {size: 64, parts: 7}"
)]
enum Entry {
    Plain(usize),
    Share(SizeShare),
}

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Written::deserialize(deserializer)? {
            Written::One(size) => vec![share(size, 1)],
            Written::Named(Mix::Imix) => IMIX.to_vec(),
            Written::Named(Mix::CsitImix) => CSIT_IMIX.to_vec(),
            Written::Several(entries) => entries
                .into_iter()
                .map(|entry| match entry {
                    Entry::Plain(size) => share(size, 1),
                    Entry::Share(share) => share,
                })
                .collect(),
        }))
    }
}

impl JsonSchema for Sizes {
    fn schema_name() -> Cow<'static, str> {
        "Sizes".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Written::json_schema(generator)
    }
}

/// VLAN identifiers, outermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Vlans(pub Vec<u16>);

#[derive(Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "this is no VLAN; write 100, or a list like [200, 100]"
)]
enum WrittenVlans {
    One(u16),
    Several(Vec<u16>),
}

impl<'de> Deserialize<'de> for Vlans {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match WrittenVlans::deserialize(deserializer)? {
            WrittenVlans::One(vlan) => vec![vlan],
            WrittenVlans::Several(vlans) => vlans,
        }))
    }
}

impl JsonSchema for Vlans {
    fn schema_name() -> Cow<'static, str> {
        "Vlans".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        WrittenVlans::json_schema(generator)
    }
}
