//! `catena pon simulate` at the ends of what it takes, and what it says of itself.

use super::harness::{Ended, Place};

fn simulate(place: &Place, args: &[&str]) -> Ended {
    let common = ["pon", "simulate", "--onus", "4", "--seconds", "0.05"];
    place.catena(&[&common[..], args].concat())
}

#[test]
fn bursts_need_a_pause_between_them() {
    let place = Place::new();
    for (option, low, high) in [
        ("--guard", "31", "100001"),
        ("--sync", "15", "100001"),
        ("--laser", "-1", "4081"),
        ("--warm-up", "-1", "10001"),
    ] {
        for value in [low, high] {
            let ended = simulate(&place, &[&format!("{option}={value}")]);
            ended.assert_code(2);
            assert!(ended.stderr.contains(option), "{ended:#?}");
        }
    }
    let told = simulate(&place, &["--guard", "32", "--load", "0.5", "--json"]);
    let told = told.assert_code(0).json()["loads"][0].clone();
    assert_eq!(told["frame_bursts_hit"], 0);
    assert_eq!(told["bursts_outside_slot"], 0);
}

#[test]
fn without_frames_there_is_no_delay() {
    let place = Place::new();
    let ended = simulate(&place, &["--load", "0"]);
    let text = &ended.assert_code(0).stdout;
    assert!(
        text.contains("delay mean - us, p50 - us, p99 - us, max - us over 0 frames"),
        "{text}"
    );
    let row = text.lines().nth(1).unwrap().split_whitespace();
    assert_eq!(
        row.skip(6).collect::<Vec<_>>(),
        ["-", "-", "-", "0"],
        "{text}"
    );
    let told = simulate(&place, &["--load", "0", "--json"]).json()["loads"][0].clone();
    assert!(told["delay"]["mean_us"].is_null() && told["delay"]["max_us"].is_null());
    let sweep = simulate(&place, &["--sweep", "0,0.3", "--plot", "x.svg"]);
    let rows: Vec<&str> = sweep.assert_code(0).stdout.lines().collect();
    assert!(rows[1].contains(" - "), "{rows:?}");
    assert!(!rows[2].contains(" - "), "{rows:?}");
    let plot = std::fs::read_to_string(place.path("x.svg")).unwrap();
    assert!(!plot.contains("NaN"), "{plot}");
}

#[test]
fn the_warm_up_is_stated() {
    let place = Place::new();
    let told = simulate(&place, &["--warm-up", "30", "--json"]);
    let told = told.assert_code(0).json()["loads"][0].clone();
    let last = told["onus"].as_array().unwrap().iter();
    let last = last.map(|onu| onu["registered_ms"].as_f64().unwrap());
    let last = last.fold(0.0, f64::max);
    let warm_up_ms = told["warm_up_ms"].as_f64().unwrap();
    assert!(
        (warm_up_ms - last - 30.0).abs() < 0.1,
        "{warm_up_ms} {last}"
    );
    let text = simulate(&place, &["--warm-up", "30"]).stdout;
    let wanted = format!(
        "counted: 50.0 ms behind a warm-up of {warm_up_ms:.1} ms, 30 ms of it with all ONUs registered"
    );
    assert!(text.contains(&wanted), "{text}");
}

#[test]
fn sync_and_laser_times_take_their_part_of_the_line() {
    let place = Place::new();
    let granted = |args: &[&str]| {
        let args = [&["--load", "0.3", "--json"], args].concat();
        let told = simulate(&place, &args);
        let told = told.assert_code(0).json()["loads"][0].clone();
        assert_eq!(told["bursts_outside_slot"], 0);
        told["granted_share"].as_f64().unwrap()
    };
    let base = granted(&[]);
    assert!(granted(&["--sync", "8000"]) > base + 0.05);
    assert!(granted(&["--laser", "4080"]) > base + 0.05);
}

/// Goal: near saturation no backlog of discovery is counted. Method: an independent model of the
/// same PON and load gives a mean of 1,110 us; with that backlog it was 4,200.
#[test]
fn near_saturation_delay_is_that_of_an_independent_model() {
    let place = Place::new();
    let load = ["--traffic", "poisson", "--load", "0.94"];
    let whole = [
        "pon",
        "simulate",
        "--onus",
        "16",
        "--seconds",
        "0.2",
        "--json",
    ];
    let told = place.catena(&[&whole[..], &load].concat());
    let told = told.assert_code(0).json()["loads"][0].clone();
    let number = |key: &str| told[key].as_f64().unwrap();
    let mean = told["delay"]["mean_us"].as_f64().unwrap();
    assert!((1_000.0..1_220.0).contains(&mean), "{mean} us");
    let (carried, offered) = (number("utilisation"), number("offered_load"));
    assert!((carried - offered).abs() < 0.003, "{carried} of {offered}");
}
