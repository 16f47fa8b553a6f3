//! The Debian package under systemd itself, which is the first process of a root folder of its
//! own: the commands of `docs/guide/install.md` as they stand there, then a supervisor that dies
//! and one that hangs.

use std::fs::File;
use std::process::Command;

use serde_json::Value;

use super::harness::repository;
use super::packages::{Root, STAY, enters, package, said};

/// The lines of the guide that call this.
fn printed(start: &str) -> Vec<String> {
    let guide = std::fs::read_to_string(repository().join("docs/guide/install.md")).unwrap();
    let lines = guide.lines().filter(|line| line.starts_with(start));
    lines.map(str::to_owned).collect()
}

/// Why systemd cannot be had here.
fn lacks() -> Option<String> {
    let said = Command::new("/usr/lib/systemd/systemd")
        .arg("--version")
        .output();
    let version = said.ok().and_then(|output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split_whitespace().nth(1)?.parse::<u32>().ok()
    });
    let is_unified = std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    match version {
        None => Some("no systemd installed".to_owned()),
        Some(old) if old < 252 => Some(format!("systemd {old} has not all options")),
        Some(new) if new >= 256 && !is_unified => Some(format!(
            "systemd {new} runs with unified control groups only"
        )),
        Some(_) => enters().err(),
    }
}

/// Boots a machine with the package in it, runs a script beside its systemd, and gives the root
/// folder.
fn boot(script: &str) -> Root {
    let root = Root::new();
    root.install(&package(".deb").unwrap());
    std::fs::write(root.path("etc/catena/web.yaml"), STAY).unwrap();
    std::fs::write(root.path("script"), script).unwrap();
    let output = Command::new("bash")
        .arg(repository().join("crates/cli/tests/cli/systemd.sh"))
        .arg(root.path(""))
        .stdin(File::open(root.path("script")).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    root
}

/// What a command of the script wrote into a file of the root.
fn wrote(root: &Root, name: &str) -> String {
    std::fs::read_to_string(root.path(name)).unwrap()
}

fn status(root: &Root, name: &str) -> Value {
    serde_json::from_str(&wrote(root, name)).unwrap()
}

/// Shell functions of the scripts here.
const FUNCTIONS: &str = r#"
status() { sudo CATENA_RUNTIME_DIR=/run/catena catena status --json web; }
moves() { grep --quiet '"tx_packets": *[1-9]' <<< "$(status)"; }
shows() { sudo systemctl show --property "$1" catena@web; }
is() { [ "$(shows "$1")" = "$1=$2" ]; }
main() { shows MainPID; }
restarted() { ! is MainPID 0 && [ "$(main)" != "$1" ] && is ActiveState active; }
sunk() { status | tr ',' '\n' | sed -n 's/.*"verified": *//p' | head -n 1; }
goes_on() { [ "$(sunk)" -gt "$1" ]; }
"#;

#[test]
fn the_printed_commands_start_reload_and_stop_a_service() {
    const NAME: &str = "the_printed_commands_start_reload_and_stop_a_service";
    if let Some(why) = package(".deb").err().or_else(lacks) {
        return println!("SKIP {NAME}: {why}");
    }
    let [enable, reload, stop] = printed("sudo systemctl ").try_into().unwrap();
    let root = boot(&format!(
        r#"{FUNCTIONS}
        {enable}
        sudo systemctl is-enabled catena@web > "$root/enabled"
        await moves
        status > "$root/before"
        sed --in-place 's/type: count/type: macswap/' "$root/etc/catena/web.yaml"
        before=$(sunk)
        {reload}
        await goes_on "$before"
        status > "$root/after"
        {stop}
        shows Result > "$root/result"
        shows ActiveState > "$root/state"
        "#
    ));
    assert_eq!(wrote(&root, "enabled"), "enabled\n");
    let (before, after) = (status(&root, "before"), status(&root, "after"));
    assert_eq!(before["nodes"][2]["type"], "count", "{before}");
    assert_eq!(after["nodes"][2]["type"], "macswap", "{after}");
    assert_eq!(after["nodes"][1]["counters"]["lost"], 0, "{after}");
    assert!(before["pid"].is_u64(), "{before}");
    assert_eq!(before["pid"], after["pid"], "{after}");
    assert_eq!(wrote(&root, "result"), "Result=success\n");
    assert_eq!(wrote(&root, "state"), "ActiveState=inactive\n");
}

#[test]
fn a_service_whose_supervisor_dies_or_hangs_is_started_again() {
    const NAME: &str = "a_service_whose_supervisor_dies_or_hangs_is_started_again";
    if let Some(why) = package(".deb").err().or_else(lacks) {
        return println!("SKIP {NAME}: {why}");
    }
    // The same service with less patience.
    let root = boot(&format!(
        r#"{FUNCTIONS}
        mkdir --parents "$root/etc/systemd/system/catena@.service.d"
        printf '%s\n' '[Service]' WatchdogSec=6 TimeoutAbortSec=1 RestartSec=0 \
            > "$root/etc/systemd/system/catena@.service.d/short.conf"
        for signal in KILL STOP; do
            sudo systemctl start catena@web
            before=$(main)
            sudo systemctl kill --signal=$signal --kill-whom=main catena@web
            await restarted "$before"
            await moves
            sudo systemctl stop catena@web
        done
        shows Result > "$root/result"
        "#
    ));
    assert_eq!(wrote(&root, "result"), "Result=success\n");
}
