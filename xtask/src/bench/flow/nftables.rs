//! The kernel's policer as a peer: a rate limit per address by nftables, in a namespace of its own.
//!
//! A child in a new network namespace sends datagrams over the loopback. A rule of the output hook
//! drops those to one range at once, and those to another behind a limit per address: the
//! difference is what the limit costs. Both take turns. The way of a packet through the kernel is
//! on both sides, and so is no part of the figure.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::error::Error;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use super::super::child::Guarded;
use super::super::install;
use super::super::series::Series;

/// Name of the hidden subcommand that is the child.
pub(crate) const SENDER: &str = "flow-sender";
/// What a reader of the figure must know.
pub(super) const NOTES: [&str; 2] = [
    "nftables: `update @set { ip daddr limit rate over ... } drop` in the output hook, each \
     address in the set before; what datagrams cost without the rule is taken off",
    "nftables has a window of 100 us and 5 packets for each address; its socket's and its hook's \
     own cost is several times the rule's, so the figure is within some tens of ns",
];
/// To be dropped at once, and to be limited: the first addresses.
const PLAIN: u32 = 0x7f40_0000;
const LIMITED: u32 = 0x7f80_0000;
/// Datagrams of a window, and windows of each side in a round.
const WINDOW: u32 = 50_000;
const WINDOWS: u32 = 9;
const LIMIT: Duration = Duration::from_secs(60);
/// In the namespace, before datagrams.
const SETUP: &str = "set -e
ip link set lo up
nft -f - <<'RULES'
table ip catena {
  set known { type ipv4_addr; size 4194304; flags dynamic,timeout; timeout 1h; }
  chain out {
  type filter hook output priority 0;
  ip daddr 127.64.0.0/10 drop
  ip daddr 127.128.0.0/9 \
    update @known { ip daddr limit rate over 10000/second burst 5 packets } drop
  ip daddr 127.128.0.0/9 drop
  }
}
RULES
exec \"$0\" flow-sender \"$@\"
";

/// Arguments of the child.
#[derive(clap::Args)]
pub(crate) struct SenderArguments {
    /// Addresses, at most 4 million
    flows: u32,
    /// Rounds
    rounds: u32,
}

/// Nanoseconds that the limit takes for a packet, by rounds.
pub(super) fn measure(flows: u32, rounds: u32, work_dir: &Path) -> Series {
    let mut series = Series::default();
    match ask(flows, rounds, work_dir) {
        Ok(all) => all
            .into_iter()
            .for_each(|one| series.push(Ok::<_, String>(one))),
        Err(error) => series.push(Err(format!("nftables: {error}"))),
    }
    series
}

fn ask(flows: u32, rounds: u32, work_dir: &Path) -> Result<Vec<f64>, String> {
    install::require("nft", &["nftables"], work_dir)?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = program.to_string_lossy().into_owned();
    let (flows, rounds) = (flows.to_string(), rounds.to_string());
    let arguments = ["--net", "sh", "-c", SETUP, &program, &flows, &rounds];
    let arguments = arguments.map(str::to_owned);
    let mut child = Guarded::start("unshare", arguments, &[], work_dir.join("nftables.log"))
        .map_err(|error| error.to_string())?;
    let deadline = Instant::now() + LIMIT;
    let mut found = Vec::new();
    while let Some((_, line)) = child.next_line(deadline) {
        found.extend(line.parse::<f64>());
    }
    match child.wait(deadline) {
        Some(status) if status.success() && !found.is_empty() => Ok(found),
        Some(status) => Err(format!("{status}: {}", child.error_tail())),
        None => Err("took too long".to_owned()),
    }
}

/// The child: prints a round's figure in each line.
pub(crate) fn send(arguments: &SenderArguments) -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let one = |first: u32, at: u32| {
        let to = Ipv4Addr::from_bits(first + at);
        // Dropped, which is told as an error.
        let _ = socket.send_to(&[0; 18], (to, 53));
    };
    let flows = arguments.flows.clamp(1, 1 << 22);
    (0..flows).for_each(|at| one(LIMITED, at));
    let mut next = 0;
    let mut window = |first: u32| {
        let started = Instant::now();
        for _ in 0..WINDOW {
            // Visits all addresses, far apart.
            next = (next + 0x9e37_79b1 % flows) % flows;
            one(first, next);
        }
        started.elapsed().as_secs_f64() * 1e9 / f64::from(WINDOW)
    };
    for _ in 0..arguments.rounds {
        let mut differences = Vec::new();
        for _ in 0..WINDOWS {
            let plain = window(PLAIN);
            differences.push(window(LIMITED) - plain);
        }
        differences.sort_by(f64::total_cmp);
        println!("{}", differences[differences.len() / 2]);
    }
    Ok(())
}
