//! Which links that go a receiver empties before it reads one that is new. Pure.
//!
//! A receiver turns from link to link, not from all to all: were everybody to wait until every
//! link of a change is empty, whoever sends into a new one that is full would stand still, and so
//! would the links that go before it. A new link waits for one that goes
//!
//! - if both lead to the same node: one takes the place of the other;
//! - if what passed the old one is followed by what passes the new one: who sends into the old one
//!   (or did, in front of nodes that go) is on the way of the new one, and sends into that way by
//!   the same output. Not if those that the old one leads to are on that way, too: then its packets
//!   come by the new link themselves.
//!
//! Outputs count apart, else changes on two branches would wait for each other: for a new link on
//! the one before the other is empty, and the other way round. What a node with other settings
//! sends by an output it may have sent by any, and so may a node that goes: waits of that kind that
//! would close a circle are left out (`circles`).
//!
//! So packets do not overtake those that the same sender has put into a link that goes. What cannot
//! be held: where a sender turns away from nodes that stay, and whose links stay, the last packets
//! in *those* links may be overtaken by what goes past them.

use std::collections::{BTreeMap, BTreeSet};

use crate::chain::model::{is_gone, is_link_gone};
use crate::chain::{Chain, Link};
use crate::supervisor::circles::{Wait, without_circles};
use crate::supervisor::renumber::same_settings;

/// For each of the links that go, by their numbers in `old`: the new links of `now`, to nodes that
/// stay, that wait for it. `now` is numbered as the successor of `old`.
pub(super) fn awaited_by(old: &Chain, now: &Chain, going: &[usize]) -> Vec<Vec<usize>> {
    let new = now.links.iter().enumerate().skip(old.links.len());
    let stays = |node: usize| node < old.nodes.len();
    let new: Vec<_> = new
        .filter(|(_, link)| !is_link_gone(link) && stays(link.to))
        .collect();
    let ways = ways(old, now, going);
    let mut behind = BTreeMap::new();
    let mut reached_by = |way: Way| -> BTreeSet<usize> {
        let nodes = behind.entry(way);
        nodes.or_insert_with(|| reached(way, now, &ways)).clone()
    };
    let (mut waits, mut feeds) = (Vec::new(), Vec::new());
    for (at, number) in going.iter().enumerate() {
        let goes = &old.links[*number];
        let Before { senders, leavers } = before(old, now, going, goes);
        let followers: BTreeSet<usize> =
            senders.iter().copied().flat_map(&mut reached_by).collect();
        let own = match now.nodes[goes.to].ends_paths() {
            true => BTreeSet::new(),
            false => reached_by((goes.to, None)),
        };
        let follows = |link: &Link| {
            let is_sent = senders.contains(&(link.from, None))
                || senders.contains(&(link.from, Some(link.output)));
            is_sent || followers.contains(&link.from)
        };
        for (place, (_, link)) in new.iter().enumerate() {
            let takes_place = link.to == goes.to;
            if takes_place || (follows(link) && !own.contains(&link.from)) {
                waits.push(Wait {
                    new: place,
                    going: at,
                    takes_place,
                });
            }
        }
        // Who goes sends all that it holds, by whichever link, before any of them is done.
        let leaving = leavers
            .into_iter()
            .flat_map(|node| reached_by((node, None)));
        let behind: BTreeSet<usize> = leaving.chain(own).collect();
        let fed = new.iter().enumerate();
        let fed = fed.filter(|(_, (_, link))| behind.contains(&link.from));
        feeds.push(fed.map(|(place, _)| place).collect());
    }
    let mut awaited = vec![Vec::new(); going.len()];
    for wait in without_circles(&waits, &feeds, new.len()) {
        awaited[wait.going].push(new[wait.new].0);
    }
    awaited.iter_mut().for_each(|new| new.sort_unstable());
    awaited
}

/// A node that sends, and by which output; by any, if none is said.
type Way = (usize, Option<u8>);

/// Where packets go on to from each node, and by which output: by links of the new chain, and from
/// nodes that go by those of the old one.
fn ways(old: &Chain, now: &Chain, going: &[usize]) -> BTreeMap<usize, Vec<(u8, usize)>> {
    let left = going.iter().map(|link| &old.links[*link]);
    let left = left.filter(|link| is_gone(&now.nodes[link.from]));
    let links = now.links.iter().filter(|link| !is_link_gone(link));
    let mut ways: BTreeMap<usize, Vec<(u8, usize)>> = BTreeMap::new();
    for link in links.chain(left) {
        let from_here = ways.entry(link.from).or_default();
        from_here.push((link.output, link.to));
    }
    ways
}

/// Where packets come to that `start` sends by this output; it is one of them if it sends by any.
fn reached(
    (start, output): Way,
    now: &Chain,
    ways: &BTreeMap<usize, Vec<(u8, usize)>>,
) -> BTreeSet<usize> {
    let (mut found, mut front) = (BTreeSet::new(), Vec::new());
    if output.is_none() {
        found.insert(start);
    }
    let first = ways.get(&start).into_iter().flatten();
    let first = first.filter(|(by, _)| output.is_none_or(|output| output == *by));
    front.extend(first.map(|(_, to)| *to).filter(|to| found.insert(*to)));
    while let Some(node) = front.pop() {
        if now.nodes[node].ends_paths() {
            continue;
        }
        let next = ways.get(&node).into_iter().flatten().map(|(_, to)| *to);
        front.extend(next.filter(|next| found.insert(*next)));
    }
    found
}

/// Whom packets that go by a link passed before.
struct Before {
    /// Nodes that stay and sent them, and by which output: the link's own sender, or those in front
    /// of it if it goes.
    senders: BTreeSet<Way>,
    /// Nodes that go, from there to the link.
    leavers: BTreeSet<usize>,
}

fn before(old: &Chain, now: &Chain, going: &[usize], goes: &Link) -> Before {
    let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut front = vec![goes];
    while let Some(link) = front.pop() {
        let (then, here) = (&old.nodes[link.from], &now.nodes[link.from]);
        if !is_gone(here) {
            let output = same_settings(then, here).then_some(link.output);
            found.insert((link.from, output));
        } else if seen.insert(link.from) {
            let links = going.iter().map(|number| &old.links[*number]);
            front.extend(links.filter(|before| before.to == link.from));
        }
    }
    Before {
        senders: found,
        leavers: seen,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::supervisor::renumber::renumber;
    use crate::supervisor::simulation::registry;

    /// A chain of NFs that pass packets on, with these links; names that begin with `s` are
    /// sources, with `d` or `e` drains, with `m` merge, with `t` send each packet to all outputs.
    fn chain(links: &[&'static str]) -> Chain {
        let ends = links.iter().flat_map(|link| link.split(" -> "));
        let node = |end: &'static str| end.split('.').next().unwrap_or(end);
        let ends: BTreeSet<&str> = ends.map(node).collect();
        let (mut ports, mut nfs) = (String::new(), String::new());
        for end in ends {
            match end.as_bytes() {
                [b's', ..] => ports += &format!("  {end}: {{ source: {{}} }}\n"),
                [b'd' | b'e', ..] => ports += &format!("  {end}: {{ drain: {{}} }}\n"),
                [b'm', ..] => nfs += &format!("  {end}: {{ type: merge }}\n"),
                [b't', ..] => nfs += &format!("  {end}: {{ type: tee }}\n"),
                _ => nfs += &format!("  {end}: {{ type: count }}\n"),
            }
        }
        let links: String = links.iter().map(|link| format!("  - {link}\n")).collect();
        let nfs = if nfs.is_empty() {
            nfs
        } else {
            format!("nfs:\n{nfs}")
        };
        let text =
            format!("name: c\nports:\n{ports}{nfs}links:\n{links}run: {{ mode: process }}\n");
        let checked = Chain::parse(&text, Path::new("."), registry(), None);
        checked
            .unwrap_or_else(|errors| panic!("{errors}\n{text}"))
            .chain
    }

    /// By name, which new links wait for each that goes.
    fn waits(old: &[&'static str], new: &[&'static str]) -> BTreeMap<String, Vec<String>> {
        let (old, new) = (chain(old), chain(new));
        let now = renumber(&old, &new);
        let links = 0..old.links.len();
        let going: Vec<usize> = links
            .filter(|link| is_link_gone(&now.links[*link]))
            .collect();
        let awaited = awaited_by(&old, &now, &going);
        let name = |chain: &Chain, link: usize| chain.links[link].name.clone();
        let waits = going.iter().zip(awaited).map(|(goes, new)| {
            let new = new.into_iter().map(|link| name(&now, link));
            (name(&old, *goes), new.collect())
        });
        waits.collect()
    }

    fn are(expected: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        let one = |(goes, new): &(&str, &[&str])| {
            (
                (*goes).to_owned(),
                new.iter().map(|name| (*name).to_owned()).collect(),
            )
        };
        expected.iter().map(one).collect()
    }

    #[test]
    fn a_new_link_waits_for_what_goes_at_its_place_and_for_nothing_further_on_its_way() {
        let old = ["s -> a", "a -> b", "b -> d"];
        let found = waits(&old, &["s2 -> a", "a -> b", "b -> c", "c -> d"]);
        let expected = [("s -> a", &["s2 -> a"][..]), ("b -> d", &["c -> d"])];
        assert_eq!(found, are(&expected));
    }

    #[test]
    fn what_leads_past_nodes_that_go_waits_for_all_that_they_were_sent() {
        let new = &["s -> d"][..];
        let found = waits(&["s -> a", "a -> b", "b -> d"], new);
        let expected = [("s -> a", new), ("a -> b", new), ("b -> d", new)];
        assert_eq!(found, are(&expected));
    }

    /// Its sender has turned away from a node that stays, and goes past it.
    #[test]
    fn a_new_link_waits_for_what_its_sender_sent_elsewhere() {
        let old = ["s -> a", "a -> b", "b -> m", "s3 -> m", "m -> d"];
        let new = ["s -> m", "s4 -> a", "a -> b", "b -> m", "s3 -> m", "m -> d"];
        let expected = [("s -> a", &["s -> m", "s4 -> a"][..])];
        assert_eq!(waits(&old, &new), are(&expected));
    }

    /// Else each would wait until the other runs empty.
    #[test]
    fn changes_on_two_branches_do_not_wait_for_each_other() {
        let old = [
            "s -> t", "t.a -> h", "h -> p", "p -> d", "t.b -> i", "i -> q", "q -> e",
        ];
        let new = [
            "s -> t", "t.a -> x", "x -> h", "h -> p", "p -> y", "y -> d", "t.b -> w", "w -> i",
            "i -> q", "q -> z", "z -> e",
        ];
        let expected = [
            ("t.a -> h", &["x -> h"][..]),
            ("p -> d", &["y -> d"]),
            ("t.b -> i", &["w -> i"]),
            ("q -> e", &["z -> e"]),
        ];
        assert_eq!(waits(&old, &new), are(&expected));
    }

    /// The node that told the branches apart goes, and which of the next one's outputs takes what
    /// nobody knows. Each link still waits for what goes at its place.
    #[test]
    fn changes_on_two_branches_do_not_wait_for_each_other_if_the_node_before_them_goes() {
        let old = [
            "s -> t", "t.a -> h", "h -> p", "p -> d", "t.b -> i", "i -> q", "q -> e",
        ];
        let new = [
            "s -> t2",
            "t2.a -> x",
            "x -> h",
            "h -> p",
            "p -> y",
            "y -> d",
            "t2.b -> w",
            "w -> i",
            "i -> q",
            "q -> z",
            "z -> e",
        ];
        let both = &["x -> h", "w -> i"][..];
        let expected = [
            ("s -> t", both),
            ("t.a -> h", both),
            ("p -> d", &["y -> d"]),
            ("t.b -> i", both),
            ("q -> e", &["z -> e"]),
        ];
        assert_eq!(waits(&old, &new), are(&expected));
    }

    /// The branch of the node that goes tells which.
    #[test]
    fn a_new_link_waits_for_what_nodes_that_go_were_sent_by_the_same_output() {
        let old = [
            "s -> t", "t.a -> b", "b -> m", "t.b -> c", "c -> m", "m -> d",
        ];
        let new = ["s -> t", "t.a -> m", "t.b -> n", "n -> m", "m -> d"];
        let branch = &["t.a -> m", "n -> m"][..];
        let expected = [
            ("t.a -> b", &["t.a -> m"][..]),
            ("b -> m", branch),
            ("t.b -> c", &["n -> m"]),
            ("c -> m", branch),
        ];
        assert_eq!(waits(&old, &new), are(&expected));
    }

    /// Else they would wait for themselves.
    #[test]
    fn a_new_link_does_not_wait_for_packets_that_come_by_it() {
        let old = ["s -> a", "a -> b", "b -> d"];
        let new = ["s -> m", "s4 -> a", "a -> b", "b -> m", "m -> d"];
        let expected = [("s -> a", &["s4 -> a"][..]), ("b -> d", &["m -> d"])];
        assert_eq!(waits(&old, &new), are(&expected));
    }
}
