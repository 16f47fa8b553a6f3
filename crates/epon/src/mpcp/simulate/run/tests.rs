//! The event loop and its stations one by one: what is counted, from which picosecond on.

use super::*;

const MS: u64 = SECOND_PS / 1000;

/// One ONU beside its OLT, from whose users nothing comes but what a test gives it.
fn alone() -> Scenario {
    let onu = OnuScenario {
        distance_m: 0,
        ..OnuScenario::default()
    };
    Scenario {
        onus: vec![onu],
        duration_ps: 20 * MS,
        warm_up_ps: 0,
        ..Scenario::default()
    }
}

fn station_of(scenario: &Scenario) -> Station {
    let mut random = Random::new(1);
    Station::new(0, &scenario.onus[0], scenario, &mut random)
}

/// A station with one frame to come at picosecond 100, which takes 84 octets.
fn waiting(scenario: &Scenario) -> Station {
    let mut station = station_of(scenario);
    station.coming = Some(Frame {
        at_ps: 100,
        len: 60,
    });
    station
}

#[test]
fn a_frame_is_there_and_counts_from_its_picosecond_on() {
    let scenario = alone();
    for (now_ps, from_ps, queued, offered) in [
        (99, 0, 0, 0),
        (100, 0, 1, 1),
        (100, 100, 1, 1),
        (100, 101, 1, 0),
    ] {
        let mut station = waiting(&scenario);
        station.arrive(now_ps, &scenario, from_ps);
        let report = &station.report;
        assert_eq!(
            (station.queue.len(), report.offered_frames),
            (queued, offered)
        );
        assert_eq!(station.offered_octets, 84 * offered);
    }
    for (queue_octets, queued) in [(84, 1), (83, 0)] {
        let scenario = Scenario {
            queue_octets,
            ..alone()
        };
        let mut station = waiting(&scenario);
        station.arrive(100, &scenario, 0);
        assert_eq!(station.queue.len(), queued);
        assert_eq!(station.report.dropped_frames, 1 - queued as u64);
    }
    for (from_ps, dropped) in [(100, 1), (101, 0)] {
        let mut station = waiting(&scenario);
        station.arrive(100, &scenario, 0);
        station.forget(from_ps);
        assert_eq!(
            (station.queue.len(), station.report.dropped_frames),
            (0, dropped)
        );
    }
}

#[test]
fn a_burst_takes_what_fits_and_a_frame_is_there_with_its_codeword() {
    let scenario = alone();
    // REPORT and frame lie in the first codeword, of 198.4 ns.
    for (octets, from_ps, counted) in [
        (167, 0, (0, 0)),
        (168, 0, (84, 1)),
        (168, 100, (84, 1)),
        (168, 101, (84, 0)),
        (168, 198_400, (84, 0)),
        (168, 198_401, (0, 0)),
    ] {
        let mut station = waiting(&scenario);
        station.onu = onu::tests::registered().0;
        station.arrive(100, &scenario, 0);
        let burst = Burst {
            purpose: Purpose::Frames,
            laser_on: 0,
            first_octet: 0,
            laser_off: 1_000,
            octets,
        };
        station.fill(&burst, 0, from_ps);
        let delivered = (station.delivered_octets, station.report.delivered_frames);
        assert_eq!(delivered, counted, "{octets} {from_ps}");
        assert_eq!(station.queue.len(), usize::from(octets < 168));
    }
    assert_eq!(
        (until_received(200), until_received(201)),
        (198_400, 396_800)
    );
    let mut far = alone();
    far.onus[0].distance_m = 10_000;
    assert_eq!(station_of(&far).fibre_ps, 48_970_000);
}

#[test]
fn the_olt_is_asked_once_for_a_time_and_not_while_it_sends() {
    let scenario = alone();
    let mut simulation = Simulation::new(&scenario).unwrap();
    simulation.now_ps = 100;
    simulation.at(50, Happening::OltRestarts);
    let first = |simulation: &mut Simulation<'_>| simulation.events.pop().unwrap().0.at_ps;
    let (start, next) = (first(&mut simulation), first(&mut simulation));
    assert_eq!(
        (start, next),
        (0, 0),
        "the first poll, and the ONU is switched on"
    );
    assert_eq!(first(&mut simulation), 100, "nothing happens in the past");
    for (planned_ps, at_ps, added) in [
        (500, 499, 1),
        (500, 500, 0),
        (500, 600, 0),
        (101, 600, 0),
        (100, 600, 1),
        (99, 600, 1),
    ] {
        (simulation.olt_busy_ps, simulation.olt_poll_ps) = (200, planned_ps);
        let before = simulation.events.len();
        simulation.poll_olt_at(at_ps);
        assert_eq!(
            simulation.events.len() - before,
            added,
            "{planned_ps} {at_ps}"
        );
    }
    simulation.poll_olt_at(150);
    assert_eq!(simulation.olt_poll_ps, 200, "when it has sent");
    for (busy_ps, windows) in [(101, 0), (100, 1)] {
        simulation.olt_busy_ps = busy_ps;
        simulation.poll_olt();
        assert_eq!(simulation.olt.counters().windows, windows, "{busy_ps}");
    }
}

/// Goes through a scenario; gives the times at which `count` grew, and its last value.
fn growths(scenario: &Scenario, count: impl Fn(&Simulation<'_>) -> u64) -> (Vec<(u64, u64)>, u64) {
    let mut simulation = Simulation::new(scenario).unwrap();
    let (mut grown, mut last) = (Vec::new(), 0);
    while let Some(Reverse(entry)) = simulation.events.pop() {
        if entry.at_ps > scenario.duration_ps {
            break;
        }
        simulation.now_ps = entry.at_ps;
        simulation.happen(entry.what);
        if count(&simulation) > last {
            grown.push((entry.at_ps, last));
            last = count(&simulation);
        }
    }
    (grown, last)
}

#[test]
fn grants_and_cycles_count_from_the_end_of_the_warm_up_on() {
    let granted = |simulation: &Simulation<'_>| simulation.olt.counters().granted_quanta;
    let (grants, last) = growths(&alone(), granted);
    let (warm_up_ps, before) = grants[grants.len() / 2];
    let later = Scenario {
        warm_up_ps,
        ..alone()
    };
    let counted = (20 * MS - warm_up_ps) / QUANTUM_PS;
    let report = run(&later).unwrap();
    assert_eq!(
        report.granted_share,
        (last - before) as f64 / counted as f64
    );

    let cycles = |simulation: &Simulation<'_>| simulation.cycles.1;
    let (slots, all) = growths(&alone(), cycles);
    let half = slots.len() / 2;
    let later = Scenario {
        warm_up_ps: slots[half].0,
        ..alone()
    };
    // The first slot that counts begins a cycle, and ends none.
    assert_eq!(growths(&later, cycles).1, all - half as u64 - 1);
    let mean = run(&later).unwrap().cycle_mean_us;
    assert!((120.0..200.0).contains(&mean), "{mean}");
}

#[test]
fn of_no_time_there_is_no_share() {
    let scenario = Scenario {
        onus: Vec::new(),
        warm_up_ps: 20 * MS,
        ..alone()
    };
    let report = run(&scenario).unwrap();
    assert_eq!((report.granted_share, report.cycle_mean_us), (0.0, 0.0));
}

#[test]
fn what_happens_at_the_end_happens_and_nothing_behind_it() {
    for (on_at_ps, is_on) in [(20 * MS, true), (20 * MS + 1, false)] {
        let mut scenario = alone();
        scenario.onus[0].on_at_ps = on_at_ps;
        scenario.onus[0].load_bps = 1e9;
        let offered = run(&scenario).unwrap().onus[0].offered_frames;
        assert_eq!(offered > 0, is_on, "{on_at_ps}");
    }
}

/// Goal: ONUs are waited for until 5 s are over. Method: two are switched on at that time and a
/// picosecond later; the warm-up begins at the last event before the first that is later.
#[test]
fn onus_are_waited_for_so_long_and_no_longer() {
    let mut scenario = Scenario {
        awaits_all: true,
        warm_up_ps: 5 * MS,
        ..alone()
    };
    scenario.onus = [5 * SECOND_PS, 5 * SECOND_PS + 1]
        .map(|on_at_ps| OnuScenario {
            on_at_ps,
            ..OnuScenario::default()
        })
        .to_vec();
    assert_eq!(run(&scenario).unwrap().warm_up_ms, 5_005.0);
}
