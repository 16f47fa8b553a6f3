//! `classify`: sends each packet to the output named by the first rule that matches.
//!
//! Rules ask for what `acl` rules ask for, and for EtherType, VLAN and DSCP. What a rule leaves
//! out, it does not ask for, so that a rule may match packets that are not IP. Rules of greater
//! `priority` are tried first, equal ones in file order. A rule with ports matches TCP and UDP
//! only, and no fragment other than the first. Outputs are numbered by the first `to` that names
//! them, `default` last.
//!
//! ```yaml
//! nfs:
//!   sort:
//!     type: classify
//!     default: rest
//!     rules:
//!       - { to: voice, dscp: 46 }
//!       - { to: web, protocol: tcp, dst_port: 443 }
//!       - { to: control, ether_type: arp }
//! links:
//!   - sort.voice -> fast
//!   - sort.web -> proxy
//!   - sort.control -> host
//!   - sort.rest -> out
//! ```
//!
//! Drops: `no_match`, no rule matches and there is no `default`; `malformed`, a header that the
//! rules would have to trust is cut short or inconsistent. EtherTypes are those behind VLAN tags
//! (IEEE 802.1Q), of which the outermost is asked for; DSCP is that of RFC 2474.
//!
//! Control request: `{"show": "hits"}` answers how often each rule decided, in file order.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::matching::{EtherTypeName, Key, Match, PortRange, Prefix, ProtocolName, RuleSet};
use crate::config::{ConfigError, ConfigErrors, parse_config};
use crate::nf::{BuiltNf, Burst, DropReason, Nanos, Nf, NfKind, NfPlan, Verdict};
use crate::shard::Sharding;

const NO_MATCH: DropReason = DropReason::own(0);

/// Configuration of `classify`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The rules, at most 4096.
    #[serde(default)]
    rules: Vec<Rule>,
    /// Output of packets that no rule matches; they are dropped if it is left out.
    default: Option<String>,
}

/// One rule.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// Output of packets that match; several rules may name the same.
    to: String,
    /// Rules of greater priority are tried first; 0 if left out. Equal ones keep their order.
    #[serde(default)]
    priority: u32,
    /// Prefix of the source address: `10.0.0.0/8`, `2001:db8::/32`, or one address; any if left
    /// out.
    src: Option<Prefix>,
    /// Prefix of the destination address; any if left out.
    dst: Option<Prefix>,
    /// Source port of TCP or UDP: `80`, or a range `1024-65535`; any packet if left out.
    src_port: Option<PortRange>,
    /// Destination port of TCP or UDP; any packet if left out.
    dst_port: Option<PortRange>,
    /// Protocol behind IPv6 extension headers: `tcp`, `udp`, `icmp`, `icmpv6`, `sctp`, `gre`,
    /// `esp`, or a number; any if left out.
    protocol: Option<ProtocolName>,
    /// EtherType behind VLAN tags: `ipv4`, `ipv6`, `arp`, `mpls`, `nsh`, or a number like 0x88cc;
    /// any if left out.
    ether_type: Option<EtherTypeName>,
    /// Identifier of the outermost VLAN tag, 0 to 4095; untagged frames have none. Any
    /// frame if left out.
    vlan: Option<u16>,
    /// Differentiated services code point, 0 to 63; any packet if left out.
    dscp: Option<u8>,
}

/// Most outputs: a verdict names its output in one byte.
const OUTPUT_COUNT_MAX: usize = 256;

#[derive(Debug)]
struct Classify {
    rules: RuleSet,
    /// What each rule says.
    verdicts: Vec<Verdict>,
    default: Verdict,
    default_hits: u64,
}

impl Nf for Classify {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        burst.judge(|bytes| self.decide(bytes));
    }

    fn control(&mut self, request: &Value) -> Result<Value, String> {
        if *request == json!({"show": "hits"}) {
            Ok(json!({"rules": self.rules.hits(), "default": self.default_hits}))
        } else {
            Err("classify answers {\"show\": \"hits\"}".to_owned())
        }
    }
}

impl Classify {
    fn decide(&mut self, bytes: &[u8]) -> Verdict {
        let Ok(key) = Key::of(bytes) else {
            return Verdict::Drop(DropReason::Malformed);
        };
        if let Some(index) = self.rules.first_match(&key) {
            self.verdicts[index]
        } else {
            self.default_hits += 1;
            self.default
        }
    }
}

/// Index of `name` among the outputs, where it is put if it is new.
fn output(
    outputs: &mut Vec<String>,
    name: &str,
    path: impl FnOnce() -> String,
) -> Result<Verdict, ConfigError> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(is_name) {
        let message = format!("\"{name}\" is not the name of an output");
        let repair = "write letters, digits, - and _";
        return Err(ConfigError::new(path(), message, repair));
    }
    let index = outputs.iter().position(|known| known == name);
    let index = index.unwrap_or_else(|| {
        outputs.push(name.to_owned());
        outputs.len() - 1
    });
    u8::try_from(index).map(Verdict::Output).map_err(|_| {
        let message = format!("more than {OUTPUT_COUNT_MAX} outputs are named");
        ConfigError::new(
            path(),
            message,
            "name fewer; a classify may follow a classify",
        )
    })
}

/// What rules ask, and where each sends its packets.
struct Routes {
    matches: Vec<(u32, Match)>,
    /// Verdict of each rule, in file order.
    verdicts: Vec<Verdict>,
    default: Verdict,
    outputs: Vec<String>,
}

impl Routes {
    fn of(config: &Config) -> Result<Self, ConfigErrors> {
        let matches = config.rules.iter().map(|rule| {
            let asked = Match {
                src: rule.src,
                dst: rule.dst,
                src_port: rule.src_port,
                dst_port: rule.dst_port,
                protocol: rule.protocol,
                ether_type: rule.ether_type,
                vlan: rule.vlan,
                dscp: rule.dscp,
            };
            (rule.priority, asked)
        });
        let mut outputs = Vec::new();
        let mut verdicts = Vec::with_capacity(config.rules.len());
        for (index, rule) in config.rules.iter().enumerate() {
            let path = || format!("rules[{index}].to");
            verdicts.push(output(&mut outputs, &rule.to, path).map_err(|error| vec![error])?);
        }
        let default = match &config.default {
            Some(name) => {
                let path = || "default".to_owned();
                output(&mut outputs, name, path).map_err(|error| vec![error])?
            }
            None => Verdict::Drop(NO_MATCH),
        };
        if outputs.is_empty() {
            let message = "there is neither a rule nor a default, so all would be dropped";
            let repair = "write rules, or default: rest";
            return Err(vec![ConfigError::new("rules", message, repair)]);
        }
        Ok(Self {
            matches: matches.collect(),
            verdicts,
            default,
            outputs,
        })
    }
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "classify",
    summary: "Sends each packet to the output named by the first rule that matches",
    example: r#"{"rules": [{"to": "web", "protocol": "tcp", "dst_port": 80}], "default": "rest"}"#,
    schema: || schemars::schema_for!(Config),
    plan: |config, _outputs| {
        let routes = Routes::of(&parse_config(config)?)?;
        RuleSet::check(&routes.matches)?;
        let plan = NfPlan::new().outputs(routes.outputs);
        let plan = plan.requests([(r#"{"show": "hits"}"#, "how often each rule has decided")]);
        let plan = plan.sharding(Sharding::Any).carries_segments();
        Ok(plan.drop_reasons(["no_match"]))
    },
    build: |config, _context| {
        let routes = Routes::of(&parse_config(config)?)?;
        Ok(BuiltNf::new(Classify {
            rules: RuleSet::new(&routes.matches)?,
            verdicts: routes.verdicts,
            default: routes.default,
            default_hits: 0,
        }))
    },
};

#[cfg(test)]
mod tests {
    use catena_wire::ethernet::EtherType;
    use catena_wire::ip::Protocol;

    use super::*;
    use crate::nf_bench::NfBench;
    use crate::nfs::frames::{IpPacket, ethernet, tagged};

    fn bench(config: Value) -> NfBench {
        NfBench::new(&KIND, &config, &[]).unwrap()
    }

    fn rules() -> Value {
        json!([
            {"to": "voice", "dscp": 46},
            {"to": "web", "protocol": "tcp", "dst_port": 443},
            {"to": "control", "ether_type": "arp"},
            {"to": "web", "vlan": 80},
            {"to": "gold", "src": "2001:db8::/32", "priority": 1},
        ])
    }

    fn verdicts(bench: &mut NfBench) -> Vec<Verdict> {
        let tcp = IpPacket {
            protocol: Protocol::TCP,
            ..IpPacket::default()
        };
        let voice = IpPacket { dscp: 46, ..tcp };
        let gold = IpPacket {
            src: "2001:db8::1",
            dst: "::1",
            ..voice
        };
        let other = IpPacket::default().ports(1, 2);
        let frames = [
            voice.ports(1, 443),
            tcp.ports(1, 443),
            ethernet(EtherType::ARP, &[0; 28]),
            tagged(&tagged(&other, 0x8100, 81), 0x88a8, 80),
            gold.ports(1, 443),
            tagged(&tagged(&other, 0x8100, 80), 0x88a8, 81),
            other[..33].to_vec(),
        ];
        let slices: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        let result = bench.process(&slices);
        for (packet, frame) in result.packets.iter().zip(&frames) {
            assert_eq!(packet.bytes, *frame);
        }
        let verdicts = result.packets.iter().map(|packet| packet.verdict);
        verdicts.collect()
    }

    #[test]
    fn outputs_are_named_in_order_of_first_appearance_and_the_default_last() {
        let config = json!({"rules": rules(), "default": "rest"});
        let outputs = bench(config).outputs().to_vec();
        assert_eq!(outputs, ["voice", "web", "control", "gold", "rest"]);
        let config = json!({"rules": rules(), "default": "web"});
        let outputs = bench(config).outputs().to_vec();
        assert_eq!(outputs, ["voice", "web", "control", "gold"]);
        assert_eq!(bench(json!({"default": "all"})).outputs(), ["all"]);
    }

    #[test]
    fn the_first_rule_by_priority_names_the_output() {
        let mut bench = bench(json!({"rules": rules(), "default": "rest"}));
        let malformed = Verdict::Drop(DropReason::Malformed);
        let mut expected = [0, 1, 2, 1, 3, 4].map(Verdict::Output).to_vec();
        expected.push(malformed);
        assert_eq!(verdicts(&mut bench), expected);
        let hits = bench.nf().control(&json!({"show": "hits"})).unwrap();
        assert_eq!(hits, json!({"rules": [1, 1, 1, 1, 1], "default": 1}));
        assert!(bench.nf().control(&json!({"rules": []})).is_err());
        assert_eq!(bench.buffers_in_use(), 0);
    }

    #[test]
    fn without_a_default_what_matches_nothing_is_dropped() {
        let mut bench = bench(json!({"rules": rules()}));
        let no_match = Verdict::Drop(NO_MATCH);
        assert_eq!(verdicts(&mut bench)[5], no_match);
    }

    #[test]
    fn wrong_configurations_are_refused_with_the_field() {
        let many: Vec<_> = (0..257)
            .map(|index| json!({"to": format!("o{index}")}))
            .collect();
        let table = [
            (json!({}), "rules"),
            (json!({"rules": [{"to": ""}]}), "rules[0].to"),
            (
                json!({"rules": [{"to": "a"}, {"to": "a.b"}]}),
                "rules[1].to",
            ),
            (json!({"rules": many}), "rules[256].to"),
            (json!({"default": "a b"}), "default"),
            (
                json!({"rules": [{"to": "a", "vlan": 4096}]}),
                "rules[0].vlan",
            ),
            (json!({"rules": [{"to": "a", "dscp": 64}]}), "rules[0].dscp"),
            (
                json!({"rules": [{"to": "a", "ether_type": "arp", "src": "::1"}]}),
                "rules[0].ether_type",
            ),
            (
                json!({"rules": [{"to": "a", "action": "permit"}]}),
                "rules[0].action",
            ),
            (json!({"rules": [{"vlan": 1}]}), "rules[0]"),
        ];
        for (config, path) in table {
            let errors = NfBench::new(&KIND, &config, &[]).unwrap_err();
            assert_eq!(errors[0].path, path, "{errors:?}");
        }
    }
}
