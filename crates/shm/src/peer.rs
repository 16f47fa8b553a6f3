//! Who is at the other end of a Unix socket, also where it is in another PID or user namespace.
//!
//! Control path. `SO_PEERCRED` gives the process as numbered in our PID namespace, or 0 where it
//! has no number there; `SO_PEERPIDFD` (kernel 6.5 or newer) gives a descriptor that is that
//! process whatever its number, and stays it when the number is used again.

#![allow(
    unsafe_code,
    reason = "two socket options that no safe interface offers"
)]

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// `SO_PEERPIDFD` (`asm-generic/socket.h`).
const SO_PEERPIDFD: libc::c_int = 77;

/// The process that connected, or listened, at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number here; none where it is in a PID namespace that this one does not see.
    pub pid: Option<Pid>,
    /// Its user, as seen from here.
    pub uid: u32,
}

/// Who the peer is.
///
/// # Errors
/// The kernel's reason.
pub fn credentials(socket: impl AsFd) -> Result<Peer, Errno> {
    // SAFETY: a ucred is three integers, which any bytes are.
    let ucred = unsafe { option::<libc::ucred>(socket, libc::SO_PEERCRED)? };
    Ok(Peer {
        pid: Pid::from_raw(ucred.pid),
        uid: ucred.uid,
    })
}

/// A descriptor of the peer's process: readable once the process has ended.
///
/// # Errors
/// The kernel's reason, among them `SRCH` where the process has ended already, or cannot be named
/// on a kernel before 6.5.
pub fn process(socket: impl AsFd) -> Result<OwnedFd, Errno> {
    // SAFETY: a descriptor's number is an integer, which any bytes are.
    match unsafe { option::<libc::c_int>(&socket, SO_PEERPIDFD) } {
        // SAFETY: the kernel has just made it, for this process.
        Ok(fd) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        Err(Errno::NOPROTOOPT) => {
            let pid = credentials(&socket)?.pid.ok_or(Errno::SRCH)?;
            pidfd_open(pid, PidfdFlags::empty())
        }
        Err(error) => Err(error),
    }
}

/// One option of the socket level.
///
/// # Safety
/// `T` must be the option's type in the kernel, and valid for any bytes.
unsafe fn option<T>(socket: impl AsFd, name: libc::c_int) -> Result<T, Errno> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = libc::socklen_t::try_from(size_of::<T>()).map_err(|_| Errno::INVAL)?;
    // SAFETY: `value` is `len` bytes that the kernel may write; it lives through the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            value.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        let code = std::io::Error::last_os_error().raw_os_error();
        return Err(Errno::from_raw_os_error(code.unwrap_or(libc::EINVAL)));
    }
    // SAFETY: zeroed, then written by the kernel; the caller says that `T` is valid for any bytes.
    Ok(unsafe { value.assume_init() })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::os::unix::net::UnixStream;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    #[test]
    fn the_peer_is_named_and_its_process_lives() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let peer = credentials(&ours).unwrap();
        assert_eq!(peer.pid, Some(rustix::process::getpid()));
        assert_eq!(peer.uid, rustix::process::getuid().as_raw());
        let process = process(&ours).unwrap();
        let mut fds = [PollFd::new(&process, PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        assert_eq!(poll(&mut fds, Some(&now)).unwrap(), 0);
    }

    #[test]
    fn what_is_no_socket_is_refused() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(credentials(&file).unwrap_err(), Errno::NOTSOCK);
        assert_eq!(process(&file).unwrap_err(), Errno::NOTSOCK);
    }
}
