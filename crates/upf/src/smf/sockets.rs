//! A scenario over UDP sockets, against a UPF that runs elsewhere: any UPF.
//!
//! First and last step of a packet's life, without a chain. [`Player`] gives and takes frames; here
//! the datagrams in them go out by sockets at the addresses that they come from, and datagrams that
//! come are put into frames. Waiting steps take as long as they say. Limits: addresses must be this
//! machine's; what is no whole UDP datagram (fragments, TCP, ICMP) has no socket to leave by.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use catena_wire::{gtpu, pfcp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::scenario::{Act, Scenario};
use super::{Player, Turn, wire};
use crate::headers::{Outer, outer};

/// Longest datagram.
const DATAGRAM_LEN_MAX: usize = 65_535;
/// Most datagrams that are taken from a socket at once.
const DATAGRAM_COUNT_MAX: usize = 256;
/// Most sockets: N4, tunnels, and one for each port of a user's packets.
const SOCKET_COUNT_MAX: usize = 64;
/// Sequence numbers of a run begin below this: 23 bits, so that none is 0 again in it.
const SEQUENCE_MASK: u32 = 0x7f_ffff;

/// Sockets by the address and port that they are bound to.
#[derive(Debug, Default)]
pub struct Sockets {
    bound: Vec<(SocketAddr, UdpSocket)>,
}

impl Sockets {
    /// Binds one, if it is not there yet.
    ///
    /// # Errors
    /// That the address is not this machine's, or taken, or that there are too many.
    pub fn bind(&mut self, end: SocketAddr) -> Result<(), String> {
        if self.bound.iter().any(|(known, _)| *known == end) {
            return Ok(());
        }
        if self.bound.len() >= SOCKET_COUNT_MAX {
            return Err(format!(
                "{end}: there are {SOCKET_COUNT_MAX} sockets already"
            ));
        }
        let fault = |error: io::Error| {
            format!(
                "cannot send from {end}: {error}; name an address of this machine, and a port \
                 that nobody has"
            )
        };
        let socket = UdpSocket::bind(end).map_err(fault)?;
        socket.set_nonblocking(true).map_err(fault)?;
        self.bound.push((end, socket));
        Ok(())
    }

    /// Sends the datagram in a frame from the address and port that it says.
    ///
    /// # Errors
    /// That there is none in it, or what the kernel says.
    pub fn send(&mut self, frame: &[u8]) -> Result<(), String> {
        let Outer::Udp {
            src,
            dst,
            src_port,
            dst_port,
            from,
            to,
            ..
        } = outer(frame)
        else {
            return Err(
                "a packet of this step is no whole UDP datagram: play it in simulated time, or by \
                 a chain"
                    .to_owned(),
            );
        };
        let (src, dst) = (
            SocketAddr::new(src, src_port),
            SocketAddr::new(dst, dst_port),
        );
        self.bind(src)?;
        let socket = self.bound.iter().find(|(known, _)| *known == src);
        let sent = socket.map(|(_, socket)| socket.send_to(&frame[from..to], dst));
        match sent {
            Some(Err(error)) => Err(format!("from {src} to {dst}: {error}")),
            _ => Ok(()),
        }
    }

    /// Waits for datagrams, so long at most, and gives each in a frame.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn receive(&self, patience: Duration, mut each: impl FnMut(Vec<u8>)) -> Result<(), String> {
        let sockets = self.bound.iter();
        let mut polled: Vec<PollFd<'_>> = sockets
            .map(|(_, socket)| PollFd::new(socket, PollFlags::IN))
            .collect();
        let patience = Timespec::try_from(patience).ok();
        match poll(&mut polled, patience.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.to_string()),
        }
        let mut bytes = vec![0; DATAGRAM_LEN_MAX];
        for (end, socket) in &self.bound {
            // Who sends faster than this looks has to wait for its turn.
            for _ in 0..DATAGRAM_COUNT_MAX {
                match socket.recv_from(&mut bytes) {
                    Ok((len, from)) => {
                        let (from, to) = ((from.ip(), from.port()), (end.ip(), end.port()));
                        each(wire::datagram(from, to, &bytes[..len]));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // An ICMP error to something that was sent: what is missing is said later.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    Err(error) => return Err(format!("{end}: {error}")),
                }
            }
        }
        Ok(())
    }
}

/// The ends at which something may come before anything was sent from there. The gNB's is left to
/// others where no step has to do with tunnels.
fn ends(scenario: &Scenario) -> Vec<SocketAddr> {
    let mut ends = vec![SocketAddr::new(scenario.smf, pfcp::PORT)];
    let acts = scenario.steps.iter().filter_map(|step| step.act.as_ref());
    for act in acts {
        let packets = match act {
            Act::Uplink(packets) | Act::Downlink(packets) => Some(packets),
            Act::Solicit(_) | Act::Browse(_) | Act::Echo | Act::RawGtpu(_) => None,
            Act::ErrorIndication(_) | Act::EndMarker(_) => None,
            _ => continue,
        };
        let upfs = scenario.upfs.iter().chain([&scenario.ran]);
        ends.extend(upfs.map(|peer| SocketAddr::new(*peer, gtpu::PORT)));
        if let Some(packets) = packets {
            ends.push(SocketAddr::new(scenario.host.into(), packets.port));
            let v6 = scenario.host_v6.filter(|_| packets.v6);
            ends.extend(v6.map(|host| SocketAddr::new(host.into(), packets.port)));
        }
    }
    ends
}

/// Plays a scenario over UDP, by a clock in nanoseconds; gives the player, which says what was
/// played and recorded, and the fault that ended it if one did.
///
/// The SMF's sequence numbers begin behind `sequence`, which should be another one each time: the
/// UPF may remember requests of the last SMF at the same address, and would answer a number that it
/// knows as it did then.
pub fn play(
    scenario: Scenario,
    sequence: u32,
    clock: impl Fn() -> u64,
) -> (Player, Result<(), String>) {
    let ends = ends(&scenario);
    let mut player = Player::new(scenario)
        .answering_heartbeats()
        .recording()
        .from_sequence(sequence & SEQUENCE_MASK);
    let played = drive(&mut player, &ends, clock);
    (player, played)
}

fn drive(player: &mut Player, ends: &[SocketAddr], clock: impl Fn() -> u64) -> Result<(), String> {
    let mut sockets = Sockets::default();
    ends.iter().try_for_each(|end| sockets.bind(*end))?;
    loop {
        sockets.receive(Duration::ZERO, |frame| player.frame(&frame))?;
        let now_ns = clock();
        match player.turn(now_ns) {
            Turn::Send(frames) => frames.iter().try_for_each(|frame| sockets.send(frame))?,
            Turn::Wait(until_ns) => {
                let patience = Duration::from_nanos(until_ns.saturating_sub(now_ns));
                sockets.receive(patience, |frame| player.frame(&frame))?;
            }
            Turn::Done => return Ok(()),
            Turn::Failed(what) => return Err(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use catena_engine::nf::{Nanos, Verdict};
    use catena_engine::nf_bench::NfBench;
    use serde_json::{Value, json};

    use super::*;

    /// How long the UPF waits before it looks whether the test is over.
    const LOOK: Duration = Duration::from_millis(5);
    const UE_PORT: u16 = 40_000;

    const STEPS: &str = "about: Both directions over sockets.
smf: 127.0.0.2
n4: 127.0.0.1
ran: 127.0.0.4
n3: 127.0.0.3
host: 127.0.0.5
steps:
  - { do: associate, expect: [ answer: {} ] }
  - do:
      establish:
        session: 1
        pdrs:
          - { id: 1, precedence: 9, source: access, choose_teid: true, choose_ue: true,
              removal: 0, far: 1, urrs: [1] }
          - { id: 2, precedence: 9, source: core, choose_ue: true, far: 2, urrs: [1] }
        fars:
          - { id: 1, action: forward, to: core }
          - { id: 2, action: forward, to: access, teid: 0x101 }
        urrs: [ { id: 1, triggers: [VOLTH], volume_threshold: 250 } ]
    expect: [ answer: {} ]
  - { do: echo, expect: [ gtpu: { message: 2 } ] }
  - do: { uplink: { session: 1, count: 2, port: 7007 } }
    expect: [ packets: { count: 2, first: 1 } ]
  - do: { downlink: { session: 1, count: 3, port: 7007 } }
    expect:
      - packets: { count: 3, first: 3, teid: 0x101 }
      - report: { kind: USAR, usage: [ { urr: 1, trigger: VOLTH } ] }
  - { do: { delete: 1 }, expect: [ answer: { usage: [ { urr: 1 } ] } ] }
";

    /// An address of this machine that no other test has: the last number is `host`.
    fn address(host: u8) -> Ipv4Addr {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        Ipv4Addr::new(127, high | 0x80, low, host)
    }

    fn scenario() -> Scenario {
        let mut scenario = Scenario::parse(STEPS).unwrap();
        (scenario.n4, scenario.smf) = (address(1).into(), address(2).into());
        (scenario.n3, scenario.ran) = (address(3).into(), address(4).into());
        scenario.host = address(5);
        scenario
    }

    /// UEs get this machine's addresses too, so that their packets have a socket.
    fn settings() -> Value {
        json!({
            "node_id": "upf.example",
            "n4": { "address": address(1).to_string() },
            "interfaces": [
                { "name": "n3", "side": "access", "address": address(3).to_string() },
                { "name": "n6", "side": "core" },
            ],
            "pools": [{ "network_instance": "n6", "v4": format!("{}/30", address(16)) }],
            "sessions": 4,
            "simulated_epoch": 1_700_000_000,
        })
    }

    /// A UPF behind sockets until it is told to stop.
    fn serve(sockets: &mut Sockets, stop: &AtomicBool) {
        let mut bench = NfBench::new(&crate::nf::KIND, &settings(), &[]).unwrap();
        let began = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let mut frames = Vec::new();
            sockets.receive(LOOK, |frame| frames.push(frame)).unwrap();
            bench.now = Nanos(u64::try_from(began.elapsed().as_nanos()).unwrap());
            for frame in &frames {
                let processed = bench.process_one(frame);
                if let Verdict::Output(_) = processed.verdict {
                    sockets.send(&processed.bytes).unwrap();
                }
            }
            for emitted in bench.emit(32, false).0 {
                sockets.send(&emitted.bytes).unwrap();
            }
        }
    }

    fn play_beside_a_upf(scenario: Scenario) -> (Player, Result<(), String>) {
        let mut sockets = Sockets::default();
        let ue = (address(17), UE_PORT);
        for (address, port) in [(address(1), pfcp::PORT), (address(3), gtpu::PORT), ue] {
            sockets.bind((address, port).into()).unwrap();
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| serve(&mut sockets, &stop));
            let began = Instant::now();
            let clock = || u64::try_from(began.elapsed().as_nanos()).unwrap();
            let played = play(scenario, 0x7f_fff0, clock);
            stop.store(true, Ordering::Relaxed);
            played
        })
    }

    /// One test, since both of its halves want the same ports.
    #[test]
    fn a_scenario_plays_over_sockets_and_a_difference_is_found_out() {
        let (player, played) = play_beside_a_upf(scenario());
        assert_eq!((played, player.steps()), (Ok(()), 6));
        // Six requests or answers of each side at least, and five packets twice.
        assert!(player.recorded().len() >= 20, "{}", player.recorded().len());
        let mut wrong = scenario();
        wrong.steps[3].expect.clear();
        let (_, played) = play_beside_a_upf(wrong);
        let fault = played.unwrap_err();
        assert!(fault.contains("nobody expected packet 1"), "{fault}");
    }

    #[test]
    fn an_address_of_another_machine_and_a_fragment_are_faults_with_a_repair() {
        let mut sockets = Sockets::default();
        let fault = sockets.bind("192.0.2.1:8805".parse().unwrap());
        let fault = fault.unwrap_err();
        assert!(fault.contains("an address of this machine"), "{fault}");
        let fault = sockets.send(&[0; 60]).unwrap_err();
        assert!(fault.contains("in simulated time"), "{fault}");
    }
}
