//! Arithmetic of the intermediate representation: operations, and what each gives.
//!
//! While a packet's code runs. The interpreter computes here, and so does whoever folds constants
//! or changes a register in one step; compiled code does the same by itself and is compared with
//! it.

use super::field::{Width, ones};

/// An operation with one argument. Argument and result have the same width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// Every bit turned.
    Not,
    /// 0 minus it, modulo 2^width.
    Negate,
}

/// An operation with two arguments. Unless it says otherwise, arguments and result have the same
/// width and arithmetic is modulo 2^width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Quotient; by zero: 0.
    Div,
    /// Remainder; by zero: the first argument.
    Mod,
    /// Sum, at most the largest value.
    AddSat,
    /// Difference, at least 0.
    SubSat,
    /// And.
    And,
    /// Or.
    Or,
    /// Exclusive or.
    Xor,
    /// To the left; the second argument has any width, and moves all out from the width on.
    Shl,
    /// To the right, zeros coming in; the second argument as above.
    Shr,
    /// To the right, copies of the highest bit coming in; the second argument as above.
    ShrSigned,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// Whether they are equal; a bit, as of all further ones.
    Eq,
    /// Whether they differ.
    Ne,
    /// Whether the first is less, unsigned.
    Lt,
    /// Whether the first is less or equal, unsigned.
    Le,
    /// Whether the first is less, in two's complement.
    LtSigned,
    /// Whether the first is less or equal, in two's complement.
    LeSigned,
}

impl Binary {
    /// Whether the result is one bit, whatever the arguments' width.
    pub fn is_comparison(self) -> bool {
        use Binary::{Eq, Le, LeSigned, Lt, LtSigned, Ne};
        matches!(self, Eq | Ne | Lt | Le | LtSigned | LeSigned)
    }

    /// Whether a register of the program can become this of itself in one step.
    pub fn is_step(self) -> bool {
        use Binary::{Add, AddSat, And, Max, Min, Or, Sub, SubSat, Xor};
        matches!(
            self,
            Add | Sub | AddSat | SubSat | And | Or | Xor | Min | Max
        )
    }

    /// Whether the second argument may have another width.
    pub fn is_shift(self) -> bool {
        matches!(self, Self::Shl | Self::Shr | Self::ShrSigned)
    }
}

/// The result of an operation on arguments of a width.
pub fn binary(op: Binary, a: u128, b: u128, width: Width) -> u128 {
    let most = ones(width);
    let signed = |value: u128| {
        let above = 128 - u32::from(width);
        ((value << above) as i128) >> above
    };
    let shift = u32::try_from(b).unwrap_or(u32::MAX);
    let value = match op {
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::Mul => a.wrapping_mul(b),
        Binary::Div => a.checked_div(b).unwrap_or(0),
        Binary::Mod => a.checked_rem(b).unwrap_or(a),
        Binary::AddSat => a.saturating_add(b).min(most),
        Binary::SubSat => a.saturating_sub(b),
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::Shl => a.checked_shl(shift).unwrap_or(0),
        Binary::Shr => a.checked_shr(shift).unwrap_or(0),
        Binary::ShrSigned => (signed(a) >> shift.min(127)) as u128,
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::Eq => u128::from(a == b),
        Binary::Ne => u128::from(a != b),
        Binary::Lt => u128::from(a < b),
        Binary::Le => u128::from(a <= b),
        Binary::LtSigned => u128::from(signed(a) < signed(b)),
        Binary::LeSigned => u128::from(signed(a) <= signed(b)),
    };
    value & most
}
