//! What a report says of steady state where values were measured one after the other.

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
    if (change.low..=change.high).contains(&1.0) {
        return (
            format!("yes: no drift could be shown; {numbers}"),
            String::new(),
        );
    }
    (
        format!("no: {numbers}"),
        format!(" NOT STEADY: {numbers}; lengthen --warmup, and look at the machine."),
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
}
