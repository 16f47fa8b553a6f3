//! An NF at which its worker dies within a turn: with packets in hand that it has pulled and
//! neither sent nor given back, so that the undertaker has to find them.
//!
//! It only looks at packets, so it may stand behind links of every trust.

use std::cell::Cell;
use std::panic::resume_unwind;

use super::unless;
use crate::nf::{BuiltNf, Burst, Nanos, Nf, NfKind, NfPlan};

thread_local! {
    static IS_LIT: Cell<bool> = const { Cell::new(false) };
}

/// Why a turn does not come to its end.
struct Blown;

/// What a turn comes to; none if its worker dies in it, since it has a fuse and packets came there.
pub(super) fn lit<T>(turn: impl FnOnce() -> T) -> Option<T> {
    IS_LIT.set(true);
    let done = unless::<Blown, T>(turn);
    IS_LIT.set(false);
    done
}

struct Fuse;

impl Nf for Fuse {
    fn process(&mut self, _burst: &mut Burst<'_>, _now: Nanos) {
        if IS_LIT.get() {
            resume_unwind(Box::new(Blown));
        }
    }
}

pub(super) static FUSE: NfKind = NfKind {
    name: "fuse",
    summary: "Ends its worker when it is lit",
    example: "{}",
    schema: || schemars::schema_for!(()),
    plan: |_, _| Ok(NfPlan::new()),
    build: |_, _| Ok(BuiltNf::new(Fuse)),
};
