//! Where a worker runs, and what one in a process of its own gives up before its first turn.
//!
//! Control path, between assignment and building. Threads share the supervisor's process and
//! containers are confined by their engine; here it is for `process`. What follows is inherited by
//! the data path, a thread of this one:
//!
//! - it gains no rights by any program (`no_new_privs`);
//! - of root's capabilities it keeps those by which ports open interfaces and files, and none at
//!   all
//!   if it runs no port;
//! - its private memory and its descriptors are limited;
//! - system calls that no worker needs are refused ([`catena_shm::confine`]).

use std::io;
use std::os::fd::AsFd;

use catena_shm::confine;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::system::sysinfo;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

use crate::protocol::{Assignment, FromWorker};
use crate::worker::connection::Connection;
use crate::worker::serve_error::ServeError;

/// Descriptors of a worker, at most: two for each end of a ring or lane, and those of its ports.
const DESCRIPTORS_MAX: u64 = 8192;
/// Private memory of a worker, at least, and as a part of the machine's. Pools and what outlives
/// the worker are shared memory and do not count.
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
fn confine(assignment: &Assignment) -> io::Result<()> {
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

/// Enters the network namespace that the chain file names; the data path, a thread of this one,
/// inherits it.
pub(super) fn enter_netns(
    connection: &Connection,
    assignment: &Assignment,
) -> Result<(), ServeError> {
    let Some(name) = &assignment.netns else {
        return Ok(());
    };
    let path = format!("/run/netns/{name}");
    let entered = std::fs::File::open(&path)
        .map_err(|error| error.to_string())
        .and_then(|file| {
            let kind = Some(rustix::thread::LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(file.as_fd(), kind)
                .map_err(|error| error.to_string())
        });
    let Err(error) = entered else { return Ok(()) };
    let node = assignment.nodes.first().map(|node| node.index);
    let message = format!(
        "cannot enter the network namespace {path}: {error}; make it with `ip netns add {name}`, \
         and run as root"
    );
    connection.send(
        &FromWorker::Failed {
            node,
            message: message.clone(),
        },
        &[],
    )?;
    Err(ServeError::Protocol(message))
}

/// Gives up what a worker does not need; one that cannot does not run.
pub(super) fn give_up_rights(
    connection: &Connection,
    assignment: &Assignment,
) -> Result<(), ServeError> {
    let Err(error) = confine(assignment) else {
        return Ok(());
    };
    let message = format!(
        "cannot be confined: {error}; run the chain with --mode thread if this kernel lacks seccomp"
    );
    let failed = FromWorker::Failed {
        node: None,
        message: message.clone(),
    };
    connection.send(&failed, &[])?;
    Err(ServeError::Protocol(message))
}

/// Pins this thread to a core; a core that is not allowed is reported by the chain's checker, and a
/// container may be allowed fewer, in which case the thread stays where the kernel puts it.
pub(super) fn pin(core: Option<usize>) {
    if let Some(core) = core {
        let mut set = rustix::thread::CpuSet::new();
        set.set(core);
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
}
