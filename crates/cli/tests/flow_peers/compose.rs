//! `examples/fb5g/compose.yaml` by the compose tool of docker, with podman's service in a network
//! namespace: what has the host's network there has that of the namespace. (Docker's daemon has its
//! own, which a test must not touch.) Set up by `tests/setup/containers.sh`.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use super::containers::{BALANCER, Function, OFFLOAD, POLICER, has_image};
use super::{Hosts, PATIENCE, repository};

/// The compose tool as a plug-in of docker, or as the program that Debian packages.
fn compose() -> Option<Command> {
    let mut plug_in = Command::new("docker");
    plug_in.arg("compose");
    let mut all = [plug_in, Command::new("docker-compose")].into_iter();
    all.find_map(|mut command| {
        let mut asked = Command::new(command.get_program());
        let asked = asked.args(command.get_args()).arg("version").output();
        asked.is_ok_and(|output| output.status.success()).then(|| {
            command.stdin(Stdio::null());
            command
        })
    })
}

/// The image that the compose file names, unless another is asked for.
fn image() -> String {
    std::env::var("CATENA_IMAGE").unwrap_or_else(|_| "catena-worker".to_owned())
}

/// A service between hosts, and podman's, by which it runs.
struct Project {
    hosts: Hosts,
    socket: PathBuf,
    name: String,
}

impl Project {
    /// None, with the reason printed, where there can be none.
    fn new(test: &str, function: &Function) -> Option<Self> {
        if !has_image(test, "podman", &image()) {
            return None;
        }
        if compose().is_none() {
            println!("SKIP {test}: docker has no compose; run tests/setup/containers.sh");
            return None;
        }
        let mut hosts = Hosts::new(&format!("com-{test}"), function.interfaces)?;
        let socket = hosts.folder.path().join("podman.sock");
        let mut command = hosts.in_the_middle("podman");
        command.args(["system", "service", "--time", "0"]);
        command.arg(format!("unix://{}", socket.display()));
        hosts.start(command);
        // It is curl that pauses between its attempts.
        let ping = format!(
            "curl --silent --fail --retry 40 --retry-delay 1 --retry-all-errors --unix-socket {} \
             http://localhost/_ping",
            socket.display()
        );
        let middle = hosts.names[1].clone();
        hosts.run_in(&middle, &ping);
        (function.join)(&mut hosts);
        let name = format!("fb5g-{}-{}", function.name, std::process::id());
        Some(Self {
            hosts,
            socket,
            name,
        })
    }

    fn run(&self, arguments: &[&str]) -> std::io::Result<Output> {
        let compose = compose().unwrap();
        let mut command = Command::new("timeout");
        command.arg("120").arg(compose.get_program());
        command.args(compose.get_args());
        command.env("DOCKER_HOST", format!("unix://{}", self.socket.display()));
        command.args(["-p", &self.name, "-f"]);
        command.arg(repository("examples/fb5g/compose.yaml"));
        command.args(arguments).output()
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = self.run(&["down", "--volumes"]);
    }
}

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&all).into_owned()
}

fn is_up_and_down(test: &str, function: &Function) {
    let Some(project) = Project::new(test, function) else {
        return;
    };
    let up = project.run(&["up", "--detach", function.name]).unwrap();
    assert!(up.status.success(), "{}", text(&up));
    let start = Instant::now();
    loop {
        let logs = text(&project.run(&["logs", function.name]).unwrap());
        if logs.contains(" is running") {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "the chain does not run: {logs}");
    }
    (function.exercise)(&project.hosts);
    let stopped = project.run(&["stop", function.name]).unwrap();
    assert!(stopped.status.success(), "{}", text(&stopped));
    let logs = text(&project.run(&["logs", function.name]).unwrap());
    assert!(logs.contains("+ 0 in flight"), "{logs}");
}

#[test]
fn the_balancer_is_a_service() {
    is_up_and_down("the_balancer_is_a_service", &BALANCER_OF_THE_CHAIN);
}

#[test]
fn the_offload_is_a_service() {
    is_up_and_down("the_offload_is_a_service", &OFFLOAD);
}

/// Whose program has other control values than FB5G's.
const BALANCER_OF_THE_CHAIN: Function = Function {
    exercise: |hosts| {
        let ask = "curl --silent --show-error --fail --max-time 20 http://10.0.0.100/";
        for _ in 0..6 {
            hosts.run_in(&hosts.names[0], ask);
        }
    },
    ..BALANCER
};

/// Its chain makes its packets.
const POLICER_OF_THE_CHAIN: Function = Function {
    join: |_| (),
    exercise: |_| (),
    ..POLICER
};

#[test]
fn the_policer_is_a_service() {
    let test = "the_policer_is_a_service";
    let Some(project) = Project::new(test, &POLICER_OF_THE_CHAIN) else {
        return;
    };
    let up = project
        .run(&["up", "--exit-code-from", "policer", "policer"])
        .unwrap();
    let said = text(&up);
    assert!(up.status.success(), "{said}");
    assert!(said.contains("red 9798"), "{said}");
}
