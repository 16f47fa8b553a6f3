//! A tree of a machine with idle states that can be switched off, for `--root tree`.

use super::harness::Place;

const IDLE: &str = "tree/sys/devices/system/cpu/cpu0/cpuidle";

/// Writes it: two idle states, and the one that only polls.
pub(crate) fn machine(place: &Place) {
    for (state, latency) in [("state0", "0"), ("state1", "2"), ("state2", "90")] {
        std::fs::create_dir_all(place.path(&format!("{IDLE}/{state}"))).unwrap();
        place.write(&format!("{IDLE}/{state}/latency"), latency);
        place.write(&format!("{IDLE}/{state}/disable"), "0\n");
    }
}

/// Which states are switched off, a digit each.
pub(crate) fn disabled(place: &Place) -> String {
    let files = ["state0", "state1", "state2"].map(|state| {
        let path = place.path(&format!("{IDLE}/{state}/disable"));
        std::fs::read_to_string(path).unwrap().trim().to_owned()
    });
    files.concat()
}
