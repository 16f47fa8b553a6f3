//! `catena apply`: makes a running chain what a file says, without losing packets on the links that
//! stay.
//!
//! The file is checked here first, so that its errors are shown with their lines; the supervisor
//! checks it again, since it believes nobody. If anything new cannot be started, nothing changes.

use std::path::PathBuf;
use std::process::ExitCode;

use catena_engine::chain::Chain;
use catena_engine::supervisor::Supervisor;

use super::Outcome;
use super::control::{Answer, Request, Source, unexpected};
use super::target::Target;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Chain file, as the chain is to be; - is the standard input
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
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
    let (text, actions) = match target.ask(&Request::Apply(source))? {
        Answer::Applied { text, actions } => (text, actions),
        other => return Err(unexpected(&other)),
    };
    if args.json {
        let body = serde_json::json!({ "chain": name, "actions": actions });
        crate::document::print("catena.plan/1", &body)?;
    } else if text.is_empty() {
        outln!(
            "nothing to do: chain \"{name}\" is as {} says",
            super::check::name_of(&args.file)
        );
    } else {
        out!("{text}");
    }
    Ok(ExitCode::SUCCESS)
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

/// The supervisor's side of `catena plan`: whether [`apply`] would refuse, and why.
pub(crate) fn plan(supervisor: &Supervisor, running: &Source, new: &Source) -> Answer {
    match wanted(supervisor, running, new).map(|chain| supervisor.would_apply(&chain)) {
        Ok(Ok(_)) => Answer::Planned(None),
        Ok(Err(error)) => Answer::Planned(Some(error.to_string())),
        Err(why) => Answer::Error(why),
    }
}

/// The supervisor's side. `running` is what the chain was started from; it becomes what it is now.
pub(crate) fn apply(supervisor: &mut Supervisor, running: &mut Source, new: Source) -> Answer {
    let chain = match wanted(supervisor, running, &new) {
        Ok(chain) => chain,
        Err(why) => return Answer::Error(why),
    };
    let mode = running.mode;
    let new = Source { mode, ..new };
    match supervisor.apply(&chain, &new.origin()) {
        Ok(plan) => {
            *running = new;
            let text = if plan.is_empty() {
                String::new()
            } else {
                plan.to_string()
            };
            let actions = serde_json::to_value(&plan.actions).unwrap_or_default();
            Answer::Applied { text, actions }
        }
        Err(error) => Answer::Error(error.to_string()),
    }
}
