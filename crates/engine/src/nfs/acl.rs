//! `acl`: permits or denies IP packets by the first rule that matches.
//!
//! Rules ask for prefixes, ports and protocol; what a rule leaves out, it does not ask for. Rules
//! of greater `priority` are tried first, equal ones in file order; `default` decides when none
//! matches. A rule with ports matches TCP and UDP only, and no fragment other than the first, since
//! the others carry no ports: deny fragments with a rule that has no ports. The cost of a packet
//! grows with the logarithm of the number of rules (see `matching/search.rs`).
//!
//! ```yaml
//! nfs:
//!   edge:
//!     type: acl
//!     default: deny
//!     rules:
//!       - { action: deny, src: 10.66.0.0/16, priority: 10 }
//!       - { action: permit, dst: 192.0.2.0/24, protocol: tcp, dst_port: 443 }
//!       - { action: permit, dst: "2001:db8::/32", protocol: udp, dst_port: 1024-65535 }
//! ```
//!
//! Drops: `acl_deny`; `malformed`, a header that the rules would have to trust is cut short or
//! inconsistent (RFC 1858 says why such packets must not pass a filter).
//!
//! Control requests: `{"show": "hits"}` answers how often each rule decided, in file order;
//! `{"rules": [...]}` replaces all rules between two bursts, or none if one is wrong, and sets the
//! hits to zero; packets do not wait while they are prepared.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::matching::{Key, Match, PortRange, Prefix, ProtocolName, RuleSet};
use crate::config::{ConfigErrors, parse_config};
use crate::nf::exchange::{BUSY, ControlEnd, DataEnd, Handled, NfControl, exchange};
use crate::nf::{BuiltNf, Burst, DropReason, Nanos, Nf, NfKind, NfPlan, Verdict};
use crate::shard::Sharding;

const ACL_DENY: DropReason = DropReason::own(0);

/// Configuration of `acl`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The rules, at most 4096.
    #[serde(default)]
    rules: Vec<Rule>,
    /// What becomes of IP packets that no rule matches: `deny` (the default) or `permit`.
    #[serde(default = "deny")]
    default: Action,
    /// What becomes of packets that are not IP: `permit` (the default, so that ARP passes) or
    /// `deny`.
    #[serde(default = "permit")]
    non_ip: Action,
}

/// One rule.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// What becomes of packets that match: `permit` or `deny`.
    action: Action,
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
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    /// It passes.
    Permit,
    /// It is dropped as `acl_deny`.
    Deny,
}

fn permit() -> Action {
    Action::Permit
}

fn deny() -> Action {
    Action::Deny
}

/// Rules ready to search, with what each says.
#[derive(Debug)]
struct Rules {
    set: RuleSet,
    actions: Vec<Action>,
}

/// What the rules ask, with their priorities.
fn matches(rules: &[Rule]) -> Vec<(u32, Match)> {
    let matches = rules.iter().map(|rule| {
        let asked = Match {
            src: rule.src,
            dst: rule.dst,
            src_port: rule.src_port,
            dst_port: rule.dst_port,
            protocol: rule.protocol,
            ..Match::default()
        };
        (rule.priority, asked)
    });
    matches.collect()
}

impl Rules {
    fn new(rules: &[Rule]) -> Result<Self, ConfigErrors> {
        Ok(Self {
            set: RuleSet::new(&matches(rules))?,
            actions: rules.iter().map(|rule| rule.action).collect(),
        })
    }
}

#[derive(Debug)]
struct Acl {
    rules: Box<Rules>,
    exchange: DataEnd<Rules, Rules>,
    default: Action,
    default_hits: u64,
    non_ip: Action,
    non_ip_hits: u64,
}

impl Acl {
    #[inline]
    fn decide(&mut self, frame: &[u8]) -> Verdict {
        let Ok(key) = Key::of(frame) else {
            return Verdict::Drop(DropReason::Malformed);
        };
        let action = if key.addresses.is_none() {
            self.non_ip_hits += 1;
            self.non_ip
        } else if let Some(index) = self.rules.set.first_match(&key) {
            self.rules.actions[index]
        } else {
            self.default_hits += 1;
            self.default
        };
        match action {
            Action::Permit => Verdict::Output(0),
            Action::Deny => Verdict::Drop(ACL_DENY),
        }
    }
}

/// Rules on their way to the data half, and old ones on their way back.
const EXCHANGE_CAPACITY: usize = 4;

/// The control half: rules take a while to prepare, and packets do not wait for it.
struct AclControl {
    exchange: ControlEnd<Rules, Rules>,
}

impl AclControl {
    fn replace_rules(&self, request: &Value) -> Result<Value, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Request {
            rules: Vec<Rule>,
        }
        let sentences = |errors: ConfigErrors| {
            let sentences: Vec<_> = errors.iter().map(ToString::to_string).collect();
            format!("no rule was replaced: {}", sentences.join("; "))
        };
        let request: Request = parse_config(request).map_err(sentences)?;
        let rules = Rules::new(&request.rules).map_err(sentences)?;
        // Old ones end here.
        while self.exchange.receive().is_some() {}
        let sent = self.exchange.send(Box::new(rules));
        sent.map_err(|_| BUSY.to_owned())?;
        Ok(json!({"rules": request.rules.len()}))
    }
}

impl NfControl for AclControl {
    fn control(&mut self, request: &Value) -> Handled {
        match request.get("rules") {
            Some(_) => Handled::Answered(self.replace_rules(request)),
            None => Handled::Passed,
        }
    }
}

impl Nf for Acl {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        burst.judge(|bytes| self.decide(bytes));
    }

    fn exchange(&mut self, budget: usize) -> bool {
        self.exchange.drain(budget, |rules| {
            (self.default_hits, self.non_ip_hits) = (0, 0);
            Some(std::mem::replace(&mut self.rules, rules))
        })
    }

    fn control(&mut self, request: &Value) -> Result<Value, String> {
        if *request == json!({"show": "hits"}) {
            return Ok(json!({
                "rules": self.rules.set.hits(),
                "default": self.default_hits,
                "non_ip": self.non_ip_hits,
            }));
        }
        Err("acl answers {\"show\": \"hits\"} and {\"rules\": [...]}".to_owned())
    }
}

/// Rules are settings; all else only asks.
fn amend(config: &mut Value, requests: &[Value]) -> Vec<Result<Option<String>, String>> {
    let amended = requests.iter().map(|request| {
        let rules = request.get("rules")?;
        config["rules"] = rules.clone();
        Some("rules".to_owned())
    });
    amended.map(Ok).collect()
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "acl",
    summary: "Permits or denies IP packets by the first rule that matches",
    example: r#"{"rules": [{"action": "permit", "dst": "192.0.2.0/24"}]}"#,
    schema: || schemars::schema_for!(Config),
    plan: |config, _outputs| {
        let config: Config = parse_config(config)?;
        RuleSet::check(&matches(&config.rules))?;
        let plan = NfPlan::new().sharding(Sharding::Any);
        let plan = plan.drop_reasons(["acl_deny"]);
        let plan = plan.amended_by(amend).carries_segments();
        Ok(plan.requests([
            (r#"{"show": "hits"}"#, "how often each rule has decided"),
            (
                r#"{"rules": [{"action": "deny", "dst": "192.0.2.0/24"}]}"#,
                "these rules instead of all before, between two packets; hits begin at 0",
            ),
        ]))
    },
    build: |config, _context| {
        let config: Config = parse_config(config)?;
        let (control, data) = exchange(EXCHANGE_CAPACITY);
        let acl = Acl {
            rules: Box::new(Rules::new(&config.rules)?),
            exchange: data,
            default: config.default,
            default_hits: 0,
            non_ip: config.non_ip,
            non_ip_hits: 0,
        };
        Ok(BuiltNf::new(acl).with_control(AclControl { exchange: control }))
    },
};

#[cfg(test)]
mod tests {
    use catena_wire::ethernet::EtherType;
    use catena_wire::ip::Protocol;

    use super::*;
    use crate::nf_bench::NfBench;
    use crate::nfs::frames::{IpPacket, ethernet, tagged};

    const PASS: Verdict = Verdict::Output(0);
    const DENY: Verdict = Verdict::Drop(ACL_DENY);

    fn bench(config: Value) -> NfBench {
        NfBench::new(&KIND, &config, &[]).unwrap()
    }

    fn verdict(bench: &mut NfBench, frame: &[u8]) -> Verdict {
        let result = bench.process_one(frame);
        assert_eq!(result.bytes, frame);
        result.verdict
    }

    fn web() -> Value {
        json!({"rules": [
            {"action": "permit", "dst": "10.0.0.0/24", "protocol": "tcp", "dst_port": 80},
            {"action": "deny", "src": "10.0.0.66", "priority": 10},
            {"action": "permit", "dst": "2001:db8::/32", "src_port": "1000-2000"},
        ]})
    }

    #[test]
    fn the_first_rule_by_priority_decides_and_is_counted() {
        let mut bench = bench(web());
        let tcp = IpPacket {
            protocol: Protocol::TCP,
            ..IpPacket::default()
        };
        let bad = IpPacket {
            src: "10.0.0.66",
            ..tcp
        };
        let v6 = IpPacket {
            src: "2001:db8::1",
            dst: "2001:db8::2",
            ..tcp
        };
        assert_eq!(verdict(&mut bench, &tcp.ports(1, 80)), PASS);
        let in_vlan = tagged(&tcp.ports(1, 80), 0x8100, 9);
        assert_eq!(verdict(&mut bench, &in_vlan), PASS);
        assert_eq!(verdict(&mut bench, &tcp.ports(80, 81)), DENY);
        assert_eq!(verdict(&mut bench, &bad.ports(1, 80)), DENY);
        assert_eq!(verdict(&mut bench, &v6.ports(1000, 1)), PASS);
        assert_eq!(verdict(&mut bench, &v6.ports(2001, 1)), DENY);
        let hits = bench.control(&json!({"show": "hits"})).unwrap();
        assert_eq!(hits, json!({"rules": [2, 1, 1], "default": 2, "non_ip": 0}));
        assert_eq!(bench.buffers_in_use(), 0);
    }

    #[test]
    fn packets_that_are_not_ip_are_decided_by_their_own_setting() {
        let arp = ethernet(EtherType::ARP, &[0; 28]);
        let deny_all = json!([{"action": "deny"}]);
        assert_eq!(verdict(&mut bench(json!({"rules": deny_all})), &arp), PASS);
        let config = json!({"non_ip": "deny", "default": "permit"});
        assert_eq!(verdict(&mut bench(config), &arp), DENY);
    }

    #[test]
    fn later_fragments_match_no_rule_with_ports() {
        let later = IpPacket {
            fragment_offset: 8,
            ..IpPacket::default()
        };
        let later = later.ports(1, 80);
        let with_port = json!([{"action": "permit", "dst_port": 80}]);
        assert_eq!(
            verdict(&mut bench(json!({"rules": with_port})), &later),
            DENY
        );
        let without = json!([{"action": "permit", "protocol": "udp"}]);
        assert_eq!(verdict(&mut bench(json!({"rules": without})), &later), PASS);
    }

    #[test]
    fn malformed_packets_are_dropped_whatever_the_rules_permit() {
        let permit_all = json!({"default": "permit"});
        let mut bench = bench(permit_all);
        let frame = IpPacket::default().ports(1, 2);
        for len in 1..frame.len() {
            let expected = Verdict::Drop(DropReason::Malformed);
            assert_eq!(verdict(&mut bench, &frame[..len]), expected, "cut at {len}");
        }
    }

    #[test]
    fn rules_are_replaced_whole_or_not_at_all() {
        let mut bench = bench(json!({"rules": [{"action": "permit"}]}));
        let frame = IpPacket::default().ports(1, 2);
        assert_eq!(verdict(&mut bench, &frame), PASS);
        let wrong = json!({"rules": [{"action": "deny"}, {"action": "deny", "src": "10.0.0.1/8"}]});
        let error = bench.control(&wrong).unwrap_err();
        assert!(error.contains("rules[1].src"), "{error}");
        assert!(error.contains("10.0.0.0/8"), "{error}");
        assert_eq!(verdict(&mut bench, &frame), PASS);
        let hits = bench.control(&json!({"show": "hits"})).unwrap();
        assert_eq!(hits["rules"], json!([2]));

        let right = json!({"rules": [{"action": "deny"}]});
        let answer = bench.control(&right).unwrap();
        assert_eq!(answer, json!({"rules": 1}));
        assert_eq!(verdict(&mut bench, &frame), DENY);
        let hits = bench.control(&json!({"show": "hits"})).unwrap();
        assert_eq!(hits["rules"], json!([1]));
    }

    #[test]
    fn other_requests_are_refused() {
        let mut bench = bench(json!({}));
        for request in [
            json!({"show": "rules"}),
            json!({"rules": [], "default": "permit"}),
            json!(null),
        ] {
            assert!(bench.control(&request).is_err(), "{request}");
        }
    }

    #[test]
    fn wrong_configurations_are_refused_with_the_field() {
        let table = [
            (
                json!({"action": "permit", "src": "10.0.0.1/8"}),
                "rules[0].src",
            ),
            (
                json!({"action": "permit", "dst_port": "9-8"}),
                "rules[0].dst_port",
            ),
            (
                json!({"action": "permit", "protocol": "tpc"}),
                "rules[0].protocol",
            ),
            (json!({"action": "allow"}), "rules[0].action"),
            (json!({"src": "10.0.0.1"}), "rules[0]"),
            (json!({"action": "deny", "vlan": 5}), "rules[0].vlan"),
            (
                json!({"action": "deny", "src": "::1", "dst": "10.0.0.1"}),
                "rules[0].dst",
            ),
        ];
        for (rule, path) in table {
            let config = json!({"rules": [rule]});
            let errors = NfBench::new(&KIND, &config, &[]).unwrap_err();
            assert_eq!(errors[0].path, path, "{errors:?}");
        }
    }
}
