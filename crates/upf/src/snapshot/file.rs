//! The file of a snapshot: lines, of which the last one says how many are in front of it and what
//! they come to.
//!
//! Beside a packet's life. Both who writes and who reads have one line at a time in memory, however
//! many sessions there are. Limit: [`LINE_LEN_MAX`] bytes of a line; a longer one is damage.

use std::io::{self, BufRead, Read, Seek, Write};

use serde_json::{Value, json};

use crate::application::{HASH_OF_NOTHING, hash_on};

/// What a file says that it is.
pub(super) const KIND: &str = "catena_upf_snapshot";
/// Longest line that is read: of 16 sessions of 1 MiB, in hexadecimal.
const LINE_LEN_MAX: u64 = 1 << 26;

/// What lines come to, with their ends.
#[derive(Debug)]
struct Sum {
    count: u64,
    hash: u64,
}

impl Sum {
    const NOTHING: Self = Self {
        count: 0,
        hash: HASH_OF_NOTHING,
    };

    fn add(&mut self, line: &[u8]) {
        self.count += 1;
        self.hash = hash_on(self.hash, line);
    }

    fn shown(&self) -> String {
        format!("{:016x}", self.hash)
    }
}

/// Writes the file, line by line.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    sum: Sum,
}

impl<W: Write> Writer<W> {
    /// Into an empty file.
    pub const fn new(to: W) -> Self {
        let sum = Sum::NOTHING;
        Self { to, sum }
    }

    /// Appends a line of a page, which is without its end.
    ///
    /// # Errors
    /// Those of the file.
    pub fn line(&mut self, line: &str) -> io::Result<()> {
        let line = format!("{line}\n");
        self.sum.add(line.as_bytes());
        self.to.write_all(line.as_bytes())
    }

    /// Appends the last line; gives the file, which is whole then.
    ///
    /// # Errors
    /// Those of the file.
    pub fn end(mut self) -> io::Result<W> {
        let end = json!({ "end": self.sum.count, "sum": self.sum.shown() });
        self.to.write_all(format!("{end}\n").as_bytes())?;
        self.to.flush()?;
        Ok(self.to)
    }
}

/// What is said of a file that is not what was written.
pub(super) fn damaged() -> String {
    "it is damaged".to_owned()
}

fn unreadable(error: &io::Error) -> String {
    format!("it cannot be read: {error}")
}

/// A file that is whole, line by line.
#[derive(Debug)]
pub(super) struct Lines<'a, R> {
    file: &'a mut R,
    line: Vec<u8>,
    /// How many are to come.
    left: u64,
}

impl<'a, R: BufRead + Seek> Lines<'a, R> {
    /// Reads the file once, and begins anew with its first line.
    ///
    /// # Errors
    /// It cannot be read, or its last line does not say what is in front of it.
    pub(super) fn of(file: &'a mut R) -> Result<Self, String> {
        file.rewind().map_err(|error| unreadable(&error))?;
        let mut sum = Sum::NOTHING;
        let (mut line, mut next) = (Vec::new(), Vec::new());
        read_line(file, &mut line)?;
        while read_line(file, &mut next)? {
            sum.add(&line);
            std::mem::swap(&mut line, &mut next);
        }
        let end: Value = serde_json::from_slice(&line).map_err(|_| damaged())?;
        if sum.count == 0 || end["end"] != sum.count || end["sum"] != sum.shown() {
            return Err(damaged());
        }
        file.rewind().map_err(|error| unreadable(&error))?;
        let left = sum.count;
        Ok(Self { file, line, left })
    }

    /// The next line in front of the last one; none behind them.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub(super) fn next(&mut self) -> Result<Option<Value>, String> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        read_line(self.file, &mut self.line)?;
        let line = serde_json::from_slice(&self.line).map_err(|_| damaged())?;
        Ok(Some(line))
    }
}

/// Reads a line with its end; whether there is one.
fn read_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool, String> {
    line.clear();
    let mut file = file.take(LINE_LEN_MAX);
    let len = file
        .read_until(b'\n', line)
        .map_err(|error| unreadable(&error))?;
    match line.last() {
        Some(b'\n') => Ok(true),
        _ if len == 0 => Ok(false),
        _ => Err(damaged()),
    }
}

/// Whether a file is whole, and of a UPF of the same settings and version as the one that begins
/// its snapshot with the line `head`: any other one is refused when it is read.
pub fn is_of(file: &mut (impl BufRead + Seek), head: &str) -> bool {
    let first = Lines::of(file).and_then(|mut lines| lines.next());
    first.is_ok_and(|first| first.is_some_and(|first| is_alike(&first, &parsed(head))))
}

/// Whether two snapshots, of which these are the first lines, are of the same settings and version.
pub fn is_same(head: &str, other: &str) -> bool {
    is_alike(&parsed(head), &parsed(other))
}

fn parsed(head: &str) -> Value {
    serde_json::from_str(head).unwrap_or(Value::Null)
}

fn is_alike(head: &Value, other: &Value) -> bool {
    !head.is_null() && head[KIND] == other[KIND] && head["shape"] == other["shape"]
}
