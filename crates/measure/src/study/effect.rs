//! What a level of a factor does: a ratio, and whether it is a difference among all others.

use serde::{Deserialize, Serialize};

use super::cell_result::Spread;
use crate::compare::{Verdict, holm};

/// Ratios within this share of 1 do not matter.
pub const MARGIN: f64 = 0.05;

/// What a level does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The factor.
    pub factor: String,
    /// The level.
    pub level: String,
    /// The level that it is compared with.
    pub against: String,
    /// Where: all combinations, or those with a level of another factor.
    pub within: Option<(String, String)>,
    /// And with these levels of further factors, where the study's file asks for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub and_within: Vec<(String, String)>,
    /// Name of a [`METRICS`](super::summary::METRICS) entry.
    pub metric: String,
    /// Value with the level over value without it.
    pub ratio: Spread,
    /// Pairs of trials.
    pub pairs: usize,
    /// The p-value of no difference, corrected for the number of comparisons; none without an
    /// interval, and in older documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_corrected: Option<f64>,
    /// What it means.
    pub verdict: Verdict,
}

impl Effect {
    /// The levels of other factors within which it is.
    pub fn places(&self) -> impl Iterator<Item = &(String, String)> {
        self.within.iter().chain(&self.and_within)
    }

    /// The ratio with its interval.
    pub fn ratio_text(&self) -> String {
        let interval = self.ratio.interval.map_or_else(
            || "one block, no interval".to_owned(),
            |interval| format!("{:.3} to {:.3}", interval.low, interval.high),
        );
        format!("{:.3} ({interval})", self.ratio.estimate)
    }

    /// The verdict in words.
    pub const fn verdict_text(&self) -> &'static str {
        match self.verdict {
            Verdict::Higher => "higher",
            Verdict::Lower => "lower",
            Verdict::Same => "the same within 5 %",
            Verdict::Inconclusive => "no difference shown",
        }
    }

    /// What it says, as a sentence; the verdict is that of the corrected p-value.
    pub fn sentence(&self) -> String {
        let places = self
            .places()
            .map(|(factor, level)| format!("{factor} {level}"));
        let places = places.collect::<Vec<_>>().join(" and ");
        let place = match places.as_str() {
            "" => String::new(),
            places => format!(" with {places}"),
        };
        let ratio = self.ratio_text();
        let verdict = self.verdict_text();
        format!(
            "{} of {} {} over {}{place}: x {ratio}, {verdict}",
            self.metric, self.factor, self.level, self.against
        )
    }

    /// Corrects the p-values of all comparisons of a report for their number, and says what each
    /// means then.
    pub(super) fn judge_together(effects: &mut [Self]) {
        let raw = effects.iter().filter_map(|effect| effect.p_corrected);
        let mut corrected = holm::corrected(&raw.collect::<Vec<_>>()).into_iter();
        for effect in effects {
            effect.p_corrected = effect.p_corrected.and_then(|_| corrected.next());
            effect.judge();
        }
    }

    /// What `ratio` means, given its corrected p-value.
    fn judge(&mut self) {
        let Some((interval, p)) = self.ratio.interval.zip(self.p_corrected) else {
            self.verdict = Verdict::Inconclusive;
            return;
        };
        self.verdict = if interval.low > 1.0 - MARGIN && interval.high < 1.0 + MARGIN {
            Verdict::Same
        } else if p > holm::LEVEL {
            Verdict::Inconclusive
        } else if interval.estimate > 1.0 {
            Verdict::Higher
        } else {
            Verdict::Lower
        };
    }
}
