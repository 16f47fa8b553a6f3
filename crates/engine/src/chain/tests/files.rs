//! Files that are one by a link: what is written is nobody else's, whatever its name.

use std::path::Path;

use super::kinds;
use crate::chain::Chain;
use crate::port::Opening;

/// What a check says of a chain that copies from `read` to `first` and `second`.
fn refusal(dir: &Path, [read, first, second]: [&str; 3]) -> Option<String> {
    let text = format!(
        "name: links\nports:\n  in: {{ pcap: {{ read: {read} }} }}\n  a: {{ pcap: {{ write: {first} }} }}\n  \
         b: {{ pcap: {{ write: {second} }} }}\nnfs:\n  t: {{ type: tee }}\nlinks:\n  - in -> t\n  \
         - t.1 -> a\n  - t.2 -> b\n"
    );
    let checked = Chain::parse(&text, dir, &kinds::registry(), None);
    checked.err().map(|errors| errors.to_string())
}

#[test]
fn a_file_that_is_written_is_nobody_elses_by_any_link() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("sub")).unwrap();
    std::fs::write(at("in.pcap"), "packets").unwrap();
    std::fs::hard_link(at("in.pcap"), at("hard.pcap")).unwrap();
    std::os::unix::fs::symlink("in.pcap", at("soft.pcap")).unwrap();
    std::os::unix::fs::symlink("soft.pcap", at("twice.pcap")).unwrap();
    std::os::unix::fs::symlink("sub", at("folder")).unwrap();
    std::os::unix::fs::symlink("sub/new.pcap", at("dangling.pcap")).unwrap();
    std::os::unix::fs::symlink("loop.pcap", at("loop.pcap")).unwrap();
    for (write, line) in [
        ("soft.pcap", "4:3"),
        ("hard.pcap", "4:3"),
        ("twice.pcap", "4:3"),
        ("folder/../in.pcap", "4:3"),
        ("sub/../hard.pcap", "4:3"),
    ] {
        let said = refusal(dir.path(), ["in.pcap", write, "free.pcap"]).unwrap();
        assert!(
            said.contains(line) && said.contains("which in (pcap) reads"),
            "{said}"
        );
    }
    for [first, second] in [
        ["sub/new.pcap", "dangling.pcap"],
        ["sub/new.pcap", "folder/new.pcap"],
        ["folder/new.pcap", "folder/../sub/new.pcap"],
        ["dangling.pcap", "dangling.pcap"],
    ] {
        let said = refusal(dir.path(), ["in.pcap", first, second]).unwrap();
        assert!(
            said.contains("5:3") && said.contains("which a (pcap) writes"),
            "{said}"
        );
    }
    // One that leads to itself is no other file; whoever opens it says what it is.
    let fine = ["in.pcap", "loop.pcap", "sub/new.pcap"];
    assert_eq!(refusal(dir.path(), fine), None);
    assert_eq!(
        refusal(dir.path(), ["soft.pcap", "sub/a.pcap", "folder/b.pcap"]),
        None
    );
    assert_eq!(std::fs::read(at("in.pcap")).unwrap(), b"packets");
}

/// Each queue of a port is a port of its own.
#[test]
fn a_port_of_several_queues_writes_no_file() {
    let file = crate::chain::registry::FileKey {
        of: "fault",
        key: "loss",
        writes: true,
    };
    let mut registry = kinds::registry();
    registry.files.push(file);
    let text = |queues: usize| {
        let nic = "{ tap: {}, wrap: [{ fault: { loss: 1% } }], queues: ";
        format!("name: q\nports:\n  nic: {nic}{queues} }}\nlinks:\n  - nic -> nic\n")
    };
    let said = |queues| {
        let checked = Chain::parse(&text(queues), Path::new("."), &registry, None);
        checked
            .err()
            .map(|errors| errors.to_string())
            .unwrap_or_default()
    };
    let why = "so does each of its 2 queues";
    assert!(said(2).contains(why), "{}", said(2));
    assert!(!said(1).contains("queues"), "{}", said(1));
}

/// A link can come after the check: who opens compares again, and cuts nothing off before.
#[test]
fn what_another_port_names_is_not_cut_off_by_who_opens_it() {
    let dir = tempfile::tempdir().unwrap();
    let (read, link) = (dir.path().join("in.pcap"), dir.path().join("out.pcap"));
    std::fs::write(&read, "packets").unwrap();
    std::fs::hard_link(&read, &link).unwrap();
    let taken = [crate::chain::files::id(&read).unwrap()];
    let opening = Opening {
        taken: &taken,
        ..Opening::alone(dir.path())
    };
    let said = opening.create(&link).unwrap_err().to_string();
    assert!(said.contains("another port of the chain"), "{said}");
    assert_eq!(std::fs::read(&read).unwrap(), b"packets");
    Opening::alone(dir.path()).create(&link).unwrap();
    assert_eq!(std::fs::read(&read).unwrap(), b"", "nobody else names it");
}
