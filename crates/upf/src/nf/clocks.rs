//! What the NF looks at once, when it is built: the clocks of the machine, the file of a snapshot,
//! and whether N4 is open to anybody. Later the time comes with each call.

use std::fs::File;
use std::io::{BufReader, ErrorKind};

use catena_shm::tsc;
use catena_wire::pfcp::value::Time;

use crate::config::Config;
use crate::settings::Settings;
use crate::snapshot;
use crate::store::Memory;
use crate::usage::WallClock;

/// The wall clock now, beside the engine's: read once, when the NF is built.
pub(super) fn wall_clock(config: &Config) -> WallClock {
    let epoch = i128::from(Time::UNIX_EPOCH) * 1_000_000_000;
    let unix_ns = match config.simulated_epoch {
        Some(seconds) => i128::from(seconds) * 1_000_000_000,
        None => tsc::epoch_ns(),
    };
    WallClock {
        zero_ns: epoch + unix_ns,
    }
}

/// The engine's clock now: read once, when the NF is built.
pub(super) fn now_ns(config: &Config) -> u64 {
    match config.simulated_epoch {
        Some(_) => 0,
        None => tsc::kernel_ns(),
    }
}

/// Memory with what a snapshot has, if there is one and nothing is kept; and what is said of it.
pub(super) fn snapshot(
    config: &Config,
    settings: &Settings,
    memory: Memory,
    now_ns: u64,
) -> (Memory, Option<String>) {
    let Some(wanted) = &config.snapshot else {
        return (memory, None);
    };
    let file = wanted.file_of(settings.shard);
    let opened = match File::open(&file) {
        Ok(opened) => opened,
        // The first run has none.
        Err(error) if error.kind() == ErrorKind::NotFound => return (memory, None),
        Err(error) => {
            let notice =
                format!("the snapshot {file} cannot be read: {error}; sessions begin anew");
            return (memory, Some(notice));
        }
    };
    let mut opened = BufReader::new(opened);
    let (memory, restored) = snapshot::restore(memory, settings, now_ns, &mut opened);
    let notice = match restored {
        Ok(None) => None,
        Ok(Some(count)) => Some(format!("{count} sessions are those of the snapshot {file}")),
        Err(why) => Some(format!(
            "the snapshot {file} is not taken: {why}; sessions begin anew, and the next snapshot \
             leaves it as {file}.refused"
        )),
    };
    (memory, notice)
}

/// What is said of a UPF that hears anybody.
pub(super) fn is_open(config: &Config, shard: u16) -> Option<String> {
    let is_open = config.n4.peers.is_empty() && config.simulated_epoch.is_none();
    (is_open && shard == 0).then(|| {
        "n4.peers is left out: whoever reaches N4 may have sessions; name the networks of SMFs"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::read;

    #[test]
    fn a_upf_that_hears_anybody_says_so_once() {
        let config = |peers: &[&str], epoch: Option<u64>| {
            let settings = json!({
                "node_id": "10.4.0.1", "n4": { "address": "10.4.0.1", "peers": peers },
                "interfaces": [{ "name": "n3", "side": "access" }], "simulated_epoch": epoch,
            });
            read(&settings).unwrap().0
        };
        let said = is_open(&config(&[], None), 0).unwrap();
        assert!(said.starts_with("n4.peers"), "{said}");
        assert_eq!(is_open(&config(&[], None), 1), None);
        assert_eq!(is_open(&config(&["10.4.0.0/24"], None), 0), None);
        assert_eq!(is_open(&config(&[], Some(1)), 0), None);
    }
}
