//! What a worker in a process of its own gives up before its first turn.
//!
//! Control path, between assignment and building. Threads share the supervisor's process and
//! containers are confined by their engine; here it is for `process`. What follows is inherited by
//! the data path, a thread of this one:
//!
//! - it gains no rights by any program (`no_new_privs`);
//! - of root's capabilities it keeps those by which ports open interfaces and files, and none at all
//!   if it runs no port;
//! - its private memory and its descriptors are limited;
//! - system calls that no worker needs are refused ([`catena_shm::confine`]).

use std::io;

use catena_shm::confine;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::system::sysinfo;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

use crate::protocol::Assignment;

/// Descriptors of a worker, at most: two for each end of a ring or lane, and those of its ports.
const DESCRIPTORS_MAX: u64 = 8192;
/// Private memory of a worker, at least, and as a part of the machine's. Pools and what outlives the
/// worker are shared memory and do not count.
const MEMORY_MIN: u64 = 1 << 30;
const MEMORY_PART: u64 = 2;

/// What a port may need to open interfaces, files of others, and memory for devices.
const FOR_PORTS: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_NICE)
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::BPF);

/// Confines this process as far as the assignment allows.
///
/// # Errors
/// What the kernel refused; the worker must not run then.
pub(super) fn confine(assignment: &Assignment) -> io::Result<()> {
    set_no_new_privs(true)?;
    let has_port = assignment.nodes.iter().any(|node| node.is_port);
    let kept = if has_port {
        FOR_PORTS
    } else {
        CapabilitySet::empty()
    };
    keep_capabilities(kept)?;
    let memory = (sysinfo().totalram as u64 / MEMORY_PART).max(MEMORY_MIN);
    lower(Resource::Data, memory)?;
    lower(Resource::Nofile, DESCRIPTORS_MAX)?;
    confine::refuse_system_calls()
}

/// Keeps of this thread's capabilities those in `kept`.
fn keep_capabilities(kept: CapabilitySet) -> io::Result<()> {
    let had = rustix::thread::capabilities(None)?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: had.effective & kept,
            permitted: had.permitted & kept,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    Ok(())
}

/// Lowers a limit of this process to `most`, for good.
fn lower(resource: Resource, most: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let limit = now.maximum.map_or(most, |maximum| maximum.min(most));
    setrlimit(
        resource,
        Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        },
    )?;
    Ok(())
}
