//! Operations on sessions by UDP: an SMF with a socket, a chain with a port to the kernel.
//!
//! A child in a network namespace of its own runs a chain by the binary: N4 by a packet socket, and
//! a capture of users' packets in a loop, all in one core's loop with the UPF. Then it is the SMF,
//! with a UDP socket at the other end of a veth pair and so many requests outstanding: each answer
//! brings the next request. The kernel, the port and the links are in the figure, as is the SMF: it
//! has the other core with the kernel's half.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::collections::HashMap;
use std::error::Error;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use catena_measure::stats::histogram::Histogram;
use catena_measure::stats::random::Random;
use catena_wire::pfcp::{PORT, View};
use serde_json::{Value, json};

use super::super::child::Guarded;
use super::super::install;
use super::super::report::{Row, Target};
use super::super::running::Running;
use super::super::series::Series;
use super::OPERATIONS;
use super::flood::capture;
use super::operations::{OUTSTANDING, Operation};
use super::smf::{
    N4, Request, Rules, SMF as SMF_ADDRESS, Session, establishment, establishment_of, read_answer,
    request, set_up, settings,
};
use super::traffic::{Way, frame};

/// Name of the hidden subcommand that is the child.
pub(crate) const SMF: &str = "upf-smf";
const NAME: &str = "upf-socket";
/// In the namespace, before the child. What a socket sends must have its checksum.
const SETUP: &str = "set -e
ip link set lo up
echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
ip link add smf address 02:00:00:00:00:02 type veth peer name n4 address 02:00:00:00:00:01
ip addr add 10.4.0.2/24 dev smf
ip neigh add 10.4.0.1 lladdr 02:00:00:00:00:01 dev smf nud permanent
ip link set smf up
ip link set n4 up
ethtool -K smf tx off > /dev/null
exec \"$0\" upf-smf \"$@\"
";
const LIMIT: Duration = Duration::from_secs(120);
/// How long an answer may take: nothing is lost between the two, so none is asked for again.
const PATIENCE: Duration = Duration::from_secs(2);
/// Sessions that get packets, and that come and go beside them.
const SERVED: u16 = 64;
const ROOM: u32 = 400_000;
/// Packets of all of them in a second.
const PACE: &str = "50kpps";

/// Arguments of the child.
#[derive(clap::Args)]
pub(crate) struct SmfArguments {
    /// The binary
    binary: PathBuf,
    /// Folder for its files
    folder: PathBuf,
    /// For how long each operation is repeated, in milliseconds
    millis: u64,
}

/// What was found, over rounds, by operation.
#[derive(Default)]
pub(super) struct Found {
    rates: [Series; OPERATIONS.len()],
    medians: [Series; OPERATIONS.len()],
    tails: [Series; OPERATIONS.len()],
    lost: [Series; OPERATIONS.len()],
    pub(super) notes: Vec<String>,
}

impl Found {
    /// Measures a round.
    pub(super) fn measure(&mut self, binary: &Path, folder: &Path, time: Duration) {
        let lines = match run(binary, folder, time) {
            Ok(lines) => lines,
            Err(error) => return self.fail(&error),
        };
        for (at, line) in lines.iter().enumerate() {
            let number = |key: &str| {
                line[key]
                    .as_f64()
                    .ok_or_else(|| format!("no {key}: {line}"))
            };
            self.rates[at].push(number("kops"));
            self.medians[at].push(number("median_us"));
            self.tails[at].push(number("tail_us"));
            self.lost[at].push(number("lost"));
            let (name, packets) = (OPERATIONS[at].name(), &line["packets"]);
            self.notes
                .push(format!("{name}, by sockets: {packets} packets among"));
        }
    }

    /// There are no figures of a round.
    pub(super) fn fail(&mut self, error: &str) {
        let error = format!("by sockets: {error}");
        let all = self.rates.iter_mut().chain(&mut self.lost);
        all.for_each(|series| series.push::<&str>(Err(&error)));
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (at, operation) in OPERATIONS.iter().enumerate() {
            let mut row = |what: &str, unit, series: &[Series; OPERATIONS.len()], target| {
                let metric = format!("{}, by sockets: {what}", operation.name());
                rows.push(Row::new(metric, unit, &series[at], None, target));
            };
            let least = (*operation == Operation::Establish).then_some(Target::AtLeast(100.0));
            row("rate", "k/s", &self.rates, least);
            let what = "latency with 64 outstanding";
            row(&format!("{what}, median"), "us", &self.medians, None);
            row(&format!("{what}, p99.9"), "us", &self.tails, None);
            let none = Some(Target::AtMost(0.0));
            row("packets lost", "packets", &self.lost, none);
        }
        rows
    }
}

/// What the child says of each operation.
fn run(binary: &Path, folder: &Path, time: Duration) -> Result<Vec<Value>, String> {
    for (program, package) in [("ip", "iproute2"), ("ethtool", "ethtool")] {
        install::require(program, &[package], folder)?;
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let millis = time.as_millis().to_string();
    let [own, binary, place] = [&own, binary, folder].map(|path| path.display().to_string());
    let arguments = ["--net", "sh", "-c", SETUP, &own, &binary, &place, &millis];
    let arguments = arguments.map(str::to_owned);
    let log = folder.join("socket.log");
    let mut child = Guarded::start("unshare", arguments, &[], log)
        .map_err(|error| format!("unshare: {error}"))?;
    let deadline = Instant::now() + LIMIT;
    let mut lines = Vec::new();
    while let Some((_, line)) = child.next_line(deadline) {
        lines.push(serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))?);
    }
    match child.wait(deadline) {
        Some(status) if status.success() && lines.len() == OPERATIONS.len() => Ok(lines),
        Some(status) => Err(format!("{status}: {}", child.error_tail())),
        None => Err("took too long".to_owned()),
    }
}

fn chain() -> String {
    // JSON is YAML.
    let mut upf = settings(ROOM, Rules::Metered.slot_bytes());
    upf["type"] = "upf".into();
    upf["n4"]["next_hop_mac"] = "02:00:00:00:00:02".into();
    format!(
        "name: {NAME}
ports:
  n4: {{ packet_socket: {{ interface: n4, delivery: frames }} }}
  users: {{ pcap: {{ read: users.pcap, loop: forever, pace: {PACE} }} }}
  out: {{ sink: {{}} }}
  aside: {{ sink: {{}} }}
nfs: {{ upf: {upf} }}
links: [ n4 -> upf, users -> upf, upf.n4 -> n4, upf.n3 -> aside, upf.n6 -> out ]
run: {{ mode: inline, wait: spin, cores: [1] }}
"
    )
}

/// TEID and UE address of a session that gets packets.
fn served(at: u16) -> (u32, Ipv4Addr) {
    let [high, low] = at.to_be_bytes();
    (u32::from(at) + 1, Ipv4Addr::new(10, 45, high, low + 1))
}

/// The child: a line of JSON for each operation.
pub(crate) fn ask(arguments: &SmfArguments) -> Result<(), Box<dyn Error>> {
    let folder = &arguments.folder;
    let frames = (0..SERVED).map(|at| {
        let (teid, ue) = served(at);
        let session = Session {
            seid: 0,
            teid,
            ue: ue.into(),
        };
        frame(&session, Way::Uplink, 64)
    });
    let frames: Vec<_> = frames.collect();
    std::fs::write(folder.join("users.pcap"), capture(&frames)?)?;
    let text = chain();
    let binary = arguments.binary.clone();
    let chain = Running::start(binary, folder.clone(), (NAME, &text), |words| words)?;
    let mut smf = Smf::new()?;
    let time = Duration::from_millis(arguments.millis);
    for operation in OPERATIONS {
        let before = passed(&chain)?;
        let found = smf.measure(operation, time)?;
        let after = passed(&chain)?;
        let quantile = |q: f64| found.latency.quantile(q).unwrap_or(0) as f64 / 1000.0;
        let [came, left, dropped] = [0, 1, 2].map(|at| after[at].saturating_sub(before[at]));
        if left == 0 {
            return Err("no packet of a user passed meanwhile".into());
        }
        let line = json!({
            "operation": operation.name(), "kops": found.kops, "median_us": quantile(0.5),
            "tail_us": quantile(0.999), "packets": left, "lost": lost(came, left, dropped),
        });
        println!("{line}");
    }
    Ok(())
}

/// Users' packets that have come, and those that have left: as near to each other as they were in
/// some looks, since a look may be taken while some are on their way.
fn passed(chain: &Running) -> Result<[u64; 3], String> {
    let looks = (0..10).map(|_| chain.status().map(|status| counted(&status)));
    let looks: Vec<[u64; 3]> = looks.collect::<Result<_, _>>()?;
    let nearest = looks
        .into_iter()
        .min_by_key(|[came, left, _]| came.saturating_sub(*left));
    Ok(nearest.unwrap_or_default())
}

/// How many did not leave: those that were dropped, or all that are not seen to leave if they are
/// more than may be on their way.
fn lost(came: u64, left: u64, dropped: u64) -> u64 {
    const ON_THEIR_WAY: u64 = 256;
    let missing = came.saturating_sub(left);
    dropped.max(if missing > ON_THEIR_WAY { missing } else { 0 })
}

/// Users' packets that have come, those that have left, and what any node has dropped that was no
/// message to the UPF.
fn counted(status: &Value) -> [u64; 3] {
    let nodes = status["nodes"].as_array();
    let node = |name: &str| {
        let mut all = nodes.into_iter().flatten();
        all.find(|node| node["name"] == name)
    };
    let of = |name: &str, key: &str| node(name).and_then(|node| node[key].as_u64()).unwrap_or(0);
    let drops = nodes.into_iter().flatten();
    let drops = drops.filter_map(|node| node["drops"].as_object()).flatten();
    let drops = drops.filter(|(reason, _)| *reason != "consumed");
    let drops = drops.filter_map(|(_, count)| count.as_u64()).sum();
    [of("users", "rx_packets"), of("out", "tx_packets"), drops]
}

struct Measured {
    /// Thousands a second.
    kops: f64,
    /// From a request's sending to its answer, in ns.
    latency: Histogram,
}

struct Smf {
    socket: UdpSocket,
    sequence: u32,
    /// Those that get packets first; they stay.
    sessions: Vec<u64>,
    /// Requests that have no answer yet, and since when.
    pending: HashMap<u32, Instant>,
    random: Random,
}

impl Smf {
    /// With an association, and with the sessions that get packets.
    fn new() -> Result<Self, Box<dyn Error>> {
        let socket = UdpSocket::bind((SMF_ADDRESS, PORT))?;
        socket.connect((N4, PORT))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut smf = Self {
            socket,
            sequence: 0,
            sessions: Vec::new(),
            pending: HashMap::new(),
            random: Random::new(7),
        };
        let sequence = smf.next_sequence();
        smf.send(sequence, &set_up(sequence)?)?;
        smf.answer(&mut Histogram::new())?;
        for at in 0..SERVED {
            let sequence = smf.next_sequence();
            let message = establishment_of(sequence, Rules::Metered, Some(served(at)))?;
            smf.send(sequence, &message)?;
            let session = smf.answer(&mut Histogram::new())?;
            smf.sessions.push(session.seid);
        }
        Ok(smf)
    }

    fn next_sequence(&mut self) -> u32 {
        self.sequence = (self.sequence + 1) & 0xff_ffff;
        self.sequence
    }

    fn send(&mut self, sequence: u32, message: &[u8]) -> Result<(), Box<dyn Error>> {
        self.pending.insert(sequence, Instant::now());
        self.socket.send(message)?;
        Ok(())
    }

    /// The next answer that comes.
    fn answer(&mut self, latency: &mut Histogram) -> Result<Session, Box<dyn Error>> {
        let mut bytes = [0; 2048];
        let len = self.socket.recv(&mut bytes).map_err(|error| {
            format!("{} requests without an answer: {error}", self.pending.len())
        })?;
        let answer = &bytes[..len];
        let view = View::parse(answer).map_err(|error| error.to_string())?;
        let sequence = view.header().sequence;
        let since = self.pending.remove(&sequence);
        let since = since.ok_or_else(|| format!("nobody has asked for {sequence}"))?;
        latency.record(since.elapsed().as_nanos() as u64);
        Ok(read_answer(answer)?)
    }

    /// The next request of an operation; none if no session is left to it, or no room.
    fn next(&mut self, operation: Operation) -> Result<Option<(u32, Vec<u8>)>, String> {
        let sequence = self.next_sequence();
        let message = match operation {
            Operation::Establish => {
                let has_room = self.sessions.len() + OUTSTANDING < ROOM as usize;
                has_room
                    .then(|| establishment(sequence, Rules::Metered))
                    .transpose()?
            }
            Operation::Of(Request::Delete) => match self.sessions.len() > usize::from(SERVED) {
                true => {
                    let seid = self.sessions.pop().unwrap_or(0);
                    Some(request(Request::Delete, sequence, seid)?)
                }
                false => None,
            },
            // Every second one is about a session that gets packets.
            Operation::Of(what) => {
                let below = match sequence & 1 {
                    0 => usize::from(SERVED),
                    _ => self.sessions.len(),
                };
                let at = self.random.below(below as u64) as usize;
                Some(request(what, sequence, self.sessions[at])?)
            }
        };
        Ok(message.map(|message| (sequence, message)))
    }

    fn measure(
        &mut self,
        operation: Operation,
        time: Duration,
    ) -> Result<Measured, Box<dyn Error>> {
        let (mut latency, mut count) = (Histogram::new(), 0u64);
        let started = Instant::now();
        for _ in 0..OUTSTANDING {
            if let Some((sequence, message)) = self.next(operation)? {
                self.send(sequence, &message)?;
            }
        }
        while !self.pending.is_empty() {
            let session = self.answer(&mut latency)?;
            count += 1;
            if operation == Operation::Establish {
                self.sessions.push(session.seid);
            }
            if started.elapsed() < time
                && let Some((sequence, message)) = self.next(operation)?
            {
                self.send(sequence, &message)?;
            }
        }
        Ok(Measured {
            kops: count as f64 / started.elapsed().as_secs_f64() / 1000.0,
            latency,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was dropped is lost, and what came and is nowhere; what is on its way is not.
    #[test]
    fn packets_that_are_lost_are_told_from_those_on_their_way() {
        let status = json!({ "nodes": [
            { "name": "n4", "rx_packets": 900, "tx_packets": 900 },
            { "name": "users", "rx_packets": 77 }, { "name": "out", "tx_packets": 70 },
            { "name": "upf", "drops": { "consumed": 900, "no_pdr": 2, "rate_exceeded": 3 } },
        ] });
        assert_eq!(counted(&status), [77, 70, 5]);
        assert_eq!(
            [lost(77, 70, 5), lost(77, 70, 0), lost(977, 70, 5)],
            [5, 0, 907]
        );
    }
}
