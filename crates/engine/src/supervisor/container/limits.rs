//! What a container may take, and as whom it runs: options for the engine, before a worker starts.

use std::ops::Range;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

/// Private memory of a container, at most; what is shared comes on top, as it counts for whoever
/// touches it first.
pub(super) const PRIVATE_BYTES_MAX: u64 = 1 << 30;
/// Tasks of a container, at most: a worker has two threads.
pub(super) const TASKS_MAX: &str = "64";
/// Users of containers, in a range that the usual systems give to nobody (UIDS-GIDS of systemd).
const USERS: Range<u64> = 1_900_000_000..2_100_000_000;
/// The same where the engine maps users to others of the host's, and knows but 2^16; none that has
/// a name by custom.
const MAPPED_USERS: Range<u64> = 10_000..60_000;

/// The user that a chain's containers run as: its own, so that no process of the host, nor a
/// container of another chain, has the same and could look into a worker.
pub(super) fn user_of(socket_dir: &Path, users_are_mapped: bool) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let users = if users_are_mapped {
        MAPPED_USERS
    } else {
        USERS
    };
    let mut hasher = DefaultHasher::new();
    (socket_dir, std::process::id()).hash(&mut hasher);
    let user = users.start + hasher.finish() % (users.end - users.start);
    format!("{user}:{user}")
}

/// Whether `engine` maps a container's users to others of the host's. podman does so where it runs
/// without root; docker's daemon has root whoever asks it, unless it says otherwise.
///
/// `ask` runs the engine with arguments, and gives what it prints.
///
/// # Errors
/// docker does not say; nobody is to run as the host's user of the same number by mistake.
pub(super) fn maps_users(
    engine: &str,
    ask: impl FnOnce(&[&str]) -> Result<String, String>,
) -> Result<bool, String> {
    if engine != "docker" {
        return Ok(!rustix::process::geteuid().is_root());
    }
    let asked = ask(&["info", "--format", "{{.SecurityOptions}}"])?;
    Ok(says_that_it_maps(&asked))
}

fn says_that_it_maps(options: &str) -> bool {
    let mut words = options.split(|c: char| c == ',' || c == '[' || c == ']' || c.is_whitespace());
    words.any(|word| word == "name=rootless" || word == "name=userns")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chain_has_a_user_of_its_own_wherever_the_engine_runs() {
        for (mapped, users) in [(false, USERS), (true, MAPPED_USERS)] {
            let number = |folder: &str| {
                let user = user_of(Path::new(folder), mapped);
                let (user, group) = user.split_once(':').unwrap();
                assert_eq!(user, group);
                user.parse::<u64>().unwrap()
            };
            let (one, other) = (number("/run/a"), number("/run/b"));
            assert!(users.contains(&one) && users.contains(&other) && one != other);
            // Neither the host's nobody nor a person.
            assert!(!users.contains(&65_534) && !users.contains(&1_000));
        }
    }

    #[test]
    fn docker_without_root_is_told_by_what_it_says() {
        assert!(says_that_it_maps(
            "[name=seccomp,profile=builtin name=rootless name=cgroupns]"
        ));
        assert!(says_that_it_maps("[name=apparmor name=userns]"));
        assert!(!says_that_it_maps(
            "[name=seccomp,profile=builtin name=cgroupns]"
        ));
    }
}
