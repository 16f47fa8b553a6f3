//! Little's law for a ring: what waits in it on average, known in two ways that share no number.
//!
//! - *Counted*: both ends have said how far they were at the same moments, which were fixed
//!   beforehand (`catena_engine::probe::moments`); the difference is what waited. Whether a worker
//!   was running then does not matter, nor whether others share its core.
//! - *Implied*: rate, by the receiver's cursor, times the residency of the packets that were
//!   followed, which are a sample at random.
//!
//! The window's edges: it begins when the first packet that was followed leaves the ring and ends
//! when the last one enters it. What is in the ring between came in behind the first and in front
//! of the last, so each of its packets could have been followed; of each counts what lies in the
//! window.

use catena_engine::probe::moments::{CursorSpan, first_from, moment_at};

use crate::blame::LittleCheck;
use crate::stats::deviation;
use crate::stats::student::t_quantile;

/// Parts of the window that are compared by themselves, for the interval.
const PARTS: u64 = 20;
/// Least moments: in each part some.
const MOMENTS_MIN: u64 = 5 * PARTS;
/// Most packets that can be in a ring: an end that says more makes it up.
const WAITING_MAX: u64 = 1 << 32;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Little {
    /// Packets per second, in the window.
    pub rate_pps: f64,
    /// Mean residency, ns.
    pub residency_ns: f64,
    /// Half of the 95 % interval of the difference of both counts, as a residency.
    pub error_ns: f64,
    /// Both counts.
    pub check: LittleCheck,
}

/// What waited at each of some moments in a row.
struct Waiting {
    first: u64,
    end: u64,
    packets: f64,
    taken: u64,
}

/// Compares what `spans`, of both ends of one link, say with the packets that were followed over
/// it: each from the instant that it was there to that at which it was taken.
///
/// # Errors
///
/// Why they cannot be compared.
pub fn little(spans: &[CursorSpan], followed: &[(u64, u64)]) -> Result<Little, String> {
    if followed.is_empty() {
        return Err("no packet was followed over it".to_owned());
    }
    let from = followed.iter().map(|(_, left)| *left).min().unwrap_or(0);
    let until = followed.iter().map(|(came, _)| *came).max().unwrap_or(0);
    let all = joined(spans);
    // The window, from a moment that is known to another.
    let begin = |known: &Waiting| known.first.max(first_from(from));
    let end = |known: &Waiting| known.end.min(first_from(until));
    let within: Vec<_> = all
        .iter()
        .filter(|known| begin(known) < end(known))
        .collect();
    let (Some(first), Some(last)) = (within.first(), within.last()) else {
        return Err("too few packets were followed over it".to_owned());
    };
    let (first_moment, last_moment) = (begin(first), end(last) - 1);
    let moments: u64 = within.iter().map(|known| end(known) - begin(known)).sum();
    if moments < MOMENTS_MIN {
        return Err(format!("{moments} moments at which both ends are known"));
    }
    let (from, until) = (moment_at(first_moment), moment_at(last_moment));
    let taken = last.taken.wrapping_sub(first.taken) as f64;
    let seconds = (until - from) as f64 * 1e-9;
    let ended = followed
        .iter()
        .filter(|(_, left)| (from..until).contains(left));
    let ended = ended.count() as f64;
    if ended == 0.0 {
        return Err("too few packets were followed over it".to_owned());
    }
    let waited = |from: u64, until: u64| {
        let overlap =
            |(came, left): &(u64, u64)| (*left).min(until).saturating_sub((*came).max(from)) as f64;
        followed.iter().map(overlap).sum::<f64>()
    };
    let counted = |first: u64, last: u64| {
        let (mut packets, mut count) = (0.0, 0.0);
        for known in &within {
            let (begin, end) = (known.first.max(first), known.end.min(last));
            let times = end.saturating_sub(begin) as f64;
            packets += known.packets * times;
            count += times;
        }
        (count > 0.0).then(|| packets / count)
    };
    let rate_pps = taken / seconds;
    let residency_ns = waited(from, until) / ended;
    let mean_waiting = counted(first_moment, last_moment + 1).unwrap_or(0.0);
    let check = LittleCheck::of(mean_waiting, rate_pps, residency_ns);
    // Packets that one followed stands for.
    let weight = taken / ended;
    let part = (last_moment + 1 - first_moment).div_ceil(PARTS);
    let apart = (0..PARTS).filter_map(|number| {
        let begin = first_moment + number * part;
        let counted = counted(begin, (begin + part).min(last_moment + 1))?;
        let (from, until) = (moment_at(begin), moment_at(begin + part));
        Some(counted - weight * waited(from, until) / (until - from) as f64)
    });
    let apart: Vec<_> = apart.collect();
    let parts = apart.len().max(2);
    let error = deviation(&apart).unwrap_or(0.0) / (parts as f64).sqrt();
    Ok(Little {
        rate_pps,
        residency_ns,
        error_ns: t_quantile(0.975, parts - 1) * error / rate_pps.max(1e-9) * 1e9,
        check,
    })
}

/// How much waited at the moments at which both ends of the link are known.
fn joined(spans: &[CursorSpan]) -> Vec<Waiting> {
    let of = |is_sender: bool| {
        let own = spans.iter().filter(|span| span.is_sender == is_sender);
        let mut own: Vec<_> = own.collect();
        own.sort_by_key(|span| span.first);
        own
    };
    let end = |span: &CursorSpan| span.first.saturating_add(span.count.into());
    let (sent, taken) = (of(true), of(false));
    let (mut sent, mut taken) = (sent.iter().peekable(), taken.iter().peekable());
    let mut all: Vec<Waiting> = Vec::new();
    while let (Some(came), Some(left)) = (sent.peek(), taken.peek()) {
        let known = Waiting {
            // Not twice the same moment, whatever was said.
            first: came
                .first
                .max(left.first)
                .max(all.last().map_or(0, |last| last.end)),
            end: end(came).min(end(left)),
            packets: waiting(came.cursor, left.cursor),
            taken: left.cursor,
        };
        if end(came) <= end(left) {
            sent.next();
        } else {
            taken.next();
        }
        if known.first < known.end {
            all.push(known);
        }
    }
    all
}

/// A sender reads the clock when it has sent: if its receiver was faster, nothing waited.
fn waiting(sent: u64, taken: u64) -> f64 {
    match sent.wrapping_sub(taken) {
        waiting @ 0..=WAITING_MAX => waiting as f64,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::Random;
    use catena_engine::probe::moments::CursorLog;

    /// Two workers that share one core in slices of `slice_ns`: one sends a packet at each
    /// multiple of `apart_ns` in its slices, at their begin those that became due while it could
    /// not; the other takes all there is at the begin of each of its slices and every
    /// `look_ns` in them. Gives what both ends say, the packets followed (one in `gap`), and what
    /// waits on average, in packets, which is known from all of them.
    fn shared_core(
        (slice_ns, apart_ns, look_ns): (u64, u64, u64),
        gap: u64,
        seed: u64,
    ) -> (Vec<CursorSpan>, Vec<(u64, u64)>, f64) {
        let (begin, slices) = (1_000_000_000, 1000);
        let mut random = Random::new(seed);
        let (mut sent, mut taken) = (CursorLog::default(), CursorLog::default());
        let (mut spans, mut followed) = (Vec::new(), Vec::new());
        let mut ring: std::collections::VecDeque<u64> = std::collections::VecDeque::new();
        let (mut due, mut out, mut back, mut waited) = (begin, 0_u64, 0_u64, 0_u64);
        for slice in 0..slices {
            let mut now = begin + slice * slice_ns;
            let end = now + slice_ns;
            let is_sender = slice % 2 == 0;
            while now < end {
                let (log, cursor, step) = if is_sender {
                    while due <= now {
                        ring.push_back(now);
                        out += 1;
                        due += apart_ns;
                    }
                    (&mut sent, out, apart_ns)
                } else {
                    for came in ring.drain(..) {
                        waited += now - came;
                        back += 1;
                        if random.bits().is_multiple_of(gap) {
                            followed.push((came, now));
                        }
                    }
                    (&mut taken, back, look_ns)
                };
                let span = log.note(1, now, cursor);
                spans.extend(span.map(|span| CursorSpan {
                    link: 1,
                    is_sender,
                    ..span
                }));
                now += step;
            }
        }
        let truth = waited as f64 / (slices * slice_ns) as f64;
        (spans, followed, truth)
    }

    /// Goal: where workers share a core, both counts are the truth. Method: slices of a scheduler
    /// and loads as on a machine with too few cores, a receiver that looks seldom or often, every
    /// packet followed or one in 64.
    #[test]
    fn it_holds_where_workers_share_a_core() {
        for (slice_ns, look_ns) in [
            (4_000_000, 10_000),
            (3_000_000, 1_000_000),
            (700_000, 5_000),
        ] {
            for (gap, within) in [(1, 0.02), (64, 0.05)] {
                for seed in 0..5 {
                    let times = (slice_ns, 10_000, look_ns);
                    let (spans, followed, truth) = shared_core(times, gap, seed);
                    let found = little(&spans, &followed).unwrap();
                    let counted = found.check.counted / truth - 1.0;
                    let implied = found.check.implied / truth - 1.0;
                    let what = format!("{times:?}, 1 in {gap}: {truth}, {found:?}");
                    assert!(counted.abs() < 0.02, "{what}");
                    assert!(
                        implied.abs() < within + found.error_ns / found.residency_ns,
                        "{what}"
                    );
                    assert!(found.error_ns < 0.1 * found.residency_ns, "{what}");
                }
            }
        }
    }

    /// Goal: it does not hold where packets that wait long are never followed.
    #[test]
    fn a_sample_that_stands_for_no_others_is_found() {
        let (spans, mut followed, _) = shared_core((4_000_000, 10_000, 10_000), 4, 1);
        followed.retain(|(came, left)| left - came < 2_500_000);
        let found = little(&spans, &followed).unwrap();
        assert!(!found.check.holds(), "{found:?}");
        assert!(
            found.check.error > found.error_ns / found.residency_ns,
            "{found:?}"
        );
    }

    /// Goal: what an end makes up breaks nothing, and too little says nothing.
    #[test]
    fn nonsense_is_survived() {
        let span = |first, count, cursor, is_sender| CursorSpan {
            link: 1,
            is_sender,
            first,
            count,
            cursor,
        };
        let wild = [
            span(u64::MAX >> 8, u32::MAX, u64::MAX, true),
            span(0, u32::MAX, 0, true),
            span(3, u32::MAX, u64::MAX, false),
            span(3, 1, 0, false),
        ];
        let _ = little(&wild, &[(5, 1), (1 << 60, u64::MAX), (u64::MAX, 0)]);
        assert!(little(&wild, &[]).is_err());
        assert!(little(&[], &[(5, 9), (1 << 40, 1 << 41)]).is_err());
    }
}
