//! What a report says of steady state where values were measured one after the other.

use catena_measure::search::steady::Change;
use catena_measure::stats::Interval;

/// In its row and in the summary: whether the second half of what was measured is what the first
/// was. `change` is their ratio, of `what`.
pub(crate) fn words(what: &str, change: Option<&Interval>) -> (String, String) {
    let Some(change) = change else {
        return (
            "not known: too few values for two halves".to_owned(),
            String::new(),
        );
    };
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let numbers = format!(
        "{what} of the second half is {:+.2} % from that of the first ({:.0} % interval {:+.2} to \
         {:+.2} %)",
        percent(change.estimate),
        change.confidence * 100.0,
        percent(change.low),
        percent(change.high)
    );
    judged(!(change.low..=change.high).contains(&1.0), &numbers)
}

/// The same of a search, by what trials of one load and length lost.
pub(crate) fn of_search(change: Option<&Change>) -> (String, String) {
    let Some(change) = change else {
        return (
            "not known: too few trials of one load and length".to_owned(),
            String::new(),
        );
    };
    let numbers = format!(
        "of {} trials of {} loads and lengths, the first halves lost {:.3} %, the second {:.3} %; \
         by chance alone they would differ so with p = {:.4}",
        change.trials,
        change.sets,
        change.first * 100.0,
        change.second * 100.0,
        change.p
    );
    judged(change.is_shown(), &numbers)
}

fn judged(is_changed: bool, numbers: &str) -> (String, String) {
    if is_changed {
        return (
            format!("no: {numbers}"),
            format!(" NOT STEADY: {numbers}; lengthen --warmup, and look at the machine."),
        );
    }
    (
        format!("yes: no drift could be shown; {numbers}"),
        String::new(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_where_one_was_shown() {
        let change = |low, high| Interval {
            estimate: 1.01,
            low,
            high,
            confidence: 0.99,
        };
        let (row, summary) = words("the ratio", Some(&change(0.99, 1.03)));
        assert!(row.starts_with("yes") && summary.is_empty(), "{row}");
        let (row, summary) = words("the ratio", Some(&change(1.001, 1.02)));
        let numbers = "the ratio of the second half is +1.00 % from that of the first (99 % \
                       interval +0.10 to +2.00 %)";
        assert_eq!(row, format!("no: {numbers}"));
        assert!(
            summary.starts_with(&format!(" NOT STEADY: {numbers}")),
            "{summary}"
        );
        assert!(words("the ratio", None).0.starts_with("not known"));
    }

    #[test]
    fn a_search_tells_what_its_halves_lost_and_by_what_chance() {
        let change = |p| Change {
            sets: 3,
            trials: 60,
            first: 0.0,
            second: 0.002,
            p,
        };
        let (row, summary) = of_search(Some(&change(0.4)));
        assert!(row.starts_with("yes") && summary.is_empty(), "{row}");
        let (row, summary) = of_search(Some(&change(0.0005)));
        let numbers = "of 60 trials of 3 loads and lengths, the first halves lost 0.000 %, the \
                       second 0.200 %; by chance alone they would differ so with p = 0.0005";
        assert_eq!(row, format!("no: {numbers}"));
        assert!(
            summary.starts_with(&format!(" NOT STEADY: {numbers}")),
            "{summary}"
        );
        assert!(of_search(None).0.starts_with("not known"));
    }
}
