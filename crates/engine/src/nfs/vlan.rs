//! `vlan`: pushes or pops one VLAN tag.
//!
//! A pushed tag becomes the outermost, in front of whatever tags there are; popping removes the
//! outermost, C-tag or S-tag. Two tags (QinQ, IEEE 802.1Q-2022 9.6) are two of these NFs in a row.
//!
//! ```yaml
//! nfs:
//!   customer: { type: vlan, push: { id: 100, pcp: 3 } }
//!   service:  { type: vlan, push: { id: 7, tpid: 0x88a8 } }
//!   untag:    { type: vlan, pop: true }
//! ```
//!
//! Drops: `no_vlan_tag`, nothing to pop; `no_headroom`, the buffer has no 4 bytes in front for the
//! tag; `malformed`, shorter than an Ethernet header, or than the tag it announces. Nothing is
//! padded and no maximum is enforced: a frame may leave 4 bytes longer than the next port can send.

use catena_wire::ethernet::{self, EtherType};
use catena_wire::vlan;
use schemars::JsonSchema;
use serde::Deserialize;

use super::matching::EtherTypeName;
use crate::config::{ConfigError, ConfigErrors, parse_config};
use crate::nf::{BuiltNf, Burst, DropReason, Nanos, Nf, NfKind, NfPlan, Verdict};
use crate::packet::Packet;
use crate::shard::Sharding;

const NO_VLAN_TAG: DropReason = DropReason::own(0);

/// Configuration of `vlan`: exactly one of `push` and `pop`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The tag to push; none if left out.
    push: Option<PushConfig>,
    /// Whether to pop the outermost tag.
    #[serde(default)]
    pop: bool,
}

/// The tag to push.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PushConfig {
    /// VLAN identifier, 0 to 4094; 0 tags the priority alone.
    id: u16,
    /// Priority code point, 0 to 7; 0 if left out.
    #[serde(default)]
    pcp: u8,
    /// Which tag: 0x8100 (C-tag, the default) or 0x88a8 (S-tag).
    #[serde(default = "customer_tag")]
    tpid: EtherTypeName,
}

fn customer_tag() -> EtherTypeName {
    EtherTypeName(EtherType::CUSTOMER_VLAN)
}

/// How much a tag adds to the frame: the TPID and the tag control information.
const TAG_LEN: usize = vlan::HEADER_LEN;
/// Where tags are: after both addresses.
const ADDRESSES_LEN: usize = ethernet::HEADER_LEN - 2;

#[derive(Clone, Copy, Debug)]
enum Vlan {
    /// The tag; its EtherType is that of each frame.
    Push {
        tpid: EtherType,
        tag: vlan::Header,
    },
    Pop,
}

fn push(packet: &mut Packet, tpid: EtherType, mut tag: vlan::Header) -> Result<(), DropReason> {
    // Not parsed as a frame: a length and the payload it announces are carried on, right or wrong.
    let Some(&[high, low]) = packet.bytes().get(ADDRESSES_LEN..ethernet::HEADER_LEN) else {
        return Err(DropReason::Malformed);
    };
    tag.ether_type = EtherType(u16::from_be_bytes([high, low]));
    packet
        .push_front(TAG_LEN)
        .map_err(|_| DropReason::NoHeadroom)?;
    let bytes = packet.bytes_mut();
    bytes.copy_within(TAG_LEN..TAG_LEN + ADDRESSES_LEN, 0);
    bytes[ADDRESSES_LEN..ethernet::HEADER_LEN].copy_from_slice(&tpid.0.to_be_bytes());
    tag.emit(&mut bytes[ethernet::HEADER_LEN..]);
    Ok(())
}

fn pop(packet: &mut Packet) -> Result<(), DropReason> {
    let bytes = packet.bytes_mut();
    let Some(&[high, low]) = bytes.get(ADDRESSES_LEN..ethernet::HEADER_LEN) else {
        return Err(DropReason::Malformed);
    };
    if !EtherType(u16::from_be_bytes([high, low])).is_vlan() {
        return Err(NO_VLAN_TAG);
    }
    if bytes.len() < ethernet::HEADER_LEN + TAG_LEN {
        return Err(DropReason::Malformed);
    }
    bytes.copy_within(..ADDRESSES_LEN, TAG_LEN);
    packet
        .pull_front(TAG_LEN)
        .map_err(|_| DropReason::Malformed)
}

impl Nf for Vlan {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        burst.each(|packet, verdict| {
            let result = match *self {
                Self::Push { tpid, tag } => push(packet, tpid, tag),
                Self::Pop => pop(packet),
            };
            if let Err(reason) = result {
                *verdict = Verdict::Drop(reason);
            }
        });
    }
}

impl Vlan {
    fn of(config: &serde_json::Value) -> Result<Self, ConfigErrors> {
        let config: Config = parse_config(config)?;
        let push = match (config.push, config.pop) {
            (Some(push), false) => push,
            (None, true) => return Ok(Self::Pop),
            (push, _) => {
                let which = if push.is_some() { "both" } else { "neither" };
                return Err(vec![ConfigError::new(
                    "",
                    format!("{which} of push and pop is given"),
                    "write push: { id: 100 } or pop: true; use one NF for each tag",
                )]);
            }
        };
        let mut errors = Vec::new();
        if push.id >= vlan::VID_MAX {
            let message = format!("VLAN identifier {} is out of range", push.id);
            errors.push(ConfigError::new("push.id", message, "write 0 to 4094"));
        }
        if push.pcp > 7 {
            let message = format!("priority code point {} is out of range", push.pcp);
            errors.push(ConfigError::new("push.pcp", message, "write 0 to 7"));
        }
        let EtherTypeName(tpid) = push.tpid;
        if !tpid.is_vlan() {
            let message = format!("0x{:04x} is not the TPID of a VLAN tag", tpid.0);
            let repair = "write 0x8100 for a C-tag or 0x88a8 for an S-tag";
            errors.push(ConfigError::new("push.tpid", message, repair));
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let tag = vlan::Header {
            pcp: push.pcp,
            dei: false,
            vid: push.id,
            ether_type: EtherType(0),
        };
        Ok(Self::Push { tpid, tag })
    }
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "vlan",
    summary: "Pushes or pops one VLAN tag",
    example: r#"{"push": {"id": 100}}"#,
    schema: || schemars::schema_for!(Config),
    plan: |config, _outputs| {
        let plan = NfPlan::new().writes().changes_no_key();
        let plan = plan.sharding(Sharding::Any);
        Ok(match Vlan::of(config)? {
            Vlan::Push { .. } => plan.headroom(4),
            Vlan::Pop => plan.drop_reasons(["no_vlan_tag"]),
        })
    },
    build: |config, _context| Ok(BuiltNf::new(Vlan::of(config)?)),
};

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::nf_bench::NfBench;
    use crate::nfs::frames::{IpPacket, ethernet, tagged};

    fn bench(config: serde_json::Value) -> NfBench {
        NfBench::new(&KIND, &config, &[]).unwrap()
    }

    #[test]
    fn a_pushed_tag_is_the_outermost() {
        let plain = IpPacket::default().ports(1, 2);
        let inner = bench(json!({"push": {"id": 100}})).process_one(&plain);
        assert_eq!(inner.bytes, tagged(&plain, 0x8100, 100));
        let mut outer = bench(json!({"push": {"id": 7, "pcp": 5, "tpid": "0x88a8"}}));
        let outer = outer.process_one(&inner.bytes);
        let mut expected = tagged(&inner.bytes, 0x88a8, 7);
        expected[14] |= 5 << 5;
        assert_eq!(outer.bytes, expected);
        assert_eq!(outer.verdict, Verdict::Output(0));
    }

    #[test]
    fn popping_undoes_pushing_tag_by_tag() {
        let plain = IpPacket::default().ports(1, 2);
        let inner = tagged(&plain, 0x8100, 100);
        let outer = tagged(&inner, 0x88a8, 7);
        let mut bench = bench(json!({"pop": true}));
        assert_eq!(bench.process_one(&outer).bytes, inner);
        assert_eq!(bench.process_one(&inner).bytes, plain);
        let none = bench.process_one(&plain);
        assert_eq!(none.verdict, Verdict::Drop(NO_VLAN_TAG));
        assert_eq!(none.bytes, plain);
        assert_eq!(bench.buffers_in_use(), 0);
    }

    #[test]
    fn every_cut_frame_is_malformed_or_handled() {
        let frame = tagged(&ethernet(EtherType::ARP, &[]), 0x8100, 1);
        let malformed = Verdict::Drop(DropReason::Malformed);
        let mut pop = bench(json!({"pop": true}));
        let mut push = bench(json!({"push": {"id": 1}}));
        for len in 1..=frame.len() {
            let verdict = pop.process_one(&frame[..len]).verdict;
            assert_eq!(verdict == malformed, len < 18, "pop, cut at {len}");
            let verdict = push.process_one(&frame[..len]).verdict;
            assert_eq!(verdict == malformed, len < 14, "push, cut at {len}");
        }
    }

    #[test]
    fn a_tag_needs_headroom() {
        // The bench leaves 64 bytes in front: 16 tags.
        let frame = ethernet(EtherType::ARP, &[0; 28]);
        let mut packet = frame.clone();
        let mut pools = crate::pools::Pools::new(vec![
            catena_shm::pool::PoolOwner::create(
                1,
                catena_shm::pool::PoolGeometry {
                    log2_stride: 11,
                    buffer_count: 2,
                    headroom: 64,
                    bundles: false,
                },
                catena_shm::region::Sharing::ReadWrite,
            )
            .unwrap(),
        ]);
        let mut held = pools.alloc(packet.len()).unwrap();
        held.bytes_mut().copy_from_slice(&packet);
        let tag = vlan::Header {
            pcp: 0,
            dei: false,
            vid: 9,
            ether_type: EtherType(0),
        };
        for _ in 0..16 {
            push(&mut held, EtherType::CUSTOMER_VLAN, tag).unwrap();
            packet = tagged(&packet, 0x8100, 9);
        }
        let full = push(&mut held, EtherType::CUSTOMER_VLAN, tag);
        assert_eq!(full, Err(DropReason::NoHeadroom));
        assert_eq!(held.bytes(), packet);
        pools.free(held);
    }

    #[test]
    fn wrong_configurations_are_refused_with_the_field() {
        let table = [
            (json!({}), "neither of push and pop"),
            (
                json!({"push": {"id": 1}, "pop": true}),
                "both of push and pop",
            ),
            (json!({"push": {"id": 4095}}), "push.id"),
            (json!({"push": {"id": 1, "pcp": 8}}), "push.pcp"),
            (json!({"push": {"id": 1, "tpid": 0x9100}}), "push.tpid"),
            (json!({"push": {"id": 1, "tpid": "x"}}), "push.tpid"),
            (json!({"push": {}}), "push"),
        ];
        for (config, expected) in table {
            let errors = NfBench::new(&KIND, &config, &[]).unwrap_err();
            let text = errors[0].to_string();
            assert!(text.contains(expected), "{config}: {text}");
        }
    }

    #[test]
    fn the_plan_is_that_of_the_configuration() {
        let plan = |config| (KIND.plan)(&config, &[]).unwrap();
        let push = plan(json!({"push": {"id": 5}}));
        let pop = plan(json!({"pop": true}));
        assert_eq!((push.headroom, push.drop_reasons.len()), (4, 0));
        assert_eq!(
            (pop.headroom, pop.drop_reasons),
            (0, vec!["no_vlan_tag".to_owned()])
        );
    }
}
