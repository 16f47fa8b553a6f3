//! Wrong code, on purpose: whether the comparison with the interpreter finds it.
//!
//! In tests of this crate only. A test says which fault the generator makes from now on in its
//! thread; the places that make one ask [`is_made`]. Each fault must show in random programs and
//! packets: one that does not says what the comparison is blind to.

/// A fault of the generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// What is above a value's width stays.
    Width,
    /// A shift by the register's width or more moves by the rest of that number.
    Shift,
    /// A quotient by zero is the dividend.
    QuotientByZero,
    /// Numbers in two's complement are compared as unsigned ones.
    Sign,
    /// A difference below zero goes round.
    Saturation,
    /// The two ways of a branch are taken for each other.
    Branch,
    /// A field that ends within a byte is read from that byte's end.
    FieldEnd,
    /// A field of a header that is not there is 1.
    Absent,
    /// All parts of a key lie at the lower end of their words.
    KeyPart,
    /// What is written of a flow is not said.
    Written,
    /// A register is written over its neighbours in a word.
    Neighbours,
    /// A meter's fractions never make a whole.
    Meter,
    /// A window's beginning belongs to it.
    Window,
    /// What runs over one bucket is lost to the other.
    Excess,
    /// A packet that comes yellow may become green.
    Colour,
    /// The last element of an array of registers is none.
    Array,
    /// A register becomes what it was to be raised by.
    Step,
    /// What is put into metadata stays in the code.
    Metadata,
    /// A checksum loses the carry.
    Carry,
    /// A checksum changes by what is new, and keeps what was.
    OldWords,
    /// UDP's checksum of zero is mended.
    NoChecksum,
    /// The checksum over addresses stays.
    PseudoHeader,
    /// Idle and hard timeout are taken for each other.
    Timeouts,
    /// A second verdict does not take the place of the first.
    Verdict,
}

#[cfg(test)]
thread_local! {
    static MADE: std::cell::Cell<Option<Wrong>> = const { std::cell::Cell::new(None) };
}

/// Whether the generator makes this fault.
#[cfg(test)]
pub(crate) fn is_made(wrong: Wrong) -> bool {
    MADE.get() == Some(wrong)
}

/// Whether the generator makes this fault: never.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn is_made(_: Wrong) -> bool {
    false
}

#[cfg(test)]
#[path = "../../../fuzz/src/jit.rs"]
#[allow(
    unreachable_pub,
    dead_code,
    reason = "public for the fuzz targets, of which this test calls one function"
)]
mod entries;

#[cfg(test)]
#[path = "../../flow/tests/random/mod.rs"]
mod random;

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

    use super::random::Random;
    use super::{MADE, Wrong, entries};

    /// Random programs within which a fault must show.
    const CASES: usize = 4000;

    const ALL: [Wrong; 24] = [
        Wrong::Width,
        Wrong::Shift,
        Wrong::QuotientByZero,
        Wrong::Sign,
        Wrong::Saturation,
        Wrong::Branch,
        Wrong::FieldEnd,
        Wrong::Absent,
        Wrong::KeyPart,
        Wrong::Written,
        Wrong::Neighbours,
        Wrong::Meter,
        Wrong::Window,
        Wrong::Excess,
        Wrong::Colour,
        Wrong::Array,
        Wrong::Step,
        Wrong::Metadata,
        Wrong::Carry,
        Wrong::OldWords,
        Wrong::NoChecksum,
        Wrong::PseudoHeader,
        Wrong::Timeouts,
        Wrong::Verdict,
    ];

    /// The first random case that shows the fault.
    fn found(wrong: Wrong) -> Option<usize> {
        let mut random = Random(0x0ca7_e4a1);
        MADE.set(Some(wrong));
        let found = (0..CASES).find(|case| {
            let len = random.below([200, 600, 1500, 4000][case % 4]) as usize;
            let input = random.bytes(len);
            catch_unwind(AssertUnwindSafe(|| entries::compare(&input))).is_err()
        });
        MADE.set(None);
        found
    }

    #[test]
    fn the_comparison_with_the_interpreter_finds_wrong_code() {
        // What is expected need not be printed.
        let hook = take_hook();
        set_hook(Box::new(|_| {}));
        let all: Vec<_> = ALL.map(|wrong| (wrong, found(wrong))).into();
        set_hook(hook);
        println!("{all:?}");
        let missed: Vec<_> = all.iter().filter(|(_, case)| case.is_none()).collect();
        assert!(missed.is_empty(), "not found: {missed:?}");
    }
}
