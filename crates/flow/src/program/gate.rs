//! Elements that are for some packets alone: whether one does anything is said by one value of
//! metadata.
//!
//! Found once in a program's code, when it is loaded; then asked for each packet in front of an
//! element ([`run`](super::run)), so that those that are not for it pass at the cost of a
//! comparison. Whatever code does, it is left out only where it would have done nothing.

use super::ir::{Binary, Block, BlockId, Element, End, Op, Slot, Value};

/// An element does nothing with packets that have another value there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gate {
    slot: Slot,
    value: u128,
}

impl Gate {
    /// That of an element, if it has one: without flows, its first operation compares metadata with
    /// a number, and where they differ there is no other operation up to the end.
    pub(super) fn of(element: &Element, metadata_count: usize) -> Option<Self> {
        if element.flows.is_some() {
            return None;
        }
        let blocks = &element.body.blocks;
        let first = behind_jumps(blocks, 0)?;
        let [
            Op::Binary {
                to,
                op: Binary::Eq,
                a: Value::Slot(slot),
                b: Value::Const(value, _),
            },
        ] = &*first.ops
        else {
            return None;
        };
        let End::Branch {
            when, otherwise, ..
        } = first.end
        else {
            return None;
        };
        let is_metadata = |slot: Slot| usize::from(slot) < metadata_count;
        let last = behind_jumps(blocks, otherwise)?;
        let does_nothing = last.ops.is_empty() && matches!(last.end, End::Next);
        let is_gate = when == *to && is_metadata(*slot) && !is_metadata(*to) && does_nothing;
        is_gate.then_some(Self {
            slot: *slot,
            value: *value,
        })
    }

    /// Whether the element may do something with a packet that has this metadata.
    #[inline(always)]
    pub(super) fn is_open(self, metadata: &[u128]) -> bool {
        metadata.get(usize::from(self.slot)) == Some(&self.value)
    }
}

/// The block that code comes to from one on, past such that only lead on.
fn behind_jumps(blocks: &[Block], from: BlockId) -> Option<&Block> {
    let mut block = blocks.get(usize::from(from))?;
    // Jumps go forward only.
    while let (true, End::Jump(to)) = (block.ops.is_empty(), &block.end) {
        block = blocks.get(usize::from(*to))?;
    }
    Some(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::efsm::source::load;
    use crate::program::run::Arrival;
    use crate::simulate::Simulation;

    /// What the other elements do keeps each of them from being a gate.
    const PROGRAM: &str = r#"
metadata: { way: 2, count: 8 }
globals: { seen: { width: 8, scope: per_core } }
elements:
  - name: choose
    transitions: [{ if: udp.src_port == 5, do: [meta.way = 2] }]
    otherwise: []
  - name: gate
    transitions: [{ if: meta.way == 2, do: [meta.count = meta.count + 1] }]
    otherwise: []
  - name: counts_others
    transitions: [{ if: meta.way == 2, do: [] }]
    otherwise: [global.seen = global.seen + 1]
  - name: of_flows
    key: [ipv4.src]
    registers: { count: 8 }
    transitions: [{ if: meta.way == 2, do: [flow.count = flow.count + 1] }]
    otherwise: []
  - name: of_two_values
    transitions:
      - { if: meta.way == 2, do: [ipv4.ttl = meta.count] }
      - { if: meta.way == 0, do: [ipv4.ttl = 99] }
    otherwise: []
"#;

    #[test]
    fn an_element_is_passed_by_only_where_it_does_nothing() {
        let (mut found, _) = load("program", PROGRAM).unwrap_or_else(|errors| panic!("{errors}"));
        let program = found.remove(0).compiled.program;
        let count = program.metadata.len();
        let gates = program.elements.iter().map(|one| Gate::of(one, count));
        let has_gate: Vec<bool> = gates.map(|gate| gate.is_some()).collect();
        assert_eq!(has_gate, [false, true, false, false, false]);
        let mut simulation = Simulation::new(program).unwrap();
        let mut frame = crate::packet_test::tests::frame();
        let mut ttl = |frame: &[u8]| simulation.packet(frame, Arrival::default()).bytes[22];
        assert_eq!(ttl(&frame), 1, "its port is 5");
        frame[35] = 6;
        assert_eq!(ttl(&frame), 99);
        assert_eq!(simulation.running().global(0, 0), Some(1));
        assert_eq!(
            simulation.running().flows(3).map(crate::FlowTable::len),
            Some(1)
        );
    }
}
