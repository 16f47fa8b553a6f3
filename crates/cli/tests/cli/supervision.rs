//! What must not stop a supervisor, what it must not touch, and what its workers are not given.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::harness::{Place, named, until};
use super::running::{await_packets, generating};

fn status(place: &Place, chain: &str) -> Value {
    place.catena(&["status", "--json", chain]).json()
}

fn worker<'a>(status: &'a Value, name: &str) -> &'a Value {
    named(&status["workers"], name)
}

fn pid_of(place: &Place, chain: &str, name: &str) -> Pid {
    let status = status(place, chain);
    let pid = worker(&status, name)["pid"].as_i64().unwrap();
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

/// Kills a worker and waits until its successor runs.
fn kill_and_await(place: &Place, chain: &str, name: &str) {
    let before = pid_of(place, chain, name);
    kill_process(before, Signal::KILL).unwrap();
    until("the worker runs again", || {
        let status = status(place, chain);
        let worker = worker(&status, name);
        let is_new = worker["pid"].as_i64() != Some(before.as_raw_nonzero().get().into());
        (is_new && worker["state"] == "running").then_some(())
    });
}

/// Ends a chain by its name, and its supervisor's code.
fn stop(place: &Place, chain: &str, mut child: Child) -> Option<i32> {
    place.catena(&["stop", chain]).assert_code(0);
    until("the supervisor ends", || child.try_wait().unwrap()).code()
}

#[test]
fn a_supervisor_whose_standard_error_is_closed_goes_on() {
    let place = Place::new();
    let file = generating(&place, "deaf");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = place.command(&["run", &file]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = child.stderr(writer).spawn().unwrap();
    until("the chain runs", || {
        (place.catena(&["status", "deaf"]).code == 0).then_some(())
    });
    await_packets(&place, "deaf");
    kill_and_await(&place, "deaf", "swap");
    assert_eq!(stop(&place, "deaf", child), Some(0));
    place.assert_nothing_left();
}

#[test]
fn a_supervisor_whose_standard_error_nobody_reads_goes_on() {
    let place = Place::new();
    let file = generating(&place, "full");
    let (reader, mut writer) = std::io::pipe().unwrap();
    // Full to the brim: the next byte waits for a reader.
    let flags = fcntl_getfl(writer.as_fd()).unwrap();
    fcntl_setfl(writer.as_fd(), flags | OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'.'; 4096]).is_ok() {}
    while writer.write(b".").is_ok() {}
    fcntl_setfl(writer.as_fd(), flags).unwrap();
    let mut command = place.command(&["run", &file]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = child.stderr(writer).spawn().unwrap();
    until("the chain runs", || {
        (place.catena(&["status", "full"]).code == 0).then_some(())
    });
    await_packets(&place, "full");
    kill_and_await(&place, "full", "swap");
    assert_eq!(stop(&place, "full", child), Some(0));
    drop(reader);
    place.assert_nothing_left();
}

/// A port that takes a packet a second holds up what waits before it.
#[test]
fn what_stop_cannot_drain_is_told_by_name_and_is_a_failure() {
    let place = Place::new();
    let file = generating(&place, "held");
    let text = std::fs::read_to_string(place.path(&file)).unwrap();
    let text = text.replace(
        "out: { sink: { verify: true } }",
        "out: { sink: {}, wrap: [{ pace: { tx: 1pps } }] }",
    );
    place.write(&file, text);
    let running = place.start("held", &[&file]);
    until("packets wait", || {
        let status = status(&place, "held");
        let waiting = status["links"][2]["occupancy"].as_u64();
        (waiting > Some(20)).then_some(())
    });
    let stopped = place.catena(&["stop", "--json", "held"]);
    stopped.assert_code(1);
    assert_eq!(stopped.json()["chain"], "held");
    let said = &stopped.stderr;
    assert!(said.contains("tally -> out: "), "{said}");
    assert!(said.contains("packets are left in it"), "{said}");
    running.end().assert_code(1);
    place.assert_nothing_left();
}

#[test]
fn a_time_that_is_none_is_refused() {
    let place = Place::new();
    let file = generating(&place, "timed");
    let range = "write a time from";
    let wrongs = [
        ("nan", range),
        ("inf", range),
        ("1e30", range),
        ("-1", range),
        ("0", "write a time above 0"),
        ("soon", "is not a time; write it like"),
    ];
    for (wrong, why) in wrongs {
        let option = format!("--seconds={wrong}");
        let ended = place.catena(&["run", &option, &file]);
        ended.assert_code(2);
        assert!(ended.stderr.contains(why), "{wrong}: {ended:?}");
    }
    place.assert_nothing_left();
}

/// Starts a chain that does not come up, and sends it a signal once it is where it stays; says
/// what it said. By itself it would not have ended so soon.
fn interrupted(place: &Place, signal: Signal, args: &[&str], mut is_there: impl FnMut() -> bool) {
    let mut command = place.command(args);
    command.env("CATENA_CONTAINER_ENGINE", "join");
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    until("it waits", || is_there().then_some(()));
    let began = Instant::now();
    kill_process(Pid::from_child(&child), signal).unwrap();
    let ended = until("it ends", || child.try_wait().unwrap());
    assert_eq!(ended.code(), Some(1));
    let mut said = String::new();
    let stderr = child.stderr.as_mut().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert!(said.contains("interrupted"), "{said}");
    // It would have given up by itself after 30 s.
    assert!(began.elapsed() < Duration::from_secs(20));
    place.assert_nothing_left();
}

#[test]
fn a_signal_ends_a_chain_that_has_not_come_up() {
    for signal in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        let file = generating(&place, "slow");
        // Nobody runs its containers, so it waits for them.
        let text = std::fs::read_to_string(place.path(&file)).unwrap();
        place.write(&file, text.replace("run: { mode: process }\n", ""));
        let args = ["run", "--mode", "container", &file];
        interrupted(&place, signal, &args, || {
            let workers = place.runtime().join("slow/workers");
            let files = std::fs::read_dir(workers).into_iter().flatten().flatten();
            let mut names = files.map(|file| file.file_name());
            names.any(|name| name.to_string_lossy().ends_with(".token"))
        });
    }
}

/// A capture that is a pipe into which nobody writes: its worker waits where the port is opened.
#[test]
fn a_signal_ends_a_chain_of_processes_that_has_not_come_up() {
    for signal in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        let file = generating(&place, "slow");
        let pipe = place.path("never.pcap");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let text = std::fs::read_to_string(place.path(&file)).unwrap();
        let (from, to) = ("generator: { rate: 20kpps }", "pcap: { read: never.pcap }");
        assert!(text.contains(from));
        place.write(&file, text.replace(from, to));
        // There is no other end to be had until somebody opens the capture.
        let mut other_end = None;
        interrupted(&place, signal, &["run", &file], || {
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            other_end = rustix::fs::open(&pipe, flags, Mode::empty()).ok();
            other_end.is_some()
        });
    }
}

/// A chain that runs while its binary is changed by `upgrade`; workers are killed after that.
fn outlives(upgrade: fn(&Path)) {
    let place = Place::new();
    let file = generating(&place, "upgraded");
    let binary = place.path("catena-of-before");
    std::fs::copy(env!("CARGO_BIN_EXE_catena"), &binary).unwrap();
    let mut command = Command::new(&binary);
    command.args(["run", &file]).current_dir(place.path("."));
    command.env("CATENA_RUNTIME_DIR", place.runtime());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.stderr(Stdio::null()).spawn().unwrap();
    until("the chain runs", || {
        (place.catena(&["status", "upgraded"]).code == 0).then_some(())
    });
    await_packets(&place, "upgraded");
    upgrade(&binary);
    // The first successor is a process that was ready before; the second is started now.
    for _ in 0..3 {
        kill_and_await(&place, "upgraded", "swap");
    }
    await_packets(&place, "upgraded");
    assert_eq!(stop(&place, "upgraded", child), Some(0));
    place.assert_nothing_left();
}

#[test]
fn workers_are_restarted_after_the_binary_has_gone() {
    outlives(|binary| std::fs::remove_file(binary).unwrap());
}

/// As a package's upgrade does it: what stands there then is no worker of this chain.
#[test]
fn workers_are_restarted_after_the_binary_was_replaced() {
    outlives(|binary| {
        let next = binary.with_extension("next");
        std::fs::write(&next, "#!/bin/sh\nexit 3\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&next, mode).unwrap();
        std::fs::rename(&next, binary).unwrap();
    });
}

/// Where libraries and the plug-in of the port `dpdk` lie, as whoever runs the chain has it.
const PASSED_ON: [&str; 3] = [
    "LD_LIBRARY_PATH=/nowhere/libraries",
    "CATENA_DPDK=/nowhere/plug-in",
    "HOME=/nowhere",
];

/// A set of capabilities in `/proc/PID/status`.
fn capabilities(status: &str, set: &str) -> u64 {
    let line = status.lines().find(|line| line.starts_with(set));
    let digits = line.and_then(|line| line.split_whitespace().nth(1));
    u64::from_str_radix(digits.unwrap(), 16).unwrap()
}

#[test]
fn workers_are_given_nothing_that_they_do_not_need() {
    let place = Place::new();
    let file = generating(&place, "bare");
    place.write("secret", "x");
    // So that there is something to give up: root of a user namespace has all capabilities in it.
    let as_root = match rustix::process::geteuid().is_root() {
        true => "",
        false => "unshare --user --map-root-user",
    };
    let script = format!(
        "exec 7<secret; {} SECRET=x exec {as_root} {} run {file}",
        PASSED_ON.join(" "),
        env!("CARGO_BIN_EXE_catena")
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(place.path("."));
    command.env("CATENA_RUNTIME_DIR", place.runtime());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.stderr(Stdio::null()).spawn().unwrap();
    until("the chain runs", || {
        (place.catena(&["status", "bare"]).code == 0).then_some(())
    });
    await_packets(&place, "bare");
    let supervisor = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    assert_ne!(
        capabilities(&supervisor, "CapPrm:"),
        0,
        "nothing is given up"
    );
    for name in ["swap", "ports"] {
        let pid = pid_of(&place, "bare", name).as_raw_nonzero().get();
        let of = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap();
        let environment = String::from_utf8(of("environ")).unwrap();
        let names: Vec<_> = environment
            .split('\0')
            .filter_map(|variable| variable.split('=').next())
            .filter(|name| !name.is_empty())
            .collect();
        let known = [
            "CATENA_TOKEN",
            "LD_LIBRARY_PATH",
            "RUST_BACKTRACE",
            "CATENA_DPDK",
            "HOME",
        ];
        assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
        for variable in PASSED_ON {
            let is_there = environment.split('\0').any(|given| given == variable);
            assert!(is_there, "{variable} in {environment:?}");
        }
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let open: Vec<PathBuf> = descriptors
            .flatten()
            .filter_map(|entry| std::fs::read_link(entry.path()).ok())
            .collect();
        assert!(!open.contains(&place.path("secret")), "{open:?}");
        let states = String::from_utf8(of("status")).unwrap();
        let state = |key: &str| {
            let line = states.lines().find(|line| line.starts_with(key));
            line.unwrap().split_whitespace().nth(1).unwrap().to_owned()
        };
        assert_eq!(
            (state("NoNewPrivs:"), state("Seccomp:")),
            ("1".into(), "2".into())
        );
        // These ports need none, as NFs do, whatever the supervisor has.
        for thread in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let states = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
            for set in ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:"] {
                assert_eq!(capabilities(&states, set), 0, "{name}: {states}");
            }
        }
        // The control thread and the data path.
        assert_eq!(state("Threads:"), "2");
        let adjusted = String::from_utf8(of("oom_score_adj")).unwrap();
        assert_eq!(adjusted.trim(), "500");
        let limits = String::from_utf8(of("limits")).unwrap();
        let limit = |name: &str| limits.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(!limit("Max data size").contains("unlimited"));
        let open = limit("Max open files");
        let most = open.split_whitespace().rev().nth(1).unwrap();
        assert!(most.parse::<u64>().is_ok_and(|most| most <= 8192), "{open}");
    }
    assert_eq!(stop(&place, "bare", child), Some(0));
    place.assert_nothing_left();
}

#[test]
fn a_low_limit_of_descriptors_is_raised_where_it_may_be() {
    let place = Place::new();
    let count = 24;
    let names: Vec<String> = (0..count).map(|number| format!("f{number}")).collect();
    let nfs: String = names
        .iter()
        .map(|name| format!("  {name}: {{ type: macswap }}\n"))
        .collect();
    let path = names.join(" -> ");
    let text = format!(
        "name: long\nports:\n  in: {{ generator: {{ rate: 1kpps }} }}\n  out: {{ sink: }}\n\
         nfs:\n{nfs}links: [in -> {path} -> out]\n\
         run: {{ mode: process, buffers: {{ 2048: 256 }} }}\n"
    );
    place.write("long.yaml", text);
    // Enough for the supervisor at rest, and for few workers.
    let script = format!(
        "ulimit -Sn 128; exec {} run --json long.yaml",
        env!("CARGO_BIN_EXE_catena")
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(place.path("."));
    command.env("CATENA_RUNTIME_DIR", place.runtime());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let log = std::fs::File::create(place.path("stderr")).unwrap();
    let mut child = command.stderr(log).spawn().unwrap();
    until("the chain runs", || {
        assert!(child.try_wait().unwrap().is_none(), "{}", place.log());
        (place.catena(&["status", "long"]).code == 0).then_some(())
    });
    await_packets(&place, "long");
    assert_eq!(stop(&place, "long", child), Some(0));
    place.assert_nothing_left();
}
