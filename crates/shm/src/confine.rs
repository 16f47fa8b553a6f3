//! Confinement of a process that runs NFs: what it inherits, and which system calls it may make.
//!
//! Off the packet's path, before a worker's first turn. Here because it takes `unsafe`: numbers and
//! layouts of the kernel's interface. Sources: seccomp(2), `linux/seccomp.h`, `linux/filter.h`,
//! `linux/audit.h`, landlock(7), close_range(2).
//!
//! The list (`list`) names what is refused, not what is allowed: ports and NFs of others open
//! devices and sockets of their own. Workers in containers have it, too, beside the shorter list of
//! what is allowed there (`engine`, `supervisor/container/system_calls.json`).
#![allow(unsafe_code, reason = "system calls that have no safe binding")]

mod list;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Has the kernel close, at the next `exec`, every descriptor of this process from `first` on: no
/// child inherits what somebody has left open. Nothing is closed now, so nobody's descriptor is
/// lost.
///
/// # Errors
/// What the kernel refused (before Linux 5.11 it does not know how).
pub fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: changes flags of descriptors only; none is closed, so whoever owns one still does.
    let result = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Has the kernel refuse this thread, and those that it starts, what no worker needs. It cannot be
/// taken back. The thread must have given up gaining rights (`no_new_privs`), or be privileged.
///
/// # Errors
/// What the kernel refused: it may have been built without seccomp.
pub fn refuse_system_calls() -> io::Result<()> {
    install(list::of_workers())
}

/// Has the kernel refuse this thread to start any other, with `EAGAIN`: there are as many as there
/// may be. As [`refuse_system_calls`] else.
///
/// # Errors
/// What the kernel refused.
pub fn refuse_threads() -> io::Result<()> {
    install(list::of_threads())
}

fn install(mut program: Vec<libc::sock_filter>) -> io::Result<()> {
    let list = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: `list` and the program that it points to live until the call returns; the kernel
    // copies both and checks them.
    let result = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            std::ptr::from_ref(&list),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The kernel's `struct landlock_ruleset_attr`, as of its sixth version.
#[repr(C)]
struct Ruleset {
    files: u64,
    network: u64,
    scopes: u64,
}

/// `LANDLOCK_ACCESS_FS_MAKE_BLOCK`: something has to be named, and nobody makes block devices.
const MAKE_BLOCK_DEVICES: u64 = 1 << 11;
/// `LANDLOCK_SCOPE_SIGNAL`.
const SIGNALS: u64 = 1 << 1;
/// `LANDLOCK_CREATE_RULESET_VERSION`.
const ASK_VERSION: u32 = 1;

/// Has the kernel keep this thread, and those that it starts, from looking into processes outside,
/// by their files in `/proc` as by `ptrace`, and from signalling them (Landlock). It cannot be
/// taken back. Says whether this kernel can do so: Linux 5.13 for the first, 6.12 for both.
///
/// # Errors
/// What a kernel that can do so has refused.
pub fn keep_to_itself() -> io::Result<bool> {
    let none: *const Ruleset = std::ptr::null();
    // SAFETY: asks for a number; nothing is read or written.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            none,
            0_usize,
            ASK_VERSION,
        )
    };
    if version < 1 {
        return Ok(false);
    }
    let (len, scopes) = if version >= 6 {
        (size_of::<Ruleset>(), SIGNALS)
    } else {
        (size_of::<u64>(), 0)
    };
    let rules = Ruleset {
        files: MAKE_BLOCK_DEVICES,
        network: 0,
        scopes,
    };
    // SAFETY: `rules` lives through the call, and is no shorter than `len`.
    let made = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::from_ref(&rules),
            len,
            0_u32,
        )
    };
    let Ok(fd @ 0..) = i32::try_from(made) else {
        return Err(io::Error::last_os_error());
    };
    // SAFETY: the kernel has just given this descriptor to nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: takes no memory of ours.
    let kept = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, fd.as_raw_fd(), 0_u32) };
    if kept == 0 {
        Ok(true)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
