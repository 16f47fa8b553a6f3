//! What a container may take, and as whom it runs: options for the engine, before a worker starts.

use std::path::Path;

use rustix::process::{Resource, getrlimit};

/// Private memory of a container, at most; what is shared comes on top, as it counts for whoever
/// touches it first.
pub(super) const PRIVATE_BYTES_MAX: u64 = 1 << 30;
/// Tasks of a container, at most: a worker has two threads.
pub(super) const TASKS_MAX: &str = "64";
/// Users of containers, in a range that the usual systems give to nobody (UIDS-GIDS of systemd).
const USERS: std::ops::Range<u64> = 1_900_000_000..2_100_000_000;

/// The user that a chain's containers run as: its own, so that no process of the host, nor a
/// container of another chain, has the same and could look into a worker. Where the engine runs
/// without root it maps users to its own, and knows but 2^16.
pub(super) fn user_of(socket_dir: &Path) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    if !rustix::process::geteuid().is_root() {
        return "65534:65534".to_owned();
    }
    let mut hasher = DefaultHasher::new();
    (socket_dir, std::process::id()).hash(&mut hasher);
    let user = USERS.start + hasher.finish() % (USERS.end - USERS.start);
    format!("{user}:{user}")
}

/// The limits of this process, for an engine that starts containers as its children: asking for its
/// own defaults instead would fail wherever these are higher and limits may not be raised.
pub(super) fn own_limits() -> impl Iterator<Item = String> {
    // podman starts its children with at most so many processes.
    const PROCESSES_MAX: u64 = 1 << 15;
    let limits = [
        ("nofile", Resource::Nofile, u64::MAX),
        ("nproc", Resource::Nproc, PROCESSES_MAX),
    ];
    limits.into_iter().filter_map(|(name, resource, most)| {
        let limit = getrlimit(resource);
        let (soft, hard) = (limit.current?.min(most), limit.maximum?.min(most));
        Some(format!("--ulimit={name}={soft}:{hard}"))
    })
}
