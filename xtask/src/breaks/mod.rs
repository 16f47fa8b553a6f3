//! `cargo xtask break CRATE`: breaks each limit of a crate in turn, and says which of the breaks no
//! test of its units notices.
//!
//! All of it happens in a copy of the tree, in a folder that goes with the command. Breaks that
//! change nothing are in the crate's page of limits, each with its reason, and are not held against
//! the tests. Tests are quick or slow by what they take unbroken, one behind the other. Quick ones
//! run first, and of those the ones next to the break; slow ones run on what they do not notice
//! and the page does not explain.
//!
//! SPDX-License-Identifier: Apache-2.0

mod arguments;
mod find;
mod tokens;
mod trial;

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::image;
pub(crate) use arguments::Arguments;
use find::Place;
use trial::{Outcome, Tree};

/// A break, as it is listed.
struct Break<'a> {
    place: &'a Place,
    /// Which of those of its place.
    which: usize,
    number: usize,
}

impl Break<'_> {
    fn title(&self) -> String {
        let (place, instead) = (self.place, self.place.shown_instead(self.which));
        let (file, line, shown) = (place.file.display(), place.line, place.shown());
        format!("{file}:{line}: `{shown}` as `{instead}`")
    }

    /// The same without the line, which moves: how it is named in the page.
    fn lasting(&self) -> String {
        let (place, instead) = (self.place, self.place.shown_instead(self.which));
        format!(
            "| `{}` | `{}` | `{instead}` |",
            place.file.display(),
            place.shown()
        )
    }
}

/// Tries all breaks.
///
/// # Errors
/// The unbroken crate does not pass its tests, a break is noticed by none, or the page explains
/// what there is not, or what is noticed.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    campaign(image::repository()?, arguments)
}

fn campaign(root: &Path, arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let folder = Path::new("crates").join(&arguments.name);
    let places = find::places(root, &folder.join("src/lib.rs"))
        .map_err(|error| format!("{}: {error}; name a crate's folder", folder.display()))?;
    let breaks = chosen(&places, arguments);
    if arguments.list {
        breaks.iter().for_each(|one| println!("{}", one.title()));
        return Ok(());
    }
    let page = root.join(format!("docs/internals/{}-limits.md", arguments.name));
    let explained = explained(&std::fs::read_to_string(page).unwrap_or_default());
    let mut tree = Tree::copy(root, &arguments.name, arguments)?;
    let mut tried = Vec::new();
    for is_switched in [true, false] {
        let these: Vec<_> = breaks
            .iter()
            .filter(|one| one.place.is_switched == is_switched)
            .collect();
        let refused = match is_switched {
            true if !these.is_empty() => tree.build_switched(&places, &numbers(&places))?,
            _ => BTreeSet::new(),
        };
        let say = |one: &Break<'_>, outcome: Outcome| {
            println!("{:<14} {}", outcome.name(), one.title());
        };
        if is_switched {
            let outcomes = with_each(&these, arguments.jobs, |&one| {
                let outcome = match refused.contains(&(one.place.file.clone(), one.place.line)) {
                    true => Outcome::Unbuilt,
                    false => {
                        let is_explained = explained.contains(&one.lasting());
                        tree.try_switched(one.place, one.number, is_explained)
                            .map_err(|error| error.to_string())?
                    }
                };
                say(one, outcome);
                Ok(outcome)
            })?;
            tried.extend(these.into_iter().zip(outcomes));
            continue;
        }
        for one in these {
            let is_explained = explained.contains(&one.lasting());
            let outcome = tree.try_alone(one.place, one.which, is_explained)?;
            say(one, outcome);
            tried.push((one, outcome));
        }
    }
    judge(&tried, &explained, arguments)
}

/// Does something with each item, so many at a time; gives what came of each, in their order.
fn with_each<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    what: impl Fn(&T) -> Result<R, String> + Sync,
) -> Result<Vec<R>, String> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, R)>, String> {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else {
                return Ok(done);
            };
            done.push((at, what(item)?));
        }
    };
    let mut done = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            let part = thread.join();
            done.extend(part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok::<_, String>(())
    })?;
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, one)| one).collect())
}

/// Number of the first break of each place.
fn numbers(places: &[Place]) -> Vec<usize> {
    let next = |sum: &mut usize, place: &Place| {
        let first = *sum;
        *sum += place.instead.len();
        Some(first)
    };
    places.iter().scan(0, next).collect()
}

fn chosen<'a>(places: &'a [Place], arguments: &Arguments) -> Vec<Break<'a>> {
    let firsts = numbers(places);
    let of_place = |(place, first): (&'a Place, usize)| {
        (0..place.instead.len()).map(move |which| Break {
            place,
            which,
            number: first + which,
        })
    };
    let all = places.iter().zip(firsts).flat_map(of_place);
    let is_wanted = |one: &Break<'_>| {
        let only = arguments.only.as_deref();
        let is_left_out = match one.place.is_switched {
            true => arguments.alone,
            false => arguments.switched,
        };
        !is_left_out && only.is_none_or(|text| one.title().contains(text))
    };
    all.filter(is_wanted).collect()
}

/// Rows of the page's table of breaks that change nothing: file, what stands there, what instead.
fn explained(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter(|line| line.starts_with("| `crates/"));
    let row = |line: &str| {
        let cells: Vec<_> = line.split(" | ").collect();
        match cells.as_slice() {
            [file, original, instead, why] if !why.starts_with('`') => {
                Some(format!("{file} | {original} | {instead} |"))
            }
            _ => None,
        }
    };
    rows.filter_map(row).collect()
}

fn judge(
    tried: &[(&Break<'_>, Outcome)],
    explained: &BTreeSet<String>,
    arguments: &Arguments,
) -> Result<(), Box<dyn Error>> {
    let is_explained = |one: &Break<'_>| explained.contains(&one.lasting());
    let count = |wanted: &dyn Fn(&Break<'_>, &Outcome) -> bool| {
        tried
            .iter()
            .filter(|(one, outcome)| wanted(one, outcome))
            .count()
    };
    let missed =
        |one: &Break<'_>, outcome: &Outcome| *outcome == Outcome::Missed && !is_explained(one);
    let named: BTreeSet<_> = tried.iter().map(|(one, _)| one.lasting()).collect();
    // A text may stand in a file twice: one of the two may be noticed.
    let still: BTreeSet<_> = tried
        .iter()
        .filter(|(_, outcome)| *outcome == Outcome::Missed)
        .map(|(one, _)| one.lasting())
        .collect();
    let is_whole = arguments.only.is_none() && !arguments.switched && !arguments.alone;
    let stale: Vec<_> = explained
        .iter()
        .filter(|row| !still.contains(*row) && (is_whole || named.contains(*row)))
        .collect();
    println!();
    let noticed = [Outcome::Quick, Outcome::Slow, Outcome::Hangs]
        .map(|wanted| count(&|_, outcome| *outcome == wanted));
    println!(
        "{} breaks that can be built",
        count(&|_, outcome| !outcome.is_none())
    );
    println!(
        "  {} noticed by quick tests, {} by slow ones, {} never end",
        noticed[0], noticed[1], noticed[2]
    );
    println!(
        "  {} change nothing, as the page says",
        count(&|one, outcome| *outcome == Outcome::Missed && is_explained(one))
    );
    println!("  {} noticed by none", count(&missed));
    for (one, _) in tried.iter().filter(|(one, outcome)| missed(one, outcome)) {
        println!("    {}", one.title());
    }
    stale
        .iter()
        .for_each(|row| println!("noticed, or not there, but explained: {row}"));
    if let Some(path) = &arguments.json {
        let row = |(one, outcome): &(&Break<'_>, Outcome)| {
            json!({"break": one.title(), "outcome": outcome.name(), "row": one.lasting(),
                   "explained": is_explained(one)})
        };
        let rows: Vec<_> = tried.iter().map(row).collect();
        std::fs::write(path, serde_json::to_string_pretty(&rows)?)?;
    }
    match (count(&missed), stale.len()) {
        (0, 0) => Ok(()),
        (0, rows) => {
            Err(format!("{rows} rows of the page explain what there is no need for").into())
        }
        (missed, _) => Err(format!("{missed} breaks are noticed by no test").into()),
    }
}

#[cfg(test)]
mod tests;
