//! `ttl`: takes one hop off the IPv4 time to live or the IPv6 hop limit, as a router does.
//!
//! The IPv4 header checksum is brought up to date from the old and the new value (RFC 1624), so a
//! wrong checksum stays wrong and is found by the receiver. VLAN tags are skipped. No ICMP error is
//! sent. Standards: RFC 1812 5.3.1 (IPv4), RFC 8200 3 (IPv6).
//!
//! ```yaml
//! nfs:
//!   hop: { type: ttl, non_ip: pass }
//! ```
//!
//! Drops: `ttl_expired`, no hop would be left; `malformed`, an Ethernet, VLAN or IP header is cut
//! short or inconsistent; `not_ip`, if `non_ip` is `drop`.

use catena_wire::ethernet::{self, EtherType};
use catena_wire::{ParseError, ipv4, ipv6, vlan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::parse_config;
use crate::nf::{BuiltNf, Burst, DropReason, Nanos, Nf, NfKind, NfPlan, Verdict};
use crate::shard::Sharding;

const TTL_EXPIRED: DropReason = DropReason::own(0);
const NOT_IP: DropReason = DropReason::own(1);

/// Configuration of `ttl`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// What becomes of packets that are not IP, such as ARP: `pass` (the default) or `drop`.
    #[serde(default)]
    non_ip: NonIp,
}

/// What becomes of packets that are not IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum NonIp {
    /// They pass unchanged.
    #[default]
    Pass,
    /// They are dropped as `not_ip`.
    Drop,
}

#[derive(Debug)]
struct Ttl {
    non_ip: NonIp,
}

/// Where the header after Ethernet and all tags starts, and its EtherType.
fn network_header(frame: &[u8]) -> Result<(EtherType, usize), ParseError> {
    let mut ether_type = ethernet::View::parse(frame)?.ether_type();
    let mut offset = ethernet::HEADER_LEN;
    while ether_type.is_vlan() {
        ether_type = vlan::View::parse(&frame[offset..])?.ether_type();
        offset += vlan::HEADER_LEN;
    }
    Ok((ether_type, offset))
}

/// Takes one hop off. False if none is left, `None` if the frame is not IP.
fn decrement(frame: &mut [u8]) -> Result<Option<bool>, ParseError> {
    let (ether_type, offset) = network_header(frame)?;
    let packet = &mut frame[offset..];
    Ok(match ether_type {
        EtherType::IPV4 => Some(ipv4::View::parse(packet)?.decrement_ttl()),
        EtherType::IPV6 => Some(ipv6::View::parse(packet)?.decrement_hop_limit()),
        _ => None,
    })
}

impl Nf for Ttl {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        burst.judge_mut(|bytes| self.hop(bytes));
    }
}

impl Ttl {
    #[inline]
    fn hop(&self, bytes: &mut [u8]) -> Verdict {
        Verdict::Drop(match decrement(bytes) {
            Ok(Some(true)) => return Verdict::Output(0),
            Ok(None) if self.non_ip == NonIp::Pass => return Verdict::Output(0),
            Ok(Some(false)) => TTL_EXPIRED,
            Ok(None) => NOT_IP,
            Err(_) => DropReason::Malformed,
        })
    }
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "ttl",
    summary: "Takes one hop off the IPv4 time to live or IPv6 hop limit",
    example: "{}",
    schema: || schemars::schema_for!(Config),
    plan: |config, _outputs| {
        parse_config::<Config>(config)?;
        let plan = NfPlan::new().writes().changes_no_key();
        let plan = plan.sharding(Sharding::Any);
        Ok(plan.drop_reasons(["ttl_expired", "not_ip"]))
    },
    build: |config, _context| {
        let Config { non_ip } = parse_config(config)?;
        Ok(BuiltNf::new(Ttl { non_ip }))
    },
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

    fn packet(ttl: u8) -> IpPacket<'static> {
        IpPacket {
            ttl,
            ..IpPacket::default()
        }
    }

    fn packet_v6(ttl: u8) -> IpPacket<'static> {
        IpPacket {
            src: "2001:db8::1",
            dst: "2001:db8::2",
            ..packet(ttl)
        }
    }

    /// Method: the expected frame is built anew with one hop less, its checksum computed in full.
    #[test]
    fn one_hop_less_and_the_checksum_as_if_computed_anew() {
        let mut bench = bench(json!({}));
        for ttl in 2..=255 {
            for (before, after) in [
                (packet(ttl).ports(1, 2), packet(ttl - 1).ports(1, 2)),
                (packet_v6(ttl).ports(1, 2), packet_v6(ttl - 1).ports(1, 2)),
            ] {
                let result = bench.process_one(&before);
                assert_eq!(result.verdict, Verdict::Output(0), "{ttl}");
                assert_eq!(result.bytes, after, "{ttl}");
                let before = tagged(&tagged(&before, 0x8100, 5), 0x88a8, 6);
                let after = tagged(&tagged(&after, 0x8100, 5), 0x88a8, 6);
                assert_eq!(bench.process_one(&before).bytes, after, "{ttl}, tagged");
            }
        }
        assert_eq!(bench.buffers_in_use(), 0);
    }

    #[test]
    fn the_last_hop_expires_and_the_packet_is_unchanged() {
        let mut bench = bench(json!({}));
        for ttl in [0, 1] {
            for frame in [packet(ttl).ports(1, 2), packet_v6(ttl).ports(1, 2)] {
                let result = bench.process_one(&frame);
                assert_eq!(result.verdict, Verdict::Drop(TTL_EXPIRED));
                assert_eq!(result.bytes, frame);
            }
        }
    }

    #[test]
    fn a_wrong_checksum_stays_wrong() {
        let mut frame = packet(64).ports(1, 2);
        frame[24] ^= 0x40;
        let result = bench(json!({})).process_one(&frame);
        let view = ipv4::View::parse(&result.bytes[14..]).unwrap();
        assert_eq!(view.ttl(), 63);
        assert!(!view.checksum_is_valid());
    }

    #[test]
    fn packets_that_are_not_ip_pass_or_drop_as_configured() {
        let arp = ethernet(EtherType::ARP, &[0; 28]);
        let length_typed = ethernet(EtherType(3), &[0x42, 0x42, 3]);
        for frame in [arp, length_typed] {
            for (config, verdict) in [
                (json!({}), Verdict::Output(0)),
                (json!({"non_ip": "pass"}), Verdict::Output(0)),
                (json!({"non_ip": "drop"}), Verdict::Drop(NOT_IP)),
            ] {
                let result = bench(config).process_one(&frame);
                assert_eq!(result.verdict, verdict);
                assert_eq!(result.bytes, frame);
            }
        }
    }

    #[test]
    fn cut_and_inconsistent_headers_are_malformed() {
        let mut bench = bench(json!({}));
        let malformed = Verdict::Drop(DropReason::Malformed);
        for frame in [packet(64).ports(1, 2), packet_v6(64).ports(1, 2)] {
            let frame = tagged(&frame, 0x8100, 5);
            for len in 1..frame.len() {
                let result = bench.process_one(&frame[..len]);
                assert_eq!(result.verdict, malformed, "cut at {len}");
                assert_eq!(result.bytes, frame[..len]);
            }
            let mut wrong_version = frame.clone();
            wrong_version[18] = 0x55;
            assert_eq!(bench.process_one(&wrong_version).verdict, malformed);
        }
        let mut short_header = packet(64).ports(1, 2);
        short_header[14] = 0x44;
        assert_eq!(bench.process_one(&short_header).verdict, malformed);
    }

    #[test]
    fn wrong_configurations_are_refused_with_the_field() {
        let errors = NfBench::new(&KIND, &json!({"non_ip": "permit"}), &[]).unwrap_err();
        assert_eq!(errors[0].path, "non_ip");
    }
}
