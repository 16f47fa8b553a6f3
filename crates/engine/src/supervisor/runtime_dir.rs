//! The folder of a running chain: its lock, its control socket, its container workers' socket.
//!
//! `ROOT/CHAIN.lock` is held while the chain runs: a second `catena` with the same chain name is
//! refused, also when somebody has deleted the folder meanwhile. `ROOT/CHAIN/` with mode 0700 holds
//! `control.sock` (mode 0600; the peer's credentials are checked as well) and
//! `workers/worker.sock`, whose folder is mounted into containers.
//!
//! Folders are held by handle, belong to this user and are never reached through a symbolic link.
//! What is removed, of a supervisor that was killed or at the end, is what Catena makes, by name; a
//! folder that holds anything else is refused.

use std::fs::{DirBuilder, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use catena_shm::peer;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Stat, chmodat, fchmod, flock, fstat,
    mkdirat, openat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with,
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
    name: String,
    root: OwnedFd,
    folder: OwnedFd,
    workers_folder: OwnedFd,
    lock: File,
    control: OwnedFd,
    workers: OwnedFd,
}

/// What lies in a chain's folder.
const CONTROL_SOCKET: &str = "control.sock";
const KEEPER_SOCKET: &str = "keeper.sock";
const WORKERS: &str = "workers";
/// What lies in the folder of container workers, beside tokens.
const WORKER_SOCKET: &str = "worker.sock";
/// Endings of tokens there.
const TOKEN_ENDINGS: [&str; 2] = [".token", ".part"];

/// Whether Catena makes a file of that name in a chain's folder.
fn is_ours(name: &str) -> bool {
    // Chains of before had their lock in here.
    [CONTROL_SOCKET, KEEPER_SOCKET, "system_calls.json", "lock"].contains(&name)
}

/// Whether Catena makes a file of that name in the folder of container workers.
fn is_workers(name: &str) -> bool {
    name == WORKER_SOCKET || TOKEN_ENDINGS.iter().any(|end| name.ends_with(end))
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

/// A word that nobody outside knows.
pub fn random_word() -> u64 {
    let token = random_token();
    u64::from_str_radix(&token[..16], 16).unwrap_or_default()
}

impl RuntimeDir {
    /// Makes the folder for chain `name` and takes its lock.
    ///
    /// # Errors
    /// [`RuntimeDirError::Busy`] if the chain runs already; [`RuntimeDirError::Io`] if the folder
    /// is another user's, a symbolic link, or holds what Catena did not make: nothing of it is
    /// touched.
    pub fn create(root: &Path, name: &str) -> Result<Self, RuntimeDirError> {
        let path = root.join(name);
        let at = |place: &Path, reason: &dyn ToString| RuntimeDirError::Io {
            path: place.display().to_string(),
            reason: reason.to_string(),
        };
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(root);
        made.map_err(|error| at(root, &error))?;
        let root_folder = own_folder(CWD, root).map_err(|reason| at(root, &reason))?;
        let lock = take_lock(&root_folder, root, name)?;
        match mkdirat(&root_folder, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(at(&path, &error)),
        }
        let folder = own_folder(&root_folder, Path::new(name)).map_err(|why| at(&path, &why))?;
        fchmod(&folder, Mode::RWXU).map_err(|error| at(&path, &error))?;
        clear(&folder).map_err(|reason| at(&path, &reason))?;
        // Containers run as another user, whatever the umask of this one; `path` above keeps all
        // users of this machine out, and who connects must show a token.
        let worker_dir = path.join(WORKERS);
        let readable = Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH;
        match mkdirat(&folder, WORKERS, readable) {
            // It stays where it was: containers that others start have it mounted already.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(at(&worker_dir, &error)),
        }
        let workers_folder = own_folder(&folder, Path::new(WORKERS));
        let workers_folder = workers_folder.map_err(|reason| at(&worker_dir, &reason))?;
        fchmod(&workers_folder, readable).map_err(|error| at(&worker_dir, &error))?;
        let control = listener(&folder, CONTROL_SOCKET, Mode::RUSR | Mode::WUSR)
            .map_err(|error| at(&path.join(CONTROL_SOCKET), &error))?;
        let everybody = Mode::from_raw_mode(0o666);
        let workers = listener(&workers_folder, WORKER_SOCKET, everybody)
            .map_err(|error| at(&worker_dir.join(WORKER_SOCKET), &error))?;
        Ok(Self {
            path,
            name: name.to_owned(),
            root: root_folder,
            folder,
            workers_folder,
            lock,
            control,
            workers,
        })
    }

    /// The folder of chain `name`, whose supervisor has died, for its successor. `lock` is the
    /// chain's lock, which somebody else has held meanwhile.
    ///
    /// # Errors
    /// As [`RuntimeDir::create`].
    pub(super) fn adopt(root: &Path, name: &str, lock: OwnedFd) -> Result<Self, RuntimeDirError> {
        let path = root.join(name);
        let at = |place: &Path, reason: &dyn ToString| RuntimeDirError::Io {
            path: place.display().to_string(),
            reason: reason.to_string(),
        };
        let root_folder = own_folder(CWD, root).map_err(|reason| at(root, &reason))?;
        let folder = own_folder(&root_folder, Path::new(name)).map_err(|why| at(&path, &why))?;
        let workers_folder = own_folder(&folder, Path::new(WORKERS));
        let workers_folder = workers_folder.map_err(|why| at(&path.join(WORKERS), &why))?;
        let renew = |folder: &OwnedFd, name: &str, mode: u32| {
            let _ = unlinkat(folder, name, AtFlags::empty());
            listener(folder, name, Mode::from_raw_mode(mode)).map_err(|error| at(&path, &error))
        };
        let control = renew(&folder, CONTROL_SOCKET, 0o600)?;
        let workers = renew(&workers_folder, WORKER_SOCKET, 0o666)?;
        let lock = File::from(lock);
        let written = lock
            .set_len(0)
            .and_then(|()| lock.write_at(std::process::id().to_string().as_bytes(), 0));
        written.map_err(|error| at(&root.join(lock_name(name)), &error))?;
        Ok(Self {
            path,
            name: name.to_owned(),
            root: root_folder,
            folder,
            workers_folder,
            lock,
            control,
            workers,
        })
    }

    /// The chain's lock, held by whoever has a copy of this.
    pub(super) fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// Where the keeper of this chain is to listen.
    pub(super) fn keeper_listener(&self) -> rustix::io::Result<OwnedFd> {
        let _ = unlinkat(&self.folder, KEEPER_SOCKET, AtFlags::empty());
        listener(&self.folder, KEEPER_SOCKET, Mode::RUSR | Mode::WUSR)
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
        self.path.join(WORKERS)
    }

    /// A connection to the control socket, if there is one from this user or root; neither does it
    /// block.
    pub fn accept_control(&self) -> Option<OwnedFd> {
        let socket =
            accept_with(&self.control, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok()?;
        let uid = peer::credentials(&socket).ok()?.uid;
        let allowed = [rustix::process::getuid().as_raw(), 0];
        allowed.contains(&uid).then_some(socket)
    }

    /// A connection to the container workers' socket, if there is one; it does not block.
    pub(super) fn accept_worker(&self) -> Option<OwnedFd> {
        accept_with(&self.workers, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok()
    }
}

/// A connection to the keeper of chain `name`, if there is one, and it is this user's.
pub(super) fn dial_keeper(root: &Path, name: &str) -> rustix::io::Result<Option<OwnedFd>> {
    let folders = own_folder(CWD, root).and_then(|root| own_folder(&root, Path::new(name)));
    let Ok(folder) = folders else {
        return Ok(None);
    };
    let path = format!("/proc/self/fd/{}/{KEEPER_SOCKET}", folder.as_raw_fd());
    let address = SocketAddrUnix::new(&*path)?;
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(DIAL_PATIENCE))?;
    match connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
        Err(error) => return Err(error),
    }
    let peer = peer::credentials(&socket)?;
    let is_ours = peer.uid == rustix::process::geteuid().as_raw();
    is_ours.then_some(Some(socket)).ok_or(Errno::PERM)
}

/// How long a connection to a keeper may take.
const DIAL_PATIENCE: Duration = Duration::from_secs(2);

impl Drop for RuntimeDir {
    fn drop(&mut self) {
        #[cfg(test)]
        if crate::supervisor::simulation::has_died() {
            return;
        }
        remove_files(&self.workers_folder, is_workers);
        let _ = unlinkat(&self.folder, WORKERS, AtFlags::REMOVEDIR);
        remove_files(&self.folder, is_ours);
        // Somebody may have put another folder in its place.
        let here = fstat(&self.folder).map(|stat| inode(&stat));
        let there = statat(&self.root, &*self.name, AtFlags::SYMLINK_NOFOLLOW);
        if here.is_ok_and(|here| there.is_ok_and(|stat| inode(&stat) == here)) {
            let _ = unlinkat(&self.root, &*self.name, AtFlags::REMOVEDIR);
        }
        // Last, and while it is held: whoever has opened it finds that it is no longer the one.
        let _ = unlinkat(&self.root, lock_name(&self.name), AtFlags::empty());
    }
}

fn lock_name(chain: &str) -> String {
    format!("{chain}.lock")
}

fn inode(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Opens a folder that must be this user's and nobody else's to write, and no symbolic link.
fn own_folder(at: impl AsFd, path: &Path) -> Result<OwnedFd, String> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let folder = openat(at, path, flags, Mode::empty()).map_err(|error| match error {
        Errno::NOTDIR | Errno::LOOP => "is a file or a symbolic link, where a folder of Catena's \
             was expected; remove it, or set CATENA_RUNTIME_DIR to another folder"
            .to_owned(),
        error => error.to_string(),
    })?;
    let stat = fstat(&folder).map_err(|error| error.to_string())?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(
            "belongs to another user; set CATENA_RUNTIME_DIR to a folder of yours".to_owned(),
        );
    }
    let mode = Mode::from_raw_mode(stat.st_mode);
    let is_sticky = mode.contains(Mode::SVTX);
    if mode.intersects(Mode::WGRP | Mode::WOTH) && !is_sticky {
        return Err("can be written by others; say `chmod go-w` to it, or set \
             CATENA_RUNTIME_DIR to another folder"
            .to_owned());
    }
    Ok(folder)
}

/// Takes the lock of chain `name`, which outlives the chain's folder.
fn take_lock(root: &OwnedFd, root_path: &Path, name: &str) -> Result<File, RuntimeDirError> {
    let file_name = lock_name(name);
    let failed = |reason: &dyn ToString| RuntimeDirError::Io {
        path: root_path.join(&file_name).display().to_string(),
        reason: reason.to_string(),
    };
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    loop {
        let lock = openat(root, &*file_name, flags, Mode::RUSR | Mode::WUSR);
        let mut lock = File::from(lock.map_err(|error| failed(&error))?);
        let stat = fstat(&lock).map_err(|error| failed(&error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(failed(&"is no file; remove it"));
        }
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut pid = String::new();
            let _ = (&lock).take(32).read_to_string(&mut pid);
            let is_known = !pid.trim().is_empty();
            return Err(RuntimeDirError::Busy {
                name: name.to_owned(),
                pid: if is_known { pid.trim() } else { "unknown" }.to_owned(),
            });
        }
        // Whoever held it before may have removed it meanwhile: then it guards nothing.
        let there = statat(root, &*file_name, AtFlags::SYMLINK_NOFOLLOW);
        if there.is_ok_and(|there| inode(&there) == inode(&stat)) {
            let written = lock
                .set_len(0)
                .and_then(|()| write!(lock, "{}", std::process::id()));
            written.map_err(|error| failed(&error))?;
            return Ok(lock);
        }
    }
}

/// Removes what a supervisor that was killed has left in its folder. If there is anything else,
/// nothing is removed.
fn clear(folder: &OwnedFd) -> Result<(), String> {
    let foreign = |name: &str| {
        format!(
            "holds \"{name}\", which Catena did not make; remove it, or give the chain another \
             name"
        )
    };
    let mut workers = None;
    for name in names(folder)? {
        if name == WORKERS {
            let inner = own_folder(folder, Path::new(WORKERS)).map_err(|_| foreign(WORKERS))?;
            if let Some(name) = names(&inner)?.into_iter().find(|name| !is_workers(name)) {
                return Err(foreign(&format!("{WORKERS}/{name}")));
            }
            workers = Some(inner);
        } else if !is_ours(&name) {
            return Err(foreign(&name));
        }
    }
    if let Some(inner) = workers {
        remove_files(&inner, is_workers);
    }
    remove_files(folder, is_ours);
    Ok(())
}

/// Most names in a chain's folder that are looked at: a worker has two at most.
const NAMES_MAX: usize = 4096;

fn names(folder: &OwnedFd) -> Result<Vec<String>, String> {
    let entries = Dir::read_from(folder).map_err(|error| error.to_string())?;
    let mut names = Vec::new();
    for entry in entries.take(NAMES_MAX) {
        let entry = entry.map_err(|error| error.to_string())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Removes files of a folder by name; a folder or what cannot be removed stays.
fn remove_files(folder: &OwnedFd, is_known: fn(&str) -> bool) {
    for name in names(folder).unwrap_or_default() {
        if is_known(&name) {
            let _ = unlinkat(folder, &*name, AtFlags::empty());
        }
    }
}

fn listener(folder: &OwnedFd, name: &str, mode: Mode) -> rustix::io::Result<OwnedFd> {
    // Sockets are bound by path: this one is the handle's, whatever has become of the name.
    let path = format!("/proc/self/fd/{}/{name}", folder.as_raw_fd());
    let address = SocketAddrUnix::new(&*path)?;
    let kind = SocketType::SEQPACKET;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, kind, flags, None)?;
    bind(&socket, &address)?;
    chmodat(folder, name, mode, AtFlags::empty())?;
    listen(&socket, LISTEN_QUEUE)?;
    Ok(socket)
}

/// Connections that wait to be accepted; more are refused by the kernel until some were.
const LISTEN_QUEUE: i32 = 64;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_second_chain_of_the_same_name_is_refused_until_the_first_ends() {
        let root = std::env::temp_dir().join(format!("catena-test-{}", random_token()));
        let first = RuntimeDir::create(&root, "web").unwrap();
        let error = RuntimeDir::create(&root, "web").unwrap_err();
        assert!(error.to_string().contains("already running"), "{error}");
        assert!(RuntimeDir::create(&root, "other").is_ok());
        let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(control_path(&root, "web")), 0o600);
        assert_eq!(mode(root.join("web")), 0o700);
        drop(first);
        assert!(!root.join("web").exists());
        assert!(RuntimeDir::create(&root, "web").is_ok());
        std::fs::remove_dir(&root).unwrap();
    }

    /// An empty folder that goes with the value.
    fn place() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_folder_that_was_deleted_still_keeps_its_name() {
        let root = place();
        let first = RuntimeDir::create(root.path(), "web").unwrap();
        std::fs::remove_dir_all(root.path().join("web")).unwrap();
        let error = RuntimeDir::create(root.path(), "web").unwrap_err();
        assert!(error.to_string().contains("already running"), "{error}");
        // What somebody has put in its place stays.
        std::fs::create_dir(root.path().join("web")).unwrap();
        std::fs::write(root.path().join("web/diary"), "x").unwrap();
        drop(first);
        assert!(root.path().join("web/diary").exists());
    }

    #[test]
    fn what_catena_did_not_make_is_refused_and_stays() {
        let root = place();
        let folder = root.path().join("web");
        std::fs::create_dir_all(folder.join("workers")).unwrap();
        for (file, named) in [("diary", "diary"), ("workers/photo", "workers/photo")] {
            std::fs::write(folder.join(file), "x").unwrap();
            std::fs::write(folder.join("system_calls.json"), "x").unwrap();
            let error = RuntimeDir::create(root.path(), "web").unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
            assert!(folder.join(file).exists() && folder.join("system_calls.json").exists());
            std::fs::remove_file(folder.join(file)).unwrap();
        }
        // What a killed supervisor leaves is cleared away.
        std::fs::write(folder.join("workers/police.token"), "x").unwrap();
        let made = RuntimeDir::create(root.path(), "web").unwrap();
        assert!(!folder.join("workers/police.token").exists());
        assert!(!folder.join("system_calls.json").exists());
        drop(made);
        assert!(!folder.exists());
    }

    #[test]
    fn symbolic_links_are_not_followed() {
        let root = place();
        let elsewhere = place();
        std::fs::write(elsewhere.path().join("control.sock"), "x").unwrap();
        let link = |name: &str| {
            std::os::unix::fs::symlink(elsewhere.path(), root.path().join(name)).unwrap();
        };
        link("web");
        let error = RuntimeDir::create(root.path(), "web").unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        std::fs::create_dir(root.path().join("mail")).unwrap();
        link("mail/workers");
        assert!(RuntimeDir::create(root.path(), "mail").is_err());
        link("news.lock");
        assert!(RuntimeDir::create(root.path(), "news").is_err());
        assert!(RuntimeDir::create(&root.path().join("web"), "x").is_err());
        assert!(elsewhere.path().join("control.sock").exists());
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_root_that_others_may_write_is_refused_and_a_loose_folder_made_tight() {
        let root = place();
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set(root.path(), 0o777);
        let error = RuntimeDir::create(root.path(), "web").unwrap_err();
        assert!(error.to_string().contains("chmod go-w"), "{error}");
        set(root.path(), 0o755);
        std::fs::create_dir(root.path().join("web")).unwrap();
        set(&root.path().join("web"), 0o755);
        let _made = RuntimeDir::create(root.path(), "web").unwrap();
        let mode = std::fs::metadata(root.path().join("web")).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o700);
    }
}
