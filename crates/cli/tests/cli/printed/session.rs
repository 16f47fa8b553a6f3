//! The shell in which a document's commands run: a folder with the examples, the binary in the
//! path. A document that sets the path itself finds the binary where its own commands built it, and
//! nowhere else.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::page::{Page, Step};
use crate::harness::{Place, repository};

/// Longest that all commands of a document may take.
const PATIENCE_S: &str = "240";
/// Stands before and behind the output of a command; no output has it.
const MARK: char = '\u{1e}';

/// What stands for programs that the test is part of, or has no need of.
const PRELUDE: &str = r#"
exec 2>&1
set -u
built() { mkdir -p "target/$1" && ln -sf "$CATENA" "target/$1/catena"; }
cargo() {
    case "$1 ${2:-}" in
        "build --release") built release ;;
        "run --") built debug; shift 2; target/debug/catena "$@" ;;
        "run --release") built release; shift 3; target/release/catena "$@" ;;
        *) command cargo "$@" ;;
    esac
}
sudo() { "$@"; }
end() { for job in $(jobs -p); do kill "$job" 2> /dev/null; done; wait; }
trap end EXIT
"#;

/// Puts what a reader finds in a clone into the place.
pub(super) fn copy_examples(place: &Place) {
    for folder in [
        "chains",
        "chains/traces",
        "chains/epon",
        "chains/studies",
        "chains/upf",
        "chains/upf/scenarios",
        "examples/fb5g",
        "examples/netns",
    ] {
        let (from, to) = (repository().join(folder), place.path(folder));
        fs::create_dir_all(&to).unwrap();
        for entry in fs::read_dir(from).unwrap().flatten() {
            if entry.path().is_file() {
                fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }
}

/// Whether there may be namespaces of the test's own.
pub(super) fn has_namespaces() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let probe = Command::new("unshare")
        .args(["--mount", "--net", "true"])
        .output();
    is_root && probe.is_ok_and(|output| output.status.success())
}

/// Runs all commands; gives the lines and the exit code of each that was run.
pub(super) fn run(place: &Place, page: &Page, is_root: bool) -> Vec<(Vec<String>, i32)> {
    let mut script = PRELUDE.to_owned();
    if is_root {
        // Names of namespaces and interfaces are the test's own.
        script +=
            "mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip link set dev lo up\n";
    }
    for step in &page.steps {
        match step {
            Step::Line(_) => {}
            Step::Write { file, text } => {
                script += &format!("cat > '{file}' <<'{MARK}'\n{text}{MARK}\n");
            }
            Step::Command(command) if command.needs_root && !is_root => {}
            Step::Command(command) => {
                script += &format!(
                    "printf '{MARK}'\n{}\nprintf '{MARK}%s{MARK}' $?\n",
                    command.text
                );
            }
        }
    }
    let file = place.write("session.sh", script);
    let said = place.path("session.out");
    let mut shell = Command::new("timeout");
    shell.args(["--kill-after=5", PATIENCE_S]);
    if is_root {
        shell.args(["unshare", "--mount", "--net", "--propagation", "private"]);
    }
    let binary = Path::new(env!("CARGO_BIN_EXE_catena"));
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    if !page.sets_path() {
        let mut with_binary = binary.parent().unwrap().as_os_str().to_owned();
        with_binary.push(":");
        with_binary.push(path);
        path = with_binary;
    }
    shell.args(["bash".as_ref(), file.as_os_str()]);
    shell
        .env("PATH", path)
        .env("CATENA", binary)
        .env("CATENA_RUNTIME_DIR", place.runtime());
    // Numbers and letters as the documents have them, on any machine.
    shell.env("LC_ALL", "C.UTF-8").current_dir(place.path("."));
    shell
        .stdin(Stdio::null())
        .stdout(fs::File::create(&said).unwrap());
    shell.stderr(Stdio::null()).status().unwrap();
    let said = fs::read(said).unwrap();
    outputs(&String::from_utf8_lossy(&said))
}

/// Between marks stand output, exit code, output, exit code, and so on; what background jobs say
/// between two commands belongs to none.
fn outputs(said: &str) -> Vec<(Vec<String>, i32)> {
    let parts: Vec<&str> = said.split(MARK).collect();
    let commands = parts.get(1..).unwrap_or_default().chunks(3);
    let complete = commands.filter(|parts| parts.len() >= 2);
    complete
        .map(|parts| {
            let lines = parts[0].lines().map(|line| line.trim_end().to_owned());
            (lines.collect(), parts[1].parse().unwrap_or(-1))
        })
        .collect()
}

#[test]
fn output_and_exit_codes_are_told_apart() {
    let said = format!("early{MARK}one\ntwo\n{MARK}0{MARK}late\n{MARK}{MARK}3{MARK}{MARK}cut");
    let lines = vec!["one".to_owned(), "two".to_owned()];
    assert_eq!(outputs(&said), [(lines, 0), (vec![], 3)]);
}
