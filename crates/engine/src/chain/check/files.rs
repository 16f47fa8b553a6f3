//! Files that ports and wrappers name: one that is written is nobody else's.
//!
//! Two that write one file destroy each other's packets, and one that reads what another writes
//! finds it cut off at its start. Names are seen through (`chain/files.rs`): a symbolic or a hard
//! link is the file it stands for. Devices and pipes may be shared.

use std::path::{Path, PathBuf};

use super::nodes::{Drafts, Part};
use crate::chain::diagnostic::Report;
use crate::chain::files::{FileId, id, named, plain, real};
use crate::chain::registry::Registry;

/// A file, who names it, and whether that one writes it.
struct Use<'a> {
    node: usize,
    of: &'a str,
    /// For people.
    path: PathBuf,
    /// Where it leads.
    real: PathBuf,
    /// Which file is there.
    id: Option<FileId>,
    writes: bool,
}

impl Use<'_> {
    fn is_one_file_with(&self, other: &Self) -> bool {
        self.real == other.real || (self.id.is_some() && self.id == other.id)
    }
}

/// Reports files that are written, and named by somebody else too.
pub(super) fn check(
    report: &mut Report<'_>,
    drafts: Drafts<'_>,
    (dir, registry): (&Path, &Registry),
) {
    let mut seen: Vec<Use<'_>> = Vec::new();
    for (node, draft) in drafts.iter().enumerate() {
        for found in uses(node, &draft.part, dir, registry) {
            let other = seen
                .iter()
                .find(|other| (other.writes || found.writes) && other.is_one_file_with(&found));
            if let Some(other) = other {
                let verb = |writes: bool| if writes { "writes" } else { "reads" };
                let first = drafts[other.node].name;
                let by_link = match other.path == found.path {
                    true => String::new(),
                    false => format!(" the same file as {},", other.path.display()),
                };
                report.error(
                    draft.at,
                    format!(
                        "{} ({}) {} {},{by_link} which {first} ({}) {}",
                        draft.name,
                        found.of,
                        verb(found.writes),
                        found.path.display(),
                        other.of,
                        verb(other.writes)
                    ),
                    "name another file in one of them",
                );
                continue;
            }
            let count = draft
                .shards
                .as_ref()
                .map_or(1, |shards| shards.resolved.count);
            if found.writes && count > 1 {
                report.error(
                    draft.at,
                    format!(
                        "{} ({}) writes {}, and so does each of its {count} queues",
                        draft.name,
                        found.of,
                        found.path.display()
                    ),
                    "leave out the file, or the queues",
                );
            }
            seen.push(found);
        }
    }
}

fn uses<'a>(node: usize, part: &'a Part, dir: &Path, registry: &Registry) -> Vec<Use<'a>> {
    let Part::Port {
        kind: Some(kind),
        config,
        wraps,
        ..
    } = part
    else {
        return Vec::new();
    };
    let wraps = wraps.iter().map(|wrap| (wrap.kind.name, &wrap.config));
    let parts = std::iter::once((kind.name, config)).chain(wraps);
    let uses = named(parts, registry).into_iter().filter_map(|file| {
        let path = dir.join(file.name);
        let real = real(&path);
        let is_device = ["/dev", "/proc"].iter().any(|at| real.starts_with(at));
        let is_pipe = std::fs::metadata(&real).is_ok_and(|about| !about.is_file());
        (!is_device && !is_pipe).then(|| Use {
            node,
            of: file.of,
            path: plain(&path),
            id: id(&real),
            real,
            writes: file.writes,
        })
    });
    uses.collect()
}
