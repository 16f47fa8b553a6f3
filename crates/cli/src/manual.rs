//! What manual pages and `--help` say beside options: examples, exit codes, environment.
//!
//! Each verb has its examples in one table (`examples`); tests hold that every verb has one and
//! that each is a command line which the program understands.

mod examples;

use examples::EXAMPLES;

/// What the exit codes are.
pub(crate) const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "all went well"),
    (
        "1",
        "something failed while running: a damaged capture, a full disk, no such chain, line bits \
         that were not received whole",
    ),
    (
        "2",
        "wrong arguments or a wrong chain file; nothing was started",
    ),
];

/// Variables that the command looks at.
pub(crate) const ENVIRONMENT: &[(&str, &str)] = &[
    (
        "CATENA_RUNTIME_DIR",
        "where running chains have their sockets; without it $XDG_RUNTIME_DIR/catena, else \
         /tmp/catena-UID",
    ),
    (
        "CATENA_CONTAINER_ENGINE",
        "podman, docker, or join: containers that others start; without it, the engine that has the \
         image",
    ),
    (
        "CATENA_CONTAINER_OPTIONS",
        "options of the engine, before its subcommand",
    ),
    (
        "CATENA_CONTAINER_RUN_OPTIONS",
        "options of the engine's run",
    ),
    ("NO_COLOR", "if not empty, top draws without colour"),
    (
        "NOTIFY_SOCKET",
        "where run tells a service manager that the chain is ready; see sd_notify(3)",
    ),
    (
        "WATCHDOG_USEC",
        "how often run gives the service manager a sign of life, thrice in this time",
    ),
];

fn examples(verb: &str) -> &'static [(&'static str, &'static str)] {
    let found = EXAMPLES.iter().find(|entry| entry.verb == verb);
    found.map_or(&[], |entry| entry.lines)
}

/// The command with examples behind the options of each verb, for `--help`.
pub(crate) fn with_examples(command: clap::Command) -> clap::Command {
    add(command, "")
}

fn add(command: clap::Command, verb: &str) -> clap::Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|inner| inner.get_name().to_owned())
        .collect();
    let mut command = command;
    let lines = examples(verb);
    if !lines.is_empty() {
        let lines = lines
            .iter()
            .map(|(line, what)| format!("  {line}\n      {what}"));
        let lines: Vec<_> = lines.collect();
        command = command.after_long_help(format!("Examples:\n{}", lines.join("\n")));
    }
    for name in names {
        let words = format!("{verb} {name}").trim().to_owned();
        command = command.mut_subcommand(name, |inner| add(inner, &words));
    }
    command
}

/// The manual page of a verb, in roff; `words` are those behind `catena`.
pub(crate) fn page(command: &clap::Command, words: &str) -> std::io::Result<Vec<u8>> {
    let name = format!("catena {words}").trim().replace(' ', "-");
    let plain = command.clone().after_long_help("").display_name(name);
    let mut page = Vec::new();
    clap_mangen::Man::new(plain).render(&mut page)?;
    let mut text = String::new();
    section(&mut text, "EXIT STATUS", EXIT_CODES.iter().copied());
    section(&mut text, "ENVIRONMENT", ENVIRONMENT.iter().copied());
    let lines = examples(words).iter();
    section(
        &mut text,
        "EXAMPLES",
        lines.map(|(line, what)| (*line, *what)),
    );
    section(
        &mut text,
        "FILES",
        [(
            "/usr/share/doc/catena",
            "the guide and the reference, where a package installed them",
        )]
        .into_iter(),
    );
    page.extend_from_slice(text.as_bytes());
    Ok(page)
}

fn section<'a>(text: &mut String, title: &str, entries: impl Iterator<Item = (&'a str, &'a str)>) {
    let mut entries = entries.peekable();
    if entries.peek().is_none() {
        return;
    }
    *text += &format!(".SH \"{title}\"\n");
    for (name, what) in entries {
        *text += &format!(".TP\n\\fB{}\\fR\n{}\n", roff(name), roff(what));
    }
}

/// Text that is taken as it is: no escape, no request, no dash that becomes a hyphen.
fn roff(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\(rs")
        .replace('-', "\\-")
        .replace('\'', "\\(aq");
    match escaped.starts_with('.') {
        true => format!("\\&{escaped}"),
        false => escaped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    fn verbs(command: &clap::Command, words: &str, all: &mut Vec<String>) {
        for inner in command.get_subcommands() {
            if !inner.is_hide_set() {
                let words = format!("{words} {}", inner.get_name()).trim().to_owned();
                verbs(inner, &words, all);
                all.push(words);
            }
        }
    }

    /// The words of one command, without what a shell does with its output.
    fn words(line: &str) -> Vec<String> {
        let start = line.find("catena").unwrap();
        let line = line[start..].split(['>', '|']).next().unwrap();
        let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
        for c in line.chars() {
            match c {
                '\'' => is_quoted ^= true,
                ' ' if !is_quoted => words.extend(Some(std::mem::take(&mut word))),
                c => word.push(c),
            }
        }
        words.push(word);
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn every_verb_has_examples_that_the_program_understands() {
        let mut all = vec![String::new()];
        verbs(&crate::Cli::command(), "", &mut all);
        assert!(all.len() > 25, "{all:?}");
        for verb in &all {
            assert!(!examples(verb).is_empty(), "{verb} has no example");
        }
        for entry in EXAMPLES {
            assert!(
                all.iter().any(|verb| verb == entry.verb),
                "there is no {}",
                entry.verb
            );
            for (line, _) in entry.lines {
                let parsed = crate::Cli::try_parse_from(words(line));
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn a_page_has_examples_exit_codes_and_environment() {
        let command = with_examples(crate::Cli::command());
        let verb = command.find_subcommand("check").unwrap();
        let page = String::from_utf8(page(verb, "check").unwrap()).unwrap();
        for wanted in [
            ".TH catena-check 1",
            "EXIT STATUS",
            "ENVIRONMENT",
            "EXAMPLES",
            "NO_COLOR",
        ] {
            assert!(page.contains(wanted), "{wanted}: {page}");
        }
        assert!(page.contains("catena check chains/*.yaml"), "{page}");
        assert!(!page.contains("Examples:"), "they stand once: {page}");
    }
}
