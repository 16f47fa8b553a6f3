//! The UPF in real chains: killed while it has sessions, asked by `catena upf`, and the scenarios
//! by the command.

#[path = "upf/captures.rs"]
mod captures;
mod support;
#[path = "upf/traffic.rs"]
mod traffic;
#[path = "upf/upgrade.rs"]
mod upgrade;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use captures::{assert_nothing_is_wrong, complaints, complaints_of, frames, has_tshark};
use rustix::process::Signal;
use serde_json::Value;
use support::{Running, counter, number, worker};

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains/upf/scenarios")
}

const SCENARIO: &str = "about: A session whose UPF is killed, or upgraded, between two packets.
smf: 10.4.0.2
n4: 10.4.0.1
ran: 10.3.0.2
n3: 10.3.0.1
host: 203.0.113.9
steps:
  - { do: associate, expect: [ answer: {} ] }
  - do:
      establish:
        session: 1
        pdrs:
          - { id: 1, precedence: 9, source: access, choose_teid: true, choose_ue: true,
              removal: 6, far: 1, urrs: [7] }
          - { id: 2, precedence: 9, source: core, choose_ue: true, far: 2, urrs: [7] }
        fars:
          - { id: 1, action: forward, to: core }
          - { id: 2, action: forward, to: access, teid: 0x101 }
        urrs: [ { id: 7, triggers: [VOLTH], volume_threshold: 1000000 } ]
    expect: [ answer: {} ]
  - { do: { uplink: { session: 1, count: 3 } }, expect: [ packets: { count: 3 } ] }
  - { do: { wait: 6s } }
  - do: { downlink: { session: 1, count: 2 } }
    expect: [ packets: { count: 2, teid: 0x101 } ]
  - { do: { wait: 3600s } }
";

/// When it is killed.
const KILLED: &str = "  - { do: { wait: 6s } }\n";

const CHAIN: &str = "ports:
  smf: { smf: { scenario: scenario.yaml } }
nfs:
  upf:
    type: upf
    node_id: upf.example
    n4: { address: 10.4.0.1 }
    interfaces:
      - { name: n3, side: access, address: 10.3.0.1 }
      - { name: n6, side: core }
    pools: [ { network_instance: n6, v4: 10.45.0.0/16 } ]
links: [ smf -> upf, upf.n3 -> smf, upf.n4 -> smf, upf.n6 -> smf ]
run: { mode: process }
";

/// A chain of the UPF whose SMF plays `scenario`.
fn played(chain: &str, scenario: &str) -> Running {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("scenario.yaml"), scenario).unwrap();
    Running::start_in("upf", chain, dir)
}

/// How many steps of its scenario the SMF has behind it.
fn steps(status: &Value) -> u64 {
    counter(status, "smf", "steps")
}

fn asked(running: &Running, arguments: &[&str]) -> Value {
    let output = running.ask(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["schema"], format!("catena.upf.{}/1", arguments[1]));
    said
}

#[test]
fn a_killed_upf_keeps_sessions_tunnels_and_usage() {
    let running = played(CHAIN, SCENARIO);
    let before = running.until("packets went up", |status| steps(status) >= 3);
    let sessions = asked(&running, &["upf", "sessions", "--json"]);
    assert_eq!(sessions["count"], 1, "{sessions}");
    assert!(support::signal(&before, "upf", Signal::KILL));
    let after = running.until("packets went down behind the kill", |status| {
        steps(status) >= 5
    });
    assert_eq!(number(&worker(&after, "upf")["restarts"]), 1);
    let seid = sessions["sessions"][0]["seid"].to_string();
    let session = asked(&running, &["upf", "session", "--seid", &seid, "--json"]);
    // Three packets up in the first life, two down in the second.
    let urr = &session["urrs"][0];
    assert_eq!(
        (&urr["ul_packets"], &urr["dl_packets"]),
        (&3.into(), &2.into()),
        "{session}"
    );
    let pools = asked(&running, &["upf", "pools", "--json"]);
    assert_eq!(pools["pools"][0]["v4"]["used"], 1, "{pools}");
    let peers = asked(&running, &["upf", "peers", "--json"]);
    assert_eq!(peers["peers"][0]["node_id"], "10.4.0.2", "{peers}");
    let reports = asked(&running, &["upf", "reports", "--json"]);
    assert!(reports.as_object().unwrap().len() > 1, "{reports}");
    running.stop();
}

const RELEASED: &str = "about: A UPF whose operator takes it away.
smf: 10.4.0.2
n4: 10.4.0.1
ran: 10.3.0.2
n3: 10.3.0.1
host: 203.0.113.9
steps:
  - { do: associate_for_release, expect: [ answer: {} ] }
  - do:
      establish:
        session: 1
        pdrs:
          - { id: 1, precedence: 9, source: access, choose_teid: true, choose_ue: true,
              removal: 6, far: 1, urrs: [7] }
        fars:
          - { id: 1, action: forward, to: core }
        urrs: [ { id: 7, triggers: [VOLTH], volume_threshold: 1000000 } ]
    expect: [ answer: {} ]
  - { do: { uplink: { session: 1, count: 3 } }, expect: [ packets: { count: 3 } ] }
  # Its operator's will, and all that comes of it, whenever that is.
  - do: { wait: 60s }
    expect:
      - parting: {}
      - report: { kind: USAR, is_last: true, usage: [ { urr: 7, trigger: TEBUR, ul: 300 } ] }
      - parting: { said_all: true, is_wanted: true }
";

/// An operator takes a UPF away: its SMF gets all usage. Until the SMF releases the association,
/// the operator is told of it, and no longer than he wants to wait.
#[test]
fn an_operator_asks_for_the_release_and_learns_who_is_left() {
    let running = played(CHAIN, RELEASED);
    running.until("packets went up", |status| steps(status) >= 3);
    let nobody = running.ask(&["upf", "release", "--smf", "10.4.0.9"]);
    let said = String::from_utf8_lossy(&nobody.stderr);
    assert!(said.contains("no association with 10.4.0.9"), "{said}");
    // It may not be waited for at all, and not in vain.
    let said = asked(&running, &["upf", "release", "--json"]);
    assert_eq!(said["asked"][0]["node_id"], "10.4.0.2", "{said}");
    assert_eq!(said["left"], Value::Null, "{said}");
    running.until("all usage was reported", |_| {
        let peers = asked(&running, &["upf", "peers", "--json"]);
        peers["peers"][0]["state"] == "to be released"
    });
    let until_over = |arguments: &[&str]| {
        let output = running.ask(arguments);
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), said["left"][0].clone())
    };
    let (code, left) = until_over(&["upf", "release", "--within", "2s", "--wait", "--json"]);
    assert_eq!(code, Some(1));
    assert_eq!(left["state"], "to be released", "{left}");
    assert_eq!(left["sessions"], 0, "{left}");
    running.stop();
}

/// As behind a reboot: nothing is left of the chain but the file of its sessions.
#[test]
fn a_snapshot_keeps_sessions_where_nothing_else_is_left() {
    let kept = tempfile::tempdir().unwrap();
    let file = kept.path().join("sessions");
    let snapshot = format!(
        "    snapshot: {{ file: {}, every: 1s }}\nlinks:",
        file.display()
    );
    let chain = CHAIN.replace("links:", &snapshot);
    let (up, down) = SCENARIO.split_once(KILLED).unwrap();
    let (head, _) = up.split_once("  - { do: associate").unwrap();
    let first = played(&chain, &format!("{up}  - {{ do: {{ wait: 3600s }} }}\n"));
    first.until("packets went up", |status| steps(status) >= 3);
    // The second one was begun behind them.
    for _ in 0..2 {
        let _ = std::fs::remove_file(&file);
        first.until("the file is written", |_| file.exists());
    }
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else reads it");
    first.stop();
    let down = down.replace("session: 1,", "session: 1, ue: 10.45.0.1,");
    let second = played(&chain, &format!("{head}{down}"));
    second.until("packets went down", |status| steps(status) >= 1);
    let sessions = asked(&second, &["upf", "sessions", "--json"]);
    assert_eq!(sessions["count"], 1, "{sessions}");
    let seid = sessions["sessions"][0]["seid"].to_string();
    let session = asked(&second, &["upf", "session", "--seid", &seid, "--json"]);
    let urr = &session["urrs"][0];
    assert_eq!(
        (&urr["ul_packets"], &urr["dl_packets"]),
        (&3.into(), &2.into()),
        "{session}"
    );
    let peers = asked(&second, &["upf", "peers", "--json"]);
    assert_eq!(peers["peers"][0]["node_id"], "10.4.0.2", "{peers}");
    second.stop();
}

/// A trace goes on with the successor of a UPF that was killed; other programs read its file.
#[test]
fn a_trace_outlives_the_upf_that_it_began_with() {
    let running = played(CHAIN, SCENARIO);
    let file = running.dir.path().join("session.pcapng");
    let before = running.until("packets went up", |status| steps(status) >= 3);
    let mut command = running.command(&["upf", "trace", "--ue", "10.45.0.1", "--records", "4"]);
    command.arg("--write").arg(&file);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let begun = lines.next().unwrap().unwrap();
    assert!(
        begun.starts_with("session ") && begun.ends_with("UE 10.45.0.1"),
        "{begun}"
    );
    assert!(support::signal(&before, "upf", Signal::KILL));
    let lines: Vec<_> = lines.map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && errors.contains("successor"),
        "{errors}"
    );
    // Two packets down, each as it came and as it left.
    assert_eq!(lines.len(), 5, "{lines:?}");
    let came = [" in  n6 ", "PDR 2, sent by n3"];
    assert!(came.iter().all(|word| lines[0].contains(word)), "{lines:?}");
    let left = [" out n3 ", "PDR 2, as it leaves"];
    assert!(left.iter().all(|word| lines[1].contains(word)), "{lines:?}");
    assert_eq!(lines[4], "4 records, 0 lost; ended by records");
    let again = running.ask(&["upf", "trace", "--ue", "10.45.0.9"]);
    assert!(
        String::from_utf8_lossy(&again.stderr).contains("no session has the UE address 10.45.0.9")
    );
    let path = file.to_str().unwrap();
    let again = running.ask(&["upf", "trace", "--ue", "10.45.0.1", "--write", path]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("--force"));
    seen_by_tshark(&file);
    running.stop();
}

/// The file's interfaces, protocols, ways and comments by tshark.
fn seen_by_tshark(file: &Path) {
    if !has_tshark("a_trace_outlives_the_upf_that_it_began_with") {
        return;
    }
    assert_eq!(complaints(file), "");
    let mut tshark = Command::new("tshark");
    tshark
        .arg("-r")
        .arg(file)
        .args(["-T", "fields", "-E", "separator=;"]);
    for field in [
        "frame.interface_name",
        "frame.protocols",
        "frame.packet_flags",
        "frame.comment",
    ] {
        tshark.args(["-e", field]);
    }
    let seen = String::from_utf8(tshark.output().unwrap().stdout).unwrap();
    let lines: Vec<_> = seen.lines().collect();
    assert_eq!(lines.len(), 4, "{seen}");
    assert!(lines[0].starts_with("n6;eth:ethertype:ip:udp"), "{seen}");
    assert!(
        lines[0].ends_with(";0x00000001;PDR 2, sent by n3"),
        "{seen}"
    );
    assert!(
        lines[1].starts_with("n3;eth:ethertype:ip:udp:gtp:ip:udp"),
        "{seen}"
    );
    assert!(
        lines[1].ends_with(";0x00000002;PDR 2, as it leaves"),
        "{seen}"
    );
}

/// A UPF of two shards: sessions in both, and answers of each by its name.
#[test]
fn a_sharded_upf_answers_by_shard() {
    let mut scenario = SCENARIO.split("  - do:").next().unwrap().to_owned();
    for session in 1..=8 {
        scenario += &format!(
            "  - do:
      establish:
        session: {session}
        pdrs:
          - {{ id: 1, precedence: 9, source: access, choose_teid: true, choose_ue: true,
              far: 1 }}
        fars: [ {{ id: 1, action: forward, to: core }} ]
    expect: [ answer: {{}} ]
  - {{ do: {{ uplink: {{ session: {session} }} }}, expect: [ packets: {{}} ] }}
"
        );
    }
    scenario += "  - { do: { wait: 3600s } }\n";
    let chain = CHAIN.replace("    type: upf\n", "    type: upf\n    shards: 2\n");
    let running = played(&chain, &scenario);
    running.until("packets of all sessions went up", |status| {
        steps(status) >= 17
    });
    let sessions = asked(&running, &["upf", "sessions", "--json"]);
    let count = |shard: &str| sessions[shard]["count"].as_u64().unwrap();
    let counts = [count("upf/0"), count("upf/1")];
    assert_eq!(counts.iter().sum::<u64>(), 8, "{sessions}");
    assert!(counts.iter().all(|count| *count > 0), "{sessions}");
    // Whichever shard has the session traces it.
    for shard in ["upf/0", "upf/1"] {
        let one = &sessions[shard]["sessions"][0];
        let (seid, ue) = (one["seid"].to_string(), one["ue_v4"].as_str().unwrap());
        for by in [["--seid", &seid], ["--ue", ue]] {
            let for_a_moment = ["upf", "trace", "--seconds", "0.01", "--json"];
            let traced = asked(&running, &[&for_a_moment[..], &by[..]].concat());
            assert_eq!(
                (&traced["seid"], &traced["ended_by"]),
                (&one["seid"], &"seconds".into())
            );
        }
    }
    let seid = &sessions["upf/1"]["sessions"][0]["seid"];
    let seid = seid.to_string();
    let output = running.ask(&["upf", "session", "--seid", &seid]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("upf/1\n"), "{said}");
    assert!(!said.contains("upf/0"), "{said}");
    running.stop();
}

#[test]
fn the_command_plays_scenarios_and_says_which_step_went_wrong() {
    let play = |path: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_catena"));
        command
            .args(["upf", "smf", "--json"])
            .arg(path)
            .output()
            .unwrap()
    };
    let right = play(&scenarios().join("quota.yaml"));
    assert!(
        right.status.success(),
        "{}",
        String::from_utf8_lossy(&right.stderr)
    );
    let said: Value = serde_json::from_slice(&right.stdout).unwrap();
    assert_eq!(said["counters"]["quota_exhausted"], 2, "{said}");
    let dir = tempfile::tempdir().unwrap();
    let wrong = dir.path().join("wrong.yaml");
    let text = std::fs::read_to_string(scenarios().join("quota.yaml")).unwrap();
    std::fs::write(
        &wrong,
        text.replace("count: 5,", "count: 4,")
            .replace("count: 5 }", "count: 4 }"),
    )
    .unwrap();
    let failed = play(&wrong);
    assert_eq!(failed.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&failed.stderr);
    assert!(
        errors.contains("step 3: nobody expected packet 5"),
        "{errors}"
    );
    std::fs::write(&wrong, "about: 7\nsteps: 9\n").unwrap();
    assert_eq!(play(&wrong).status.code(), Some(2));
}

/// Scenarios that send what is wrong: tshark would be right to complain, but not of what comes
/// back.
const WRONG: [&str; 8] = [
    "malformed",
    "malformed-ies",
    "contradictions",
    "refusals",
    "corrupt-gtpu",
    "regressions-malformed",
    "regressions-accepted",
    "own-addresses",
];

/// What the UPF itself says in these.
const OWN: &str =
    "(pfcp && ip.src == 10.4.0.1) || (gtp && gtp.message != 0xff && ip.src == 10.3.0.1)";

fn capture(scenario: &Path, file: &Path) {
    let mut catena = Command::new(env!("CARGO_BIN_EXE_catena"));
    catena
        .args(["upf", "smf", "--write"])
        .arg(file)
        .arg(scenario);
    let output = catena.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", scenario.display());
}

#[test]
fn tshark_finds_nothing_wrong_with_what_scenarios_exchange() {
    if !has_tshark("tshark_finds_nothing_wrong_with_what_scenarios_exchange") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut found = String::new();
    let mut count = 0;
    for entry in std::fs::read_dir(scenarios()).unwrap().flatten() {
        let path = entry.path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let file = dir.path().join(format!("{name}.pcapng"));
        capture(&path, &file);
        let complaints = match WRONG.contains(&name.as_str()) {
            true => complaints_of(&file, OWN),
            false => complaints(&file),
        };
        // That one has N4 and its tunnels over IPv6.
        assert!(frames(&file, OWN) > 0 || name == "ipv6-outside", "{name}");
        if !complaints.is_empty() {
            found += &format!("{name}:\n{complaints}");
        }
        count += 1;
    }
    assert!(count >= 20, "{count}");
    assert_eq!(found, "");
    // It would have been found.
    assert_ne!(complaints(&dir.path().join("malformed.pcapng")), "");
}

#[test]
fn what_was_recorded_is_not_overwritten_unasked_and_udp_needs_an_address_of_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("first.pcap");
    capture(&scenarios().join("first.yaml"), &file);
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_catena"));
        command.args(["upf", "smf"]).args(arguments);
        command.arg(scenarios().join("first.yaml"));
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), errors)
    };
    let (code, errors) = run(&["--write", &file.display().to_string()]);
    assert!(code == Some(2) && errors.contains("--force"), "{errors}");
    let (code, errors) = run(&["--n4", "127.0.0.1", "--smf", "192.0.2.1"]);
    assert!(code == Some(1), "{errors}");
    assert!(
        errors.contains("cannot send from 192.0.2.1:8805"),
        "{errors}"
    );
}

/// An SMF of others, as they have released it.
#[test]
fn pfcpsim_establishes_modifies_and_deletes_sessions() {
    let name = "pfcpsim_establishes_modifies_and_deletes_sessions";
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pfcpsim = root.join("target/oracles/pfcpsim");
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {name}: not root");
        return;
    }
    if !pfcpsim.join("pfcpctl").exists() {
        println!("SKIP {name}: no pfcpsim; run tests/setup/go.sh");
        return;
    }
    let results = tempfile::tempdir().unwrap();
    let output = Command::new(root.join("crates/cli/tests/pfcpsim/run.sh"))
        .arg(results.path())
        .env("CATENA", env!("CARGO_BIN_EXE_catena"))
        .env("PFCPSIM", pfcpsim)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    let json = |name: &str| {
        let text = std::fs::read_to_string(results.path().join(name)).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let sessions = json("sessions.json");
    let ues = sessions["sessions"].as_array().unwrap().iter();
    let ues: Vec<&str> = ues.filter_map(|one| one["ue_v4"].as_str()).collect();
    let wanted: Vec<String> = (1..=5).map(|ue| format!("10.45.0.{ue}")).collect();
    assert_eq!(ues, wanted);
    let counters = json("counters.json");
    let mut nodes = counters["nodes"].as_array().unwrap().iter();
    let upf = nodes.find(|node| node["name"] == "upf").unwrap();
    let count = |name: &str| number(&upf["counters"][name]);
    assert_eq!(count("sessions_established"), 5, "{upf}");
    assert_eq!(count("sessions_modified"), 10, "{upf}");
    assert_eq!(count("sessions_deleted"), 5, "{upf}");
    // It releases the association of a node 0.0.0.0, which there is not.
    assert_eq!(count("pfcp_refused"), 1, "{upf}");
    if has_tshark(name) {
        assert_nothing_is_wrong(results.path(), "n4", 8805);
        // Requests to associate and not to, 5 to establish, 10 to modify, 5 to delete; and answers.
        let messages = frames(&results.path().join("n4.pcap"), "pfcp && pfcp.msg_type > 2");
        assert_eq!(messages, 2 * (2 + 5 + 10 + 5));
    }
}
