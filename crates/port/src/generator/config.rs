//! What a chain file says of a `generator`: which packets to make, and how fast.

use catena_engine::config::{ConfigError, ConfigErrors, Mac};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::offered::Offered;

/// Most lengths in a list: their templates stay in the second-level cache.
pub const SIZE_COUNT_MAX: usize = 64;
/// Shortest frame, without FCS (IEEE 802.3 3.2.7 less its 4 bytes).
pub const SIZE_MIN: usize = 60;
/// Longest frame, without FCS: a jumbo frame.
pub const SIZE_MAX: usize = 9000;
/// Most flows: host and port tell so many apart, and a sink keeps 24 bytes for each.
pub const FLOW_COUNT_MAX: u32 = 1 << 20;

pub(super) const UDP_LEN: usize = 8;
const ETHERNET_LEN: usize = 14;
const TAG_LEN: usize = 4;

/// What to make.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// How fast: a rate of packets (`10kpps`) or bits without FCS (`1Gbps`), or `max`.
    #[serde(default)]
    pub(super) rate: Offered,
    /// Length of the packets in bytes, without FCS; several are used in turn.
    #[serde(default)]
    pub(super) size: Sizes,
    /// How many packets to make, then the port has finished; without it, it never does.
    pub(super) count: Option<u64>,
    /// How many flows to make packets of, in turn.
    #[serde(default = "one")]
    pub(super) flows: u32,
    /// `udp` over IPv4 or `udp6` over IPv6.
    #[serde(default)]
    pub(super) protocol: IpVersion,
    /// VLAN identifier of the packets, 0 to 4095; untagged without it.
    pub(super) vlan: Option<u16>,
    /// What fills the payload behind the sequence number.
    #[serde(default)]
    pub(super) payload: Filling,
    /// Destination address.
    #[serde(default = "dst_mac")]
    pub(super) dst_mac: Mac,
    /// Source address.
    #[serde(default = "src_mac")]
    pub(super) src_mac: Mac,
}

fn one() -> u32 {
    1
}

fn dst_mac() -> Mac {
    Mac([2, 0, 0, 0, 0, 2])
}

fn src_mac() -> Mac {
    Mac([2, 0, 0, 0, 0, 1])
}

/// One length or several.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "write a number of bytes, or a list of them")]
pub(super) enum Sizes {
    One(usize),
    Several(Vec<usize>),
}

impl Default for Sizes {
    fn default() -> Self {
        Self::One(64)
    }
}

impl Sizes {
    pub(super) fn as_slice(&self) -> &[usize] {
        match self {
            Self::One(size) => std::slice::from_ref(size),
            Self::Several(sizes) => sizes,
        }
    }
}

/// What carries UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(super) enum IpVersion {
    #[default]
    #[serde(rename = "udp")]
    Four,
    #[serde(rename = "udp6")]
    Six,
}

impl IpVersion {
    pub(super) const fn header_len(self) -> usize {
        match self {
            Self::Four => 20,
            Self::Six => 40,
        }
    }
}

/// What fills a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Filling {
    /// Bytes 0, 1, 2 and so on.
    #[default]
    Counting,
    /// Bytes of 0.
    Zeros,
    /// Bytes of 255.
    Ones,
    /// The same arbitrary bytes in every packet.
    Random,
}

impl Config {
    pub(super) fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = Vec::new();
        let sizes = self.size.as_slice();
        if sizes.is_empty() || sizes.len() > SIZE_COUNT_MAX {
            errors.push(ConfigError::new(
                "size",
                format!("there are {} sizes", sizes.len()),
                format!("give 1 to {SIZE_COUNT_MAX}"),
            ));
        }
        let least = SIZE_MIN.max(headers_len(self.protocol, self.vlan.is_some()));
        for (index, size) in sizes.iter().enumerate() {
            if !(least..=SIZE_MAX).contains(size) {
                let path = match self.size {
                    Sizes::One(_) => "size".to_owned(),
                    Sizes::Several(_) => format!("size[{index}]"),
                };
                errors.push(ConfigError::new(
                    path,
                    format!("{size} bytes do not hold these headers, or are too many"),
                    format!("give {least} to {SIZE_MAX}"),
                ));
            }
        }
        if !(1..=FLOW_COUNT_MAX).contains(&self.flows) {
            errors.push(ConfigError::new(
                "flows",
                format!("{} is out of range", self.flows),
                format!("give 1 to {FLOW_COUNT_MAX}"),
            ));
        }
        if self.vlan.is_some_and(|vlan| vlan > 4095) {
            errors.push(ConfigError::new(
                "vlan",
                "a VLAN identifier has 12 bits",
                "give 0 to 4095",
            ));
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }
}

/// Bytes in front of the payload.
pub(super) fn headers_len(version: IpVersion, has_tag: bool) -> usize {
    let tag = if has_tag { TAG_LEN } else { 0 };
    ETHERNET_LEN + tag + version.header_len() + UDP_LEN
}
