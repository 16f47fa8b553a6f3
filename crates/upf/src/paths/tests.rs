//! Paths in simulated time: who is asked when, and what becomes of whom. The scenario `paths` has
//! the messages.

use super::*;

const SECOND_NS: u64 = 1_000_000_000;
const TERMS: EchoTerms = EchoTerms {
    interval_ns: 60 * SECOND_NS,
    t3_ns: 3 * SECOND_NS,
    n3: 3,
};

fn end(last: u8) -> End {
    (0, IpAddr::from([10, 3, 0, last]))
}

/// What is due within a time, and when.
fn until(paths: &mut Paths, now_ns: &mut u64, end_ns: u64) -> Vec<(u64, End, Due)> {
    let mut all = Vec::new();
    while let Some(next) = paths.next_ns().filter(|next| *next <= end_ns) {
        *now_ns = next.max(*now_ns);
        let due = paths.check(*now_ns);
        all.extend(
            due.into_iter()
                .map(|(end, due)| (*now_ns / SECOND_NS, end, due)),
        );
    }
    *now_ns = end_ns;
    assert!(paths.check(end_ns).is_empty());
    all
}

#[test]
fn a_peer_is_asked_n3_times_every_t3_and_has_failed_then_and_once() {
    let (mut paths, mut now_ns) = (Paths::new(TERMS, 0), 0);
    paths.enter(&[end(1)]);
    let due = until(&mut paths, &mut now_ns, 200 * SECOND_NS);
    let asked = |at, number| (at, end(1), Due::Ask(number));
    let first = [
        asked(60, 1),
        asked(63, 2),
        asked(66, 3),
        (69, end(1), Due::Failed),
    ];
    let second = [asked(129, 4), asked(132, 5), asked(135, 6)];
    let third = [asked(198, 7)];
    assert_eq!(due, [&first[..], &second, &third].concat());
    assert!(paths.iter().all(|(_, _, is_down)| is_down));
    // Of an earlier request, of somebody else: neither is the answer.
    assert_eq!(paths.heard(end(1).1, 6), None);
    assert_eq!(paths.heard(end(2).1, 7), None);
    assert_eq!(paths.heard(end(1).1, 7), Some(end(1)), "it is there again");
    assert_eq!(paths.heard(end(1).1, 7), None, "and is told so once");
    let due = until(&mut paths, &mut now_ns, 260 * SECOND_NS);
    assert_eq!(due, [asked(260, 8)], "a whole interval behind the answer");
    assert_eq!(paths.heard(end(1).1, 8), None, "it had not failed");
}

#[test]
fn a_path_lives_as_long_as_a_session_uses_it_and_there_are_so_many() {
    let mut paths = Paths::new(TERMS, 0);
    paths.enter(&[end(1), end(2)]);
    paths.enter(&[end(1)]);
    paths.leave(&[end(1), end(2)]);
    paths.leave(&[end(9)]);
    let all: Vec<_> = paths
        .iter()
        .map(|(end, sessions, _)| (*end, sessions))
        .collect();
    assert_eq!(all, [(end(1), 1)]);
    paths.leave(&[end(1)]);
    assert_eq!(paths.iter().count(), 0);
    let many = (0..2000_u32).map(|number| (0, IpAddr::from(number.to_be_bytes())));
    paths.enter(&many.collect::<Vec<_>>());
    assert_eq!(paths.iter().count(), PATH_COUNT_MAX);
    let mut now_ns = 0;
    let due = until(&mut paths, &mut now_ns, 60 * SECOND_NS);
    assert_eq!(due.len(), PATH_COUNT_MAX);
    let mut silent = Paths::new(
        EchoTerms {
            interval_ns: 0,
            ..TERMS
        },
        0,
    );
    silent.enter(&[end(1)]);
    assert_eq!((silent.next_ns(), silent.iter().count()), (None, 0));
}
