//! Right chain files: what they come to, with every default filled in, and their warnings.

use super::{check_text, short};
use crate::chain::{
    Chain, Mode, NodeKind, OnDeath, Overflow, Protocol, Registry, Run, Trust, WaitChoice,
};
use crate::nf::{NfKind, NfPlan};

pub(super) const FULL: &str = "\
name: hello
ports:
  in:  { pcap: { read: traces/web.pcap } }
  out: { pcap: { write: out.pcap }, wrap: [ { trace: {} }, { fault: { loss: 1% } } ], core: 1 }
nfs:
  policer: { type: policer, rate: 10kpps, burst: 32 }
  swap:    { type: macswap, mode: process, group: edge, on_death: bypass }
links:
  - in -> policer
  - policer.out -> swap
  - { link: swap -> out, trust: copy, overflow: drop_tail, slots: 1024 }
run:
  { mode: thread, wait: spin, burst: 32, cores: [0, 1], image: worker,
    orphan: stop, buffers: { 2KiB: 1024, 128B: 4096 } }
";

#[test]
fn a_full_file_gives_the_chain_it_describes() {
    let checked = check_text(FULL).unwrap();
    assert_eq!(short(&checked.warnings), Vec::<String>::new());
    let chain = checked.chain;
    assert_eq!(chain.name, "hello");
    assert_eq!(chain.dir, std::path::Path::new("chains"));
    let names: Vec<_> = chain.nodes.iter().map(|node| &*node.name).collect();
    assert_eq!(names, ["in", "out", "policer", "swap"]);
    let [input, out, policer, swap] = chain.nodes.as_slice() else {
        panic!("four nodes");
    };
    assert_eq!(
        (input.mode, input.core, &*input.group),
        (Mode::Thread, None, "default")
    );
    assert_eq!((out.core, out.type_name()), (Some(1), "pcap"));
    assert_eq!((swap.mode, &*swap.group), (Mode::Process, "edge"));
    assert_eq!(swap.on_death, OnDeath::Bypass);
    let NodeKind::Port { role, wraps, .. } = &out.kind else {
        panic!("a port");
    };
    assert_eq!((role.receives, role.sends), (false, true));
    let wraps: Vec<_> = wraps.iter().map(|wrap| wrap.kind.name).collect();
    assert_eq!(wraps, ["trace", "fault"]);
    let NodeKind::Nf { config, plan, .. } = &policer.kind else {
        panic!("an NF");
    };
    assert_eq!(*config, serde_json::json!({"rate": "10kpps", "burst": 32}));
    assert_eq!(plan.outputs, ["out"]);
    assert_eq!(
        chain.run,
        Run {
            mode: Mode::Thread,
            wait: WaitChoice::Spin,
            burst: 32,
            cores: vec![0, 1],
            buffers: vec![(128, 4096), (2048, 1024)],
            image: Some("worker".to_owned()),
            orphan_ms: 0,
        }
    );
    let links: Vec<_> = chain
        .links
        .iter()
        .map(|link| (&*link.name, link.trust))
        .collect();
    assert_eq!(
        links,
        [
            ("in -> policer", Trust::Shared),
            ("policer -> swap", Trust::Copy),
            ("swap -> out", Trust::Copy)
        ]
    );
    let last = &chain.links[2];
    assert_eq!((last.from, last.to, last.slot_count), (3, 1, 1024));
    assert_eq!(last.overflow, Overflow::DropTail);
}

fn links(text: &str) -> Vec<(String, Trust)> {
    let checked = check_text(text).unwrap_or_else(|errors| panic!("{errors}"));
    let links = checked.chain.links.into_iter();
    links.map(|link| (link.name, link.trust)).collect()
}

const ENDS: &str = "\
name: x
ports: { in: { pcap: { read: a } }, out: { pcap: { write: b } } }
";

#[test]
fn one_line_may_hold_several_links() {
    let text = format!(
        "{ENDS}nfs: {{ a: {{ type: count }}, b: {{ type: macswap }} }}\nlinks: [ in -> a->b -> out ]\n"
    );
    let names: Vec<_> = links(&text).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["in -> a", "a -> b", "b -> out"]);
}

#[test]
fn outputs_and_inputs_are_numbered_in_file_order() {
    let text = format!(
        "{ENDS}nfs:\n  t: {{ type: tee }}\n  m: {{ type: merge }}\nlinks:\n  - in -> t\n  - t.b -> m\n  - t.a -> m\n  - t -> out\n  - m -> out\n"
    );
    let chain = check_text(&text).unwrap().chain;
    let numbers: Vec<_> = chain
        .links
        .iter()
        .map(|link| (&*link.name, link.output, link.input))
        .collect();
    assert_eq!(
        numbers,
        [
            ("in -> t", 0, 0),
            ("t.b -> m", 0, 0),
            ("t.a -> m", 1, 1),
            ("t.out -> out", 2, 0),
            ("m -> out", 0, 1)
        ]
    );
}

#[test]
fn a_flag_link_has_one_slot() {
    let text = format!("{ENDS}links: [ {{ link: in -> out, protocol: flag }} ]\n");
    let link = check_text(&text).unwrap().chain.links.remove(0);
    assert_eq!((link.protocol, link.slot_count), (Protocol::Flag, 1));
}

#[test]
fn a_tcp_link_copies_and_has_no_slots() {
    let link = "{ link: in -> out, protocol: tcp, overflow: drop_tail }";
    let text = format!("{ENDS}links: [ {link} ]\n");
    let link = check_text(&text).unwrap().chain.links.remove(0);
    assert_eq!((link.protocol, link.slot_count), (Protocol::Tcp, 0));
    assert_eq!(link.trust, Trust::Copy);
}

#[test]
fn containers_get_an_image() {
    let text = format!("{ENDS}links: [ in -> out ]\nrun: {{ mode: container }}\n");
    let run = check_text(&text).unwrap().chain.run;
    assert_eq!(run.image.as_deref(), Some("catena-worker"));
}

#[test]
fn workers_end_with_their_supervisor_unless_the_file_says_otherwise() {
    for (run, ms) in [
        ("{}", 0),
        ("{ orphan: stop }", 0),
        ("{ orphan: keep }", 600_000),
        ("{ orphan: 60min }", 3_600_000),
    ] {
        let text = format!("{ENDS}links: [ in -> out ]\nrun: {run}\n");
        assert_eq!(check_text(&text).unwrap().chain.run.orphan_ms, ms, "{run}");
    }
}

#[test]
fn a_tap_may_be_both_ends() {
    let text =
        "name: x\nports: { t: { tap: } }\nnfs: { a: { type: macswap } }\nlinks: [ t -> a -> t ]\n";
    assert_eq!(links(text).len(), 2);
}

#[test]
fn unspecified_links_near_an_ro_link_are_copied() {
    let text = format!(
        "{ENDS}nfs: {{ t: {{ type: tee }}, a: {{ type: count }}, b: {{ type: macswap }} }}\nlinks:\n  - in -> t\n  - {{ link: t.a -> a, trust: ro }}\n  - t.b -> b\n  - a -> out\n  - b -> out\n"
    );
    let trust: Vec<_> = links(&text).into_iter().map(|(_, trust)| trust).collect();
    let (copy, ro, shared) = (Trust::Copy, Trust::Ro, Trust::Shared);
    assert_eq!(trust, [copy, ro, copy, copy, shared]);
}

#[test]
fn read_only_packets_may_go_on_read_only() {
    let text = format!(
        "{ENDS}nfs: {{ a: {{ type: count }}, b: {{ type: count }} }}\nlinks:\n  - {{ link: in -> a -> b, trust: ro }}\n  - b -> out\n"
    );
    let trust: Vec<_> = links(&text).into_iter().map(|(_, trust)| trust).collect();
    assert_eq!(trust, [Trust::Ro, Trust::Ro, Trust::Copy]);
}

#[test]
fn aliases_and_merge_keys_repeat_what_they_name() {
    let text = format!(
        "{ENDS}nfs:\n  a: &limit {{ type: policer, rate: 1kpps }}\n  b: {{ <<: *limit, burst: 2 }}\nlinks: [ in -> a -> b -> out ]\n"
    );
    let chain = check_text(&text).unwrap().chain;
    let NodeKind::Nf { config, .. } = &chain.nodes[3].kind else {
        panic!("an NF");
    };
    assert_eq!(*config, serde_json::json!({"rate": "1kpps", "burst": 2}));
}

#[test]
fn odd_but_harmless_things_are_warnings() {
    let text = format!(
        "{ENDS}nfs:\n  c: {{ type: classify, rules: [ {{ src: 192.0.2.1, to: web }}, {{ src: 192.0.2.2, to: dns }} ] }}\n  s: {{ type: macswap, mode: inline, group: b, core: 2 }}\nlinks:\n  - {{ link: in -> c, trust: shared }}\n  - {{ link: c.web -> s, slots: 4 }}\n  - s -> out\n"
    );
    let checked = check_text(&text).unwrap();
    assert_eq!(
        short(&checked.warnings),
        [
            "4:3 output \"dns\" of c is not connected: packets for it are dropped as not_connected \
             | add a link, like - c.dns -> out",
            "5:3 groups default and b are one in memory: c and s run in one loop | give both the \
             same group, or another mode",
            "5:53 core has no effect: s runs in the loop of c | set the core of c, or give s another \
             mode",
            "8:32 slots has no effect: c and s run in one loop, with no ring between | remove slots, \
             or give s another mode",
        ]
    );
    let text = checked.warnings[3].to_string();
    assert_eq!(
        text,
        "chain.yaml:8:32: warning: slots has no effect: c and s run in one loop, with no ring \
         between\n  8 |   - { link: c.web -> s, slots: 4 }\n    \
         |                                ^\n  \
         repair: remove slots, or give s another mode\n"
    );
}

#[test]
fn a_file_is_loaded_with_its_folder() {
    let dir = std::env::temp_dir().join(format!("catena-chain-file-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("hello.yaml");
    std::fs::write(&path, format!("{ENDS}links: [ in -> out ]\n")).unwrap();
    let checked = Chain::load(&path, &super::kinds::registry(), None).unwrap();
    assert_eq!(checked.chain.dir, dir);
    let errors = Chain::load(&dir.join("none.yaml"), &Registry::default(), None).unwrap_err();
    assert!(
        errors
            .to_string()
            .contains("none.yaml: error: cannot read the chain file")
    );
    std::fs::remove_dir_all(&dir).unwrap();
}

/// As many rules as an ACL may have cost a search structure of megabytes: a check makes none.
#[test]
fn a_file_with_thousands_of_rules_is_checked_without_building() {
    static ACL: NfKind = NfKind {
        build: |_, _| panic!("a check builds nothing"),
        ..crate::nfs::acl::KIND
    };
    let mut registry = super::kinds::registry();
    registry.nfs.push(&ACL);
    let rule = |index: u32| {
        format!(
            "{{ action: deny, src: 10.{}.{}.0/24 }}",
            index / 256,
            index % 256
        )
    };
    let rules: Vec<String> = (0..4096).map(rule).collect();
    let text = |rules: &[String]| {
        format!(
            "name: many\nports:\n  in: {{ pcap: {{ read: a }} }}\n  out: {{ pcap: {{ write: b }} }}\n\
             nfs:\n  edge: {{ type: acl, rules: [ {} ] }}\nlinks:\n  - in -> edge -> out\n",
            rules.join(", ")
        )
    };
    let dir = std::path::Path::new(".");
    let checked = Chain::parse(&text(&rules), dir, &registry, None).unwrap();
    let NodeKind::Nf { plan, .. } = &checked.chain.nodes[2].kind else {
        panic!("an NF");
    };
    assert_eq!(plan.drop_reasons, ["acl_deny"]);
    let many = vec![rules[0].clone(); 4097];
    assert!(Chain::parse(&text(&many), dir, &registry, None).is_err());
}

#[test]
fn a_plan_that_counters_cannot_carry_is_an_error_of_the_file() {
    static GREEDY: NfKind = NfKind {
        name: "greedy",
        plan: |_, _| Ok(NfPlan::new().counters((0..33).map(|index| format!("n{index}")))),
        ..crate::nfs::count::KIND
    };
    let mut registry = super::kinds::registry();
    registry.nfs.push(&GREEDY);
    let text = "name: many\nports:\n  in: { pcap: { read: a } }\n  out: { pcap: { write: b } }\n\
                nfs:\n  edge: { type: greedy }\nlinks:\n  - in -> edge -> out\n";
    let errors = Chain::parse(text, std::path::Path::new("."), &registry, None).unwrap_err();
    assert!(errors.to_string().contains("more than 32"), "{errors}");
}
