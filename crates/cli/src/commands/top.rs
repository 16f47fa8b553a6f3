//! `catena top`: watches a running chain. It only reads: the chain does not notice.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use catena_engine::supervisor::status::Status;

use super::control::{Request, ask, status_in};
use super::target::Target;
use super::{Failure, Outcome};
use crate::top::frame::{Look, PAPER_WIDTH};
use crate::top::history::History;
use crate::top::rates::{Rates, rates};
use crate::top::terminal::{Key, Terminal, is_ascii};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Print one frame, over one interval, and end; needs no terminal
    #[arg(long)]
    once: bool,
    /// Time between two samples, 50ms to 60s; a number without unit is in seconds
    #[arg(long, value_name = "SPAN", default_value = "500ms",
          value_parser = |text: &str| crate::quantity::seconds(text, 0.05..=60.0))]
    interval: Duration,
    /// Print the rates of one interval as JSON and end
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let name = args.target.name()?;
    let sample = || {
        let status = ask(&name, &Request::Status).and_then(status_in)?;
        // For people, shards are one node.
        Ok::<_, Failure>(match args.json {
            true => status,
            false => status.by_name_in_file(),
        })
    };
    if args.once || args.json {
        let before = sample()?;
        std::thread::sleep(args.interval);
        print_once(&rates(&before, &sample()?), args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    if !stdin.is_terminal() || !stdout.is_terminal() {
        return Err(Failure::input(
            "this is no terminal; print one frame with --once, or rates with --json",
        ));
    }
    let first = sample()?;
    let device = stdin.as_fd().try_clone_to_owned();
    let terminal = device.and_then(Terminal::enter).map_err(Failure::running)?;
    let ended = watch(&terminal, first, args.interval, &sample).map_err(Failure::running)?;
    drop(terminal);
    if let Some(failure) = ended {
        errln!("{}", failure.message);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_once(rates: &Rates, json: bool) -> Result<(), Failure> {
    if json {
        return crate::document::print("catena.rates/1", rates);
    }
    let look = Look {
        width: PAPER_WIDTH,
        is_ascii: is_ascii(),
        ..Look::default()
    };
    let mut history = History::default();
    history.add(rates);
    for line in look.frame(rates, &history) {
        outln!("{}", line.text);
    }
    Ok(())
}

/// Draws until a key or a signal says no more, or the chain no longer answers: then why.
fn watch(
    terminal: &Terminal,
    first: Status,
    interval: Duration,
    sample: &dyn Fn() -> Result<Status, Failure>,
) -> std::io::Result<Option<Failure>> {
    let mut look = Look {
        is_ascii: is_ascii(),
        ..Look::default()
    };
    let mut history = History::default();
    let mut shown = rates(&first, &first);
    let mut before = first;
    let mut next = Instant::now() + interval;
    loop {
        let (width, height) = terminal.size();
        (look.width, look.height) = (width, Some(height));
        terminal.draw(&look.frame(&shown, &history))?;
        for key in terminal.keys(next.saturating_duration_since(Instant::now())) {
            if key == Key::Quit {
                return Ok(None);
            }
            press(&mut look, key, &shown);
        }
        if Instant::now() < next {
            continue;
        }
        next = Instant::now() + interval;
        let after = match sample() {
            Ok(status) => status,
            Err(failure) => return Ok(Some(failure)),
        };
        if !look.is_paused {
            shown = rates(&before, &after);
            history.add(&shown);
        }
        before = after;
    }
}

fn press(look: &mut Look, key: Key, rates: &Rates) {
    let page = look.height.unwrap_or(0) / 2;
    // What is scrolled beyond the end, when a window has grown, counts from the end.
    let scroll = look.scroll.min(look.scroll_max(rates));
    match key {
        Key::Quit => {}
        Key::Up => look.scroll = scroll.saturating_sub(1),
        Key::Down => look.scroll = scroll + 1,
        Key::PageUp => look.scroll = scroll.saturating_sub(page),
        Key::PageDown => look.scroll = scroll + page,
        Key::First => look.scroll = 0,
        Key::Last => look.scroll = usize::MAX,
        Key::Sort => look.sort = look.sort.next(),
        Key::Pause => look.is_paused = !look.is_paused,
        Key::Help => {
            look.shows_help = !look.shows_help;
            look.scroll = 0;
        }
    }
    look.scroll = look.scroll.min(look.scroll_max(rates));
}
