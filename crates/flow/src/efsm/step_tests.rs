//! Which statements are steps, what they give, and whose words they change.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::efsm::tests::{UDP, packet};
use crate::efsm::{Document, compile};
use crate::program::ir::{Op, Program};
use crate::program::layout::Layout;
use crate::program::run::Arrival;
use crate::simulate::Simulation;
use crate::{AttachError, HeapMemory};

/// One element that does this with a register of 8 bits, and with an array, of a scope.
fn document(scope: &str, initial: u8, statements: &[&str]) -> Value {
    json!({
        "metadata": {"was": 8},
        "globals": {
            "n": {"width": 8, "initial": initial, "scope": scope},
            "all": {"width": 8, "count": 3, "initial": initial, "scope": scope},
            "own": {"width": 8, "initial": initial, "scope": "per_core"},
        },
        "elements": [{"name": "e", "before": statements, "transitions": [{"do": ["output(out)"]}]}],
    })
}

fn compiled(document: &Value) -> Result<Program, String> {
    let document: Document = serde_json::from_value(document.clone()).unwrap();
    let compiled = compile(&document).map(|compiled| compiled.program);
    compiled.map_err(|problems| format!("{problems:?}"))
}

fn step_count(program: &Program) -> usize {
    let is_step = |op: &&Op| matches!(op, Op::StepGlobal { .. });
    program.ops().filter(is_step).count()
}

/// What `n` is behind a packet, and the packet's time to live.
fn behind(document: &Value) -> (u64, u8) {
    let mut simulation = Simulation::new(compiled(document).unwrap()).unwrap();
    let passed = simulation.packet(&packet(UDP, (1, 5), (2, 6), 0), Arrival::default());
    let running = simulation.running();
    let number = running
        .program()
        .globals
        .iter()
        .position(|one| one.name == "n");
    (
        running.global(number.unwrap(), 0).unwrap(),
        passed.bytes[22],
    )
}

#[test]
fn a_shared_register_is_changed_in_one_step_and_others_as_they_were() {
    for (statement, value) in [
        ("global.n = global.n + 9", 3),
        ("global.n = 9 + global.n", 3),
        ("global.n = global.n - 251", 255),
        ("global.n = sat_sub(global.n, 251)", 0),
        ("global.n = global.n & 0x0f", 10),
        ("global.n = global.n | 5", 255),
        ("global.n = global.n ^ 0xff", 5),
        ("global.n = min(global.n, 7)", 7),
        ("global.n = max(251, global.n)", 251),
        ("global.n = global.n + global.own", 244),
    ] {
        let found = ["shared", "per_core"].map(|scope| {
            let document = document(scope, 250, &[statement]);
            (
                behind(&document).0,
                step_count(&compiled(&document).unwrap()),
            )
        });
        assert_eq!(found, [(value, 1), (value, 0)], "{statement}");
    }
    // What is no step of one word is read and written.
    for statement in [
        "global.n = 5 - global.n",
        "global.n = global.n + global.n",
        "global.n = (global.n + 1) % 3",
        "global.n = global.own + 1",
        "global.all[1] = global.all[2] + 1",
    ] {
        let program = compiled(&document("shared", 1, &[statement])).unwrap();
        assert_eq!(step_count(&program), 0, "{statement}");
    }
    let program = compiled(&document(
        "shared",
        1,
        &["global.all[2] = global.all[2] + 1"],
    ));
    assert_eq!(step_count(&program.unwrap()), 1);
}

#[test]
fn a_step_gives_what_the_register_was() {
    for scope in ["shared", "per_core"] {
        let statements = ["meta.was = fetch_add(global.n, 4)", "ipv4.ttl = meta.was"];
        assert_eq!(behind(&document(scope, 254, &statements)), (2, 254));
        // Whatever can be written gets it.
        for (target, shown) in [
            ("global.own", "global.own"),
            ("global.all[1]", "global.all[1]"),
            ("packet[22:+1]", "packet[22:+1]"),
        ] {
            let first = format!("{target} = fetch_add(global.n, 4)");
            let statements = [&*first, &format!("ipv4.ttl = {shown}")];
            assert_eq!(
                behind(&document(scope, 254, &statements)),
                (2, 254),
                "{target}"
            );
        }
    }
    for (statement, why) in [
        ("meta.was = 1 + fetch_add(global.n, 4)", "stands alone"),
        ("meta.was = fetch_add(global.n)", "other arguments"),
        ("meta.was = fetch_add(meta.was, 1)", "not of the program"),
        ("meta.was = fetch_add(7, 1)", "is no register"),
        ("meta.was = fetch_add(global.all, 1)", "is an array"),
        ("global.n = global.n + 256", "does not fit 8 bits"),
    ] {
        let wrong = compiled(&document("shared", 1, &[statement])).unwrap_err();
        assert!(wrong.contains(why), "{statement}: {wrong}");
    }
}

/// Words of shared registers need nobody who makes them: whoever comes first, or again, finds the
/// initial value or what was made of it.
#[test]
fn shards_come_to_shared_registers_in_any_order() {
    let program = |initial: u8| {
        let statements = ["global.n = global.n + 1", "global.own = global.own + 1"];
        compiled(&document("shared", initial, &statements)).unwrap()
    };
    let first = program(9);
    let layout = Layout::of(&first);
    let shared = Arc::new(HeapMemory::new(layout.shared_words));
    let shard = || Simulation::beside(first.clone(), None, &shared).unwrap();
    let values = |simulation: &mut Simulation| {
        let frame = packet(UDP, (1, 5), (2, 6), 0);
        assert_eq!(simulation.packet(&frame, Arrival::default()).verdict, "out");
        let running = simulation.running();
        let of = |number: usize| running.global(number, 0).unwrap();
        let names = running.program().globals.iter().enumerate();
        let named = names.map(|(number, one)| (one.name.clone(), of(number)));
        named.collect::<std::collections::BTreeMap<_, _>>()
    };
    let (mut one, mut other) = (shard(), shard());
    assert_eq!((values(&mut one)["n"], values(&mut other)["n"]), (10, 11));
    // The first one starts again.
    one = shard();
    let seen = values(&mut one);
    assert_eq!((seen["n"], seen["own"], seen["all"]), (12, 10, 9));
    // What gives a word its meaning is in the number of its own memory.
    let second = Layout::of(&program(10));
    assert_eq!(second.number, layout.number);
    assert_ne!(second.shared_number, layout.shared_number);
    let refused = Simulation::beside(program(10), None, &shared).map(drop);
    assert_eq!(refused, Err(AttachError::OtherShape));
    let short = Arc::new(HeapMemory::new(layout.shared_words - 1));
    assert!(Simulation::beside(first.clone(), None, &short).is_err());
    let mut own = document("per_core", 9, &["global.n = global.n + 1"]);
    own["elements"][0]["before"] = json!([]);
    let own = Layout::of(&compiled(&own).unwrap());
    assert_ne!(
        own.number, layout.number,
        "a register went to another memory"
    );
    assert_eq!(own.shared_words, 0);
}
