//! The kernel's balancer as a peer: connections that nftables translates to one of three servers,
//! in namespaces of their own.
//!
//! A child in one namespace sends segments of many clients through a veth pair into another one,
//! where connections are tracked and their destination is one that `numgen` has chosen for each. A
//! rule behind the translation drops the segments that are measured, with connection and without:
//! the difference is what tracking and translating cost. Both take turns, and so do this and
//! Catena's program, round by round. The way of a packet into the namespace is on both sides, and
//! so is no part of the figure.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::error::Error;
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with,
};

use super::super::child::Guarded;
use super::super::install;
use super::super::series::{Series, median};
use super::samples::{Sample, Step};

/// Name of the hidden subcommand that is the child.
pub(crate) const SENDER: &str = "flow-connections";
/// What a reader of the figure must know.
pub(super) const NOTES: [&str; 2] = [
    "nftables: `dnat ip addr . port to numgen inc mod 3 map {...}` in the prerouting hook, each \
     connection tracked before, with as many buckets as flows; what segments cost that are not \
     tracked is taken off, so the figure is within some tens of ns",
    "nftables has a window of 20,000 segments, all of other connections, and up to 1 M flows, for \
     which the host's nf_conntrack_max is raised while this runs",
];
/// Most connections that the kernel is asked to keep.
pub(super) const FLOWS_MAX: u32 = 1_000_000;
/// Segments of a window, and windows of each side in a round.
const WINDOW: u32 = 20_000;
const WINDOWS: u32 = 9;
const LIMIT: Duration = Duration::from_secs(120);
const SERVICE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 100), 0);
/// Types of service by which rules know segments: those that begin connections are forwarded.
const BEGIN: u8 = 0;
const PLAIN: u8 = 4;
const BALANCED: u8 = 8;
/// In the namespace of clients; the balancer's ends with its parent.
const SETUP: &str = r#"set -e
setpriv --pdeathsig KILL unshare --net sh -c 'echo; exec sleep 600' > "$1" &
balancer=$!
while [ ! -s "$1" ]; do :; done
inside() { nsenter --target $balancer --net "$@"; }
ip link add clients type veth peer name uplink
ip link set uplink netns $balancer
ip addr add 10.9.0.1/24 dev clients
ip link set clients up
inside sh -ec '
ip link set uplink address 02:00:00:00:00:02
ip link set uplink up
ip addr add 10.9.0.2/24 dev uplink
ip link add servers type veth peer name nowhere
ip link set servers up
ip link set nowhere up
ip addr add 10.0.1.254/24 dev servers
for last in 1 2 3; do
  ip neigh add 10.0.1.$last lladdr 02:00:00:00:01:0$last dev servers
done
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter
echo 0 > /proc/sys/net/ipv4/conf/uplink/rp_filter
nft -f - <<RULES
table ip catena {
  counter plain {}
  counter balanced {}
  chain before {
    type filter hook prerouting priority -300;
    ip dscp 1 notrack
  }
  chain balance {
    type nat hook prerouting priority -100;
    ip daddr 10.0.0.100 tcp dport 80 dnat ip addr . port to \
      numgen inc mod 3 map { 0: 10.0.1.1 . 8080, 1: 10.0.1.2 . 8080, 2: 10.0.1.3 . 8080 }
  }
  chain end {
    type filter hook prerouting priority 0;
    ip dscp 1 counter name plain drop
    ip dscp 2 ip daddr 10.0.1.0/24 counter name balanced drop
    ip dscp 2 drop
  }
}
RULES
'
ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev clients
ip route add 10.0.0.100/32 via 10.9.0.2
"$0" flow-connections "$2"
count() { inside nft list counter ip catena $1 | sed -n 's/.*packets \([0-9]*\) .*/\1/p'; }
plain=$(count plain) balanced=$(count balanced)
kill $balancer
[ "$plain" = "$balanced" ] || { echo "$balanced of $plain segments were translated" >&2; exit 1; }
"#;

/// Arguments of the child.
#[derive(clap::Args)]
pub(crate) struct SenderArguments {
    /// Connections
    flows: u32,
}

/// Room for tracked connections, which is the host's for all namespaces; given back when dropped.
#[derive(Debug)]
struct Room {
    before: Vec<(&'static str, u64)>,
}

impl Room {
    fn reserve(flows: u32) -> Self {
        let wanted = [
            // Those of a namespace that has just ended count on for a while.
            ("/proc/sys/net/netfilter/nf_conntrack_max", 4 * flows),
            ("/proc/sys/net/netfilter/nf_conntrack_buckets", flows),
        ];
        let mut before = Vec::new();
        for (path, wanted) in wanted {
            let text = fs::read_to_string(path).unwrap_or_default();
            let Ok(found) = text.trim().parse::<u64>() else {
                continue;
            };
            if found < u64::from(wanted) && fs::write(path, wanted.to_string()).is_ok() {
                before.push((path, found));
            }
        }
        Self { before }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        for (path, value) in &self.before {
            let _ = fs::write(path, value.to_string());
        }
    }
}

/// The kernel's balancer with so many connections.
pub(super) struct Peer {
    /// Until it fails.
    child: Option<(Guarded, Room)>,
    series: Series,
}

impl Peer {
    /// All connections made. What fails is told by the series.
    pub(super) fn start(flows: u32, work_dir: &Path) -> Self {
        let mut series = Series::default();
        let child = match start(flows, work_dir) {
            Ok(child) => Some(child),
            Err(error) => {
                series.push(Err(format!("nftables: {error}")));
                None
            }
        };
        Self { child, series }
    }

    /// One round: nanoseconds that tracking and translating take for a packet.
    pub(super) fn round(&mut self) {
        let Some((child, _)) = &mut self.child else {
            return;
        };
        let told = child.say("round").map_err(|error| error.to_string());
        let told = told.and_then(|()| next(child));
        if told.is_err() {
            self.child = None;
        }
        let figure = told.and_then(|line| line.parse::<f64>().map_err(|error| error.to_string()));
        self.series.push(figure);
    }

    /// The rounds' figures, unless segments were not translated.
    pub(super) fn finish(mut self) -> Series {
        let Some((mut child, _room)) = self.child.take() else {
            return self.series;
        };
        let told = child.say("end").map_err(|error| error.to_string());
        let status = child.wait(Instant::now() + LIMIT);
        match (told, status) {
            (Ok(()), Some(status)) if status.success() => self.series,
            _ => {
                let mut failed = Series::default();
                failed.push(Err(format!("nftables: {}", child.error_tail())));
                failed
            }
        }
    }
}

fn start(flows: u32, work_dir: &Path) -> Result<(Guarded, Room), String> {
    install::require("nft", &["nftables"], work_dir)?;
    let room = Room::reserve(flows);
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = program.to_string_lossy().into_owned();
    let ready = work_dir.join(format!("dnat-{flows}"));
    let (ready, flows) = (ready.to_string_lossy().into_owned(), flows.to_string());
    let arguments = ["--net", "sh", "-c", SETUP, &program, &ready, &flows];
    let arguments = arguments.map(str::to_owned);
    let log = work_dir.join("dnat.log");
    let mut child = Guarded::start_with_input("unshare", arguments, &[], log)
        .map_err(|error| error.to_string())?;
    next(&mut child)?;
    Ok((child, room))
}

fn next(child: &mut Guarded) -> Result<String, String> {
    let line = child.next_line(Instant::now() + LIMIT);
    line.map(|(_, line)| line)
        .ok_or_else(|| format!("ended or took too long: {}", child.error_tail()))
}

/// A segment of a connection, with a type of service.
fn segment(flow: u32, tos: u8) -> Vec<u8> {
    let frame = Sample::Balancer.packet(u64::from(flow), Step::Later, 64);
    let mut packet = frame[14..].to_vec();
    packet[1] = tos;
    // What a checksum loses when a word grows (RFC 1624): the word held 0x4500.
    let sum = u16::from_be_bytes([packet[10], packet[11]]);
    let (less, borrows) = sum.overflowing_sub(u16::from(tos));
    let sum = less.wrapping_sub(u16::from(borrows));
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// The child: a line when all connections are there, and the figure of a round for each line that
/// it reads, until that says `end`.
pub(crate) fn send(arguments: &SenderArguments) -> Result<(), Box<dyn Error>> {
    let raw = Some(ipproto::RAW);
    let (inet, kind) = (AddressFamily::INET, SocketType::RAW);
    let socket = socket_with(inet, kind, SocketFlags::CLOEXEC, raw)?;
    let send = |packet: &[u8]| sendto(&socket, packet, SendFlags::empty(), &SERVICE);
    let flows = arguments.flows.clamp(1, FLOWS_MAX);
    for flow in 0..flows {
        send(&segment(flow, BEGIN))?;
    }
    println!("ready");
    let mut next = 0;
    let mut window = |tos: u8| {
        let mut step = || {
            // Visits all connections, far apart.
            next = (next + 0x9e37_79b1 % flows) % flows;
            segment(next, tos)
        };
        let packets: Vec<Vec<u8>> = (0..WINDOW).map(|_| step()).collect();
        let started = Instant::now();
        for packet in &packets {
            send(packet)?;
        }
        let ns = started.elapsed().as_secs_f64() * 1e9 / f64::from(WINDOW);
        Ok::<_, rustix::io::Errno>(ns)
    };
    for line in std::io::stdin().lines() {
        if line? == "end" {
            break;
        }
        let mut differences = Vec::new();
        for _ in 0..WINDOWS {
            let plain = window(PLAIN)?;
            differences.push(window(BALANCED)? - plain);
        }
        println!("{}", median(&differences).unwrap_or_default());
    }
    Ok(())
}

/// Whether the kernel has its other balancer, for the notes.
pub(super) fn ipvs_note() -> String {
    let has_it = Path::new("/proc/net/ip_vs").exists() || Path::new("/sys/module/ip_vs").exists();
    let what = if has_it {
        "IPVS is not measured: this kernel has ip_vs, and this command has no side for it"
    } else {
        "IPVS is not measured: this kernel has no ip_vs loaded"
    };
    what.to_owned()
}

#[cfg(test)]
mod tests {
    use catena_flow::program::header::Headers;
    use catena_flow::program::template::fill_checksums;

    use super::*;

    #[test]
    fn segments_are_whole_with_any_type_of_service() {
        for tos in [BEGIN, PLAIN, BALANCED] {
            for flow in [0, 7, 65_535, 999_999] {
                let packet = segment(flow, tos);
                let mut frame = [&[2; 12][..], &[8, 0], &packet].concat();
                let headers = Headers::parse(&frame);
                fill_checksums(&mut frame, &headers);
                assert_eq!((&frame[14..], packet[1]), (&*packet, tos), "{flow}");
            }
        }
    }
}
