//! `catena top` on a terminal of its own.

use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::harness::{Place, until};
use super::running::generating;

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// A terminal, what is shown on it, and who runs there.
struct Screen {
    ours: OwnedFd,
    theirs: OwnedFd,
    shown: String,
    child: Child,
}

impl Screen {
    fn run(place: &Place, args: &[&str]) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let path = ptsname(&ours, Vec::new()).unwrap();
        let mut options = std::fs::OpenOptions::new();
        let device = options.read(true).write(true).open(path.to_str().unwrap());
        let theirs = OwnedFd::from(device.unwrap());
        resize(&ours, 80, 24);
        let side = || Stdio::from(theirs.try_clone().unwrap());
        let mut command = place.command(args);
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn();
        Self {
            child: child.unwrap(),
            ours,
            theirs,
            shown: String::new(),
        }
    }

    /// Reads until `text` is shown; forgets what was shown up to there.
    #[track_caller]
    fn await_text(&mut self, text: &str) {
        until(text, || {
            self.read();
            let end = self.shown.find(text)? + text.len();
            self.shown.drain(..end);
            Some(())
        });
    }

    fn read(&mut self) {
        loop {
            let mut fds = [PollFd::new(&self.ours, PollFlags::IN)];
            let now = Timespec::default();
            if poll(&mut fds, Some(&now)).unwrap() == 0 {
                return;
            }
            let mut bytes = [0; 4096];
            let count = rustix::io::read(&self.ours, &mut bytes).unwrap();
            self.shown
                .push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    fn press(&self, keys: &str) {
        rustix::io::write(&self.ours, keys.as_bytes()).unwrap();
    }

    /// Waits for the end: the terminal must be as it was before.
    #[track_caller]
    fn assert_restored(mut self, code: i32) {
        let status = until("it ends", || {
            self.read();
            self.child.try_wait().unwrap()
        });
        assert_eq!(status.code(), Some(code), "{}", self.shown);
        self.read();
        assert!(self.shown.contains(LEAVE), "{:?}", self.shown);
        assert!(is_cooked(&self.theirs));
    }
}

fn resize(terminal: &OwnedFd, columns: u16, lines: u16) {
    let size = Winsize {
        ws_row: lines,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).unwrap();
}

fn is_cooked(terminal: &OwnedFd) -> bool {
    let modes = tcgetattr(terminal).unwrap().local_modes;
    modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
}

#[test]
fn top_draws_listens_to_keys_and_puts_the_terminal_back() {
    let place = Place::new();
    let file = generating(&place, "gen");
    let running = place.start("gen", &[&file]);

    let mut screen = Screen::run(&place, &["top"]);
    screen.await_text(ENTER);
    screen.await_text("catena top: gen");
    screen.await_text("swap -> tally");
    assert!(!is_cooked(&screen.theirs));
    screen.press("s");
    screen.await_text("sort: rate");
    screen.press("?");
    screen.await_text("Ctrl-C");
    screen.press("? ");
    screen.await_text("PAUSED");
    screen.press(" ");
    // Fewer lines than there are: the place among them is told, and moves.
    resize(&screen.ours, 120, 10);
    screen.await_text("1-7/");
    screen.press("j\x1b[B");
    screen.await_text("3-9/");
    screen.press("q");
    screen.assert_restored(0);

    for signal in [Signal::TERM, Signal::HUP] {
        let mut screen = Screen::run(&place, &["top", "gen"]);
        screen.await_text("catena top: gen");
        kill_process(Pid::from_child(&screen.child), signal).unwrap();
        screen.assert_restored(0);
    }

    let mut screen = Screen::run(&place, &["top"]);
    screen.await_text("catena top: gen");
    place.catena(&["stop"]).assert_code(0);
    screen.await_text(LEAVE);
    screen.await_text("chain \"gen\" is not running");
    screen.shown.push_str(LEAVE);
    screen.assert_restored(0);
    running.end().assert_code(0);
    place.assert_nothing_left();
}
