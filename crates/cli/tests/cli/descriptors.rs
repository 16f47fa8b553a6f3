//! Descriptors: 64 nodes run in every mode, what is needed is known beforehand, and what is short
//! is said before anything is started or changed.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use catena_engine::chain::{Chain, Mode, Registry};
use catena_engine::placement::descriptors::{Needed, needed};
use catena_engine::placement::{Placement, place};
use rustix::process::Signal;
use serde_json::Value;

use super::harness::{Place, named, until};
use super::running::await_packets;

/// A chain with `count` NFs in a row.
fn row(name: &str, count: usize, mode: &str) -> String {
    row_of('f', name, count, mode)
}

/// The same; names of its NFs begin with `letter`.
fn row_of(letter: char, name: &str, count: usize, mode: &str) -> String {
    let names = (0..count).map(|number| format!("{letter}{number}"));
    let names: Vec<String> = names.collect();
    let nfs = names
        .iter()
        .map(|name| format!("  {name}: {{ type: count }}\n"));
    let nfs: String = nfs.collect();
    let path = names.join(" -> ");
    format!(
        "name: {name}\nports:\n  in: {{ generator: {{ rate: 1kpps }} }}\n  out: {{ sink: }}\n\
         nfs:\n{nfs}links: [in -> {path} -> out]\n\
         run: {{ mode: {mode}, wait: sleep, buffers: {{ 128: 512, 2048: 64 }} }}\n"
    )
}

fn registry() -> Registry {
    Registry {
        nfs: catena_engine::nfs::KINDS.to_vec(),
        ports: catena_port::PORTS.to_vec(),
        wraps: Vec::new(),
        files: Vec::new(),
    }
}

/// What a chain needs, as the library says.
fn needed_by(text: &str) -> (Placement, Needed) {
    let registry = registry();
    let checked = Chain::parse(text, Path::new("."), &registry, None);
    let chain = checked.unwrap_or_else(|errors| panic!("{errors}")).chain;
    let placement = place(&chain).unwrap();
    let needed = needed(&chain, &placement);
    (placement, needed)
}

/// How many descriptors a process has.
fn open_in(pid: &Value) -> u64 {
    let listed = std::fs::read_dir(format!("/proc/{pid}/fd"));
    listed.map_or(0, |all| all.count() as u64)
}

/// Kills all workers of NFs at once, twice; gives the most descriptors that the supervisor had
/// until all were replaced.
fn most_open_while_all_die(place: &Place, first: &Value) -> u64 {
    let mut most = 0;
    for lives in 1..=2 {
        let workers = status(place, "long")["workers"].clone();
        let workers = workers.as_array().unwrap().iter();
        for worker in workers.filter(|worker| worker["name"] != "ports") {
            let pid = i32::try_from(worker["pid"].as_u64().unwrap()).unwrap();
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            rustix::process::kill_process(pid, Signal::KILL).unwrap();
        }
        until("each is replaced", || {
            most = most.max(open_in(&first["pid"]));
            let now = status(place, "long");
            let mut workers = now["workers"].as_array().unwrap().iter();
            let is_back = |worker: &Value| {
                worker["name"] == "ports"
                    || (worker["restarts"].as_u64() >= Some(lives) && worker["state"] == "running")
            };
            workers.all(is_back).then_some(())
        });
    }
    most
}

fn status(place: &Place, chain: &str) -> Value {
    place.catena(&["status", "--json", chain]).json()
}

#[test]
fn sixty_four_nodes_run_in_every_mode_with_the_descriptors_that_they_are_said_to_need() {
    for mode in ["inline", "thread", "process"] {
        let place = Place::new();
        let text = row("long", 62, mode);
        place.write("long.yaml", &text);
        let running = place.start("long", &["long.yaml"]);
        await_packets(&place, "long");
        let (placement, needed) = needed_by(&text);
        let now = status(&place, "long");
        assert_eq!(now["nodes"].as_array().unwrap().len(), 64);
        let supervisor = open_in(&now["pid"]);
        assert!(supervisor > 0, "{now:#}");
        assert!(
            supervisor <= needed.supervisor,
            "{mode}: the supervisor has {supervisor}, more than {needed:?}"
        );
        if mode == "process" {
            assert!(
                supervisor * 2 >= needed.supervisor,
                "the supervisor has {supervisor}, far fewer than {needed:?}"
            );
            for (spec, needed) in placement.workers.iter().zip(&needed.workers) {
                assert_eq!(spec.mode, Mode::Process);
                let worker = open_in(&named(&now["workers"], &spec.name)["pid"]);
                assert!(
                    worker > 0 && worker <= *needed,
                    "{}: {worker}, {needed}",
                    spec.name
                );
                // What it has mapped it has closed: links and lanes cost it nothing.
                assert!(worker <= 20, "{}: {worker} are open", spec.name);
            }
            let most = most_open_while_all_die(&place, &now);
            assert!(
                most <= needed.supervisor,
                "while all workers were replaced the supervisor had {most}, more than {needed:?}"
            );
        }
        running.signal(Signal::INT);
        let said = running.end().assert_code(0).stdout.clone();
        assert!(said.contains(" free + 0 in flight\n"), "{said}");
        place.assert_nothing_left();
    }
}

/// Nodes with other names take the place of all: what goes is there until it is empty.
#[test]
fn a_change_of_all_nodes_needs_the_descriptors_of_both_chains() {
    let checked = |text: &str| {
        let registry = registry();
        let checked = Chain::parse(text, Path::new("."), &registry, None);
        checked.unwrap_or_else(|errors| panic!("{errors}")).chain
    };
    for mode in ["process", "thread"] {
        let [old, new] = ['f', 'g'].map(|letter| checked(&row_of(letter, "long", 30, mode)));
        let (before, after) = (place(&old).unwrap(), place(&new).unwrap());
        assert!(before.lanes.len() > 60, "{} lanes", before.lanes.len());
        let alone = needed(&new, &after).supervisor;
        // As `apply` numbers them: those that come stand behind those that leave.
        let mut gone = after.clone();
        gone.workers.clear();
        gone.rings.clear();
        gone.lanes.clear();
        let both = needed(&new, &after).while_changing((&old, &before), &gone);
        let memory = 2 * (before.rings.len() + before.lanes.len()) as u64;
        assert!(both.supervisor >= alone + memory, "{mode}: {both:?}");
        if mode == "thread" {
            let theirs: u64 = needed(&old, &before).workers.iter().sum();
            assert!(both.supervisor >= alone + memory + theirs);
        }
        let same = needed(&old, &before).while_changing((&old, &before), &before);
        assert_eq!(same, needed(&old, &before));
    }
}

/// Starts a chain in a shell that allows so many descriptors, and no more.
fn run_with(place: &Place, limit: u64, file: &str) -> Child {
    let binary = env!("CARGO_BIN_EXE_catena");
    let script = format!("ulimit -n {limit}; exec {binary} run --json {file}");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(place.path("."));
    command.env("CATENA_RUNTIME_DIR", place.runtime());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let log = std::fs::File::create(place.path("stderr")).unwrap();
    command.stderr(log).spawn().unwrap()
}

#[test]
fn a_chain_that_needs_more_than_is_allowed_is_refused_and_what_runs_stays() {
    const ALLOWED: u64 = 640;
    let place = Place::new();
    place.write("short.yaml", row("row", 2, "process"));
    place.write("long.yaml", row("row", 30, "process"));
    let count = needed_by(&row("row", 30, "process")).1.supervisor;
    let sentence = format!("would need {count} descriptors");
    let advice = format!("{ALLOWED} are allowed (hard limit): allow more (`ulimit -n {count}`");
    let mut refused = run_with(&place, ALLOWED, "long.yaml");
    let code = until("it is refused", || refused.try_wait().unwrap()).code();
    assert_eq!(code, Some(2), "{}", place.log());
    assert!(place.log().contains(&sentence), "{}", place.log());
    assert!(place.log().contains(&advice), "{}", place.log());
    place.assert_nothing_left();

    let mut child = run_with(&place, ALLOWED, "short.yaml");
    until("the chain runs", || {
        assert!(child.try_wait().unwrap().is_none(), "{}", place.log());
        (place.catena(&["status", "row"]).code == 0).then_some(())
    });
    await_packets(&place, "row");
    let planned = place.catena(&["plan", "long.yaml"]);
    let said = &planned.assert_code(1).stderr;
    assert!(
        said.contains("apply would refuse this: the supervisor would need"),
        "{said}"
    );
    let applied = place.catena(&["apply", "long.yaml"]);
    let said = &applied.assert_code(2).stderr;
    assert!(
        said.contains("nothing was changed") && said.contains("ulimit -n"),
        "{said}"
    );
    let sent = |status: &Value| {
        named(&status["nodes"], "out")["tx_packets"]
            .as_u64()
            .unwrap()
    };
    let before = status(&place, "row");
    assert_eq!(before["nodes"].as_array().unwrap().len(), 4);
    assert_eq!(before["deaths"], 0);
    until("packets go on", || {
        (sent(&status(&place, "row")) > sent(&before)).then_some(())
    });
    place.catena(&["stop", "row"]).assert_code(0);
    let code = until("the supervisor ends", || child.try_wait().unwrap()).code();
    assert_eq!(code, Some(0), "{}", place.log());
    place.assert_nothing_left();
}
