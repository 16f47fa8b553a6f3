//! Which ports of a worker are ends of links, and no nodes of the chain (ADR 13).

/// A port of the worker that is an end of a link, and no node of the chain.
#[derive(Clone, Copy, Debug)]
pub struct LinkEnd {
    /// Index of the link in the chain.
    pub link: usize,
    /// Position of the node that it serves.
    pub beside: usize,
    /// The queue between the two.
    pub queue: usize,
    /// Whether packets come by it.
    pub receives: bool,
}

/// The number of the link (its index plus one) whose port a queue leads to or comes from; 0 if it
/// joins two nodes of the chain.
#[inline]
pub fn link_number(ends: &[LinkEnd], queue: usize) -> u16 {
    let end = ends.iter().find(|end| end.queue == queue);
    end.map_or(0, |end| u16::try_from(end.link + 1).unwrap_or(u16::MAX))
}
