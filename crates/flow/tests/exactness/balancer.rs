// SPDX-License-Identifier: Apache-2.0
//! No live connection moves while its server lives: new connections, data either way, ends of all
//! kinds, floods, resets that nobody sent; servers that drain, go down and come back; and
//! schedulers that change, all at random.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::super::bench::Bench;
use super::super::clients::{C, S, answer, ask, balancer, client, open, service, set};
use super::super::packet::{ACK, FIN, RST, SYN, ends, is_sealed, tcp};
use super::super::random::Random;
use super::Compared;

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Connections that begin.
    pub(crate) connections: u32,
    /// Connections that live at the same time, about. Time runs so that each says something every
    /// few seconds; few idle ones end in between.
    pub(crate) live: usize,
}

/// Entries for each live connection: half-open ones of floods and those that have ended stay some
/// time, and a table has room for all.
const ENTRIES: usize = 27;
/// Steps between changes of an operator's, for each live connection.
const CALM: f64 = 4.0 / 3.0;
/// Between two packets of a connection, about.
const PAUSE_NS: u64 = 3_000_000_000;

/// Everything between clients and servers, as far as the model knows of it.
struct Network {
    bench: Bench,
    random: Random,
    live: Vec<(SocketAddr, u8)>,
    /// Weight, and whether it is up.
    servers: BTreeMap<u8, (u8, bool)>,
    compared: Compared,
    reset: u64,
    changes: u64,
}

/// Compares where packets go with where their connections' first ones went.
pub(crate) fn no_live_connection_moves(size: &Size) -> Compared {
    let mut network = Network {
        bench: balancer(size.live * ENTRIES),
        random: Random(0x00ba_1a9c),
        live: Vec::new(),
        servers: (0..3).map(|number| (number, (1, true))).collect(),
        compared: Compared::default(),
        reset: 0,
        changes: 0,
    };
    let calm = (size.live as f64 * CALM) as u64;
    let mut next = 0;
    while next < size.connections {
        let gap_ns = network.random.below(PAUSE_NS / size.live as u64);
        network.bench.wait(gap_ns);
        if network.random.below(calm) == 0 {
            network.change();
        }
        if network.live.len() < size.live || network.random.below(4) == 0 {
            next += 1;
            network.begin(client(next));
        }
        if network.random.below(4) == 0 {
            let invented = client(0x4000_0000 + network.random.below(1 << 29) as u32);
            let _ = ask(&mut network.bench, invented, (C, 0), SYN);
        }
        network.go_on();
    }
    network.finish(u64::from(size.connections), size.live as u64)
}

impl Network {
    /// A new connection.
    fn begin(&mut self, one: SocketAddr) {
        match open(&mut self.bench, one) {
            Ok(chosen) => {
                let (weight, is_up) = self.servers.get(&chosen).copied().unwrap_or_default();
                let may_be = is_up && weight > 0;
                self.compared.note(may_be, true, || {
                    format!("{one}: a new connection of {chosen}, which drains or is down")
                });
                self.live.push((one, chosen));
            }
            Err(why) => {
                let expected = "!no_server".to_owned();
                self.compared.note(why, expected, || format!("{one}: SYN"));
            }
        }
    }

    /// The next packets of a connection, which may be its last.
    fn go_on(&mut self) {
        if self.live.is_empty() {
            return;
        }
        let at = self.random.below(self.live.len() as u64) as usize;
        let (one, chosen) = self.live[at];
        if !self.servers[&chosen].1 {
            self.find_it_down(one);
            self.live.swap_remove(at);
            return;
        }
        let numbers = (C.wrapping_add(1), S + 1);
        let back = (S + 1, C.wrapping_add(1));
        let (flags, ends) = match self.random.below(12) {
            0 => (FIN | ACK, true),
            1 => (RST, true),
            _ => (ACK, false),
        };
        let Self {
            bench,
            random,
            compared,
            ..
        } = self;
        if random.below(20) == 0 {
            // Outside the window, as all but one in 65536 of invented ones are.
            let seq = random.next() as u32 & 0x7fff_ffff | 0x1000_0000;
            let _ = ask(bench, one, (seq, 1), RST);
        }
        let to_clients = "clients".to_owned();
        let what = || format!("{one}, of {chosen}");
        let answered = answer(bench, chosen, one, back, ACK);
        let mut is_there = compared.note(answered, to_clients.clone(), what);
        is_there &= compared.note(ask(bench, one, numbers, flags), Ok(chosen), what);
        if ends {
            if flags & FIN != 0 {
                let fin = (S + 1, C.wrapping_add(2));
                let answered = answer(bench, chosen, one, fin, FIN | ACK);
                compared.note(answered, to_clients, what);
            }
            // What is late finds it as well.
            compared.note(ask(bench, one, numbers, ACK), Ok(chosen), what);
        }
        if ends || !is_there {
            self.live.swap_remove(at);
        }
    }

    /// A packet of a connection whose server is down: its client gets a reset.
    fn find_it_down(&mut self, one: SocketAddr) {
        self.reset += 1;
        let refused = ask(&mut self.bench, one, (C.wrapping_add(1), S + 9), ACK);
        let expected = Err("!server_down".to_owned());
        self.compared
            .note(refused, expected, || format!("{one}, whose server is down"));
        let emitted = self.bench.simulation.emitted();
        let reset = tcp(service(one), one, (S + 9, 0), RST, &[]);
        let is_told = matches!(emitted.as_slice(), [(output, bytes)]
            if output == "clients" && is_sealed(bytes) && ends(bytes) == ends(&reset)
                && bytes.windows(4).any(|word| word == (S + 9).to_be_bytes()));
        self.compared
            .note(is_told, true, || format!("{one}: a reset"));
    }

    /// What an operator does: servers come, drain, go down and come back.
    fn change(&mut self) {
        self.changes += 1;
        if self.random.below(3) == 0 {
            let scheduler = self.random.below(3);
            self.bench.set("scheduler", 0, &[u128::from(scheduler)]);
            return;
        }
        let number = self.random.below(5) as u8;
        let known = self.servers.get(&number).copied();
        let (weight, is_up) = match known {
            Some((_, true)) if self.random.below(3) == 0 => (0, false),
            _ => (self.random.below(4) as u8, true),
        };
        self.servers.insert(number, (weight, is_up));
        set(&mut self.bench, number, weight, is_up);
    }

    /// The balancer's own count of connections must be right, and enough must have come.
    fn finish(mut self, connections: u64, live: u64) -> Compared {
        for number in 0..8 {
            let of_it = self.live.iter().filter(|(_, chosen)| *chosen == number);
            let (of_it, active) = (
                of_it.count() as u64,
                self.bench.global("active", u32::from(number)),
            );
            self.compared
                .note(active, of_it, || format!("connections of {number}"));
        }
        let number = self.compared.number;
        self.compared.saw("connections", connections, 1);
        self.compared
            .saw("live at the end", self.live.len() as u64, live / 10);
        self.compared.saw("changes of servers", self.changes, 10);
        self.compared
            .saw("found their server down", self.reset, connections / 200);
        self.compared.saw("packets", number, connections / 2);
        self.compared
    }
}
