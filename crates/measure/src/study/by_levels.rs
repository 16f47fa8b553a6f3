//! Comparisons within levels of several factors, as the tables that a study's file asks for.

use super::summary::{Effect, METRICS};

/// One level of a factor against its first, within the levels of several others.
#[derive(Debug)]
pub struct ByLevels<'a> {
    /// The factor.
    pub factor: &'a str,
    /// The level.
    pub level: &'a str,
    /// The level that it is compared with.
    pub against: &'a str,
    /// Factors whose levels the rows are.
    pub within: Vec<&'a str>,
    /// Values by which levels are compared: the columns.
    pub metrics: Vec<&'static str>,
    /// Levels of these factors, and what was found there of each value.
    pub rows: Vec<(Vec<&'a str>, Vec<Option<&'a Effect>>)>,
}

impl<'a> ByLevels<'a> {
    fn of(effect: &'a Effect) -> Self {
        Self {
            factor: &effect.factor,
            level: &effect.level,
            against: &effect.against,
            within: effect.places().map(|(name, _)| name.as_str()).collect(),
            metrics: Vec::new(),
            rows: Vec::new(),
        }
    }

    fn has(&self, effect: &Effect) -> bool {
        let within = effect.places().map(|(name, _)| name.as_str());
        self.factor == effect.factor
            && self.level == effect.level
            && self.within.iter().copied().eq(within)
    }

    fn fill(&mut self, effects: &[&'a Effect]) {
        let is_told = |name: &str| effects.iter().any(|effect| effect.metric == name);
        let metrics = METRICS.iter().map(|metric| metric.name);
        self.metrics = metrics.filter(|name| is_told(name)).collect();
        for effect in effects {
            let levels: Vec<_> = effect.places().map(|(_, level)| level.as_str()).collect();
            let row = self.rows.iter().position(|(known, _)| *known == levels);
            let row = row.unwrap_or_else(|| {
                self.rows.push((levels, vec![None; self.metrics.len()]));
                self.rows.len() - 1
            });
            let column = self.metrics.iter().position(|name| *name == effect.metric);
            if let Some(column) = column {
                self.rows[row].1[column] = Some(effect);
            }
        }
    }
}

/// Whether a comparison stands in one of these tables.
pub fn is_by_levels(effect: &Effect) -> bool {
    !effect.and_within.is_empty()
}

/// The tables of all comparisons within levels of several factors.
pub fn tables(effects: &[Effect]) -> Vec<ByLevels<'_>> {
    let mut found: Vec<(ByLevels<'_>, Vec<&Effect>)> = Vec::new();
    for effect in effects.iter().filter(|effect| is_by_levels(effect)) {
        match found.iter_mut().find(|(table, _)| table.has(effect)) {
            Some((_, known)) => known.push(effect),
            None => found.push((ByLevels::of(effect), vec![effect])),
        }
    }
    let tables = found.into_iter().map(|(mut table, effects)| {
        table.fill(&effects);
        table
    });
    tables.collect()
}
