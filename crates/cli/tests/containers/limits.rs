//! What a container may take: as its engine says, and as an intruder in it finds out.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{Bench, endless, nf_pid, node, number};

/// The folder of a process's control group with this controller, of either version of them.
fn control_group(pid: i32, controller: &str) -> PathBuf {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let find = |wanted: &str| {
        let mut lines = text.lines().map(|line| line.splitn(3, ':'));
        lines.find_map(|mut parts| {
            let of = parts.nth(1)?;
            let path = parts.next()?.trim_start_matches('/').to_owned();
            of.split(',').any(|one| one == wanted).then_some(path)
        })
    };
    match find(controller) {
        Some(path) => PathBuf::from("/sys/fs/cgroup").join(controller).join(path),
        None => PathBuf::from("/sys/fs/cgroup").join(find("").unwrap()),
    }
}

/// Runs a script as an intruder in these control groups.
fn intrude(groups: &[PathBuf], script: &str) -> String {
    let enter: String = groups
        .iter()
        .map(|group| format!("echo $$ > {}/cgroup.procs\n", group.display()))
        .collect();
    let output = Command::new("sh")
        .args(["-c", &format!("{enter}{script}")])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub(super) fn containers_have_their_limits(engine: &'static str) {
    let Some(bench) = Bench::new("containers_have_their_limits", engine) else {
        return;
    };
    let mut chain = bench.start(&endless("rate: 20kpps"));
    let status = chain.await_status("the start", |status| {
        nf_pid(status).is_some() && number(node(status, "out"), "tx_packets") > 1000
    });
    let pid = nf_pid(&status).unwrap().as_raw_nonzero().get();
    let listed = bench.containers();
    let name = listed.split_whitespace().next().unwrap();
    let asked = "{{.HostConfig.Memory}} {{.HostConfig.PidsLimit}} \
                 {{.HostConfig.ReadonlyRootfs}} {{.HostConfig.NetworkMode}}";
    let said = Command::new(engine)
        .args(["inspect", "--format", asked, name])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let words: Vec<&str> = said.split_whitespace().collect();
    let memory: u64 = words[0].parse().unwrap();
    assert!((1 << 30..3 << 30).contains(&memory), "{said}");
    assert_eq!(words[1..], ["64", "true", "none"], "{said}");
    let mounts = fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap();
    for mount in mounts.lines() {
        let fields: Vec<&str> = mount.split_whitespace().collect();
        let is_writable = fields[3].split(',').any(|option| option == "rw");
        // What the kernel and the engine make; a worker may write to none but devices there.
        let is_of_kernel = ["/proc", "/dev", "/sys"]
            .iter()
            .any(|top| fields[1].starts_with(top));
        assert!(!is_writable || is_of_kernel, "{mount}");
    }
    let interfaces = fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap();
    assert_eq!(interfaces.matches(':').count(), 1, "only lo: {interfaces}");
    // The worker's own list beside the engine's, and that by which it starts no thread.
    let about = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let filters = about
        .lines()
        .find(|line| line.starts_with("Seccomp_filters:"));
    assert!(filters.is_some_and(|line| line.ends_with("\t3")), "{about}");
    assert!(about.lines().any(|line| line == "Threads:\t2"), "{about}");

    if !rustix::process::geteuid().is_root() {
        println!("SKIP what an intruder may take: it takes root to be one");
        return;
    }
    let (tasks, bytes) = (control_group(pid, "pids"), control_group(pid, "memory"));
    let started = intrude(
        std::slice::from_ref(&tasks),
        "n=0; while [ $n -lt 200 ]; do sleep 600 > /dev/null & echo $!; n=$((n + 1)); done",
    );
    let started: Vec<&str> = started.lines().collect();
    for pid in &started {
        let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }
    assert!((1..64).contains(&started.len()), "{started:?}");
    // Four GiB, by one that the kernel ends first.
    let ended = intrude(
        &[bytes],
        "echo 1000 > /proc/self/oom_score_adj; head -c 4G /dev/zero | tail -c 4G | wc -c",
    );
    assert_ne!(ended, (4_u64 << 30).to_string());
    // The worker, and its neighbours, go on.
    let sent = number(node(&chain.status().unwrap(), "out"), "tx_packets");
    let status = chain.await_status("it goes on", |status| {
        number(node(status, "out"), "tx_packets") > sent + 1000
    });
    assert_eq!(number(&status, "deaths"), 0);
    assert!(bench.command(&["stop", "box"]).status().unwrap().success());
    chain.finish();
}
