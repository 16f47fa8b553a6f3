// SPDX-License-Identifier: Apache-2.0
//! Offload by probes: learning, handover, and that nothing enters another terminal's tunnel.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use catena_flow::program::header::{Header, Headers};
use catena_flow::program::template::fill_checksums;

use super::bench::Bench;
use super::offload_ipv6::{SERVICE6, terminal6};
use super::packet::{ends, icmp, is_sealed, udp};
use super::programs::tunnelled;
use super::random::Random;

pub(crate) const RADIO: u8 = 0;
pub(crate) const CORE: u8 = 1;
pub(crate) const EDGE: u8 = 2;
const RESPONDER: [u8; 4] = [198, 51, 100, 1];
const SERVICE: [u8; 4] = [203, 0, 113, 9];
/// Last byte of the address at which the core ends its tunnels.
const UPF: u8 = 2;

pub(crate) fn offload() -> Bench {
    let text = include_str!("../../programs/gtp_offload_probe.yaml");
    Bench::new(&text.replace("flows: 1000000", "flows: 4096"))
}

fn terminal(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 45, 0, number], 4000))
}

fn to(address: [u8; 4], port: u16, number: u8) -> Vec<u8> {
    udp(terminal(number), SocketAddr::from((address, port)), b"up")
}

fn from(address: [u8; 4], port: u16, number: u8) -> Vec<u8> {
    udp(SocketAddr::from((address, port)), terminal(number), b"down")
}

/// A tunnel: base station's last byte and TEID; and a QoS flow, if it says one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tunnel(pub(crate) u8, pub(crate) u32, pub(crate) Option<u8>);

impl Tunnel {
    pub(crate) fn up(self, inner: &[u8]) -> Vec<u8> {
        let mut frame = tunnelled(inner, (self.0, UPF), self.1, self.2);
        // A container from a terminal says so.
        if let Some(at) = Headers::parse(&frame).at(Header::PduSession) {
            frame[at + 1] = 0x10;
            let headers = Headers::parse(&frame);
            fill_checksums(&mut frame, &headers);
        }
        frame
    }

    pub(crate) fn down(self, inner: &[u8]) -> Vec<u8> {
        tunnelled(inner, (UPF, self.0), self.1, self.2)
    }
}

pub(crate) fn teid(frame: &[u8]) -> u32 {
    let at = Headers::parse(frame).at(Header::Gtpu).expect("a tunnel");
    u32::from_be_bytes(frame[at + 4..at + 8].try_into().unwrap())
}

/// The packet in a tunnel.
pub(crate) fn inner(frame: &[u8]) -> Vec<u8> {
    let headers = Headers::parse(frame);
    let (at, ether_type) = match headers.at(Header::InnerIpv4) {
        Some(at) => (at, [0x08, 0x00]),
        None => {
            let at = headers.at(Header::InnerIpv6).expect("a packet inside");
            (at, [0x86, 0xdd])
        }
    };
    [&frame[..12], &ether_type, &frame[at..]].concat()
}

/// What a responder says to a probe.
pub(crate) fn answer(probe: &[u8], change: u8) -> Vec<u8> {
    let request = inner(probe);
    let (src, dst) = ends(&request);
    let (asks, answers) = if src.is_ipv4() { (8, 0) } else { (128, 129) };
    let at = Headers::parse(&request).at(Header::Icmp).expect("a ping");
    assert_eq!(request[at], asks);
    let mut rest = request[at + 4..].to_vec();
    rest[3] ^= change;
    icmp(dst.ip(), src.ip(), answers, &rest)
}

#[test]
fn a_probe_learns_what_nothing_else_has_told() {
    for qfi in [None, Some(9)] {
        let mut bench = offload();
        let (up, down) = (Tunnel(1, 11, qfi), Tunnel(1, 22, qfi));
        let wanted = up.up(&to(SERVICE, 5000, 7));
        let passed = bench.pass(RADIO, &wanted);
        assert_eq!((&*passed.verdict, &passed.bytes), ("core", &wanted));
        let mut emitted = bench.simulation.emitted();
        let (output, probe) = emitted.pop().unwrap();
        assert!(emitted.is_empty() && output == "core" && is_sealed(&probe));
        assert_eq!((teid(&probe), ends(&probe)), (11, ends(&wanted)));
        let (src, dst) = ends(&inner(&probe));
        assert_eq!(
            (src.ip(), dst.ip()),
            (terminal(7).ip(), IpAddr::from(RESPONDER))
        );
        assert_eq!(probe[..12], wanted[..12]);
        let container = Headers::parse(&probe).at(Header::PduSession);
        assert_eq!(container.map(|at| probe[at + 2]), qfi);
        // One at a time: the next packets go to the core, and no other probe.
        assert_eq!(bench.one(RADIO, &wanted), "core");
        assert!(bench.simulation.emitted().is_empty());
        assert_eq!(
            bench.one(EDGE, &from(SERVICE, 5000, 7)),
            "!unknown_terminal"
        );
        // Its answer is nobody's but ours; a terminal's own pings are its own.
        assert_eq!(
            bench.one(CORE, &down.down(&answer(&probe, 0))),
            "!probe_answer"
        );
        assert_eq!(bench.one(CORE, &down.down(&answer(&probe, 1))), "radio");
        let passed = bench.pass(RADIO, &wanted);
        assert_eq!(passed.verdict, "edge");
        assert_eq!(passed.bytes, to(SERVICE, 5000, 7));
        let back = bench.pass(EDGE, &from(SERVICE, 5000, 7));
        assert_eq!(back.verdict, "radio");
        assert_eq!(back.bytes, down.down(&from(SERVICE, 5000, 7)));
        // Nobody answers another terminal's: it is tried again by a later packet.
        let other = Tunnel(1, 12, None).up(&to(SERVICE, 5000, 8));
        for expected in [1, 0] {
            assert_eq!(bench.one(RADIO, &other), "core");
            assert_eq!(bench.simulation.emitted().len(), expected);
        }
        bench.wait(1_100_000_000);
        assert_eq!(bench.one(RADIO, &other), "core");
        assert_eq!(bench.simulation.emitted().len(), 1);
    }
}

#[test]
fn downlink_packets_teach_as_well_and_ports_decide() {
    let mut bench = offload();
    let (up, down) = (Tunnel(1, 11, None), Tunnel(1, 22, None));
    assert_eq!(
        bench.one(CORE, &down.down(&from([9, 9, 9, 9], 53, 7))),
        "radio"
    );
    assert_eq!(bench.one(RADIO, &up.up(&to([9, 9, 9, 9], 53, 7))), "core");
    assert_eq!(
        bench.one(RADIO, &up.up(&to([192, 0, 2, 80], 53, 7))),
        "core"
    );
    assert!(bench.simulation.emitted().is_empty());
    // Its server at the edge has another address there.
    let passed = bench.pass(RADIO, &up.up(&to([192, 0, 2, 80], 443, 7)));
    assert_eq!(
        (&*passed.verdict, &passed.bytes),
        ("edge", &to([10, 64, 0, 80], 443, 7))
    );
    let back = bench.pass(EDGE, &from([10, 64, 0, 80], 443, 7));
    assert_eq!(back.bytes, down.down(&from([192, 0, 2, 80], 443, 7)));
    // Signalling passes.
    let signal = udp(terminal(1), terminal(2), b"not GTP-U");
    assert_eq!(bench.one(RADIO, &signal), "core");
    assert_eq!(bench.one(CORE, &signal), "radio");
}

#[test]
fn terminals_that_are_not_answered_push_nobody_out() {
    let text = include_str!("../../programs/gtp_offload_probe.yaml");
    let mut bench = Bench::new(&text.replace("flows: 1000000", "flows: 64"));
    let up = |number: u8| Tunnel(1, 100 + u32::from(number), None);
    let down = |number: u8| Tunnel(1, 200 + u32::from(number), None);
    for number in 0..16 {
        let first = down(number).down(&from([9, 9, 9, 9], 53, number));
        assert_eq!(bench.one(CORE, &first), "radio");
    }
    // By addresses that somebody invents: with probes and without.
    let mut passed = 0;
    for number in 0..4000_u16 {
        bench.now_ns += 1000;
        let [high, low] = number.to_be_bytes();
        let invented = SocketAddr::from(([10, 46, high, low], 4000));
        let wanted = [SERVICE, [9, 9, 9, 9]][usize::from(low % 2)];
        let packet = udp(invented, SocketAddr::from((wanted, 5000)), b"up");
        // Few have only terminals whose tunnels are known where their place is.
        match &*bench.one(RADIO, &up(99).up(&packet)) {
            "core" => passed += 1,
            verdict => assert_eq!(verdict, "!flow_full"),
        }
        bench.simulation.emitted();
    }
    assert!(passed > 3500, "{passed}");
    for number in 0..16 {
        let wanted = up(number).up(&to(SERVICE, 5000, number));
        assert_eq!(bench.one(RADIO, &wanted), "edge", "{number}");
    }
}

pub(crate) fn end_marker(tunnel: Tunnel) -> Vec<u8> {
    let mut bytes = vec![0x30, 254, 0, 0];
    bytes.extend(tunnel.1.to_be_bytes());
    let end = |last| SocketAddr::from(([10, 9, 0, last], 2152));
    udp(end(UPF), end(tunnel.0), &bytes)
}

#[test]
fn a_handover_is_seen_from_either_side() {
    let mut bench = offload();
    let (up, down) = (Tunnel(1, 11, None), Tunnel(1, 22, None));
    let wanted = to(SERVICE, 5000, 7);
    let back = from(SERVICE, 5000, 7);
    bench.one(CORE, &down.down(&back));
    assert_eq!(bench.one(RADIO, &up.up(&wanted)), "edge");
    // Another base station, or another TEID, speaks for it.
    for moved in [Tunnel(3, 11, None), Tunnel(3, 13, None)] {
        assert_eq!(bench.one(RADIO, &moved.up(&wanted)), "core");
        assert_eq!(bench.one(EDGE, &back), "!unknown_terminal");
        assert_eq!(bench.one(RADIO, &moved.up(&wanted)), "core");
        let (_, probe) = bench.simulation.emitted().pop().unwrap();
        let new = Tunnel(moved.0, moved.1 + 100, None);
        assert_eq!(
            bench.one(CORE, &new.down(&answer(&probe, 0))),
            "!probe_answer"
        );
        assert_eq!(bench.pass(EDGE, &back).bytes, new.down(&back));
        assert_eq!(bench.one(RADIO, &moved.up(&wanted)), "edge");
    }
    // The core says that nothing more comes by a tunnel, then speaks by another one.
    let old = Tunnel(3, 113, None);
    assert_eq!(bench.one(CORE, &end_marker(old)), "radio");
    assert_eq!(bench.one(EDGE, &back), "!not_its_tunnel");
    let new = Tunnel(4, 5, Some(3));
    assert_eq!(bench.one(CORE, &new.down(&back)), "radio");
    assert_eq!(bench.pass(EDGE, &back).bytes, new.down(&back));
    // A tunnel that carries another terminal's packets is that one's from then on.
    assert_eq!(bench.one(CORE, &new.down(&from(SERVICE, 1, 8))), "radio");
    assert_eq!(bench.one(EDGE, &back), "!not_its_tunnel");
    assert_eq!(
        bench.pass(EDGE, &from(SERVICE, 1, 8)).bytes,
        new.down(&from(SERVICE, 1, 8))
    );
}

/// A terminal as the network knows it.
#[derive(Clone, Copy)]
struct Known {
    up: Tunnel,
    down: Tunnel,
}

/// Versions of IP that a terminal has.
fn versions(number: u8) -> &'static [u8] {
    [&[4_u8][..], &[6], &[4, 6]][usize::from(number % 3)]
}

/// The terminal and the edge's service, in a version of IP.
fn pair(number: u8, version: u8) -> (SocketAddr, SocketAddr) {
    match version {
        4 => (terminal(number), SocketAddr::from((SERVICE, 5000))),
        _ => (terminal6(number), SERVICE6.parse().unwrap()),
    }
}

/// Steps of the test below, as [`FLOORS`] are for.
const STEPS: u64 = 30_000;

/// How often, at least, a terminal moves in [`STEPS`], and packets come back to terminals, those
/// of IPv6 among them, and go to the edge.
const FLOORS: [u64; 4] = [200, 3000, 1000, 1000];

/// Ten million, as in `CATENA_OFFLOAD_STEPS=10000000`, take minutes as machine code.
fn steps() -> u64 {
    let asked = std::env::var("CATENA_OFFLOAD_STEPS").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(STEPS)
}

/// Terminals of either version of IP and of both that move, tunnels that are given to others,
/// packets every way and answers that somebody invents; the network says of each change what
/// networks say: an end marker, or packets of the tunnel's new owner.
#[test]
fn nothing_enters_the_tunnel_of_another_terminal() {
    const TERMINALS: u64 = 12;
    let mut bench = offload();
    let mut random = Random(41);
    let mut known: Vec<Known> = (0..TERMINALS as u32)
        .map(|number| Known {
            up: Tunnel(1, 100 + number, None),
            down: Tunnel(1, number, None),
        })
        .collect();
    let mut probes: Vec<Vec<u8>> = Vec::new();
    // Tunnels that were given up without a word.
    let mut silent: BTreeSet<(u8, u32)> = BTreeSet::new();
    let (mut sent, mut sent6, mut offloaded, mut moved) = (0_u64, 0_u64, 0_u64, 0_u64);
    let steps = steps();
    for _ in 0..steps {
        bench.wait(random.below(20_000_000));
        let number = random.below(TERMINALS) as usize;
        let Known { up, down } = known[number];
        let of = number as u8;
        let all = versions(of);
        let version = all[random.below(all.len() as u64) as usize];
        let (own, service) = pair(of, version);
        match random.below(20) {
            0 => {
                // Few TEIDs, so that one soon belongs to somebody else.
                let radio = 1 + 2 * random.below(2) as u8;
                let free = |tunnel: &Tunnel| {
                    known
                        .iter()
                        .all(|one| (one.down.0, one.down.1) != (tunnel.0, tunnel.1))
                };
                let new = Tunnel(radio, random.below(16) as u32, down.2);
                if !free(&new) {
                    continue;
                }
                moved += 1;
                let qfi = [None, Some(5)][random.below(2) as usize];
                known[number] = Known {
                    up: Tunnel(radio, 100 + random.below(1000) as u32, qfi),
                    down: Tunnel(new.0, new.1, qfi),
                };
                let old = (down.0, down.1);
                if random.below(2) == 0 {
                    assert_eq!(bench.one(CORE, &end_marker(down)), "radio");
                    silent.remove(&old);
                } else {
                    silent.insert(old);
                }
                // Of a tunnel that nobody has said the end of, the new owner shows before anything
                // else can come to it; that the old one has moved need not show at all.
                if silent.remove(&(new.0, new.1)) || random.below(2) == 0 {
                    for version in all {
                        let (own, service) = pair(of, *version);
                        let first = known[number].down.down(&udp(service, own, b"first"));
                        assert_eq!(bench.one(CORE, &first), "radio");
                    }
                }
            }
            1..=4 => {
                let elsewhere = SocketAddr::new(service.ip(), 53);
                bench.one(CORE, &down.down(&udp(elsewhere, own, b"down")));
            }
            5..=9 => {
                let passed = bench.pass(RADIO, &up.up(&udp(own, service, b"up")));
                offloaded += u64::from(passed.verdict == "edge");
                probes.extend(
                    bench
                        .simulation
                        .emitted()
                        .into_iter()
                        .map(|(_, probe)| probe),
                );
            }
            10 | 11 => {
                let Some(probe) = probes.pop() else { continue };
                let reply = answer(&probe, random.below(2) as u8 * 9);
                let last = ends(&reply).1.ip();
                let is_its = |one: &u8| terminal(*one).ip() == last || terminal6(*one).ip() == last;
                let owner = (0..TERMINALS as u8).find(is_its).unwrap();
                // The network sends it by the tunnel that the terminal has by now.
                bench.one(CORE, &known[usize::from(owner)].down.down(&reply));
            }
            _ => {
                let back = udp(service, own, b"back");
                let passed = bench.pass(EDGE, &back);
                if passed.verdict == "radio" {
                    sent += 1;
                    sent6 += u64::from(version == 6);
                    assert_eq!(inner(&passed.bytes), back);
                    let used = (ends(&passed.bytes).1.ip(), teid(&passed.bytes));
                    let owner = known
                        .iter()
                        .position(|one| (IpAddr::from([10, 9, 0, one.down.0]), one.down.1) == used);
                    assert!(owner.is_none_or(|owner| owner == number), "{used:?}");
                }
            }
        }
    }
    let seen = [moved, sent, sent6, offloaded];
    let enough = |(count, floor): (&u64, u64)| *count > floor * steps / STEPS;
    assert!(seen.iter().zip(FLOORS).all(enough), "{seen:?}");
}
