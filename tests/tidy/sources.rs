//! Checks of source text: lengths, headers, words, names, and where `unsafe` may stand.

use crate::{File, Finding, at, report, repository, sample, whole};

/// Longest line of a source file, in characters.
const LINE_CHARS_MAX: usize = 100;
/// Longest source file, in lines.
const FILE_LINES_MAX: usize = 600;
/// Files above the limit, each with the length it may not exceed. May only shrink.
const LONG_FILES: &[(&str, usize)] = &[];

fn rust(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| file.is(".rs"))
}

fn line_length(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust(files) {
        for (index, line) in file.text.lines().enumerate() {
            let length = line.chars().count();
            let text = line.trim_start();
            // A row of a table, an address, and text that is one literal are not broken.
            let is_whole = ["//! |", "/// |", "\"", "b\"", "r#\""]
                .iter()
                .any(|start| text.starts_with(start));
            if length > LINE_CHARS_MAX && !is_whole && !text.contains("https://") {
                let message = format!("{length} characters; break the line at {LINE_CHARS_MAX}");
                findings.push(at(file, index, message));
            }
        }
    }
    findings
}

#[test]
fn lines_are_not_too_long() {
    report(&line_length(&repository()));
    let long = format!("//! {}\n/// | {} |\n", "x".repeat(97), "x".repeat(97));
    let found = line_length(&[sample("a.rs", &long)]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].line, 1);
}

fn file_length(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust(files) {
        let length = file.text.lines().count();
        let known = LONG_FILES.iter().find(|(path, _)| *path == file.path);
        let limit = known.map_or(FILE_LINES_MAX, |(_, lines)| *lines);
        if length > limit {
            let message = format!(
                "{length} lines, at most {limit}; split it by role, or move its tests to tests.rs"
            );
            findings.push(whole(&file.path, message));
        }
    }
    findings
}

#[test]
fn files_are_not_too_long() {
    report(&file_length(&repository()));
    let found = file_length(&[sample("a.rs", &"x\n".repeat(601))]);
    assert_eq!(found.len(), 1);
}

fn header(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust(files) {
        let mut lines = file.text.lines();
        let first = lines.find(|line| !line.starts_with("// SPDX-License-Identifier:"));
        if !first.is_some_and(|line| line.starts_with("//! ")) {
            findings.push(whole(
                &file.path,
                "begin it with //!: what it is, where it sits in a packet's life, its limits",
            ));
        }
    }
    findings
}

/// Fewest characters in which a header can say what a file is and where it sits.
const HEADER_CHARS_MIN: usize = 55;

/// Files of crates whose header is a label: what is it for, and what comes before and behind it?
fn place(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_ours = |path: &str| path.starts_with("crates/") && path.contains("/src/");
    for file in rust(files).filter(|file| is_ours(&file.path) && !file.path.ends_with("tests.rs")) {
        let header = file
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("//!"));
        let len: usize = header.map(|line| line.trim().chars().count()).sum();
        if len < HEADER_CHARS_MIN {
            let message =
                "say in the first lines where it sits: what comes to it, and who needs it";
            findings.push(whole(&file.path, message));
        }
    }
    findings
}

#[test]
fn first_lines_say_where_a_file_sits() {
    report(&place(&repository()));
    let good = "//! Settings of a fibre, as a chain file has them: checked before it starts.\n";
    let files = [
        sample("crates/a/src/good.rs", good),
        sample("crates/a/src/bad.rs", "//! Settings.\n"),
        sample("crates/a/tests/x.rs", "//! Tests.\n"),
    ];
    let found = place(&files);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path, "crates/a/src/bad.rs");
}

#[test]
fn every_source_file_says_what_it_is() {
    report(&header(&repository()));
    let good = "// SPDX-License-Identifier: Apache-2.0\n//! What it is.\n";
    let found = header(&[sample("good.rs", good), sample("bad.rs", "use std;\n")]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path, "bad.rs");
}

/// A word that source files do not have, where it is allowed after all, and what to do instead.
struct Banned {
    word: &'static str,
    allowed_in: &'static [&'static str],
    instead: &'static str,
}

const BANNED: &[Banned] = &[
    Banned {
        word: "todo!(",
        allowed_in: &[],
        instead: "write it, or refuse with an error",
    },
    Banned {
        word: "unimplemented!(",
        allowed_in: &[],
        instead: "write it, or refuse with an error",
    },
    Banned {
        word: "dbg!(",
        allowed_in: &[],
        instead: "remove it",
    },
    Banned {
        word: "thread::sleep",
        // The interval of a sample, and of a file; a pause when no descriptor is free; other
        // processes' state; a kernel that cannot wait on several words.
        allowed_in: &[
            "xtask/src/bench/",
            "crates/shm/src/bell.rs",
            "crates/cli/src/commands/probe.rs",
            "crates/cli/src/commands/upf/release.rs",
            "crates/cli/src/commands/upf/trace.rs",
            "crates/cli/src/commands/top.rs",
            "crates/cli/src/metrics/http.rs",
            "crates/cli/src/snapshots.rs",
            "crates/cli/tests/cli/harness.rs",
        ],
        instead: "wait for the event itself: a bell, a descriptor, a hand-shake with a deadline",
    },
    Banned {
        word: "#[ignore",
        allowed_in: &[],
        instead: "let it run, or print SKIP with the reason",
    },
    Banned {
        word: "TODO",
        allowed_in: &[],
        instead: "do it, or open an issue and describe the limit in the file's header",
    },
    Banned {
        word: "FIXME",
        allowed_in: &[],
        instead: "fix it, or open an issue and describe the limit in the file's header",
    },
    Banned {
        word: "<<<<<<< ",
        allowed_in: &[],
        instead: "finish the merge",
    },
    Banned {
        word: ">>>>>>> ",
        allowed_in: &[],
        instead: "finish the merge",
    },
];

/// This test names the words it looks for.
const TIDY: &str = "tests/tidy";

fn banned_words(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust(files).filter(|file| !file.path.starts_with(TIDY)) {
        for (index, line) in file.text.lines().enumerate() {
            for banned in BANNED {
                let is_allowed = banned
                    .allowed_in
                    .iter()
                    .any(|place| file.path.starts_with(place));
                if line.contains(banned.word) && !is_allowed {
                    let message = format!("{}: {}", banned.word, banned.instead);
                    findings.push(at(file, index, message));
                }
            }
        }
    }
    findings
}

#[test]
fn banned_words_do_not_occur() {
    report(&banned_words(&repository()));
    for banned in BANNED {
        let text = format!("//! A file.\nfn f() {{ {} }}\n", banned.word);
        assert_eq!(banned_words(&[sample("a.rs", &text)]).len(), 1);
    }
    let bench = sample("xtask/src/bench/a.rs", "std::thread::sleep(x);\n");
    assert!(banned_words(&[bench]).is_empty());
}

/// Names that say nothing of what is in a file.
const EMPTY_NAMES: &[&str] = &[
    "utils", "util", "common", "misc", "manager", "helpers", "helper", "types", "base", "core",
];

fn file_names(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust(files) {
        let parts = file.path.trim_end_matches(".rs").split('/');
        for part in parts.filter(|part| EMPTY_NAMES.contains(part)) {
            let message = format!("\"{part}\" says nothing; name it after the type it holds");
            findings.push(whole(&file.path, message));
        }
    }
    findings
}

#[test]
fn files_are_named_after_what_they_hold() {
    report(&file_names(&repository()));
    let found = file_names(&[
        sample("crates/a/src/utils.rs", ""),
        sample("crates/a/src/common/mod.rs", ""),
        sample("crates/a/src/ring.rs", ""),
    ]);
    assert_eq!(found.len(), 2);
}

/// Where `unsafe` may stand: shared memory, bindings of the kernel, named SIMD files, the edge to
/// generated code.
fn may_be_unsafe(path: &str) -> bool {
    path.starts_with("crates/shm/")
        || (path.starts_with("crates/port/src/") && path.ends_with("/sys.rs"))
        || path == "crates/wire/src/checksum_simd.rs"
        || path == "crates/jit/src/edge.rs"
        || (path.starts_with("crates/pcs/src/")
            && (path.ends_with("_avx2.rs") || path.ends_with("_simd.rs")))
}

const UNSAFE_WORDS: &[&str] = &[
    "unsafe {",
    "unsafe fn",
    "unsafe impl",
    "unsafe trait",
    "unsafe extern",
    "allow(unsafe_code",
    "expect(unsafe_code",
];

fn unsafe_places(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust(files).filter(|file| !may_be_unsafe(&file.path)) {
        if file.path.starts_with(TIDY) {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            if !is_comment && UNSAFE_WORDS.iter().any(|word| line.contains(word)) {
                findings.push(at(
                    file,
                    index,
                    "unsafe does not stand here; use a safe call (rustix), or move it to \
                     crates/shm or to a sys.rs of crates/port",
                ));
            }
        }
    }
    findings
}

#[test]
fn unsafe_stands_in_few_named_files() {
    report(&unsafe_places(&repository()));
    let text = "// unsafe { }\nlet x = unsafe { read() };\n";
    let found = unsafe_places(&[
        sample("crates/engine/src/a.rs", text),
        sample("crates/shm/src/a.rs", text),
        sample("crates/port/src/tap/sys.rs", text),
        sample("crates/pcs/src/rs/rs_avx2.rs", text),
        sample("crates/port/src/tap/mod.rs", text),
    ]);
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|finding| finding.line == 2));
}

/// Where NFs and state machines are, which are told the time.
const TIMELESS: &[&str] = &[
    "crates/engine/src/chain/",
    "crates/engine/src/nfs/",
    "crates/engine/src/placement",
    "crates/engine/src/shard/",
    "crates/engine/src/supervisor/reclaim.rs",
    "crates/epon/src/",
    "crates/flow/src/",
    "crates/pcs/src/",
    "crates/upf/src/",
    "crates/wire/src/",
];
/// A port among them, which stamps what it sends, and what is read when an NF is built.
const TIMED: &[&str] = &[
    "crates/epon/src/pktgenrcv/",
    "crates/flow/src/ipfix/clocks.rs",
    "crates/upf/src/nf/clocks.rs",
];
/// How a clock is read.
const CLOCKS: &[&str] = &[
    "Instant::now(",
    "SystemTime::now(",
    "clock_gettime(",
    "tsc::ticks(",
    "tsc::kernel_ns(",
    "tsc::epoch_ns(",
    "clock.now_ns(",
];

fn clocks(files: &[File]) -> Vec<Finding> {
    let is_timeless = |file: &&File| {
        TIMELESS.iter().any(|folder| file.path.starts_with(folder))
            && !TIMED.iter().any(|timed| file.path.starts_with(timed))
            && !["test", "bench"]
                .iter()
                .any(|word| file.path.contains(word))
    };
    let mut findings = Vec::new();
    for file in rust(files).filter(is_timeless) {
        let lines = file.text.lines().enumerate();
        for (index, line) in lines.take_while(|(_, line)| *line != "mod tests {") {
            let is_comment = line.trim_start().starts_with("//");
            if !is_comment && CLOCKS.iter().any(|clock| line.contains(clock)) {
                let message = "an NF reads no clock; use the time that its call is given";
                findings.push(at(file, index, message));
            }
        }
    }
    findings
}

#[test]
fn nfs_read_no_clock() {
    report(&clocks(&repository()));
    let text = "// Instant::now()\nlet x = Instant::now();\nmod tests {\nInstant::now()\n";
    let found = clocks(&[
        sample("crates/epon/src/phy/mod.rs", text),
        sample("crates/epon/src/pktgenrcv/mod.rs", text),
        sample("crates/engine/src/worker/turn.rs", text),
    ]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].line, 2);
}

/// Places that exist on one machine only.
const MACHINE_PATHS: &[&str] = &["/home/", "/Users/", "/root/"];

fn machine_paths(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !file.path.starts_with(TIDY)) {
        for (index, line) in file.text.lines().enumerate() {
            for path in MACHINE_PATHS {
                // The start of an absolute path, not the middle of a relative one.
                let starts = line.match_indices(path).any(|(at, _)| {
                    let before = line[..at].chars().next_back();
                    before.is_none_or(|c| !c.is_alphanumeric() && !"._-}$~".contains(c))
                });
                if starts {
                    let message = format!("{path} exists on one machine only; use a relative path");
                    findings.push(at(file, index, message));
                }
            }
        }
    }
    findings
}

#[test]
fn no_path_names_one_machine() {
    report(&machine_paths(&repository()));
    let found = machine_paths(&[
        sample("a.md", "see /home/me/catena\n"),
        sample("b.md", "see docs/home/plan and $HOME/home/x\n"),
    ]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path, "a.md");
}
