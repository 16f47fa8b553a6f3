//! The program of a configuration: read, checked, measured, and made ready to run.
//!
//! Before any packet, and on the control thread when another program is to take its place.

use std::sync::OnceLock;

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_shm::state::STATE_LINE_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::efsm::{Document, compile};
use crate::program::ir::Program;
use crate::program::layout::Layout;
use crate::program::run::{Compiled, Loaded};

/// Makes compiled code of a verified program, or says why it is interpreted instead.
pub type Compiler = fn(&Program) -> Result<Box<dyn Compiled>, String>;

static COMPILER: OnceLock<Compiler> = OnceLock::new();

/// Says who compiles programs from now on. Once, by whoever builds a binary; without it, or where
/// the NF's setting says so, programs are interpreted.
pub fn set_compiler(compiler: Compiler) {
    // A second one changes nothing: workers of one binary run the same code.
    let _ = COMPILER.set(compiler);
}

/// Configuration of `flow`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// The program.
    program: Document,
    /// What runs it.
    #[serde(default)]
    engine: Engine,
}

/// What runs a program.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Engine {
    /// Machine code, made when it is loaded; the interpreter, with a notice, where that cannot be.
    #[default]
    Jit,
    /// The interpreter: slower, and the definition of what a program means.
    Interpreter,
}

/// A program of a configuration.
pub(super) struct Planned {
    pub(super) program: Program,
    pub(super) layout: Layout,
    pub(super) engine: Engine,
}

/// What is wrong with a program, as errors of a configuration.
pub(super) fn config_errors(prefix: &str, problems: Vec<crate::efsm::Problem>) -> ConfigErrors {
    let errors = problems.into_iter().filter(|problem| problem.is_error);
    let path = |path: String| match path.as_str() {
        "" => prefix.to_owned(),
        path => format!("{prefix}.{path}"),
    };
    errors
        .map(|problem| ConfigError::new(path(problem.path), problem.message, problem.repair))
        .collect()
}

/// Most bytes of state: a region of the supervisor's has no more.
const STATE_BYTES_MAX: usize = catena_shm::state::STATE_BYTES_MAX - STATE_LINE_BYTES;

pub(super) fn plan(config: &Value) -> Result<Planned, ConfigErrors> {
    let config: Config = parse_config(config)?;
    let compiled = compile(&config.program);
    let program = compiled
        .map_err(|problems| config_errors("program", problems))?
        .program;
    let layout = Layout::of(&program);
    if layout.words > STATE_BYTES_MAX / size_of::<u64>() {
        let message = "its flows and registers take more than 64 GiB";
        return Err(vec![ConfigError::new(
            "program",
            message,
            "write fewer flows",
        )]);
    }
    Ok(Planned {
        layout,
        program,
        engine: config.engine,
    })
}

/// As [`plan`], of a configuration that is checked elsewhere: the first error alone.
pub(super) fn plan_of_checked(config: &Value) -> Result<Planned, String> {
    plan(config).map_err(|errors| {
        let first = errors.first().map(ToString::to_string);
        first.unwrap_or_default()
    })
}

/// Machine code of a verified program.
///
/// # Errors
/// Why the interpreter runs it in this binary, on this machine.
pub fn machine_code(program: &Program) -> Result<Box<dyn Compiled>, String> {
    match COMPILER.get() {
        Some(compile) => compile(program),
        None => Err("this binary was built without its compiler (the feature jit)".to_owned()),
    }
}

/// A program made ready, and what people are to know of it.
pub(super) fn load(planned: Planned) -> (Loaded, Option<String>) {
    let (compiled, notice) = match planned.engine {
        Engine::Interpreter => (None, None),
        Engine::Jit => match machine_code(&planned.program) {
            Ok(compiled) => (Some(compiled), None),
            Err(why) => (None, Some(format!("its program is interpreted: {why}"))),
        },
    };
    (Loaded::new(planned.program, compiled), notice)
}
