//! What the command says of itself: manual pages, completions, lists, schemas.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::harness::Place;

/// Every subcommand of `words` as its help lists them.
fn subcommands(place: &Place, words: &[&str]) -> Vec<String> {
    let mut args = words.to_vec();
    args.push("--help");
    let help = place.catena(&args);
    let help = &help.assert_code(0).stdout;
    let Some((_, list)) = help.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    let list = list.split("\n\n").next().unwrap();
    let names = list
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_subcommand_has_a_manual_page() {
    let place = Place::new();
    place.catena(&["man", "pages"]).assert_code(0);
    let mut wanted = vec!["catena.1".to_owned()];
    for name in subcommands(&place, &[]) {
        for inner in subcommands(&place, &[&name]) {
            wanted.push(format!("catena-{name}-{inner}.1"));
        }
        wanted.push(format!("catena-{name}.1"));
    }
    assert!(wanted.len() > 15, "{wanted:?}");
    let entries = std::fs::read_dir(place.path("pages")).unwrap().flatten();
    let mut found: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted);
    for page in found {
        let text = std::fs::read_to_string(place.path("pages").join(&page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}");
    }
}

#[test]
fn completions_are_scripts() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place
            .catena(&["completions", shell])
            .assert_code(0)
            .stdout
            .clone();
        for name in subcommands(&place, &[]) {
            assert!(script.contains(&name), "{name} for {shell}");
        }
        let path = place.write(shell, script);
        if shell == "bash" {
            let mut bash = Command::new("bash");
            let checked = bash
                .arg("-n")
                .arg(path)
                .stdin(Stdio::null())
                .output()
                .unwrap();
            assert!(checked.status.success(), "{checked:?}");
            assert!(checked.stderr.is_empty(), "{checked:?}");
        }
    }
}

#[test]
fn every_network_function_and_port_is_listed_and_described() {
    let place = Place::new();
    for noun in ["nf", "port"] {
        let list = place.catena(&[noun, "list", "--json"]).json();
        let text = place.catena(&[noun, "list"]).assert_code(0).stdout.clone();
        let list = list.get("kinds").unwrap_or(&list).as_array().unwrap();
        // Behind them comes what the machine has for ports.
        let lines = text.lines().take_while(|line| !line.is_empty());
        assert_eq!(lines.count(), list.len());
        for kind in list {
            let name = kind["name"].as_str().unwrap();
            let described = place.catena(&[noun, "describe", "--json", name]).json();
            assert_eq!(&described, kind);
            assert_eq!(described["settings"]["type"], "object", "{name}");
            let text = place
                .catena(&[noun, "describe", name])
                .assert_code(0)
                .stdout
                .clone();
            assert!(text.contains(kind["summary"].as_str().unwrap()), "{text}");
        }
    }
}

#[test]
fn ports_are_listed_with_what_the_machine_has_for_them() {
    let place = Place::new();
    let listed: Value = place.catena(&["port", "list", "--json"]).json();
    let kinds = listed["kinds"].as_array().unwrap();
    assert!(kinds.iter().any(|kind| kind["name"] == "pcap"));
    let interfaces = listed["machine"]["interfaces"].as_array().unwrap();
    let lo = interfaces
        .iter()
        .find(|interface| interface["name"] == "lo")
        .unwrap();
    let xdp = lo["ports"]
        .as_array()
        .unwrap()
        .iter()
        .find(|port| port["port"] == "xdp")
        .unwrap();
    assert_eq!(xdp["is_usable"], false, "{xdp}");
    let text = place
        .catena(&["port", "list"])
        .assert_code(0)
        .stdout
        .clone();
    assert!(
        text.contains("\nlo: ") && text.contains("huge pages"),
        "{text}"
    );
}

#[test]
fn the_schema_is_json() {
    let place = Place::new();
    let schema = place.catena(&["schema"]).assert_code(0).json();
    assert!(schema["properties"]["links"].is_object(), "{schema}");
}

#[test]
fn top_without_a_terminal_says_what_to_do() {
    let place = Place::new();
    let file = super::running::generating(&place, "gen");
    let running = place.start("gen", &[&file]);
    let ended = place.catena(&["top"]);
    ended.assert_code(2);
    assert!(ended.stderr.contains("--once"), "{}", ended.stderr);
    place.catena(&["stop"]).assert_code(0);
    running.end().assert_code(0);
}

/// `catena schema | head -1`: a reader that goes early is no failure, and nothing panics.
#[test]
fn a_reader_that_goes_early_is_no_failure() {
    use std::io::Read;
    let place = Place::new();
    for args in [&["schema"][..], &["completions", "bash"], &["nf", "list"]] {
        let mut command = place.command(args);
        let command = command.stdout(std::process::Stdio::piped());
        let mut child = command
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        assert!(child.wait().unwrap().success(), "{args:?}: {said}");
        assert_eq!(said, "", "{args:?}");
    }
}
