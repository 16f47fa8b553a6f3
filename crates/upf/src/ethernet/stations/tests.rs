//! What is learned, whose it is then, and for how long.

use super::*;

const MINUTE_NS: u64 = 60_000_000_000;

fn stations(sessions: u64) -> Stations {
    let mut stations = Stations::new([1, 2], 0).unwrap();
    (1..=sessions).for_each(|seid| stations.enter(seid, u32::try_from(seid).unwrap() + 100));
    stations
}

#[test]
fn an_address_is_one_sessions_until_it_was_idle_for_long_or_the_session_ends() {
    let mut all = stations(2);
    assert_eq!((all.learn(1, 7, 0), all.find(7)), (Ok(()), Some(101)));
    assert_eq!(all.learn(2, 7, 4 * MINUTE_NS), Err(Why::Spoofed));
    // Each frame of its own session keeps it.
    assert_eq!(all.learn(1, 7, 4 * MINUTE_NS), Ok(()));
    assert_eq!(all.learn(2, 7, 8 * MINUTE_NS), Err(Why::Spoofed));
    assert_eq!(all.learn(2, 7, 10 * MINUTE_NS), Ok(()));
    assert_eq!(all.find(7), Some(102));
    all.leave(2);
    assert_eq!(
        (all.find(7), all.learn(1, 7, 10 * MINUTE_NS)),
        (None, Ok(()))
    );
    assert_eq!(all.learn(1, GROUP | 8, 0), Err(Why::Spoofed));
}

#[test]
fn a_session_has_so_many_addresses_and_a_upf_so_many_sessions() {
    let mut all = stations(SESSIONS_MAX as u64);
    assert!(!all.has_room());
    for seid in 1..=SESSIONS_MAX as u64 {
        for station in 0..STATIONS_MAX as u64 {
            assert_eq!(all.learn(seid, seid << 8 | station, 0), Ok(()));
        }
    }
    assert_eq!(all.learn(1, 0x99_0000, 0), Err(Why::TooManyStations));
    // Idle ones give way, some at once.
    let mut later = (0..SESSIONS_MAX).map(|_| all.learn(1, 0x99_0000, 600 * MINUTE_NS));
    assert!(later.any(|learned| learned.is_ok()));
    all.leave(5);
    assert!(all.has_room());
}
