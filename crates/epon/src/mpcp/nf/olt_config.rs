//! Settings of `olt_mac`, and what they mean in quanta: checked before anything starts.

use catena_engine::config::{ConfigError, ConfigErrors};
use catena_engine::units::{Rate, Span};
use catena_wire::ethernet::MacAddr;
use catena_wire::mpcp::QUANTUM_NS;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::super::ipact::{Discipline, Settings, Share};
use super::super::super::olt::{GUARD_MIN, Olt, Params};
use super::super::super::simulate::{FIBRE_PS_PER_M, QUANTUM_PS};
use super::super::super::{ONU_COUNT_MAX, QUANTA_PER_SECOND};

/// How much of what an ONU reports is granted.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Service {
    /// Its limit, whatever it reports.
    Fixed,
    /// What it reports, up to its limit.
    #[default]
    Limited,
    /// What it reports, up to what a GATE can say.
    Gated,
    /// What it reports and `credit` more, up to its limit.
    ConstantCredit,
    /// What it reports and `credit_percent` more, up to its limit.
    LinearCredit,
}

/// What one ONU gets.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OnuConfig {
    /// Its address.
    mac: String,
    /// Its part of what nobody is guaranteed.
    #[serde(default = "one")]
    weight: u32,
    /// What it may send in any case: frames with preamble and gap; nothing if left out.
    guaranteed: Option<Rate>,
}

/// Settings of `olt_mac`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// Its address.
    #[serde(default = "mac")]
    mac: String,
    /// Most ONUs, 1 to 32.
    #[serde(default = "onus_max")]
    onus_max: usize,
    /// Frames from the network wait until so many ONUs are registered.
    #[serde(default)]
    pub(super) wait_for: usize,
    /// How much of what an ONU reports is granted.
    #[serde(default)]
    service: Service,
    /// What `constant_credit` adds.
    #[serde(default = "credit")]
    credit: Span,
    /// What `linear_credit` adds, in percent.
    #[serde(default = "credit_percent")]
    credit_percent: u32,
    /// Longest cycle: after so long each ONU has had its turn, if all use their limits.
    #[serde(default = "cycle")]
    cycle: Span,
    /// Shortest time from one slot of an ONU to its next.
    #[serde(default = "cycle_min")]
    cycle_min: Span,
    /// Pause between slots.
    #[serde(default = "guard")]
    guard: Span,
    /// Sync pattern that the receiver needs in front of a burst (SyncTime).
    #[serde(default = "sync_time")]
    sync_time: Span,
    /// Longest time that an ONU's laser may take to turn on, and to turn off.
    #[serde(default = "laser_max")]
    laser_max: Span,
    /// From one discovery window to the next.
    #[serde(default = "discovery_period")]
    discovery_period: Span,
    /// Length of a discovery window.
    #[serde(default = "discovery_window")]
    discovery_window: Span,
    /// Farthest ONU in metres.
    #[serde(default = "distance_m_max")]
    distance_m_max: u32,
    /// What links and threads of the chain may add to the way of a GATE. An ONU that gets it later
    /// cannot use its slot.
    #[serde(default = "lead")]
    lead: Span,
    /// After how long without a word from it an ONU is no longer registered.
    #[serde(default = "timeout")]
    timeout: Span,
    /// ONUs with a place of their own, and what each gets.
    #[serde(default)]
    onus: Vec<OnuConfig>,
}

fn one() -> u32 {
    1
}

fn mac() -> String {
    "02:00:00:00:00:fe".to_owned()
}

fn onus_max() -> usize {
    ONU_COUNT_MAX
}

const fn us(us: u64) -> Span {
    Span { ns: us * 1000 }
}

fn credit() -> Span {
    us(10)
}

fn credit_percent() -> u32 {
    20
}

fn cycle() -> Span {
    us(2_000)
}

fn cycle_min() -> Span {
    us(500)
}

fn guard() -> Span {
    Span { ns: 512 }
}

fn sync_time() -> Span {
    Span { ns: 800 }
}

fn laser_max() -> Span {
    Span { ns: 512 }
}

/// What eight bits of quanta say.
pub(super) const LASER_MAX: Span = Span {
    ns: u8::MAX as u64 * QUANTUM_NS,
};

fn discovery_period() -> Span {
    us(50_000)
}

fn discovery_window() -> Span {
    us(250)
}

fn distance_m_max() -> u32 {
    20_000
}

fn lead() -> Span {
    us(1_000)
}

fn timeout() -> Span {
    us(1_000_000)
}

/// Quanta of a span between two limits, or an error at `path`.
fn quanta(errors: &mut ConfigErrors, path: &str, span: Span, (low, high): (Span, Span)) -> u64 {
    if span.ns < low.ns || span.ns > high.ns {
        let message = format!("{} ns are out of range", span.ns);
        let repair = match (low.ns % 1000, high.ns % 1000) {
            (0, 0) => format!("write {} us to {} us", low.ns / 1000, high.ns / 1000),
            _ => format!("write {} ns to {} ns", low.ns, high.ns),
        };
        errors.push(ConfigError::new(path, message, repair));
    }
    span.ns.clamp(low.ns, high.ns) / QUANTUM_NS
}

fn station(path: &str, text: &str) -> Result<MacAddr, ConfigError> {
    let mac: Option<MacAddr> = text.parse().ok();
    mac.filter(|mac| !mac.is_multicast()).ok_or_else(|| {
        ConfigError::new(
            path,
            format!("\"{text}\" is not the address of a station"),
            "write one like 02:00:00:00:01:01",
        )
    })
}

impl Config {
    pub(super) fn mac(&self) -> Result<MacAddr, ConfigErrors> {
        station("mac", &self.mac).map_err(|error| vec![error])
    }

    /// The protocol's machine, which checks what the settings are together.
    pub(super) fn olt(&self) -> Result<Olt, ConfigErrors> {
        Olt::new(self.params()?, 0).map_err(|error| {
            vec![ConfigError::new(
                "cycle",
                error.to_string(),
                "see the message",
            )]
        })
    }

    fn params(&self) -> Result<Params, ConfigErrors> {
        let mut errors = Vec::new();
        let mut span = |path, value, low, high| quanta(&mut errors, path, value, (low, high));
        let cycle_max = span("cycle", self.cycle, us(100), us(1_000_000));
        let cycle_min = span("cycle_min", self.cycle_min, us(0), us(1_000_000));
        let guard_min = Span {
            ns: u64::from(GUARD_MIN) * QUANTUM_NS,
        };
        let guard = span("guard", self.guard, guard_min, us(100));
        let sync_time = span(
            "sync_time",
            self.sync_time,
            Span { ns: QUANTUM_NS },
            us(100),
        );
        let laser_max = span("laser_max", self.laser_max, us(0), LASER_MAX);
        let period = span(
            "discovery_period",
            self.discovery_period,
            us(1_000),
            us(60_000_000),
        );
        let window = span("discovery_window", self.discovery_window, us(10), us(1_000));
        let lead = span("lead", self.lead, us(0), us(1_000_000));
        let timeout = span("timeout", self.timeout, us(10_000), us(10_000_000));
        let credit = span("credit", self.credit, us(0), us(1_000));
        if !(1..=ONU_COUNT_MAX).contains(&self.onus_max) || self.onus.len() > self.onus_max {
            errors.push(ConfigError::new(
                "onus_max",
                format!("{} ONUs, and places for {}", self.onus.len(), self.onus_max),
                format!("write 1 to {ONU_COUNT_MAX}, and no fewer than are listed"),
            ));
        }
        if self.wait_for > self.onus_max {
            errors.push(ConfigError::new(
                "wait_for",
                format!("there are never {} ONUs", self.wait_for),
                format!("write at most {}", self.onus_max),
            ));
        }
        if self.distance_m_max > 100_000 {
            errors.push(ConfigError::new(
                "distance_m_max",
                format!("{} m is too far", self.distance_m_max),
                "write at most 100000",
            ));
        }
        let (shares, reserved) = self.shares(&mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        let narrow = |quanta: u64| u32::try_from(quanta).unwrap_or(u32::MAX);
        let rtt_ps = 2 * u64::from(self.distance_m_max) * FIBRE_PS_PER_M;
        let lead = narrow(lead);
        Ok(Params {
            onus_max: self.onus_max,
            guard: narrow(guard),
            sync_time: u16::try_from(sync_time).unwrap_or(u16::MAX),
            laser_max: u8::try_from(laser_max).unwrap_or(u8::MAX),
            lead,
            rtt_max: narrow(rtt_ps / QUANTUM_PS) + 16,
            discovery_period: period,
            discovery_window: u16::try_from(window).unwrap_or(u16::MAX),
            cycle_min: narrow(cycle_min),
            timeout,
            // A REPORT may be as late as a GATE.
            report_margin: lead.max(Params::default().report_margin),
            reserved,
            dba: Settings {
                discipline: match self.service {
                    Service::Fixed => Discipline::Fixed,
                    Service::Limited => Discipline::Limited,
                    Service::Gated => Discipline::Gated,
                    Service::ConstantCredit => Discipline::ConstantCredit(narrow(credit)),
                    Service::LinearCredit => Discipline::LinearCredit(self.credit_percent),
                },
                cycle_max: narrow(cycle_max).min(QUANTA_PER_SECOND as u32),
                shares,
            },
            ..Params::default()
        })
    }

    fn shares(&self, errors: &mut ConfigErrors) -> (Vec<Share>, Vec<MacAddr>) {
        let mut shares = Vec::new();
        let mut reserved = Vec::new();
        for (index, onu) in self.onus.iter().enumerate() {
            match station(&format!("onus[{index}].mac"), &onu.mac) {
                Ok(mac) if reserved.contains(&mac) => errors.push(ConfigError::new(
                    format!("onus[{index}].mac"),
                    format!("{mac} is listed twice"),
                    "list each ONU once",
                )),
                Ok(mac) => reserved.push(mac),
                Err(error) => errors.push(error),
            }
            let guaranteed_bps = match onu.guaranteed {
                None => 0,
                Some(Rate::BitsPerSecond(bps)) => bps as u64,
                Some(Rate::PacketsPerSecond(_)) => {
                    errors.push(ConfigError::new(
                        format!("onus[{index}].guaranteed"),
                        "a guarantee is in bits",
                        "write a rate like 100Mbps",
                    ));
                    0
                }
            };
            shares.push(Share {
                weight: onu.weight,
                guaranteed_bps,
            });
        }
        (shares, reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_left_out_are_those_of_the_reference() {
        crate::documented::assert_defaults::<Config>("olt_mac", &serde_json::json!({}));
        let onu = serde_json::json!({"onus": [{"mac": "02:00:00:00:00:01"}]});
        let config: Config = serde_json::from_value(onu).unwrap();
        assert_eq!(config.onus[0].weight, 1);
    }

    #[test]
    fn settings_become_quanta() {
        let config: Config = serde_json::from_value(serde_json::json!({})).unwrap();
        let params = config.params().unwrap();
        let quanta = [
            params.guard,
            u32::from(params.sync_time),
            u32::from(params.laser_max),
            u32::from(params.discovery_window),
            params.cycle_min,
            params.lead,
            params.report_margin,
        ];
        assert_eq!(quanta, [32, 50, 32, 15_625, 31_250, 62_500, 62_500]);
        // 20 km there and back, and a margin.
        assert_eq!(params.rtt_max, 12_242 + 16);
        assert_eq!(params.dba.cycle_max, 125_000);
        assert_eq!(
            (params.discovery_period, params.timeout),
            (3_125_000, 62_500_000)
        );
        // Where links add nothing a REPORT has its time still.
        let config: Config = serde_json::from_value(serde_json::json!({"lead": "0us"})).unwrap();
        assert_eq!(config.params().unwrap().report_margin, 625);
    }
}
