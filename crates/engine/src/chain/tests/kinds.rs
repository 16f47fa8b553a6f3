//! NF, port and wrapper types that only have a configuration: enough to check chain files with.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::chain::Registry;
use crate::chain::registry::FileKey;
use crate::config::{ConfigError, ConfigErrors, parse_config};
use crate::nf::{BuildContext, BuiltNf, Inputs, NfKind, NfPlan};
use crate::port::{PortError, PortKind, PortNeeds, PortRole, WrapKind};
use crate::units::{Rate, Share};

/// Everything there is.
pub(crate) fn registry() -> Registry {
    Registry {
        nfs: vec![
            &POLICER,
            &crate::nfs::macswap::KIND,
            &TEE,
            &CLASSIFY,
            &MERGE,
            &COUNT,
        ],
        ports: vec![&PCAP, &TAP],
        wraps: vec![&TRACE, &FAULT],
        files: vec![file("pcap", "read", false), file("pcap", "write", true)],
    }
}

fn file(of: &'static str, key: &'static str, writes: bool) -> FileKey {
    FileKey { of, key, writes }
}

/// A check builds nothing.
fn build(_: &Value, _: &mut BuildContext<'_>) -> Result<BuiltNf, ConfigErrors> {
    panic!("an NF was built by who only reads the file")
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Empty {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Policer {
    #[expect(dead_code, reason = "only its form is checked")]
    rate: Rate,
    burst: Option<u32>,
}

const POLICER: NfKind = NfKind {
    name: "policer",
    summary: "Drops what exceeds a rate",
    example: r#"{"rate": "1pps"}"#,
    schema: || schemars::schema_for!(Policer),
    plan: |config, _| {
        let config: Policer = parse_config(config)?;
        match config.burst {
            Some(0) => Err(vec![ConfigError::new(
                "burst",
                "burst cannot be 0",
                "write 1 or more",
            )]),
            _ => Ok(NfPlan::new()),
        }
    },
    build,
};

const TEE: NfKind = NfKind {
    name: "tee",
    summary: "Sends every packet to all outputs",
    example: "{}",
    schema: || schemars::schema_for!(Empty),
    plan: |config, outputs| {
        parse_config::<Empty>(config)?;
        Ok(NfPlan::new().outputs(outputs).allocates())
    },
    build,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Classify {
    rules: Vec<Rule>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rule {
    src: String,
    to: String,
}

const CLASSIFY: NfKind = NfKind {
    name: "classify",
    summary: "Sends each packet to the output of its rule",
    example: r#"{"rules": []}"#,
    schema: || schemars::schema_for!(Classify),
    plan: |config, _| {
        let config: Classify = parse_config(config)?;
        let mut errors = ConfigErrors::new();
        for (index, rule) in config.rules.iter().enumerate() {
            if rule.src.parse::<std::net::IpAddr>().is_err() {
                errors.push(ConfigError::new(
                    format!("rules[{index}].src"),
                    format!("\"{}\" is not an IP address", rule.src),
                    "write it like 192.0.2.1",
                ));
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(NfPlan::new().outputs(config.rules.into_iter().map(|rule| rule.to)))
    },
    build,
};

const MERGE: NfKind = NfKind {
    name: "merge",
    summary: "Joins several links",
    example: "{}",
    schema: || schemars::schema_for!(Empty),
    plan: |config, _| {
        parse_config::<Empty>(config)?;
        Ok(NfPlan::new().inputs(Inputs::Many))
    },
    build,
};

const COUNT: NfKind = NfKind {
    name: "count",
    summary: "Counts packets",
    plan: |config, _| {
        parse_config::<Empty>(config)?;
        Ok(NfPlan::new())
    },
    ..MERGE
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Pcap {
    read: Option<String>,
    write: Option<String>,
}

const PCAP: PortKind = PortKind {
    name: "pcap",
    summary: "Reads or writes a capture file",
    counters: &[],
    drop_reasons: &[],
    needs: PortNeeds::NONE,
    schema: || schemars::schema_for!(Pcap),
    check: |config| {
        let config: Pcap = parse_config(config)?;
        match (&config.read, &config.write) {
            (None, None) => Err(vec![ConfigError::new(
                "",
                "neither read nor write is given",
                "add read: FILE or write: FILE",
            )]),
            (read, write) => Ok(PortRole::of(read.is_some(), write.is_some())),
        }
    },
    open: |_, _| Err(PortError("not in tests".to_owned())),
};

const TAP: PortKind = PortKind {
    name: "tap",
    summary: "A tap interface",
    counters: &[],
    drop_reasons: &[],
    needs: PortNeeds::NONE,
    schema: || schemars::schema_for!(Empty),
    check: |config| {
        parse_config::<Empty>(config)?;
        Ok(PortRole {
            queues_max: 64,
            ..PortRole::of(true, true)
        })
    },
    open: |_, _| Err(PortError("not in tests".to_owned())),
};

fn check_empty(config: &Value) -> Result<(), ConfigErrors> {
    parse_config::<Empty>(config).map(|_| ())
}

const TRACE: WrapKind = WrapKind {
    name: "trace",
    summary: "Prints packets",
    counters: &[],
    schema: || schemars::schema_for!(Empty),
    takes_singly: false,
    check: check_empty,
    wrap: |_, _, inner| Ok(inner),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fault {
    #[expect(dead_code, reason = "only its form is checked")]
    loss: Share,
}

const FAULT: WrapKind = WrapKind {
    name: "fault",
    summary: "Loses packets",
    counters: &[],
    schema: || schemars::schema_for!(Fault),
    takes_singly: false,
    check: |config| parse_config::<Fault>(config).map(|_| ()),
    wrap: |_, _, inner| Ok(inner),
};
