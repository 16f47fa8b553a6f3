//! A chain as a service: what the service manager is told, by a socket that the test holds.

use std::os::unix::net::UnixDatagram;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::harness::{Place, named, until};
use super::running::{await_packets, generating};

/// The next line from the service that begins so.
fn hear(manager: &UnixDatagram, start: &str) -> String {
    let mut bytes = [0; 512];
    until(start, || {
        let count = manager.recv(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
        text.starts_with(start).then_some(text)
    })
}

/// A chain run as by a service manager that wants signs of life, and what this one hears.
fn managed(place: &Place, file: &str) -> (UnixDatagram, Child) {
    let manager = UnixDatagram::bind(place.path("notify")).unwrap();
    manager
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let mut command = place.command(&["run", "--quiet", file]);
    command.env("NOTIFY_SOCKET", place.path("notify"));
    command.env("WATCHDOG_USEC", "600000");
    command.stdout(std::process::Stdio::null());
    let child = command.spawn().unwrap();
    (manager, child)
}

#[test]
fn the_manager_is_told_when_it_is_ready_alive_and_stopping() {
    let place = Place::new();
    let file = generating(&place, "gen");
    let (manager, mut child) = managed(&place, &file);
    let ready = hear(&manager, "READY=1\n");
    assert!(
        ready.contains(&format!("\nMAINPID={}\n", child.id())),
        "{ready}"
    );
    // Who is told that it is ready can use it at once.
    place.catena(&["status", "gen"]).assert_code(0);

    let begun = Instant::now();
    for _ in 0..4 {
        hear(&manager, "WATCHDOG=1\n");
    }
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );

    // A supervisor that hangs gives no sign of life.
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).unwrap();
    let stat = format!("/proc/{}/stat", child.id());
    until("it is stopped", || {
        std::fs::read_to_string(&stat)
            .unwrap()
            .contains(") T ")
            .then_some(())
    });
    let mut bytes = [0; 512];
    while manager.recv(&mut bytes).is_ok() {}
    manager
        .set_read_timeout(Some(Duration::from_millis(700)))
        .unwrap();
    assert!(
        manager.recv(&mut bytes).is_err(),
        "{:?}",
        String::from_utf8_lossy(&bytes)
    );
    kill_process(pid, Signal::CONT).unwrap();
    hear(&manager, "WATCHDOG=1\n");

    kill_process(pid, Signal::TERM).unwrap();
    hear(&manager, "STOPPING=1\n");
    assert!(child.wait().unwrap().success());
    place.assert_nothing_left();
}

/// The manager would end the supervisor, and all that it was about to do, in the middle of it.
#[test]
fn the_manager_is_told_that_it_is_alive_during_a_change_that_takes_long() {
    let place = Place::new();
    let file = generating(&place, "slow");
    let (manager, mut child) = managed(&place, &file);
    hear(&manager, "READY=1\n");
    await_packets(&place, "slow");

    // A worker that is asked to make something new and does not answer holds the change up.
    let status = place
        .catena(&["status", "--json", "slow"])
        .assert_code(0)
        .json();
    let worker = named(&status["workers"], "swap")["pid"].as_i64().unwrap();
    let worker = Pid::from_raw(i32::try_from(worker).unwrap()).unwrap();
    kill_process(worker, Signal::STOP).unwrap();
    let text = std::fs::read_to_string(place.path(&file)).unwrap();
    place.write(
        "other.yaml",
        text.replace("swap: { type: macswap }", "swap: { type: count }"),
    );
    let begun = Instant::now();
    let mut change = place.command(&["apply", "other.yaml"]);
    let mut change = change.stdout(std::process::Stdio::null()).spawn().unwrap();
    let (mut last, mut longest) = (begun, Duration::ZERO);
    let mut bytes = [0; 512];
    while change.try_wait().unwrap().is_none() {
        if manager.recv(&mut bytes).is_ok() {
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
    }
    longest = longest.max(last.elapsed());
    let lasted = begun.elapsed();
    assert!(
        lasted > Duration::from_secs(3),
        "it was no long change: {lasted:?}"
    );
    assert!(
        longest < lasted / 2,
        "{longest:?} of {lasted:?} without a sign of life"
    );

    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    place.assert_nothing_left();
}
