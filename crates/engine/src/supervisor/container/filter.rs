//! The system calls of a worker in a container: a list of what it needs, all else is refused.
//!
//! The engines' own lists are for any program. They allow more than twice as much, and that of
//! podman 4.3 lacks `futex_waitv`, by which a worker sleeps until any of its neighbours has work.

use std::io;
use std::path::{Path, PathBuf};

/// The list, in the form of the Open Container Initiative that podman and docker read.
const SYSTEM_CALLS: &str = include_str!("system_calls.json");

/// Leaves the list in `folder` for the engine's client, and says where.
///
/// # Errors
/// The file cannot be written.
pub(super) fn leave_in(folder: &Path) -> io::Result<PathBuf> {
    let path = folder.join("system_calls.json");
    std::fs::write(&path, SYSTEM_CALLS)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::SYSTEM_CALLS;

    fn allowed() -> Vec<(String, bool)> {
        let list: Value = serde_json::from_str(SYSTEM_CALLS).unwrap();
        assert_eq!(list["defaultAction"], "SCMP_ACT_ERRNO");
        let rules = list["syscalls"].as_array().unwrap();
        let is_allowed = |rule: &&Value| rule["action"] == "SCMP_ACT_ALLOW";
        let names = rules.iter().filter(is_allowed).flat_map(|rule| {
            let names = rule["names"].as_array().unwrap().iter();
            names.map(|name| {
                (
                    name.as_str().unwrap().to_owned(),
                    rule.get("args").is_some(),
                )
            })
        });
        names.collect()
    }

    #[test]
    fn sleeping_is_allowed_and_leaving_the_container_is_not() {
        let allowed = allowed();
        let always = |name: &str| allowed.contains(&(name.to_owned(), false));
        let ever = |name: &str| allowed.iter().any(|(other, _)| other == name);
        assert!(always("futex_waitv") && always("recvmsg"));
        assert!(ever("socket") && !always("socket") && ever("clone") && !always("clone"));
        let never = [
            "bpf",
            "clone3",
            "io_uring_setup",
            "keyctl",
            "mount",
            "perf_event_open",
            "process_vm_writev",
            "ptrace",
            "setns",
            "unshare",
            "userfaultfd",
        ];
        assert!(never.iter().all(|name| !ever(name)));
    }

    /// Whether `name` is allowed with its argument `index` being `value`.
    fn is_allowed(name: &str, index: u64, value: u64) -> bool {
        let list: Value = serde_json::from_str(SYSTEM_CALLS).unwrap();
        let rules = list["syscalls"].as_array().unwrap().clone();
        rules.iter().any(|rule| {
            let names = rule["names"].as_array().unwrap();
            if !names.iter().any(|one| one == name) {
                return false;
            }
            let is_met = |argument: &Value| {
                assert_eq!(argument["index"], index);
                let number = |key: &str| argument[key].as_u64().unwrap();
                match argument["op"].as_str().unwrap() {
                    "SCMP_CMP_MASKED_EQ" => value & number("value") == number("valueTwo"),
                    "SCMP_CMP_EQ" => value == number("value"),
                    other => panic!("{other}"),
                }
            };
            let arguments = rule["args"].as_array();
            let is_met = arguments.is_none_or(|all| all.iter().all(is_met));
            rule["action"] == "SCMP_ACT_ALLOW" && is_met
        })
    }

    #[test]
    fn nothing_on_the_list_cuts_holes_into_shared_memory() {
        // MADV_WILLNEED, MADV_DONTNEED, MADV_POPULATE_WRITE; TCGETS, FIONBIO.
        for advice in [3, 4, 23] {
            assert!(is_allowed("madvise", 2, advice), "{advice}");
        }
        assert!(is_allowed("ioctl", 1, 0x5401) && is_allowed("ioctl", 1, 0x5421));
        // MADV_REMOVE, MADV_HWPOISON; the kernel reads the low half only.
        for advice in [9, 100, 9 | 1 << 32] {
            assert!(!is_allowed("madvise", 2, advice), "{advice}");
        }
        // FS_IOC_UNRESVSP, the same for 64 bits, FIOSETOWN, SIOCSPGRP, TIOCSTI.
        for request in [0x4030_5829, 0x4030_582b, 0x8901, 0x8902, 0x5412] {
            assert!(!is_allowed("ioctl", 1, request), "{request:#x}");
        }
        assert!(!is_allowed("fallocate", 1, 0));
    }

    #[test]
    fn nothing_is_named_twice() {
        let allowed = allowed();
        let plain = allowed.iter().filter(|(_, restricted)| !restricted);
        let names: Vec<_> = plain.map(|(name, _)| name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }
}
