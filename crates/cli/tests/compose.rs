//! `containers/compose.yaml`, by the compose tool of docker: once with docker's daemon, once with
//! podman's service, which speaks the same protocol.
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

/// The compose file and what it mounts, in a folder whose user need not be root.
fn project(folder: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for name in ["containers", "chains/traces"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    for file in [
        "containers/compose.yaml",
        "chains/acl.yaml",
        "chains/traces/web.pcap",
    ] {
        let copy = folder.join(file);
        fs::copy(root.join(file), &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o644)).unwrap();
    }
}

fn the_chain_runs(engine: &str) {
    let test = "the_chain_runs";
    let image = Command::new(engine)
        .args(["image", "inspect", "catena-worker"])
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
    project(folder.path());
    let service = (engine == "podman").then(|| Service::start(folder.path()));
    let name = format!("catena-{engine}-{}", std::process::id());
    let run = |arguments: &[&str]| -> (ExitStatus, String) {
        let mut command = compose().unwrap();
        if let Some(service) = &service {
            command.env(
                "DOCKER_HOST",
                format!("unix://{}", service.socket.display()),
            );
        }
        command.args(["-p", &name, "-f", "containers/compose.yaml"]);
        let command = command.args(arguments).current_dir(folder.path());
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status, String::from_utf8_lossy(&text).into_owned())
    };
    let (status, text) = run(&["up", "--exit-code-from", "chain"]);
    let (_, after) = run(&["down"]);
    assert!(status.success(), "{text}");
    // As chains/expect/acl.yaml has it.
    for words in [
        "edge  acl",
        "911",
        "336",
        "acl_deny 575",
        "= 12576 free + 0 in flight",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let left = Command::new(engine)
        .args(["ps", "--all", "--format", "{{.Names}}"])
        .output()
        .unwrap();
    let left = String::from_utf8_lossy(&left.stdout);
    assert!(!left.contains(&name), "{left}{after}");
}

mod podman {
    #[test]
    fn the_chain_runs() {
        super::the_chain_runs("podman");
    }
}

mod docker {
    #[test]
    fn the_chain_runs() {
        super::the_chain_runs("docker");
    }
}
