//! What `catena port list` is made of, against the running kernel: an interface with a program of
//! others is told as such, and can be used once that has gone.

mod netns;

use std::fs;
use std::path::Path;

use catena_port::offers::{Interface, Offer, Rights, interfaces, judge};
use catena_port::port_bench::PortBench;
use catena_port::xdp;
use netns::{has, isolated, run, veth};
use serde_json::json;

/// An ELF file (EM_BPF) with one program, called `foreign`, that passes every packet: `r0 = 2;
/// exit`, its symbol, and four sections.
fn foreign() -> Vec<u8> {
    const CODE: [u8; 16] = [0xb7, 0, 0, 0, 2, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
    const NAMES: &[u8] = b"\0xdp\0.symtab\0.strtab\0foreign\0";
    let word = |value: u64| value.to_le_bytes();
    let half = |values: &[u16]| {
        values
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect::<Vec<_>>()
    };
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    // Header, then code at 64, symbols at 80, names at 128, sections at 168.
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend(half(&[1, 247, 1, 0]));
    file.extend([0, 0, 168].map(word).concat());
    file.extend(half(&[0, 0, 64, 0, 0, 64, 4, 3]));
    file.extend(CODE);
    file.extend([0; 24]);
    // A global function in section 1.
    file.extend([pair(21, 0x0001_0012), 0, 16].map(word).concat());
    assert_eq!((file.len(), NAMES.len()), (128, 29));
    file.extend(NAMES);
    // Section 0 is none.
    file.resize(168 + 64, 0);
    for (kinds, flags, place, len, links, align, entry) in [
        (pair(1, 1), 6, 64, 16, 0, 8, 0),
        (pair(5, 2), 0, 80, 48, pair(3, 1), 8, 24),
        (pair(13, 3), 0, 128, 29, 0, 1, 0),
    ] {
        let words = [kinds, flags, 0, place, len, links, align, entry];
        file.extend(words.map(word).concat());
    }
    file
}

fn found(name: &str) -> (Interface, Offer) {
    let all = interfaces();
    let interface = all.into_iter().find(|one| one.name == name).unwrap();
    let [offer, _] = judge(&interface, &Rights::of_this_thread());
    (interface, offer)
}

#[test]
fn a_program_of_others_is_in_the_way_until_it_is_taken_off() {
    let test = "a_program_of_others_is_in_the_way_until_it_is_taken_off";
    if !has(test, &["ip"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("foreign.o");
    fs::write(&file, foreign()).unwrap();
    isolated(test, || {
        veth("a", "b");
        let rights = Rights::of_this_thread();
        let (clean, offer) = found("a");
        if !offer.is_usable {
            println!("SKIP {test}: {}", offer.what);
            return;
        }
        assert_eq!(clean.program, None);
        run(&format!(
            "ip link set dev a xdpgeneric obj {} sec xdp",
            file.display()
        ));
        let (taken, offer) = found("a");
        let hung = taken.program.unwrap();
        assert_eq!(
            (hung.name.as_deref(), hung.is_of_a_port()),
            (Some("foreign"), false)
        );
        assert!(
            !offer.is_usable && offer.what.contains("'foreign'"),
            "{offer:?}"
        );
        // It is right: the port says so, too. And what it says to do helps.
        let config = json!({ "interface": "a" });
        let open = || PortBench::open(&xdp::KIND, &config, Path::new("."));
        let refused = open().unwrap_err().0;
        assert!(refused.contains("'foreign'"), "{refused}");
        let (command, _) = offer.repair.as_deref().unwrap().split_once(',').unwrap();
        run(command);
        let mut port = open().unwrap();
        let (ours, offer) = found("a");
        assert!(ours.program.unwrap().is_of_a_port());
        assert!(
            offer.is_usable && offer.what.contains("a port has it"),
            "{offer:?}"
        );
        port.close().unwrap();
        let (clean, _) = found("a");
        assert_eq!(clean.program, None);
        // What is pinned without CAP_IPC_LOCK has a limit.
        let without = Rights {
            ipc_lock: false,
            pinned_max: Some(65_536),
            ..rights
        };
        let [offer, _] = judge(&clean, &without);
        assert!(
            !offer.is_usable && offer.what.contains("64 KiB"),
            "{offer:?}"
        );
    });
}
