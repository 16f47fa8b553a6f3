//! A supervisor that does not answer keeps nobody waiting for ever, and is shown.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::harness::{Ended, Place};
use super::running::{await_packets, generating};

/// A client has ended by itself, `patience` after it began; the rest is for a loaded machine.
#[track_caller]
fn assert_gave_up(ended: &Ended, took: Duration, patience: u64) {
    let said = &ended.assert_code(1).stderr;
    let wanted = format!("chain \"still\" did not answer within {patience}s");
    assert!(said.contains(&wanted), "{said}");
    assert!(took < Duration::from_secs(patience + 60), "{took:?}");
}

/// They ask at the same time; the longest patience is that of `stop`: two minutes.
#[test]
fn no_client_waits_for_ever_for_a_supervisor_that_does_not_answer() {
    let place = Place::new();
    let (still_file, alive) = (generating(&place, "still"), generating(&place, "alive"));
    // It runs for two minutes, beside other tests.
    let text = std::fs::read_to_string(place.path(&still_file)).unwrap();
    let text = text.replace("20kpps", "1kpps");
    place.write(
        &still_file,
        text.replace("mode: process", "mode: process, wait: sleep"),
    );
    let still = place.start("still", &[&still_file]);
    let alive = place.start("alive", &[&alive]);
    still.signal(Signal::STOP);
    lists_it_as_silent(&place);
    // The other one has not noticed.
    await_packets(&place, "alive");
    place.catena(&["stop", "alive"]).assert_code(0);
    alive.end().assert_code(0);
    let clients: [(&[&str], u64); 6] = [
        (&["status", "still"], 10),
        (&["status", "--json", "still"], 10),
        (&["top", "--once", "still"], 10),
        (&["plan", "still.yaml"], 10),
        (&["nf", "control", "still", "tally", "{}"], 10),
        (&["stop", "still"], 120),
    ];
    std::thread::scope(|scope| {
        for (client, patience) in clients {
            let place = &place;
            scope.spawn(move || {
                let began = Instant::now();
                let ended = place.catena(client);
                assert_gave_up(&ended, began.elapsed(), patience);
            });
        }
    });
    // It hears late, and does what it was asked to.
    still.signal(Signal::CONT);
    still.end().assert_code(0);
    place.assert_nothing_left();
}

fn lists_it_as_silent(place: &Place) {
    let began = Instant::now();
    let list = place.catena(&["list"]);
    // It is given 3 s; a minute is for a loaded machine to answer for the other.
    assert!(began.elapsed() < Duration::from_secs(60));
    let said = &list.assert_code(0).stdout;
    assert!(
        said.contains("still: it did not answer within 3s"),
        "{said}"
    );
    assert!(said.contains("\nalive "), "{said}");
    let listed = place.catena(&["list", "--json"]).json();
    let silent = |chain: &&Value| chain["silent"].is_string() && chain["pid"].is_null();
    let chains = listed["chains"].as_array().unwrap();
    let silent: Vec<_> = chains.iter().filter(silent).collect();
    assert_eq!(silent.len(), 1, "{listed}");
    assert_eq!(silent[0]["chain"], "still");
}
