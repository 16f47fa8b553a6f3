//! What a chain file says of a `traffic` port, and the port that comes of it.

use std::path::PathBuf;
use std::time::Duration;

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::port::{Opening, Port, PortError, PortKind, PortNeeds, PortRole};
use catena_engine::units::Span;
use schemars::JsonSchema;
use serde::Deserialize;

use super::port::TrafficPort;
use crate::profile::Profile;
use crate::traffic::TickRate;
use crate::traffic::entry_buffer::{ENTRY_SIZE, ENTRY_SIZE_MAX};
use crate::traffic::plan::Plan;
use crate::traffic::slices::{SliceConfig, Slices};

/// How long the clock is measured when the port opens.
const CALIBRATION: Duration = Duration::from_millis(20);

/// What to send, and for how long.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The profile: a file, or the profile itself.
    profile: ProfileAt,
    /// How long to send; without it, and without `count`, for ever.
    duration: Option<Span>,
    /// How many packets to send; without it, and without `duration`, there is no end.
    count: Option<u64>,
    /// How long to wait before the first packet, so that whatever is reached over ports is up.
    /// Without it, not at all.
    delay: Option<Span>,
    /// How long to send before the trial; those packets carry another trial's number. Not
    /// at all without it.
    warmup: Option<Span>,
    /// Packets that wait at the device's entry while the chain takes nothing; what is due beyond is
    /// lost, as in a NIC's ring.
    #[serde(default = "entry_size")]
    entry: u32,
    /// Number in the stamps, by which the receiver tells trials apart.
    #[serde(default)]
    trial: u8,
    /// Write what was sent, as JSON, to this file when the chain ends; to none without it.
    results: Option<PathBuf>,
    /// Take turns with another chain's generator; without it, send all the time.
    slices: Option<SliceConfig>,
}

const fn entry_size() -> u32 {
    ENTRY_SIZE
}

/// Where a profile is.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "this is no profile; write the path of a file, or the profile's own keys"
)]
enum ProfileAt {
    File(PathBuf),
    Here(serde_json::Map<String, serde_json::Value>),
}

/// The chain file's entry.
pub const KIND: PortKind = PortKind {
    name: "traffic",
    summary: "Sends a profile's packets, stamped with the time at which each is due",
    counters: &[
        "made",
        "unsent",
        "entry_lost",
        "warmup",
        "unstamped",
        "late_max_ns",
        "held_max_ns",
        "behind_by_chain",
        "behind_by_generator",
        "stalled_ns",
        "flow_numbers",
    ],
    drop_reasons: &[],
    needs: PortNeeds::NONE,
    schema: || schemars::schema_for!(Config),
    check: |config| {
        let config = parse_config::<Config>(config)?;
        if !(1..=ENTRY_SIZE_MAX).contains(&config.entry) {
            return Err(vec![ConfigError::new(
                "entry",
                format!("a buffer of {} packets", config.entry),
                format!("give 1 to {ENTRY_SIZE_MAX}"),
            )]);
        }
        inline_profile(&config)?;
        Ok(PortRole::of(true, false))
    },
    open,
};

/// The profile that stands in the chain file, if it does.
fn inline_profile(config: &Config) -> Result<Option<Profile>, ConfigErrors> {
    let ProfileAt::Here(profile) = &config.profile else {
        return Ok(None);
    };
    let profile = Profile::from_json(&serde_json::Value::Object(profile.clone()));
    profile.map(Some).map_err(|errors| {
        let within = |error: ConfigError| ConfigError {
            path: match error.path.as_str() {
                "" => "profile".to_owned(),
                path => format!("profile.{path}"),
            },
            ..error
        };
        errors.into_iter().map(within).collect()
    })
}

fn open(config: &serde_json::Value, opening: &Opening<'_>) -> Result<Box<dyn Port>, PortError> {
    let dir = opening.dir;
    let refused = |errors: ConfigErrors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        PortError(lines.join("; "))
    };
    let config: Config = parse_config(config).map_err(refused)?;
    let (profile, dir) = match (&config.profile, inline_profile(&config).map_err(refused)?) {
        (ProfileAt::File(file), _) => {
            let path = dir.join(file);
            let profile = Profile::KIND.load(&path);
            let profile = profile.map_err(|errors| PortError(errors.to_string()))?;
            (profile, path.parent().unwrap_or(dir).to_owned())
        }
        (ProfileAt::Here(_), Some(profile)) => (profile, dir.to_owned()),
        (ProfileAt::Here(_), None) => return Err(PortError("there is no profile".to_owned())),
    };
    let plan = Plan::new(&profile, &dir).map_err(PortError)?;
    let mut port = TrafficPort::new(plan, config.trial, TickRate::measure(CALIBRATION))
        .with_entry(config.entry)
        .after(config.warmup.map_or(0, |span| span.ns));
    if let Some(span) = config.duration {
        port = port.until(span.ns);
    }
    if let Some(count) = config.count {
        port.source.limit(count);
    }
    port.delay_ns = config.delay.map_or(0, |span| span.ns);
    port.results = config.results.map(|path| dir.join(path));
    port.slices = config.slices.map(|slices| Slices::new(&slices, port.rate));
    Ok(Box::new(port))
}
