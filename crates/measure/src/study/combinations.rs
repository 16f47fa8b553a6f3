//! The combinations of a study's levels, and the order in which blocks measure them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::cell::{Cell, FACTORS, LoadLevel, MODE, RATE, STATES, Unit};
use super::document::Study;
use super::wire::WireKind;
use crate::stats::random::Random;

/// How long a chain takes to start, drain and stop, on two cores.
const START: Duration = Duration::from_millis(300);
/// How much longer where its functions are in containers.
const CONTAINER: Duration = Duration::from_millis(700);
/// How much longer over ports of the kernel, which are given time to come up and to settle.
const WIRES: Duration = Duration::from_millis(700);

impl Study {
    /// How long trials are expected to take, none of them repeated.
    pub fn expected(&self, units: &[Unit], warmup: Duration) -> Duration {
        let cells = self.cells();
        let traffic = Duration::from_nanos(self.trial_ns) + warmup;
        let each = units.iter().map(|unit| {
            let cell = &cells[unit.cell];
            let is_contained = self.level(cell, MODE) == "container";
            let is_wired = self.wire_of(cell) != WireKind::None;
            let starts = [(true, START), (is_contained, CONTAINER), (is_wired, WIRES)];
            let starts = starts.into_iter().filter(|(is, _)| *is);
            traffic + starts.map(|(_, span)| span).sum::<Duration>()
        });
        each.sum()
    }

    /// All combinations that are not left out, the last factor changing fastest.
    pub fn cells(&self) -> Vec<Cell> {
        let count: usize = self.levels.iter().map(Vec::len).product();
        let cells = (0..count).map(|number| {
            let mut rest = number;
            let mut cell = [0; FACTORS.len()];
            for (place, levels) in self.levels.iter().enumerate().rev() {
                cell[place] = rest % levels.len();
                rest /= levels.len();
            }
            cell
        });
        cells.filter(|cell| !self.is_left_out(cell)).collect()
    }

    fn is_left_out(&self, cell: &Cell) -> bool {
        let applies = |entry: &BTreeMap<String, Vec<String>>| {
            let mut levels = entry.iter();
            levels.all(|(factor, texts)| {
                let place = FACTORS.iter().position(|known| known == factor);
                place.is_some_and(|place| texts.iter().any(|text| text == self.level(cell, place)))
            })
        };
        // An empty map would leave out everything.
        let mut entries = self.without.iter().filter(|entry| !entry.is_empty());
        entries.any(applies)
    }

    /// What a cell's level of a factor is called.
    pub fn level(&self, cell: &Cell, place: usize) -> &str {
        &self.levels[place][cell[place]].text
    }

    /// What a cell is called: its level of each factor that has several.
    pub fn title(&self, cell: &Cell) -> String {
        let places = (0..FACTORS.len()).filter(|place| self.levels[*place].len() > 1);
        let words: Vec<_> = places
            .map(|place| format!("{}={}", FACTORS[place], self.level(cell, place)))
            .collect();
        if words.is_empty() {
            self.name.clone()
        } else {
            words.join(" ")
        }
    }

    /// What a cell is called in the journal: its level of every factor.
    pub fn key(&self, cell: &Cell) -> BTreeMap<String, String> {
        let named = FACTORS.iter().enumerate();
        named
            .map(|(place, factor)| ((*factor).to_owned(), self.level(cell, place).to_owned()))
            .collect()
    }

    /// The load of a cell.
    pub fn load(&self, cell: &Cell) -> LoadLevel {
        // Levels were judged when the study was read.
        LoadLevel::parse(self.level(cell, RATE)).unwrap_or(LoadLevel::Max)
    }

    /// Trials in which packets are followed, after all others: one of each cell at a load.
    pub fn probed(&self) -> Vec<Unit> {
        let cells = self.cells().into_iter().enumerate();
        let loaded = cells.filter(|(_, cell)| self.load(cell) != LoadLevel::Max);
        let block = self.blocks;
        loaded.map(|(cell, _)| Unit { block, cell }).collect()
    }

    /// The cell that measures the rate of which this one's load is a share, if it is one.
    pub fn reference_of(&self, cell: &Cell) -> Option<Cell> {
        if !self.load(cell).is_share() {
            return None;
        }
        let max = self.levels[RATE]
            .iter()
            .position(|level| level.text == "max")?;
        let mut reference = *cell;
        reference[RATE] = max;
        Some(reference)
    }

    /// All trials in the order in which they are run.
    ///
    /// Blocks follow each other and are contiguous in time, so that what drifts is a block's luck
    /// and none of a cell's. Within a block, P and C states take turns in random order, since to
    /// change them takes time, and within each the cells do. Where loads are shares, cells at `max`
    /// come first in each: a share is of the median of those blocks that have been measured by
    /// then.
    pub fn order(&self) -> Vec<Unit> {
        let cells = self.cells();
        let mut random = Random::new(self.seed);
        let has_shares = cells.iter().any(|cell| self.load(cell).is_share());
        let mut units = Vec::new();
        for block in 0..self.blocks {
            let mut states: Vec<usize> = (0..self.levels[STATES].len()).collect();
            random.shuffle(&mut states);
            for state in states {
                let all = 0..cells.len();
                let mut of_state: Vec<usize> =
                    all.filter(|index| cells[*index][STATES] == state).collect();
                random.shuffle(&mut of_state);
                if has_shares {
                    // Stable: the order is random on both sides.
                    of_state.sort_by_key(|index| self.load(&cells[*index]) != LoadLevel::Max);
                }
                units.extend(of_state.into_iter().map(|cell| Unit { block, cell }));
            }
        }
        units
    }
}
