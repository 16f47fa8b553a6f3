//! A document as text, files to write and commands with their output.

use std::fmt::Write;

/// A command and what is printed below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Command {
    /// All its lines, those behind `\` too.
    pub(super) text: String,
    pub(super) output: Vec<String>,
    pub(super) needs_root: bool,
}

/// A part of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A line that stays as it is.
    Line(String),
    Command(Command),
    /// A file that the reader writes, once its block has ended.
    Write {
        file: String,
        text: String,
    },
}

/// A document in its parts.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    pub(super) steps: Vec<Step>,
    shell_lines: Vec<String>,
    chains: Vec<String>,
}

impl Page {
    pub(super) fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let mut block: Option<(String, String)> = None;
        for line in text.lines() {
            let fence = line.trim_start().strip_prefix("```");
            match (&mut block, fence) {
                (None, Some(kind)) => {
                    block = Some((kind.to_owned(), String::new()));
                    page.keep(line);
                }
                (Some((kind, inside)), Some("")) => {
                    let (kind, inside) = (std::mem::take(kind), std::mem::take(inside));
                    block = None;
                    page.keep(line);
                    page.end_block(&kind, inside);
                }
                (Some((kind, inside)), _) => {
                    let _ = writeln!(inside, "{line}");
                    match kind.strip_prefix("console") {
                        Some(kind) => page.console_line(line, kind.contains("root")),
                        None => page.keep(line),
                    }
                }
                (None, None) => page.keep(line),
            }
        }
        page
    }

    fn keep(&mut self, line: &str) {
        self.steps.push(Step::Line(line.to_owned()));
    }

    fn console_line(&mut self, line: &str, needs_root: bool) {
        if let Some(text) = line.strip_prefix("$ ") {
            let text = text.to_owned();
            self.steps.push(Step::Command(Command {
                text,
                needs_root,
                ..Command::default()
            }));
            return;
        }
        match self.steps.last_mut() {
            Some(Step::Command(command)) if command.text.ends_with('\\') => {
                let _ = write!(command.text, "\n{line}");
            }
            Some(Step::Command(command)) => command.output.push(line.to_owned()),
            _ => self.keep(line),
        }
    }

    fn end_block(&mut self, kind: &str, inside: String) {
        if kind == "sh" {
            let lines = inside.replace("\\\n", " ");
            let lines = lines.lines().map(str::trim);
            let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
            self.shell_lines.extend(lines.map(str::to_owned));
        }
        let Some(file) = kind.strip_prefix("yaml") else {
            return;
        };
        if inside.lines().any(|line| line.starts_with("name:")) && inside.contains("\nlinks:") {
            self.chains.push(inside.clone());
        }
        if !file.trim().is_empty() {
            let file = file.trim().to_owned();
            self.steps.push(Step::Write { file, text: inside });
        }
    }

    /// The document again.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            match step {
                Step::Line(line) => {
                    let _ = writeln!(text, "{line}");
                }
                Step::Command(command) => {
                    let _ = writeln!(text, "$ {}", command.text);
                    for line in &command.output {
                        let _ = writeln!(text, "{line}");
                    }
                }
                Step::Write { .. } => {}
            }
        }
        text
    }

    pub(super) fn needs_root(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|step| matches!(step, Step::Command(command) if command.needs_root))
    }

    /// Whether a command says where programs are found.
    pub(super) fn sets_path(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|step| {
            matches!(step, Step::Command(command) if command.text.starts_with("export PATH="))
        })
    }

    /// Lines of `sh` blocks.
    pub(super) fn shell_lines(&self) -> &[String] {
        &self.shell_lines
    }

    /// Whole chain files.
    pub(super) fn chains(&self) -> &[String] {
        &self.chains
    }
}

/// Whether `lines` are what `printed` says, where `...` alone stands for any lines, and within a
/// line for anything; columns may then be of other widths.
pub(super) fn matches(printed: &[String], lines: &[String]) -> bool {
    let is_loose = printed.iter().any(|line| line.contains("..."));
    match is_loose {
        true => loosely(printed, lines),
        false => printed == lines,
    }
}

fn loosely(printed: &[String], lines: &[String]) -> bool {
    match printed.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first.trim() == "..." => {
            (0..=lines.len()).any(|skipped| loosely(rest, &lines[skipped..]))
        }
        Some((first, rest)) => {
            let line = lines.split_first();
            line.is_some_and(|(line, others)| line_matches(first, line) && loosely(rest, others))
        }
    }
}

fn line_matches(printed: &str, line: &str) -> bool {
    let narrow = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (printed, line) = (narrow(printed), narrow(line));
    if printed == line {
        return true;
    }
    let mut parts = printed.split("...");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return false;
    };
    for part in middle {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn a_page_is_files_and_commands_and_becomes_itself_again() {
    let text = "# T\n```yaml a.yaml\nname: a\nlinks: []\n```\n\
                ```console root\n$ run a \\\n    b\nout\n\n$ end\n```\n\
                ```sh\n# why\n./test \\\n  --quick\n```\n";
    let page = Page::parse(text);
    assert_eq!(page.text(), text);
    let found: Vec<_> = page
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Command(command) => Some((command.text.as_str(), command.output.len())),
            _ => None,
        })
        .collect();
    assert_eq!(found, [("run a \\\n    b", 2), ("end", 0)]);
    assert!(page.needs_root());
    assert_eq!(page.shell_lines(), ["./test    --quick"]);
    assert_eq!(page.chains().len(), 1);
}

#[test]
fn dots_stand_for_what_differs_and_for_nothing_else() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let same = |printed: &str, said: &str| matches(&lines(printed), &lines(said));
    assert!(same("a\n...\nd", "a\nb\nc\nd"));
    assert!(same(
        "worker ... runs after ... ms",
        "worker x  runs after 1.2 ms"
    ));
    assert!(same("...", ""));
    assert!(!same("a\n...\nd", "a\nb"));
    assert!(!same("worker ... ms", "worker x s"));
    assert!(!same("a b", "a  b"));
    assert!(same("...\na b", "x\na  b"));
    assert!(!same("a", "a\nb"));
    assert!(!same("", "a"));
}
