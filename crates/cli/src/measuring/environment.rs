//! What a report says of the machine, and how noisy it was.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use catena_measure::doctor::noise::{self, CoreNoise};
use catena_measure::doctor::wakeup::{self, Wakeups};
use catena_measure::doctor::{Tree, Verdict, examine};
use catena_measure::latency::stall::NoiseFloor;
use catena_measure::report::{Document, time};
use catena_measure::stats::histogram::Histogram;

/// The present time as RFC 3339, in UTC and whole seconds.
pub(crate) fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    rfc3339(since.map_or(0, |since| since.as_secs()))
}

/// Seconds since 1970 as a date of the Gregorian calendar: days are counted in cycles of 400 years
/// from 1 March, so that the leap day is the last of its year.
fn rfc3339(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // 719,468 days lie between 0000-03-01 and 1970-01-01.
    let days = days + 719_468;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let number = if month < 10 { month + 3 } else { month - 9 };
    let year = cycle * 400 + year + u64::from(number <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let second = second % 60;
    format!("{year:04}-{number:02}-{of_month:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// An argument as a shell reads it.
fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=+%@".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', "'\\''"))
    }
}

fn first_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().next().map(str::to_owned)
}

fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}

/// The commit that this binary was built from, as its build script found it.
fn commit() -> Option<String> {
    let commit = env!("CATENA_COMMIT");
    (!commit.is_empty()).then(|| commit.to_owned())
}

/// How late sleeping cores answer: what idle states really cost, which no table of theirs says.
pub(crate) fn wakeups() -> (String, String) {
    let cores = wakeup::measure(&noise::cores());
    ("wake-up".to_owned(), wakeup_text(&cores))
}

fn wakeup_text(cores: &[Wakeups]) -> String {
    let words = cores.iter().map(|core| {
        let p99 = core
            .p99_ns
            .map_or_else(String::new, |ns| format!(", p99 {}", time(ns as f64)));
        format!(
            "core {}: median {}{p99}, longest {}",
            core.core,
            time(core.p50_ns as f64),
            time(core.longest_ns as f64)
        )
    });
    let words: Vec<_> = words.collect();
    let warning = if cores.iter().any(Wakeups::is_late) {
        "warning: sleeping workers show in latencies: "
    } else {
        ""
    };
    format!("{warning}sleeping cores run late by {}", words.join("; "))
}

/// How this program was built: Cargo's profile, and what that means for its speed.
pub(crate) fn build() -> String {
    let assertions = if cfg!(debug_assertions) {
        "with debug assertions: slower than a release"
    } else {
        "without debug assertions"
    };
    format!(
        "profile {}, opt-level {}, {assertions}",
        env!("CATENA_PROFILE"),
        env!("CATENA_OPT_LEVEL")
    )
}

/// A document that names the machine and the command.
pub(crate) fn document(title: &str) -> Document {
    let mut document = Document::new(title, now());
    let mut add = |name: &str, value: Option<String>| {
        let value = value.unwrap_or_else(|| "not known".to_owned());
        document.environment.push((name.to_owned(), value));
    };
    add("catena", Some(env!("CARGO_PKG_VERSION").to_owned()));
    add("build", Some(build()));
    add("commit of the build", commit());
    add("kernel", first_line("/proc/sys/kernel/osrelease"));
    add("processor", processor());
    add("cores", Some(format!("{:?}", noise::cores())));
    for finding in examine(&Tree::new("/")) {
        let (name, seen) = (finding.name.to_owned(), finding.seen);
        match finding.verdict {
            Verdict::Ok => document.environment.push((name, seen)),
            Verdict::Warning => document
                .environment
                .push((name, format!("warning: {seen}"))),
            Verdict::Unsupported => document.unsupported.push((name, seen)),
        }
    }
    let words: Vec<_> = std::env::args().map(|word| quoted(&word)).collect();
    document.commands.push(words.join(" "));
    document
}

/// The noise floor of all cores together, in ns.
pub(crate) fn noise_floor(span: Duration) -> NoiseFloor {
    let cores = noise::measure(&noise::cores(), span, |_| {});
    pooled(&cores)
}

fn pooled(cores: &[CoreNoise]) -> NoiseFloor {
    let mut stalls = Histogram::new();
    let (mut lost, mut duration, mut longest) = (0.0, 0, 0);
    for core in cores {
        for (class, count) in (0_u32..).zip(core.classes) {
            // Classes are powers of two of a microsecond; the middle stands for all.
            stalls.record_many(noise::GAP_MIN_NS * 3 * (1 << class) / 2, count);
        }
        duration += core.watched_ns;
        lost += core.stalled_share * core.watched_ns as f64;
        longest = longest.max(core.longest_ns);
    }
    NoiseFloor {
        duration,
        stalls,
        lost_share: lost / (duration as f64).max(1.0),
        longest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (1_798_761_600, "2027-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), date);
        }
    }

    #[test]
    fn late_cores_are_warned_of() {
        let core = |core, p50_ns| Wakeups {
            core,
            count: 300,
            p50_ns,
            p90_ns: p50_ns,
            p99_ns: None,
            longest_ns: 60_000,
        };
        let quick = wakeup_text(&[core(0, 3000)]);
        assert!(quick.starts_with("sleeping cores run late by core 0: median 3"));
        let late = wakeup_text(&[core(0, 3000), core(1, 51_000)]);
        assert!(late.starts_with("warning") && late.contains("core 1: median 51"));
    }

    #[test]
    fn a_report_names_the_commit_of_the_build_and_not_of_the_folder() {
        let document = document("title");
        let mut rows = document.environment.iter();
        let row = rows.find(|(name, _)| name == "commit of the build");
        let built = env!("CATENA_COMMIT");
        let said = if built.is_empty() { "not known" } else { built };
        assert_eq!(row.map(|(_, value)| value.as_str()), Some(said));
    }

    #[test]
    fn arguments_are_quoted_for_a_shell() {
        assert_eq!(quoted("--rate=1Mpps"), "--rate=1Mpps");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
