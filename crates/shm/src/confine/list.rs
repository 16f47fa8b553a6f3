//! The list of what confined threads are refused, as a program for the kernel's filter.
//!
//! Off the packet's path: built once, when a worker confines itself ([`super`]). A rule is a system
//! call, by itself or with one of its arguments. Arguments are compared by their low half, as the
//! kernel takes those that are named here.
#![expect(
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation,
    reason = "numbers of calls, errors and requests are small and positive, and lists short"
)]

/// System calls that no worker needs once it runs, refused with `EPERM`: other programs and
/// processes, other people's memory, the machine's set-up, and holes in shared memory.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
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
const JUMP_IF_ANY_OF: u16 = 0x45;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0000;

/// Holes, as `ioctl` makes them in a file or in memory, and its kin (`FS_IOC_RESVSP`, `UNRESVSP`,
/// both for 64 bits, and `ZERO_RANGE`).
const SPACE: [u32; 5] = [
    0x4030_5828,
    0x4030_5829,
    0x4030_582a,
    0x4030_582b,
    0x4030_5839,
];

/// What else `ioctl` refuses: who is signalled by a descriptor, and what makes the terminal that a
/// worker writes to say things to its shell or obey another process.
const IOCTLS: [u32; 8] = [
    0x8901, // FIOSETOWN
    0x8902, // SIOCSPGRP
    libc::TIOCSTI as u32,
    libc::TIOCLINUX as u32,
    libc::TIOCSCTTY as u32,
    libc::TIOCSPGRP as u32,
    libc::TIOCSETD as u32,
    libc::TIOCCONS as u32,
];

/// `fcntl`'s command by which a descriptor sends another signal.
const F_SETSIG: i32 = 10;
/// `fcntl`'s command that names a thread, process or group to be signalled.
const F_SETOWN_EX: i32 = 15;

/// A system call, which of its arguments counts, and values of that.
type Rule = (libc::c_long, u32, Vec<u32>);

fn as_words(values: &[i32]) -> Vec<u32> {
    values.iter().map(|value| value.cast_unsigned()).collect()
}

/// What arguments may not be: who is signalled by a descriptor, who may look into this process,
/// and holes and damage in memory that others have mapped.
fn refused_values() -> [Rule; 4] {
    let openness = [
        libc::PR_SET_DUMPABLE,
        libc::PR_SET_PTRACER,
        libc::PR_SET_MM,
        libc::PR_SET_SECUREBITS,
        libc::PR_CAP_AMBIENT,
    ];
    let advice = [
        libc::MADV_REMOVE,
        libc::MADV_HWPOISON,
        libc::MADV_SOFT_OFFLINE,
    ];
    let owners = [libc::F_SETOWN, F_SETSIG, F_SETOWN_EX];
    [
        (libc::SYS_fcntl, 1, as_words(&owners)),
        (libc::SYS_prctl, 0, as_words(&openness)),
        (libc::SYS_madvise, 2, as_words(&advice)),
        (libc::SYS_ioctl, 1, [&IOCTLS[..], &SPACE].concat()),
    ]
}

/// What arguments may only be: this process, or 0, which is the same.
fn allowed_values() -> [Rule; 3] {
    let own = std::process::id();
    [
        // `abort` signals itself.
        (libc::SYS_tgkill, 0, vec![own]),
        (libc::SYS_prlimit64, 0, vec![0, own]),
        // Samples of another process would hold what it works on.
        (libc::SYS_perf_event_open, 1, vec![0]),
    ]
}

const fn step(code: u16, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

const fn refuse(errno: i32) -> libc::sock_filter {
    step(RETURN, ERRNO | errno as u32, 0, 0)
}

const fn allow() -> libc::sock_filter {
    step(RETURN, ALLOW, 0, 0)
}

/// For the rule's call: `listed` if its argument is one of the values, else `other`.
fn by_value(
    (call, argument, values): Rule,
    listed: libc::sock_filter,
    other: libc::sock_filter,
) -> Vec<libc::sock_filter> {
    let count = values.len() as u8;
    let mut steps = vec![
        step(JUMP_IF_EQUAL, call as u32, 0, count + 3),
        step(LOAD, ARGUMENTS_AT + 8 * argument, 0, 0),
    ];
    for (at, value) in values.into_iter().enumerate() {
        steps.push(step(JUMP_IF_EQUAL, value, count - at as u8, 0));
    }
    steps.extend([other, listed]);
    steps
}

/// What all programs begin with: other conventions are refused, and the call's number is loaded.
fn beginning() -> Vec<libc::sock_filter> {
    vec![
        step(LOAD, ARCHITECTURE_AT, 0, 0),
        step(JUMP_IF_EQUAL, ARCHITECTURE, 1, 0),
        refuse(libc::EPERM),
        step(LOAD, NUMBER_AT, 0, 0),
        step(JUMP_IF_AT_LEAST, OTHER_CONVENTION, 0, 1),
        refuse(libc::EPERM),
    ]
}

/// Refuses what no worker needs.
pub(super) fn of_workers() -> Vec<libc::sock_filter> {
    let mut program = beginning();
    program.extend([
        // Its flags lie in memory, where they cannot be checked: threads come by `clone` then.
        step(JUMP_IF_EQUAL, libc::SYS_clone3 as u32, 0, 1),
        refuse(libc::ENOSYS),
    ]);
    for number in REFUSED.iter().chain(REFUSED_HERE) {
        program.push(step(JUMP_IF_EQUAL, *number as u32, 0, 1));
        program.push(refuse(libc::EPERM));
    }
    for rule in refused_values() {
        program.extend(by_value(rule, refuse(libc::EPERM), allow()));
    }
    for rule in allowed_values() {
        program.extend(by_value(rule, allow(), refuse(libc::EPERM)));
    }
    program.extend([
        // Threads may come, processes may not.
        step(JUMP_IF_EQUAL, libc::SYS_clone as u32, 0, 3),
        step(LOAD, ARGUMENTS_AT, 0, 0),
        step(JUMP_IF_ANY_OF, libc::CLONE_THREAD as u32, 1, 0),
        refuse(libc::EPERM),
        allow(),
    ]);
    program
}

/// Refuses threads and processes, as if there were too many.
pub(super) fn of_threads() -> Vec<libc::sock_filter> {
    let mut program = beginning();
    for number in [libc::SYS_clone3, libc::SYS_clone] {
        program.push(step(JUMP_IF_EQUAL, number as u32, 0, 1));
        program.push(refuse(libc::EAGAIN));
    }
    program.push(allow());
    program
}
