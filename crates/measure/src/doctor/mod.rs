//! The doctor: what this machine is and lacks as a place to measure, and how to repair it.
//!
//! Every probe says `ok`, `warning` or `unsupported`, what it saw, and the command that repairs it.
//! Probes read files under a root that is given to them, so that tests examine trees of other
//! machines. What a file cannot say is measured: the noise floor ([`noise`]), the offset of the
//! cores' time-stamp counters ([`tsc_offset`]) and how late a sleeping core answers ([`wakeup`]).
//!
//! - [`states`]: sets P and C states for a while and restores them, also after a crash.
//! - [`residency`]: how long cores were in each idle state.
//! - [`energy`]: joules from RAPL or from a wattmeter.

mod contention;
pub mod energy;
mod finding;
mod isolation;
mod kernel;
pub mod noise;
mod processor;
pub mod residency;
mod state_journal;
pub mod states;
#[cfg(test)]
mod tests;
mod tree;
pub mod tsc_offset;
pub mod wakeup;

pub(crate) use contention::throttled_count;
pub use finding::{Finding, Verdict};
pub use kernel::tick_hz;
pub use tree::Tree;

/// Everything that files say, in a fixed order. Reads only.
pub fn examine(tree: &Tree) -> Vec<Finding> {
    vec![
        isolation::virtualization(tree),
        processor::cpufreq(tree),
        processor::turbo(tree),
        processor::cpuidle(tree),
        processor::dma_latency(tree),
        processor::smt(tree),
        processor::tsc(tree),
        processor::counters(tree),
        energy::rapl(tree),
        isolation::isolcpus(tree),
        isolation::nohz(tree),
        isolation::huge_pages(tree),
        contention::load(tree),
        contention::steal(tree),
        contention::quota(tree),
        contention::engines(tree),
        kernel::command_line(tree),
        kernel::mitigations(tree),
        kernel::preemption(tree),
        kernel::tick(),
    ]
}
