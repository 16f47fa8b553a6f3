//! The worker of a chain's ports is killed: its captures go on, and its counts are exact.

mod support;

use std::path::Path;

use catena_port::capture::CaptureReader;
use rustix::process::Signal;
use serde_json::Value;
use support::*;

fn chain(rate: &str, out: &str) -> String {
    format!(
        "
ports:
  in:  {{ generator: {{ rate: {rate}, size: 64 }} }}
  out: {out}
nfs:
  a: {{ type: macswap }}
links:
  - in -> a -> out
run: {{ mode: process, orphan: 60s }}
"
    )
}

fn link<'a>(status: &'a Value, name: &str) -> &'a Value {
    let mut links = status["links"].as_array().unwrap().iter();
    links.find(|link| link["name"] == name).unwrap()
}

fn drops(status: &Value, name: &str) -> u64 {
    let drops = node(status, name)["drops"].as_object().unwrap();
    drops.values().map(number).sum()
}

/// Kills the ports, and waits for packets to come out again.
fn kill_ports(chain: &Running) {
    let status = chain.until("they run", |status| {
        worker(status, "ports")["state"] == "running"
    });
    let before = epoch(&status, "ports");
    assert!(signal(&status, "ports", Signal::KILL));
    chain.until("others run", |status| runs_after(status, "ports", before));
    flows(chain);
}

/// Cursors tell what the counters page did not: what links have published was received, and what
/// they gave was sent or was in the port's hands.
#[test]
fn what_killed_ports_had_received_and_sent_is_known() {
    let chain = Running::start("ports-killed", &chain("500kpps", "{ sink: {} }"));
    flows(&chain);
    let mut random = seed();
    for _ in 0..20 {
        dither(&mut random, 5_000_000);
        kill_ports(&chain);
    }
    let end = chain.stop();
    assert_conserved(&end);
    let received = number(&node(&end, "in")["rx_packets"]);
    let published = number(&link(&end, "in -> a")["tx_packets"]);
    assert_eq!(received, published + drops(&end, "in"), "{end:#}");
    let out = node(&end, "out");
    let given = number(&link(&end, "a -> out")["rx_packets"]);
    let killed = number(&out["killed"]);
    let sent = number(&out["tx_packets"]);
    assert_eq!(sent + drops(&end, "out") + killed, given, "{end:#}");
    eprintln!("  {killed} of {given} in the hands of 20 killed ports");
    assert!(killed <= 20 * 256, "a burst of each life: {end:#}");
}

/// Records of a capture, read to its end without damage.
fn records(path: &Path) -> Vec<(u64, usize)> {
    let mut reader = CaptureReader::open(path).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next().unwrap_or_else(|error| panic!("{error}")) {
        records.push((record.timestamp_ns, record.data.len()));
    }
    records
}

/// As [`records`], of a file that is being written: the last record may not be whole.
fn records_so_far(path: &Path) -> Vec<(u64, usize)> {
    let copy = path.with_extension("copy");
    std::fs::copy(path, &copy).unwrap();
    let mut reader = CaptureReader::open(&copy).unwrap();
    let mut records = Vec::new();
    while let Ok(Some(record)) = reader.next() {
        records.push((record.timestamp_ns, record.data.len()));
    }
    records
}

#[test]
fn captures_go_on_behind_what_was_written() {
    let port = |snaplen: u32| {
        chain(
            "200kpps",
            &format!(
                "\n    pcap: {{ write: out.pcap, snaplen: {snaplen} }}\n    wrap: [ {{ capture: {{ \
                 file: both.pcapng, direction: tx }} }}, {{ trace: {{ file: lines, count: 5 }} }} ]"
            ),
        )
    };
    let mut chain = Running::start("captures", &port(60));
    let files = ["out.pcap", "both.pcapng"].map(|file| chain.dir.path().join(file));
    flows(&chain);
    let mut random = seed();
    let mut had = [Vec::new(), Vec::new()];
    for round in 0..12 {
        dither(&mut random, 30_000_000);
        match round {
            // Other settings, of the port that is writing.
            4 | 8 => {
                let text = format!("name: captures\n{}", port(50 + round));
                std::fs::write(chain.dir.path().join("chain.yaml"), text).unwrap();
                let file = chain.dir.path().join("chain.yaml");
                let applied = chain.ask(&["apply", file.to_str().unwrap()]);
                assert!(applied.status.success(), "{applied:?}");
                flows(&chain);
            }
            // Another supervisor, and ports that die while there is none.
            6 => {
                let status = chain.until("status", |_| true);
                chain.kill();
                signal(&status, "ports", Signal::KILL);
                chain.adopt();
                flows(&chain);
            }
            _ => kill_ports(&chain),
        }
        for (file, had) in files.iter().zip(&mut had) {
            let now = records_so_far(file);
            let kept = now.len().min(had.len());
            assert!(
                now[..kept] == had[..kept] && now.len() >= had.len(),
                "round {round}"
            );
            *had = now;
        }
    }
    let asked = chain.ask(&["stop", "captures"]);
    assert!(asked.status.success(), "{asked:?}");
    chain.reap();
    for (file, had) in files.iter().zip(&had) {
        let all = records(file);
        assert!(
            all.len() >= had.len() && all[..had.len()] == had[..],
            "{file:?}"
        );
        eprintln!("  {} records in {}", all.len(), file.display());
    }
    let lines = std::fs::read_to_string(chain.dir.path().join("lines")).unwrap();
    assert!(lines.lines().count() > 5, "lines of several lives: {lines}");
}
