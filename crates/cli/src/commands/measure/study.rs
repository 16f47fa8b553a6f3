//! `catena measure study`: factors crossed with each other, and what each of them does.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use catena_measure::compare::Verdict;
use catena_measure::doctor::states::{self, States};
use catena_measure::doctor::{Tree, tick_hz};
use catena_measure::latency::steady::Steadiness;
use catena_measure::probes::tax::Tax;
use catena_measure::report::Document;
use catena_measure::stats::quantile::median;
use catena_measure::study::bias;
use catena_measure::study::cell::{PORT, STATES};
use catena_measure::study::findings;
use catena_measure::study::journal::{self, Contents, Journal};
use catena_measure::study::standing;
use catena_measure::study::summary::{self, Effect, StudyResults};
use catena_measure::study::suspicion::suspicions;
use catena_measure::study::wire::WireKind;
use catena_measure::study::{Level, Record, Study, Unit};

use super::{Common, Folder, parse_count};
use crate::commands::{Failure, Outcome};
use crate::measuring::bench::Bench;
use crate::measuring::laboratory::{self, Ended, Laboratory, Machine};
use crate::measuring::output::Output;
use crate::overwrite::Overwrite;
use crate::quantity;
use crate::registry::registry;

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
    let mut common = args.common.clone();
    if args.report {
        common.noise = Duration::ZERO;
    }
    let mut bench = common.begin(&format!("Study: {}", study.name), folder(args)?)?;
    bench.document.unsupported.extend(unsupported);
    let (mut journal, contents) = open(&study, &mut bench)?;
    let mut records = contents.records;
    let cut = if args.report {
        None
    } else {
        let command = bench.document.commands.join(" ");
        let laboratory = Laboratory::new(&study, machine, args.common.watts, command, &records);
        run_units(
            &study,
            &order,
            laboratory,
            &mut bench,
            &mut journal,
            &mut records,
        )?
    };
    let results = describe(&study, &records, &mut bench.document);
    describe_devices(&study, &mut bench)?;
    bench.document.environment.extend(bias::settings(&records));
    bench.keep_baselines(bias::baselines(&records));
    let missing = results.planned - results.done;
    if let Some(why) = &cut {
        bench.document.summary += &format!(" Cut short: {why}.");
    }
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
fn open(study: &Study, bench: &mut Bench) -> Result<(Journal, Contents), Failure> {
    let identity = serde_json::to_value(study).map_err(Failure::running)?;
    let path = bench.output.file(JOURNAL);
    let opened = Journal::open(&path, &identity, &bench.document.began);
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
    bench.document.began.clone_from(&contents.began);
    let mut commands: Vec<String> = Vec::new();
    let own = std::mem::take(&mut bench.document.commands);
    let earlier = contents.records.iter().map(|record| record.command.clone());
    for command in earlier.chain(own.iter().cloned()) {
        if commands.last() != Some(&command) {
            commands.push(command);
        }
    }
    let attempts = contents.records.iter().flat_map(|record| &record.attempts);
    bench.document.trials.extend(attempts.cloned());
    bench.document.commands = commands;
    Ok((journal, contents))
}

/// Runs what has no result yet; gives why it was cut short, if it was.
fn run_units(
    study: &Study,
    order: &[Unit],
    mut laboratory: Laboratory<'_>,
    bench: &mut Bench,
    journal: &mut Journal,
    records: &mut Vec<Record>,
) -> Result<Option<String>, Failure> {
    let cells = study.cells();
    let done: BTreeSet<_> = journal::latest(records)
        .into_iter()
        .filter(|(_, record)| record.result.is_ok())
        .map(|(key, _)| key)
        .collect();
    let is_due = |unit: &&Unit| !done.contains(&(unit.block, study.key(&cells[unit.cell])));
    let due: Vec<_> = order.iter().filter(is_due).collect();
    let began = Instant::now();
    for (count, unit) in due.iter().enumerate() {
        let text = format!(
            "trial {} of {}, {}: {}",
            order.len() - due.len() + count + 1,
            order.len(),
            if unit.block < study.blocks {
                format!("block {} of {}", unit.block + 1, study.blocks)
            } else {
                "with probes".to_owned()
            },
            study.title(&cells[unit.cell])
        );
        let left = (count > 0).then(|| {
            let each = began.elapsed().as_secs_f64() / count as f64;
            Duration::from_secs_f64(each * (due.len() - count) as f64)
        });
        bench.progress.show_left(&text, left);
        match laboratory.run(**unit, bench)? {
            Ok(record) => {
                journal.note(&record).map_err(Failure::running)?;
                records.push(record);
            }
            Err(Ended::Interrupted) => return Ok(Some("interrupted".to_owned())),
        }
    }
    Ok(None)
}

/// Differences that the summary names; the table has all.
const FINDINGS_MAX: usize = 12;

/// Puts what was found into the document; gives the results.
fn describe(study: &Study, records: &[Record], document: &mut Document) -> StudyResults {
    let mut results = summary::summarise(study, records);
    results.suspicions = suspicions(&results.factors, &results.cells, tick_hz());
    document.blame = summary::blamed(study, records);
    let of_mode = |effect: &&Effect| effect.factor == "mode" && effect.within.is_none();
    let rows = results.effects.iter().filter(of_mode).map(|effect| {
        let name = format!(
            "{} of {} over {}",
            effect.metric, effect.level, effect.against
        );
        (name, sentence(effect))
    });
    document.results.extend(rows);
    let suspect = results.suspicions.iter();
    document
        .results
        .extend(suspect.map(|one| ("SUSPICIOUS rate at max".to_owned(), one.sentence())));
    document.results.extend(unsteady(&results));
    let length = Duration::from_nanos(study.trial_ns);
    document
        .results
        .extend(standing::rows(study.blocks, length, records));
    for (level, shares) in summary::idle_shares(study, records) {
        let shares = shares.iter();
        let shares: Vec<_> = shares
            .map(|(state, share)| format!("{state} {:.1} %", share * 100.0))
            .collect();
        let row = format!("time in idle states, states {level}");
        document.environment.push((row, shares.join(", ")));
    }
    document
        .results
        .extend(probe_costs(&summary::taxed(study, records)));
    document.summary = format!(
        "{} trials of {} ms over {} combinations, in turns; {} have a result.",
        results.planned,
        study.trial_ns / 1_000_000,
        results.cells.len(),
        results.done
    );
    if !results.effects.is_empty() {
        document.summary += &format!(" {}", findings::sentences(&results.effects, FINDINGS_MAX));
    }
    if results.cells.iter().any(|cell| cell.latency.is_some()) {
        document.summary += " Latencies are PARTIAL after RFC 2544 and RFC 8219: see standing.";
    }
    if !results.suspicions.is_empty() {
        document.summary += &format!(
            " {} rates stay the same over factors that must matter: see SUSPICIOUS.",
            results.suspicions.len()
        );
    }
    results
}

/// How many combinations had not settled, if any was judged.
fn unsteady(results: &StudyResults) -> Option<(String, String)> {
    let judged = results.cells.iter().filter_map(|cell| cell.steadiness);
    let judged: Vec<_> = judged
        .filter(|found| *found != Steadiness::TooFew)
        .collect();
    let steady = judged.iter().filter(|found| **found == Steadiness::Steady);
    let text = format!(
        "{} of {} combinations at a load; the table names the others",
        steady.count(),
        judged.len()
    );
    (!judged.is_empty()).then(|| ("steady state".to_owned(), text))
}

/// What the chains are: of each kind of ports that of the first combination. What other
/// combinations change in it is in their names.
fn describe_devices(study: &Study, bench: &mut Bench) -> Result<(), Failure> {
    let cells = study.cells();
    for (level, port) in study.levels[PORT].iter().enumerate() {
        let Some(cell) = cells.iter().find(|cell| cell[PORT] == level) else {
            continue;
        };
        let made = study.chain_of(cell, &registry()).map_err(Failure::input)?;
        let device = bench.device(made.chain)?;
        bench.describe(&device, &format!("port {}: ", port.text));
    }
    Ok(())
}

/// What the probes cost, over the combinations in which packets were followed.
fn probe_costs(taxed: &[(String, Result<Tax, String>)]) -> Vec<(String, String)> {
    let found = taxed
        .iter()
        .filter_map(|(title, tax)| Some((title, tax.as_ref().ok()?)));
    let shares: Vec<_> = found.clone().map(|(_, tax)| tax.share() * 100.0).collect();
    let most = found.max_by(|a, b| a.1.share().total_cmp(&b.1.share()));
    let mut rows = Vec::new();
    if let (Some(median), Some((title, tax))) = (median(&shares), most) {
        let (low, high) = tax.bounds();
        let text = format!(
            "median {median:+.2} % of the busy time by packet, over {} combinations; most \
             {:+.2} % ({:+.2} to {:+.2}) at {title}",
            shares.len(),
            tax.share() * 100.0,
            low * 100.0,
            high * 100.0
        );
        rows.push(("cost of the probes".to_owned(), text));
    }
    rows.extend(taxed.iter().filter_map(|(title, tax)| {
        let why = tax.as_ref().err()?;
        Some((
            "cost of the probes".to_owned(),
            format!("not found at {title}: {why}"),
        ))
    }));
    rows
}

fn sentence(effect: &Effect) -> String {
    let ratio = &effect.ratio;
    let interval = ratio.interval.map_or_else(
        || "one block, no interval".to_owned(),
        |interval| format!("{:.3} to {:.3}", interval.low, interval.high),
    );
    let verdict = match effect.verdict {
        Verdict::Higher => "higher",
        Verdict::Lower => "lower",
        Verdict::Same => "the same within the margin",
        Verdict::Inconclusive => "inconclusive",
    };
    format!("x {:.3} ({interval}), {verdict}", ratio.estimate)
}
