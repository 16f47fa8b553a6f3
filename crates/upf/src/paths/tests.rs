//! Paths in simulated time: who is asked when, and who is told of whom. The scenario `paths` has
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

/// Who is asked within a time, and when; and who is down at its end.
fn until(paths: &mut Paths, now_ns: &mut u64, end_ns: u64) -> Vec<(u64, End, u16)> {
    let mut all = Vec::new();
    while let Some(next) = paths.next_ns().filter(|next| *next <= end_ns) {
        *now_ns = next.max(*now_ns);
        let due = paths.check(*now_ns);
        all.extend(
            due.into_iter()
                .map(|(end, number)| (*now_ns / SECOND_NS, end, number)),
        );
    }
    *now_ns = end_ns;
    assert!(paths.check(end_ns).is_empty());
    all
}

#[test]
fn a_peer_is_asked_n3_times_every_t3_and_has_failed_then() {
    let (mut paths, mut now_ns) = (Paths::new(TERMS, 0), 0);
    paths.enter(&[end(1)]);
    let asked = |at, number| (at, end(1), number);
    // Repetitions have the number of what they repeat.
    let due = until(&mut paths, &mut now_ns, 68 * SECOND_NS);
    assert_eq!(due, [asked(60, 1), asked(63, 1), asked(66, 1)]);
    assert_eq!(paths.untold(true, 9), []);
    assert_eq!(until(&mut paths, &mut now_ns, 128 * SECOND_NS), []);
    assert_eq!(paths.untold(true, 9), [end(1)], "until it is told");
    paths.told(&[end(1)], true);
    assert_eq!(paths.untold(true, 9), []);
    let due = until(&mut paths, &mut now_ns, 200 * SECOND_NS);
    let second = [asked(129, 2), asked(132, 2), asked(135, 2), asked(198, 3)];
    assert_eq!(due, second);
    // Of an earlier request, of somebody else, by another interface: none is the answer.
    paths.heard(end(1), 2);
    paths.heard(end(2), 3);
    paths.heard((1, end(1).1), 3);
    assert_eq!(paths.untold(false, 9), []);
    paths.heard(end(1), 3);
    assert_eq!(paths.untold(false, 9), [end(1)], "it is there again");
    paths.told(&[end(1)], false);
    assert_eq!(paths.untold(false, 9), []);
    let due = until(&mut paths, &mut now_ns, 260 * SECOND_NS);
    assert_eq!(due, [asked(260, 4)], "a whole interval behind the answer");
}

#[test]
fn a_path_lives_as_long_as_a_session_uses_it_or_smfs_believe_it_down() {
    let mut paths = Paths::new(TERMS, 0);
    paths.enter(&[end(1), end(2)]);
    paths.enter(&[end(1)]);
    paths.leave(&[end(1), end(2)]);
    paths.leave(&[end(9)]);
    let all = |paths: &Paths| {
        let all = paths.iter().map(|(end, sessions, _)| (*end, sessions));
        all.collect::<Vec<_>>()
    };
    assert_eq!(all(&paths), [(end(1), 1)]);
    let mut now_ns = 0;
    until(&mut paths, &mut now_ns, 69 * SECOND_NS);
    paths.told(&[end(1)], true);
    paths.leave(&[end(1)]);
    assert_eq!(all(&paths), [(end(1), 0)]);
    // Another UPF in its place knows what SMFs believe.
    let mut next = Paths::new(TERMS, now_ns);
    next.believe_down(paths.believed_down().into_iter());
    assert_eq!(
        until(&mut next, &mut now_ns, 129 * SECOND_NS),
        [(129, end(1), 1)]
    );
    next.heard(end(1), 1);
    assert_eq!(next.untold(false, 9), [end(1)]);
    next.told(&[end(1)], false);
    assert_eq!(all(&next), []);
}

/// Those beyond are counted too: so the numbers of sessions do not drift.
#[test]
fn so_many_are_asked_and_who_never_is_costs_nothing() {
    let mut paths = Paths::new(TERMS, 0);
    let many = (0..2000_u32).map(|number| (0, IpAddr::from(number.to_be_bytes())));
    let many: Vec<End> = many.collect();
    paths.enter(&many);
    let mut now_ns = 0;
    let due = until(&mut paths, &mut now_ns, 60 * SECOND_NS);
    assert_eq!(due.len(), PATH_COUNT_MAX);
    paths.leave(&many);
    assert_eq!(paths.iter().count(), 0);
    let never = EchoTerms {
        interval_ns: 0,
        ..TERMS
    };
    let mut silent = Paths::new(never, 0);
    silent.enter(&[end(1)]);
    silent.believe_down([end(1)].into_iter());
    assert_eq!((silent.next_ns(), silent.iter().count()), (None, 0));
    assert_eq!(silent.check(u64::MAX - 1), []);
    assert_eq!(
        silent.ends().collect::<Vec<_>>(),
        [end(1)],
        "known all the same"
    );
    assert_eq!(TERMS.of_shards(4).interval_ns, 240 * SECOND_NS);
}
