//! What generated code does by itself, whatever the packet: asked before any code is made.
//!
//! A key all of whose operations are plain is made by code that has the packet's bytes and headers,
//! and nobody to call.

use catena_flow::program::header::Field;
use catena_flow::program::ir::{Binary, Fact, Op, Value};

/// Most bytes of a field that are read in line.
const INLINE_BYTES_MAX: usize = 16;

/// First byte of a field within its header, and the one behind its last.
pub(crate) fn bytes_of(field: Field) -> (usize, usize) {
    let end = usize::from(field.bit) + usize::from(field.width);
    (usize::from(field.bit) / 8, end.div_ceil(8))
}

/// Whether a field is read in line, where it lies within the packet.
pub(crate) fn is_read_inline(field: Field) -> bool {
    let (first, behind) = bytes_of(field);
    behind - first <= INLINE_BYTES_MAX
}

/// Whether code of a key can do it by the packet's bytes and headers, without calling back.
pub(crate) fn is_plain(op: &Op) -> bool {
    match op {
        Op::Binary { op, a, .. } => {
            let is_wide = !matches!(a, Value::Const(_, width) if *width <= 64);
            !(matches!(op, Binary::Div | Binary::Mod) && is_wide)
        }
        Op::Field { field, .. } => is_read_inline(*field),
        Op::Fact { fact, .. } => *fact != Fact::Tag,
        Op::Set { .. }
        | Op::Unary { .. }
        | Op::Select { .. }
        | Op::Resize { .. }
        | Op::Slice { .. }
        | Op::Concat { .. }
        | Op::Valid { .. } => true,
        _ => false,
    }
}
