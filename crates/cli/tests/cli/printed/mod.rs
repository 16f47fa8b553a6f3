//! What documents print is what the program prints: every command in every document is run, and
//! what it shows is compared.
//!
//! | block | what is done with it |
//! |---|---|
//! | `console` | lines behind `$ ` are run in order, one shell for each document; their output must be what is printed, where `...` stands for anything, whole lines too |
//! | `console root` | the same, as root in namespaces of its own; skipped where that is not possible |
//! | `yaml FILE` | is written to that file, for the commands behind it |
//! | `yaml` with a `name:` | is a whole chain file, and is checked |
//! | `sh` | is run elsewhere: [`ELSEWHERE`] says where |
//!
//! `CATENA_BLESS=1` writes what was printed into the document, where it differs; put `...` back in
//! place of what differs from run to run.

mod page;
mod session;

use std::fs;

use super::harness::{Place, repository};
use page::{Page, Step};

/// Documents with commands. A test finds those that are missing here.
const PAGES: &[&str] = &[
    "README.md",
    "docs/guide/doctor.md",
    "docs/guide/epon.md",
    "docs/guide/flow.md",
    "docs/guide/getting-started.md",
    "docs/guide/install.md",
    "docs/guide/ipfix.md",
    "docs/guide/measuring.md",
    "docs/guide/nat44.md",
    "docs/guide/pcs.md",
    "docs/guide/pon.md",
    "docs/guide/ports.md",
    "docs/guide/upf.md",
    "docs/internals/first-ten-minutes.md",
    "docs/reference/flow-test.md",
    "docs/reference/json.md",
];

/// Commands of `sh` blocks, by how they begin, the file that runs each, and characters in it.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    (
        "cargo xtask break",
        "xtask/src/breaks/tests.rs",
        "a_campaign_says_what_no_test_notices",
    ),
    ("./test", ".ci/run", "./test"),
    (
        "catena upf release",
        "crates/cli/tests/upf.rs",
        "\"release\", \"--within\", \"2s\", \"--wait\"",
    ),
    ("CATENA_HISTORIES=", HISTORIES, "\"CATENA_HISTORIES\""),
    ("CATENA_SEED=", HISTORIES, "\"CATENA_SEED\""),
    (
        "RUSTFLAGS=\"--cfg loom\"",
        "test",
        "RUSTFLAGS=\"--cfg loom\"",
    ),
    (
        "cargo test --release -p catena-shm --lib --target-dir target/loom",
        "test",
        "--release -p catena-shm --lib --target-dir target/loom",
    ),
    (
        "cargo xtask fuzz",
        "crates/cli/tests/fuzz.rs",
        "[\"xtask\", \"fuzz\"]",
    ),
    (
        "cargo xtask image",
        "tests/setup/containers.sh",
        "xtask image",
    ),
    (
        "cargo xtask package",
        "tests/setup/packages.sh",
        "xtask package",
    ),
    ("cargo install --path crates/cli", PACKAGES, "\"install\""),
    ("sudo dpkg --install", PACKAGES, "\"--install\""),
    (
        "sudo systemctl",
        "crates/cli/tests/cli/systemd.rs",
        "printed(\"sudo systemctl \")",
    ),
    (
        "podman run",
        PACKAGES,
        "\"run\", \"--network\", \"none\", \"--cap-drop\", \"all\"",
    ),
    ("tar --extract", PACKAGES, "\"--extract\""),
    (
        "cargo xtask book",
        "crates/cli/tests/cli/book.rs",
        "[\"xtask\", \"book\"",
    ),
    (
        "cargo xtask record",
        "crates/cli/tests/cli/recording.rs",
        "[\"xtask\", \"record\"",
    ),
    (
        "cargo xtask bench",
        "crates/cli/tests/benches.rs",
        "[\"xtask\", \"bench\", name",
    ),
    (
        "cargo xtask exactness",
        "crates/cli/tests/benches.rs",
        "[\"xtask\", \"exactness\"",
    ),
    (
        "docker compose -f containers/epon.yaml",
        "crates/cli/tests/compose.rs",
        "epon.yaml",
    ),
    ("sudo catena run examples/fb5g/", FLOWS, "examples/fb5g/"),
    ("catena status fb5g-", FLOWS, "hosts.status("),
    ("catena nf control fb5g-", FLOWS, "hosts.control("),
    ("catena stop fb5g-", FLOWS, "\"stop\""),
    (
        "sudo examples/upf/run.sh",
        "crates/cli/tests/upf/traffic.rs",
        "examples/upf/run.sh",
    ),
    ("cd examples/own-nf", OWN_NF, "examples/own-nf"),
    ("cargo test", OWN_NF, "cargo(\"test\""),
    ("cargo run -- run chain.yaml", OWN_NF, "\"chain.yaml\""),
    (
        "cargo run -- nf describe sample",
        OWN_NF,
        "\"nf\", \"describe\", \"sample\"",
    ),
    (
        "RUSTFLAGS=\"-C target-feature=+crt-static\" cargo build",
        OWN_NF,
        "-C target-feature=+crt-static",
    ),
    (
        "cp target/x86_64-unknown-linux-gnu/release/own-nf",
        OWN_NF,
        "join(\"catena\")",
    ),
    ("podman build --tag catena-worker", OWN_NF, "\"build\""),
    (
        "sudo examples/netns/run.sh",
        "crates/cli/tests/netns.rs",
        "run.sh",
    ),
    (
        "docs/internals/first-ten-minutes.sh",
        "crates/cli/tests/first_minutes.rs",
        "internals/first-ten-minutes.sh",
    ),
    (
        "chains/traces/record.sh",
        "crates/cli/tests/traces.rs",
        "record.sh",
    ),
    (
        "sudo chains/traces/record.sh",
        "crates/cli/tests/traces.rs",
        "record.sh",
    ),
];

const HISTORIES: &str = "crates/engine/src/supervisor/simulation/histories.rs";
const PACKAGES: &str = "crates/cli/tests/cli/packages.rs";
const FLOWS: &str = "crates/cli/tests/flow_peers/containers.rs";
const OWN_NF: &str = "crates/cli/tests/own_nf.rs";

/// What is wrong, if a file does not hold these characters.
fn lacks(file: &str, text: &str) -> Option<String> {
    match fs::read_to_string(repository().join(file)) {
        Ok(whole) if whole.contains(text) => None,
        Ok(_) => Some(format!("{file} has no {text}")),
        Err(error) => Some(format!("{file}: {error}")),
    }
}

/// Runs every command of a document and compares what is printed.
fn check(name: &str) {
    let path = repository().join(name);
    let page = Page::parse(&fs::read_to_string(&path).unwrap());
    let place = Place::new();
    session::copy_examples(&place);
    let is_root = session::has_namespaces();
    if !is_root && page.needs_root() {
        println!("SKIP printed {name}: needs root and network namespaces for some of its commands");
    }
    let said = session::run(&place, &page, is_root);
    let mut faults = Vec::new();
    let mut said = said.iter();
    let mut real = page.clone();
    for step in &mut real.steps {
        let Step::Command(command) = step else {
            continue;
        };
        if command.needs_root && !is_root {
            continue;
        }
        let Some((lines, code)) = said.next() else {
            faults.push(format!(
                "$ {}\nwas not run: the shell has ended before",
                command.text
            ));
            break;
        };
        let is_right = page::matches(&command.output, lines);
        // A command that fails must show what it says. A busy machine may cut a measurement short:
        // then there is a report of what was found.
        let is_cut = *code == 1
            && command.text.starts_with("catena measure")
            && lines.iter().any(|line| line.starts_with("report: "));
        let mut shown = command.output.iter();
        let shows_failure = is_cut || shown.any(|line| line.starts_with("catena: "));
        if !is_right || (*code != 0 && !shows_failure) {
            let lines = lines.join("\n");
            faults.push(format!("$ {}\n{lines}\n(exit code {code})", command.text));
        }
        if !is_right {
            command.output.clone_from(lines);
        }
    }
    if faults.is_empty() {
        return;
    }
    if std::env::var_os("CATENA_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, real.text()).unwrap();
    }
    panic!(
        "{name} prints what the program does not; correct it, or run CATENA_BLESS=1 cargo test \
         --package catena --test cli printed:\n\n{}",
        faults.join("\n\n")
    );
}

macro_rules! pages {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                check($name);
            }
        )*

        #[test]
        fn every_page_is_checked() {
            assert_eq!(PAGES, [$($name),*]);
        }
    };
}

pages! {
    the_readme: "README.md",
    the_doctor: "docs/guide/doctor.md",
    epon: "docs/guide/epon.md",
    functions_of_flows: "docs/guide/flow.md",
    getting_started: "docs/guide/getting-started.md",
    installing: "docs/guide/install.md",
    records_of_flows: "docs/guide/ipfix.md",
    measuring: "docs/guide/measuring.md",
    a_nat: "docs/guide/nat44.md",
    line_bits: "docs/guide/pcs.md",
    pons: "docs/guide/pon.md",
    real_ports: "docs/guide/ports.md",
    a_upf: "docs/guide/upf.md",
    the_first_ten_minutes: "docs/internals/first-ten-minutes.md",
    tests_of_flows: "docs/reference/flow-test.md",
    json: "docs/reference/json.md",
}

/// Every document of the repository, by its path.
fn documents() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![repository()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                open.push(path);
            } else if name.ends_with(".md") {
                let text = fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(repository()).unwrap();
                found.push((path.to_string_lossy().into_owned(), text));
            }
        }
    }
    found.sort();
    found
}

/// Results of a study are of another time and machine, and say so.
const OF_ANOTHER_TIME: &str = "docs/results/";

#[test]
fn every_command_in_a_document_is_run_by_a_test() {
    let mut faults = Vec::new();
    for (name, text) in documents() {
        if name.starts_with(OF_ANOTHER_TIME) {
            continue;
        }
        let page = Page::parse(&text);
        let has_commands = page
            .steps
            .iter()
            .any(|step| matches!(step, Step::Command(_)));
        if has_commands && !PAGES.contains(&name.as_str()) {
            faults.push(format!(
                "{name}: add it to PAGES, so that its commands are run"
            ));
        }
        for line in page.shell_lines() {
            let found = ELSEWHERE.iter().find(|(start, ..)| line.starts_with(start));
            match found {
                Some((_, file, text)) => {
                    let fault = lacks(file, text);
                    faults.extend(fault.map(|fault| format!("{name}: {line}: {fault}")));
                }
                None => faults.push(format!("{name}: nothing runs: {line}")),
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_chain_file_in_a_document_is_right() {
    let place = Place::new();
    session::copy_examples(&place);
    let mut count = 0;
    for (name, text) in documents() {
        for chain in Page::parse(&text).chains() {
            // Paths in it start at the folder of the examples.
            let file = place.write("chains/printed.yaml", chain);
            let ended = place.catena(&["check", file.to_str().unwrap()]);
            assert_eq!(ended.code, 0, "{name}: {}", ended.stderr);
            count += 1;
        }
    }
    assert!(count > 2, "{count}");
}
