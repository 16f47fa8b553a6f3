//! `tap`: the port over a TAP interface.
//!
//! A frame is read into memory of the port's own and copied into the smallest buffer that holds it,
//! since its length is not known before. While the interface is down nothing is received and what
//! is sent fails; both work again when it comes up. Once it is deleted the port has failed.

use std::os::fd::BorrowedFd;

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::port::{Port, PortError, PortKind, PortRole, RxBurst, RxState, TxBurst};
use schemars::JsonSchema;
use serde::Deserialize;

use super::options::{INTERFACE_NAME_LEN_MAX, Options};
use super::sys::Tap;
use crate::opening::{failed, parse, refused};

/// Longest frame that a TAP hands out: the largest MTU, an Ethernet header and a VLAN tag.
const FRAME_LEN_MAX: usize = 65_535 + 18;
/// The kernel's limits on an Ethernet interface (`ETH_MIN_MTU`, and that of a TAP).
const MTU_LIMITS: std::ops::RangeInclusive<u16> = 68..=65_521;
/// How often a frame is offered to a queue that is full before it counts as failed.
const TRIES: u32 = 4;

/// Which interface.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the interface, made if there is none; `%d` in it stands for the first free number.
    name: String,
    /// Longest packet, without Ethernet header, that the host sends on it; the kernel's choice,
    /// 1500, without it.
    mtu: Option<u16>,
    /// Bring the interface up.
    #[serde(default = "yes")]
    up: bool,
}

fn yes() -> bool {
    true
}

impl Config {
    fn check(&self) -> Result<PortRole, ConfigErrors> {
        let mut errors = Vec::new();
        if self.name.is_empty() || self.name.len() > INTERFACE_NAME_LEN_MAX {
            errors.push(ConfigError::new(
                "name",
                format!("\"{}\" is not the name of an interface", self.name),
                format!("give 1 to {INTERFACE_NAME_LEN_MAX} bytes"),
            ));
        }
        if self.mtu.is_some_and(|mtu| !MTU_LIMITS.contains(&mtu)) {
            let (start, end) = (MTU_LIMITS.start(), MTU_LIMITS.end());
            errors.push(ConfigError::new(
                "mtu",
                "no TAP takes this MTU",
                format!("give {start} to {end}"),
            ));
        }
        if errors.is_empty() {
            Ok(PortRole::of(true, true))
        } else {
            Err(errors)
        }
    }
}

/// The chain file's entry.
pub const KIND: PortKind = PortKind {
    name: "tap",
    summary: "Exchanges packets with this host's network stack by a TAP interface",
    counters: &["interface_down", "too_short", "queue_full"],
    drop_reasons: &[],
    schema: || schemars::schema_for!(Config),
    check: |config| parse_config::<Config>(config)?.check(),
    open: |config, _| {
        let config: Config = parse(config)?;
        config.check().map_err(refused)?;
        let tap = Tap::open(&config.name, Options::default()).map_err(failed)?;
        if let Some(mtu) = config.mtu {
            tap.set_mtu(mtu).map_err(failed)?;
        }
        if config.up {
            tap.set_up().map_err(failed)?;
        }
        Ok(Box::new(TapPort {
            tap,
            frame: vec![0; FRAME_LEN_MAX],
            is_removed: false,
            down: 0,
            too_short: 0,
            queue_full: 0,
            failure: None,
        }))
    },
};

#[derive(Debug)]
struct TapPort {
    tap: Tap,
    frame: Vec<u8>,
    is_removed: bool,
    down: u64,
    too_short: u64,
    queue_full: u64,
    failure: Option<PortError>,
}

impl TapPort {
    /// Notes an error that the interface has; only its removal is for good.
    #[cold]
    fn note(&mut self, error: &std::io::Error) {
        match error.kind() {
            std::io::ErrorKind::NetworkDown => self.down += 1,
            std::io::ErrorKind::NotFound => {
                self.is_removed = true;
                let name = self.tap.name();
                self.failure = Some(PortError(format!("TAP interface '{name}' was deleted")));
            }
            _ => {
                let name = self.tap.name();
                let failure = PortError(format!("TAP interface '{name}': {error}"));
                self.failure.get_or_insert(failure);
            }
        }
    }

    /// Offers a frame a few times.
    fn send(&self, frame: &[u8]) -> std::io::Result<bool> {
        for _ in 0..TRIES {
            if self.tap.send(frame)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Port for TapPort {
    fn rx(&mut self, burst: &mut RxBurst<'_>, _now: Nanos) -> RxState {
        if self.is_removed {
            return RxState::Failed;
        }
        while burst.room() > 0 {
            match self.tap.recv(&mut self.frame) {
                Ok(Some(len)) => {
                    burst.push_copy(&self.frame[..len]);
                }
                Ok(None) => return RxState::Idle,
                Err(error) => {
                    self.note(&error);
                    return if self.is_removed {
                        RxState::Failed
                    } else {
                        RxState::Idle
                    };
                }
            }
        }
        RxState::More
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, _now: Nanos) -> usize {
        let (mut sent, mut is_over) = (0, false);
        burst.read(|bytes| {
            if is_over {
                return;
            }
            match self.send(bytes) {
                Ok(true) => sent += 1,
                Ok(false) => {
                    self.queue_full += 1;
                    is_over = true;
                }
                Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {
                    self.too_short += 1;
                }
                Err(error) => {
                    self.note(&error);
                    is_over = true;
                }
            }
        });
        sent
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.tap.fd())
    }

    fn close(&mut self) -> Result<(), PortError> {
        self.failure.take().map_or(Ok(()), Err)
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        out.extend([
            ("interface_down", self.down),
            ("too_short", self.too_short),
            ("queue_full", self.queue_full),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn wrong_configurations_name_the_field() {
        for (config, path) in [
            (json!({}), "name"),
            (json!({ "name": "" }), "name"),
            (json!({ "name": "a234567890123456" }), "name"),
            (json!({ "name": "tap0", "mtu": 67 }), "mtu"),
            (json!({ "name": "tap0", "mtu": 65_522 }), "mtu"),
            (json!({ "name": "tap0", "up": 1 }), "up"),
            (json!({ "name": "tap0", "down": true }), "down"),
        ] {
            let errors = (KIND.check)(&config).unwrap_err();
            let error = &errors[0];
            assert!(
                error.path == path || error.message.contains(path),
                "{config}: {error}"
            );
        }
        let role = (KIND.check)(&json!({ "name": "tap%d", "mtu": 9000, "up": false })).unwrap();
        assert!(role.receives && role.sends);
    }
}
