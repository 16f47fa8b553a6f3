//! Joules: from the processor's own meter (RAPL by powercap), or from a wattmeter that the user
//! reads.
//!
//! RAPL counts packages in microjoules, some once in a millisecond, and begins anew at
//! `max_energy_range_uj`. It knows nothing of fans, memory (mostly) and network cards: a wattmeter
//! at the plug gives other and larger figures.

use super::{Finding, Tree};

const FOLDER: &str = "/sys/class/powercap";
const PREFIX: &str = "intel-rapl:";

pub(super) fn rapl(tree: &Tree) -> Finding {
    let name = "rapl";
    let zones = tree.numbered(FOLDER, PREFIX);
    if zones.is_empty() {
        let seen = "no energy meter: Gbps per watt needs the reading of a wattmeter";
        return Finding::unsupported(name, seen);
    }
    match EnergyMeter::open(tree) {
        Some(meter) => Finding::ok(name, format!("{} packages", meter.zones.len())),
        None => Finding::warning(
            name,
            format!("{} packages, but their meters do not open", zones.len()),
            "run as root, or: sudo chmod o+r /sys/class/powercap/intel-rapl:*/energy_uj",
        ),
    }
}

/// The meters of all packages.
#[derive(Clone, Debug)]
pub struct EnergyMeter {
    tree: Tree,
    zones: Vec<Zone>,
}

#[derive(Clone, Debug)]
struct Zone {
    file: String,
    /// Microjoules at which it begins anew.
    range: u64,
}

/// Microjoules of each package at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnergyReading(Vec<u64>);

impl EnergyMeter {
    /// The meters, if there are any and all can be read.
    pub fn open(tree: &Tree) -> Option<Self> {
        let zones = tree.numbered(FOLDER, PREFIX).into_iter().map(|zone| {
            let folder = format!("{FOLDER}/{zone}");
            Some(Zone {
                range: tree.number(&format!("{folder}/max_energy_range_uj"))?,
                file: format!("{folder}/energy_uj"),
            })
        });
        let zones: Option<Vec<Zone>> = zones.collect();
        let meter = Self {
            tree: tree.clone(),
            zones: zones.filter(|zones| !zones.is_empty())?,
        };
        meter.read().is_some().then_some(meter)
    }

    /// Reads all meters.
    pub fn read(&self) -> Option<EnergyReading> {
        let files = self.zones.iter().map(|zone| self.tree.number(&zone.file));
        Some(EnergyReading(files.collect::<Option<_>>()?))
    }

    /// Joules between two readings less than one round of a meter apart (minutes at full load).
    pub fn joules(&self, before: &EnergyReading, after: &EnergyReading) -> f64 {
        let spent = self.zones.iter().zip(before.0.iter().zip(&after.0));
        let micro = spent.map(
            |(zone, (&before, &after))| match after.checked_sub(before) {
                Some(spent) => spent,
                None => (zone.range - before.min(zone.range)) + after,
            },
        );
        micro.map(|spent| spent as f64).sum::<f64>() / 1e6
    }
}

/// What a stretch of time took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Energy {
    /// Energy.
    pub joules: f64,
    /// Length.
    pub seconds: f64,
}

impl Energy {
    /// Mean power.
    pub fn watts(self) -> f64 {
        self.joules / self.seconds.max(1e-9)
    }
}

/// Gbps per watt. `watts` is RAPL's joules over seconds, or what a wattmeter shows.
pub fn gbps_per_watt(bits_per_second: f64, watts: f64) -> Option<f64> {
    (watts > 0.0).then(|| bits_per_second / 1e9 / watts)
}
