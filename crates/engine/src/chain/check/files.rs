//! Files that ports and wrappers name: one that is written is nobody else's.
//!
//! Two that write one file destroy each other's packets, and one that reads what another writes
//! finds it cut off at its start. Paths are compared as text, against the chain file's folder: a
//! check touches nothing, so links in the file system are not seen through. Devices may be shared.

use std::path::{Component, Path, PathBuf};

use super::nodes::{Drafts, Part};
use crate::chain::diagnostic::Report;
use crate::chain::registry::Registry;

/// A file, who names it, and whether that one writes it.
struct Use<'a> {
    node: usize,
    of: &'a str,
    path: PathBuf,
    writes: bool,
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
                .find(|other| other.path == found.path && (other.writes || found.writes));
            if let Some(other) = other {
                let verb = |writes: bool| if writes { "writes" } else { "reads" };
                let (path, first) = (found.path.display(), drafts[other.node].name);
                report.error(
                    draft.at,
                    format!(
                        "{} ({}) {} {path}, which {first} ({}) {}",
                        draft.name,
                        found.of,
                        verb(found.writes),
                        other.of,
                        verb(other.writes)
                    ),
                    "name another file in one of them",
                );
            } else {
                seen.push(found);
            }
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
    let named = parts.flat_map(|(of, config)| {
        let keys = registry.files.iter().filter(move |key| key.of == of);
        keys.filter_map(move |key| {
            let path = plain(&dir.join(config.get(key.key)?.as_str()?));
            let is_device = ["/dev", "/proc"].iter().any(|at| path.starts_with(at));
            let writes = key.writes;
            (!is_device).then_some(Use {
                node,
                of,
                path,
                writes,
            })
        })
    });
    named.collect()
}

/// A path without `.` and, where that can be told, without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(plain.components().next_back(), Some(Component::Normal(_))) =>
            {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}
