//! `catena measure study`: factors crossed with each other, and what each of them does.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use catena_measure::doctor::states::{self, States};
use catena_measure::doctor::{Tree, tick_hz};
use catena_measure::study::cell::{PORT, STATES};
use catena_measure::study::journal::{self, Contents, Journal};
use catena_measure::study::wire::WireKind;
use catena_measure::study::{Level, Record, Run, Study, Unit, bias, run, tables};

use super::{Common, Folder, parse_count};
use crate::commands::{Failure, Outcome};
use crate::measuring::bench::Bench;
use crate::measuring::environment;
use crate::measuring::laboratory::{self, Ended, Laboratory, Machine};
use crate::measuring::output::Output;
use crate::overwrite::Overwrite;
use crate::quantity;

mod telling;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Study file (docs/reference/study.md)
    file: PathBuf,
    /// How often each combination is measured, instead of what the file says
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    blocks: Option<u32>,
    /// How long a trial is, instead of what the file says
    #[arg(long, value_name = "SPAN", value_parser = quantity::length)]
    trial: Option<Duration>,
    /// Keep only these levels of a factor, like size=64,1518; may be given for several factors
    #[arg(long, value_name = "FACTOR=LEVELS")]
    only: Vec<String>,
    /// Measure in these P and C states and restore them, also after a crash: +pc,-pc
    #[arg(long, value_name = "LIST", allow_hyphen_values = true, value_parser = parse_states)]
    states: Option<StateList>,
    /// Afterwards, follow packets in one more trial of each combination at a load: which kind of
    /// component takes the time
    #[arg(long)]
    probes: bool,
    /// Say what would be measured, and run nothing
    #[arg(long)]
    plan: bool,
    /// Write the report of the trials so far, and run nothing
    #[arg(long, conflicts_with = "plan")]
    report: bool,
    /// Change P and C states below this folder
    #[arg(long, default_value = "/", hide = true)]
    root: PathBuf,
    /// Folder for the trials and their report; the same folder goes on with a study
    #[arg(long, value_name = "FOLDER", required_unless_present = "plan")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    #[command(flatten)]
    common: Common,
}

/// Settings of states.
#[derive(Clone, Debug)]
struct StateList(Vec<States>);

fn parse_states(text: &str) -> Result<StateList, String> {
    states::parse_list(text).map(StateList)
}

/// Set in the process that has its own network namespace.
const NAMESPACE: &str = "CATENA_STUDY_NAMESPACE";
/// File of the trials, in the folder of the report.
const JOURNAL: &str = "study.jsonl";

pub(crate) fn run(args: &Args) -> Outcome {
    let machine = laboratory::machine(&args.root);
    let tree = Tree::new(&args.root);
    if states::restore_leftovers(&tree, &machine.journal).map_err(Failure::running)? {
        errln!("P or C states that an ended process had changed are restored");
    }
    let mut study = load(args)?;
    let mut unsupported = leave_out_states(&mut study, &machine);
    unsupported.extend(leave_out_ports(&mut study));
    let mut order = study.order();
    if args.probes {
        order.extend(study.probed());
    }
    let is_run = !args.plan && !args.report;
    if is_run && needs_wires(&study) && std::env::var_os(NAMESPACE).is_none() {
        return Err(enter_namespace());
    }
    for (name, why) in &unsupported {
        errln!("{name}: unsupported here: {why}");
    }
    if args.plan {
        print_plan(args, &study, &order);
        return Ok(ExitCode::SUCCESS);
    }
    let output = folder(args)?;
    let (mut journal, contents) = open(&study, &output)?;
    let due = match args.report {
        true => Vec::new(),
        false => due(&study, &order, &contents.records),
    };
    let mut common = args.common.clone();
    if due.is_empty() {
        common.noise = Duration::ZERO;
    }
    let mut bench = common.begin(&format!("Study: {}", study.name), output)?;
    bench.document.unsupported.extend(unsupported);
    let command = bench.document.commands.join(" ");
    recall(&contents, &mut bench, due.is_empty());
    let (mut records, mut runs) = (contents.records, contents.runs);
    let cut = if due.is_empty() {
        None
    } else {
        let watts = args.common.watts;
        let laboratory = Laboratory::new(&study, machine, watts, command, &records);
        let mut trials = Trials {
            study: &study,
            bench: &mut bench,
            journal: &mut journal,
            records: &mut records,
            runs: &mut runs,
        };
        trials.run(laboratory, &due, (order.len(), watts))?
    };
    if !runs.is_empty() {
        bench.document.environment = run::environment(&runs);
        bench.document.unsupported = run::unsupported(&runs);
    }
    let results = telling::describe(&study, (&records, &runs), &mut bench.document);
    telling::describe_devices(&study, &mut bench)?;
    bench.document.environment.extend(bias::settings(&records));
    let wattmeter = runs.iter().find_map(|run| run.wattmeter);
    bench.keep_records(&records, wattmeter.or(args.common.watts));
    let missing = results.planned - results.done;
    if let Some(why) = &cut {
        bench.document.summary += &format!(" Cut short: {why}.");
    }
    bench.tell_noise(run::noise(&runs));
    let blocks = tables::blocks_csv(&study, &records);
    bench.output.write_blocks(&blocks)?;
    bench.document.study = Some(results);
    bench.conclude(args.common.json)?;
    match cut {
        Some(why) => Err(Failure::running(format!(
            "the study was cut short: {why}; the same command goes on with it"
        ))),
        None if missing > 0 && !args.report => Err(Failure::running(format!(
            "{missing} trials gave no result; the report says why, and the same command tries them \
             again"
        ))),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// The folder of the report: a new one, or that of trials which are gone on with.
fn folder(args: &Args) -> Result<Output, Failure> {
    let out = args.out.clone().unwrap_or_default();
    let overwrite = args.overwrite;
    let folder = Folder { out, overwrite };
    if folder.out.join(JOURNAL).exists() {
        return Output::create(&folder.out);
    }
    folder.create()
}

/// The study with what the command line says instead.
fn load(args: &Args) -> Result<Study, Failure> {
    let file = args.file.display();
    let mut study = Study::KIND.load(&args.file).map_err(|errors| {
        Failure::input(format!("{errors}\n{file} is wrong; nothing was started"))
    })?;
    study.blocks = args.blocks.unwrap_or(study.blocks);
    if let Some(trial) = args.trial {
        study.trial_ns = u64::try_from(trial.as_nanos()).unwrap_or(u64::MAX);
    }
    if let Some(StateList(list)) = &args.states {
        let levels = list.iter().map(|states| Level::word(states.to_string()));
        study = study.with_states(levels.collect());
    }
    for only in &args.only {
        let Some((factor, levels)) = only.split_once('=') else {
            let wrong = format!("--only {only}: write it like size=64,1518");
            return Err(Failure::input(wrong));
        };
        let levels: Vec<_> = levels.split(',').map(str::trim).collect();
        study
            .keep_only(factor.trim(), &levels)
            .map_err(|why| Failure::input(format!("--only {only}: {why}")))?;
    }
    Ok(study)
}

/// Leaves the machine's states as they are if none of the study's settings can be made; gives what
/// this machine does not have, setting by setting.
fn leave_out_states(study: &mut Study, machine: &Machine) -> Vec<(String, String)> {
    let levels = &study.levels[STATES];
    let settings: Vec<States> = levels.iter().filter_map(|l| l.text.parse().ok()).collect();
    let plans: Vec<_> = settings
        .iter()
        .map(|states| machine.plan(*states))
        .collect();
    let reasons: BTreeSet<_> = plans.iter().flat_map(|plan| &plan.unsupported).collect();
    let named = reasons.into_iter().map(|reason| {
        let (name, why) = reason.split_once(": ").unwrap_or(("states", reason));
        (name.to_owned(), why.to_owned())
    });
    let mut unsupported: Vec<_> = named.collect();
    if !plans.is_empty() && plans.iter().all(|plan| plan.changes.is_empty()) {
        let names: Vec<_> = levels.iter().map(|level| level.text.clone()).collect();
        let why = "none of these settings can be made here; every combination is measured once, \
                   with states as they are";
        unsupported.push((format!("states {}", names.join(", ")), why.to_owned()));
        *study = study.clone().with_states(vec![Level::word("as-is")]);
    }
    unsupported
}

/// Leaves out ports that need what this machine has not, unless none is left then; gives why.
fn leave_out_ports(study: &mut Study) -> Vec<(String, String)> {
    let Err(why) = catena_port::dpdk::installed() else {
        return Vec::new();
    };
    let needs = |level: &&Level| {
        let template = study.ports.get(&level.text);
        template.is_some_and(|template| template.has_port("dpdk"))
    };
    let (without, with): (Vec<_>, Vec<_>) = study.levels[PORT].iter().partition(needs);
    let names = |levels: Vec<&Level>| levels.iter().map(|level| level.text.clone()).collect();
    let (without, with): (Vec<String>, Vec<String>) = (names(without), names(with));
    let kept: Vec<&str> = with.iter().map(String::as_str).collect();
    let mut left = study.clone();
    if without.is_empty() || left.keep_only("port", &kept).is_err() {
        return Vec::new();
    }
    *study = left;
    vec![(format!("port {}", without.join(", ")), why.to_string())]
}

fn print_plan(args: &Args, study: &Study, order: &[Unit]) {
    let span = study.expected(order, args.common.warmup);
    let span = match span.as_secs_f64() {
        seconds if seconds < 100.0 => format!("{seconds:.0} s"),
        seconds => format!("{:.0} minutes", seconds / 60.0),
    };
    outln!(
        "{}: {} combinations in {} blocks are {} trials; they take some {span}, with the start of \
         a chain for each",
        args.file.display(),
        study.cells().len(),
        study.blocks,
        order.len()
    );
    for cell in study.cells() {
        outln!("  {}", study.title(&cell));
    }
}

fn needs_wires(study: &Study) -> bool {
    let cells = study.cells();
    cells
        .iter()
        .any(|cell| study.wire_of(cell) != WireKind::None)
}

/// Replaces this process by itself in a network namespace of its own; gives why that failed.
fn enter_namespace() -> Failure {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--"]);
    // As it was called, so that the report shows the same command.
    let error = command.args(std::env::args_os()).env(NAMESPACE, "1").exec();
    Failure::running(format!(
        "wires of a study need a network namespace: unshare: {error}; install util-linux, or keep \
         to --only port=link"
    ))
}

/// The journal, with what stood in it.
fn open(study: &Study, output: &Output) -> Result<(Journal, Contents), Failure> {
    let identity = serde_json::to_value(study).map_err(Failure::running)?;
    let path = output.file(JOURNAL);
    let opened = Journal::open(&path, &identity, &environment::now());
    let (journal, contents) = opened.map_err(Failure::input)?;
    if contents.dropped_len > 0 {
        errln!(
            "{}: the last line was not written whole; its trial is repeated",
            path.display()
        );
    }
    if !contents.records.is_empty() {
        let done = journal::latest(&contents.records);
        let done = done.values().filter(|record| record.result.is_ok()).count();
        errln!("{done} trials of {} are done", contents.began);
    }
    Ok((journal, contents))
}

/// Puts what the journal says of earlier runs into the document. The command that only draws a
/// report leads to none of its numbers.
fn recall(contents: &Contents, bench: &mut Bench, draws_only: bool) {
    bench.document.began.clone_from(&contents.began);
    let mut commands: Vec<String> = Vec::new();
    let own = std::mem::take(&mut bench.document.commands);
    let is_own_told = !draws_only || contents.records.is_empty();
    let own = own.into_iter().filter(|_| is_own_told);
    let earlier = contents.records.iter().map(|record| record.command.clone());
    for command in earlier.chain(own) {
        if commands.last() != Some(&command) {
            commands.push(command);
        }
    }
    let attempts = contents.records.iter().flat_map(|record| &record.attempts);
    bench.document.trials.extend(attempts.cloned());
    bench.document.commands = commands;
}

/// What has no result yet.
fn due(study: &Study, order: &[Unit], records: &[Record]) -> Vec<Unit> {
    let cells = study.cells();
    let done: BTreeSet<_> = journal::latest(records)
        .into_iter()
        .filter(|(_, record)| record.result.is_ok())
        .map(|(key, _)| key)
        .collect();
    let is_due = |unit: &&Unit| !done.contains(&(unit.block, study.key(&cells[unit.cell])));
    order.iter().filter(is_due).copied().collect()
}

/// Trials that are run, and where they are noted.
struct Trials<'a> {
    study: &'a Study,
    bench: &'a mut Bench,
    journal: &'a mut Journal,
    records: &'a mut Vec<Record>,
    runs: &'a mut Vec<Run>,
}

impl Trials<'_> {
    /// Runs what is due of `planned` trials, between two noise floors; gives why it was cut short,
    /// if it was. `watts` is the reading of a wattmeter.
    fn run(
        &mut self,
        laboratory: Laboratory<'_>,
        due: &[Unit],
        (planned, watts): (usize, Option<f64>),
    ) -> Result<Option<String>, Failure> {
        let mut environment = self.bench.document.environment.clone();
        environment.push(self.bench.trials_row());
        let mut run = Run {
            number: self.runs.last().map_or(0, |run| run.number + 1),
            environment,
            unsupported: self.bench.document.unsupported.clone(),
            tick_hz: tick_hz(),
            wattmeter: watts,
            noise_before: self.bench.take_noise(),
            noise_after: None,
        };
        self.journal.note_run(&run).map_err(Failure::running)?;
        let cut = self.run_units(laboratory, due, planned)?;
        if run.noise_before.is_some() {
            run.noise_after = Some(self.bench.noise_now());
            self.journal.note_run(&run).map_err(Failure::running)?;
        }
        self.runs.push(run);
        Ok(cut)
    }

    fn run_units(
        &mut self,
        mut laboratory: Laboratory<'_>,
        due: &[Unit],
        planned: usize,
    ) -> Result<Option<String>, Failure> {
        let cells = self.study.cells();
        let began = Instant::now();
        for (count, unit) in due.iter().enumerate() {
            let text = format!(
                "trial {} of {planned}, {}: {}",
                planned - due.len() + count + 1,
                if unit.block < self.study.blocks {
                    format!("block {} of {}", unit.block + 1, self.study.blocks)
                } else {
                    "with probes".to_owned()
                },
                self.study.title(&cells[unit.cell])
            );
            let left = (count > 0).then(|| {
                let each = began.elapsed().as_secs_f64() / count as f64;
                Duration::from_secs_f64(each * (due.len() - count) as f64)
            });
            self.bench.progress.show_left(&text, left);
            match laboratory.run(*unit, self.bench)? {
                Ok(record) => {
                    self.journal.note(&record).map_err(Failure::running)?;
                    self.records.push(record);
                }
                Err(Ended::Interrupted) => return Ok(Some("interrupted".to_owned())),
            }
        }
        Ok(None)
    }
}
