// SPDX-License-Identifier: Apache-2.0
//! The balancer's passive health: a server that does not answer is out and comes back, by any
//! scheduler; what an attacker can send takes none out; and least connections among many servers.

use std::net::SocketAddr;

use super::balancer::{
    C, LEAST, MAGLEV, ROUND_ROBIN, S, answer, ask, balancer, client, open, server, set,
};
use super::bench::Bench;
use super::packet::{ACK, RST, SYN};

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
        let mut bench = balancer();
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
    let mut bench = balancer();
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
    let mut bench = balancer();
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

#[test]
fn least_connections_are_of_32_servers() {
    let mut bench = balancer();
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
