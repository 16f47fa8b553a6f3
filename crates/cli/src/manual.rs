//! What manual pages and `--help` say beside options: examples, exit codes, environment.
//!
//! Each verb has its examples here, in one table; tests hold that every verb has one and that each
//! is a command line which the program understands.

/// Examples of the verb that these words name.
#[derive(Debug)]
struct Examples {
    verb: &'static str,
    lines: &'static [(&'static str, &'static str)],
}

const fn of(verb: &'static str, lines: &'static [(&'static str, &'static str)]) -> Examples {
    Examples { verb, lines }
}

/// Command lines with what they are for.
const EXAMPLES: &[Examples] = &[
    of(
        "",
        &[
            ("catena run chains/hello.yaml", "A first chain"),
            ("catena nf list", "What chains can be made of"),
        ],
    ),
    of(
        "check",
        &[
            ("catena check chains/*.yaml", "Every error of many files"),
            ("envsubst < web.yaml | catena check -", "Filled in"),
        ],
    ),
    of(
        "run",
        &[
            (
                "catena run chains/hello.yaml",
                "Run to the end of the capture",
            ),
            (
                "catena run --seconds 5s --json chains/hello.yaml",
                "At most 5 s, counters as JSON",
            ),
            (
                "catena run --metrics 127.0.0.1:9465 web.yaml",
                "Serve Prometheus metrics",
            ),
        ],
    ),
    of("list", &[("catena list", "The chains that run here")]),
    of(
        "status",
        &[
            ("catena status web", "Counters of a chain as tables"),
            (
                "catena status --json web | jq .nodes",
                "The same for programs",
            ),
        ],
    ),
    of(
        "top",
        &[
            ("catena top web", "Watch rates, links and drops; q ends it"),
            (
                "catena top --once --interval 1s",
                "One frame of the only chain that runs",
            ),
        ],
    ),
    of(
        "probe",
        &[
            (
                "catena probe web --seconds 5s",
                "Which component takes the time",
            ),
            (
                "catena probe web --chrome trace.json",
                "A trace for Perfetto",
            ),
        ],
    ),
    of("plan", &[("catena plan web.yaml", "What apply would do")]),
    of(
        "apply",
        &[
            ("catena apply web.yaml", "Change the running chain"),
            (
                "catena apply web.yaml --discard",
                "Undo what nf control has changed, too",
            ),
        ],
    ),
    of(
        "export",
        &[(
            "catena export web > web-now.yaml",
            "The chain as it runs, with what nf control has changed",
        )],
    ),
    of("stop", &[("catena stop web", "Drain the chain and end it")]),
    of("nf", &[("catena nf list", "Types of network functions")]),
    of(
        "nf list",
        &[("catena nf list --json | jq -r '.nfs[].name'", "Names alone")],
    ),
    of(
        "nf describe",
        &[(
            "catena nf describe acl",
            "Settings, rules, requests, an example",
        )],
    ),
    of(
        "nf control",
        &[(
            "catena nf control web edge '{\"show\": \"hits\"}'",
            "Ask a running function",
        )],
    ),
    of(
        "port",
        &[("catena port list", "Types of ports and wrappers")],
    ),
    of(
        "port list",
        &[("catena port list", "Types of ports and wrappers")],
    ),
    of(
        "port describe",
        &[("catena port describe pcap", "Settings of a port")],
    ),
    of(
        "port dpdk",
        &[(
            "catena port dpdk build",
            "The plug-in, where workers find it",
        )],
    ),
    of(
        "port dpdk build",
        &[(
            "catena port dpdk build",
            "The plug-in, where workers find it",
        )],
    ),
    of(
        "pcs",
        &[(
            "catena pcs encode web.pcap web.line",
            "A capture as line bits",
        )],
    ),
    of(
        "pcs encode",
        &[(
            "catena pcs encode web.pcap web.line --ber 1e-4",
            "With one bit in 10,000 wrong",
        )],
    ),
    of(
        "pcs decode",
        &[("catena pcs decode web.line back.pcap", "Back to a capture")],
    ),
    of(
        "pcs inspect",
        &[("catena pcs inspect web.line --blocks 8", "The first blocks")],
    ),
    of(
        "pon",
        &[(
            "catena pon simulate --onus 8",
            "Eight ONUs at a load of 60 %",
        )],
    ),
    of(
        "pon simulate",
        &[(
            "catena pon simulate --onus 8 --load 60% --cycle 1ms",
            "Delay of each ONU",
        )],
    ),
    of(
        "upf",
        &[("catena upf sessions", "Sessions of the chain's UPF")],
    ),
    of(
        "upf sessions",
        &[("catena upf sessions --from 100", "From slot 100 on")],
    ),
    of(
        "upf session",
        &[(
            "catena upf session --seid 4294967296",
            "Its rules and usage",
        )],
    ),
    of("upf peers", &[("catena upf peers", "Who is associated")]),
    of(
        "upf pools",
        &[("catena upf pools", "Addresses that are left")],
    ),
    of(
        "upf reports",
        &[("catena upf reports", "Reports and held packets")],
    ),
    of(
        "upf trace",
        &[
            (
                "catena upf trace --ue 10.45.0.1",
                "Lines as packets of this UE come and go",
            ),
            (
                "catena upf trace --seid 4294967297 --seconds 10s --write session.pcapng",
                "Ten seconds of it, for Wireshark",
            ),
        ],
    ),
    of(
        "upf smf",
        &[
            (
                "catena upf smf chains/upf/scenarios/paging.yaml",
                "Paging, in simulated time",
            ),
            (
                "catena upf smf chains/upf/scenarios/quota.yaml --write quota.pcap",
                "A quota, and what went over N4, N3 and N6 for Wireshark",
            ),
            (
                "catena upf smf examples/upf/attach.yaml --n4 10.4.0.1",
                "A session in the UPF at this address, over UDP",
            ),
        ],
    ),
    of(
        "flow",
        &[("catena flow check chains/flow-policer.yaml", "Is it right?")],
    ),
    of(
        "flow check",
        &[(
            "catena flow check chains/flow-policer.yaml",
            "Errors and warnings",
        )],
    ),
    of(
        "flow explain",
        &[(
            "catena flow explain chains/flow-policer.yaml",
            "What it costs",
        )],
    ),
    of(
        "flow test",
        &[(
            "catena flow test knock.yaml knock.test.yaml",
            "Packets in and out",
        )],
    ),
    of(
        "flow trace",
        &[(
            "catena flow trace chains/flow-policer.yaml web.pcap",
            "What became of each packet",
        )],
    ),
    of(
        "flow import",
        &[("catena flow import policer.xl", "A program of FlowBlaze's")],
    ),
    of(
        "flow graph",
        &[(
            "catena flow graph chains/flow-policer.yaml",
            "States as SVG",
        )],
    ),
    of(
        "schema",
        &[("catena schema > chain.schema.json", "Rules for an editor")],
    ),
    of(
        "doctor",
        &[("catena doctor --seconds 2s", "A short look at the machine")],
    ),
    of(
        "measure",
        &[(
            "catena measure search profile.yaml --nf macswap --out found",
            "Throughput",
        )],
    ),
    of(
        "measure search",
        &[
            (
                "catena measure search profile.yaml --chain web.yaml --out found",
                "Throughput of a chain, by MLRsearch",
            ),
            (
                "catena measure search profile.yaml --nf macswap --method mrr --out rate",
                "Rate at the highest load, within seconds",
            ),
        ],
    ),
    of(
        "measure latency",
        &[(
            "catena measure latency profile.yaml --chain web.yaml --rate 1Mpps --out late",
            "Latency at a load",
        )],
    ),
    of(
        "measure cost",
        &[(
            "catena measure cost profile.yaml --chain web.yaml --rate 1Mpps --out cost",
            "What a packet costs at 10, 30 and 100 % of a load",
        )],
    ),
    of(
        "measure compare",
        &[(
            "catena measure compare a.yaml b.yaml --together --out difference",
            "Whether b is faster than a",
        )],
    ),
    of(
        "measure study",
        &[
            (
                "catena measure study study.yaml --plan",
                "What would be measured",
            ),
            (
                "catena measure study study.yaml --out matrix",
                "Measure it, or go on with it",
            ),
        ],
    ),
    of(
        "measure render",
        &[(
            "catena measure render found/report.json --out again",
            "The page anew",
        )],
    ),
    of(
        "bench",
        &[(
            "catena bench chain --length 8 --mode inline",
            "One side of a benchmark, without its peers",
        )],
    ),
    of(
        "bench link",
        &[(
            "catena bench link --size 64 --aggregate off",
            "Lone packets of 64 bytes between two processes",
        )],
    ),
    of(
        "bench generator",
        &[(
            "catena bench generator --flows 16",
            "How fast the generator of 16 flows is",
        )],
    ),
    of(
        "bench hop",
        &[(
            "catena bench hop --seconds 1s",
            "The way of a lone packet between two processes",
        )],
    ),
    of(
        "bench chain",
        &[(
            "catena bench chain --length 2 --mode process",
            "A chain of two NFs, each in a process",
        )],
    ),
    of(
        "completions",
        &[(
            "catena completions bash > /etc/bash_completion.d/catena",
            "For all users",
        )],
    ),
    of(
        "man",
        &[(
            "catena man /usr/local/share/man/man1",
            "Where man(1) finds them",
        )],
    ),
];

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
