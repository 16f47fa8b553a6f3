//! The plug-in's file: where it is looked for, and how it is built against this machine's DPDK.
//!
//! Control path: for opening a port, `catena port list` and `catena port dpdk build`. The source
//! travels in the binary, so that the two fit each other.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::DpdkError;
use super::sys::Library;

/// Variable of the environment that names the plug-in.
pub const VARIABLE: &str = "CATENA_DPDK";
const FILE: &str = "catena_dpdk.so";
const SOURCE: &str = include_str!("plugin/catena_dpdk.c");
/// The oldest DPDK that the source is tested with.
const VERSION_MIN: (u32, u32) = (22, 11);
/// What the plug-in is linked to; drivers are loaded when they are needed.
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
    let home = std::env::var_os("HOME").map(|home| home_place(&home));
    let of_all = ["/usr/local/lib/catena", "/usr/lib/catena"];
    let of_all = of_all.iter().map(|place| Path::new(place).join(FILE));
    home.into_iter().chain(of_all).collect()
}

fn home_place(home: &OsString) -> PathBuf {
    Path::new(home).join(".local/lib/catena").join(FILE)
}

/// Where `catena port dpdk build` puts it, unless told otherwise.
pub fn usual_place() -> PathBuf {
    let home = std::env::var_os("HOME").filter(|_| !rustix::process::geteuid().is_root());
    home.map_or_else(
        || Path::new("/usr/local/lib/catena").join(FILE),
        |home| home_place(&home),
    )
}

/// The plug-in of this machine, or the one that is named.
///
/// # Errors
/// That there is none, or why it cannot be used.
pub(super) fn load(named: Option<&Path>) -> Result<(Library, PathBuf), DpdkError> {
    if cfg!(target_feature = "crt-static") {
        return Err(DpdkError::Static);
    }
    let places = named.map_or_else(places, |named| vec![named.to_owned()]);
    let Some(file) = places.iter().find(|place| place.is_file()).cloned() else {
        return Err(DpdkError::NoPlugin { places });
    };
    match Library::load(&file) {
        Ok(library) => Ok((library, file)),
        Err(why) => Err(DpdkError::Plugin { file, why }),
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
    if version_of(&version).is_none_or(|found| found < VERSION_MIN) {
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
    fs::create_dir_all(folder).map_err(at(folder))?;
    let name = format!(".{FILE}.{}", std::process::id());
    let (source, built) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&source, SOURCE).map_err(at(&source))?;
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O3", "-shared", "-fPIC", "-fvisibility=hidden"])
        .args(flags.split_whitespace())
        .arg("-o")
        .args([&built, &source])
        .args(dirs.split_whitespace())
        .args(LIBRARIES.map(|library| format!("-lrte_{library}")));
    let compiled = compiler.output();
    let _ = fs::remove_file(&source);
    let failed = match &compiled {
        Err(_) => Some(BuildError::NoProgram {
            program: "cc",
            package: "gcc libc6-dev",
        }),
        Ok(output) if !output.status.success() => Some(BuildError::Compiler {
            what: first_error(&output.stderr),
        }),
        Ok(_) => fs::rename(&built, output).map_err(at(output)).err(),
    };
    match failed {
        None => Ok(version),
        Some(error) => {
            let _ = fs::remove_file(&built);
            Err(error)
        }
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

fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse);
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
        assert_eq!(version_of("new"), None);
    }

    #[test]
    fn the_first_error_of_a_compiler_is_told() {
        let text = b"a.c: In function f:\na.c:3:1: error: no x\na.c:4:1: error: no y\n";
        assert_eq!(first_error(text), "a.c:3:1: error: no x");
        assert_eq!(first_error(b"\ncc1: lost\n"), "cc1: lost");
    }
}
