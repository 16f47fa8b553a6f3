//! What a result must say about where and when it was measured.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// The machine a benchmark ran on.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu_model: String,
    /// Cores this process may run on.
    pub(crate) cores: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) huge_pages_free: u64,
}

impl Machine {
    pub(crate) fn probe() -> Self {
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            cpu_model: field(&cpu, "model name").unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_info("MemTotal").unwrap_or(0) * 1024,
            huge_pages_free: memory_info("HugePages_Free").unwrap_or(0),
        }
    }
}

/// One number of /proc/meminfo: KiB, or a count for the huge page lines.
pub(crate) fn memory_info(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    field(&text, name)?.split_whitespace().next()?.parse().ok()
}

/// The value of the first `name : value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// How long the load before a benchmark is watched.
const LOAD_WINDOW: Duration = Duration::from_millis(500);

/// How busy the machine is with other work, as a note: a benchmark on a busy machine flatters
/// whichever side the other work disturbs less.
pub(crate) fn background_load() -> String {
    let before = cpu_ticks();
    std::thread::sleep(LOAD_WINDOW);
    let Some(((busy0, all0), (busy1, all1))) = before.zip(cpu_ticks()) else {
        return "other load before the start: unknown".to_owned();
    };
    let share = 100 * busy1.saturating_sub(busy0) / all1.saturating_sub(all0).max(1);
    format!("other load before the start: {share} % of all cores")
}

/// Core time of all cores that was not idle since boot, steal included.
pub(crate) fn busy_seconds() -> Option<f64> {
    let (busy, _) = cpu_ticks()?;
    Some(busy as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Busy and all ticks of all cores since boot (proc_stat(5): idle and iowait are not busy).
fn cpu_ticks() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .filter_map(|t| t.parse().ok())
        .collect();
    // The first eight columns end with steal; guest time, after them, is counted in user.
    let all: u64 = ticks.iter().take(8).sum();
    Some((all - ticks.get(3)? - ticks.get(4)?, all))
}

/// Kernel release.
pub(crate) fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// Commit of the working tree, with `-dirty` when tracked files differ from it.
pub(crate) fn commit(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .current_dir(root)
            .args(arguments)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let Some(revision) = git(&["rev-parse", "HEAD"]) else {
        return "unknown".to_owned();
    };
    match git(&["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => revision,
        _ => revision + "-dirty",
    }
}

/// The present time in UTC (RFC 3339, whole seconds).
pub(crate) fn now_rfc3339() -> String {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    rfc3339(since.as_secs())
}

/// Seconds since 1970 as an RFC 3339 time.
fn rfc3339(seconds: u64) -> String {
    let mut days = seconds / 86_400;
    let time = seconds % 86_400;
    let is_leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!(
        "{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z",
        days + 1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_the_calendar() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_735_689_599), "2024-12-31T23:59:59Z");
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "MemTotalX: 1 kB\nMemTotal:   24 kB\n";
        assert_eq!(field(text, "MemTotal"), Some("24 kB"));
        assert_eq!(field(text, "Mem"), None);
    }
}
