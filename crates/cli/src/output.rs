//! Standard output and error, for all subcommands: a reader that has gone is no failure.
//!
//! `catena schema | head -1` closes the pipe early, for which `println!` would panic. Here the rest
//! is not written, silently; anything else that goes wrong (a full disk) is told once per process.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use catena_engine::chain::values::printed;

/// As `print!`.
macro_rules! out {
    ($($part:tt)*) => { $crate::output::write(format_args!($($part)*)) };
}

/// As `println!`.
macro_rules! outln {
    () => { $crate::output::write(format_args!("\n")) };
    ($($part:tt)*) => {
        $crate::output::write(format_args!("{}\n", format_args!($($part)*)))
    };
}

/// As `eprint!`, which panics where the standard error is closed or full.
macro_rules! err {
    ($($part:tt)*) => { $crate::output::complain(format_args!($($part)*)) };
}

/// As `eprintln!`, likewise.
macro_rules! errln {
    ($($part:tt)*) => {
        $crate::output::complain(format_args!("{}\n", format_args!($($part)*)))
    };
}

/// Writes to the standard error, if somebody takes it.
pub(crate) fn complain(text: fmt::Arguments<'_>) {
    let text = harmless(&text.to_string());
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// What people are told may quote names of files and values of others: of what would tell their
/// terminal something, only what ends and begins a line is left.
pub(crate) fn harmless(text: &str) -> String {
    let is_layout = |c: char| matches!(c, '\n' | '\r' | '\t');
    text.chars().fold(String::new(), |mut text, c| {
        match is_layout(c) {
            true => text.push(c),
            false => text.extend(printed(c)),
        }
        text
    })
}

/// Writes to the standard output.
pub(crate) fn write(text: fmt::Arguments<'_>) {
    /// Whether it was told that nothing can be written. No memory hangs on it: Relaxed.
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = stdout.write_fmt(text).and_then(|()| stdout.flush())
        && error.kind() != ErrorKind::BrokenPipe
        && !IS_TOLD.swap(true, Ordering::Relaxed)
    {
        errln!("catena: cannot write to the standard output: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_gives_a_terminal_no_orders() {
        let told = harmless("\ra\tb\n\x1b]0;c\x07\u{9b}2J \u{202e}d é\n");
        let wanted = "\ra\tb\n\\u{1b}]0;c\\u{7}\\u{9b}2J \\u{202e}d é\n";
        assert_eq!(told, wanted);
    }
}
