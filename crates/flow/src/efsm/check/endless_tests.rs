//! A test that no program which passes the check emits packets for ever: random ones are run
//! without packets until a flow would have been in one configuration twice.

use serde_json::{Value, json};

use super::super::tests::{Bench, UDP, packet};
use super::super::{Document, compile};
use super::tests::probe;
use crate::tests::Random;

impl Random {
    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    fn condition(&mut self) -> String {
        let register = self.pick(&["n", "m"]);
        let sign = self.pick(&["<", "<=", ">", ">=", "==", "!="]);
        format!("flow.{register} {sign} {}", self.below(4))
    }

    fn statement(&mut self, guard: &str) -> String {
        let register = self.pick(&["n", "m"]);
        let by = self.below(3);
        let text = match self.below(8) {
            0..4 => format!("flow.{register} = flow.{register} + {by}"),
            4 => format!("flow.{register} = flow.{register} - {by}"),
            5 => format!("flow.{register} = sat_sub(flow.{register}, {by})"),
            6 => format!("flow.{register} = {by}"),
            _ => "emit(probe, out)".to_owned(),
        };
        match self.below(6) {
            0 => format!("{text} if {}", self.condition()),
            1 | 2 => format!("{text} if {guard}"),
            _ => text,
        }
    }

    fn timeout(&mut self) -> Value {
        let mut one = json!({"on": "timeout", "do": []});
        if self.below(4) > 0 {
            one["from"] = self.pick(&["a", "b", "c"]).into();
        }
        let mut conditions = vec![self.condition()];
        conditions.extend((self.below(4) == 0).then(|| self.condition()));
        if self.below(6) > 0 {
            one["if"] = conditions.join(" && ").into();
        }
        let (count, guard) = (1 + self.below(4), self.condition());
        let mut statements: Vec<String> = (0..count).map(|_| self.statement(&guard)).collect();
        if self.below(2) == 0 {
            statements.push(format!("emit(probe, out) if {guard}"));
        }
        one["do"] = json!(statements);
        if self.below(8) > 0 {
            one["next"] = self.pick(&["a", "b", "c", "a", "b", "c", "forget"]).into();
        }
        one
    }

    fn document(&mut self) -> Value {
        let mut transitions: Vec<Value> = ["a", "b", "c"]
            .iter()
            .enumerate()
            .map(|(port, state)| {
                json!({"if": format!("udp.dst_port == {port}"), "next": state, "do": [
                    "flow.n = udp.src_port as 2", "flow.m = (udp.src_port >> 2) as 2"]})
            })
            .collect();
        let count = 1 + self.below(4);
        transitions.extend((0..count).map(|_| self.timeout()));
        let mut state = || match self.below(5) {
            0 => json!({}),
            _ => json!({"hard": "1s"}),
        };
        let states = json!({"a": state(), "b": state(), "c": state()});
        json!({
            "templates": {"probe": {"packet": probe()}},
            "elements": [{"name": "e", "key": ["ipv4.src"], "flows": 64, "initial": "a",
                "registers": {"n": 2, "m": 2}, "states": states, "transitions": transitions}],
        })
    }
}

/// States and values of both registers: whoever has been in more steps than this has been twice
/// in one, and goes around.
const CONFIGURATIONS: u64 = 3 * 4 * 4;

#[test]
fn no_program_that_passes_emits_packets_for_ever() {
    let mut random = Random(7);
    let (mut refused, mut passed, mut emitting) = (0, 0, 0);
    for _ in 0..10_000 {
        let document = random.document();
        let parsed: Document = serde_json::from_value(document.clone()).unwrap();
        match compile(&parsed) {
            Ok(_) => {}
            Err(found) => {
                refused += u32::from(found.iter().any(|one| one.message.contains("for ever")));
                continue;
            }
        }
        passed += 1;
        // A flow in each configuration, of which then no packet comes.
        let mut bench = Bench::new(&document);
        for start in 0..CONFIGURATIONS as u16 {
            let frame = packet(UDP, (start as u8 + 1, start / 3), (9, start % 3), 0);
            bench.burst(0, &[frame]);
        }
        let steps = |bench: &mut Bench| {
            let before = bench.running.emissions.made;
            for _ in 0..=CONFIGURATIONS {
                bench.expire(1_100_000_000);
                while !bench.running.emissions.is_empty() {
                    bench.running.emissions.pop();
                }
            }
            bench.running.emissions.made - before
        };
        emitting += u32::from(steps(&mut bench) > 0);
        assert_eq!(steps(&mut bench), 0, "{document:#}");
    }
    let counts = (refused, passed, emitting);
    assert!(
        refused > 500 && passed > 500 && emitting > 100,
        "{counts:?}"
    );
}
