//! The folder of a running chain: its lock, its control socket, its container workers' socket.
//!
//! `ROOT/CHAIN/` with mode 0700 holds `lock` (held while the chain runs: a second `catena` with the
//! same chain name is refused), `control.sock` (mode 0600; the peer's credentials are checked as
//! well) and `workers/worker.sock`, whose folder is mounted into containers. All of it is removed
//! at the end.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use catena_shm::peer;
use rustix::fs::{FlockOperation, flock};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};

/// Why the folder could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeDirError {
    /// The chain runs already.
    #[error(
        "chain \"{name}\" is already running (process {pid}); stop it with `catena stop {name}`, \
         or give this one another name"
    )]
    Busy {
        /// Name of the chain.
        name: String,
        /// Who runs it.
        pid: String,
    },
    /// The file system refused.
    #[error("{path}: {reason}")]
    Io {
        /// What could not be made.
        path: String,
        /// Why.
        reason: String,
    },
}

/// The folder of a running chain.
#[derive(Debug)]
pub struct RuntimeDir {
    path: PathBuf,
    _lock: File,
    control: OwnedFd,
    workers: OwnedFd,
}

/// Where folders of running chains are: `CATENA_RUNTIME_DIR`, else `XDG_RUNTIME_DIR/catena`, else
/// `/tmp/catena-UID`.
pub fn default_root() -> PathBuf {
    if let Some(root) = std::env::var_os("CATENA_RUNTIME_DIR") {
        return root.into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(root) => PathBuf::from(root).join("catena"),
        None => format!("/tmp/catena-{}", rustix::process::getuid().as_raw()).into(),
    }
}

/// Path of a chain's control socket.
pub fn control_path(root: &Path, chain: &str) -> PathBuf {
    root.join(chain).join("control.sock")
}

/// 128 random bits, as text.
pub fn random_token() -> String {
    let mut bytes = [0_u8; 16];
    // The kernel gives 16 bytes at once or not at all; without them the token is merely guessable
    // by processes that could connect anyway.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl RuntimeDir {
    /// Makes the folder for chain `name` and takes its lock.
    ///
    /// # Errors
    /// [`RuntimeDirError::Busy`] if the chain runs already.
    pub fn create(root: &Path, name: &str) -> Result<Self, RuntimeDirError> {
        let path = root.join(name);
        let io = |path: &Path| {
            let path = path.display().to_string();
            move |reason: std::io::Error| RuntimeDirError::Io {
                path,
                reason: reason.to_string(),
            }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(io(&path))?;
        check_owner(root)?;
        let lock_path = path.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&lock_path)
            .map_err(io(&lock_path))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let pid = std::fs::read_to_string(&lock_path).unwrap_or_default();
            let pid = if pid.trim().is_empty() {
                "unknown"
            } else {
                pid.trim()
            }
            .to_owned();
            return Err(RuntimeDirError::Busy {
                name: name.to_owned(),
                pid,
            });
        }
        std::fs::write(&lock_path, std::process::id().to_string()).map_err(io(&lock_path))?;
        let worker_dir = path.join("workers");
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&worker_dir)
            .map_err(io(&worker_dir))?;
        // Containers run as another user, whatever the umask of this one; `path` above keeps all
        // users of this machine out, and who connects must show a token.
        std::fs::set_permissions(&worker_dir, Permissions::from_mode(0o755))
            .map_err(io(&worker_dir))?;
        let control = listener(&control_path(root, name), SocketFlags::empty(), 0o600)?;
        let worker_socket = worker_dir.join("worker.sock");
        let workers = listener(&worker_socket, SocketFlags::NONBLOCK, 0o666)?;
        Ok(Self {
            path,
            _lock: lock,
            control,
            workers,
        })
    }

    /// The chain's folder, which only this user reads.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the control socket listens.
    pub fn control_listener(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Where container workers connect.
    pub(super) fn worker_listener(&self) -> &OwnedFd {
        &self.workers
    }

    /// The folder to be mounted into containers.
    pub fn worker_dir(&self) -> PathBuf {
        self.path.join("workers")
    }

    /// A connection to the control socket, if there is one from this user or root.
    pub fn accept_control(&self) -> Option<OwnedFd> {
        let socket = accept_with(&self.control, SocketFlags::CLOEXEC).ok()?;
        let uid = peer::credentials(&socket).ok()?.uid;
        let allowed = [rustix::process::getuid().as_raw(), 0];
        allowed.contains(&uid).then_some(socket)
    }

    /// A connection to the container workers' socket, if there is one; it does not block.
    pub(super) fn accept_worker(&self) -> Option<OwnedFd> {
        accept_with(&self.workers, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok()
    }
}

impl Drop for RuntimeDir {
    fn drop(&mut self) {
        // The lock file goes first-come: whoever opens it now finds it gone or free.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The root must be ours: in `/tmp`, somebody else could have made it first.
fn check_owner(root: &Path) -> Result<(), RuntimeDirError> {
    use std::os::unix::fs::MetadataExt;
    let error = |reason: String| RuntimeDirError::Io {
        path: root.display().to_string(),
        reason,
    };
    let meta = std::fs::metadata(root).map_err(|e| error(e.to_string()))?;
    if meta.uid() != rustix::process::getuid().as_raw() {
        return Err(error(
            "belongs to another user; set CATENA_RUNTIME_DIR to a folder of yours".into(),
        ));
    }
    Ok(())
}

fn listener(path: &Path, flags: SocketFlags, mode: u32) -> Result<OwnedFd, RuntimeDirError> {
    let error = |reason: String| RuntimeDirError::Io {
        path: path.display().to_string(),
        reason,
    };
    let _ = std::fs::remove_file(path);
    let address = SocketAddrUnix::new(path).map_err(|e| error(e.to_string()))?;
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | flags,
        None,
    )
    .map_err(|e| error(e.to_string()))?;
    bind(&socket, &address).map_err(|e| error(e.to_string()))?;
    std::fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(|e| error(e.to_string()))?;
    listen(&socket, 16).map_err(|e| error(e.to_string()))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_chain_of_the_same_name_is_refused_until_the_first_ends() {
        let root = std::env::temp_dir().join(format!("catena-test-{}", random_token()));
        let first = RuntimeDir::create(&root, "web").unwrap();
        let error = RuntimeDir::create(&root, "web").unwrap_err();
        assert!(error.to_string().contains("already running"), "{error}");
        assert!(RuntimeDir::create(&root, "other").is_ok());
        let mode = std::fs::metadata(control_path(&root, "web"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(first);
        assert!(RuntimeDir::create(&root, "web").is_ok());
        std::fs::remove_dir_all(&root).unwrap();
    }
}
