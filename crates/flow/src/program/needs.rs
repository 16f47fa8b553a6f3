//! What a program needs of whoever runs it: whether it changes packets or makes some, and how much
//! room it takes in front of them.
//!
//! Asked when a chain is planned, before any packet, of a program that was verified.

use super::ir::{Code, Element, Op, Program};

impl Element {
    /// Whether it may change bytes of a packet.
    pub fn writes(&self) -> bool {
        let changes = |op: &Op| {
            matches!(
                op,
                Op::SetField { .. }
                    | Op::SetBytes { .. }
                    | Op::Splice { .. }
                    | Op::Encap { .. }
                    | Op::Decap { .. }
            )
        };
        self.codes().flat_map(Code::ops).any(changes)
    }
}

impl Program {
    /// All operations of all elements.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.elements
            .iter()
            .flat_map(Element::codes)
            .flat_map(Code::ops)
    }

    /// Whether a packet's bytes may change.
    pub fn writes(&self) -> bool {
        self.elements.iter().any(Element::writes)
    }

    /// Whether packets beside those that came are sent: copies, or such of its own making.
    pub fn makes_packets(&self) -> bool {
        self.ops()
            .any(|op| matches!(op, Op::Clone { .. } | Op::Emit { .. } | Op::Mirror { .. }))
    }

    /// Whether copies of packets as they came are sent: what came is kept until its code has run.
    pub fn mirrors(&self) -> bool {
        self.ops().any(|op| matches!(op, Op::Mirror { .. }))
    }

    /// Most bytes that one packet grows in front.
    pub fn headroom(&self) -> usize {
        let growth = |op: &Op| match op {
            Op::Encap { tunnel, .. } => tunnel.len(),
            Op::Splice { count, .. } => usize::try_from(*count).unwrap_or(0),
            _ => 0,
        };
        // No path runs an operation twice, so the sum over a code is a bound, if a generous one.
        let of_code = |code: &Code| code.ops().map(growth).sum::<usize>();
        self.elements
            .iter()
            .map(|element| of_code(&element.body).max(of_code(&element.keyless)))
            .sum()
    }
}
