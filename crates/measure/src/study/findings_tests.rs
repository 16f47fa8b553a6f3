//! Words of studies against their tables, where uncorrected values would say something else.

use super::findings::{page, sentences};
use super::summary::{Effect, Spread, StudyResults};
use crate::compare::{Verdict, holm};
use crate::stats::Interval;

const BLOCKS: usize = 5;

/// Ports over a link, each with the p-value that it has alone.
fn effect(level: &str, ratio: f64, [low, high]: [f64; 2]) -> Effect {
    let interval = Interval {
        estimate: ratio,
        low,
        high,
        confidence: 0.95,
    };
    Effect {
        factor: "port".to_owned(),
        level: level.to_owned(),
        against: "link".to_owned(),
        within: None,
        and_within: Vec::new(),
        metric: "latency p99".to_owned(),
        ratio: Spread {
            estimate: ratio,
            interval: Some(interval),
        },
        pairs: BLOCKS,
        p_corrected: Some(holm::p_value(&interval, BLOCKS - 1)),
        verdict: Verdict::Inconclusive,
    }
}

/// A published study's mistake: p99 of one port is 2.03 (1.07 to 3.87) times that of another, which
/// alone is a difference, and among eight comparisons is none.
fn table() -> Vec<Effect> {
    let mut effects = vec![
        effect("tap", 2.03, [1.07, 3.87]),
        effect("raw", 0.5, [0.48, 0.52]),
        effect("loop", 1.01, [0.98, 1.04]),
    ];
    effects.extend((0..5).map(|at| effect(&format!("veth{at}"), 1.2, [0.6, 2.4])));
    Effect::judge_together(&mut effects);
    effects
}

#[test]
fn what_only_uncorrected_values_show_is_not_said() {
    let alone = holm::p_value(&table()[0].ratio.interval.unwrap(), BLOCKS - 1);
    let effects = table();
    let together = effects[0].p_corrected.unwrap();
    assert!(
        alone < holm::LEVEL && together > holm::LEVEL,
        "{alone} {together}"
    );
    let text = sentences(&effects, 5);
    assert!(
        text.starts_with("Of 8 comparisons, corrected for their number, 1 show a difference, 1"),
        "{text}"
    );
    assert!(text.contains("port raw over link: x 0.500") && text.contains(", lower"));
    assert!(!text.contains("tap") && !text.contains("higher"), "{text}");
}

/// Every comparison stands on the page once, under what the table says of it.
#[test]
fn the_page_of_findings_is_the_table() {
    let results = StudyResults {
        factors: Vec::new(),
        blocks: BLOCKS as u32,
        planned: 40,
        done: 39,
        cells: Vec::new(),
        effects: table(),
        suspicions: Vec::new(),
    };
    let standing = (
        "standing: PDV after X".to_owned(),
        "PARTIAL: few".to_owned(),
    );
    let text = page("ports", &results, &[&standing]);
    let before = text.split("\n## Differences").next().unwrap();
    assert!(before.contains("- PDV after X: PARTIAL: few\n"), "{text}");
    assert!(!page("ports", &results, &[]).contains("PARTIAL"));
    assert!(text.contains("39 of 40 trials have a result"), "{text}");
    for effect in &results.effects {
        assert_eq!(text.matches(&effect.sentence()).count(), 1, "{text}");
        let before = text.split(&effect.sentence()).next().unwrap();
        let heading = before.rsplit("\n## ").next().unwrap();
        let wanted = match effect.verdict {
            Verdict::Higher | Verdict::Lower => "Differences",
            Verdict::Same => "None of 5 % or more",
            Verdict::Inconclusive => "Not shown",
        };
        assert!(heading.starts_with(wanted), "{heading}");
    }
}

#[test]
fn the_surest_differences_come_first_and_the_rest_is_counted() {
    let mut effects = vec![
        effect("tap", 2.03, [1.9, 2.2]),
        effect("raw", 0.5, [0.499, 0.501]),
    ];
    Effect::judge_together(&mut effects);
    let text = sentences(&effects, 5);
    let places = ["raw over link", "tap over link"].map(|part| text.find(part));
    assert!(places[0].is_some() && places[0] < places[1], "{text}");
    assert!(sentences(&effects, 1).contains("The other 1 stand in the table"));
}
