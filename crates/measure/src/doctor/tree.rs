//! The machine's files, below a root: `/`, or a copy of another machine's in a test.

use std::path::{Path, PathBuf};

/// Files below a root.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// The files below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where `path`, which begins at the root, lies.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A file's text without blanks at its ends; `None` if it cannot be read.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.path(path)).ok()?;
        Some(text.trim().to_owned())
    }

    /// A file's number.
    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Names in a folder that begin with `prefix` and go on with a number, by that number.
    pub(crate) fn numbered(&self, folder: &str, prefix: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).into_iter().flatten();
        let mut found: Vec<(u64, String)> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().to_str()?.to_owned();
                let number = name.strip_prefix(prefix)?.parse().ok()?;
                Some((number, name))
            })
            .collect();
        found.sort();
        found.into_iter().map(|(_, name)| name).collect()
    }

    /// Folders of all processors: `/sys/devices/system/cpu/cpu0` and so on.
    pub(super) fn processors(&self) -> Vec<String> {
        let folder = "/sys/devices/system/cpu";
        let names = self.numbered(folder, "cpu");
        names
            .into_iter()
            .map(|name| format!("{folder}/{name}"))
            .collect()
    }

    /// The value of the first `name : value` line of a file.
    pub(crate) fn field(&self, path: &str, name: &str) -> Option<String> {
        let text = self.read(path)?;
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    }

    /// Whether the first processor has a feature (`flags` of /proc/cpuinfo).
    pub(super) fn has_flag(&self, flag: &str) -> bool {
        let flags = self.field("/proc/cpuinfo", "flags").unwrap_or_default();
        flags.split(' ').any(|found| found == flag)
    }
}
