//! `catena doctor`: what this machine is and lacks as a place to measure.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use catena_engine::supervisor::runtime_dir::default_root;
use catena_measure::doctor::noise::{self, CoreNoise};
use catena_measure::doctor::states::{self, StateGuard, States};
use catena_measure::doctor::tsc_offset::{self, TscOffset};
use catena_measure::doctor::wakeup::{self, Wakeups};
use catena_measure::doctor::{Finding, Tree, Verdict, examine};
use catena_measure::traffic::TickRate;
use serde_json::{Value, json};

use super::{Failure, Outcome};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long to watch the noise floor of all cores; 0 leaves it out, and a number without unit
    /// is in seconds
    #[arg(long, default_value = "10s", value_name = "SPAN",
          value_parser = |text: &str| crate::quantity::seconds(text, 0.0..=3600.0))]
    seconds: Duration,
    /// Watch it in these P and C states, one after the other, and restore them: +pc,-pc
    #[arg(
        long,
        value_name = "LIST",
        allow_hyphen_values = true,
        value_parser = parse_states
    )]
    states: Option<StateList>,
    /// Restore P and C states that an ended process left changed, and do nothing else
    #[arg(long)]
    restore: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Examine the files below this folder
    #[arg(long, default_value = "/", hide = true)]
    root: PathBuf,
    /// Restore the states in this journal when standard input ends (the guardian of --states)
    #[arg(long, hide = true, value_name = "JOURNAL")]
    guard: Option<PathBuf>,
}

/// Settings of states, one after the other.
#[derive(Clone, Debug)]
struct StateList(Vec<States>);

fn parse_states(text: &str) -> Result<StateList, String> {
    states::parse_list(text).map(StateList)
}

/// The noise floor in one setting of states.
struct Watched {
    states: Option<States>,
    unsupported: Vec<String>,
    noise: Vec<CoreNoise>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let tree = Tree::new(&args.root);
    if let Some(journal) = &args.guard {
        let input = std::io::stdin().lock();
        states::guard_until_end(&tree, journal, input).map_err(Failure::running)?;
        return Ok(ExitCode::SUCCESS);
    }
    let journal = states::journal_path(&default_root());
    let was_left = states::restore_leftovers(&tree, &journal).map_err(Failure::running)?;
    if args.restore {
        if was_left {
            outln!("P or C states that an ended process had changed are restored");
        } else {
            outln!("nothing to restore: no ended process left P or C states changed");
        }
        return Ok(ExitCode::SUCCESS);
    }
    if was_left {
        errln!("P or C states that an ended process had changed are restored");
    }
    let findings = examine(&tree);
    let cores = noise::cores();
    let offset = match cores.as_slice() {
        [one, other, ..] => tsc_offset::measure(*other, *one),
        _ => None,
    };
    let rate = TickRate::measure(Duration::from_millis(20));
    let wakeups = if !args.seconds.is_zero() {
        wakeup::measure(&cores)
    } else {
        Vec::new()
    };
    if !args.json {
        print_findings(&findings);
        print_offset(offset.as_ref(), rate);
        print_wakeups(&wakeups);
    }
    let settings: Vec<Option<States>> = match &args.states {
        Some(list) => list.0.iter().copied().map(Some).collect(),
        None => vec![None],
    };
    let mut all = Vec::new();
    if !args.seconds.is_zero() {
        for setting in settings {
            let watched = watch(args, &tree, &cores, setting, &journal)?;
            if !args.json {
                print_watched(&watched);
            }
            all.push(watched);
        }
    }
    if args.json {
        let body = as_json(&findings, offset.as_ref(), rate, &wakeups, &all);
        crate::document::print("catena.doctor/1", &body)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Watches the noise floor in one setting, and restores what it changed.
fn watch(
    args: &Args,
    tree: &Tree,
    cores: &[usize],
    setting: Option<States>,
    journal: &std::path::Path,
) -> Result<Watched, Failure> {
    let plan = setting.map(|states| states::plan(tree, states));
    let guard = match &plan {
        Some(plan) if !plan.changes.is_empty() => {
            let mut guardian = Command::new(std::env::current_exe().map_err(Failure::running)?);
            guardian.arg("doctor").arg("--guard").arg(journal);
            guardian.arg("--root").arg(&args.root);
            let guard = StateGuard::apply(tree, plan, journal, Some(guardian));
            Some(guard.map_err(Failure::running)?)
        }
        _ => None,
    };
    let name = setting.map_or(String::new(), |states| format!(" in {states}"));
    let shows = std::io::stderr().is_terminal();
    let noise = noise::measure(cores, args.seconds, |gone| {
        if shows {
            let left = args.seconds.saturating_sub(gone).as_secs_f64();
            err!("\rnoise floor{name}: {left:.0} s left ");
            let _ = std::io::stderr().flush();
        }
    });
    if shows {
        err!("\r{:40}\r", "");
    }
    if let Some(guard) = guard {
        guard.restore().map_err(Failure::running)?;
    }
    Ok(Watched {
        states: setting,
        unsupported: plan.map(|plan| plan.unsupported).unwrap_or_default(),
        noise,
    })
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::Warning => "warning",
        Verdict::Unsupported => "unsupported",
    }
}

fn print_findings(findings: &[Finding]) {
    for finding in findings {
        outln!(
            "{:<16} {:<12} {}",
            finding.name,
            word(finding.verdict),
            finding.seen
        );
        if let Some(repair) = &finding.repair {
            outln!("{:<29} repair: {repair}", "");
        }
    }
}

/// Bounds of the offset in nanoseconds.
fn bounds(offset: &TscOffset, rate: TickRate) -> (f64, f64) {
    let ns = |ticks: i64| ticks as f64 * rate.ns_per_tick();
    (ns(offset.least), ns(offset.most))
}

fn offset_verdict(offset: &TscOffset) -> Verdict {
    if offset.may_be_zero() {
        Verdict::Ok
    } else {
        Verdict::Warning
    }
}

fn print_offset(offset: Option<&TscOffset>, rate: TickRate) {
    let (verdict, seen) = match offset {
        None => (
            Verdict::Unsupported,
            "one core only, or threads cannot be pinned".to_owned(),
        ),
        Some(offset) => {
            let (least, most) = bounds(offset, rate);
            let seen = format!(
                "core {} is {least:.0} to {most:.0} ns ahead of core {} ({} exchanges)",
                offset.core, offset.to, offset.exchanges
            );
            (offset_verdict(offset), seen)
        }
    };
    outln!("{:<16} {:<12} {seen}", "tsc_offset", word(verdict));
    if verdict == Verdict::Warning {
        outln!(
            "{:<29} repair: measure one-way latencies on one core only",
            ""
        );
    }
}

/// How late sleeping cores answered, whatever tables of idle states say.
fn print_wakeups(wakeups: &[Wakeups]) {
    for core in wakeups {
        let verdict = if core.is_late() {
            Verdict::Warning
        } else {
            Verdict::Ok
        };
        let us = |ns: u64| ns as f64 / 1000.0;
        outln!(
            "{:<16} {:<12} core {}: sleeps end {:.0} us late in the middle, 9 in 10 within {:.0} us, \
             the worst {:.0} us",
            "wake-up",
            word(verdict),
            core.core,
            us(core.p50_ns),
            us(core.p90_ns),
            us(core.longest_ns)
        );
        if verdict == Verdict::Warning {
            outln!(
                "{:<29} repair: let workers spin (run.wait: spin), or keep the core awake",
                ""
            );
        }
    }
}

fn print_watched(watched: &Watched) {
    let name = watched
        .states
        .map_or(String::new(), |states| format!(" in {states}"));
    for reason in &watched.unsupported {
        outln!(
            "{:<16} {:<12} {reason}",
            format!("states{name}"),
            "unsupported"
        );
    }
    for core in &watched.noise {
        let verdict = if core.is_noisy() {
            Verdict::Warning
        } else {
            Verdict::Ok
        };
        let seconds = core.watched_ns as f64 / 1e9;
        let switches = core.switches.map_or(String::new(), |count| {
            format!(", {:.0} of them context switches", count as f64 / seconds)
        });
        let stolen = core.stolen_share.map_or(String::new(), |share| {
            format!(
                " ({:.3} % stolen by the hypervisor, as it says)",
                share * 100.0
            )
        });
        outln!(
            "{:<16} {:<12} core {}: {:.3} % of {seconds:.1} s stalled{stolen}, {:.0} gaps above 1 us \
             a second{switches}, longest {:.0} us",
            format!("noise{name}"),
            word(verdict),
            core.core,
            core.stalled_share * 100.0,
            core.gaps as f64 / seconds,
            core.longest_ns as f64 / 1000.0,
        );
    }
}

fn as_json(
    findings: &[Finding],
    offset: Option<&TscOffset>,
    rate: TickRate,
    wakeups: &[Wakeups],
    watched: &[Watched],
) -> Value {
    let noise = watched.iter().map(|watched| {
        json!({
            "states": watched.states.map(|states| states.to_string()),
            "unsupported": watched.unsupported,
            "cores": watched.noise,
        })
    });
    json!({
        "findings": findings,
        "tsc_offset": offset.map(|offset| {
            let (least, most) = bounds(offset, rate);
            json!({
                "verdict": word(offset_verdict(offset)),
                "core": offset.core,
                "to": offset.to,
                "least_ns": least,
                "most_ns": most,
                "exchanges": offset.exchanges,
            })
        }),
        "ns_per_tick": rate.ns_per_tick(),
        "wakeups": wakeups,
        "noise": noise.collect::<Vec<_>>(),
    })
}
