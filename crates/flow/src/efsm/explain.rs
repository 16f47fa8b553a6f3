//! A program in words: what a flow is, what is remembered of it, what happens to packets.
//!
//! For `catena flow explain`.

use std::fmt::Write;

use crate::program::ir::{Code, Program, WhenFull};
use crate::program::layout::Layout;

/// What a program is, for people.
pub fn explain(program: &Program) -> String {
    let mut text = String::new();
    let layout = Layout::of(program);
    for element in &program.elements {
        let _ = writeln!(text, "element {}", element.name);
        let Some(flows) = &element.flows else {
            let _ = writeln!(text, "  no flows: all packets are alike to it");
            cost(&mut text, &element.body);
            continue;
        };
        let names: Vec<&str> = element.key.parts.iter().map(|part| &*part.name).collect();
        let bits: u32 = element
            .key
            .parts
            .iter()
            .map(|part| u32::from(part.width))
            .sum();
        let _ = writeln!(text, "  a flow is: {} ({bits} bits)", names.join(", "));
        if let Some(update) = &element.update {
            let names: Vec<&str> = update.parts.iter().map(|part| &*part.name).collect();
            let _ = writeln!(text, "  what is written belongs to: {}", names.join(", "));
        }
        let shape = &flows.shape;
        let _ = writeln!(
            text,
            "  {} flows of {} bytes of state; {:.1} MiB with key, timers and index",
            shape.capacity,
            shape.state_words * 8,
            shape.words().unwrap_or(0) as f64 * 8.0 / f64::from(1 << 20)
        );
        for register in &flows.registers {
            let place = format!("word {} bit {}", register.word, register.shift);
            let _ = writeln!(
                text,
                "    {:<16} {:>3} bits at {place}",
                register.name, register.width
            );
        }
        if !flows.states.is_empty() {
            let _ = writeln!(text, "  states: {}", flows.states.join(", "));
        }
        let event = element.changes.map(usize::from);
        if let Some(event) = event.and_then(|event| program.events.get(event)) {
            let _ = writeln!(text, "  changes of state are told as: {event}");
        }
        let full = match flows.when_full {
            WhenFull::Drop => "a new flow's packet is dropped".to_owned(),
            WhenFull::Pass => "a new flow is not remembered".to_owned(),
            WhenFull::EvictOldest => "whoever was idle longest gives way".to_owned(),
            WhenFull::EvictOldestIn(labels) => {
                let is_one = |at: usize| at < 64 && labels >> at & 1 == 1;
                let states = flows.states.iter().enumerate();
                let names: Vec<&str> = states
                    .filter(|(at, _)| is_one(*at))
                    .map(|(_, name)| &**name)
                    .collect();
                format!("whoever was idle longest in {} gives way", names.join(", "))
            }
            WhenFull::EvictLowest(register) | WhenFull::EvictHighest(register) => {
                let name = flows
                    .registers
                    .get(usize::from(register))
                    .map(|one| &*one.name);
                let is_low = matches!(flows.when_full, WhenFull::EvictLowest(_));
                let which = if is_low { "lowest" } else { "highest" };
                format!("the {which} {} gives way", name.unwrap_or_default())
            }
        };
        let _ = writeln!(text, "  when full: {full}");
        cost(&mut text, &element.body);
    }
    for table in &program.tables {
        if let Some(maglev) = table.maglev {
            let of = program.tables.get(usize::from(maglev.of));
            let (name, of) = (&table.name, of.map_or("", |of| &of.name));
            let slots = maglev.slots;
            let _ = writeln!(
                text,
                "table {name}: {slots} slots, shared out among {of} (Maglev)"
            );
        }
    }
    let _ = writeln!(
        text,
        "memory: {} bytes, layout {:#018x}",
        layout.words * 8,
        layout.number
    );
    let _ = writeln!(text, "outputs: {}", program.outputs.join(", "));
    if !program.reasons.is_empty() {
        let _ = writeln!(text, "drops: {}", program.reasons.join(", "));
    }
    let does = [
        (program.writes(), "changes packets"),
        (program.makes_packets(), "makes packets of its own"),
        (program.takes_malformed, "sees malformed packets"),
    ];
    for (_, what) in does.iter().filter(|(is_so, _)| *is_so) {
        let _ = writeln!(text, "it {what}");
    }
    text
}

fn cost(text: &mut String, body: &Code) {
    let (ops, blocks) = (body.ops().count(), body.blocks.len());
    let _ = writeln!(
        text,
        "  code: {ops} operations in {blocks} blocks, each at most once a packet"
    );
}
