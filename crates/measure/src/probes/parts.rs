//! The time between two points of a journey, by component.
//!
//! ```text
//!  begin -rx-> entered = left -copy, pack or publish-> sent
//!        ~wake-up, gave way, ring wait~> begin -take-> entered -NF-> left ...
//! ```
//!
//! A burst can be seen by its receiver before its sender has looked at the clock, and a receiver
//! may have begun its turn before the burst was there: then nothing waited, and the two sides'
//! parts meet where the later one began. What is left over, which can only be time that runs
//! backwards between two cores, stays unattributed.

use catena_engine::probe::{Visit, VisitFlags};
use catena_engine::supervisor::probing::{ProbeLink, ProbeMap};
use catena_shm::pmc::Counted;

use super::journey::Journey;
use crate::blame::{PartCount, Trace};

/// Kinds of components: the same on every path, in every mode, for every port.
pub const KINDS: [&str; 11] = [
    "port rx",
    "NF",
    "port tx",
    "publish",
    "copy",
    "pack",
    "wake-up",
    "gave way",
    "ring wait",
    "take",
    "queue",
];
const PORT_RX: usize = 0;
const NF: usize = 1;
const PORT_TX: usize = 2;
const PUBLISH: usize = 3;
const COPY: usize = 4;
const PACK: usize = 5;
const WAKE_UP: usize = 6;
const GAVE_WAY: usize = 7;
const RING_WAIT: usize = 8;
const TAKE: usize = 9;
const QUEUE: usize = 10;

/// A component of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Where: a node's or a link's name, and its kind.
    pub name: String,
    /// Index into [`KINDS`].
    pub kind: usize,
}

/// Components of each hop: the node's work, passing on, three ways to wait, and taking.
const PER_HOP: usize = 6;

/// The components of the path that `journeys`, which all take it, have in common; in the order of
/// the times that [`times_of`] gives.
pub fn components(map: &ProbeMap, journeys: &[&Journey]) -> Vec<Component> {
    let Some(first) = journeys.first() else {
        return Vec::new();
    };
    let mut components = Vec::new();
    for (hop, visit) in first.visits.iter().enumerate() {
        let node = map.nodes[usize::from(visit.node)].as_ref();
        let name = node.map_or("?", |node| node.name.as_str());
        components.push(Component {
            kind: work_kind(visit),
            name: format!("{name}: {}", KINDS[work_kind(visit)]),
        });
        let Some(next) = first.visits.get(hop + 1) else {
            continue;
        };
        let link = link_between(map, visit, next);
        let packed = journeys
            .iter()
            .filter(|journey| journey.visits[hop].flags.has(VisitFlags::PACKED));
        let is_packed = 2 * packed.count() > journeys.len();
        let kinds = match link {
            Some(link) if link.is_ring => {
                let send = match (link.copies, is_packed) {
                    (_, true) => PACK,
                    (true, false) => COPY,
                    (false, false) => PUBLISH,
                };
                let take = if link.copies { COPY } else { TAKE };
                [send, WAKE_UP, GAVE_WAY, RING_WAIT, take]
            }
            _ => [PUBLISH, WAKE_UP, GAVE_WAY, QUEUE, TAKE],
        };
        let link = link.map_or("?", |link| link.name.as_str());
        let places = ["in", "", "", "", "out"];
        components.extend(kinds.iter().zip(places).map(|(kind, place)| {
            let word = KINDS[*kind];
            let name = match place {
                place if *kind == COPY => format!("{link}: {word} {place}"),
                _ => format!("{link}: {word}"),
            };
            Component { name, kind: *kind }
        }));
    }
    components
}

/// The link from one visit's node to the next one's.
fn link_between<'a>(map: &'a ProbeMap, last: &Visit, next: &Visit) -> Option<&'a ProbeLink> {
    if let Some(index) = next.input.checked_sub(1) {
        return map.links.get(usize::from(index))?.as_ref();
    }
    let ends = (usize::from(last.node), usize::from(next.node));
    let mut links = map.links.iter().flatten();
    links.find(|link| (link.from, link.to) == ends && !link.is_ring)
}

const fn work_kind(visit: &Visit) -> usize {
    if visit.flags.has(VisitFlags::ORIGIN) {
        PORT_RX
    } else if visit.flags.has(VisitFlags::TERMINAL) {
        PORT_TX
    } else {
        NF
    }
}

/// A journey's time in each component of its path, in ns.
pub fn times_of(journey: &Journey) -> Trace {
    let mut parts_ns = Vec::with_capacity(journey.visits.len() * PER_HOP);
    for (hop, visit) in journey.visits.iter().enumerate() {
        let work_since = if visit.flags.has(VisitFlags::ORIGIN) {
            visit.begin
        } else {
            visit.entered
        };
        parts_ns.push(span(work_since, visit.left));
        if let Some(next) = journey.visits.get(hop + 1) {
            parts_ns.extend(hop_parts(visit, next));
        }
    }
    Trace {
        parts_ns,
        residence_ns: journey.residence_ns(),
    }
}

/// What the processor counted in each component of a journey's path, in the order of
/// [`times_of`]: in the work of nodes and in passing on, of the burst that the packet was in.
pub fn counts_of(journey: &Journey) -> Vec<PartCount> {
    let number = |found: Counted| (found.cycles as f64, found.instructions as f64);
    let mut counts = Vec::with_capacity(journey.visits.len() * PER_HOP);
    for (hop, visit) in journey.visits.iter().enumerate() {
        counts.push(visit.counts.work.map(number));
        if hop + 1 < journey.visits.len() {
            counts.push(visit.counts.send.map(number));
            counts.extend([None; PER_HOP - 2]);
        }
    }
    counts
}

/// Passing on, wake-up, giving way, waiting and taking, between two visits.
fn hop_parts(last: &Visit, next: &Visit) -> [f64; 5] {
    // The packet was there when it was taken, whatever the sender's clock says.
    let there = last.sent.min(next.entered).max(last.left);
    let begun = next.begin.max(there).min(next.entered.max(there));
    let resumed = next.resumed.unwrap_or(0).clamp(there, begun);
    let paused = span(there, resumed);
    let (woke, gave_way) = if next.flags.has(VisitFlags::SLEPT) {
        (paused, 0.0)
    } else {
        (0.0, paused)
    };
    let taking = if next.entered >= begun {
        span(begun, next.entered)
    } else {
        0.0
    };
    [
        span(last.left, there),
        woke,
        gave_way,
        span(resumed, begun),
        taking,
    ]
}

fn span(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64
}
