//! `count`: counts packets and bytes, by size, by EtherType and by IP protocol.
//!
//! Passes every packet on unchanged and drops nothing: a packet with a malformed header is counted
//! as `malformed` and not by type. Sizes are sorted into the classes of RFC 2819 (RMON,
//! etherStats), which count the FCS; `bytes` do not. EtherTypes are those behind VLAN tags;
//! protocols those behind IPv6 extension headers.
//!
//! ```yaml
//! nfs:
//!   seen: { type: count }
//! ```
//!
//! Control requests: `{"show": "counts"}` answers with all of them, `{"reset": true}` sets them to
//! zero. EtherTypes beyond the first 30 different ones count as `other`.

use catena_wire::dissect::Dissected;
use catena_wire::ethernet::EtherType;
use catena_wire::ip::Protocol;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::config::parse_config;
use crate::nf::{Access, BuiltNf, Burst, Inputs, Nanos, Nf, NfKind, Verdict};

/// `count` takes no configuration.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {}

/// Size classes of RFC 2819: the largest frame of each, with FCS, and its name.
const SIZE_CLASSES: [(usize, &str); 7] = [
    (64, "up_to_64"),
    (127, "65_to_127"),
    (255, "128_to_255"),
    (511, "256_to_511"),
    (1023, "512_to_1023"),
    (1518, "1024_to_1518"),
    (usize::MAX, "above_1518"),
];

const FCS_LEN: usize = 4;

/// EtherTypes counted one by one; a search among them stays within a few cache lines.
const ETHER_TYPE_COUNT_MAX: usize = 30;

#[derive(Clone, Debug)]
struct Counts {
    packets: u64,
    bytes: u64,
    malformed: u64,
    sizes: [u64; SIZE_CLASSES.len()],
    /// In order of appearance; a slot with count 0 is free.
    ether_types: [(EtherType, u64); ETHER_TYPE_COUNT_MAX],
    ether_types_other: u64,
    protocols: [u64; 256],
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            packets: 0,
            bytes: 0,
            malformed: 0,
            sizes: [0; SIZE_CLASSES.len()],
            ether_types: [(EtherType(0), 0); ETHER_TYPE_COUNT_MAX],
            ether_types_other: 0,
            protocols: [0; 256],
        }
    }
}

impl Counts {
    fn add(&mut self, frame: &[u8]) {
        self.packets += 1;
        self.bytes += frame.len() as u64;
        let class = SIZE_CLASSES
            .iter()
            .position(|(len_max, _)| frame.len() + FCS_LEN <= *len_max);
        self.sizes[class.unwrap_or(SIZE_CLASSES.len() - 1)] += 1;
        let Ok(dissected) = Dissected::parse(frame) else {
            self.malformed += 1;
            return;
        };
        // A length instead of a type is a class of its own, named by its smallest value.
        let ether_type = match dissected.ether_type {
            length if length.is_length() => LENGTH,
            ether_type => ether_type,
        };
        let mut slots = self.ether_types.iter_mut();
        match slots.find(|(known, count)| *known == ether_type || *count == 0) {
            Some(slot) => *slot = (ether_type, slot.1 + 1),
            None => self.ether_types_other += 1,
        }
        if let Some(ip) = dissected.ip {
            self.protocols[usize::from(ip.protocol.0)] += 1;
        }
    }

    fn to_json(&self) -> Value {
        let named = |counts: &mut dyn Iterator<Item = (String, u64)>| -> Map<String, Value> {
            counts
                .filter(|(_, count)| *count != 0)
                .map(|(name, count)| (name, count.into()))
                .collect()
        };
        let sizes = SIZE_CLASSES.iter().zip(&self.sizes);
        let sizes: Map<_, _> = sizes
            .map(|((_, name), count)| ((*name).to_owned(), (*count).into()))
            .collect();
        let other = ("other".to_owned(), self.ether_types_other);
        let ether_types = self.ether_types.iter().map(|(ether_type, count)| {
            let name = match *ether_type {
                LENGTH => "length".to_owned(),
                ether_type => ether_type.to_string(),
            };
            (name, *count)
        });
        let protocols = (0..=u8::MAX).zip(&self.protocols);
        json!({
            "packets": self.packets,
            "bytes": self.bytes,
            "malformed": self.malformed,
            "sizes": sizes,
            "ether_types": named(&mut ether_types.chain([other])),
            "protocols": named(
                &mut protocols.map(|(number, count)| (Protocol(number).to_string(), *count)),
            ),
        })
    }
}

/// How frames with a length in place of an EtherType are counted.
const LENGTH: EtherType = EtherType(0);

#[derive(Debug, Default)]
struct Count {
    counts: Counts,
}

impl Nf for Count {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        burst.judge(|bytes| {
            self.counts.add(bytes);
            Verdict::Output(0)
        });
    }

    fn control(&mut self, request: &Value) -> Result<Value, String> {
        if *request == json!({"show": "counts"}) {
            Ok(self.counts.to_json())
        } else if *request == json!({"reset": true}) {
            self.counts = Counts::default();
            Ok(json!({}))
        } else {
            Err("count answers {\"show\": \"counts\"} and {\"reset\": true}".to_owned())
        }
    }
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "count",
    summary: "Counts packets and bytes, by size, EtherType and IP protocol",
    access: Access::Read,
    inputs: Inputs::One,
    allocates: false,
    headroom: 0,
    schema: || schemars::schema_for!(Config),
    build: |config, _outputs| {
        parse_config::<Config>(config)?;
        Ok(BuiltNf::single(Count::default()))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nf_bench::NfBench;
    use crate::nfs::frames::{IpPacket, ethernet, tagged};

    fn bench() -> NfBench {
        NfBench::new(&KIND, &json!({}), &[]).unwrap()
    }

    fn shown(bench: &mut NfBench) -> Value {
        bench.nf().control(&json!({"show": "counts"})).unwrap()
    }

    #[test]
    fn packets_pass_unchanged_and_are_counted_by_size_and_type() {
        let mut bench = bench();
        let udp = IpPacket::default().ports(1, 2);
        let tcp = IpPacket {
            src: "2001:db8::1",
            dst: "2001:db8::2",
            protocol: Protocol::TCP,
            ..IpPacket::default()
        };
        let tcp = tagged(&tcp.ports(1, 2), 0x8100, 9);
        let arp = ethernet(EtherType::ARP, &[0; 200]);
        let spanning_tree = ethernet(EtherType(3), &[0x42, 0x42, 3]);
        let cut = &udp[..30];
        let frames: [&[u8]; 6] = [&udp, &tcp, &arp, &spanning_tree, cut, &udp];
        let result = bench.process(&frames);
        for (packet, frame) in result.packets.iter().zip(frames) {
            assert_eq!(packet.verdict, Verdict::Output(0));
            assert_eq!(packet.bytes, frame);
        }
        let expected = json!({
            "packets": 6,
            "bytes": frames.iter().map(|frame| frame.len()).sum::<usize>(),
            "malformed": 1,
            "sizes": {
                "up_to_64": 4, "65_to_127": 1, "128_to_255": 1, "256_to_511": 0,
                "512_to_1023": 0, "1024_to_1518": 0, "above_1518": 0,
            },
            "ether_types": {"ipv4": 2, "ipv6": 1, "arp": 1, "length": 1},
            "protocols": {"udp": 2, "tcp": 1},
        });
        assert_eq!(shown(&mut bench), expected);
        assert_eq!(bench.buffers_in_use(), 0);
    }

    #[test]
    fn size_classes_count_the_fcs() {
        let mut bench = bench();
        // Lengths without FCS at both sides of each border.
        for len in [60, 61, 123, 124, 251, 252, 507, 508, 1019, 1020, 1514, 1515] {
            bench.process_one(&ethernet(EtherType(0x88b5), &vec![0; len - 14]));
        }
        let expected = json!({
            "up_to_64": 1, "65_to_127": 2, "128_to_255": 2, "256_to_511": 2,
            "512_to_1023": 2, "1024_to_1518": 2, "above_1518": 1,
        });
        assert_eq!(shown(&mut bench)["sizes"], expected);
    }

    #[test]
    fn ether_types_beyond_the_table_count_as_other() {
        let mut bench = bench();
        for ether_type in 0x9000..0x9028 {
            bench.process_one(&ethernet(EtherType(ether_type), &[0; 46]));
        }
        let counts = shown(&mut bench);
        assert_eq!(counts["ether_types"]["other"], 10);
        assert_eq!(counts["ether_types"]["0x901d"], 1);
        assert_eq!(counts["ether_types"]["0x901e"], Value::Null);
    }

    #[test]
    fn reset_starts_from_zero_and_other_requests_are_refused() {
        let mut bench = bench();
        bench.process_one(&[1]);
        assert_eq!(shown(&mut bench)["malformed"], 1);
        bench.nf().control(&json!({"reset": true})).unwrap();
        assert_eq!(shown(&mut bench)["packets"], 0);
        let error = bench.nf().control(&json!({"show": "hits"})).unwrap_err();
        assert!(error.contains("counts"), "{error}");
    }
}
