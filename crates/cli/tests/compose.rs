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
    let (status, followed) = run(&["up", "--exit-code-from", project.service]);
    // `up` stops following its services when the first of them ends, whatever the others still say.
    let (_, logs) = run(&["logs", "--no-color"]);
    let (_, after) = run(&["down", "--volumes"]);
    let text = followed + &logs;
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

/// The documents of `containers/upf.kubernetes.yaml`, by kind.
fn manifest() -> Vec<serde_json::Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../containers/upf.kubernetes.yaml");
    let text = fs::read_to_string(path).unwrap();
    let documents = text.split("\n---\n");
    documents
        .map(|one| serde_saphyr::from_str(one).unwrap())
        .collect()
}

/// What a cluster would find wrong only when the pod starts: names that lead nowhere, and a chain
/// that is none.
#[test]
fn the_manifest_of_the_upf_is_whole() {
    let all = manifest();
    for one in &all {
        let words = [&one["apiVersion"], &one["kind"], &one["metadata"]["name"]];
        assert!(words.iter().all(|word| word.is_string()), "{one}");
    }
    let is_one = |one: &serde_json::Value, kind: &str| one["kind"] == *kind;
    let one_of = |kind: &str| all.iter().find(|one| is_one(one, kind)).unwrap();
    let (config, set, service) = (
        one_of("ConfigMap"),
        one_of("StatefulSet"),
        one_of("Service"),
    );
    let template = &set["spec"]["template"];
    let labels = &template["metadata"]["labels"];
    assert_eq!(&set["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&service["spec"]["selector"], labels);
    assert_eq!(set["spec"]["serviceName"], service["metadata"]["name"]);
    let pod = &template["spec"];
    let container = &pod["containers"][0];
    let volumes = pod["volumes"].as_array().unwrap();
    let mounts = container["volumeMounts"].as_array().unwrap();
    for mount in mounts {
        let is_it = |volume: &serde_json::Value| volume["name"] == mount["name"];
        assert!(volumes.iter().any(is_it), "{mount}");
    }
    let chain_volume = volumes.iter().find(|one| one["name"] == "chain").unwrap();
    assert_eq!(
        chain_volume["configMap"]["name"],
        config["metadata"]["name"]
    );
    assert_eq!(container["args"][1], "/chain/upf.yaml");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("upf.yaml");
    let text = config["data"]["upf.yaml"].as_str().unwrap();
    fs::write(&file, text).unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_catena"));
    let output = check.arg("check").arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");

    // Each port's interface is a network of the pod, and of the manifest.
    let annotations = &template["metadata"]["annotations"];
    let networks = annotations["k8s.v1.cni.cncf.io/networks"].as_str().unwrap();
    let networks: serde_json::Value = serde_json::from_str(networks).unwrap();
    let chain: serde_json::Value = serde_saphyr::from_str(text).unwrap();
    let ports = chain["ports"].as_object().unwrap();
    assert_eq!(ports.len(), networks.as_array().unwrap().len());
    for port in ports.values() {
        let interface = &port["packet_socket"]["interface"];
        let mut its = networks.as_array().unwrap().iter();
        let its = its.find(|one| one["interface"] == *interface);
        let name = &its.unwrap_or_else(|| panic!("no network is {interface}"))["name"];
        let known = all.iter().find(|one| {
            is_one(one, "NetworkAttachmentDefinition") && one["metadata"]["name"] == *name
        });
        let known = known.unwrap_or_else(|| panic!("no definition of {name}"));
        let network = known["spec"]["config"].as_str().unwrap();
        let network: serde_json::Value = serde_json::from_str(network).unwrap();
        assert_eq!(network["type"], "macvlan");
    }
}
