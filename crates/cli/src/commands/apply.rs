//! `catena apply`: makes a running chain what a file says, without losing packets on the links that
//! stay.
//!
//! The file is checked here first, so that its errors are shown with their lines; the supervisor
//! checks it again, since it believes nobody. If anything new cannot be started, nothing changes.
//! What control requests have changed of an NF stays where it fits, unless `--discard` is given.

use std::path::PathBuf;
use std::process::ExitCode;

use catena_engine::chain::{Chain, Plan};
use catena_engine::supervisor::Supervisor;
use catena_engine::supervisor::apply::ApplyError;

use super::control::{Amended, Answer, Planned, Request, Source, Wish, unexpected};
use super::target::Target;
use super::{Failure, Outcome};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Chain file, as the chain is to be; - is the standard input
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Keep nothing of what `catena nf control` has changed: every node is as the file says
    #[arg(long)]
    discard: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let checked = super::check::load(&args.file, None)?;
    let name = checked.chain.name.clone();
    let target = Target {
        chain: Some(name.clone()),
    };
    let source = Source {
        text: checked.text,
        dir: checked.chain.dir.clone(),
        mode: None,
    };
    let wish = Wish {
        source,
        discards: args.discard,
    };
    match target.ask(&Request::Apply(wish))? {
        Answer::Planned(done) => {
            print(&name, &super::check::name_of(&args.file), &done, args.json)?;
            Ok(ExitCode::SUCCESS)
        }
        other => Err(unexpected(&other)),
    }
}

/// What `plan` and `apply` print.
pub(super) fn print(chain: &str, file: &str, planned: &Planned, json: bool) -> Result<(), Failure> {
    if json {
        let body = serde_json::json!({
            "chain": chain,
            "actions": planned.actions,
            "amended": planned.amended,
        });
        return crate::document::print("catena.plan/1", &body);
    }
    if planned.text.is_empty() && planned.amended.is_empty() {
        outln!("nothing to do: chain \"{chain}\" is as {file} says");
    } else if planned.text.is_empty() {
        outln!("nothing to do: chain \"{chain}\" is as {file} says, and as control requests say");
    } else {
        out!("{}", planned.text);
    }
    for remark in &planned.remarks {
        outln!("  {}", remark.trim_start());
    }
    for amended in &planned.amended {
        outln!(
            "= node {} (kept: changed by catena nf control)",
            amended.node
        );
        for value in &amended.values {
            outln!("    {value}");
        }
    }
    Ok(())
}

/// The chain that a running one, started as `running`, is to become.
fn wanted(supervisor: &Supervisor, running: &Source, new: &Source) -> Result<Chain, String> {
    let registry = crate::registry::registry();
    let checked = Chain::parse(&new.text, &new.dir, &registry, running.mode);
    let chain = checked.map_err(|errors| errors.to_string())?.chain;
    if chain.name != supervisor.chain().name {
        return Err(format!(
            "the file is of chain \"{}\"; a running chain keeps its name",
            chain.name
        ));
    }
    Ok(chain)
}

/// The supervisor's side of `catena plan`: what [`apply`] would do, and whether it would refuse.
pub(crate) fn plan(supervisor: &Supervisor, running: &Source, wish: &Wish) -> Answer {
    let chain = match wanted(supervisor, running, &wish.source) {
        Ok(chain) => chain,
        Err(why) => return Answer::Error(why),
    };
    let prospect = supervisor.prospect(&chain, wish.discards);
    Answer::Planned(Box::new(Planned {
        text: steps(&prospect.plan),
        actions: prospect.plan.to_json(),
        remarks: prospect.remarks,
        amended: prospect.amended.into_iter().map(Amended::of).collect(),
        refusal: prospect.refusal.map(|error| error.to_string()),
    }))
}

/// The supervisor's side. `running` is what the chain was started from; it becomes what it is now.
pub(crate) fn apply(supervisor: &mut Supervisor, running: &mut Source, wish: Wish) -> Answer {
    let chain = match wanted(supervisor, running, &wish.source) {
        Ok(chain) => chain,
        Err(why) => return Answer::Error(why),
    };
    let mode = running.mode;
    let new = Source {
        mode,
        ..wish.source
    };
    let remarks = supervisor.prospect(&chain, wish.discards).remarks;
    match supervisor.become_as(&chain, &new.origin(), wish.discards) {
        Ok(plan) => {
            *running = new;
            let amended = supervisor.drift().into_iter().map(Amended::of);
            Answer::Planned(Box::new(Planned {
                text: steps(&plan),
                actions: plan.to_json(),
                remarks,
                amended: amended.collect(),
                refusal: None,
            }))
        }
        Err(error @ ApplyError::Descriptors(_)) => Answer::Refused(error.to_string()),
        Err(error) => {
            if matches!(error, ApplyError::NotDrained(_)) {
                // What was not drained is lost, but the chain is the new one.
                *running = new;
            }
            Answer::Error(error.to_string())
        }
    }
}

fn steps(plan: &Plan) -> String {
    match plan.is_empty() {
        true => String::new(),
        false => plan.to_string(),
    }
}
