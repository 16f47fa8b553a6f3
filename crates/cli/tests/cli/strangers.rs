//! Anybody who may connect says anything: bytes at random, requests that are cut or damaged, far
//! too long ones. A running chain answers or hangs up, and forwards as before.
//!
//! `CATENA_STRANGERS` says how many there are at each socket, `CATENA_SEED` what they say.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use catena_engine::protocol::{FromWorker, VERSION};
use catena_measure::stats::random::Random;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, shutdown, socket_with,
};
use serde_json::{Value, json};

use super::harness::{Place, assert_conserved, named, until};
use super::joined::Joined;
use super::running::{await_packets, generating};

/// How long an answer may take, or the end of a connection: a loaded machine's patience.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest record that is sent at once: more than one message may have.
const RECORD_BYTES: usize = 160 << 10;

fn asked(name: &str, default: u64) -> u64 {
    let asked = std::env::var(name).ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Bytes at random.
fn noise(random: &mut Random, len_max: u64) -> Vec<u8> {
    let len = random.below(len_max);
    (0..len).map(|_| random.below(256) as u8).collect()
}

/// What a stranger says: noise, or something real that is cut, damaged, or followed by much else.
/// Nothing here is what it was.
fn damaged(random: &mut Random, real: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = real[random.below(real.len() as u64) as usize].clone();
    let at = random.below(bytes.len() as u64) as usize;
    match random.below(5) {
        0 => return noise(random, 2000),
        1 => bytes.truncate(at),
        2 => bytes[at] ^= 1 << random.below(8),
        3 => drop(bytes.splice(at..at, noise(random, 40))),
        _ => {
            // Deeper than any parser of ours goes down, or a text that never ends.
            let piece: &[u8] =
                [&b"["[..], b"{\"a\":", b"9", b"\"", b"\0"][random.below(5) as usize];
            let count = random.below(40_000 / piece.len() as u64) as usize;
            bytes.splice(at..at, piece.repeat(count));
        }
    }
    bytes
}

fn dial(path: &Path) -> OwnedFd {
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    for side in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, side, Some(PATIENCE)).unwrap();
    }
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

/// Says that; gives what comes back until the other side hangs up, which it must.
fn told(path: &Path, bytes: &[u8]) -> Vec<u8> {
    let socket = dial(path);
    for record in bytes.chunks(RECORD_BYTES) {
        match send(&socket, record, SendFlags::NOSIGNAL) {
            Ok(_) => {}
            // It has heard enough.
            Err(Errno::PIPE | Errno::CONNRESET) => break,
            Err(error) => panic!("it neither hears nor hangs up: {error}"),
        }
    }
    let _ = shutdown(&socket, rustix::net::Shutdown::Write);
    let (mut text, mut record) = (Vec::new(), vec![0; RECORD_BYTES]);
    loop {
        match recv(&socket, &mut record[..], RecvFlags::empty()) {
            Ok((0, _)) | Err(Errno::CONNRESET) => return text,
            Ok((count, _)) => text.extend_from_slice(&record[..count]),
            Err(error) => panic!("it neither answers nor hangs up: {error}"),
        }
    }
}

/// The same over TCP.
fn told_by_tcp(address: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    // It may hang up, or cut its answer off, before all is said.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut text = Vec::new();
    match stream.read_to_end(&mut text) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            panic!("it neither answers nor hangs up: {error}")
        }
        _ => text,
    }
}

/// What its clients ask of a chain, but for what ends or changes it.
fn requests() -> Vec<Vec<u8>> {
    let source = json!({ "text": "name: loud\nports: {}\n", "dir": "/", "mode": null });
    let wish = json!({ "source": source, "discards": false });
    let requests = [
        json!("status"),
        json!("drift"),
        json!("probe_map"),
        json!({ "probe_page": { "worker": 0 } }),
        json!({ "plan": wish }),
        json!({ "control": { "node": "tally", "request": { "show": "counts" } } }),
    ];
    requests
        .map(|request| request.to_string().into_bytes())
        .into()
}

/// What a worker says first.
fn hellos() -> Vec<Vec<u8>> {
    let hello = FromWorker::Hello {
        version: VERSION,
        token: "0123456789abcdef".to_owned(),
    };
    vec![serde_json::to_vec(&hello).unwrap()]
}

fn scrapes() -> Vec<Vec<u8>> {
    let paths = ["/metrics", "/healthz", "/metrics?x=%00"];
    let scrape = |path: &&str| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes();
    paths.iter().map(scrape).collect()
}

/// Many say something, and after each hundredth the chain must have forwarded more.
fn many(place: &Place, count: u64, mut say: impl FnMut()) {
    for one in 0..count {
        say();
        if one % 100 == 0 {
            let before = sent(place);
            until("packets go on", || (sent(place) > before).then_some(()));
        }
    }
}

fn status(place: &Place) -> Value {
    place
        .catena(&["status", "--json", "loud"])
        .assert_code(0)
        .json()
}

fn sent(place: &Place) -> u64 {
    let status = status(place);
    assert_eq!(status["deaths"], 0, "{status:#}");
    named(&status["nodes"], "out")["tx_packets"]
        .as_u64()
        .unwrap()
}

#[test]
fn strangers_at_every_socket_are_answered_or_hung_up_on_and_packets_go_on() {
    let place = Place::new();
    let file = generating(&place, "loud");
    // One worker joins, so that there is somebody at the workers' socket.
    let text = std::fs::read_to_string(place.path(&file)).unwrap();
    let text = text.replace("{ type: count }", "{ type: count, mode: container }");
    place.write(&file, text);
    let mut command = place.command(&[] as &[&str]);
    command.stdin(Stdio::null());
    let mut tally = Joined::start(command, "runtime/loud/workers", &["tally"]);
    let environment = [("CATENA_CONTAINER_ENGINE", "join")];
    let running = place.start_with(
        "loud",
        &["--json", "--metrics", "127.0.0.1:0", &file],
        &environment,
    );
    await_packets(&place, "loud");

    let mut random = Random::new(asked("CATENA_SEED", 0x0bad_cafe));
    let count = asked("CATENA_STRANGERS", 1500);
    let folder = place.runtime().join("loud");
    let (control, workers) = (
        folder.join("control.sock"),
        folder.join("workers/worker.sock"),
    );
    let supervisor = status(&place)["pid"].clone();
    let open = || {
        std::fs::read_dir(format!("/proc/{supervisor}/fd"))
            .unwrap()
            .count()
    };
    let open_before = open();
    let mut answers = 0;
    many(&place, count, || {
        let answer = told(&control, &damaged(&mut random, &requests()));
        answers += u64::from(serde_json::from_slice::<Value>(&answer).is_ok());
    });
    assert!(
        answers * 10 > count * 9,
        "{answers} of {count} were answered"
    );
    many(&place, count, || {
        assert!(told(&workers, &damaged(&mut random, &hellos())).is_empty());
    });
    let log = place.log();
    let url = log
        .lines()
        .find_map(|line| line.strip_prefix("metrics: http://"));
    let address = url.unwrap().split('/').next().unwrap().to_owned();
    many(&place, count, || {
        let answer = told_by_tcp(&address, &damaged(&mut random, &scrapes()));
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 "),
            "{answer:?}"
        );
    });
    // More than a request may have, of what looks like one.
    let long = [&b"{\"control\": {\"node\": \""[..], &b"x".repeat(9 << 20)].concat();
    told(&control, &long);
    told(&workers, &long);
    told_by_tcp(&address, &long);

    // All is as it was, and nobody's descriptor is kept.
    until("they are let go", || (open() <= open_before).then_some(()));
    let clean = place.catena(&["nf", "control", "loud", "tally", r#"{"show": "counts"}"#]);
    assert!(clean.assert_code(0).json()["packets"].as_u64() > Some(0));
    place.catena(&["stop", "loud"]).assert_code(0);
    let status = running.end().assert_code(0).json();
    assert_conserved(&status);
    assert_eq!(status["deaths"], 0);
    for wrong in ["lost", "duplicated", "reordered", "corrupted"] {
        let out = named(&status["nodes"], "out");
        assert_eq!(out["counters"][wrong], 0, "{out:#}");
    }
    until("the joined one ends", || tally.0.try_wait().unwrap());
    place.assert_nothing_left();
}
