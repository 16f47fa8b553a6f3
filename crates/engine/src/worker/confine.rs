//! Where a worker runs, and what one in a process of its own gives up before its first turn.
//!
//! Control path, between assignment and building. Threads share the supervisor's process; here it
//! is for `process` and `container`, which its engine confines as well. What follows is inherited
//! by the data path, a thread of this one:
//!
//! - it gains no rights by any program (`no_new_privs`);
//! - of root's capabilities it keeps those that its kinds of ports need, and its data path none
//!   unless one of them needs some there ([`crate::port::PortNeeds`]);
//! - its private memory and its descriptors are limited, and when memory is short it goes first;
//! - it has two threads and starts no other, unless a kind of port does;
//! - system calls that no worker needs are refused, and so is looking into other processes
//!   ([`catena_shm::confine`]).

use std::io;
use std::os::fd::AsFd;

use catena_shm::confine;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::system::sysinfo;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

use crate::chain::Mode;
use crate::chain::registry::Registry;
use crate::protocol::{Assignment, FromWorker, NodeSpec};
use crate::worker::connection::Connection;
use crate::worker::serve_error::ServeError;

/// Descriptors of a worker, at most: one for each end of a ring or lane that it makes, until the
/// supervisor has it, and those of its ports.
pub(crate) const DESCRIPTORS_MAX: u64 = 8192;
/// Private memory of a worker, at least, and as a part of the machine's that its chain's workers
/// share. Pools and what outlives the worker are shared memory and do not count.
const MEMORY_MIN: u64 = 512 << 20;
const MEMORY_PART: u64 = 2;
/// How likely a worker is to be ended when the machine has no memory left: before whoever is as
/// large (`oom_score_adj`, of 1000).
const ENDED_FIRST: &str = "500";

/// What the worker's nodes take beyond what every worker has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    is_confined: bool,
    rights: CapabilitySet,
    data_rights: CapabilitySet,
    threads: bool,
}

impl Kept {
    /// What `assignment` says that is.
    pub(super) fn of(assignment: &Assignment, registry: &Registry) -> Self {
        let mut kept = Self {
            is_confined: matches!(assignment.mode, Mode::Process | Mode::Container),
            rights: CapabilitySet::empty(),
            data_rights: CapabilitySet::empty(),
            threads: false,
        };
        for node in assignment.nodes.iter().filter(|node| node.is_port) {
            if names_a_file(node, registry) {
                kept.rights |= CapabilitySet::DAC_OVERRIDE;
            }
            let Some(kind) = registry.port(&node.type_name) else {
                continue;
            };
            kept.rights |= kind.needs.rights;
            if kind.needs.rights_while_running {
                kept.data_rights |= kind.needs.rights;
            }
            kept.threads |= kind.needs.threads;
        }
        kept
    }

    /// What the data path's thread gives up beyond what its process has.
    ///
    /// # Errors
    /// What the kernel refused.
    pub(super) fn give_up_in_data_path(&self) -> io::Result<()> {
        if !self.is_confined {
            return Ok(());
        }
        keep_capabilities(self.data_rights)?;
        self.refuse_threads()
    }

    /// Once the data path has its thread.
    ///
    /// # Errors
    /// What the kernel refused.
    pub(super) fn refuse_threads(&self) -> io::Result<()> {
        if self.is_confined && !self.threads {
            confine::refuse_threads()?;
        }
        Ok(())
    }
}

/// Whether the port, or something around it, opens files that may be other users'.
fn names_a_file(node: &NodeSpec, registry: &Registry) -> bool {
    let wraps = node.wraps.iter().map(|(name, _)| name);
    let mut kinds = wraps.chain([&node.type_name]);
    kinds.any(|kind| registry.files.iter().any(|key| key.of == kind))
}

/// Private bytes of each of `workers` processes of a chain, where there are `total`.
pub(crate) fn private_bytes(total: u64, workers: usize) -> u64 {
    (total / MEMORY_PART / (workers as u64).max(1)).max(MEMORY_MIN)
}

/// Confines this process as far as `kept` allows.
///
/// # Errors
/// What the kernel refused; the worker must not run then.
fn confine(assignment: &Assignment, kept: &Kept) -> io::Result<()> {
    set_no_new_privs(true)?;
    // Whoever is to be ended later anyway, or may not say so, is left as it is.
    let _ = std::fs::write("/proc/self/oom_score_adj", ENDED_FIRST);
    keep_capabilities(kept.rights)?;
    let total = sysinfo().totalram as u64;
    lower(Resource::Data, private_bytes(total, assignment.processes))?;
    lower(Resource::Nofile, DESCRIPTORS_MAX)?;
    if assignment.mode == Mode::Process {
        confine::keep_to_itself()?;
    }
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
    kept: &Kept,
) -> Result<(), ServeError> {
    if !kept.is_confined {
        return Ok(());
    }
    let Err(error) = confine(assignment, kept) else {
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
