//! Waiting: what a worker does when a turn moved nothing.
//!
//! Spinning is fastest while every poller has a core of its own, and ruinous when two share one:
//! the one with nothing to do then keeps the other from doing it for a whole scheduler slice, which
//! is milliseconds. So the policy is chosen once, at start, from the number of pollers, the cores
//! they may use, the CPU quota, and the measured cost of a yield and of a sleep with wake-up; it is
//! printed, and a chain file can force it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use catena_shm::bell::{self, WaitWord};
use serde::{Deserialize, Serialize};

use crate::chain::run::WaitChoice;

/// How idle workers wait: spin for a time, then yield a few times, then sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitPolicy {
    /// How long to look for work without giving way.
    pub spin_ns: u64,
    /// How often to give way to other threads before sleeping.
    pub yields: u32,
    /// Whether to sleep at all.
    pub sleeps: bool,
}

/// What the choice was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitBasis {
    /// Workers that poll.
    pub pollers: usize,
    /// Cores they may use.
    pub cores: usize,
    /// Whether a CPU quota limits them (spinning would use it up).
    pub has_quota: bool,
    /// Measured: giving way once, with nobody else to run.
    pub yield_ns: u64,
    /// Measured: from waking a sleeper to its first instruction.
    pub wake_ns: u64,
}

/// A policy and its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenWait {
    /// What the chain file asked for.
    pub choice: WaitChoice,
    /// What it came to.
    pub policy: WaitPolicy,
    /// What was measured.
    pub basis: WaitBasis,
}

/// Chooses a policy. `Auto` never spins where pollers outnumber cores or a quota is set.
pub fn choose(choice: WaitChoice, basis: WaitBasis) -> ChosenWait {
    let own_core = basis.pollers <= basis.cores && !basis.has_quota;
    let policy = match choice {
        WaitChoice::Spin => WaitPolicy {
            spin_ns: u64::MAX,
            yields: 0,
            sleeps: false,
        },
        WaitChoice::Yield => WaitPolicy {
            spin_ns: 0,
            yields: u32::MAX,
            sleeps: false,
        },
        WaitChoice::Sleep => WaitPolicy {
            spin_ns: 0,
            yields: 0,
            sleeps: true,
        },
        // Waking costs the sleeper's neighbour `wake_ns` of delay: spinning a few times as long is
        // the classic two-competitive choice, and keeps a busy chain awake.
        WaitChoice::Auto if own_core => WaitPolicy {
            spin_ns: (basis.wake_ns * 4).clamp(20_000, 200_000),
            yields: 2,
            sleeps: true,
        },
        WaitChoice::Auto => WaitPolicy {
            spin_ns: 0,
            yields: 3,
            sleeps: true,
        },
    };
    ChosenWait {
        choice,
        policy,
        basis,
    }
}

impl ChosenWait {
    /// One line for people.
    pub fn describe(&self) -> String {
        let WaitBasis {
            pollers,
            cores,
            has_quota,
            yield_ns,
            wake_ns,
        } = self.basis;
        let policy = match self.policy {
            WaitPolicy {
                sleeps: false,
                spin_ns: 0,
                ..
            } => "yield for ever".to_owned(),
            WaitPolicy { sleeps: false, .. } => "spin for ever".to_owned(),
            WaitPolicy {
                spin_ns: 0,
                yields: 0,
                ..
            } => "sleep".to_owned(),
            WaitPolicy {
                spin_ns: 0, yields, ..
            } => format!("yield {yields}x, then sleep"),
            WaitPolicy {
                spin_ns, yields, ..
            } => {
                format!("spin {} us, yield {yields}x, then sleep", spin_ns / 1000)
            }
        };
        let forced = if self.choice == WaitChoice::Auto {
            ""
        } else {
            ", forced"
        };
        let quota = if has_quota { ", CPU quota" } else { "" };
        format!(
            "{policy} ({pollers} pollers on {cores} cores{quota}; yield {yield_ns} ns, wake {wake_ns} ns{forced})"
        )
    }
}

/// Measures what giving way and waking cost here and now; takes about 30 ms.
pub fn measure(pollers: usize, cores: usize) -> WaitBasis {
    WaitBasis {
        pollers,
        cores,
        has_quota: has_quota(),
        yield_ns: measure_yield(),
        wake_ns: measure_wake(),
    }
}

fn measure_yield() -> u64 {
    const ROUNDS: u32 = 200;
    let start = Instant::now();
    for _ in 0..ROUNDS {
        std::thread::yield_now();
    }
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX) / u64::from(ROUNDS)
}

/// Half of a ping-pong over two futex words between two threads; the median of 200.
fn measure_wake() -> u64 {
    const ROUNDS: u32 = 200;
    let words = [AtomicU32::new(0), AtomicU32::new(0)];
    let wait_for = |word: &AtomicU32, round: u32| {
        while word.load(Ordering::Acquire) < round {
            bell::sleep(&[WaitWord::new(word, round - 1)], Duration::from_millis(5));
        }
    };
    let mut samples = std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                wait_for(&words[0], round);
                words[1].store(round, Ordering::Release);
                bell::wake(&words[1]);
            }
        });
        (1..=ROUNDS)
            .map(|round| {
                let start = Instant::now();
                words[0].store(round, Ordering::Release);
                bell::wake(&words[0]);
                wait_for(&words[1], round);
                u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX) / 2
            })
            .collect::<Vec<_>>()
    });
    samples.sort_unstable();
    samples[samples.len() / 2]
}

/// Whether this process runs under a CFS quota (cgroup v2 or v1).
fn has_quota() -> bool {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let Some(groups) = Some(read("/proc/self/cgroup")).filter(|text| !text.is_empty()) else {
        return false;
    };
    groups.lines().any(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next(), parts.next(), parts.next().unwrap_or("/"));
        match controllers {
            Some("") => ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
                .iter()
                .any(|root| {
                    let max = read(&format!("{root}{path}/cpu.max"));
                    !max.is_empty() && !max.starts_with("max")
                }),
            Some(names) if names.split(',').any(|name| name == "cpu") => {
                let quota = read(&format!("/sys/fs/cgroup/cpu{path}/cpu.cfs_quota_us"));
                quota.trim().parse::<i64>().is_ok_and(|quota| quota > 0)
            }
            _ => false,
        }
    })
}

/// What to tell people where a worker, whose first node is `node`, cannot sleep on several futexes.
pub fn poor_waiting(node: &str) -> Option<String> {
    (!catena_shm::bell::can_wait_on_several()).then(|| {
        format!(
            "{node}: futex_waitv is refused (an old kernel, or the system call filter of the \
             container engine); while idle it looks for packets every 250 us"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASIS: WaitBasis = WaitBasis {
        pollers: 2,
        cores: 2,
        has_quota: false,
        yield_ns: 300,
        wake_ns: 15_000,
    };

    #[test]
    fn pollers_that_share_a_core_never_spin_by_default() {
        assert_eq!(choose(WaitChoice::Auto, BASIS).policy.spin_ns, 60_000);
        let crowded = WaitBasis {
            pollers: 3,
            ..BASIS
        };
        assert_eq!(choose(WaitChoice::Auto, crowded).policy.spin_ns, 0);
        let limited = WaitBasis {
            has_quota: true,
            ..BASIS
        };
        assert_eq!(choose(WaitChoice::Auto, limited).policy.spin_ns, 0);
        assert!(choose(WaitChoice::Auto, crowded).policy.sleeps);
    }

    #[test]
    fn a_forced_policy_is_obeyed_and_said() {
        let chosen = choose(
            WaitChoice::Spin,
            WaitBasis {
                pollers: 9,
                ..BASIS
            },
        );
        assert!(!chosen.policy.sleeps);
        assert!(
            chosen.describe().contains("forced"),
            "{}",
            chosen.describe()
        );
    }

    #[test]
    fn measuring_gives_plausible_costs() {
        let basis = measure(1, 1);
        assert!(basis.yield_ns < 10_000_000 && (200..50_000_000).contains(&basis.wake_ns));
    }
}
