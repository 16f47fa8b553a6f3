//! P and C states on or off for a while, and back as they were, whatever happens.
//!
//! | event                          | who restores                                               |
//! |--------------------------------|------------------------------------------------------------|
//! | the study ends, fails, panics  | [`StateGuard`]'s drop                                      |
//! | the process is killed          | the guardian, a process that waits for the end of its pipe |
//! | both are killed, power is lost | [`restore_leftovers`] at the next start                    |
//!
//! Before a file is changed its old value is in the journal, and the journal on the disk. Who
//! changes states holds a lock on the journal, so that a second study waits for its turn and nobody
//! restores under a running one. `/dev/cpu_dma_latency` needs no journal: the kernel forgets it
//! when its descriptor closes.
//!
//! The journal lies in the runtime directory, which does not outlast a reboot on most machines;
//! neither do the settings.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

use serde::Serialize;

use super::Tree;
use super::state_journal::{Entry, Journal, failed};

pub use super::state_journal::StateError;

/// Whether the processor may change its clock (P) and sleep (C).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct States {
    /// P states: the clock follows the load. `None`: left as it is.
    pub p: Option<bool>,
    /// C states: idle cores sleep. `None`: left as it is.
    pub c: Option<bool>,
}

impl FromStr for States {
    type Err = String;

    /// `+pc`, `-pc`, `+p-c`, `-c`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("\"{text}\" is no setting of states; write it like +pc, -pc or +p-c");
        let mut states = Self { p: None, c: None };
        let mut sign = None;
        for letter in text.chars() {
            match (letter, sign) {
                ('+', _) => sign = Some(true),
                ('-', _) => sign = Some(false),
                ('p', Some(_)) if states.p.is_none() => states.p = sign,
                ('c', Some(_)) if states.c.is_none() => states.c = sign,
                _ => return Err(wrong()),
            }
        }
        if states.p.is_none() && states.c.is_none() {
            return Err(wrong());
        }
        Ok(states)
    }
}

impl fmt::Display for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = |is_on| if is_on { '+' } else { '-' };
        match (self.p, self.c) {
            (Some(p), Some(c)) if p == c => write!(f, "{}pc", sign(p)),
            (p, c) => {
                for (letter, is_on) in [('p', p), ('c', c)] {
                    if let Some(is_on) = is_on {
                        write!(f, "{}{letter}", sign(is_on))?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// Reads a list like `+pc,-pc`.
///
/// # Errors
/// Which part is wrong, and the form.
pub fn parse_list(text: &str) -> Result<Vec<States>, String> {
    text.split(',').map(|part| part.trim().parse()).collect()
}

/// A file's new value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Path from the root.
    pub path: String,
    /// What is written.
    pub value: String,
}

/// What a setting means on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatePlan {
    /// Files to change.
    pub changes: Vec<Change>,
    /// Whether `/dev/cpu_dma_latency` is held at 0.
    pub holds_dma_latency: bool,
    /// What of the setting this machine cannot do, each as `NAME: why, and what to do`.
    pub unsupported: Vec<String>,
}

/// What `states` means on the machine of `tree`. Reads only.
pub fn plan(tree: &Tree, states: States) -> StatePlan {
    let mut plan = StatePlan::default();
    if let Some(is_on) = states.p {
        plan_p(tree, is_on, &mut plan);
    }
    if let Some(is_on) = states.c {
        plan_c(tree, is_on, &mut plan);
    }
    plan
}

fn plan_p(tree: &Tree, is_on: bool, plan: &mut StatePlan) {
    let before = plan.changes.len();
    let wanted_governors: &[&str] = match is_on {
        true => &["schedutil", "ondemand", "powersave"],
        false => &["performance"],
    };
    let wanted_preference = if is_on {
        "balance_performance"
    } else {
        "performance"
    };
    for cpu in tree.processors() {
        let folder = format!("{cpu}/cpufreq");
        let governor = (
            "scaling_available_governors",
            "scaling_governor",
            wanted_governors,
        );
        let preference = (
            "energy_performance_available_preferences",
            "energy_performance_preference",
            &[wanted_preference][..],
        );
        // Under the governor `performance` intel_pstate refuses any other preference, so that the
        // preference is changed before that governor comes, and after it has gone; restoring goes
        // the other way round.
        let offered = if is_on {
            [governor, preference]
        } else {
            [preference, governor]
        };
        for (list, file, wanted) in offered {
            let list = tree.read(&format!("{folder}/{list}")).unwrap_or_default();
            let has = |value: &&&str| list.split(' ').any(|offered| offered == **value);
            if let Some(value) = wanted.iter().find(has) {
                plan.changes.push(Change {
                    path: format!("{folder}/{file}"),
                    value: (*value).to_owned(),
                });
            }
        }
    }
    if plan.changes.len() == before {
        plan.lacks(
            "governor (P states)",
            "no cpufreq: the firmware or the hypervisor sets the clock; boot on bare metal with \
             CONFIG_CPU_FREQ, or fix the clock in the firmware's setup",
        );
    }
    plan_turbo(tree, is_on, plan);
}

fn plan_turbo(tree: &Tree, is_on: bool, plan: &mut StatePlan) {
    let switches = [
        ("/sys/devices/system/cpu/intel_pstate/no_turbo", "1"),
        ("/sys/devices/system/cpu/cpufreq/boost", "0"),
    ];
    let present = switches.iter().filter(|(path, _)| tree.exists(path));
    let present: Vec<_> = present.collect();
    if present.is_empty() {
        plan.lacks(
            "turbo (P states)",
            "no switch in sysfs: set it in the firmware's setup, or on the host of this machine",
        );
    }
    // Turbo that is on stays on, and turbo that somebody switched off stays off.
    for (path, off) in present.into_iter().filter(|_| !is_on) {
        plan.changes.push(Change {
            path: (*path).to_owned(),
            value: (*off).to_owned(),
        });
    }
}

fn plan_c(tree: &Tree, is_on: bool, plan: &mut StatePlan) {
    let before = plan.changes.len();
    for cpu in tree.processors() {
        let folder = format!("{cpu}/cpuidle");
        // State 0 polls; it is no sleep.
        for state in tree.numbered(&folder, "state").iter().skip(1) {
            plan.changes.push(Change {
                path: format!("{folder}/{state}/disable"),
                value: if is_on { "0" } else { "1" }.to_owned(),
            });
        }
    }
    if plan.changes.len() == before {
        plan.lacks(
            "idle states (C states)",
            "no cpuidle: the hypervisor idles the cores; compare ways of waiting instead, run.wait \
             spin and sleep",
        );
        plan.lacks(
            "cpu_dma_latency (C states)",
            "without idle states it has no effect; measure on bare metal",
        );
    } else if !tree.exists("/dev/cpu_dma_latency") {
        plan.lacks(
            "cpu_dma_latency (C states)",
            "no such device: idle states are switched off one by one; for the device, a kernel \
             with CONFIG_CPU_IDLE and devtmpfs",
        );
    } else {
        plan.holds_dma_latency = !is_on;
    }
}

impl StatePlan {
    /// Notes a setting that this machine does not have, and what to do.
    fn lacks(&mut self, setting: &str, why: &str) {
        self.unsupported.push(format!("{setting}: {why}"));
    }
}

/// Holds P and C states; restores them when dropped.
#[derive(Debug)]
pub struct StateGuard {
    tree: Tree,
    journal: Journal,
    guardian: Option<Child>,
    _dma_latency: Option<File>,
}

impl StateGuard {
    /// Carries out `plan`, with the journal at `journal`.
    ///
    /// `guardian` is a command that calls [`guard_until_end`] with its standard input and the same
    /// journal; without it, a kill of this process leaves the restoring to the next start.
    ///
    /// # Errors
    /// Which file, and why. What was changed before is restored.
    pub fn apply(
        tree: &Tree,
        plan: &StatePlan,
        journal: &Path,
        guardian: Option<Command>,
    ) -> Result<Self, StateError> {
        let journal = Journal::lock(journal)?;
        // What an earlier, killed one left.
        journal.restore(tree)?;
        let guardian = match guardian {
            None => None,
            Some(mut command) => Some(start_guardian(&mut command, &journal.path)?),
        };
        let mut guard = Self {
            tree: tree.clone(),
            journal,
            guardian,
            _dma_latency: None,
        };
        for change in &plan.changes {
            guard.change(change)?;
        }
        if plan.holds_dma_latency {
            let path = tree.path("/dev/cpu_dma_latency");
            guard._dma_latency = Some(hold_dma_latency(&path).map_err(failed(&path))?);
        }
        Ok(guard)
    }

    fn change(&mut self, change: &Change) -> Result<(), StateError> {
        let path = self.tree.path(&change.path);
        let Some(original) = self.tree.read(&change.path) else {
            let reason = std::io::Error::other("cannot be read");
            return Err(StateError::Write { path, reason });
        };
        if original == change.value {
            return Ok(());
        }
        self.journal.note(&Entry {
            path: change.path.clone(),
            original,
        })?;
        std::fs::write(&path, &change.value).map_err(failed(&path))
    }

    /// Restores the states now, and says if that failed.
    ///
    /// # Errors
    /// The first file that could not be restored. The others were, and the journal stays.
    pub fn restore(mut self) -> Result<(), StateError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), StateError> {
        let restored = self.journal.restore(&self.tree);
        if let Some(mut guardian) = self.guardian.take() {
            // The end of its input lets it go; it waits for the journal's lock, which it gets when
            // this one is released.
            drop(guardian.stdin.take());
            self.journal.unlock();
            let _ = guardian.wait();
        }
        restored
    }
}

impl Drop for StateGuard {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            eprintln!("P or C states are not restored: {error}");
        }
    }
}

/// Asks for a latency of 0 us for as long as the file is open (pm_qos_interface.rst).
fn hold_dma_latency(path: &Path) -> std::io::Result<File> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(file)
}

/// Starts the guardian in a process group of its own, so that what ends this process from a
/// terminal does not end it too.
fn start_guardian(command: &mut Command, journal: &Path) -> Result<Child, StateError> {
    use std::os::unix::process::CommandExt;
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn();
    child.map_err(failed(journal))
}

/// The guardian's work: waits for the end of `input`, then restores what is in the journal, once
/// nobody holds it.
///
/// # Errors
/// Which file could not be restored, and why.
pub fn guard_until_end(
    tree: &Tree,
    journal: &Path,
    mut input: impl Read,
) -> Result<(), StateError> {
    let mut ignored = [0; 64];
    loop {
        match input.read(&mut ignored) {
            Ok(1..) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => break,
        }
    }
    let journal = Journal::wait_for(journal)?;
    journal.restore(tree)
}

/// Restores what a killed process left changed. Call at start. Says whether there was anything.
///
/// # Errors
/// Which file could not be restored, and why. A study that runs is not disturbed, and no error.
pub fn restore_leftovers(tree: &Tree, journal: &Path) -> Result<bool, StateError> {
    if !journal.exists() {
        return Ok(false);
    }
    let journal = match Journal::lock(journal) {
        Err(StateError::Busy(_)) => return Ok(false),
        other => other?,
    };
    let was_left = !journal.entries()?.is_empty();
    journal.restore(tree)?;
    Ok(was_left)
}

/// The journal's place below the runtime directory.
pub fn journal_path(runtime_root: &Path) -> PathBuf {
    runtime_root.join("states.journal")
}
