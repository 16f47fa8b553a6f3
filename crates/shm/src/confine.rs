//! Confinement of a process that runs NFs: what it inherits, and which system calls it may make.
//!
//! Off the packet's path, before a worker's first turn. Here because it takes `unsafe`: numbers and
//! layouts of the kernel's interface. Sources: seccomp(2), `linux/seccomp.h`, `linux/filter.h`,
//! `linux/audit.h`, close_range(2).
//!
//! The list names what is refused, not what is allowed: ports and NFs of others open devices and
//! sockets of their own. Workers in containers, which hold no port that needs more, get the shorter
//! list of what is allowed (`engine`, `supervisor/container/system_calls.json`).
#![allow(unsafe_code, reason = "system calls that have no safe binding")]

use std::io;

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

/// System calls that no worker needs once it runs, refused with `EPERM`: other programs and
/// processes, other people's memory, the machine's set-up, and holes in shared memory.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_fallocate,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_personality,
    libc::SYS_syslog,
];

/// Those of them that only one architecture has.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_kexec_file_load,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[];

/// `AUDIT_ARCH_*`: the machine, 64 bits, little endian.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 62 | 0xc000_0000;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 183 | 0xc000_0000;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: u32 = 0;

/// Numbers from here on are of another calling convention (x32), which nobody needs.
const OTHER_CONVENTION: u32 = 0x4000_0000;
/// Offsets in `struct seccomp_data`; arguments have 64 bits, the low half first.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const AND: u16 = 0x54;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0000;

const fn step(code: u16, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

#[expect(
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation,
    reason = "errors and numbers of system calls are small and positive"
)]
fn program() -> Vec<libc::sock_filter> {
    let refuse = |errno: i32| step(RETURN, ERRNO | errno as u32, 0, 0);
    let mut program = vec![
        step(LOAD, ARCHITECTURE_AT, 0, 0),
        step(JUMP_IF_EQUAL, ARCHITECTURE, 1, 0),
        refuse(libc::EPERM),
        step(LOAD, NUMBER_AT, 0, 0),
        step(JUMP_IF_AT_LEAST, OTHER_CONVENTION, 0, 1),
        refuse(libc::EPERM),
        // Its flags lie in memory, where they cannot be checked: threads come by `clone` then.
        step(JUMP_IF_EQUAL, libc::SYS_clone3 as u32, 0, 1),
        refuse(libc::ENOSYS),
    ];
    for number in REFUSED.iter().chain(REFUSED_HERE) {
        program.push(step(JUMP_IF_EQUAL, *number as u32, 0, 1));
        program.push(refuse(libc::EPERM));
    }
    // Signals and limits are its own affair: `abort` sends itself one.
    let own = std::process::id();
    program.extend([
        step(JUMP_IF_EQUAL, libc::SYS_tgkill as u32, 0, 4),
        step(LOAD, ARGUMENTS_AT, 0, 0),
        step(JUMP_IF_EQUAL, own, 0, 1),
        step(RETURN, ALLOW, 0, 0),
        refuse(libc::EPERM),
        step(JUMP_IF_EQUAL, libc::SYS_prlimit64 as u32, 0, 5),
        step(LOAD, ARGUMENTS_AT, 0, 0),
        step(JUMP_IF_EQUAL, 0, 1, 0),
        step(JUMP_IF_EQUAL, own, 0, 1),
        step(RETURN, ALLOW, 0, 0),
        refuse(libc::EPERM),
    ]);
    program.extend([
        // Threads may come, processes may not.
        step(JUMP_IF_EQUAL, libc::SYS_clone as u32, 0, 4),
        step(LOAD, ARGUMENTS_AT, 0, 0),
        step(AND, libc::CLONE_THREAD as u32, 0, 0),
        step(JUMP_IF_EQUAL, 0, 0, 4),
        refuse(libc::EPERM),
        // Advice may not cut holes into memory that others have mapped.
        step(JUMP_IF_EQUAL, libc::SYS_madvise as u32, 0, 2),
        step(LOAD, ARGUMENTS_AT + 16, 0, 0),
        step(JUMP_IF_EQUAL, libc::MADV_REMOVE as u32, 1, 0),
        step(RETURN, ALLOW, 0, 0),
        refuse(libc::EPERM),
    ]);
    program
}

/// Has the kernel refuse this thread, and those that it starts, what no worker needs. It cannot be
/// taken back. The thread must have given up gaining rights (`no_new_privs`), or be privileged.
///
/// # Errors
/// What the kernel refused: it may have been built without seccomp.
pub fn refuse_system_calls() -> io::Result<()> {
    let mut program = program();
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_confined_thread_starts_threads_and_no_programs() {
        let confined = std::thread::spawn(|| {
            rustix::thread::set_no_new_privs(true).unwrap();
            refuse_system_calls().unwrap();
            let error = Command::new("/bin/true").status().unwrap_err();
            let thread = std::thread::spawn(|| Command::new("/bin/true").status().is_err());
            (error.kind(), thread.join().unwrap())
        });
        let (error, is_inherited) = confined.join().unwrap();
        assert_eq!(error, io::ErrorKind::PermissionDenied);
        assert!(is_inherited);
        assert!(Command::new("/bin/true").status().unwrap().success());
    }

    #[test]
    fn a_confined_thread_signals_and_limits_nobody_else() {
        let mut other = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = i64::from(other.id());
        let confined = std::thread::spawn(move || {
            rustix::thread::set_no_new_privs(true).unwrap();
            refuse_system_calls().unwrap();
            let own = i64::from(std::process::id());
            let thread = i64::from(rustix::thread::gettid().as_raw_nonzero().get());
            let call = |number, arguments: [i64; 4]| {
                let [a, b, c, d] = arguments;
                // SAFETY: signal 0 is sent, which only asks whether it may be; a limit is asked for
                // and put nowhere; the information of a queued signal is none, which is refused.
                unsafe { libc::syscall(number, a, b, c, d) == 0 }
            };
            let limit = i64::from(libc::RLIMIT_NOFILE);
            [
                call(libc::SYS_tgkill, [own, thread, 0, 0]),
                call(libc::SYS_prlimit64, [0, limit, 0, 0]),
                call(libc::SYS_prlimit64, [own, limit, 0, 0]),
                call(libc::SYS_tgkill, [pid, pid, 0, 0]),
                call(libc::SYS_prlimit64, [pid, limit, 0, 0]),
            ]
        });
        let may = confined.join().unwrap();
        // SAFETY: as above, by a thread that is not confined.
        let could = unsafe { libc::syscall(libc::SYS_tgkill, pid, pid, 0_i64) } == 0;
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(could);
        assert_eq!(may, [true, true, true, false, false]);
    }

    #[test]
    fn a_confined_thread_cannot_cut_holes_into_shared_memory() {
        use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
        let memory = memfd_create("holes", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&memory, 8192).unwrap();
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&memory, hole, 0, 4096).unwrap();
        let region = crate::region::Region::create("hole", 8192, crate::region::Sharing::ReadWrite);
        let region = region.unwrap();
        let base = region.base().as_ptr();
        let advise = |base: usize, advice| {
            // SAFETY: a mapping of this test, of at least that length, that nobody reads meanwhile.
            unsafe { libc::madvise(base as *mut libc::c_void, 4096, advice) }
        };
        assert_eq!(advise(base as usize, libc::MADV_REMOVE), 0);
        let base = base as usize;
        let confined = std::thread::spawn(move || {
            rustix::thread::set_no_new_privs(true).unwrap();
            refuse_system_calls().unwrap();
            let is_cut = fallocate(&memory, hole, 0, 4096).is_ok();
            let is_removed = advise(base, libc::MADV_REMOVE) == 0;
            let is_advised = advise(base, libc::MADV_WILLNEED) == 0;
            (is_cut, is_removed, is_advised)
        });
        assert_eq!(confined.join().unwrap(), (false, false, true));
    }
}
