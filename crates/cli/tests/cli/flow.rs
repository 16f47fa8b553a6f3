//! `catena flow`: what the commands say of files that are no programs, and of one that is, by its
//! states, its costs and its packets. Those that documents print are run by `printed`.

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

/// Opens a port for who knocks, and tells so.
const KNOCK: &str = r#"
elements:
  - name: knock
    key: [ipv4.src]
    initial: closed
    changes: gate
    states: { closed: {}, open: { idle: 300s } }
    transitions:
      - { from: closed, if: l4.dst_port == 7000, next: open, do: [drop(knock)] }
      - { from: open, if: l4.dst_port == 7001, next: forget, do: [drop(knock)] }
      - { from: open, do: [output(out)] }
    otherwise: [drop(closed)]
"#;

/// What is said of a program in words and as a graph is what it does: in the interpreter and as
/// machine code, since `flow test` runs each file by both.
#[test]
fn a_program_is_explained_drawn_checked_and_tested() {
    let place = Place::new();
    place.write("knock.yaml", KNOCK);
    let said = |args: &[&str]| place.catena(args).assert_code(0).stdout.clone();
    let words = said(&["flow", "explain", "knock.yaml"]);
    for part in [
        "a flow is: ipv4.src (32 bits)",
        "states: closed, open",
        "told as: gate",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let graph = said(&["flow", "graph", "knock.yaml"]);
    assert!(graph.starts_with("<svg ") && graph.trim_end().ends_with("</svg>"));
    for part in [">closed</text>", ">open</text>", "l4.dst_port == 7001"] {
        assert!(graph.contains(part), "{part}: {graph}");
    }
    place
        .catena(&["flow", "check", "knock.yaml"])
        .assert_code(0);

    let test = |closing: &str| {
        let packets = "packets: { knock: udp 10.0.0.1:5 > 10.0.0.2:7000, \
                       leave: udp 10.0.0.1:5 > 10.0.0.2:7001, ssh: tcp 10.0.0.1:5 > 10.0.0.2:22 }";
        let key = "key: { ipv4.src: 10.0.0.1 }";
        let steps = [
            "- { at: 0s, packet: ssh, expect: \"!closed\", events: 0 }".to_owned(),
            format!(
                "- {{ at: 1s, packet: knock, events: [{{ event: gate, values: [closed, open], \
                 {key} }}] }}"
            ),
            "- { at: 2s, packet: ssh, expect: out, events: 0 }".to_owned(),
            format!(
                "- {{ at: 3s, packet: leave, events: [{{ event: gate, values: {closing} }}] }}"
            ),
        ];
        place.write(
            "knock.test.yaml",
            format!("{packets}\nsteps:\n  {}\n", steps.join("\n  ")),
        );
        place.catena(&["flow", "test", "knock.yaml", "knock.test.yaml", "--json"])
    };
    let right = test("[open]").assert_code(0).json();
    assert_eq!(right["files"][0]["steps"], 4, "{right}");
    let wrong = test("[closed]").assert_code(1).json();
    let failures = wrong["files"][0]["failures"].as_array().unwrap().clone();
    assert_eq!(failures.len(), 1, "{wrong}");
    for failure in &failures {
        assert_eq!(failure["path"], "steps[3].events[0].values", "{wrong}");
        assert_eq!(
            (&failure["expected"], &failure["found"]),
            (&"closed".into(), &"open".into())
        );
    }
}
