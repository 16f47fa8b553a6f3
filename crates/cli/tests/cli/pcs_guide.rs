//! The output in docs/guide/pcs.md, docs/guide/epon.md and docs/guide/pon.md is what the commands
//! there print.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::harness::{Place, repository};

/// What a shell command prints, in a folder with the shipped captures.
fn printed(place: &Place, command: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_catena"));
    let mut path = program.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{command} 2>&1")]);
    shell.env("PATH", path).current_dir(place.path("."));
    shell.env("CATENA_RUNTIME_DIR", place.runtime());
    let output = shell.stdin(Stdio::null()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Runs every command of a guide in a folder with the shipped chains; what it prints must be there.
fn check(guide: &str) {
    let place = Place::new();
    for folder in ["chains/traces", "chains/epon"] {
        std::fs::create_dir_all(place.path(folder)).unwrap();
        for entry in std::fs::read_dir(repository().join(folder))
            .unwrap()
            .flatten()
        {
            let copy = place.path(folder).join(entry.file_name());
            std::fs::copy(entry.path(), copy).unwrap();
        }
    }
    let path = repository().join(guide);
    let found = std::fs::read_to_string(&path).unwrap();
    let (mut wanted, mut is_console) = (String::new(), false);
    for line in found.lines() {
        match line {
            "```console" => is_console = true,
            "```" => is_console = false,
            _ => {}
        }
        let command = line.strip_prefix("$ ");
        if !is_console || line == "```console" || command.is_some() {
            let _ = writeln!(wanted, "{line}");
        }
        if let Some(command) = command {
            wanted += &printed(&place, command);
        }
    }
    if found == wanted {
        return;
    }
    assert!(
        std::env::var_os("CATENA_BLESS").is_some_and(|value| value == "1"),
        "{guide} is out of date: run CATENA_BLESS=1 cargo test --package catena\n{wanted}"
    );
    std::fs::write(&path, wanted).unwrap();
}

#[test]
fn the_guide_to_line_bits_shows_what_is_printed() {
    check("docs/guide/pcs.md");
}

#[test]
fn the_guide_to_epon_chains_shows_what_is_printed() {
    check("docs/guide/epon.md");
}

#[test]
fn the_guide_to_pons_shows_what_is_printed() {
    check("docs/guide/pon.md");
}
