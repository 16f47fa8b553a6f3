//! Waits for links that go, without those by which new links would wait for each other in a circle.
//! Pure.
//!
//! A new link waits until a link that goes is empty. That one runs empty only if what it holds can
//! go on, and that may be by another new link: while nobody reads it, it fills up. If that one
//! waits in turn for a link whose packets go on by the first, both wait until the change gives up.
//! So it is, or seems to be, where a node that tells packets apart goes itself, or gets other
//! settings, and two of its branches change: which of its new outputs takes what an old one took
//! nobody knows.
//!
//! A link that takes the place of another always waits for it. Of the other waits, those that would
//! close a circle are none: order is held without them on every branch by itself.

use std::collections::BTreeSet;

/// A new link waits for one that goes; each by its place in a list of such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) new: usize,
    pub(super) going: usize,
    /// Both lead to the same node.
    pub(super) takes_place: bool,
}

/// Steps along waits that are taken to find circles. Beyond it, what may close one is left out.
const STEPS_MAX: usize = 1 << 22;

/// Those of `waits` that close no circle. `feeds` says for each link that goes by which new links
/// its packets go on.
pub(super) fn without_circles(waits: &[Wait], feeds: &[Vec<usize>], new_count: usize) -> Vec<Wait> {
    let core = core(waits, feeds, new_count);
    let mut graph = Graph {
        feeds,
        waits_of: vec![Vec::new(); new_count],
        steps: 0,
    };
    let is_doubtful = |wait: &Wait| !wait.takes_place && core.contains(&wait.going);
    let mut kept = Vec::new();
    for wait in waits.iter().filter(|wait| !is_doubtful(wait)) {
        graph.waits_of[wait.new].push(wait.going);
        kept.push(*wait);
    }
    for wait in waits.iter().filter(|wait| is_doubtful(wait)) {
        if graph.closes_none(wait) {
            graph.waits_of[wait.new].push(wait.going);
            kept.push(*wait);
        }
    }
    kept
}

/// Links that go on which all circles lie, if there are any: all but those that need, in any number
/// of steps, only what needs nothing more.
fn core(waits: &[Wait], feeds: &[Vec<usize>], new_count: usize) -> BTreeSet<usize> {
    let mut needs_of_new = vec![0_usize; new_count];
    let mut waiting = vec![Vec::new(); feeds.len()];
    for wait in waits {
        needs_of_new[wait.new] += 1;
        waiting[wait.going].push(wait.new);
    }
    let mut fed_by = vec![Vec::new(); new_count];
    let mut needs_of_going = vec![0_usize; feeds.len()];
    for (going, fed) in feeds.iter().enumerate() {
        needs_of_going[going] = fed.len();
        fed.iter().for_each(|new| fed_by[*new].push(going));
    }
    let free = 0..feeds.len();
    let mut free: Vec<usize> = free.filter(|going| feeds[*going].is_empty()).collect();
    let unneeded = |new: &usize| needs_of_new[*new] == 0;
    let mut read: Vec<usize> = (0..new_count).filter(unneeded).collect();
    let mut core: BTreeSet<usize> = (0..feeds.len()).collect();
    loop {
        if let Some(new) = read.pop() {
            for going in &fed_by[new] {
                needs_of_going[*going] -= 1;
                free.extend((needs_of_going[*going] == 0).then_some(*going));
            }
        } else if let Some(going) = free.pop() {
            core.remove(&going);
            for new in &waiting[going] {
                needs_of_new[*new] -= 1;
                read.extend((needs_of_new[*new] == 0).then_some(*new));
            }
        } else {
            return core;
        }
    }
}

/// What waits for what.
struct Graph<'a> {
    feeds: &'a [Vec<usize>],
    /// By new link, those that it waits for.
    waits_of: Vec<Vec<usize>>,
    steps: usize,
}

impl Graph<'_> {
    /// Whether what `wait` is for can end without the new link that waits.
    fn closes_none(&mut self, wait: &Wait) -> bool {
        let (mut seen, mut front) = (BTreeSet::from([wait.going]), vec![wait.going]);
        while let Some(going) = front.pop() {
            for new in &self.feeds[going] {
                self.steps += 1;
                if *new == wait.new || self.steps > STEPS_MAX {
                    return false;
                }
                let further = self.waits_of[*new].iter().copied();
                front.extend(further.filter(|going| seen.insert(*going)));
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(new: usize, going: usize, takes_place: bool) -> Wait {
        Wait {
            new,
            going,
            takes_place,
        }
    }

    #[test]
    fn waits_without_a_circle_stay() {
        let waits = [wait(0, 0, true), wait(1, 0, false), wait(1, 1, true)];
        let kept = without_circles(&waits, &[vec![], vec![0]], 2);
        assert_eq!(kept.len(), waits.len());
    }

    /// What takes a place waits for it, and one of the two others goes.
    #[test]
    fn a_circle_is_opened_where_nothing_takes_a_place() {
        let places = [wait(0, 0, true), wait(1, 1, true)];
        let others = [wait(2, 1, false), wait(3, 0, false)];
        let waits: Vec<_> = places.iter().chain(&others).copied().collect();
        let kept = without_circles(&waits, &[vec![2], vec![3]], 4);
        assert_eq!(kept, [places[0], places[1], others[0]]);
    }

    /// Thousands of links, all of which wait for all.
    #[test]
    fn a_large_change_is_bounded_work() {
        const COUNT: usize = 1500;
        let pairs = (0..COUNT).flat_map(|new| (0..COUNT).map(move |going| (new, going)));
        let waits: Vec<_> = pairs
            .map(|(new, going)| wait(new, going, new == going))
            .collect();
        let feeds: Vec<_> = (0..COUNT).map(|going| vec![(going + 1) % COUNT]).collect();
        let kept = without_circles(&waits, &feeds, COUNT);
        let places = kept.iter().filter(|wait| wait.takes_place);
        assert_eq!(places.count(), COUNT);
    }
}
