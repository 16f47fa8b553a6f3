//! `catena flow`: what the commands say of files that are no programs. What they print of files
//! that are right is in `printed`.

use super::harness::Place;

/// Each command that reads a program, with what it needs beside it.
const COMMANDS: [(&str, &[&str]); 6] = [
    ("check", &[]),
    ("explain", &[]),
    ("graph", &[]),
    ("import", &[]),
    ("test", &["none.test.yaml"]),
    ("trace", &["none.pcap"]),
];

#[test]
fn what_is_no_program_is_refused_by_its_name() {
    let place = Place::new();
    std::fs::create_dir(place.path("folder")).unwrap();
    place.write("garbage", [0xff, 0x00, 0xfe, 0x80].repeat(100));
    place.write("huge", "#".repeat((1 << 20) + 1));
    for (command, more) in COMMANDS {
        // The last has no end, and is read up to the limit alone.
        for file in ["absent", "folder", "garbage", "huge", "/dev/zero"] {
            let mut args = vec!["flow", command, file];
            args.extend(more);
            let ended = place.catena(&args);
            let told = &ended.assert_code(2).stderr;
            assert!(told.contains(file), "{command} {file}: {told}");
            assert!(ended.stdout.is_empty(), "{command} {file}");
        }
    }
}

#[test]
fn a_file_of_packets_has_a_limit_too() {
    let place = Place::new();
    let policer = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../chains/flow-policer.yaml"
    );
    let ended = place.catena(&["flow", "test", policer, "/dev/zero"]);
    let told = &ended.assert_code(2).stderr;
    assert!(told.contains("/dev/zero"), "{told}");
}
