//! The copy of the tree that is broken, and its tests on each break.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::arguments::Arguments;
use super::find::{self, Place};
use crate::bench::child::Guarded;
use crate::bench::work_dir::WorkDir;

/// Longest build.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);
/// Beside ten times what the tests take unbroken: a machine that does other things.
const LIMIT_MIN: Duration = Duration::from_secs(10);
/// Memory of a run in KiB, as `ulimit` counts: a break may fill it.
const MEMORY_KIB: u64 = 8 << 20;
/// What a break says that changes nothing, as there is no such neighbour.
const VOID: i32 = 86;

/// What became of a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A quick test failed.
    Quick,
    /// A slow one did.
    Slow,
    /// A test did not end.
    Hangs,
    /// No test noticed.
    Missed,
    /// It does not compile.
    Unbuilt,
    /// The type has no such value.
    Void,
}

impl Outcome {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Slow => "slow",
            Self::Hangs => "hangs",
            Self::Missed => "missed",
            Self::Unbuilt => "does not build",
            Self::Void => "no such value",
        }
    }

    /// Whether there is no such break.
    pub(super) const fn is_none(self) -> bool {
        matches!(self, Self::Unbuilt | Self::Void)
    }
}

/// A copy of the tree.
pub(super) struct Tree {
    work: WorkDir,
    root: PathBuf,
    target: PathBuf,
    krate: String,
    under: Vec<String>,
    quick_ms: u64,
    tests: Option<Tests>,
}

/// The tests of the copy's crate, and what they take unbroken.
struct Tests {
    program: PathBuf,
    quick: Vec<(String, Duration)>,
    slow: Vec<(String, Duration)>,
}

impl Tests {
    /// Quick tests: those of the file's module first, then those of the one around it, and so on.
    /// Most breaks are noticed next to them.
    fn nearest_first(&self, file: &Path) -> Vec<Vec<&(String, Duration)>> {
        let module = module_of(file);
        let mut left: Vec<_> = self.quick.iter().collect();
        let mut groups = Vec::new();
        for len in (0..=module.len()).rev() {
            let names = module[..len].iter().map(|name| format!("{name}::"));
            let front: String = names.collect();
            let (near, far) = left
                .into_iter()
                .partition(|(name, _)| name.starts_with(&front));
            groups.push(near);
            left = far;
        }
        groups.retain(|group| !group.is_empty());
        groups
    }
}

/// Names of the modules that lead to a file of a crate, as far as its path says.
pub(super) fn module_of(file: &Path) -> Vec<String> {
    let plain = file.with_extension("");
    let names = plain.iter().map(|name| name.to_string_lossy().into_owned());
    let names = names.skip_while(|name| name != "src").skip(1);
    names
        .filter(|name| name != "mod" && name != "lib")
        .collect()
}

impl Tree {
    /// Copies what git knows or does not ignore.
    ///
    /// # Errors
    /// git, or the file system.
    pub(super) fn copy(
        from: &Path,
        krate: &str,
        arguments: &Arguments,
    ) -> Result<Self, Box<dyn Error>> {
        let work = WorkDir::new()?;
        let root = work.path().join("tree");
        let listed = Command::new("git")
            .current_dir(from)
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .stdin(Stdio::null())
            .output()?;
        if !listed.status.success() {
            return Err(String::from_utf8_lossy(&listed.stderr).into_owned().into());
        }
        for name in String::from_utf8(listed.stdout)?.split_terminator('\0') {
            // What is listed may be deleted, or a link.
            if from.join(name).is_file() {
                let place = root.join(name);
                std::fs::create_dir_all(place.parent().unwrap_or(&root))?;
                std::fs::copy(from.join(name), place)?;
            }
        }
        let target = match &arguments.target_dir {
            Some(folder) => std::path::absolute(folder)?,
            None => work.path().join("target"),
        };
        Ok(Self {
            work,
            root,
            target,
            krate: krate.to_owned(),
            under: arguments
                .under
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            quick_ms: arguments.quick_ms,
            tests: None,
        })
    }

    /// Builds all breaks that have switches into the copy. Gives file and line of those that the
    /// compiler refuses, which are left out.
    ///
    /// # Errors
    /// The crate does not build, or fails its tests without any break.
    pub(super) fn build_switched(
        &mut self,
        places: &[Place],
        numbers: &[usize],
    ) -> Result<BTreeSet<(PathBuf, usize)>, Box<dyn Error>> {
        let mut refused = BTreeSet::new();
        let lib = Path::new("crates").join(&self.krate).join("src/lib.rs");
        loop {
            let is_in = |place: &Place| {
                place.is_switched && !refused.contains(&(place.file.clone(), place.line))
            };
            let mut files: BTreeSet<_> = places.iter().map(|place| &place.file).collect();
            files.insert(&lib);
            let mut sources = Vec::new();
            for &file in &files {
                let here: Vec<_> = places
                    .iter()
                    .zip(numbers.iter().copied())
                    .filter(|(place, _)| place.file == *file && is_in(place))
                    .collect();
                let source = std::fs::read_to_string(self.root.join(file))?;
                sources.push((file.clone(), find::switched(&source, &here), source));
            }
            let switch = self.root.join(lib.with_file_name("broken.rs"));
            std::fs::write(switch, include_str!("switch.rs"))?;
            for (file, switched, _) in &sources {
                let module = if *file == lib {
                    "\n#[allow(missing_docs)] mod broken;\n"
                } else {
                    ""
                };
                std::fs::write(self.root.join(file), format!("{switched}{module}"))?;
            }
            let built = self.build()?;
            for (file, _, source) in &sources {
                // The program is there; what is built alone begins with the source as it was.
                std::fs::write(self.root.join(file), source)?;
            }
            match built {
                Ok(program) => {
                    let kept = self.work.path().join("tests");
                    std::fs::copy(program, &kept)?;
                    self.tests = Some(self.measure(kept)?);
                    return Ok(refused);
                }
                Err(errors) => {
                    let known = |at: &(PathBuf, usize)| {
                        places
                            .iter()
                            .any(|place| (&place.file, place.line) == (&at.0, at.1))
                    };
                    let before = refused.len();
                    refused.extend(errors.places.into_iter().filter(known));
                    // Where most are refused, it is not the breaks that are wrong.
                    if refused.len() == before || 2 * refused.len() > places.len() {
                        return Err(errors.text.into());
                    }
                }
            }
        }
    }

    /// Runs the tests with this break switched on.
    ///
    /// # Errors
    /// A run that cannot be started.
    pub(super) fn try_switched(
        &self,
        place: &Place,
        number: usize,
        is_explained: bool,
    ) -> Result<Outcome, Box<dyn Error>> {
        let tests = self.tests.as_ref().ok_or("nothing is built")?;
        self.outcome(&tests.program, tests, place, (number, is_explained))
    }

    /// Builds the copy with this break alone, and runs its tests.
    ///
    /// # Errors
    /// The copy cannot be written, or the tests cannot be started.
    pub(super) fn try_alone(
        &mut self,
        place: &Place,
        which: usize,
        is_explained: bool,
    ) -> Result<Outcome, Box<dyn Error>> {
        if self.tests.is_none() {
            let program = self.build()?.map_err(|errors| errors.text)?;
            self.tests = Some(self.measure(program)?);
        }
        let path = self.root.join(&place.file);
        let source = std::fs::read_to_string(&path)?;
        std::fs::write(&path, find::broken(&source, place, which))?;
        let built = self.build();
        std::fs::write(&path, source)?;
        match (built?, &self.tests) {
            (Ok(program), Some(tests)) => {
                self.outcome(&program, tests, place, (usize::MAX, is_explained))
            }
            _ => Ok(Outcome::Unbuilt),
        }
    }

    /// What the tests say of a break. Of one that is explained, slow ones are not asked.
    fn outcome(
        &self,
        program: &Path,
        tests: &Tests,
        place: &Place,
        (number, is_explained): (usize, bool),
    ) -> Result<Outcome, Box<dyn Error>> {
        for group in tests.nearest_first(&place.file) {
            match self.run(program, &group, number)? {
                Run::Passed => {}
                other => return Ok(other.outcome(Outcome::Quick)),
            }
        }
        if tests.slow.is_empty() || is_explained {
            return Ok(Outcome::Missed);
        }
        let slow: Vec<_> = tests.slow.iter().collect();
        Ok(self.run(program, &slow, number)?.outcome(Outcome::Slow))
    }

    fn run(
        &self,
        program: &Path,
        tests: &[&(String, Duration)],
        number: usize,
    ) -> Result<Run, Box<dyn Error>> {
        let took: Duration = tests.iter().map(|(_, took)| *took).sum();
        let deadline = Instant::now() + took * 10 + LIMIT_MIN;
        let names = tests.iter().map(|(name, _)| name.as_str()).collect();
        let mut tests = self.start(program, names, number)?;
        while let Some((_, line)) = tests.next_line(deadline) {
            if line.ends_with("... FAILED") {
                return Ok(Run::Failed);
            }
        }
        let Some(status) = tests.wait(deadline) else {
            return Ok(Run::Hangs);
        };
        Ok(match status.code() {
            Some(0) => Run::Passed,
            Some(VOID) => Run::Void,
            _ => Run::Failed,
        })
    }

    fn start(
        &self,
        program: &Path,
        arguments: Vec<&str>,
        number: usize,
    ) -> std::io::Result<Guarded> {
        let mut words: Vec<String> = self.under.clone();
        let limited =
            format!("ulimit -v {MEMORY_KIB} -c 0; cd \"$1\" && shift && exec \"$0\" \"$@\"");
        words.extend(["sh".to_owned(), "-c".to_owned(), limited]);
        words.push(program.to_string_lossy().into_owned());
        // Where cargo runs tests; what they write beside their source lands in the copy.
        let folder = self.root.join("crates").join(&self.krate);
        words.push(folder.to_string_lossy().into_owned());
        words.push("--exact".to_owned());
        words.extend(arguments.into_iter().map(str::to_owned));
        let number = number.to_string();
        let environment = [
            ("CATENA_BREAK", Path::new(&number)),
            // Each break meets the same cases, and none that another one brought up.
            ("PROPTEST_RNG_SEED", Path::new("1")),
            ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", Path::new("1")),
        ];
        let first = words.remove(0);
        Guarded::start(
            first,
            words,
            &environment,
            self.work.path().join("tests.err"),
        )
    }

    /// Runs the tests one by one without a break, and finds the slow ones.
    fn measure(&self, program: PathBuf) -> Result<Tests, Box<dyn Error>> {
        let begun = Instant::now();
        let mut tests = self.start(&program, vec!["--test-threads=1"], usize::MAX)?;
        let (mut quick, mut slow, mut before) = (Vec::new(), Vec::new(), begun);
        while let Some((at, line)) = tests.next_line(begun + BUILD_LIMIT) {
            let named = line
                .strip_prefix("test ")
                .and_then(|rest| rest.split_once(" ... "));
            if let Some((name, _)) = named {
                // How it is named to `--exact`.
                let name = name.trim_end_matches(" - should panic");
                let took = at - before;
                match took > Duration::from_millis(self.quick_ms) {
                    true => slow.push((name.to_owned(), took)),
                    false => quick.push((name.to_owned(), took)),
                }
            }
            before = at;
        }
        match tests.wait(begun + BUILD_LIMIT) {
            Some(status) if status.success() => {}
            _ => return Err("the tests fail without any break".into()),
        }
        let names: Vec<_> = slow.iter().map(|(name, _)| name.as_str()).collect();
        eprintln!("{} tests are slow: {}", names.len(), names.join(", "));
        Ok(Tests {
            program,
            quick,
            slow,
        })
    }

    /// Builds the tests of the crate's units; gives their program, or what the compiler refuses.
    fn build(&self) -> Result<Result<PathBuf, Errors>, Box<dyn Error>> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let manifest = self.root.join("Cargo.toml");
        let package = format!("catena-{}", self.krate);
        let arguments: [&std::ffi::OsStr; 10] = [
            "test".as_ref(),
            "--quiet".as_ref(),
            "--locked".as_ref(),
            "--lib".as_ref(),
            "--no-run".as_ref(),
            "--message-format=json".as_ref(),
            "--package".as_ref(),
            package.as_ref(),
            "--manifest-path".as_ref(),
            manifest.as_ref(),
        ];
        let environment = [
            ("CARGO_TARGET_DIR", self.target.as_path()),
            ("CARGO_INCREMENTAL", Path::new("1")),
        ];
        let error_path = self.work.path().join("build.err");
        let mut cargo = Guarded::start(cargo, arguments, &environment, error_path)?;
        let deadline = Instant::now() + BUILD_LIMIT;
        let (mut program, mut errors) = (None, Errors::default());
        while let Some((_, line)) = cargo.next_line(deadline) {
            let Ok(message) = serde_json::from_str::<Value>(&line) else {
                continue;
            };
            if let Some(path) = message["executable"].as_str() {
                program = Some(PathBuf::from(path));
            }
            errors.add(&message["message"]);
        }
        let built = cargo.wait(deadline).is_some_and(|status| status.success());
        if errors.text.is_empty() {
            errors.text = cargo.error_tail();
        }
        Ok(program.filter(|_| built).ok_or(errors))
    }
}

/// What the compiler refuses.
#[derive(Debug, Default)]
struct Errors {
    places: BTreeSet<(PathBuf, usize)>,
    text: String,
}

impl Errors {
    fn add(&mut self, message: &Value) {
        if message["level"] != "error" {
            return;
        }
        self.text
            .push_str(message["rendered"].as_str().unwrap_or_default());
        for span in message["spans"].as_array().into_iter().flatten() {
            let (file, line) = (span["file_name"].as_str(), span["line_start"].as_u64());
            if let (Some(file), Some(line)) = (file, line) {
                self.places.insert((file.into(), line as usize));
            }
        }
    }
}

/// How a run of tests ended.
#[derive(Clone, Copy, Debug)]
enum Run {
    Passed,
    Failed,
    Hangs,
    Void,
}

impl Run {
    const fn outcome(self, failed: Outcome) -> Outcome {
        match self {
            Self::Passed => Outcome::Missed,
            Self::Failed => failed,
            Self::Hangs => Outcome::Hangs,
            Self::Void => Outcome::Void,
        }
    }
}
