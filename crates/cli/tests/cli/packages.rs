//! Each package as its user has it: unpacked into an empty root folder, a chain started from it and
//! stopped. Made by `tests/setup/packages.sh`.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::harness::repository;

/// What was made with this ending, or why there is none.
pub(super) fn package(ending: &str) -> Result<PathBuf, String> {
    let folder = repository().join("target/packages");
    let entries = std::fs::read_dir(&folder).map_err(|_| missing())?;
    let mut found = entries.flatten().map(|entry| entry.path());
    let is_it = |path: &PathBuf| path.to_string_lossy().ends_with(ending);
    found.find(is_it).ok_or_else(missing)
}

fn missing() -> String {
    "no packages; run tests/setup/packages.sh".to_owned()
}

/// Whether a root folder can be entered here.
pub(super) fn enters() -> Result<(), String> {
    let probe = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "true"])
        .output();
    match probe.is_ok_and(|output| output.status.success()) {
        true => Ok(()),
        false => Err("no namespaces of one's own here".to_owned()),
    }
}

/// A machine with nothing on it.
pub(super) struct Root(tempfile::TempDir);

impl Root {
    pub(super) fn new() -> Self {
        let root = Self(tempfile::tempdir().unwrap());
        for folder in [
            "proc",
            "tmp",
            "run",
            "var/lib/dpkg/info",
            "var/lib/dpkg/updates",
        ] {
            std::fs::create_dir_all(root.path(folder)).unwrap();
        }
        std::fs::write(root.path("var/lib/dpkg/status"), "").unwrap();
        root
    }

    pub(super) fn path(&self, inside: &str) -> PathBuf {
        self.0.path().join(inside)
    }

    fn dpkg(&self, words: &[&str]) {
        let place = self.0.path().to_str().unwrap();
        let options = [
            "--force-not-root",
            "--force-script-chrootless",
            "--root",
            place,
        ];
        run("dpkg", &[&options, words].concat());
    }

    pub(super) fn install(&self, package: &Path) {
        self.dpkg(&["--install", package.to_str().unwrap()]);
    }

    /// A command inside, with /proc and nothing else of this machine.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child"]);
        command.arg(format!("--mount-proc={}", self.path("proc").display()));
        command.arg("chroot").arg(self.0.path()).args(words);
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", said(&output));
        output
    }
}

pub(super) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

fn run(program: &str, args: &[&str]) -> Output {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{program} {args:?}: {}",
        said(&output)
    );
    output
}

pub(super) const STAY: &str = "name: web\nports:\n  in: { generator: { rate: 10kpps } }\n  \
                    out: { sink: { verify: true } }\nnfs:\n  seen: { type: count }\n\
                    links: [in -> seen -> out]\n";

/// Starts a chain that stays, asks it until packets have passed, and stops it: `run` and `ask` are
/// `catena run --json web.yaml` and other verbs, where the package is.
fn stays_until_stopped(mut run: Command, ask: impl Fn(&[&str]) -> Command) {
    let piped = run.stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = piped.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let output = ask(&["status", "--json", "web"]).output().unwrap();
        if moves(&output) {
            break;
        }
        assert!(Instant::now() < deadline, "{}", said(&output));
    }
    let stopped = ask(&["stop", "web"]).output().unwrap();
    assert!(stopped.status.success(), "{}", said(&stopped));
    let ended = running.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", said(&ended));
    let status: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(status["buffers"]["in_flight"], 0, "{status}");
}

/// Whether this is a status of `web` in which packets have passed.
fn moves(output: &Output) -> bool {
    let status = serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default();
    status["nodes"][1]["tx_packets"].as_u64() > Some(0)
}

/// A key of a unit file.
fn key<'a>(unit: &'a str, name: &str) -> &'a str {
    let start = format!("{name}=");
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix(start.as_str()));
    line.unwrap_or_else(|| panic!("{name} in {unit}"))
}

/// Installs the Debian package into an empty root folder and does what its unit says: start, ready,
/// reload, stop. Then removes it.
#[test]
fn the_debian_package_runs_a_chain_as_a_service() {
    const NAME: &str = "the_debian_package_runs_a_chain_as_a_service";
    let package = match package(".deb").and_then(|found| enters().map(|()| found)) {
        Ok(package) => package,
        Err(why) => return println!("SKIP {NAME}: {why}"),
    };
    let root = Root::new();
    root.install(&package);
    for file in [
        "usr/bin/catena",
        "usr/share/man/man1/catena-run.1.gz",
        "usr/share/bash-completion/completions/catena",
        "usr/share/doc/catena/examples/chains/hello.yaml",
        "etc/catena",
    ] {
        assert!(root.path(file).exists(), "{file}");
    }
    let unit = root.path("usr/lib/systemd/system/catena@.service");
    let unit = std::fs::read_to_string(unit).unwrap().replace("%i", "web");
    assert_eq!(key(&unit, "Type"), "notify");
    std::fs::write(root.path("etc/catena/web.yaml"), STAY).unwrap();
    std::fs::create_dir(root.path("run/catena")).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(root.path("run/catena"), private).unwrap();
    let manager = UnixDatagram::bind(root.path("run/notify")).unwrap();
    manager
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();

    let (variable, folder) = key(&unit, "Environment").split_once('=').unwrap();
    let words = |name: &str| key(&unit, name).split(' ').collect::<Vec<_>>();
    let mut start = root.command(&words("ExecStart"));
    start
        .env(variable, folder)
        .env("NOTIFY_SOCKET", "/run/notify");
    let mut service = start.stdout(Stdio::null()).spawn().unwrap();
    let mut bytes = [0; 512];
    let count = manager
        .recv(&mut bytes)
        .expect("the service is ready within a minute");
    assert!(
        bytes[..count].starts_with(b"READY=1\n"),
        "{:?}",
        &bytes[..count]
    );

    let ask = |words: &[&str]| {
        let output = root.command(words).env(variable, folder).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", said(&output));
        output
    };
    let changed = STAY.replace("type: count", "type: macswap");
    std::fs::write(root.path("etc/catena/web.yaml"), changed).unwrap();
    ask(&words("ExecReload"));
    let status = ask(&["/usr/bin/catena", "status", "--json", "web"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["nodes"][2]["type"], "macswap", "{status}");
    ask(&["/usr/bin/catena", "stop", "web"]);
    assert!(service.wait().unwrap().success());

    root.dpkg(&["--remove", "catena"]);
    assert!(!root.path("usr/bin/catena").exists());
}

/// `systemd` itself reads the unit, where it is installed.
#[test]
fn the_unit_is_one_that_systemd_understands() {
    let probe = Command::new("systemd-analyze").arg("--version").output();
    if !probe.is_ok_and(|output| output.status.success()) {
        // Not a skip: what matters of the unit is tried by the package.
        return println!("no systemd-analyze here");
    }
    let place = tempfile::tempdir().unwrap();
    let unit = std::fs::read_to_string(repository().join("packaging/catena@.service")).unwrap();
    // Its program is not on this machine.
    let file = place.path().join("catena@web.service");
    std::fs::write(&file, unit.replace("/usr/bin/catena", "/bin/true")).unwrap();
    let verify = Command::new("systemd-analyze")
        .arg("verify")
        .arg("--man=no")
        .arg(&file)
        .output();
    let verify = said(&verify.unwrap());
    assert!(!verify.contains("catena@"), "{verify}");
}

#[test]
fn the_archive_needs_nothing_else() {
    const NAME: &str = "the_archive_needs_nothing_else";
    let archive = match package(".tar.gz").and_then(|found| enters().map(|()| found)) {
        Ok(archive) => archive,
        Err(why) => return println!("SKIP {NAME}: {why}"),
    };
    let root = Root::new();
    let place = root.0.path().to_str().unwrap();
    run(
        "tar",
        &[
            "--extract",
            "--file",
            archive.to_str().unwrap(),
            "--directory",
            place,
        ],
    );
    let folder = archive
        .file_name()
        .unwrap()
        .to_string_lossy()
        .replace(".tar.gz", "");
    let examples = format!("/{folder}/share/doc/catena/examples/chains");
    let binary = format!("/{folder}/catena");
    let hello = format!("{examples}/hello.yaml");
    let output = root.run(&[&binary, "run", "--json", &hello]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(status["nodes"][1]["tx_packets"], 911, "{status}");
    assert_eq!(status["buffers"]["free"], status["buffers"]["allocated"]);

    std::fs::write(root.path("tmp/web.yaml"), STAY).unwrap();
    stays_until_stopped(
        root.command(&[&binary, "run", "--json", "/tmp/web.yaml"]),
        |words| root.command(&[&[binary.as_str()], words].concat()),
    );
}

/// A container engine that answers, and what it needs for containers here.
struct Engine {
    program: &'static str,
    global: &'static [&'static str],
    limits: &'static [&'static str],
}

const ENGINES: [Engine; 2] = [
    Engine {
        program: "podman",
        // As tests of workers in containers: hybrid control groups, limits that may not be raised.
        global: &["--runtime", "runc"],
        limits: &[
            "--ulimit",
            "nofile=1024:20000",
            "--ulimit",
            "nproc=1024:1024",
        ],
    },
    Engine {
        program: "docker",
        global: &[],
        limits: &[],
    },
];

impl Engine {
    fn answers(&self, words: &[&str]) -> bool {
        let output = Command::new(self.program).args(words).output();
        output.is_ok_and(|output| output.status.success())
    }

    fn run(&self, words: &[&str]) -> Output {
        run(self.program, &[self.global, words].concat())
    }

    /// `run` of the image, without network and rights, with these options.
    fn run_image(&self, options: &[&str], command: &[&str]) -> Output {
        let closed: &[&str] = &["run", "--network", "none", "--cap-drop", "all"];
        self.run(&[closed, self.limits, options, &["catena"], command].concat())
    }
}

/// A container that is removed at the end of a test, however it ends.
struct Container<'a>(&'a Engine, String);

impl Drop for Container<'_> {
    fn drop(&mut self) {
        let mut remove = Command::new(self.0.program);
        remove.args(self.0.global).args(["rm", "--force", &self.1]);
        let _ = remove.output();
    }
}

/// One of the image's own chains, and one of the user's that stays: started, asked and stopped in
/// its container.
#[test]
fn the_image_holds_the_whole_command() {
    const NAME: &str = "the_image_holds_the_whole_command";
    let place = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path(), open).unwrap();
    std::fs::write(place.path().join("web.yaml"), STAY).unwrap();
    let volume = format!("{}:/work:ro", place.path().display());
    for engine in &ENGINES {
        let program = engine.program;
        if !engine.answers(&["info"]) {
            println!("SKIP {NAME}: {program} does not answer");
            continue;
        }
        if !engine.answers(&["image", "inspect", "catena"]) {
            println!("SKIP {NAME}: {program} has no image; run tests/setup/packages.sh");
            continue;
        }
        let output = engine.run_image(&["--rm"], &["run", "--json", "chains/acl.yaml"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(status["chain"], "acl", "{program}: {status}");
        assert!(
            status["nodes"][1]["tx_packets"].as_u64() > Some(100),
            "{program}: {status}"
        );

        let name = format!("catena-image-{}", std::process::id());
        let container = Container(engine, name.clone());
        let options = ["--detach", "--name", &name, "--volume", &volume];
        engine.run_image(
            &[&options[..], &["--workdir", "/work"]].concat(),
            &["run", "--json", "web.yaml"],
        );
        let within = |words: &[&str]| {
            let mut command = Command::new(program);
            command
                .args(engine.global)
                .args(["exec", &name, "/usr/bin/catena"]);
            command.args(words).output().unwrap()
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let output = within(&["status", "--json", "web"]);
            if moves(&output) {
                break;
            }
            assert!(Instant::now() < deadline, "{program}: {}", said(&output));
        }
        // The chain is the container's first process: when it has ended, the container ends, and
        // `stop` with it where it has not said so yet.
        let stopped = within(&["stop", "web"]);
        let is_killed = stopped.stdout.is_empty() && stopped.stderr.is_empty();
        assert!(
            stopped.status.success() || is_killed,
            "{program}: {}",
            said(&stopped)
        );
        let code = engine.run(&["wait", &name]).stdout;
        assert_eq!(String::from_utf8_lossy(&code).trim(), "0", "{program}");
        let output = engine.run(&["logs", &name]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(status["buffers"]["in_flight"], 0, "{program}: {status}");
        drop(container);
    }
}

/// With the profile of tests, whose crates are built already: what is tried is that the package
/// installs by itself, and that what it installs runs.
#[test]
fn cargo_installs_it() {
    let place = tempfile::tempdir().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_catena"));
    let target = binary.ancestors().nth(2).unwrap();
    let begun = Instant::now();
    let output = Command::new(env!("CARGO"))
        .args([
            "install",
            "--path",
            "crates/cli",
            "--profile",
            "test",
            "--locked",
            "--offline",
            "--root",
        ])
        .arg(place.path())
        .arg("--target-dir")
        .arg(target)
        .current_dir(repository())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "after {:?}: {}",
        begun.elapsed(),
        said(&output)
    );
    let installed = |words: &[&str]| {
        let mut command = Command::new(place.path().join("bin/catena"));
        let run = place.path().join("run");
        command.args(words).env("CATENA_RUNTIME_DIR", run);
        command.current_dir(repository()).stdin(Stdio::null());
        command
    };
    let output = installed(&["run", "--quiet", "chains/acl.yaml"]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let web = place.path().join("web.yaml");
    std::fs::write(&web, STAY).unwrap();
    let run = ["run", "--json", web.to_str().unwrap()];
    stays_until_stopped(installed(&run), installed);
}
