//! Chains over capture files: good ones, wrong ones, damaged ones, full disks.

use std::path::PathBuf;

use super::harness::{Place, assert_conserved, drops, named, pcap_records, repository};

/// Records of the trace that chains/hello.yaml reads.
const WEB_RECORDS: usize = 911;

fn web() -> Vec<u8> {
    std::fs::read(repository().join("chains/traces/web.pcap")).unwrap()
}

/// `in -> swap -> out` over `in.pcap`, into `out`.
fn chain(place: &Place, mode: &str, out: &str) -> PathBuf {
    place.write(
        "chain.yaml",
        format!(
            "name: files\nports:\n  in: {{ pcap: {{ read: in.pcap }} }}\n  out: {out}\n\
             nfs:\n  swap: {{ type: macswap }}\nlinks: [in -> swap, swap -> out]\n\
             run: {{ mode: {mode} }}\n"
        ),
    )
}

/// Keys, names and values of a file are quoted; what they tell a terminal is not passed on.
#[test]
fn what_a_file_tells_the_terminal_is_written_out() {
    let place = Place::new();
    let text = |read: &str, key: &str| {
        format!(
            "name: orders\nports:\n  in: {{ pcap: {{ read: \"{read}\" }} }}\n  out: {{ sink: {{}} }}\n\
             links: [ in -> out ]\nrun: {{ mode: process }}\n{key}"
        )
    };
    place.write("key.yaml", text("in.pcap", "\"\\e[2J\": 1\n"));
    place.write("name.yaml", text("\\e]0;mine\\a.pcap", ""));
    for (verb, file, wanted) in [
        ("check", "key.yaml", "unknown key \"\\u{1b}[2J\""),
        ("run", "key.yaml", "unknown key \"\\u{1b}[2J\""),
        ("run", "name.yaml", "\\u{1b}]0;mine\\u{7}.pcap"),
    ] {
        let said = place.catena(&[verb, file]).assert_code(2).stderr.clone();
        assert!(said.contains(wanted), "{said}");
        let is_order = |c: char| c.is_control() && c != '\n';
        assert!(!said.contains(is_order), "{said:?}");
    }
    place.assert_nothing_left();
}

#[test]
fn a_wrong_file_is_refused_with_every_error_and_starts_nothing() {
    let place = Place::new();
    let text = "name: wrong\nports:\n  in: { pcap: { reed: x.pcap } }\n  out: { sink: {} }\n\
                nfs:\n  a: { type: policr, rate: 1kpps }\n  b: { type: policer, rate: fast }\n\
                links:\n  - in -> a\n  - a -> b\n  - b -> nowhere\nrun: { mode: rocket }\n";
    place.write("wrong.yaml", text);
    let wanted = [
        ":3:", "reed", ":6:", "policr", ":7:", "fast", ":11:", "nowhere", ":12:", "rocket",
    ];
    for verb in ["check", "run"] {
        let ended = place.catena(&[verb, "wrong.yaml"]);
        ended.assert_code(2);
        for word in wanted {
            assert!(ended.stderr.contains(word), "{word} in {}", ended.stderr);
        }
        assert!(ended.stderr.contains("repair:"));
        assert!(ended.stderr.contains("nothing was started"));
        assert_eq!(ended.stdout, "");
        place.assert_nothing_left();
    }
    let errors = place.catena(&["check", "--json", "wrong.yaml"]);
    let errors = errors.assert_code(2).json();
    let lines: Vec<u64> = errors["files"][0]["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["line"].as_u64().unwrap())
        .collect();
    for line in [3, 6, 7, 11, 12] {
        assert!(lines.contains(&line), "{lines:?}");
    }
}

#[test]
fn wrong_arguments_and_absent_files_are_code_2() {
    let place = Place::new();
    for args in [
        &["run"][..],
        &["run", "absent.yaml"],
        &["check", "absent.yaml"],
        &["launch"],
        &["run", "x.yaml", "--metrics", "somewhere"],
        &["nf", "describe", "polizer"],
        &["port", "describe", "pcpa"],
        &["nf", "control", "c", "n", "{"],
        &["top", "--interval", "0"],
    ] {
        let ended = place.catena(args);
        ended.assert_code(2);
        assert!(!ended.stderr.is_empty(), "{args:?}");
    }
    let ended = place.catena(&["nf", "describe", "polizer"]);
    assert!(
        ended.stderr.contains("did you mean policer?"),
        "{}",
        ended.stderr
    );
    place.assert_nothing_left();
}

#[test]
fn the_hello_chain_passes_every_packet_of_its_trace() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("chains/traces")).unwrap();
    let hello = std::fs::read(repository().join("chains/hello.yaml")).unwrap();
    place.write("chains/hello.yaml", hello);
    place.write("chains/traces/web.pcap", web());
    let ended = place.catena(&["run", "--json", "chains/hello.yaml"]);
    let status = ended.assert_code(0).json();
    assert_conserved(&status);
    assert_eq!(named(&status["nodes"], "swap")["rx_packets"], WEB_RECORDS);
    let out = std::fs::read(place.path("out.pcap")).unwrap();
    assert_eq!(pcap_records(&out), pcap_records(&web()));
    place.assert_nothing_left();
}

#[test]
fn every_mode_gives_the_same_packets_and_conserves_them() {
    let mut outputs = Vec::new();
    for mode in ["inline", "thread", "process"] {
        let place = Place::new();
        place.write("in.pcap", web());
        chain(&place, mode, "{ pcap: { write: out.pcap } }");
        let ended = place.catena(&["run", "--json", "chain.yaml"]);
        assert_conserved(&ended.assert_code(0).json());
        let out = std::fs::read(place.path("out.pcap")).unwrap();
        outputs.push(pcap_records(&out));
        place.assert_nothing_left();
    }
    assert_eq!(outputs[0].len(), WEB_RECORDS);
    assert!(outputs.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn everything_before_the_damage_of_a_capture_is_processed_and_the_damage_told() {
    const WHOLE: usize = 500;
    let place = Place::new();
    let web = web();
    let records = pcap_records(&web);
    let len: usize = records[..WHOLE].iter().map(|len| 16 + len).sum();
    // The header of the next record, and a little of its packet.
    place.write("in.pcap", &web[..24 + len + 16 + 3]);
    chain(&place, "process", "{ pcap: { write: out.pcap } }");
    let ended = place.catena(&["run", "chain.yaml"]);
    ended.assert_code(1);
    assert!(ended.stderr.contains("in.pcap"), "{}", ended.stderr);
    let out = std::fs::read(place.path("out.pcap")).unwrap();
    assert_eq!(pcap_records(&out), records[..WHOLE]);
    place.assert_nothing_left();
}

#[test]
fn a_missing_capture_is_told_and_nothing_is_left() {
    let place = Place::new();
    for mode in ["inline", "thread", "process"] {
        chain(&place, mode, "{ pcap: { write: out.pcap } }");
        let ended = place.catena(&["run", "chain.yaml"]);
        ended.assert_code(2);
        assert!(ended.stderr.contains("in.pcap"), "{}", ended.stderr);
        assert_eq!(
            ended.stderr.lines().count(),
            1,
            "told once: {}",
            ended.stderr
        );
        place.assert_nothing_left();
    }
}

#[test]
fn a_disk_that_is_full_from_the_start_starts_nothing() {
    let place = Place::new();
    place.write("in.pcap", web());
    chain(&place, "process", "{ pcap: { write: /dev/full } }");
    let ended = place.catena(&["run", "chain.yaml"]);
    ended.assert_code(2);
    assert!(ended.stderr.contains("out: /dev/full"), "{}", ended.stderr);
    assert!(ended.stderr.contains("No space left"), "{}", ended.stderr);
    place.assert_nothing_left();
}

#[test]
fn a_disk_that_becomes_full_is_told_and_the_chain_goes_on() {
    let place = Place::new();
    place.write("in.pcap", web());
    std::fs::create_dir(place.path("disk")).unwrap();
    chain(&place, "process", "{ pcap: { write: disk/out.pcap } }");
    // Mounts of the namespace are gone with it, so what was written is looked at inside.
    let script = "mount -t tmpfs -o size=64k none disk || exit 77\n\
                  \"$0\" run --json chain.yaml; code=$?; cp disk/out.pcap out.pcap; exit $code";
    let program = env!("CARGO_BIN_EXE_catena");
    let args = [
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        script,
        program,
    ];
    let ended = place.run("unshare", &args);
    if ended
        .as_ref()
        .is_none_or(|ended| ended.code == 77 || ended.stderr.contains("unshare:"))
    {
        println!(
            "SKIP a_disk_that_becomes_full_is_told_and_the_chain_goes_on: \
             no namespace of users and mounts: {ended:?}"
        );
        return;
    }
    let ended = ended.unwrap();
    ended.assert_code(1);
    assert!(ended.stderr.contains("disk/out.pcap"), "{}", ended.stderr);
    assert!(ended.stderr.contains("No space left"), "{}", ended.stderr);
    let status = ended.json();
    assert_conserved(&status);
    assert_eq!(named(&status["nodes"], "in")["rx_packets"], WEB_RECORDS);
    let out = named(&status["nodes"], "out");
    let arrived = out["tx_packets"].as_u64().unwrap() + drops(out);
    assert_eq!(arrived, WEB_RECORDS as u64, "{out:#}");
    assert!(out["error"].is_string(), "{out:#}");
    let written = pcap_records(&std::fs::read(place.path("out.pcap")).unwrap());
    assert!(!written.is_empty());
    assert_eq!(
        written,
        pcap_records(&web())[..written.len()],
        "whole records only"
    );
    assert_eq!(out["counters"]["in_file"], written.len());
    place.assert_nothing_left();
}

#[test]
fn a_chain_may_be_stopped_after_a_time() {
    let place = Place::new();
    place.write("in.pcap", web());
    let text = "name: files\nports:\n  \
                in: { pcap: { read: in.pcap, loop: forever, pace: 10kpps } }\n  \
                out: { sink: {} }\nlinks: [in -> out]\n";
    place.write("chain.yaml", text);
    let ended = place.catena(&["run", "--json", "--seconds", "0.2", "chain.yaml"]);
    let status = ended.assert_code(0).json();
    assert_conserved(&status);
    assert!(status["uptime_s"].as_f64().unwrap() >= 0.2);
    place.assert_nothing_left();
}

#[test]
fn several_files_are_checked_at_once_and_one_may_be_the_standard_input() {
    use std::io::Write;
    let place = Place::new();
    let right = "name: a\nports:\n  in: { generator: { count: 3 } }\n  out: { sink: {} }\n\
                 links: [in -> out]\n";
    place.write("a.yaml", right);
    place.write("b.yaml", right.replace("sink", "sinc"));
    let ended = place.catena(&["check", "a.yaml", "b.yaml", "a.yaml"]);
    ended.assert_code(2);
    assert_eq!(
        ended.stdout.matches("is fine").count(),
        2,
        "{}",
        ended.stdout
    );
    assert!(ended.stderr.contains("b.yaml is wrong"), "{}", ended.stderr);
    for verb in ["check", "run"] {
        let mut command = place.command(&[verb, "-"]);
        command
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped());
        let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(right.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{verb}: {text}");
        let wanted = if verb == "check" {
            "the standard input: chain \"a\" is fine"
        } else {
            "generator"
        };
        assert!(text.contains(wanted), "{verb}: {text}");
    }
}

#[test]
fn what_is_there_is_not_overwritten_without_force() {
    let place = Place::new();
    let web = super::harness::repository().join("chains/traces/web.pcap");
    std::fs::copy(web, place.path("web.pcap")).unwrap();
    for folder in ["found", "pages"] {
        std::fs::create_dir(place.path(folder)).unwrap();
    }
    place.write("profile.yaml", "sizes: [{ size: 64 }]\n");
    place.write(
        "study.yaml",
        "name: sizes\nblocks: 1\ntrial: 50ms\nnf: { type: macswap }\nfactors:\n  \
         size: [64]\n  rate: [10kpps]\n",
    );
    place.write(
        "under.yaml",
        "name: under\nports:\n  in: { traffic: { profile: {} } }\n  out: { receiver: {} }\n\
         links: [in -> out]\n",
    );
    let scenario = super::harness::repository().join("chains/upf/scenarios/quota.yaml");
    let scenario = format!("upf smf {} --write n4.pcap", scenario.display());
    let quick = "--trials 1 --trial 10ms --noise 0s --out found";
    let search = format!("measure search profile.yaml --nf macswap --method mrr {quick}");
    let latency = format!("measure latency profile.yaml --nf macswap --rate 10kpps {quick}");
    let refused = |line: &str, file: &str| {
        place.write(file, "mine");
        let args: Vec<&str> = line.split_whitespace().collect();
        let ended = place.catena(&args);
        ended.assert_code(2);
        assert!(ended.stderr.contains("--force"), "{line}: {}", ended.stderr);
        let kept = std::fs::read(place.path(file)).unwrap();
        assert_eq!(kept, b"mine", "{line}");
    };
    for (line, file) in [
        ("pcs encode web.pcap mine.line", "mine.line"),
        ("pcs decode mine.line back.pcap", "back.pcap"),
        (
            "pon simulate --onus 1 --seconds 2ms --sweep 0.1 --plot mine.svg",
            "mine.svg",
        ),
        (&search, "found/report.html"),
        (&latency, "found/report.json"),
        (&scenario, "n4.pcap"),
        ("man pages", "pages/catena-run.1"),
    ] {
        refused(line, file);
        let args: Vec<&str> = line.split_whitespace().collect();
        let ended = place.catena(&[args.as_slice(), &["--force"]].concat());
        assert!(ended.code < 2, "{line}: {ended:#?}");
        assert_ne!(std::fs::read(place.path(file)).unwrap(), b"mine", "{line}");
    }
    // The same check, before anything is looked for or runs.
    for (line, file) in [
        ("probe nobody --chrome trace.json", "trace.json"),
        ("probe nobody --pcapng visits.pcapng", "visits.pcapng"),
        (
            "measure compare under.yaml under.yaml --out found",
            "found/trials.csv",
        ),
        ("measure study study.yaml --out found", "found/report.html"),
        (
            "measure render found/report.json --out found",
            "found/report.html",
        ),
    ] {
        refused(line, file);
    }
}
