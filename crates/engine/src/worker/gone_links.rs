//! What links that have gone with a change of the chain had counted.
//!
//! Control path. Whoever let go of a link publishes its counters until the next change begins, in
//! blocks of the page behind those of links that stay: the supervisor adds them to those of its
//! name when the change is over. Limit: [`SPARE_BLOCKS`](crate::stats::SPARE_BLOCKS) links more
//! than the worker began with; what has no block is in no sum.

use crate::link::counters::{RxCounters, TxCounters};
use crate::link::{RxLink, TxLink};

/// Counters of links that have gone, by index of the link.
#[derive(Debug, Default)]
pub struct GoneLinks {
    /// Of those that left.
    pub sent: Vec<(usize, TxCounters)>,
    /// Of those that came.
    pub received: Vec<(usize, RxCounters)>,
}

impl GoneLinks {
    /// These leave no more.
    pub fn keep_sent(&mut self, links: &[Box<TxLink>]) {
        let counted = links.iter().map(|link| (link.index, link.counters));
        self.sent
            .extend(counted.filter(|(_, counters)| *counters != TxCounters::default()));
    }

    /// These come no more.
    pub fn keep_received(&mut self, links: &[Box<RxLink>]) {
        let counted = links.iter().map(|link| (link.index, link.counters));
        self.received
            .extend(counted.filter(|(_, counters)| *counters != RxCounters::default()));
    }
}
