//! `cargo xtask record`: runs a session with the real command and draws it as an animated SVG, the
//! recording in the README. What the picture shows was printed, and appears when it was printed.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::error::Error;
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::image;

/// What to record.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// The binary
    #[arg(long, value_name = "FILE", default_value = "target/release/catena")]
    catena: PathBuf,
    /// Picture to write
    #[arg(
        long,
        value_name = "FILE",
        default_value = "docs/pictures/kill-and-recover.svg"
    )]
    out: PathBuf,
}

/// What is typed. A comment is shown; a line behind `@` is run and not shown, and waits for what
/// the next line needs.
const SESSION: &str = r#"
# A chain of two functions, each in a process of its own, at 50,000 packets/s
catena run web.yaml > end.txt 2> web.log &
@until catena status web > /dev/null 2>&1; do sleep 0.05; done
catena status web | sed -n '/^WORKER/,/^$/p'
# Kill one while packets are inside
@PID=$(catena status --json web | jq '.workers[] | select(.name == "police").pid')
kill -9 $PID
@until grep -q 'runs again' web.log; do sleep 0.05; done
cat web.log
@sleep 1
# It runs again, and every buffer and every packet is accounted for
catena stop web
@wait
sed -n '/^NODE/,/^$/p; /^buffers/p' end.txt
"#;

/// Longest that a session may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a line is typed before it is run, for those who watch.
const TYPING_S: f64 = 1.2;
/// How long the end is shown.
const END_S: f64 = 6.0;
/// Longest line that is drawn.
const COLUMNS: usize = 92;

/// A line on the screen.
#[derive(Clone, Debug, PartialEq)]
struct Shown {
    at_s: f64,
    text: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Typed,
    Comment,
    Printed,
}

impl Kind {
    const fn class(self) -> &'static str {
        match self {
            Self::Typed => "typed",
            Self::Comment => "comment",
            Self::Printed => "printed",
        }
    }
}

/// Records and draws.
///
/// # Errors
///
/// The session fails, or prints nothing.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let repository = image::repository()?;
    let catena = repository.join(&arguments.catena).canonicalize();
    let catena = catena.map_err(|error| {
        format!(
            "{}: {error}; build it with cargo build --release",
            arguments.catena.display()
        )
    })?;
    let place = std::env::temp_dir().join(format!("catena-record-{}", std::process::id()));
    std::fs::create_dir_all(&place)?;
    let lines = record(repository, &catena, &place);
    let _ = std::fs::remove_dir_all(&place);
    let lines = lines?;
    if !lines
        .iter()
        .any(|line| line.text.contains("runs again after"))
    {
        return Err("the session does not show a worker that runs again".into());
    }
    let out = repository.join(&arguments.out);
    std::fs::write(&out, drawn(&lines))?;
    println!("{}", out.display());
    Ok(())
}

fn record(repository: &Path, catena: &Path, place: &Path) -> Result<Vec<Shown>, Box<dyn Error>> {
    std::fs::copy(
        repository.join("docs/pictures/kill.yaml"),
        place.join("web.yaml"),
    )?;
    let folder = catena.parent().ok_or("the binary lies nowhere")?;
    let path = format!(
        "{}:{}",
        folder.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let mut shell = Command::new("bash");
    shell
        .arg("-c")
        .arg(script(SESSION))
        .current_dir(place)
        .env("PATH", path);
    shell.env("CATENA_RUNTIME_DIR", place.join("run"));
    let mut shell = shell.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = shell.stdout.take().ok_or("no output")?;
    let begun = Instant::now();
    let mut lines = Vec::new();
    // Typing takes no time of the session's, and some of those who watch.
    let mut typed_s = 0.0;
    for line in BufReader::new(output).lines() {
        let line = line?;
        let (kind, text) = match line.strip_prefix('\u{1e}') {
            Some(typed) if typed.starts_with('#') => (Kind::Comment, typed),
            Some(typed) => (Kind::Typed, typed),
            None => (Kind::Printed, line.as_str()),
        };
        if kind != Kind::Printed {
            typed_s += TYPING_S;
        }
        let at_s = begun.elapsed().as_secs_f64() + typed_s;
        let text = text.chars().take(COLUMNS).collect();
        lines.push(Shown { at_s, text, kind });
        if begun.elapsed() > PATIENCE {
            end(&mut shell);
            return Err("the session does not end".into());
        }
    }
    let status = shell.wait()?;
    match status.success() {
        true => Ok(lines),
        false => Err(format!("the session: {status}").into()),
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The session as a script that says what is typed before it does it.
fn script(session: &str) -> String {
    let mut script = "exec 2>&1\n".to_owned();
    for line in session.lines().filter(|line| !line.is_empty()) {
        let _ = match line.strip_prefix('@') {
            Some(hidden) => writeln!(script, "{hidden}"),
            None => writeln!(
                script,
                "printf '\\036%s\\n' '{}'\n{line}",
                line.replace('\'', "'\\''")
            ),
        };
    }
    script
}

const LINE_PX: usize = 19;

/// The picture: all lines stand where they end up, and each is seen from its time on.
fn drawn(lines: &[Shown]) -> String {
    let total_s = lines.last().map_or(0.0, |line| line.at_s) + END_S;
    let height = (lines.len() + 2) * LINE_PX;
    let mut style = String::new();
    let mut body = String::new();
    for (number, line) in lines.iter().enumerate() {
        let percent = line.at_s / total_s * 100.0;
        let _ = writeln!(
            style,
            "@keyframes l{number}{{0%,{percent:.2}%{{opacity:0}}{:.2}%,100%{{opacity:1}}}}",
            percent + 0.01
        );
        let prompt = if line.kind == Kind::Typed { "$ " } else { "" };
        let _ = writeln!(
            body,
            "<text x=\"16\" y=\"{}\" class=\"{}\" style=\"animation:l{number} {total_s:.1}s infinite\">\
             {prompt}{}</text>",
            (number + 2) * LINE_PX - 4,
            line.kind.class(),
            escaped(&line.text)
        );
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" height=\"{height}\" \
         viewBox=\"0 0 800 {height}\" role=\"img\">\n\
         <title>A worker of a running chain is killed, and runs again</title>\n\
         <!-- Made by cargo xtask record. -->\n\
         <style>text{{font:13px ui-monospace,Menlo,Consolas,monospace;white-space:pre}}\
         .typed{{fill:#e6edf3;font-weight:bold}}.comment{{fill:#7ee787}}.printed{{fill:#9da7b3}}\n\
         {style}</style>\n\
         <rect width=\"800\" height=\"{height}\" rx=\"8\" fill=\"#0d1117\"/>\n{body}</svg>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_said_before_it_is_done_and_what_is_hidden_is_not_said() {
        let script = script("# why\n@wait\necho 'a b'\n");
        let wanted = "exec 2>&1\nprintf '\\036%s\\n' '# why'\n# why\nwait\n\
                      printf '\\036%s\\n' 'echo '\\''a b'\\'''\necho 'a b'\n";
        assert_eq!(script, wanted);
    }

    #[test]
    fn a_line_is_seen_from_its_time_on() {
        let shown = |at_s, text: &str, kind| Shown {
            at_s,
            text: text.to_owned(),
            kind,
        };
        let lines = [
            shown(1.0, "a < b", Kind::Typed),
            shown(4.0, "c", Kind::Printed),
        ];
        let picture = drawn(&lines);
        assert!(picture.contains("@keyframes l0{0%,10.00%{opacity:0}10.01%,100%{opacity:1}}"));
        assert!(picture.contains(">$ a &lt; b</text>"), "{picture}");
        assert!(picture.contains("class=\"printed\""), "{picture}");
    }
}
