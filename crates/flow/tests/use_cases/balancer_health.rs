// SPDX-License-Identifier: Apache-2.0
//! The balancer's passive health: a server that does not answer is out and comes back, by any
//! scheduler; what an attacker can send takes none out; and least connections among many servers.

use std::net::SocketAddr;

use super::bench::Bench;
use super::clients::{
    C, CLIENTS, LEAST, MAGLEV, ROUND_ROBIN, S, answer, ask, balancer, client, open, server,
    service, set,
};
use super::packet::{ACK, RST, SYN, ends, udp};

const SECOND: u64 = 1_000_000_000;

/// A client that repeats its SYN each second until a server answers: which one, and at which SYN.
fn persist(bench: &mut Bench, client: SocketAddr, dead: u8) -> (u8, usize) {
    for tries in 1..8 {
        let chosen = ask(bench, client, (C, 0), SYN).unwrap();
        if chosen != dead {
            let back = answer(bench, chosen, client, (S, C.wrapping_add(1)), SYN | ACK);
            assert_eq!(back, "clients");
            let numbers = (C.wrapping_add(1), S + 1);
            assert_eq!(ask(bench, client, numbers, ACK), Ok(chosen));
            return (chosen, tries);
        }
        bench.wait(SECOND);
    }
    panic!("{client} found no server");
}

fn events(bench: &mut Bench) -> Vec<(String, u128)> {
    let all = bench.simulation.events().into_iter();
    all.map(|(name, notice)| (name, notice.values[0])).collect()
}

#[test]
fn a_server_that_does_not_answer_is_out_and_comes_back() {
    for scheduler in [ROUND_ROBIN, MAGLEV, LEAST] {
        let mut bench = balancer(8192);
        bench.set("scheduler", 0, &[scheduler]);
        // What it has from before stays its.
        let (old, chosen) = (0..100)
            .map(|number| (client(number), open(&mut bench, client(number)).unwrap()))
            .find(|(_, chosen)| *chosen == 1)
            .unwrap();
        let mut next = 1000;
        while bench.global("failed", 1) < 3 {
            persist(&mut bench, client(next), 1);
            next += 1;
            assert!(next < 1100, "{scheduler}");
        }
        assert_eq!(events(&mut bench), [("server_out".to_owned(), 1)]);
        let late = (C.wrapping_add(1), S + 1);
        for _ in 0..100 {
            next += 1;
            assert_eq!(persist(&mut bench, client(next), 1).1, 1, "{scheduler}");
            assert_eq!(ask(&mut bench, old, late, ACK), Ok(chosen));
            bench.wait(SECOND / 1000);
        }
        // Ten seconds later one connection tries it, and no other one does.
        bench.wait(10 * SECOND);
        let mut tries = Vec::new();
        for _ in 0..100 {
            next += 1;
            let chosen = ask(&mut bench, client(next), (C, 0), SYN).unwrap();
            tries.extend((chosen == 1).then_some(client(next)));
        }
        assert_eq!(tries.len(), 1, "{scheduler}");
        // It answers, and has its share again.
        let back = (S, C.wrapping_add(1));
        let answered = answer(&mut bench, 1, tries[0], back, SYN | ACK);
        assert_eq!(answered, "clients");
        assert_eq!(events(&mut bench), [("server_back".to_owned(), 1)]);
        let again = (0..90).filter(|number| open(&mut bench, client(5000 + number)) == Ok(1));
        assert!(again.count() > 15, "{scheduler}");
    }
}

#[test]
fn who_is_refused_finds_another_server() {
    let mut bench = balancer(8192);
    let mut refused = 0;
    for number in 0..60 {
        let one = client(number);
        let chosen = ask(&mut bench, one, (C, 0), SYN).unwrap();
        if chosen != 2 {
            continue;
        }
        refused += 1;
        let reset = (0, C.wrapping_add(1));
        let told = answer(&mut bench, 2, one, reset, RST | ACK);
        assert_eq!(told, "!refused", "its client hears nothing");
        bench.wait(SECOND);
        assert_ne!(persist(&mut bench, one, 2).0, 2);
    }
    assert!(refused > 0 && bench.global("failed", 2) >= 3, "{refused}");
    assert_eq!(events(&mut bench), [("server_out".to_owned(), 2)]);
}

#[test]
fn nobody_takes_a_server_out_that_answers() {
    let mut bench = balancer(8192);
    // Repeated at once, before any answer can be there.
    for number in 0..300 {
        for _ in 0..3 {
            assert!(ask(&mut bench, client(number), (C, 0), SYN).is_ok());
            bench.wait(SECOND / 1000);
        }
    }
    // Answered, and repeated all the same by who does not see the answer.
    for number in 300..600 {
        let one = client(number);
        let chosen = ask(&mut bench, one, (C, 0), SYN).unwrap();
        answer(&mut bench, chosen, one, (S, C.wrapping_add(1)), SYN | ACK);
        bench.wait(SECOND);
        assert_eq!(ask(&mut bench, one, (C, 0), SYN), Ok(chosen));
    }
    assert!((0..3).all(|number| bench.global("failed", number) == 0));
    // All have failed: they are tried all the same.
    for number in 0..40 {
        let one = client(2000 + number);
        for _ in 0..3 {
            assert!(ask(&mut bench, one, (C, 0), SYN).is_ok());
            bench.wait(SECOND);
        }
    }
    assert!((0..3).all(|number| bench.global("failed", number) >= 3));
    for scheduler in [ROUND_ROBIN, MAGLEV, LEAST] {
        bench.set("scheduler", 0, &[scheduler]);
        assert!(open(&mut bench, client(3000 + scheduler as u32)).is_ok());
    }
}

/// A datagram of a new client's: the server that it goes to.
fn send(bench: &mut Bench, client: SocketAddr) -> u8 {
    let passed = bench.pass(CLIENTS, &udp(client, service(client), b"question"));
    assert_eq!(passed.verdict, "servers");
    let to = ends(&passed.bytes).1;
    (0..40)
        .find(|number| server(*number, client) == to)
        .unwrap()
}

/// Clients that ask again each second until all of `dead` are out, at the same time.
fn take_out(bench: &mut Bench, dead: &[u8]) {
    let mut waiting: Vec<SocketAddr> = Vec::new();
    for round in 0..5 {
        waiting.extend((0..60).map(|number| client(20_000 + 60 * round + number)));
        waiting.retain(|one| {
            let chosen = ask(bench, *one, (C, 0), SYN).unwrap();
            let is_dead = dead.contains(&chosen);
            if !is_dead {
                let back = (S, C.wrapping_add(1));
                assert_eq!(answer(bench, chosen, *one, back, SYN | ACK), "clients");
            }
            is_dead
        });
        bench.wait(SECOND);
    }
    for number in 0..3 {
        let is_out = bench.global("failed", number.into()) >= 3;
        assert_eq!(is_out, dead.contains(&number), "{number}");
    }
}

#[test]
fn syns_that_a_server_ignores_take_it_out_only_if_it_answers_nobody() {
    for scheduler in [ROUND_ROBIN, MAGLEV, LEAST] {
        let mut bench = balancer(8192);
        bench.set("scheduler", 0, &[scheduler]);
        for round in 0..20 {
            // Twelve ports whose SYNs have a wrong checksum, say, each sent twice.
            let ignored = (0..12).map(|port| client(1000 + 12 * round + port));
            for one in ignored.clone() {
                assert!(ask(&mut bench, one, (C, 0), SYN).is_ok());
            }
            bench.wait(SECOND / 3);
            for number in 0..30 {
                assert!(open(&mut bench, client(5000 + 30 * round + number)).is_ok());
            }
            bench.wait(SECOND / 3);
            for one in ignored {
                assert!(ask(&mut bench, one, (C, 0), SYN).is_ok());
            }
        }
        let failed = [0, 1, 2].map(|number| bench.global("failed", number));
        assert_eq!(
            (failed, events(&mut bench)),
            ([0; 3], vec![]),
            "{scheduler}"
        );
        // Nobody is answered for a while: a burst of repetitions is one failure.
        bench.wait(SECOND);
        for expected in [0, 1, 2] {
            for number in 9000..9060 {
                assert!(ask(&mut bench, client(number), (C, 0), SYN).is_ok());
            }
            let failed = [0, 1, 2].map(|number| bench.global("failed", number));
            assert_eq!(failed, [expected; 3], "{scheduler}");
            bench.wait(SECOND);
        }
        assert_eq!(events(&mut bench), vec![]);
    }
}

#[test]
fn datagrams_leave_the_one_try_to_a_connection() {
    for scheduler in [ROUND_ROBIN, MAGLEV, LEAST] {
        let mut bench = balancer(8192);
        bench.set("scheduler", 0, &[scheduler]);
        take_out(&mut bench, &[1]);
        for round in 0..4 {
            for number in 0..50 {
                let one = client(30_000 + 50 * round + number);
                assert_ne!(send(&mut bench, one), 1, "{scheduler}");
            }
            bench.wait(5 * SECOND);
        }
        // The pause is over, and datagrams have not begun another one.
        let tries: Vec<_> = (0..100)
            .map(|number| client(31_000 + number))
            .filter(|one| ask(&mut bench, *one, (C, 0), SYN) == Ok(1))
            .collect();
        assert_eq!(tries.len(), 1, "{scheduler}");
        assert_ne!(send(&mut bench, client(32_000)), 1);
        let back = (S, C.wrapping_add(1));
        let answered = answer(&mut bench, 1, tries[0], back, SYN | ACK);
        assert_eq!(answered, "clients");
        let again = (0..90).filter(|number| send(&mut bench, client(33_000 + number)) == 1);
        assert!(again.count() > 15, "{scheduler}");
    }
}

#[test]
fn a_server_that_lives_is_found_however_few_slots_it_has() {
    for scheduler in [ROUND_ROBIN, MAGLEV, LEAST] {
        for dead in [&[0_u8][..], &[0, 1]] {
            let mut bench = balancer(8192);
            bench.set("scheduler", 0, &[scheduler]);
            for number in 0..3 {
                let weight = match number {
                    2 => 1,
                    _ if dead.contains(&number) => 10,
                    _ => 0,
                };
                set(&mut bench, number, weight, true);
            }
            take_out(&mut bench, dead);
            for number in 0..300 {
                let found = open(&mut bench, client(30_000 + number));
                assert_eq!(found, Ok(2), "{scheduler} {dead:?} {number}");
                assert_eq!(send(&mut bench, client(31_000 + number)), 2);
            }
        }
    }
}

#[test]
fn least_connections_are_of_32_servers() {
    let mut bench = balancer(8192);
    bench.set("scheduler", 0, &[LEAST]);
    for number in 0..32 {
        set(&mut bench, number, 1, true);
    }
    let mut counts = [0; 32];
    for number in 0..96 {
        counts[usize::from(open(&mut bench, client(number)).unwrap())] += 1;
    }
    assert_eq!(counts, [3; 32]);
    // The last of them by its weight, and one that drains not at all.
    set(&mut bench, 31, 4, true);
    set(&mut bench, 5, 0, true);
    let got: Vec<u8> = (100..109)
        .map(|number| open(&mut bench, client(number)).unwrap())
        .collect();
    assert_eq!(got, [31; 9]);
    assert_eq!(server(31, client(1)).port(), 8080);
}
