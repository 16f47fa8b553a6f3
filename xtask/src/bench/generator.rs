//! `cargo xtask bench generator`: stamped packets per second of the `traffic` port.
//!
//! - Into a link: 64 B from one core to a receiver on another; at least 20 Mpps.
//! - Out of a packet socket on a veth pair: 60 B (64 with FCS), beside Debian's `tcpreplay` and
//!   `trafgen`, which send the same packet again and again. Every rate is what the other end of the
//!   pair has counted meanwhile, the same for all. `tcpreplay` has one thread; `trafgen` starts a
//!   process per core unless told otherwise, so both of its forms are measured, and Catena with a
//!   process per core beside the second.
//!
//! The pair lies in a network namespace of its own, without addresses, and with the offload of UDP
//! segmentation off, so that a run of packets is cut apart before the pair sees it.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Session;
use super::child::{Guarded, output};
use super::install;
use super::report::{Row, Target};
use super::series::Series;

/// Bytes of a packet in a link, and of a frame without FCS.
const LINK_SIZE: usize = 64;
const FRAME_LEN: usize = 60;
/// From the start of a sender until it is at its speed; Catena measures its clock first.
const WARM_UP: Duration = Duration::from_millis(1500);

/// The names of the pair's ends.
const NEAR: &str = "catena-near";
const FAR: &str = "catena-far";

/// Who sends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sender {
    /// Catena, runs of packets as one; a process for each of so many cores.
    Catena {
        processes: usize,
    },
    /// Catena, packet by packet.
    CatenaSingle,
    Tcpreplay,
    /// With so many processes, or as many as it wants.
    Trafgen {
        processes: Option<usize>,
    },
}

const SENDERS: [Sender; 6] = [
    Sender::Catena { processes: 1 },
    Sender::Tcpreplay,
    Sender::Trafgen { processes: Some(1) },
    Sender::CatenaSingle,
    Sender::Catena { processes: 2 },
    Sender::Trafgen { processes: None },
];

/// Measures and adds the rows.
pub(super) fn run(session: &mut Session) {
    let work_dir = session.own.work_dir();
    let wire = Wire::new(work_dir.path());
    let mut link = Series::default();
    let mut rates: [Series; SENDERS.len()] = std::array::from_fn(|_| Series::default());
    for round in 0..session.rounds {
        session.progress(round, "into a link");
        let rate = session
            .own
            .generator(LINK_SIZE, session.seconds, session.cores);
        link.push(rate.map(|rate| rate.mpps));
        for (sender, series) in SENDERS.iter().zip(&mut rates) {
            session.progress(round, &sender.name());
            let rate = wire
                .as_ref()
                .map_err(Clone::clone)
                .and_then(|wire| wire.measure(*sender, session));
            series.push(rate);
        }
    }
    add_rows(session, &link, &rates);
}

fn add_rows(session: &mut Session, link: &Series, rates: &[Series; SENDERS.len()]) {
    let [own, tcpreplay, trafgen, single, own_all, trafgen_all] = rates;
    let above = Some(Target::RatioAtLeast(1.0));
    let veth = "veth, one core, 60 B";
    session.rows.extend([
        Row::new(
            format!("link, {LINK_SIZE} B stamped"),
            "Mpps",
            link,
            None,
            Some(Target::AtLeast(20.0)),
        ),
        Row::new(veth, "Mpps", own, Some(("tcpreplay", tcpreplay)), above),
        Row::new(
            veth,
            "Mpps",
            own,
            Some(("trafgen, 1 process", trafgen)),
            above,
        ),
        Row::new(
            "veth, two cores, 60 B",
            "Mpps",
            own_all,
            Some(("trafgen, as it comes", trafgen_all)),
            above,
        ),
        Row::new(
            "veth, one core, packet by packet",
            "Mpps",
            single,
            Some(("tcpreplay", tcpreplay)),
            None,
        ),
    ]);
    session.note_range("link", "Mpps", link);
    for (sender, series) in SENDERS.iter().zip(rates) {
        session.note_range(&sender.name(), "Mpps", series);
    }
    session.notes.push(
        "catena on the veth pair: packet_socket with segment (runs of one flow are cut apart by \
         the kernel), every packet with its own stamp; tcpreplay and trafgen repeat one packet. \
         Rates are counted by the pair's far end"
            .to_owned(),
    );
}

impl Sender {
    fn name(self) -> String {
        match self {
            Self::Catena { processes } => format!("catena on veth, {processes} processes"),
            Self::CatenaSingle => "catena on veth, packet by packet".to_owned(),
            Self::Tcpreplay => "tcpreplay".to_owned(),
            Self::Trafgen { processes: None } => "trafgen, as it comes".to_owned(),
            Self::Trafgen {
                processes: Some(processes),
            } => format!("trafgen, {processes} process"),
        }
    }

    /// What must be installed for it: program and package.
    fn needs(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Catena { .. } | Self::CatenaSingle => None,
            Self::Tcpreplay => Some(("tcpreplay", "tcpreplay")),
            Self::Trafgen { .. } => Some(("trafgen", "netsniff-ng")),
        }
    }
}

/// A veth pair in a namespace of its own, and the packet in the form of each sender.
struct Wire {
    namespace: String,
    capture: PathBuf,
    packet: PathBuf,
    logs: PathBuf,
}

impl Wire {
    fn new(work_dir: &Path) -> Result<Self, String> {
        install::require("ip", &["iproute2"], work_dir)?;
        install::require("ethtool", &["ethtool"], work_dir)?;
        let wire = Self {
            namespace: format!("catena-bench-{}", std::process::id()),
            capture: work_dir.join("packet.pcap"),
            packet: work_dir.join("packet.cfg"),
            logs: work_dir.to_owned(),
        };
        let frame = frame();
        std::fs::write(&wire.capture, capture(&frame)).map_err(|error| error.to_string())?;
        let bytes: Vec<String> = frame.iter().map(|byte| format!("0x{byte:02x}")).collect();
        let text = format!("{{ {} }}\n", bytes.join(", "));
        std::fs::write(&wire.packet, text).map_err(|error| error.to_string())?;
        let name = &wire.namespace;
        for command in [
            format!("ip netns add {name}"),
            format!("ip -n {name} link add {NEAR} type veth peer name {FAR}"),
            format!("ip netns exec {name} sysctl -qw net.ipv6.conf.all.disable_ipv6=1"),
            format!("ip netns exec {name} ethtool -K {NEAR} tx-udp-segmentation off"),
            format!("ip -n {name} link set {NEAR} up"),
            format!("ip -n {name} link set {FAR} up"),
        ] {
            output(&command)?;
        }
        Ok(wire)
    }

    /// Mpps at the far end while `sender` sends.
    fn measure(&self, sender: Sender, session: &Session) -> Result<f64, String> {
        if let Some((program, package)) = sender.needs() {
            install::require(program, &[package], &self.logs)?;
        }
        let commands = self.commands(sender, session)?;
        let _running: Vec<Guarded> = commands
            .into_iter()
            .enumerate()
            .map(|(index, command)| {
                let log = self.logs.join(format!("sender-{index}.log"));
                let words = ["netns", "exec", &self.namespace].map(str::to_owned);
                Guarded::start("ip", words.into_iter().chain(command), &[], log)
                    .map_err(|error| format!("{}: {error}", sender.name()))
            })
            .collect::<Result<_, _>>()?;
        std::thread::sleep(WARM_UP);
        let (before, start) = (self.received()?, Instant::now());
        std::thread::sleep(Duration::from_secs(session.seconds.into()) / 2);
        let (after, elapsed) = (self.received()?, start.elapsed());
        if after == before {
            let log = std::fs::read_to_string(self.logs.join("sender-0.log"));
            let log = log.unwrap_or_default();
            let last = log.lines().last().unwrap_or("no message");
            return Err(format!("{} sent nothing: {last}", sender.name()));
        }
        Ok((after - before) as f64 / elapsed.as_secs_f64() / 1e6)
    }

    fn commands(&self, sender: Sender, session: &Session) -> Result<Vec<Vec<String>>, String> {
        let words = |text: String| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let seconds = session.seconds + 10;
        let own = |core: usize, rest: &str| {
            let binary = session.own.binary().map_err(|error| error.to_string())?;
            Ok::<_, String>(words(format!(
                "{} bench generator --interface {NEAR} --size {FRAME_LEN} --seconds {seconds} \
                 --cores {core} --wait spin{rest}",
                binary.display()
            )))
        };
        let (capture, packet) = (self.capture.display(), self.packet.display());
        Ok(match sender {
            Sender::Catena { processes } => session.cores[..processes.min(2)]
                .iter()
                .map(|core| own(*core, " --segment"))
                .collect::<Result<_, _>>()?,
            Sender::CatenaSingle => vec![own(session.cores[0], "")?],
            Sender::Tcpreplay => vec![words(format!(
                "tcpreplay --intf1 {NEAR} --topspeed --loop 100000000 --preload-pcap {capture}"
            ))],
            Sender::Trafgen { processes } => {
                let processes = processes.map_or(String::new(), |count| format!(" --cpus {count}"));
                vec![words(format!(
                    "trafgen --dev {NEAR} --conf {packet}{processes}"
                ))]
            }
        })
    }

    /// Packets that the far end has counted.
    fn received(&self) -> Result<u64, String> {
        let file = format!("/sys/class/net/{FAR}/statistics/rx_packets");
        let text = output(&format!("ip netns exec {} cat {file}", self.namespace))?;
        text.trim()
            .parse()
            .map_err(|_| format!("{file}: no number"))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // The pair goes with its namespace; one that is left over harms nobody.
        let _ = output(&format!("ip netns del {}", self.namespace));
    }
}

/// The packet that the peers send: UDP over IPv4 between the benchmark networks.
fn frame() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend([198, 18, 0, 1, 198, 19, 0, 1]);
    let words = frame[14..34].as_chunks::<2>().0.iter();
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    // Ten words sum up to less than 2^20, so that folding once leaves no carry worth a second.
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !(((folded & 0xffff) + (folded >> 16)) as u16);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame.extend([0xc0, 0, 0, 9, 0, 26, 0, 0]);
    frame.resize(FRAME_LEN, 0);
    frame
}

/// A capture of it, repeated so that reading it again costs the sender little.
fn capture(frame: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for _ in 0..1000 {
        let len = frame.len() as u32;
        for word in [0, 0, len, len] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packet_is_a_whole_one() {
        let frame = frame();
        assert_eq!(frame.len(), FRAME_LEN);
        let words = frame[14..34].as_chunks::<2>().0.iter();
        let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert_eq!(capture(&frame).len(), 24 + 1000 * 76);
    }
}
