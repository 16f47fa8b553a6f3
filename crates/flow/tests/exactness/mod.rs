// SPDX-License-Identifier: Apache-2.0
//! What the three functions claim, beside independent models, over as many random packets as asked
//! for: policers decide as their models do, the balancer moves no connection, and the offload sends
//! nothing into another terminal's tunnel.
//!
//! Tests of the example programs run these at small sizes, interpreted and as machine code; `cargo
//! xtask exactness` runs them at full size. Differences are counted, so that one does not hide the
//! next.

pub(crate) mod balancer;
pub(crate) mod offload;
pub(crate) mod policers;

/// What became of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// How often program and model were compared.
    pub(crate) number: u64,
    pub(crate) differences: u64,
    /// The first difference.
    pub(crate) first: Option<String>,
    /// What came and how often, by which it can be seen that something was compared.
    pub(crate) seen: Vec<(&'static str, u64)>,
}

impl Compared {
    /// Notes a comparison; gives whether both are equal.
    pub(crate) fn note<T: PartialEq + std::fmt::Debug>(
        &mut self,
        found: T,
        expected: T,
        what: impl FnOnce() -> String,
    ) -> bool {
        self.number += 1;
        let is_equal = found == expected;
        if !is_equal {
            self.differ(|| format!("{}: {found:?} instead of {expected:?}", what()));
        }
        is_equal
    }

    /// Notes that something is not as it should be.
    pub(crate) fn differ(&mut self, what: impl FnOnce() -> String) {
        self.differences += 1;
        self.first.get_or_insert_with(what);
    }

    /// Notes how often something came; too seldom is a difference, as nothing was compared then.
    pub(crate) fn saw(&mut self, what: &'static str, count: u64, least: u64) {
        self.seen.push((what, count));
        if count < least {
            self.differ(|| format!("{what}: only {count}, of at least {least}"));
        }
    }

    #[allow(dead_code, reason = "tests alone end by it")]
    #[track_caller]
    pub(crate) fn assert_equal(&self) {
        println!("{self:?}");
        assert_eq!(self.differences, 0, "{self:?}");
    }
}
