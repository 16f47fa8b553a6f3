//! The plug-in's file: where it is looked for, and how it is built against this machine's DPDK.
//!
//! Control path: for opening a port, `catena port list` and `catena port dpdk build`. The source
//! travels in the binary, so that the two fit each other.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::DpdkError;
use super::sys::{Library, Unloaded};

/// Variable of the environment that names the plug-in.
pub const VARIABLE: &str = "CATENA_DPDK";
const FILE: &str = "catena_dpdk.so";
const SOURCE: &str = include_str!("plugin/catena_dpdk.c");
/// The oldest DPDK that the source is tested with.
const VERSION_MIN: (u32, u32) = (22, 11);
/// Names of its folder that a build tries; processes that were killed leave theirs.
const PRIVATE_TRIES: u32 = 64;
/// What the plug-in is linked to; DPDK loads its drivers by itself.
const LIBRARIES: [&str; 5] = ["ethdev", "mempool", "mbuf", "eal", "kvargs"];

/// What this machine has of DPDK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Its name and version, `DPDK 22.11.11`.
    pub version: String,
    /// The plug-in.
    pub file: PathBuf,
    /// Drivers of network devices, by name.
    pub drivers: Vec<String>,
}

/// Where the plug-in is looked for, in this order.
fn places() -> Vec<PathBuf> {
    let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
    if let Some(named) = named {
        return vec![PathBuf::from(named)];
    }
    let of_all = ["/usr/local/lib/catena", "/usr/lib/catena"];
    let of_all = of_all.iter().map(|place| Path::new(place).join(FILE));
    own_place().into_iter().chain(of_all).collect()
}

/// The user's own place, from the environment.
fn own_place() -> Option<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    home_place(std::env::var_os("HOME"), is_root)
}

/// None for root, whose HOME may be that of the user who has become root; none below a path that
/// depends on where a process runs.
fn home_place(home: Option<OsString>, is_root: bool) -> Option<PathBuf> {
    let home = PathBuf::from(home.filter(|_| !is_root)?);
    home.is_absolute()
        .then(|| home.join(".local/lib/catena").join(FILE))
}

/// The file itself, if nobody but root and the worker's user can have written it.
fn trusted(file: &Path) -> Result<PathBuf, DpdkError> {
    let refused = |why: String| DpdkError::Untrusted {
        file: file.to_owned(),
        why,
    };
    if !file.is_absolute() {
        return Err(refused("its path is relative: give all of it".to_owned()));
    }
    let read = |error: io::Error| refused(error.to_string());
    let file = fs::canonicalize(file).map_err(read)?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    for place in [&*file, folder] {
        let found = fs::metadata(place).map_err(read)?;
        let place = place.display();
        if found.uid() != 0 && found.uid() != rustix::process::geteuid().as_raw() {
            return Err(refused(format!(
                "{place} belongs to user {}: it has to be root's or the worker's user's",
                found.uid()
            )));
        }
        if found.mode() & 0o022 != 0 {
            return Err(refused(format!(
                "others than its owner can write {place}: `chmod go-w {place}`"
            )));
        }
    }
    Ok(file)
}

/// Where `catena port dpdk build` puts it, unless told otherwise.
pub fn usual_place() -> PathBuf {
    own_place().unwrap_or_else(|| Path::new("/usr/local/lib/catena").join(FILE))
}

/// The plug-in of this machine, or the one that is named.
///
/// # Errors
/// That there is none, or why it cannot be used.
pub(super) fn load(named: Option<&Path>) -> Result<(Library, PathBuf), DpdkError> {
    if cfg!(target_feature = "crt-static") {
        return Err(DpdkError::Static);
    }
    // What a chain file names lies below that file's folder, which may be relative.
    let named = named.map(|named| std::path::absolute(named).unwrap_or(named.to_owned()));
    let places = named.map_or_else(places, |named| vec![named]);
    let Some(file) = places.iter().find(|place| place.is_file()).cloned() else {
        return Err(DpdkError::NoPlugin { places });
    };
    let file = trusted(&file)?;
    match Library::load(&file) {
        Ok(library) if is_too_old(&library.version()) => Err(DpdkError::TooOld {
            found: library.version(),
            file,
        }),
        Ok(library) => Ok((library, file)),
        Err(Unloaded::Unusable(why)) => Err(DpdkError::Plugin { file, why }),
        Err(Unloaded::Other(loaded)) => Err(DpdkError::OtherPlugin { file, loaded }),
    }
}

/// What this machine has of DPDK. Starts nothing.
///
/// # Errors
/// Why DPDK cannot be used, with the repair.
pub fn installed() -> Result<Installed, DpdkError> {
    let (library, file) = load(None)?;
    let entries = fs::read_dir(library.driver_dir());
    let names = entries.into_iter().flatten().filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        let driver = name.strip_prefix("librte_")?.strip_suffix(".so")?;
        driver.starts_with("net_").then(|| driver.to_owned())
    });
    let mut drivers: Vec<_> = names.collect();
    drivers.sort();
    Ok(Installed {
        version: library.version(),
        file,
        drivers,
    })
}

/// Why the plug-in was not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A program that is needed.
    #[error("{program} is not there, which the plug-in is built with: `apt install {package}`")]
    NoProgram {
        /// Its name.
        program: &'static str,
        /// Debian's package.
        package: &'static str,
    },
    /// No DPDK to build against.
    #[error("pkg-config knows no libdpdk: `apt install libdpdk-dev`, or set PKG_CONFIG_PATH")]
    NoDpdk,
    /// An old one.
    #[error("DPDK is {found}, and 22.11 or newer is needed: install a newer one")]
    TooOld {
        /// Its version.
        found: String,
    },
    /// The compiler refuses.
    #[error("the compiler refuses the plug-in: {what}")]
    Compiler {
        /// What it says first.
        what: String,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Builds the plug-in against this machine's DPDK, into `output`. Gives DPDK's version.
///
/// # Errors
/// What is missing, or what went wrong; `output` is as it was then.
pub fn build(output: &Path) -> Result<String, BuildError> {
    let version = pkg_config("--modversion")?;
    if is_too_old(&version) {
        return Err(BuildError::TooOld { found: version });
    }
    let flags = pkg_config("--cflags")?;
    let dirs = pkg_config("--libs-only-L")?;
    let at = |file: &Path| {
        let file = file.to_owned();
        move |source| BuildError::Write { file, source }
    };
    let folder = match output.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    // Others must not write there, whatever the umask: the plug-in would not be loaded.
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o755);
    builder.create(folder).map_err(at(folder))?;
    let private = Private::below(folder).map_err(at(folder))?;
    let (source, built) = (private.0.join("catena_dpdk.c"), private.0.join(FILE));
    let mut text = OpenOptions::new();
    let text = text.write(true).create_new(true).open(&source);
    text.and_then(|mut text| text.write_all(SOURCE.as_bytes()))
        .map_err(at(&source))?;
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O3", "-shared", "-fPIC", "-fvisibility=hidden"])
        .args(flags.split_whitespace())
        .arg("-o")
        .args([&built, &source])
        .args(dirs.split_whitespace())
        .args(LIBRARIES.map(|library| format!("-lrte_{library}")));
    let compiled = compiler.output().map_err(|_| BuildError::NoProgram {
        program: "cc",
        package: "gcc libc6-dev",
    })?;
    if !compiled.status.success() {
        return Err(BuildError::Compiler {
            what: first_error(&compiled.stderr),
        });
    }
    fs::set_permissions(&built, Permissions::from_mode(0o755))
        .and_then(|()| fs::rename(&built, output))
        .map_err(at(output))?;
    Ok(version)
}

/// A folder that only its maker can look into; removed on drop.
struct Private(PathBuf);

impl Private {
    /// A new one there: what lies there already, a link too, is not taken.
    fn below(folder: &Path) -> io::Result<Self> {
        let mut last = io::Error::from(ErrorKind::AlreadyExists);
        for try_number in 0..PRIVATE_TRIES {
            let name = format!(".{FILE}.{}.{try_number}", std::process::id());
            let path = folder.join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn pkg_config(what: &str) -> Result<String, BuildError> {
    let output = Command::new("pkg-config").args([what, "libdpdk"]).output();
    let output = output.map_err(|_| BuildError::NoProgram {
        program: "pkg-config",
        package: "pkg-config",
    })?;
    if !output.status.success() {
        return Err(BuildError::NoDpdk);
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether that is a version that the source is not for, also one that cannot be read.
fn is_too_old(version: &str) -> bool {
    version_of(version).is_none_or(|found| found < VERSION_MIN)
}

/// Year and month of `22.11.11`, or of what DPDK calls itself, `DPDK 22.11.11`.
fn version_of(text: &str) -> Option<(u32, u32)> {
    let numbers = text.rsplit(' ').next()?;
    let mut numbers = numbers.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The first line of a compiler's text that tells of an error.
fn first_error(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let error = lines.clone().find(|line| line.contains("error"));
    error
        .or_else(|| lines.next())
        .unwrap_or("it says nothing")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(version_of("22.11.11") >= Some(VERSION_MIN));
        assert!(version_of("23.3.0") > Some(VERSION_MIN));
        assert!(version_of("21.11.2") < Some(VERSION_MIN));
        assert_eq!(version_of("DPDK 22.11.11"), Some((22, 11)));
        assert!(is_too_old("DPDK 20.11.3") && is_too_old("DPDK") && is_too_old(""));
        assert!(!is_too_old("DPDK 24.03.0-rc2"));
        assert_eq!(version_of("new"), None);
    }

    #[test]
    fn home_is_no_place_for_root_nor_if_it_is_relative() {
        let place = |home: &str, is_root| home_place(Some(home.into()), is_root);
        let usual = PathBuf::from("/people/a/.local/lib/catena/catena_dpdk.so");
        assert_eq!(place("/people/a", false), Some(usual));
        assert_eq!(place("/people/a", true), None);
        assert_eq!(place("", false), None);
        assert_eq!(place("a", false), None);
        assert_eq!(home_place(None, false), None);
    }

    #[test]
    fn a_file_that_others_can_write_or_replace_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        fs::write(&file, "").unwrap();
        let set = |place: &Path, mode| {
            fs::set_permissions(place, Permissions::from_mode(mode)).unwrap();
        };
        for (of_folder, of_file, is_trusted) in [
            (0o755, 0o644, true),
            (0o755, 0o664, false),
            (0o755, 0o646, false),
            (0o775, 0o644, false),
            (0o1777, 0o644, false),
        ] {
            set(dir.path(), of_folder);
            set(&file, of_file);
            let found = trusted(&file);
            assert_eq!(found.is_ok(), is_trusted, "{of_folder:o} {of_file:o}");
            if let Err(error) = found {
                assert!(error.to_string().contains("chmod go-w"), "{error}");
            }
        }
        // A link is as good as what it leads to.
        set(&file, 0o666);
        set(dir.path(), 0o755);
        let other = tempfile::tempdir().unwrap();
        let link = other.path().join(FILE);
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(trusted(&link).is_err());
        let error = trusted(Path::new("a.so")).unwrap_err();
        assert!(error.to_string().contains("relative"), "{error}");
        if rustix::process::geteuid().is_root() {
            set(&file, 0o644);
            std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
            let error = trusted(&file).unwrap_err();
            assert!(error.to_string().contains("user 65534"), "{error}");
        }
    }

    #[test]
    fn a_private_folder_is_new_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let first = Private::below(dir.path()).unwrap();
        let second = Private::below(dir.path()).unwrap();
        assert_ne!(first.0, second.0);
        assert_eq!(fs::metadata(&first.0).unwrap().mode() & 0o777, 0o700);
        fs::write(first.0.join("a"), "").unwrap();
        drop((first, second));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_first_error_of_a_compiler_is_told() {
        let text = b"a.c: In function f:\na.c:3:1: error: no x\na.c:4:1: error: no y\n";
        assert_eq!(first_error(text), "a.c:3:1: error: no x");
        assert_eq!(first_error(b"\ncc1: lost\n"), "cc1: lost");
    }
}
