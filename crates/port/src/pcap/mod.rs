//! `pcap`: reads packets from a capture file, or writes them to one.
//!
//! First or last step of a packet's life. Reading waits for buffers, so every record before the end
//! or the first damage is received; damage is told at the end and the chain works on what came
//! before. Writing never stops a chain either: packets that a full disk has no room for are
//! refused, and the error is told at the end. The files themselves are
//! [`capture`](crate::capture)'s.
//!
//! File access blocks; a slow disk slows the worker that owns the port.

mod config;
mod reading;
mod writing;

use catena_engine::config::parse_config;
use catena_engine::port::{PortKind, PortNeeds};

pub use config::Config;

use crate::opening::{parse, refused, resolve};
use reading::Reading;
use writing::Writing;

/// The chain file's entry.
pub const KIND: PortKind = PortKind {
    name: "pcap",
    summary: "Receives packets from a capture file, or sends them to one",
    counters: &["laps", "cut_short", "empty", "in_file", "refused"],
    drop_reasons: &[],
    needs: PortNeeds::NONE,
    schema: || schemars::schema_for!(Config),
    check: |config| parse_config::<Config>(config)?.check(),
    open: |config, opening| {
        let dir = opening.dir;
        let config: Config = parse(config)?;
        config.check().map_err(refused)?;
        Ok(match (&config.read, &config.write) {
            (Some(path), _) => Box::new(Reading::open(&config, &resolve(dir, path))?),
            (None, path) => {
                let named = path.as_deref().unwrap_or(dir);
                let path = resolve(dir, named);
                Box::new(Writing::open(&config, (&path, named), opening)?)
            }
        })
    },
};

#[cfg(test)]
mod tests;
