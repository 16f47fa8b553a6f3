//! The README's recording can be made again: `cargo xtask record` types its session to the real
//! command and draws what is printed.

use std::path::Path;
use std::process::Command;

use super::harness::repository;

#[test]
fn the_recording_shows_a_kill_and_a_recovery() {
    let place = tempfile::tempdir().unwrap();
    let picture = place.path().join("kill.svg");
    let output = Command::new(env!("CARGO"))
        .args(["xtask", "record", "--catena"])
        .arg(Path::new(env!("CARGO_BIN_EXE_catena")))
        .arg("--out")
        .arg(&picture)
        .current_dir(repository())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let picture = std::fs::read_to_string(picture).unwrap();
    for shown in ["kill -9", "police runs again after", "buffers"] {
        assert!(picture.contains(shown), "{shown} in {picture}");
    }
    // What is in the README was made of the same session.
    let kept = repository().join("docs/pictures/kill-and-recover.svg");
    let kept = std::fs::read_to_string(kept).unwrap();
    for shown in ["kill -9", "police runs again after", "buffers"] {
        assert!(kept.contains(shown), "{shown} in the kept picture");
    }
}
