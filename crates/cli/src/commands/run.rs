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

use catena_engine::chain::{Chain, Mode};
use catena_engine::supervisor::descriptors::raise_limit;
use catena_engine::supervisor::runtime_dir::{control_path, default_root};
use catena_engine::supervisor::{Event, Options, StartError, Supervisor};

use super::control::{Answer, Request, Source, Visitors, answer, answer_aside};
use super::{Failure, Outcome};
use crate::metrics::Server;
use crate::notes::Notes;
use crate::quantity;
use crate::registry::registry;
use crate::seats::SEATS;
use crate::service::Service;
use crate::snapshots;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Chain file; - is the standard input
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Print the final counters as JSON
    #[arg(long)]
    json: bool,
    /// Stop after this time; a number without unit is in seconds
    #[arg(long, value_name = "SPAN", value_parser = parse_seconds)]
    seconds: Option<Duration>,
    /// Run nodes that name no mode in this one, instead of the file's
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    mode: Option<Mode>,
    /// Leave the placement of workers on cores to the kernel
    #[arg(long)]
    no_pin: bool,
    /// Serve Prometheus metrics over HTTP at this address, such as 127.0.0.1:9465
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address)]
    metrics: Option<SocketAddr>,
    /// Take over the running workers of this chain if its supervisor has died (see `run.orphan` in
    /// the guide to chain files); start it if there is nothing to take over
    #[arg(long)]
    adopt: bool,
    /// Say less: only errors and the final counters
    #[arg(long, short)]
    quiet: bool,
}

pub(super) fn parse_mode(text: &str) -> Result<Mode, String> {
    serde_json::from_value(text.into())
        .map_err(|_| "one of inline, thread, process, container".to_owned())
}

/// Longest time to run that is understood: some thirty years.
const SECONDS_MAX: f64 = 1e9;

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let time = quantity::seconds(text, 0.0..=SECONDS_MAX)?;
    if time.is_zero() {
        return Err("write a time above 0".to_owned());
    }
    Ok(time)
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
    let mut checked = super::check::load(&args.file, args.mode)?;
    let metrics = args.metrics.map(Server::bind).transpose()?;
    let source = Source {
        dir: checked.chain.dir.clone(),
        text: std::mem::take(&mut checked.text),
        mode: args.mode,
    };
    let notes = Notes::to_stderr();
    if !args.quiet {
        for warning in &checked.warnings {
            notes.say(warning.to_string());
        }
    }
    let options = Options {
        registry: registry(),
        program: this_binary().map_err(Failure::running)?,
        runtime_root: default_root(),
        pin: !args.no_pin,
    };
    let signals = signal_pipe()?;
    prepare_descriptors(&notes);
    // Outlives the supervisor: who asked for the end sees it when nothing is left.
    let mut end_askers = Vec::new();
    let adopted = args
        .adopt
        .then(|| Supervisor::adopt(options.clone(), &checked.chain, &Source::read));
    let adopted = adopted.transpose().map_err(Failure::running)?.flatten();
    let is_adopted = adopted.is_some();
    let mut supervisor = match adopted {
        Some(supervisor) => supervisor,
        None => start(checked.chain, options, &signals, &source)?,
    };
    if !args.quiet {
        notes.say(format!(
            "chain \"{}\" is {}; wait policy: {}",
            supervisor.chain().name,
            if is_adopted {
                "taken over, and runs on"
            } else {
                "running"
            },
            supervisor.wait_policy().describe()
        ));
    }
    if let Some(metrics) = metrics {
        if !args.quiet {
            notes.say(format!("metrics: http://{}/metrics", metrics.address()));
        }
        let control = control_path(&default_root(), &supervisor.chain().name);
        if let Err(error) = metrics.serve(control) {
            notes.say(format!("note: metrics are not served: {error}"));
        }
    }
    let control = control_path(&default_root(), &supervisor.chain().name);
    if let Err(error) = snapshots::keep(supervisor.chain(), &control) {
        notes.say(format!("note: snapshots are not written: {error}"));
    }
    let mut service = Service::from_environment();
    service.ready(&supervisor.chain().name);
    if let Some(mut watchdog) = service.watchdog() {
        supervisor.at_each_step(move |now| watchdog.alive(now));
    }
    let mut desk = Desk {
        source,
        visitors: Visitors::default(),
        end_askers: &mut end_askers,
        service,
    };
    watch(&mut supervisor, &signals, args, (&notes, &mut desk));
    supervisor.stop(STOP_PATIENCE);
    tell_events(&mut supervisor, &notes, args.quiet);
    drop(notes);
    let status = supervisor.status();
    // Its folder goes with it: whoever is answered may start the chain again at once.
    drop(supervisor);
    for socket in &end_askers {
        answer(socket, &Answer::Status(Box::new(status.clone())));
    }
    if args.json {
        crate::document::print(super::status::STATUS, &status)?;
    } else {
        out!("{}", crate::render::status(&status.by_name_in_file()));
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
    let errors = [errors, status.remains()].concat();
    if errors.is_empty() {
        Ok(ExitCode::SUCCESS)
    } else {
        Err(Failure::running(errors.join("\n")))
    }
}

/// Starts a chain, and has it outlive this process if it is to.
fn start(
    chain: Chain,
    options: Options,
    signals: &OwnedFd,
    source: &Source,
) -> Result<Supervisor, Failure> {
    let supervisor = Supervisor::start_unless(chain, options, Some(signals.as_fd()));
    let mut supervisor = supervisor.map_err(|error| match &error {
        // Something that the file names is not there, or not as it says.
        StartError::Placement(_) | StartError::Descriptors(_) | StartError::Worker { .. } => {
            Failure::input(error)
        }
        _ => Failure::running(error),
    })?;
    if let Err(error) = supervisor.keep(&source.origin()) {
        supervisor.stop(STOP_PATIENCE);
        return Err(Failure::running(error));
    }
    Ok(supervisor)
}

/// The binary that runs here, also after an upgrade has replaced or deleted its file: a child of
/// this process still has it as its own image when it looks.
fn this_binary() -> std::io::Result<PathBuf> {
    let handle = PathBuf::from("/proc/self/exe");
    if handle.exists() {
        return Ok(handle);
    }
    std::env::current_exe()
}

/// Lets this process have as many descriptors as it may, and its children none that somebody else
/// has left open.
fn prepare_descriptors(notes: &Notes) {
    if let Err(error) = raise_limit() {
        notes.say(format!(
            "note: the limit of descriptors stays as it is: {error}"
        ));
    }
    if let Err(error) = catena_shm::confine::close_on_exec_from(3) {
        notes.say(format!("note: workers inherit open descriptors: {error}"));
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
fn watch(
    supervisor: &mut Supervisor,
    signals: &OwnedFd,
    args: &Args,
    (notes, desk): (&Notes, &mut Desk<'_>),
) {
    let started = Instant::now();
    // One that was being stopped when it was taken over is stopped.
    let mut drain_since = supervisor.is_draining().then_some(started);
    loop {
        // A source that has ended and died begins anew, but takes nothing in.
        let is_ending =
            drain_since.is_some() || supervisor.is_draining() || supervisor.is_finished();
        let patience = if is_ending {
            Duration::from_millis(2)
        } else {
            Duration::from_millis(100)
        };
        let patience = args
            .seconds
            .map_or(patience, |time| patience.min(time / 20));
        let patience = patience.min(desk.service.patience());
        // A copy of the listener, so that the supervisor may be changed while it is watched.
        let Ok(control) = supervisor.runtime().control_listener().try_clone_to_owned() else {
            return;
        };
        let mut doors = vec![signals.as_fd(), control.as_fd()];
        doors.extend(desk.visitors.sockets());
        let ready = supervisor.step(patience, &doors);
        tell_events(supervisor, notes, args.quiet);
        let mut end = ready.first().copied().unwrap_or(false);
        if end {
            // Taken out, so that the next one is seen as another.
            let _ = rustix::io::read(signals, &mut [0_u8; 1]);
        }
        end |= desk.serve(supervisor);
        end |= drain_since.is_none() && args.seconds.is_some_and(|time| started.elapsed() >= time);
        // NFs that store packets give them out, then begin nothing new.
        if is_ending && drain_since.is_none() && supervisor.stores_packets() {
            supervisor.drain();
        }
        if end && drain_since.is_none() {
            supervisor.drain();
            desk.service.stopping();
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
    /// Those whose requests have not come whole.
    visitors: Visitors,
    /// Those who asked for the end, to be told when it has come.
    end_askers: &'a mut Vec<OwnedFd>,
    /// The service manager, if one started this.
    service: Service,
}

impl Desk<'_> {
    /// Lets in who has come and answers requests that are whole; says whether the chain is to end.
    fn serve(&mut self, supervisor: &mut Supervisor) -> bool {
        while let Some(socket) = supervisor.runtime().accept_control() {
            self.visitors.admit(socket);
        }
        let mut end = false;
        for (socket, request) in self.visitors.take_requests() {
            match request {
                Ok(Request::Stop) => {
                    end = true;
                    if self.end_askers.len() < SEATS {
                        self.end_askers.push(socket);
                    }
                }
                Ok(request) => self.answer(supervisor, socket, request),
                Err(reason) => answer_aside(socket, Answer::Error(reason), None),
            }
        }
        end
    }

    fn answer(&mut self, supervisor: &mut Supervisor, socket: OwnedFd, request: Request) {
        let (answer, memory) = match request {
            Request::Status => (Answer::Status(Box::new(supervisor.status())), None),
            Request::Apply(new) => {
                let applied = super::apply::apply(supervisor, &mut self.source, new);
                (applied, None)
            }
            Request::Plan(wish) => (super::apply::plan(supervisor, &self.source, &wish), None),
            Request::Drift => {
                let drift = supervisor.drift();
                (Answer::Drift(self.source.clone(), drift), None)
            }
            Request::Probe(settings) => {
                supervisor.probe(settings);
                (Answer::Probing, None)
            }
            Request::ProbeMap => (probe_map(supervisor), None),
            Request::ProbePage { worker } => probe_page(supervisor, worker),
            Request::Control { node, request } => (ask_node(supervisor, &node, &request), None),
            // Not answered now: see `serve`.
            Request::Stop => return,
        };
        answer_aside(socket, answer, memory);
    }
}

fn probe_map(supervisor: &Supervisor) -> Answer {
    let pages = supervisor.probe_pages();
    let lives = pages.iter().map(|page| (page.worker, page.epoch));
    Answer::ProbeMap(Box::new(supervisor.probe_map()), lives.collect())
}

fn probe_page(supervisor: &Supervisor, worker: usize) -> (Answer, Option<OwnedFd>) {
    let pages = supervisor.probe_pages();
    let page = pages.iter().find(|page| page.worker == worker);
    let copied = page.map(|page| (page, page.fd.try_clone()));
    match copied {
        Some((page, Ok(memory))) => {
            let (epoch, len) = (page.epoch, page.len);
            (Answer::ProbePage { epoch, len }, Some(memory))
        }
        Some((_, Err(error))) => (Answer::Error(error.to_string()), None),
        None => (Answer::Error(format!("worker {worker} has no page")), None),
    }
}

/// Asks a node, or all shards of one: then the answer is a map of theirs, by their names, and what
/// they come to stands under the node's own.
fn ask_node(supervisor: &mut Supervisor, node: &str, request: &serde_json::Value) -> Answer {
    let is_sharded = supervisor.chain().node_index(node).is_none();
    let mut asked = match supervisor.ask(node, request) {
        Ok(asked) => asked,
        Err(why) => return Answer::Error(why),
    };
    let (mut answers, mut refusals) = (serde_json::Map::new(), Vec::new());
    let deadline = Instant::now() + Duration::from_secs(2);
    while !asked.is_empty() && Instant::now() < deadline {
        supervisor.step(Duration::from_millis(20), &[]);
        asked.retain(|(name, id)| match supervisor.answer(*id) {
            Some(Ok(value)) => {
                answers.insert(name.clone(), value);
                false
            }
            Some(Err(reason)) => {
                refusals.push(format!("{name}: {reason}"));
                false
            }
            None => true,
        });
    }
    for (name, id) in asked {
        supervisor.withdraw(id);
        refusals.push(format!("{name} did not answer within 2 s"));
    }
    match answers.remove(node) {
        _ if !refusals.is_empty() => Answer::Error(refusals.join("; ")),
        Some(answer) if !is_sharded => Answer::Control(answer),
        _ => {
            let sum = supervisor.sum(node, request, &answers.values().collect::<Vec<_>>());
            answers.extend(sum.map(|sum| (node.to_owned(), sum)));
            Answer::Control(answers.into())
        }
    }
}

fn tell_events(supervisor: &mut Supervisor, notes: &Notes, quiet: bool) {
    while let Some(event) = supervisor.next_event() {
        match event {
            Event::Notice(text) if quiet => drop(text),
            event => notes.say(told(event)),
        }
    }
}

/// An event, for people.
fn told(event: Event) -> String {
    match event {
        Event::Notice(text) => format!("note: {text}"),
        Event::Died { worker, how, lost } => {
            format!("worker {worker} died ({how}); {lost} packets it held are lost")
        }
        Event::Restarted { worker, gap } => {
            let gap_ms = gap.as_secs_f64() * 1e3;
            format!("worker {worker} runs again after {gap_ms:.1} ms")
        }
        Event::Detached { worker, why } => format!("worker {worker} was detached: {why}"),
        Event::Accused { by, worker, what } => {
            format!("worker {by} accuses {worker} of {what}; nothing of it is to be seen")
        }
        Event::Recovered { buffers } => {
            format!("{buffers} buffers that dead workers had kept are home again")
        }
    }
}
