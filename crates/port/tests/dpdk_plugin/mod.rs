//! The `dpdk` port on a bench, with a plug-in that is built against the DPDK of this machine.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use catena_engine::nf::Nanos;
use catena_engine::port::PortError;
use catena_port::dpdk::{self, BuildError};
use catena_port::port_bench::PortBench;
use serde_json::{Value, json};

/// The plug-in, built once; none, with the reason, where there is no DPDK to build against.
static PLUGIN: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(concat!(env!("CARGO_CRATE_NAME"), "/catena_dpdk.so"));
    match dpdk::build(&file) {
        Ok(_) => Ok(file),
        Err(why @ (BuildError::NoDpdk | BuildError::NoProgram { .. })) => Err(why.to_string()),
        Err(why) => panic!("{why}"),
    }
});

pub(crate) fn plugin(test: &str) -> Option<&'static Path> {
    match &*PLUGIN {
        Ok(file) => Some(file),
        Err(why) => {
            println!("SKIP {test}: {why}");
            None
        }
    }
}

pub(crate) fn open(plugin: &Path, device: &str, more: Value) -> Result<PortBench, PortError> {
    let config = config(plugin, device, more);
    PortBench::open(&dpdk::KIND, &config, Path::new("."))
}

pub(crate) fn config(plugin: &Path, device: &str, more: Value) -> Value {
    let mut config = json!({ "device": device, "plugin": plugin, "ring": 64, "idle": "0us" });
    let (Value::Object(config_map), Value::Object(more)) = (&mut config, more) else {
        panic!("settings are a map");
    };
    config_map.extend(more);
    config
}

pub(crate) fn frames(count: u8, len: usize) -> Vec<Vec<u8>> {
    let frame = |seed: u8| (0..len).map(|at| seed.wrapping_add(at as u8)).collect();
    (0..count).map(frame).collect()
}

/// Turns of some ports, with the time that passes, until it is as wanted.
pub(crate) fn until(
    what: &str,
    ports: &mut [&mut PortBench],
    mut is_so: impl FnMut(&mut [&mut PortBench]) -> bool,
) {
    let started = Instant::now();
    while !is_so(ports) {
        assert!(started.elapsed() < Duration::from_secs(30), "{what}");
        for port in &mut *ports {
            port.now = Nanos(u64::try_from(started.elapsed().as_nanos()).unwrap());
            port.reap();
        }
    }
}
