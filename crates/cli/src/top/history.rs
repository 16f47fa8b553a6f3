//! What the last samples were, as sparklines: the rate of each node, the occupancy of each link.
//!
//! Pure. It keeps [`SAMPLES`] per line and forgets nodes and links that are gone.

use std::collections::{BTreeMap, VecDeque};

use super::rates::Rates;

/// Samples kept, and most columns of a sparkline.
pub(crate) const SAMPLES: usize = 40;
/// From little to much.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The same for terminals that know ASCII only.
const ASCII: [char; 8] = ['.', ',', ':', '-', '=', '+', '*', '#'];

type Line = VecDeque<f64>;

/// The last samples of a chain.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    rates: BTreeMap<String, Line>,
    fills: BTreeMap<String, Line>,
}

impl History {
    /// Adds a sample. A paused view shows no new ones, so it adds none.
    pub(crate) fn add(&mut self, rates: &Rates) {
        let nodes = rates.nodes.iter();
        let nodes = nodes.map(|node| (node.name.as_str(), node.rx_pps.max(node.tx_pps)));
        push(&mut self.rates, nodes.collect());
        let links = rates.links.iter();
        let links = links.map(|link| (link.name.as_str(), link.fill()));
        push(&mut self.fills, links.collect());
    }

    /// Rates of a node, from its least to its highest ever shown here; the newest last.
    pub(crate) fn rate(&self, node: &str, is_ascii: bool) -> String {
        let Some(line) = self.rates.get(node) else {
            return String::new();
        };
        let most = line.iter().copied().fold(0.0, f64::max);
        spark(line, most, is_ascii)
    }

    /// Occupancy of a link, from empty to full; the newest last.
    pub(crate) fn fill(&self, link: &str, is_ascii: bool) -> String {
        let line = self.fills.get(link);
        line.map_or_else(String::new, |line| spark(line, 1.0, is_ascii))
    }
}

fn push(lines: &mut BTreeMap<String, Line>, samples: BTreeMap<&str, f64>) {
    lines.retain(|name, _| samples.contains_key(name.as_str()));
    for (name, sample) in samples {
        let line = lines.entry(name.to_owned()).or_default();
        if line.len() == SAMPLES {
            line.pop_front();
        }
        line.push_back(sample);
    }
}

/// One character a sample; nothing is never drawn as something, and the most is the highest.
fn spark(line: &Line, most: f64, is_ascii: bool) -> String {
    let glyphs = if is_ascii { ASCII } else { BLOCKS };
    let glyph = |sample: &f64| {
        if most <= 0.0 || *sample <= 0.0 {
            return ' ';
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of at most 1 of eight"
        )]
        let height = ((sample / most).clamp(0.0, 1.0) * 8.0).ceil() as usize;
        glyphs[height.clamp(1, 8) - 1]
    };
    line.iter().map(glyph).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::top::rates::rates;

    #[test]
    fn sparklines_go_from_nothing_to_the_most() {
        let line: Line = [0.0, 1.0, 50.0, 100.0, 1e-9].into();
        assert_eq!(spark(&line, 100.0, false), " ▁▄█▁");
        assert_eq!(spark(&line, 100.0, true), " .-#.");
        assert_eq!(spark(&line, 0.0, false), "     ");
        assert_eq!(spark(&[2.0].into(), 1.0, false), "█");
    }

    #[test]
    fn the_newest_samples_are_kept_and_what_is_gone_is_forgotten() {
        let mut history = History::default();
        let mut after = sample::later();
        for _ in 0..3 * SAMPLES {
            history.add(&rates(&sample::status(), &after));
        }
        assert_eq!(history.rate("police", false), "█".repeat(SAMPLES));
        assert_eq!(history.fill("swap -> out", false), "▆".repeat(SAMPLES));
        assert_eq!(history.rate("nobody", false), "");
        after.nodes.remove(2);
        history.add(&rates(&sample::status(), &after));
        assert_eq!(history.rate("police", false), "");
    }
}
