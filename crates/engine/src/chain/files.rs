//! Files that ports and wrappers name, and which of those names are one file.
//!
//! Names are seen through: `..`, symbolic links, and hard links by the file's device and number.
//! Control path: the check of a chain file uses it, and the supervisor before a worker opens what
//! it writes.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::model::{Chain, NodeKind};
use super::registry::Registry;

/// Most symbolic links that are followed of one name, as in Linux.
const LINKS_MAX: usize = 40;

/// A file on this machine: its device, and its number there.
pub type FileId = (u64, u64);

/// A setting that names a file.
#[derive(Debug)]
pub(crate) struct Named<'a> {
    /// The port or wrapper whose setting it is.
    pub(crate) of: &'a str,
    /// As the chain file has it.
    pub(crate) name: &'a str,
    /// Whether it is written.
    pub(crate) writes: bool,
}

/// The files that these ports and wrappers name, by their types and configurations.
pub(crate) fn named<'a>(
    parts: impl Iterator<Item = (&'a str, &'a serde_json::Value)>,
    registry: &Registry,
) -> Vec<Named<'a>> {
    let named = parts.flat_map(|(of, config)| {
        let keys = registry.files.iter().filter(move |key| key.of == of);
        keys.filter_map(move |key| {
            let (name, writes) = (config.get(key.key)?.as_str()?, key.writes);
            Some(Named { of, name, writes })
        })
    });
    named.collect()
}

/// The files that a chain's ports name and that are there, with the number of the port's node: what
/// no other port may write.
pub(crate) fn there(chain: &Chain, registry: &Registry) -> Vec<(usize, FileId)> {
    let mut there = Vec::new();
    for (node, about) in chain.nodes.iter().enumerate() {
        let NodeKind::Port {
            kind,
            config,
            wraps,
            ..
        } = &about.kind
        else {
            continue;
        };
        let wraps = wraps.iter().map(|wrap| (wrap.kind.name, &wrap.config));
        let parts = std::iter::once((kind.name, config)).chain(wraps);
        let ids = named(parts, registry).into_iter();
        let ids = ids.filter_map(|file| id(&chain.dir.join(file.name)));
        there.extend(ids.map(|id| (node, id)));
    }
    there
}

/// Which file that is, if there is one that keeps what is written: no device and no pipe.
#[must_use]
pub fn id(path: &Path) -> Option<FileId> {
    let about = std::fs::metadata(path).ok()?;
    about.is_file().then(|| (about.dev(), about.ino()))
}

/// Where a path leads, also if nothing is there: symbolic links are followed, the last one too.
pub(crate) fn real(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        if let Ok(real) = path.canonicalize() {
            return real;
        }
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let folder = folder.canonicalize().unwrap_or_else(|_| plain(folder));
        match path.read_link() {
            Ok(target) => path = folder.join(target),
            Err(_) => return plain(&folder.join(path.file_name().unwrap_or(OsStr::new("")))),
        }
    }
    path
}

/// A path without `.` and, where that can be told, without `..`: for people.
pub(crate) fn plain(path: &Path) -> PathBuf {
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
