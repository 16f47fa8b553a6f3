//! Confined threads try what is refused, and what is not.

use std::process::Command;

use super::*;

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

/// Runs `what` in a thread of its own that has given up system calls.
fn confined<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(|| {
        rustix::thread::set_no_new_privs(true).unwrap();
        refuse_system_calls().unwrap();
        what()
    });
    thread.join().unwrap()
}

/// `struct space_resv`: the first page of a file.
#[repr(C)]
struct Space([u64; 6]);

#[test]
fn a_confined_thread_cannot_cut_holes_into_shared_memory() {
    use rustix::fs::{FallocateFlags, fallocate};
    let region = crate::region::Region::create("hole", 8192, crate::region::Sharing::ReadWrite);
    let region = region.unwrap();
    let base = region.base().as_ptr() as usize;
    let memory = region.fd().try_clone_to_owned().unwrap();
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let tries = move || {
        let advise = |advice| {
            // SAFETY: a mapping of this test, of at least that length, that nobody reads meanwhile.
            unsafe { libc::madvise(base as *mut libc::c_void, 4096, advice) == 0 }
        };
        let by_ioctl = |request: u64| {
            let page = Space([0, 0, 4096, 0, 0, 0]);
            // SAFETY: the request reads that structure, which lives through the call.
            unsafe { libc::ioctl(memory.as_raw_fd(), request as _, std::ptr::from_ref(&page)) == 0 }
        };
        [
            advise(libc::MADV_WILLNEED),
            fallocate(&memory, hole, 0, 4096).is_ok(),
            advise(libc::MADV_REMOVE),
            by_ioctl(0x4030_5829),
            by_ioctl(0x4030_582b),
        ]
    };
    assert_eq!(tries(), [true; 5]);
    assert_eq!(confined(tries), [true, false, false, false, false]);
}

#[test]
fn a_confined_thread_has_nobody_signalled_and_opens_itself_to_nobody() {
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    let tries = move || {
        let (fd, own) = (i64::from(socket.as_raw_fd()), i64::from(std::process::id()));
        let owner: [libc::c_int; 2] = [1, std::process::id().cast_signed()];
        let pointer = |at: &libc::c_int| std::ptr::from_ref(at) as i64;
        let call = |number, [a, b, c]: [i64; 3]| {
            // SAFETY: descriptors, numbers, and pointers to `owner`, which lives that long; the
            // kernel reads it, or writes nothing.
            unsafe { libc::syscall(number, a, b, c) == 0 }
        };
        let dumpable = i64::from(libc::PR_SET_DUMPABLE);
        [
            call(libc::SYS_fcntl, [fd, i64::from(libc::F_SETFD), 1]),
            call(libc::SYS_fcntl, [fd, i64::from(libc::F_SETOWN), own]),
            call(libc::SYS_fcntl, [fd, 10, 0]),
            call(libc::SYS_fcntl, [fd, 15, pointer(&owner[0])]),
            call(libc::SYS_ioctl, [fd, 0x8901, pointer(&owner[1])]),
            call(libc::SYS_ioctl, [fd, 0x8902, pointer(&owner[1])]),
            call(libc::SYS_prctl, [dumpable, 1, 0]),
        ]
    };
    let mut allowed = [false; 7];
    allowed[0] = true;
    assert_eq!(tries(), [true; 7]);
    assert_eq!(confined(tries), allowed);
    // Not every kernel knows it, so the refusal is told by its name.
    let ptracer = confined(|| {
        // SAFETY: takes numbers only.
        let result = unsafe { libc::prctl(libc::PR_SET_PTRACER, std::process::id()) };
        (result, io::Error::last_os_error().raw_os_error())
    });
    assert_eq!(ptracer, (-1, Some(libc::EPERM)));
}

/// Why a system call with these arguments failed, in a confined thread and, before, in one that is
/// not.
fn refusals(number: libc::c_long, [a, b, c]: [i64; 3]) -> [Option<i32>; 2] {
    let call = move || {
        // SAFETY: descriptors that are none, requests and numbers; pointers are null or refused by
        // the kernel as unmapped, so nothing is read or written.
        let result = unsafe { libc::syscall(number, a, b, c, a, b, c) };
        let error = io::Error::last_os_error().raw_os_error();
        error.filter(|_| result == -1)
    };
    [call(), confined(call)]
}

#[test]
fn a_confined_thread_says_nothing_to_the_shell_of_its_terminal() {
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    for request in [
        libc::TIOCSTI,
        libc::TIOCLINUX,
        libc::TIOCSCTTY,
        libc::TIOCSPGRP,
        libc::TIOCSETD,
        libc::TIOCCONS,
    ] {
        let request = i64::try_from(request).unwrap();
        let fd = i64::from(socket.as_raw_fd());
        let [before, confined] = refusals(libc::SYS_ioctl, [fd, request, 0]);
        assert_ne!(before, Some(libc::EPERM), "{request:#x}");
        assert_eq!(confined, Some(libc::EPERM), "{request:#x}");
    }
}

/// Told by arguments that no kernel takes, so that nothing happens where it is not refused.
#[test]
fn a_confined_thread_looks_into_nobody_and_leaves_the_machine_as_it_is() {
    for number in [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_process_madvise,
        libc::SYS_pidfd_getfd,
        libc::SYS_kcmp,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_io_uring_setup,
        libc::SYS_open_by_handle_at,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_setns,
        libc::SYS_unshare,
        libc::SYS_keyctl,
        libc::SYS_finit_module,
        libc::SYS_swapon,
        libc::SYS_sethostname,
        libc::SYS_clock_settime,
    ] {
        let refused = confined(move || {
            // SAFETY: no argument is a descriptor, a process, an address or a flag of anybody's.
            let result = unsafe { libc::syscall(number, -1_i64, -1_i64, -1_i64, -1_i64, -1_i64) };
            (result, io::Error::last_os_error().raw_os_error())
        });
        assert_eq!(refused, (-1, Some(libc::EPERM)), "system call {number}");
    }
}

#[test]
fn a_thread_that_may_start_none_is_told_that_there_are_too_many() {
    let error = confined(|| {
        refuse_threads().unwrap();
        std::thread::Builder::new().spawn(|| ()).map(|_| ())
    });
    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_thread_that_keeps_to_itself_looks_into_no_process_and_signals_none() {
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&other);
    let file = format!("/proc/{}/mem", other.id());
    let program = std::env::current_exe().unwrap();
    let tries = move || {
        let own = std::fs::File::open("/proc/thread-self/mem").is_ok();
        let mem = std::fs::File::open(&file).is_ok();
        // A file of the user's, which stays open to it.
        let elsewhere = std::fs::File::open(&program).is_ok();
        let signals = rustix::process::test_kill_process(pid).is_ok();
        (own, mem, signals, elsewhere)
    };
    let before = tries.clone()();
    let thread = std::thread::spawn(move || {
        rustix::thread::set_no_new_privs(true).unwrap();
        (keep_to_itself().unwrap(), tries())
    });
    let (is_kept, after) = thread.join().unwrap();
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(before, (true, true, true, true));
    if is_kept {
        assert_eq!((after.0, after.1, after.3), (true, false, true));
    } else {
        println!("SKIP: this kernel has no Landlock");
    }
}
