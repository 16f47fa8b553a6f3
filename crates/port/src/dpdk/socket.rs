//! Sockets at which devices listen: whether somebody has one, and what may be taken away.
//!
//! Control path. What one who was killed has left is removed, as nothing else would; a socket that
//! anybody has, or of which that cannot be said, never is.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::error::DpdkError;

/// What is at a path.
#[derive(Debug)]
enum Found {
    /// Nothing, or no socket: the device says what it thinks of that.
    Nothing,
    /// A socket that nobody has any more.
    Left,
    /// Somebody's socket.
    Taken,
    /// It cannot be said.
    Unknown(io::Error),
}

/// Whose socket is there?
fn look_at(path: &Path) -> Found {
    match fs::symlink_metadata(path) {
        Ok(file) if file.file_type().is_socket() => {}
        Err(error) if error.kind() != ErrorKind::NotFound => return Found::Unknown(error),
        Ok(_) | Err(_) => return Found::Nothing,
    }
    // A memif listens by packets, others by streams. A datagram comes first: whoever has the
    // socket for something else, listening or not, is told by its error and is not disturbed.
    for kind in [SocketType::DGRAM, SocketType::SEQPACKET, SocketType::STREAM] {
        match call(path, kind) {
            Err(Errno::CONNREFUSED) => {}
            Ok(()) | Err(Errno::PROTOTYPE) => return Found::Taken,
            Err(Errno::NOENT) => return Found::Nothing,
            Err(error) => return Found::Unknown(error.into()),
        }
    }
    Found::Left
}

fn call(path: &Path, kind: SocketType) -> Result<(), Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, kind, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)
}

/// A socket at which DPDK in this process listens.
#[derive(Debug)]
struct Held {
    path: PathBuf,
    /// Device and number of the file that it has bound.
    file: Option<(u64, u64)>,
    /// Devices that are open; without any, DPDK listens on and nobody finds it.
    users: u32,
}

/// One for each socket that devices of this process have had and DPDK has not closed.
static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());

fn held() -> MutexGuard<'static, Vec<Held>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file_at(path: &Path) -> Option<(u64, u64)> {
    let file = fs::symlink_metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

/// Has the path free for a device that is to listen there, or shared with others of this process.
pub(super) fn take(device: &str, path: &Path, may_share: bool) -> Result<(), DpdkError> {
    let (device, path) = (device.to_owned(), path.to_owned());
    let mut held = held();
    if let Some(here) = held.iter_mut().find(|here| here.path == path) {
        if here.users == 0 || !may_share {
            return Err(DpdkError::SocketHere { device, path });
        }
        here.users += 1;
        return Ok(());
    }
    match look_at(&path) {
        Found::Nothing => {}
        // Where it cannot be removed, DPDK says that the address is in use.
        Found::Left => drop(fs::remove_file(&path)),
        Found::Taken => return Err(DpdkError::SocketBusy { device, path }),
        Found::Unknown(source) => {
            return Err(DpdkError::SocketUnknown {
                device,
                path,
                source,
            });
        }
    }
    held.push(Held {
        path,
        file: None,
        users: 1,
    });
    Ok(())
}

/// The device listens there now.
pub(super) fn note_bound(path: &Path) {
    if let Some(here) = held().iter_mut().find(|here| here.path == path) {
        here.file = here.file.or_else(|| file_at(path));
    }
}

/// A device does not listen there, or no longer; the file is DPDK's business.
pub(super) fn give_up(path: &Path) {
    let mut held = held();
    if let Some(at) = held.iter().position(|here| here.path == path) {
        held[at].users = held[at].users.saturating_sub(1);
        if held[at].users == 0 {
            held.swap_remove(at);
        }
    }
}

/// A device is closed, and DPDK listens on: after the last one, nobody is to find the socket.
pub(super) fn hide(path: &Path) {
    let mut held = held();
    let Some(here) = held.iter_mut().find(|here| here.path == path) else {
        return;
    };
    here.users = here.users.saturating_sub(1);
    // What somebody else has put there meanwhile is not ours.
    if here.users == 0 && here.file.is_some() && here.file == file_at(path) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use rustix::fd::OwnedFd;
    use rustix::net::{bind, listen};

    use super::*;

    fn bound(path: &Path, kind: SocketType) -> OwnedFd {
        let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        socket
    }

    #[test]
    fn a_socket_that_anybody_has_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        for kind in [SocketType::SEQPACKET, SocketType::STREAM, SocketType::DGRAM] {
            for listens in [true, false] {
                let path = dir.path().join(format!("{}-{listens}", kind.as_raw()));
                let socket = bound(&path, kind);
                if listens && kind != SocketType::DGRAM {
                    listen(&socket, 0).unwrap();
                }
                let error = take("net_memif0", &path, true).unwrap_err();
                assert!(matches!(error, DpdkError::SocketBusy { .. }), "{error}");
                assert!(path.exists());
                // Its owner is gone.
                drop(socket);
                take("net_memif0", &path, true).unwrap();
                assert!(!path.exists());
                give_up(&path);
            }
        }
    }

    #[test]
    fn what_cannot_be_asked_is_no_free_socket() {
        let dir = tempfile::tempdir().unwrap();
        // A path that is longer than an address of a socket.
        let long = dir.path().join("x".repeat(120));
        std::fs::create_dir(&long).unwrap();
        let path = long.join("m");
        drop(UnixListener::bind(dir.path().join("m")).unwrap());
        std::fs::rename(dir.path().join("m"), &path).unwrap();
        let error = take("net_memif0", &path, true).unwrap_err();
        assert!(matches!(error, DpdkError::SocketUnknown { .. }), "{error}");
        assert!(path.exists());
        // What is no socket is nobody's to remove either.
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        take("net_memif0", &file, true).unwrap();
        give_up(&file);
        assert!(file.exists());
    }

    #[test]
    fn devices_of_one_process_do_not_take_each_others_socket_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m");
        take("net_memif0", &path, true).unwrap();
        let socket = bound(&path, SocketType::SEQPACKET);
        note_bound(&path);
        assert!(take("net_vhost0", &path, false).is_err());
        take("net_memif1", &path, true).unwrap();
        hide(&path);
        assert!(path.exists());
        hide(&path);
        assert!(!path.exists());
        // DPDK listens there still, unseen.
        assert!(take("net_memif2", &path, true).is_err());
        drop(socket);
    }

    #[test]
    fn what_another_one_has_bound_meanwhile_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m");
        take("net_memif0", &path, true).unwrap();
        let ours = bound(&path, SocketType::SEQPACKET);
        note_bound(&path);
        std::fs::rename(&path, dir.path().join("ours")).unwrap();
        let theirs = bound(&path, SocketType::SEQPACKET);
        hide(&path);
        assert!(path.exists());
        drop((ours, theirs));
    }
}
