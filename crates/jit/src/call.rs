//! Operations that generated code does not do in line: it calls back for them.
//!
//! While a packet's code runs, for encapsulation, tables and whatever else is rare or long.
//! Arguments come in a row and results leave in one, as numbers of 128 bits; what is done with them
//! is a method of [`Env`] each, the same that the interpreter calls.

use catena_flow::program::arithmetic::binary;
use catena_flow::program::env::Env;
use catena_flow::program::interpret::VALUE_COUNT_MAX;
use catena_flow::program::ir::{Op, Value, Width};
use catena_flow::program::table::DATA_COUNT_MAX;

/// Results of an operation, at most: the data of a table's entry, and whether there is one.
pub(crate) const RESULT_COUNT_MAX: usize = DATA_COUNT_MAX + 1;

/// A place in generated code that calls back.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// What is done there.
    pub(crate) op: Op,
    /// How many arguments it is given.
    pub(crate) arguments: usize,
    /// The width that it depends on: of the result, or of what is written.
    pub(crate) width: Width,
}

/// The arguments of an operation, in the order in which they are given.
pub(crate) fn arguments(op: &Op) -> Vec<Value> {
    let most = |values: &[Value]| values.iter().copied().take(VALUE_COUNT_MAX).collect();
    match op {
        Op::Binary { a, b, .. } => vec![*a, *b],
        Op::Hash { of, .. } => of.clone(),
        Op::SetField { from, .. } => vec![*from],
        Op::Bytes { at, .. } | Op::Splice { at, .. } => vec![*at],
        Op::SetBytes { at, from } => vec![*at, *from],
        Op::Lookup { key, .. } => most(key),
        Op::Emit { values, .. } | Op::Notify { values, .. } | Op::Encap { values, .. } => {
            most(values)
        }
        Op::SetGlobal { index, from, .. } => vec![*index, *from],
        Op::Global { index, .. } => vec![*index],
        Op::StepGlobal { index, by, .. } => vec![*index, *by],
        _ => Vec::new(),
    }
}

/// Does it. Gives `false` if the code ends for want of room in front of the packet.
pub(crate) fn perform(
    call: &Call,
    env: &mut Env<'_>,
    given: &[u128],
    results: &mut [u128; RESULT_COUNT_MAX],
) -> bool {
    let argument = |at: usize| given.get(at).copied().unwrap_or(0);
    let bytes = usize::from(call.width / 8);
    match &call.op {
        Op::Binary { op, .. } => results[0] = binary(*op, argument(0), argument(1), call.width),
        Op::Hash { .. } => results[0] = u128::from(env.hash(given.iter().copied())),
        Op::Field { field, .. } => results[0] = env.field(*field),
        Op::SetField { field, .. } => env.set_field(*field, argument(0)),
        Op::Bytes { .. } => results[0] = env.packet_bytes(argument(0), bytes),
        Op::SetBytes { .. } => env.set_packet_bytes(argument(0), bytes, argument(1)),
        Op::Splice { count, .. } => return env.splice(argument(0), *count),
        Op::Parse => env.parse(),
        Op::Fact { fact, .. } => results[0] = env.fact(*fact),
        Op::Lookup { table, .. } => {
            let (is_hit, data) = env.look_up(*table, given);
            for (to, value) in results[1..].iter_mut().zip(data) {
                *to = *value;
            }
            results[0] = u128::from(is_hit);
        }
        Op::StepGlobal { global, op, .. } => {
            results[0] = env.step_global(*global, argument(0), *op, argument(1));
        }
        Op::Emit {
            template, output, ..
        } => env.emit(*template, given, *output),
        Op::Notify { event, .. } => env.notify(*event, given),
        Op::Encap { tunnel, .. } => return env.encap(*tunnel, given),
        Op::Decap { tunnel } => env.decap(*tunnel),
        // All others are done in line.
        _ => {}
    }
    true
}
