//! The terminal: raw mode, its size, keys, drawing.
//!
//! Drawing uses the few control sequences that every terminal since the VT100 has, and the
//! alternate screen (xterm, and all that copy it). The terminal gets its old settings back when
//! [`Terminal`] is dropped and, before the message, on a panic. SIGTERM, SIGINT and SIGHUP only
//! set a flag.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::line::{Line, Style, Tint};

/// Alternate screen, cursor hidden.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Plain letters, cursor shown, the old screen.
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

/// What to put back, while there is something: the terminal and its settings.
static SAVED: Mutex<Option<(OwnedFd, Termios)>> = Mutex::new(None);

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

/// A terminal in raw mode.
pub(crate) struct Terminal {
    device: OwnedFd,
    end: Arc<AtomicBool>,
    has_color: bool,
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal").finish_non_exhaustive()
    }
}

impl Terminal {
    /// Takes over a terminal. One at a time per process.
    pub(crate) fn enter(device: OwnedFd) -> std::io::Result<Self> {
        let old = tcgetattr(&device)?;
        let mut raw = old.clone();
        raw.make_raw();
        *lock_saved() = Some((device.try_clone()?, old));
        restore_on_panic();
        let terminal = Self {
            end: Arc::new(AtomicBool::new(false)),
            has_color: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            device,
        };
        for signal in [
            signal_hook::consts::SIGTERM,
            signal_hook::consts::SIGINT,
            signal_hook::consts::SIGHUP,
        ] {
            signal_hook::flag::register(signal, Arc::clone(&terminal.end))?;
        }
        tcsetattr(&terminal.device, OptionalActions::Flush, &raw)?;
        terminal.write(ENTER.as_bytes())?;
        Ok(terminal)
    }

    /// Columns and lines; asked before every frame, so that a change is seen.
    pub(crate) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.device) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (usize::from(size.ws_col), usize::from(size.ws_row))
            }
            _ => (80, 24),
        }
    }

    /// Draws a frame over the last one, in one piece.
    pub(crate) fn draw(&self, lines: &[Line]) -> std::io::Result<()> {
        self.write(drawing(lines, self.has_color).as_bytes())
    }

    /// Keys pressed within `patience`, or [`Key::Quit`] if a signal or the terminal's end says so.
    pub(crate) fn keys(&self, patience: Duration) -> Vec<Key> {
        if self.end.load(Ordering::Relaxed) {
            return vec![Key::Quit];
        }
        let mut fds = [PollFd::new(&self.device, PollFlags::IN)];
        let timeout = Timespec::try_from(patience).unwrap_or_default();
        // A signal interrupts the wait; the flag is then seen.
        let ready = poll(&mut fds, Some(&timeout)).unwrap_or(0);
        if self.end.load(Ordering::Relaxed) {
            return vec![Key::Quit];
        }
        if ready == 0 {
            return Vec::new();
        }
        let mut bytes = [0; 256];
        match rustix::io::read(&self.device, &mut bytes) {
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Vec::new(),
            Ok(0) | Err(_) => vec![Key::Quit],
            Ok(count) => keys_in(&bytes[..count]),
        }
    }

    fn write(&self, bytes: &[u8]) -> std::io::Result<()> {
        write_all(&self.device, bytes)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

fn write_all(device: &OwnedFd, bytes: &[u8]) -> std::io::Result<()> {
    std::fs::File::from(device.as_fd().try_clone_to_owned()?).write_all(bytes)
}

fn lock_saved() -> std::sync::MutexGuard<'static, Option<(OwnedFd, Termios)>> {
    SAVED
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn restore() {
    if let Some((device, old)) = lock_saved().take() {
        // Nobody is left to tell if this fails.
        let _ = write_all(&device, LEAVE.as_bytes());
        let _ = tcsetattr(&device, OptionalActions::Flush, &old);
    }
}

/// A panic's message must not be drawn on a screen that is about to vanish.
fn restore_on_panic() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let next: Hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            next(info);
        }));
    });
}

/// The bytes that draw a frame.
fn drawing(lines: &[Line], has_color: bool) -> String {
    let mut text = String::from("\x1b[H");
    for (number, line) in lines.iter().enumerate() {
        if number > 0 {
            text.push_str("\r\n");
        }
        let style = match line.style {
            Style::Plain => "",
            Style::Title => "\x1b[1m",
            Style::Alert if has_color => "\x1b[31m",
            Style::Alert => "\x1b[7m",
        };
        text.push_str(style);
        let has_marks = has_color && line.style == Style::Plain;
        draw_text(&mut text, line, has_marks);
        if !style.is_empty() {
            text.push_str("\x1b[0m");
        }
        text.push_str("\x1b[K");
    }
    text.push_str("\x1b[J");
    text
}

/// The letters of a line, and colours of its parts if they may have any.
fn draw_text(text: &mut String, line: &Line, has_marks: bool) {
    let marks: &[_] = if has_marks { &line.marks } else { &[] };
    let mut tint = None;
    // A name in a chain file is a word, but what comes from elsewhere is not believed.
    let letters = line
        .text
        .chars()
        .map(|c| if c.is_control() { '?' } else { c });
    for (column, letter) in letters.enumerate() {
        let here = marks
            .iter()
            .find(|mark| (mark.from..mark.to).contains(&column));
        let here = here.map(|mark| mark.tint);
        if here != tint {
            text.push_str(here.map_or("\x1b[0m", sequence));
            tint = here;
        }
        text.push(letter);
    }
    if tint.is_some() {
        text.push_str("\x1b[0m");
    }
}

/// Colours of ECMA-48 (8.3.117), which every terminal's own palette fits to its background.
const fn sequence(tint: Tint) -> &'static str {
    match tint {
        Tint::Dim => "\x1b[0;2m",
        Tint::Good => "\x1b[0;32m",
        Tint::Warm => "\x1b[0;33m",
        Tint::Hot => "\x1b[0;31m",
        Tint::Past => "\x1b[0;36m",
    }
}

/// Whether the locale's letters are ASCII only (locale(7)): its first variable that is set decides.
pub(crate) fn is_ascii() -> bool {
    let variables = ["LC_ALL", "LC_CTYPE", "LANG"].map(std::env::var);
    let mut set = variables
        .into_iter()
        .flatten()
        .filter(|value| !value.is_empty());
    let locale = set.next().unwrap_or_default().to_lowercase();
    !(locale.contains("utf-8") || locale.contains("utf8"))
}

/// What a person can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Quit,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Sort,
    Pause,
    Help,
}

/// The keys in what a terminal sends; what is not known is skipped.
fn keys_in(bytes: &[u8]) -> Vec<Key> {
    const SEQUENCES: &[(&[u8], Key)] = &[
        (b"\x1b[A", Key::Up),
        (b"\x1bOA", Key::Up),
        (b"\x1b[B", Key::Down),
        (b"\x1bOB", Key::Down),
        (b"\x1b[5~", Key::PageUp),
        (b"\x1b[6~", Key::PageDown),
        (b"\x1b[H", Key::First),
        (b"\x1b[F", Key::Last),
        (b"q", Key::Quit),
        (b"Q", Key::Quit),
        (b"\x03", Key::Quit),
        (b"\x04", Key::Quit),
        (b"k", Key::Up),
        (b"j", Key::Down),
        (b"g", Key::First),
        (b"G", Key::Last),
        (b"s", Key::Sort),
        (b" ", Key::Pause),
        (b"?", Key::Help),
        (b"h", Key::Help),
    ];
    let mut keys = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        match SEQUENCES.iter().find(|(start, _)| rest.starts_with(start)) {
            Some((start, key)) => {
                keys.push(*key);
                rest = &rest[start.len()..];
            }
            None => rest = &rest[unknown_len(rest)..],
        }
    }
    keys
}

/// Length of a key that means nothing here: a whole control sequence (ECMA-48 5.4), or a byte.
fn unknown_len(bytes: &[u8]) -> usize {
    if !bytes.starts_with(b"\x1b[") {
        return 1;
    }
    let is_final = |byte: &u8| (0x40..=0x7e).contains(byte);
    let end = bytes[2..].iter().position(is_final);
    end.map_or(bytes.len(), |end| end + 3)
}

#[cfg(test)]
mod tests {
    use super::super::line::Mark;
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, Winsize, tcsetwinsize};

    /// Both sides of a new terminal.
    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let path = ptsname(&ours, Vec::new()).unwrap();
        let path = path.to_str().unwrap();
        let theirs = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path);
        (ours, theirs.unwrap().into())
    }

    fn is_raw(device: &OwnedFd) -> bool {
        let modes = tcgetattr(device).unwrap().local_modes;
        !modes.contains(LocalModes::ICANON)
    }

    fn shown(device: &OwnedFd) -> String {
        let mut bytes = [0; 65536];
        let count = rustix::io::read(device, &mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    /// One after the other: there is one terminal per process.
    #[test]
    fn a_terminal_is_put_back_at_the_end_and_on_a_panic() {
        let (screen, device) = pair();
        let mine = || device.try_clone().unwrap();
        let terminal = Terminal::enter(mine()).unwrap();
        assert!(is_raw(&device));
        assert!(shown(&screen).contains(ENTER));
        assert_eq!(terminal.size(), (80, 24), "a size of 0 is none");
        let size = Winsize {
            ws_row: 40,
            ws_col: 132,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&screen, size).unwrap();
        assert_eq!(terminal.size(), (132, 40));
        rustix::io::write(&screen, b"jq").unwrap();
        let keys = terminal.keys(Duration::from_secs(5));
        assert_eq!(keys, [Key::Down, Key::Quit]);
        drop(terminal);
        assert!(!is_raw(&device));
        assert!(shown(&screen).contains(LEAVE));

        let panicking = std::thread::spawn(move || {
            let _terminal = Terminal::enter(device.try_clone().unwrap()).unwrap();
            assert!(!is_raw(&device), "this panic is part of the test");
        });
        assert!(panicking.join().is_err());
        let screen_text = shown(&screen);
        assert!(screen_text.contains(LEAVE), "{screen_text:?}");
    }

    #[test]
    fn keys_are_found_among_others() {
        assert_eq!(keys_in(b"\x1b[A\x1bOBk"), [Key::Up, Key::Down, Key::Up]);
        assert_eq!(keys_in(b"\x1b[5~\x1b[6~"), [Key::PageUp, Key::PageDown]);
        assert_eq!(
            keys_in(b"\x1b[15;2~s"),
            [Key::Sort],
            "a function key means nothing"
        );
        assert_eq!(keys_in(b"x\x1b"), []);
        assert_eq!(keys_in(b"\x1b[1;"), []);
        assert_eq!(keys_in("\u{e9} ?".as_bytes()), [Key::Pause, Key::Help]);
    }

    #[test]
    fn a_drawing_holds_no_control_characters_of_others() {
        let line = |style, text: &str| Line {
            style,
            text: text.to_owned(),
            marks: Vec::new(),
        };
        let lines = [line(Style::Title, "a"), line(Style::Alert, "b\x1b[2J\n")];
        assert_eq!(
            drawing(&lines, true),
            "\x1b[H\x1b[1ma\x1b[0m\x1b[K\r\n\x1b[31mb?[2J?\x1b[0m\x1b[K\x1b[J"
        );
        assert!(drawing(&lines, false).contains("\x1b[7mb"));
    }

    #[test]
    fn parts_of_a_plain_line_have_colours_unless_there_are_none() {
        let mut line = Line {
            style: Style::Plain,
            text: "ab cd".to_owned(),
            marks: vec![Mark {
                from: 3,
                to: 9,
                tint: Tint::Good,
            }],
        };
        let coloured = "\x1b[Hab \x1b[0;32mcd\x1b[0m\x1b[K\x1b[J";
        assert_eq!(drawing(std::slice::from_ref(&line), true), coloured);
        let plain = "\x1b[Hab cd\x1b[K\x1b[J";
        assert_eq!(drawing(std::slice::from_ref(&line), false), plain);
        line.style = Style::Alert;
        let alert = "\x1b[H\x1b[31mab cd\x1b[0m\x1b[K\x1b[J";
        assert_eq!(drawing(&[line], true), alert);
    }
}
