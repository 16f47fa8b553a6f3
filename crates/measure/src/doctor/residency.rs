//! How long cores were in each idle state: whether a setting of C states took effect.

use std::collections::BTreeMap;

use super::Tree;

/// Microseconds that all cores have spent in each idle state, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    spent_us: BTreeMap<String, u64>,
    cores: u64,
}

impl Residency {
    /// As the kernel counts it; nothing where it knows no idle states.
    pub fn read(tree: &Tree) -> Self {
        let mut found = Self::default();
        for core in tree.processors() {
            let folder = format!("{core}/cpuidle");
            let states = tree.numbered(&folder, "state");
            found.cores += u64::from(!states.is_empty());
            for state in states {
                let file = |name: &str| format!("{folder}/{state}/{name}");
                let name = tree.read(&file("name")).unwrap_or_else(|| state.clone());
                let spent = tree.number(&file("time")).unwrap_or(0);
                *found.spent_us.entry(name).or_default() += spent;
            }
        }
        found
    }

    /// Share of the cores' time in each state since `before`, `elapsed_us` earlier.
    pub fn shares_since(&self, before: &Self, elapsed_us: u64) -> BTreeMap<String, f64> {
        let whole = (elapsed_us * self.cores).max(1) as f64;
        let shares = self.spent_us.iter().map(|(name, spent)| {
            let before = before.spent_us.get(name).copied().unwrap_or(*spent);
            // A core that wakes in between counts a stay that began before.
            let share = spent.saturating_sub(before) as f64 / whole;
            (name.clone(), share.min(1.0))
        });
        shares.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_idle_states_is_a_share_of_all_cores() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::new(root.path());
        assert_eq!(Residency::read(&tree), Residency::default());
        let write = |core: u32, state: u32, name: &str, us: u64| {
            let folder = format!("sys/devices/system/cpu/cpu{core}/cpuidle/state{state}");
            let folder = root.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("name"), format!("{name}\n")).unwrap();
            std::fs::write(folder.join("time"), format!("{us}\n")).unwrap();
        };
        write(0, 0, "POLL", 10);
        write(0, 1, "C1", 1000);
        write(1, 1, "C1", 2000);
        let before = Residency::read(&tree);
        write(0, 1, "C1", 1500);
        write(1, 1, "C1", 2500);
        let shares = Residency::read(&tree).shares_since(&before, 1000);
        assert_eq!(
            shares,
            [("C1".to_owned(), 0.5), ("POLL".to_owned(), 0.0)].into()
        );
    }
}
