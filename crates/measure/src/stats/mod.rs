//! Statistics of samples that are neither independent nor normal.
//!
//! - [`random`]: numbers that a seed repeats.

pub mod random;
