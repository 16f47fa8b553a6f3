//! `containers/compose.yaml` and `containers/epon.yaml`, by the compose tool of docker: once with
//! docker's daemon, once with podman's service, which speaks the same protocol.
//!
//! Set up by `tests/setup/containers.sh`, as the tests of `containers.rs`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long podman's service may take to listen.
const PATIENCE: Duration = Duration::from_secs(30);

/// The compose tool as a plug-in of docker, or as the program that Debian packages.
fn compose() -> Option<Command> {
    let plug_in = || {
        let mut command = Command::new("docker");
        command.arg("compose");
        command
    };
    let answers = |mut command: Command| {
        let output = command.arg("version").stdin(Stdio::null()).output();
        output.is_ok_and(|output| output.status.success())
    };
    if answers(plug_in()) {
        return Some(plug_in());
    }
    let program = "docker-compose";
    answers(Command::new(program)).then(|| Command::new(program))
}

/// The image that compose files name, unless another is asked for.
fn image() -> String {
    std::env::var("CATENA_IMAGE").unwrap_or_else(|_| "catena-worker".to_owned())
}

/// Podman's service, for as long as the test.
struct Service {
    child: Child,
    socket: PathBuf,
}

impl Service {
    fn start(folder: &Path) -> Self {
        let socket = folder.join("podman.sock");
        let child = Command::new("podman")
            .args(["system", "service", "--time", "0"])
            .arg(format!("unix://{}", socket.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let service = Self { child, socket };
        let deadline = Instant::now() + PATIENCE;
        while std::os::unix::net::UnixStream::connect(&service.socket).is_err() {
            assert!(
                Instant::now() < deadline,
                "podman's service does not listen"
            );
        }
        service
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A compose file, and what is to be seen when it has come to its end.
struct Project {
    file: &'static str,
    /// What it mounts.
    mounted: &'static [&'static str],
    /// The service whose end is that of all.
    service: &'static str,
    words: &'static [&'static str],
}

/// A chain in one container. As chains/expect/acl.yaml has it.
const CHAIN: Project = Project {
    file: "containers/compose.yaml",
    mounted: &["chains/acl.yaml", "chains/traces/web.pcap"],
    service: "chain",
    words: &[
        "edge  acl",
        "911",
        "336",
        "acl_deny 575",
        "= 12960 free + 0 in flight",
    ],
};

/// A service for each function, whose workers join.
const EPON: Project = Project {
    file: "containers/epon.yaml",
    mounted: &["chains/epon/compose.yaml"],
    service: "memmng",
    words: &[
        "onu    epon_phy",
        "chunks_lost 0",
        "frames_lost 0",
        "frames_corrupted 0",
        "codewords_corrected 11521",
        "0 in flight",
    ],
};

impl Project {
    /// The compose file and what it mounts, in a folder whose user need not be root.
    fn copy_to(&self, folder: &Path) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for file in self.mounted.iter().chain([&self.file]) {
            let copy = folder.join(file);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(root.join(file), &copy).unwrap();
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o644)).unwrap();
        }
    }
}

fn runs(test: &str, project: &Project, engine: &str) {
    let image = Command::new(engine)
        .args(["image", "inspect", &image()])
        .output();
    if !image.is_ok_and(|output| output.status.success()) {
        println!("SKIP {test}: {engine} has no image; run tests/setup/containers.sh");
        return;
    }
    if compose().is_none() {
        println!("SKIP {test}: docker has no compose; run tests/setup/containers.sh");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    project.copy_to(folder.path());
    let service = (engine == "podman").then(|| Service::start(folder.path()));
    let name = format!("catena-{engine}-{}-{}", project.service, std::process::id());
    let run = |arguments: &[&str]| -> (ExitStatus, String) {
        let mut command = compose().unwrap();
        if let Some(service) = &service {
            command.env(
                "DOCKER_HOST",
                format!("unix://{}", service.socket.display()),
            );
        }
        command.args(["-p", &name, "-f", project.file]);
        let command = command.args(arguments).current_dir(folder.path());
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status, String::from_utf8_lossy(&text).into_owned())
    };
    let (status, text) = run(&["up", "--exit-code-from", project.service]);
    let (_, after) = run(&["down", "--volumes"]);
    assert!(status.success(), "{text}");
    // Columns are as wide as what is in them.
    let narrow = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in project.words {
        let is_there = text.contains(words) || narrow.contains(words);
        assert!(is_there, "{words} in {text}");
    }
    let left = Command::new(engine)
        .args(["ps", "--all", "--format", "{{.Names}}"])
        .output()
        .unwrap();
    let left = String::from_utf8_lossy(&left.stdout);
    assert!(!left.contains(&name), "{left}{after}");
}

macro_rules! with_engines {
    ($($test:ident: $project:ident)*) => {
        mod podman { $(#[test] fn $test() {
            super::runs(stringify!($test), &super::$project, "podman");
        })* }
        mod docker { $(#[test] fn $test() {
            super::runs(stringify!($test), &super::$project, "docker");
        })* }
    };
}

with_engines! {
    the_chain_runs: CHAIN
    the_functions_of_a_pon_run_as_services: EPON
}
