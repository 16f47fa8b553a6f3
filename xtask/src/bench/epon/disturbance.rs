//! Whether anything but the chain ran while it was measured: what the kernel's accounts say.
//!
//! The functions share the machine's cores, so a gap in one of their loops does not tell whether
//! another function ran or a stranger. The accounts do: processor time that the hypervisor took
//! away, and that of processes which are not Catena's.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::time::Instant;

/// Share of one core that others may have.
const SHARE_MAX: f64 = 0.01;

/// The accounts at the start.
pub(super) struct Watch {
    started: Instant,
    stolen: u64,
    others: u64,
}

impl Watch {
    pub(super) fn begin() -> Self {
        Self {
            started: Instant::now(),
            stolen: stolen(),
            others: others(),
        }
    }

    /// Whether neither has moved by more than a little.
    pub(super) fn is_clean(&self) -> bool {
        let stolen = stolen().saturating_sub(self.stolen);
        let others = others().saturating_sub(self.others);
        let ticks =
            self.started.elapsed().as_secs_f64() * rustix::param::clock_ticks_per_second() as f64;
        // A single tick may have been nearly over when it began.
        stolen == 0 && others as f64 <= 1.0 + ticks * SHARE_MAX
    }
}

/// Ticks that the hypervisor took away, of all cores.
fn stolen() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    let field = first.split_whitespace().nth(8);
    field.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Ticks of all processes but Catena's own and this program's.
fn others() -> u64 {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return 0;
    };
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| is_process(name) && *name != std::process::id().to_string())
        .filter_map(|name| std::fs::read_to_string(format!("/proc/{name}/stat")).ok())
        .filter_map(|stat| ticks(&stat))
        .sum()
}

/// Ticks of a process, unless it is Catena's.
fn ticks(stat: &str) -> Option<u64> {
    let (name, rest) = (stat.split_once('(')?.1, stat.rsplit_once(')')?.1);
    if name.starts_with("catena") {
        return None;
    }
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14";
        assert_eq!(ticks(&format!("7 (a ) b) {rest}")), Some(23));
        assert_eq!(ticks(&format!("7 (catena) {rest}")), None);
        assert_eq!(ticks("7"), None);
    }

    #[test]
    fn a_stranger_is_seen() {
        let watch = Watch {
            started: Instant::now(),
            stolen: 0,
            others: 0,
        };
        // Everything since the machine was started is too much.
        assert!(!watch.is_clean());
    }
}
