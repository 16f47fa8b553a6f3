//! Registers that shards share, changed by several threads at once: no update is lost.
//!
//! Method: the same program in four shards over one memory, two of them compiled and two
//! interpreted, so that both engines change a word between each other's steps.

use std::sync::{Arc, Barrier};

use catena_flow::HeapMemory;
use catena_flow::efsm::source::load;
use catena_flow::program::layout::Layout;
use catena_flow::program::run::Arrival;
use catena_flow::simulate::Simulation;

const SHARDS: u64 = 4;
/// Packets of each shard.
const PACKETS: u64 = 20_000;

/// Arithmetic that goes round, above and at the width of a word; a mask; what others see of a
/// store; and a number for each packet.
const PROGRAM: &str = r#"
metadata: { number: 16 }
globals:
  seen: { width: 64, initial: 18446744073709551610, scope: shared }
  narrow: { width: 7, initial: 100, scope: shared }
  left: { width: 32, initial: 80000, scope: shared }
  parity: { width: 8, count: 3, initial: 1, scope: shared }
  number: { width: 16, initial: 65000, scope: shared }
  most: { width: 16, scope: shared }
elements:
  - name: e
    before:
      - global.seen = global.seen + 1
      - global.narrow = global.narrow + 3
      - global.left = sat_sub(global.left, 1)
      - "global.parity[packet.input] = global.parity[packet.input] ^ 0x81"
      - meta.number = fetch_add(global.number, 1)
      - global.most = max(global.most, meta.number & 0x7fff)
      - ipv4.id = meta.number
    transitions: [ { do: [output(out)] } ]
"#;

/// An IPv4 packet without anything behind its header.
fn frame() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let header = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0x65, 0xe9];
    frame.extend(header.into_iter().chain([10, 0, 0, 1, 10, 0, 0, 2]));
    frame
}

#[test]
fn no_update_of_a_shared_register_is_lost_between_shards() {
    let (mut found, _) = load("program", PROGRAM).unwrap_or_else(|errors| panic!("{errors}"));
    let found = found.remove(0).compiled;
    assert!(
        found
            .warnings
            .iter()
            .all(|one| !one.message.contains("stale"))
    );
    let program = found.program;
    let shared = Arc::new(HeapMemory::new(Layout::of(&program).shared_words));
    let start = Barrier::new(SHARDS as usize);
    let run = |shard: u64| {
        let compiled = match catena_jit::compile(&program) {
            Ok(compiled) => Some(compiled).filter(|_| shard.is_multiple_of(2)),
            Err(error) if cfg!(target_arch = "x86_64") => panic!("{error}"),
            Err(_) => None,
        };
        let mut simulation = Simulation::beside(program.clone(), compiled, &shared).unwrap();
        let (frame, input) = (frame(), shard as u8 % 3);
        let arrival = Arrival { now_ns: 1, input };
        start.wait();
        let numbers = (0..PACKETS).map(|_| {
            let passed = simulation.packet(&frame, arrival);
            assert_eq!(passed.verdict, "out");
            u16::from_be_bytes([passed.bytes[18], passed.bytes[19]])
        });
        numbers.collect::<Vec<u16>>()
    };
    let run = &run;
    let numbers: Vec<Vec<u16>> = std::thread::scope(|scope| {
        let shards: Vec<_> = (0..SHARDS)
            .map(|shard| scope.spawn(move || run(shard)))
            .collect();
        shards
            .into_iter()
            .map(|shard| shard.join().unwrap())
            .collect()
    });
    let mut behind = Simulation::beside(program.clone(), None, &shared).unwrap();
    let mut value = |name: &str, index: u32| {
        let number = program.globals.iter().position(|one| one.name == name);
        behind.running().global(number.unwrap(), index).unwrap()
    };
    let all = SHARDS * PACKETS;
    assert_eq!(value("seen", 0), all - 6);
    assert_eq!(value("narrow", 0), (100 + 3 * all) % 128);
    assert_eq!(value("left", 0), 80_000 - all.min(80_000));
    assert_eq!([0, 1, 2].map(|at| value("parity", at)), [1; 3]);
    assert_eq!(value("number", 0), (65_000 + all) % (1 << 16));
    assert_eq!(value("most", 0), 0x7fff);
    // Each packet has had a number of its own, as often as the numbers go round.
    let mut sorted = numbers.concat();
    sorted.sort_unstable();
    let mut expected: Vec<u16> = (0..all).map(|at| (65_000 + at) as u16).collect();
    expected.sort_unstable();
    assert!(sorted == expected, "a number was given twice");
    // And a shard had its own in order: going round for one that is smaller takes it beyond all.
    let way = |own: &Vec<u16>| -> u64 {
        let steps = own.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
        steps.map(u64::from).sum()
    };
    assert!(numbers.iter().map(way).all(|way| way < all));
}
