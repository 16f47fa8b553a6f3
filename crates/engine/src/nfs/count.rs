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
//! The counts outlive the NF: a kill, or a change of the chain that leaves the node where it is,
//! loses none. Control requests: `{"show": "counts"}` answers with all of them, `{"reset": true}`
//! sets them to zero. EtherTypes beyond the first 30 different ones count as `other`.

use std::ops::DerefMut;

use catena_wire::dissect::Dissected;
use catena_wire::ethernet::EtherType;
use catena_wire::ip::Protocol;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::config::parse_config;
use crate::nf::{BuiltNf, Burst, Nanos, Nf, NfKind, NfPlan, StatePlan, Verdict};
use crate::shard::Sharding;

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

/// Where each count lies, as a number of words of 8 bytes.
const PACKETS: usize = 0;
const BYTES: usize = 1;
const MALFORMED: usize = 2;
const SIZES: usize = 3;
const ETHER_TYPES_OTHER: usize = SIZES + SIZE_CLASSES.len();
const PROTOCOLS: usize = ETHER_TYPES_OTHER + 1;
/// In order of appearance, each a type and its count; one with count 0 is free.
const ETHER_TYPES: usize = PROTOCOLS + 256;
const WORDS: usize = ETHER_TYPES + 2 * ETHER_TYPE_COUNT_MAX;

/// The counts, in memory that outlives the NF. Each is one word, written whole: whatever a kill
/// leaves is right but for the packet that was being counted.
struct Counts {
    memory: Box<dyn DerefMut<Target = [u8]> + Send>,
}

/// The counts, while they are looked at or added to.
struct Words<'a>(&'a mut [[u8; 8]]);

impl Words<'_> {
    fn add(&mut self, at: usize, count: u64) {
        let sum = u64::from_ne_bytes(self.0[at]).wrapping_add(count);
        self.0[at] = sum.to_ne_bytes();
    }
}

impl Words<'_> {
    fn add_ether_type(&mut self, ether_type: EtherType) {
        let known = u64::from(ether_type.0).to_ne_bytes();
        for slot in 0..ETHER_TYPE_COUNT_MAX {
            let at = ETHER_TYPES + 2 * slot;
            let is_free = self.0[at + 1] == [0; 8];
            if is_free || self.0[at] == known {
                self.0[at] = known;
                return self.add(at + 1, 1);
            }
        }
        self.add(ETHER_TYPES_OTHER, 1);
    }
}

impl Counts {
    fn words(&mut self) -> Words<'_> {
        Words(self.memory.as_chunks_mut().0)
    }

    fn get(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.memory.as_chunks().0[at])
    }

    fn range(&self, from: usize, count: usize) -> impl Iterator<Item = u64> {
        (from..from + count).map(move |at| self.get(at))
    }

    fn reset(&mut self) {
        self.memory.fill(0);
    }

    fn add(&mut self, frame: &[u8]) {
        let mut words = self.words();
        words.add(PACKETS, 1);
        words.add(BYTES, frame.len() as u64);
        let class = SIZE_CLASSES
            .iter()
            .position(|(len_max, _)| frame.len() + FCS_LEN <= *len_max);
        words.add(SIZES + class.unwrap_or(SIZE_CLASSES.len() - 1), 1);
        let Ok(dissected) = Dissected::parse(frame) else {
            return words.add(MALFORMED, 1);
        };
        // A length instead of a type is a class of its own, named by its smallest value.
        let ether_type = match dissected.ether_type {
            length if length.is_length() => LENGTH,
            ether_type => ether_type,
        };
        words.add_ether_type(ether_type);
        if let Some(ip) = dissected.ip {
            words.add(PROTOCOLS + usize::from(ip.protocol.0), 1);
        }
    }

    fn to_json(&self) -> Value {
        let named = |counts: &mut dyn Iterator<Item = (String, u64)>| -> Map<String, Value> {
            counts
                .filter(|(_, count)| *count != 0)
                .map(|(name, count)| (name, count.into()))
                .collect()
        };
        let sizes = SIZE_CLASSES
            .iter()
            .zip(self.range(SIZES, SIZE_CLASSES.len()));
        let sizes: Map<_, _> = sizes
            .map(|((_, name), count)| ((*name).to_owned(), count.into()))
            .collect();
        let other = ("other".to_owned(), self.get(ETHER_TYPES_OTHER));
        let ether_types = (0..ETHER_TYPE_COUNT_MAX).map(|slot| {
            let at = ETHER_TYPES + 2 * slot;
            // Whatever stands there: no type is wider.
            let name = match EtherType(u16::try_from(self.get(at)).unwrap_or(u16::MAX)) {
                LENGTH => "length".to_owned(),
                ether_type => ether_type.to_string(),
            };
            (name, self.get(at + 1))
        });
        let protocols = (0..=u8::MAX).zip(self.range(PROTOCOLS, 256));
        json!({
            "packets": self.get(PACKETS),
            "bytes": self.get(BYTES),
            "malformed": self.get(MALFORMED),
            "sizes": sizes,
            "ether_types": named(&mut ether_types.chain([other])),
            "protocols": named(
                &mut protocols.map(|(number, count)| (Protocol(number).to_string(), count)),
            ),
        })
    }
}

/// How frames with a length in place of an EtherType are counted.
const LENGTH: EtherType = EtherType(0);

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
            self.counts.reset();
            Ok(json!({}))
        } else {
            Err("count answers {\"show\": \"counts\"} and {\"reset\": true}".to_owned())
        }
    }
}

/// Name of its memory.
const COUNTS: &str = "counts";

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "count",
    summary: "Counts packets and bytes, by size, EtherType and IP protocol",
    example: "{}",
    schema: || schemars::schema_for!(Config),
    plan: |config, _outputs| {
        parse_config::<Config>(config)?;
        let plan = NfPlan::new().sharding(Sharding::Any).state(StatePlan {
            name: COUNTS.to_owned(),
            bytes: 8 * WORDS,
            layout: 1,
            is_shared: false,
        });
        let plan = plan.carries_segments();
        Ok(plan.requests([
            (
                r#"{"show": "counts"}"#,
                "packets and bytes, by size and type",
            ),
            (r#"{"reset": true}"#, "all counts begin again at 0"),
        ]))
    },
    build: |config, context| {
        parse_config::<Config>(config)?;
        let state = context.take_state(COUNTS);
        // Without a supervisor there is nobody who keeps it.
        let memory = state.and_then(|state| state.memory.into_bytes());
        let memory = memory.unwrap_or_else(|| Box::new(vec![0; 8 * WORDS]));
        let counts = Counts { memory };
        Ok(BuiltNf::new(Count { counts }))
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
