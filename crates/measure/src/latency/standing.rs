//! How far latencies may call themselves after the documents that define them: those ask for longer
//! and for more than a quick look gives, and a result that does not keep to them says so.

use std::time::Duration;

/// Trials that RFC 2544 26.2 and RFC 8219 7.2 and 7.3 ask for.
const TRIALS: usize = 20;
/// Length of a trial of latency, after RFC 2544 26.2 and RFC 8219 7.2.
const LATENCY: Duration = Duration::from_secs(120);
/// Length of a trial of packet delay variation, after RFC 8219 7.3.1.
const PDV: Duration = Duration::from_secs(60);
/// Packets of a trial whose latency RFC 8219 7.2 asks for.
const TAGGED: usize = 500;

/// The standing of latencies of so many trials of a length; `tagged` is the least number of packets
/// with a latency in a trial, `stride` of which one is a sample.
pub fn rows(trials: usize, length: Duration, tagged: usize, stride: u64) -> Vec<(String, String)> {
    let of = |needs: Duration, is_of_all: bool, tagged_min: usize| {
        let mut reasons = vec!["no external tester".to_owned()];
        if trials < TRIALS {
            reasons.push(format!("{trials} trials, not {TRIALS}"));
        }
        if length < needs {
            reasons.push(format!("trials of {length:?}, not of {needs:?}"));
        }
        if tagged < tagged_min {
            reasons.push(format!("{tagged} packets of a trial, not {tagged_min}"));
        }
        if is_of_all && stride > 1 {
            reasons.push(format!("one packet in {stride} is a sample, not all"));
        }
        format!("PARTIAL: {}", reasons.join("; "))
    };
    let rows = [
        ("latency after RFC 2544 26.2", of(LATENCY, false, 1)),
        ("latency after RFC 8219 7.2", of(LATENCY, false, TAGGED)),
        ("PDV after RFC 8219 7.3.1", of(PDV, true, 1)),
    ];
    rows.map(|(name, text)| (format!("standing: {name}"), text))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shortfall_is_named_and_a_loopback_is_never_complete() {
        let short = rows(5, Duration::from_secs(2), 400, 4);
        assert_eq!(
            short[1].1,
            "PARTIAL: no external tester; 5 trials, not 20; trials of 2s, not of 120s; 400 \
             packets of a trial, not 500"
        );
        assert_eq!(
            short[2].1,
            "PARTIAL: no external tester; 5 trials, not 20; trials of 2s, not of 60s; one packet \
             in 4 is a sample, not all"
        );
        let long = rows(20, Duration::from_secs(60), 1000, 1);
        assert!(long[0].1.ends_with("trials of 60s, not of 120s"));
        assert_eq!(long[0].1, long[1].1);
        assert_eq!(long[2].1, "PARTIAL: no external tester");
    }
}
