//! The binary of a running chain is replaced: sessions, counters and the account of held packets go
//! on, in a worker that is killed and in one of the new binary.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::support::{Running, built, counter, node, number, worker};
use super::{CHAIN, KILLED, SCENARIO, asked, steps};

/// What comes behind the packets that go up: some are held; behind an upgrade others are held, and
/// leave.
const HELD: &str =
    "  - do: { modify: { session: 1, update_fars: [ { id: 2, action: buffer_notify } ] } }
    expect: [ answer: {} ]
  - { do: { downlink: { session: 1, count: 3 } }, expect: [ report: { kind: DLDR, pdr: 2 } ] }
  - { do: { wait: 15s } }
  - { do: { downlink: { session: 1, count: 2 } }, expect: [ report: { kind: DLDR, pdr: 2 } ] }
  - do:
      modify:
        session: 1
        update_fars: [ { id: 2, action: forward, to: access, teid: 0x303 } ]
    expect: [ answer: {}, packets: { count: 2, first: 7, teid: 0x303 } ]
  - { do: { uplink: { session: 1 } }, expect: [ packets: {} ] }
  - { do: { wait: 3600s } }
";

/// Puts another file in the place of a binary that may run, as a package manager does.
fn install(program: &Path) {
    let new = program.with_extension("new");
    // By another process: one that this one has open for writing cannot be run.
    let copied = Command::new("cp").arg(built()).arg(&new).status();
    assert!(copied.unwrap().success());
    std::fs::rename(&new, program).unwrap();
}

/// Whether a process runs what lies at a path now; none where nobody may look.
fn runs(pid: u64, program: &Path) -> Option<bool> {
    use std::os::unix::fs::MetadataExt;
    let runs = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?;
    Some(runs.ino() == std::fs::metadata(program).unwrap().ino())
}

/// What must outlive an upgrade: the session, and what was counted.
fn kept(running: &Running, status: &Value) -> Value {
    let sessions = asked(running, &["upf", "sessions", "--json"]);
    let seid = sessions["sessions"][0]["seid"].to_string();
    let session = asked(running, &["upf", "session", "--seid", &seid, "--json"]);
    let names = [
        "sessions",
        "sessions_established",
        "sessions_modified",
        "reports",
        "buffer_flushed",
        "buffer_discards",
        "buffer_expiries",
        "buffer_refused",
    ];
    let counters = names.map(|name| counter(status, "upf", name));
    json!([sessions, session, counters])
}

/// Kills the UPF; the status once a successor runs and has told what it has: it runs before that.
fn succeeded(running: &Running, status: &Value) -> Value {
    running.revive(status, &["upf"]);
    running.until("it tells what it has", |now| {
        worker(now, "upf")["state"] == "running" && counter(now, "upf", "sessions") == 1
    })
}

#[test]
fn an_upgrade_of_the_binary_keeps_sessions_counters_and_the_account_of_held_packets() {
    let mut running = Running::idle("upf");
    let program = running.dir.path().join("catena");
    let (up, _) = SCENARIO.split_once(KILLED).unwrap();
    let scenario = format!("{up}{HELD}");
    std::fs::write(running.dir.path().join("scenario.yaml"), scenario).unwrap();
    install(&program);
    running.use_program(program.clone());
    running.again(&CHAIN.replace("mode: process", "mode: process, orphan: keep"));
    let before = running.until("packets are held", |status| {
        steps(status) >= 5 && counter(status, "upf", "buffered") == 3
    });
    let pid = |status: &Value| number(&worker(status, "upf")["pid"]);
    assert_ne!(runs(pid(&before), &program), Some(false));
    let kept_before = kept(&running, &before);
    assert_eq!(kept_before[0]["count"], 1, "{kept_before:#}");

    // The file is another one: who runs already goes on by its own, and so does a successor.
    install(&program);
    let after_kill = succeeded(&running, &before);
    assert_ne!(runs(pid(&after_kill), &program), Some(true));
    assert_eq!(kept(&running, &after_kill), kept_before);

    // Another supervisor, of the new binary, and workers of it.
    running.kill();
    running.adopt();
    assert_eq!(runs(running.pid().into(), &program), Some(true));
    let adopted = running.until("it answers", |status| {
        worker(status, "upf")["state"] == "running"
    });
    let upgraded = succeeded(&running, &adopted);
    assert_ne!(runs(pid(&upgraded), &program), Some(false));
    assert_eq!(kept(&running, &upgraded), kept_before);
    assert_eq!(steps(&upgraded), 5, "the scenario went on too early");

    let after = running.until("packets went both ways", |status| steps(status) >= 9);
    let kept_after = kept(&running, &after);
    let of_session = |of: &Value, field: &str| of[0]["sessions"][0][field].clone();
    for field in ["seid", "cp_seid", "ue_v4", "peer"] {
        let (was, is) = (
            of_session(&kept_before, field),
            of_session(&kept_after, field),
        );
        assert_eq!(was, is, "{field}");
    }
    let urr = &kept_after[1]["urrs"][0];
    let counted = [
        of_session(&kept_after, "ul_packets"),
        of_session(&kept_after, "dl_packets"),
        urr["ul_packets"].clone(),
        urr["dl_packets"].clone(),
    ];
    assert_eq!(
        counted,
        [json!(4), json!(2), json!(4), json!(2)],
        "{kept_after:#}"
    );
    // Of five that were stored two have left; three died with who held them.
    let upf = node(&after, "upf");
    let account = [
        counter(&after, "upf", "buffer_flushed"),
        number(&upf["killed"]),
        counter(&after, "upf", "buffered"),
        counter(&after, "upf", "buffer_discards") + counter(&after, "upf", "buffer_expiries"),
    ];
    assert_eq!(account, [2, 3, 0, 0], "{upf:#}");
    assert_eq!(counter(&after, "upf", "sessions_modified"), 2, "{upf:#}");
    running.stop();
}
