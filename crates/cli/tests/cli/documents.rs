//! What the command says of itself: manual pages, completions, lists, schemas.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::harness::Place;

/// Every subcommand of `words` as its help lists them.
pub(super) fn subcommands(place: &Place, words: &[&str]) -> Vec<String> {
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
            for last in subcommands(&place, &[&name, &inner]) {
                wanted.push(format!("catena-{name}-{inner}-{last}.1"));
            }
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
        for section in [
            "SYNOPSIS",
            "\"EXIT STATUS\"",
            "\"ENVIRONMENT\"",
            "\"EXAMPLES\"",
        ] {
            let section = format!(".SH {section}");
            assert!(text.contains(&section), "{page} has no {section}");
        }
    }
}

/// What bash offers for a line whose last word is being typed, by the script as a user loads it.
fn completed(place: &Place, words: &[&str]) -> Vec<String> {
    let script = place
        .catena(&["completions", "bash"])
        .assert_code(0)
        .stdout
        .clone();
    let script = place.write("completion.bash", script);
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let last = words.len() - 1;
    let program = format!(
        "source {}\nCOMP_WORDS=({})\nCOMP_CWORD={last}\nCOMP_TYPE=9\n\
         $(complete -p catena | sed -n 's/.*-F \\([^ ]*\\).*/\\1/p') catena '{}' '{}'\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        script.display(),
        quoted.join(" "),
        words[last],
        words[last - 1],
    );
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_catena"));
    let mut path = binary.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut bash = Command::new("bash");
    bash.args(["-c", &program])
        .env("PATH", path)
        .stdin(Stdio::null());
    bash.env("CATENA_RUNTIME_DIR", place.runtime());
    let output = bash.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn a_shell_completes_verbs_options_types_chains_and_nodes() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place
            .catena(&["completions", shell])
            .assert_code(0)
            .stdout
            .clone();
        assert!(script.contains("CATENA_COMPLETE"), "{shell}: {script}");
    }
    assert_eq!(completed(&place, &["catena", "doc"]), ["doctor"]);
    assert_eq!(completed(&place, &["catena", "run", "--se"]), ["--seconds"]);
    assert_eq!(
        completed(&place, &["catena", "nf", "describe", "pol"]),
        ["policer"]
    );
    assert_eq!(
        completed(&place, &["catena", "port", "describe", "gen"]),
        ["generator"]
    );
    assert_eq!(
        completed(&place, &["catena", "status", "ge"]),
        [""],
        "nothing runs"
    );

    let file = super::running::generating(&place, "gen");
    let running = place.start("gen", &["--quiet", &file]);
    assert_eq!(completed(&place, &["catena", "status", "ge"]), ["gen"]);
    assert_eq!(completed(&place, &["catena", "stop", ""])[0], "gen");
    assert_eq!(
        completed(&place, &["catena", "nf", "control", "gen", "sw"]),
        ["swap"]
    );
    place.catena(&["stop"]).assert_code(0);
    running.end().assert_code(0);
}

/// Names of the fields of all objects in a schema.
fn find_fields(schema: &Value, fields: &mut Vec<String>) {
    if let Some(properties) = schema["properties"].as_object() {
        fields.extend(properties.keys().cloned());
    }
    match schema {
        Value::Object(members) => members
            .values()
            .for_each(|member| find_fields(member, fields)),
        Value::Array(items) => items.iter().for_each(|item| find_fields(item, fields)),
        _ => {}
    }
}

#[test]
fn every_network_function_and_port_is_listed_and_described() {
    let place = Place::new();
    for noun in ["nf", "port"] {
        let list = place.catena(&[noun, "list", "--json"]).json();
        let text = place.catena(&[noun, "list"]).assert_code(0).stdout.clone();
        let list = list[format!("{noun}s")].as_array().unwrap();
        // Behind them comes what the machine has for ports.
        let lines = text.lines().take_while(|line| !line.is_empty());
        assert_eq!(lines.count(), list.len());
        for kind in list {
            let name = kind["name"].as_str().unwrap();
            let described = place.catena(&[noun, "describe", "--json", name]).json();
            for (key, value) in kind.as_object().unwrap() {
                assert_eq!(&described[key], value, "{name}");
            }
            assert_eq!(described["settings"]["type"], "object", "{name}");
            let text = place
                .catena(&[noun, "describe", name])
                .assert_code(0)
                .stdout
                .clone();
            assert!(text.contains(kind["summary"].as_str().unwrap()), "{text}");
            // Each setting of its own, and each field of what lists hold, has a line.
            let mut fields = Vec::new();
            match name {
                // Its program is a language, with a reference and examples of its own.
                "flow" => {
                    let own = described["settings"]["properties"].as_object().unwrap();
                    fields.extend(own.keys().cloned());
                }
                _ => find_fields(&described["settings"], &mut fields),
            }
            for field in fields {
                let named = |line: &str| line.split_whitespace().next() == Some(field.as_str());
                let named = |line: &str| named(&line.replace(':', " "));
                assert!(text.lines().any(named), "{name}: {field} in {text}");
            }
            for request in described["requests"].as_array().into_iter().flatten() {
                let request = request["example"].as_str().unwrap();
                assert!(text.contains(request), "{name}: {request} in {text}");
            }
        }
    }
}

#[test]
fn ports_are_listed_with_what_the_machine_has_for_them() {
    let place = Place::new();
    let listed: Value = place.catena(&["port", "list", "--json"]).json();
    let kinds = listed["ports"].as_array().unwrap();
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
    assert!(lo["xdp_program"].is_null(), "{lo}");
    let cards = listed["machine"]["cards"].as_array().unwrap();
    for card in cards {
        assert!(card["address"].as_str().unwrap().contains(':'), "{card}");
        let dpdk = &card["ports"][0];
        // What cannot be used is told with what would change it.
        assert!(
            dpdk["is_usable"] == true || dpdk["repair"].is_string(),
            "{card}"
        );
    }
    assert!(listed["machine"].get("pinned_bytes_max").is_some());
    let text = place
        .catena(&["port", "list"])
        .assert_code(0)
        .stdout
        .clone();
    assert!(
        text.contains("\nlo: ") && text.contains("huge pages") && text.contains("to be pinned"),
        "{text}"
    );
}

#[test]
fn what_an_nf_takes_is_described_with_fields_of_rules_and_requests() {
    let place = Place::new();
    let text = place
        .catena(&["nf", "describe", "acl"])
        .assert_code(0)
        .stdout
        .clone();
    for wanted in [
        "rules",
        "action: permit | deny",
        "dst_port",
        "priority",
        "{\"show\": \"hits\"}",
    ] {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
    let text = place
        .catena(&["nf", "describe", "ttl"])
        .assert_code(0)
        .stdout
        .clone();
    assert!(text.contains("no control requests"), "{text}");
}

#[test]
fn the_schema_is_json() {
    let place = Place::new();
    let schema = place.catena(&["schema"]).assert_code(0).json();
    assert!(schema["properties"]["links"].is_object(), "{schema}");
    let schema = place.catena(&["schema", "--flow"]).assert_code(0).json();
    assert!(schema["properties"]["elements"].is_object(), "{schema}");
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
