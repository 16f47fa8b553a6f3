// SPDX-License-Identifier: Apache-2.0
//! Paxos in the network: acceptors against a model, and agreement whatever is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::bench::Bench;
use super::packet::{is_sealed, payload, udp};
use super::random::Random;

const PORT: u16 = 34952;
const REQUEST: u16 = 0;
const PHASE_1A: u16 = 1;
const PHASE_1B: u16 = 2;
const PHASE_2A: u16 = 3;
const PHASE_2B: u16 = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Message {
    kind: u16,
    instance: u32,
    round: u16,
    voted: u16,
    acceptor: u16,
    value: u128,
}

impl Message {
    fn frame(&self) -> Vec<u8> {
        let mut bytes = self.kind.to_be_bytes().to_vec();
        bytes.extend(self.instance.to_be_bytes());
        for word in [self.round, self.voted, self.acceptor] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(self.value.to_be_bytes());
        let end = |host| SocketAddr::from(([10, 0, 0, host], PORT));
        udp(end(1), end(2), &bytes)
    }

    fn of(frame: &[u8]) -> Self {
        assert!(is_sealed(frame));
        let bytes = payload(frame);
        let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        Self {
            kind: word(0),
            instance: u32::from(word(2)) << 16 | u32::from(word(4)),
            round: word(6),
            voted: word(8),
            acceptor: word(10),
            value: u128::from_be_bytes(bytes[12..28].try_into().unwrap()),
        }
    }
}

fn acceptor(number: u16) -> Bench {
    let text = include_str!("../../programs/paxos_acceptor.yaml");
    Bench::new(&text.replace("me: 1", &format!("me: {number}")))
}

/// What an acceptor answers, if it does.
fn ask(bench: &mut Bench, message: &Message) -> Option<Message> {
    let passed = bench.pass(0, &message.frame());
    match passed.verdict.as_str() {
        "!old_round" => None,
        verdict => {
            let answer = Message::of(&passed.bytes);
            let is_vote = answer.kind == PHASE_2B;
            assert_eq!(verdict, if is_vote { "learners" } else { "coordinator" });
            Some(answer)
        }
    }
}

#[test]
fn an_acceptor_does_as_its_model() {
    let mut bench = acceptor(7);
    let mut random = Random(11);
    // Of each instance: what was promised, the round and the value of the vote.
    let mut model: BTreeMap<u32, (u16, u16, u128)> = BTreeMap::new();
    let mut refused = 0;
    for _ in 0..5000 {
        let message = Message {
            kind: [PHASE_1A, PHASE_2A][random.below(2) as usize],
            instance: random.below(60) as u32,
            round: random.below(40) as u16,
            value: u128::from(random.next()) << 64 | u128::from(random.next()),
            ..Message::default()
        };
        let (promised, voted, value) = model.entry(message.instance).or_default();
        let expected = (message.round >= *promised).then(|| {
            *promised = message.round;
            let mut answer = Message {
                kind: message.kind + 1,
                acceptor: 7,
                ..message
            };
            if message.kind == PHASE_2A {
                (*voted, *value) = (message.round, message.value);
            }
            (answer.voted, answer.value) = (*voted, *value);
            answer
        });
        refused += u32::from(expected.is_none());
        assert_eq!(ask(&mut bench, &message), expected, "{message:?}");
    }
    assert!((100..4900).contains(&refused), "{refused}");
    let odd = Message {
        kind: PHASE_1B,
        instance: 1000,
        ..Message::default()
    };
    assert_eq!(bench.one(0, &odd.frame()), "!no_request");
    let end = SocketAddr::from(([10, 0, 0, 1], PORT));
    assert_eq!(bench.one(0, &udp(end, end, &[0; 27])), "!no_paxos");
}

/// Proposers that know nothing of each other, and a network that loses two messages of five.
#[test]
fn acceptors_agree_on_one_value() {
    let mut acceptors: Vec<Bench> = (1..4).map(acceptor).collect();
    let mut random = Random(12);
    let mut decided = 0;
    for instance in 0..60 {
        let mut chosen = BTreeSet::new();
        for round in 4..34_u16 {
            let mut send = |message: &Message| -> Vec<Message> {
                let heard = acceptors.iter_mut().filter_map(|one| {
                    let answer = if random.below(5) < 4 {
                        ask(one, message)
                    } else {
                        None
                    };
                    answer.filter(|_| random.below(4) < 3)
                });
                heard.collect()
            };
            // Rounds do not come in their order: proposers differ in speed.
            let round = round ^ 3;
            let mut message = Message {
                kind: PHASE_1A,
                instance,
                round,
                ..Message::default()
            };
            let promises = send(&message);
            if promises.len() < 2 {
                continue;
            }
            let latest = promises.iter().max_by_key(|answer| answer.voted).unwrap();
            message.kind = PHASE_2A;
            message.value = match latest.voted {
                0 => u128::from(instance) << 32 | u128::from(round),
                _ => latest.value,
            };
            if send(&message).len() >= 2 {
                chosen.insert(message.value);
            }
        }
        assert!(chosen.len() < 2, "instance {instance}: {chosen:?}");
        decided += chosen.len();
    }
    assert!(decided > 50, "{decided} instances were decided");
}

#[test]
fn the_coordinator_numbers_requests() {
    let mut bench = Bench::new(include_str!("../../programs/paxos_coordinator.yaml"));
    for instance in 1..5 {
        let request = Message {
            kind: REQUEST,
            value: 77,
            ..Message::default()
        };
        let passed = bench.pass(0, &request.frame());
        assert_eq!(passed.verdict, "acceptors");
        let expected = Message {
            kind: PHASE_2A,
            instance,
            round: 1,
            ..request
        };
        assert_eq!(Message::of(&passed.bytes), expected);
    }
    let answer = Message {
        kind: PHASE_1B,
        ..Message::default()
    };
    assert_eq!(bench.one(0, &answer.frame()), "!no_request");
}
