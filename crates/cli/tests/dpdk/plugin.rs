//! The plug-in of the port `dpdk`, for tests that need DPDK.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use catena_port::dpdk::{self, BuildError};

/// The plug-in of this test binary, built once; none, with the reason, where it cannot be tried.
pub(crate) static PLUGIN: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    let has_testpmd = Command::new("dpdk-testpmd").arg("--version").output();
    if has_testpmd.is_err() {
        return Err("dpdk-testpmd is not installed".to_owned());
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME"));
    let file = folder.join("catena_dpdk.so");
    match dpdk::build(&file) {
        Ok(_) => Ok(file),
        Err(why @ (BuildError::NoDpdk | BuildError::NoProgram { .. })) => Err(why.to_string()),
        Err(why) => panic!("{why}"),
    }
});

/// Whether DPDK can be tried here; says why not.
pub(crate) fn can_run(test: &str) -> bool {
    if let Err(why) = &*PLUGIN {
        println!("SKIP {test}: {why}");
    }
    PLUGIN.is_ok()
}
