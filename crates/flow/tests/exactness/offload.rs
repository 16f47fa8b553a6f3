// SPDX-License-Identifier: Apache-2.0
//! Nothing enters the tunnel of another terminal: terminals of either version of IP and of both
//! that move, tunnels that are given to others, packets every way, and answers to probes that
//! somebody invents, or has seen and sends by ways of his own. The network says of each change what
//! networks say: an end marker, or packets of the tunnel's new owner.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use super::super::bench::Bench;
use super::super::packet::{ends, udp};
use super::super::random::Random;
use super::super::terminals::{
    CORE, EDGE, RADIO, Tunnel, answer, end_marker, inner, offload, service4, service6, teid,
    terminal4, terminal6,
};
use super::Compared;

const TERMINALS: u64 = 12;

/// A terminal as the network knows it.
#[derive(Clone, Copy)]
struct Known {
    up: Tunnel,
    down: Tunnel,
}

/// Versions of IP that a terminal has.
fn versions(number: usize) -> &'static [u8] {
    [&[4_u8][..], &[6], &[4, 6]][number % 3]
}

/// The terminal and the edge's service, in a version of IP.
fn pair(number: usize, version: u8) -> (SocketAddr, SocketAddr) {
    match version {
        4 => (terminal4(number as u8), service4()),
        _ => (terminal6(number as u8), service6()),
    }
}

/// Everything around the offload, as far as the model knows of it.
struct Network {
    bench: Bench,
    random: Random,
    known: Vec<Known>,
    /// Probes that nobody has answered.
    probes: Vec<Vec<u8>>,
    /// Tunnels that were given up without a word.
    silent: BTreeSet<(u8, u32)>,
    compared: Compared,
    moved: u64,
    reused: u64,
    offloaded: u64,
    hostile: u64,
    /// Packets from the edge to terminals, and those of IPv6 among them.
    back: u64,
    back6: u64,
}

/// Compares the tunnels of packets from the edge with those that their terminals have, over so many
/// random events.
pub(crate) fn nothing_enters_another_tunnel(steps: u64) -> Compared {
    let first = |number: u32| Known {
        up: Tunnel(1, 100 + number, None),
        down: Tunnel(1, number, None),
    };
    let mut network = Network {
        bench: offload(),
        random: Random(41),
        known: (0..TERMINALS as u32).map(first).collect(),
        probes: Vec::new(),
        silent: BTreeSet::new(),
        compared: Compared::default(),
        moved: 0,
        reused: 0,
        offloaded: 0,
        hostile: 0,
        back: 0,
        back6: 0,
    };
    for _ in 0..steps {
        network.step();
    }
    network.finish(steps)
}

impl Network {
    fn step(&mut self) {
        let gap_ns = self.random.below(20_000_000);
        self.bench.wait(gap_ns);
        let of = self.random.below(TERMINALS) as usize;
        let all = versions(of);
        let version = all[self.random.below(all.len() as u64) as usize];
        let (own, service) = pair(of, version);
        let Known { up, down } = self.known[of];
        match self.random.below(20) {
            0 => self.hand_over(of),
            1..=4 => {
                let elsewhere = SocketAddr::new(service.ip(), 53);
                self.bench
                    .one(CORE, &down.down(&udp(elsewhere, own, b"down")));
            }
            5..=9 => {
                let passed = self.bench.pass(RADIO, &up.up(&udp(own, service, b"up")));
                self.offloaded += u64::from(passed.verdict == "edge");
                let emitted = self.bench.simulation.emitted().into_iter();
                self.probes.extend(emitted.map(|(_, probe)| probe));
            }
            10 | 11 => self.answer_a_probe(),
            _ => self.come_back(of, &udp(service, own, b"back")),
        }
    }

    /// A terminal goes to another base station, or gets another TEID, perhaps one that was somebody
    /// else's.
    fn hand_over(&mut self, of: usize) {
        let down = self.known[of].down;
        // Few TEIDs, so that one soon belongs to somebody else.
        let radio = 1 + 2 * self.random.below(2) as u8;
        let new = (radio, self.random.below(16) as u32);
        let mut others = self.known.iter().map(|one| (one.down.0, one.down.1));
        if others.any(|other| other == new) {
            return;
        }
        self.moved += 1;
        let qfi = [None, Some(5)][self.random.below(2) as usize];
        let up = Tunnel(radio, 100 + self.random.below(1000) as u32, qfi);
        self.known[of] = Known {
            up,
            down: Tunnel(new.0, new.1, qfi),
        };
        let old = (down.0, down.1);
        if self.random.below(2) == 0 {
            let told = self.bench.one(CORE, &end_marker(down));
            self.compared
                .note(&*told, "radio", || format!("end marker of {old:?}"));
            self.silent.remove(&old);
        } else {
            self.silent.insert(old);
        }
        // Of a tunnel that nobody has said the end of, the new owner shows before anything else can
        // come to it; that the old one has moved need not show at all.
        let is_reused = self.silent.remove(&new);
        self.reused += u64::from(is_reused);
        if is_reused || self.random.below(2) == 0 {
            for version in versions(of) {
                let (own, service) = pair(of, *version);
                let first = self.known[of].down.down(&udp(service, own, b"first"));
                let verdict = self.bench.one(CORE, &first);
                self.compared
                    .note(&*verdict, "radio", || format!("first by {new:?}"));
            }
        }
    }

    /// An answer to a probe: a true one, an invented one, or a true one that a stranger sends: a
    /// host of the edge, or another terminal.
    fn answer_a_probe(&mut self) {
        let Some(probe) = self.probes.pop() else {
            return;
        };
        let is_invented = self.random.below(2) == 1;
        let reply = answer(&probe, if is_invented { 9 } else { 0 });
        let address = ends(&reply).1.ip();
        let is_its = |one: &usize| {
            let number = *one as u8;
            terminal4(number).ip() == address || terminal6(number).ip() == address
        };
        let owner = (0..TERMINALS as usize).find(is_its);
        let owner = owner.expect("probes are in terminals' names");
        self.hostile += u64::from(is_invented);
        match self.random.below(8) {
            0 => {
                self.hostile += 1;
                self.come_back(owner, &reply);
            }
            1 => {
                self.hostile += 1;
                let other = self.random.below(TERMINALS) as usize;
                let by = self.known[other].up;
                self.bench.one(RADIO, &by.up(&reply));
            }
            // The network sends it by the tunnel that the terminal has by now.
            _ => {
                self.bench.one(CORE, &self.known[owner].down.down(&reply));
            }
        }
    }

    /// A packet from the edge: it goes to its terminal or to nobody.
    fn come_back(&mut self, of: usize, packet: &[u8]) {
        let passed = self.bench.pass(EDGE, packet);
        if passed.verdict != "radio" {
            return;
        }
        self.back += 1;
        self.back6 += u64::from(packet[12] == 0x86);
        let used = (ends(&passed.bytes).1.ip(), teid(&passed.bytes));
        let has_used = |one: &Known| (IpAddr::from([10, 9, 0, one.down.0]), one.down.1) == used;
        // A tunnel that is nobody's any more leads nowhere.
        let owner = self.known.iter().position(has_used).unwrap_or(of);
        let what = || format!("by {used:?}");
        self.compared.note(owner, of, what);
        if inner(&passed.bytes) != packet {
            self.compared
                .differ(|| format!("another packet by {used:?}"));
        }
    }

    /// Enough of everything must have come.
    fn finish(mut self, steps: u64) -> Compared {
        let compared = &mut self.compared;
        compared.saw("events", steps, 1);
        compared.saw("handovers", self.moved, steps / 150);
        compared.saw("tunnels with a new owner", self.reused, steps / 1000);
        compared.saw("packets back to terminals", self.back, steps / 10);
        compared.saw("of IPv6", self.back6, steps / 30);
        compared.saw("to the edge", self.offloaded, steps / 30);
        compared.saw("hostile answers", self.hostile, steps / 1000);
        self.compared
    }
}
