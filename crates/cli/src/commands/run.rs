//! `catena run`: starts a chain and stays with it to its end.
//!
//! The end comes when all sources have come to theirs and every packet has left, or on SIGINT,
//! SIGTERM or `catena stop`, which drain the chain first. The last thing printed is the table of
//! counters.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use catena_engine::chain::Mode;
use catena_engine::supervisor::runtime_dir::{control_path, default_root};
use catena_engine::supervisor::{Event, Options, Supervisor};

use super::control::{Answer, Request, Source, answer, answer_with, read_request};
use super::{Failure, Outcome};
use crate::metrics::Server;
use crate::registry::registry;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Chain file
    file: PathBuf,
    /// Print the final counters as JSON
    #[arg(long)]
    json: bool,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Run nodes that name no mode in this one, instead of the file's
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    mode: Option<Mode>,
    /// Leave the placement of workers on cores to the kernel
    #[arg(long)]
    no_pin: bool,
    /// Serve Prometheus metrics over HTTP at this address, such as 127.0.0.1:9465
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address)]
    metrics: Option<SocketAddr>,
    /// Say less: only errors and the final counters
    #[arg(long, short)]
    quiet: bool,
}

pub(super) fn parse_mode(text: &str) -> Result<Mode, String> {
    serde_json::from_value(text.into())
        .map_err(|_| "one of inline, thread, process, container".to_owned())
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "write an IP address and a port, such as 127.0.0.1:9465 or [::1]:9465".to_owned()
    })
}

/// How long packets inside may take to leave once nothing more comes in.
const DRAIN_PATIENCE: Duration = Duration::from_secs(5);
/// How long workers may take to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &Args) -> Outcome {
    let mut checked = super::check::load(&args.file, args.json, args.mode)?;
    let metrics = args.metrics.map(Server::bind).transpose()?;
    let source = Source {
        dir: checked.chain.dir.clone(),
        text: std::mem::take(&mut checked.text),
        mode: args.mode,
    };
    if !args.quiet {
        for warning in &checked.warnings {
            eprintln!("{warning}");
        }
    }
    let options = Options {
        registry: registry(),
        program: std::env::current_exe().map_err(Failure::running)?,
        runtime_root: default_root(),
        pin: !args.no_pin,
    };
    let signals = signal_pipe()?;
    // Outlives the supervisor: who asked for the end sees it when nothing is left.
    let mut end_askers = Vec::new();
    let mut supervisor = Supervisor::start(checked.chain, options).map_err(Failure::running)?;
    if !args.quiet {
        eprintln!(
            "chain \"{}\" is running; wait policy: {}",
            supervisor.chain().name,
            supervisor.wait_policy().describe()
        );
    }
    if let Some(metrics) = metrics {
        if !args.quiet {
            eprintln!("metrics: http://{}/metrics", metrics.address());
        }
        metrics.serve(control_path(&default_root(), &supervisor.chain().name));
    }
    let mut desk = Desk {
        source,
        end_askers: &mut end_askers,
    };
    watch(&mut supervisor, &signals, args, &mut desk);
    supervisor.stop(STOP_PATIENCE);
    tell_events(&mut supervisor, args.quiet);
    let status = supervisor.status();
    for socket in &end_askers {
        answer(socket, &Answer::Status(Box::new(status.clone())));
    }
    if args.json {
        outln!(
            "{}",
            serde_json::to_string_pretty(&status).map_err(Failure::running)?
        );
    } else {
        out!("{}", crate::render::status(&status));
    }
    let errors: Vec<_> = status
        .nodes
        .iter()
        .filter_map(|node| {
            node.error
                .as_ref()
                .map(|error| format!("{}: {error}", node.name))
        })
        .collect();
    if errors.is_empty() {
        Ok(ExitCode::SUCCESS)
    } else {
        Err(Failure::running(errors.join("\n")))
    }
}

/// SIGINT and SIGTERM become readable bytes.
fn signal_pipe() -> Result<OwnedFd, Failure> {
    let (read, write) = UnixStream::pair().map_err(Failure::running)?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let write = write.try_clone().map_err(Failure::running)?;
        signal_hook::low_level::pipe::register(signal, write).map_err(Failure::running)?;
    }
    Ok(read.into())
}

/// Serves the chain until it is to be stopped.
fn watch(supervisor: &mut Supervisor, signals: &OwnedFd, args: &Args, desk: &mut Desk<'_>) {
    let started = Instant::now();
    let mut drain_since: Option<Instant> = None;
    loop {
        let is_ending = drain_since.is_some() || supervisor.is_finished();
        let patience = if is_ending {
            Duration::from_millis(2)
        } else {
            Duration::from_millis(100)
        };
        let patience = args.seconds.map_or(patience, |s| {
            patience.min(Duration::from_secs_f64(s / 20.0))
        });
        // A copy of the listener, so that the supervisor may be changed while it is watched.
        let Ok(control) = supervisor.runtime().control_listener().try_clone_to_owned() else {
            return;
        };
        let ready = supervisor.step(patience, &[signals.as_fd(), control.as_fd()]);
        tell_events(supervisor, args.quiet);
        let mut end = ready.first().copied().unwrap_or(false);
        if end {
            // Taken out, so that the next one is seen as another.
            let _ = rustix::io::read(signals, &mut [0_u8; 1]);
        }
        if ready.get(1).copied().unwrap_or(false) {
            end |= desk.serve(supervisor);
        }
        end |= drain_since.is_none()
            && args
                .seconds
                .is_some_and(|seconds| started.elapsed().as_secs_f64() >= seconds);
        // NFs that store packets give them out, then begin nothing new.
        if is_ending && drain_since.is_none() && supervisor.stores_packets() {
            supervisor.drain();
        }
        if end && drain_since.is_none() {
            supervisor.drain();
            drain_since = Some(Instant::now());
        } else if end {
            // Asked twice: do not wait for the rest.
            return;
        }
        let waited = drain_since.map_or(Duration::ZERO, |since| since.elapsed());
        if (is_ending && supervisor.is_empty()) || waited > DRAIN_PATIENCE {
            return;
        }
    }
}

/// What is answered on the control socket, beside the supervisor's own knowledge.
struct Desk<'a> {
    source: Source,
    /// Those who asked for the end, to be told when it has come.
    end_askers: &'a mut Vec<OwnedFd>,
}

impl Desk<'_> {
    /// Answers one request; says whether the chain is to end.
    fn serve(&mut self, supervisor: &mut Supervisor) -> bool {
        let Some(socket) = supervisor.runtime().accept_control() else {
            return false;
        };
        let text = match read_request(&socket) {
            Ok(Request::Status) => Answer::Status(Box::new(supervisor.status())),
            Ok(Request::Chain) => Answer::Chain(self.source.clone()),
            Ok(Request::Apply(new)) => super::apply::apply(supervisor, &mut self.source, new),
            Ok(Request::Probe(settings)) => {
                supervisor.probe(settings);
                Answer::Probing
            }
            Ok(Request::ProbeMap) => probe_map(supervisor),
            Ok(Request::ProbePage { worker }) => {
                hand_over_page(supervisor, &socket, worker);
                return false;
            }
            Ok(Request::Control { node, request }) => ask_node(supervisor, &node, request),
            Ok(Request::Stop) => {
                self.end_askers.push(socket);
                return true;
            }
            Err(reason) => Answer::Error(reason),
        };
        answer(&socket, &text);
        false
    }
}

fn probe_map(supervisor: &Supervisor) -> Answer {
    let pages = supervisor.probe_pages();
    let lives = pages.iter().map(|page| (page.worker, page.epoch));
    Answer::ProbeMap(Box::new(supervisor.probe_map()), lives.collect())
}

fn hand_over_page(supervisor: &Supervisor, socket: &OwnedFd, worker: usize) {
    let pages = supervisor.probe_pages();
    match pages.iter().find(|page| page.worker == worker) {
        Some(page) => {
            let (epoch, len) = (page.epoch, page.len);
            answer_with(socket, &Answer::ProbePage { epoch, len }, Some(&page.fd));
        }
        None => answer(
            socket,
            &Answer::Error(format!("worker {worker} has no page")),
        ),
    }
}

fn ask_node(supervisor: &mut Supervisor, node: &str, request: serde_json::Value) -> Answer {
    let Some(index) = supervisor.chain().node_index(node) else {
        return Answer::Error(format!("the chain has no node \"{node}\""));
    };
    let id = supervisor.request(index, request);
    let deadline = Instant::now() + Duration::from_secs(2);
    while Instant::now() < deadline {
        supervisor.step(Duration::from_millis(20), &[]);
        match supervisor.answer(id) {
            Some(Ok(value)) => return Answer::Control(value),
            Some(Err(reason)) => return Answer::Error(format!("{node}: {reason}")),
            None => {}
        }
    }
    supervisor.withdraw(id);
    Answer::Error(format!("{node} did not answer within 2 s"))
}

fn tell_events(supervisor: &mut Supervisor, quiet: bool) {
    while let Some(event) = supervisor.next_event() {
        match event {
            Event::Notice(text) if quiet => drop(text),
            Event::Notice(text) => eprintln!("note: {text}"),
            Event::Died { worker, how, lost } => {
                eprintln!("worker {worker} died ({how}); {lost} packets it held are lost");
            }
            Event::Restarted { worker, gap } => {
                eprintln!(
                    "worker {worker} runs again after {:.1} ms",
                    gap.as_secs_f64() * 1e3
                );
            }
            Event::Detached { worker, why } => eprintln!("worker {worker} was detached: {why}"),
            Event::Accused { by, worker, what } => {
                eprintln!("worker {by} accuses {worker} of {what}; nothing of it is to be seen");
            }
            Event::Recovered { buffers } => {
                eprintln!("{buffers} buffers that dead workers had kept are home again");
            }
        }
    }
}
