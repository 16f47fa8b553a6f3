//! The NF on a bench: what a plan says, memory that is taken over, settings that are wrong.

use catena_engine::nf_bench::NfBench;
use serde_json::{Value, json};

use super::*;

fn settings() -> Value {
    serde_json::from_str(KIND.example).unwrap()
}

#[test]
fn outputs_are_the_interfaces_and_n4() {
    let plan = (KIND.plan)(&settings(), &[]).unwrap();
    assert_eq!(plan.outputs, ["n3", "n6", "n4"]);
    let mut shared = settings();
    shared["n4"]["output"] = json!("n6");
    let plan = (KIND.plan)(&shared, &[]).unwrap();
    assert_eq!(plan.outputs, ["n3", "n6"], "N4 may leave by an interface");
    assert_eq!(plan.check(), Ok(()));
}

#[test]
fn every_wrong_setting_is_named() {
    let wrong = json!({
        "node_id": "not..a.name",
        "n4": { "address": "10.4.0.1", "peers": ["10.4.0.0/33"], "n1": 0, "mac": "here" },
        "interfaces": [
            { "name": "n3", "side": "access" },
            { "name": "n3", "side": "core", "next_hop_mac": "there" },
        ],
        "pools": [
            { "network_instance": "internet" },
            { "network_instance": "internet", "v4": "10.0.0.0/31" },
        ],
        "sessions": 0,
        "session_bytes": "1B",
    });
    let errors = NfBench::new(&KIND, &wrong, &[]).unwrap_err();
    let mut paths: Vec<_> = errors.iter().map(|error| error.path.as_str()).collect();
    paths.sort_unstable();
    let all = [
        "interfaces[1].name",
        "interfaces[1].next_hop_mac",
        "n4.mac",
        "n4.n1",
        "n4.peers[0]",
        "node_id",
        "pools[0].v4",
        "pools[1].v4",
        "session_bytes",
        "sessions",
    ];
    assert_eq!(paths, all);
}

#[test]
fn smfs_to_ask_are_named_once_and_are_heard() {
    let faults_of = |peers: Value, smfs: Value| {
        let mut wrong = settings();
        wrong["n4"]["peers"] = peers;
        wrong["n4"]["smfs"] = smfs;
        let errors = NfBench::new(&KIND, &wrong, &[]).err().unwrap_or_default();
        let said = errors
            .iter()
            .map(|one| format!("{}: {}", one.path, one.message));
        said.collect::<Vec<_>>()
    };
    let known = json!(["10.4.0.2", "10.4.0.3"]);
    let none: [&str; 0] = [];
    assert_eq!(faults_of(json!(["10.4.0.0/24"]), known.clone()), none);
    assert_eq!(faults_of(json!([]), known.clone()), none);
    assert_eq!(
        faults_of(json!(["10.4.0.2/32"]), known),
        ["n4.smfs[1]: 10.4.0.3 is not in n4.peers: its answers would not be heard"]
    );
    assert_eq!(
        faults_of(json!([]), json!(["10.4.0.2", "10.4.0.2"])),
        ["n4.smfs[1]: 10.4.0.2 is there twice"]
    );
}

#[test]
fn no_more_is_guaranteed_than_a_ceiling_lets_pass() {
    let mut wrong = settings();
    wrong["ceilings"] = json!([
        { "slice": "1", "ul": "10Mbps", "guaranteed_ul": "11Mbps" },
        { "network_instance": "internet", "dl": "10Mbps", "guaranteed_dl": "10Mbps" },
    ]);
    let errors = NfBench::new(&KIND, &wrong, &[]).err().unwrap_or_default();
    let said: Vec<String> = errors
        .iter()
        .map(|one| format!("{}: {}", one.path, one.message))
        .collect();
    let what = "ceilings[0].guaranteed_ul: it is more than the ceiling lets pass";
    assert_eq!(said, [what]);
}

/// A place in a rule is an octet, and two of its values are taken.
#[test]
fn there_are_no_more_network_instances_than_rules_can_say() {
    let with_groups = |count: usize| {
        let mut settings = settings();
        let groups: Vec<String> = (0..count).map(|one| format!("group-{one}")).collect();
        settings["groups"] = json!(groups);
        settings
    };
    let known = config::read(&settings()).unwrap().1.instances.len();
    config::read(&with_groups(254 - known)).unwrap();
    let faults = config::read(&with_groups(255 - known)).unwrap_err();
    let faults: Vec<String> = faults.iter().map(|fault| fault.to_string()).collect();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(
        faults[0].contains("there are 255 network instances, and at most 254"),
        "{faults:?}"
    );
}

#[test]
fn policies_are_named_once_and_lead_to_data_networks() {
    let policies = json!([
        { "name": "video", "interface": "n6" }, { "name": "video", "interface": "n3" },
        { "name": "", "interface": "n9" },
    ]);
    let mut wrong = settings();
    wrong["forwarding_policies"] = policies;
    let errors = NfBench::new(&KIND, &wrong, &[]).err().unwrap_or_default();
    let said = errors
        .iter()
        .map(|one| format!("{}: {}", one.path, one.message));
    assert_eq!(
        said.collect::<Vec<_>>(),
        [
            "forwarding_policies[1].name: video is there twice",
            "forwarding_policies[1].interface: n3 is no interface to a data network",
            "forwarding_policies[2].name: an identifier has 1 to 255 octets",
            "forwarding_policies[2].interface: n9 is no interface to a data network",
        ]
    );
}

#[test]
fn packets_that_are_none_are_dropped_with_a_reason_and_keep_no_buffer() {
    let mut bench = NfBench::new(&KIND, &settings(), &[]).unwrap();
    let reason = |why| Verdict::Drop(dropped(why));
    let mut arp = [0; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    let mut cut = [0; 60];
    cut[12..14].copy_from_slice(&[8, 0]);
    assert_eq!(bench.process_one(&arp).verdict, reason(Why::NotForUs));
    assert_eq!(bench.process_one(&cut).verdict, reason(Why::Malformed));
    assert_eq!(bench.process_one(&[0]).verdict, reason(Why::Malformed));
    assert_eq!(bench.buffers_in_use(), 0);
}

#[test]
fn a_question_that_is_none_is_answered_with_those_that_are() {
    let mut bench = NfBench::new(&KIND, &settings(), &[]).unwrap();
    let answer = bench.control(&json!({ "show": "everything" })).unwrap_err();
    assert!(answer.contains("sessions"), "{answer}");
    let pools = bench.control(&json!({ "show": "pools" })).unwrap();
    assert_eq!(pools["pools"][0]["v4"]["count"], 65_534);
    let none = bench.control(&json!({ "show": "session", "seid": 7 }));
    assert!(none.unwrap_err().contains("SEID 7"));
}

/// What the UPF writes into the frames of a group's packets while it holds them comes from nowhere
/// else: such a frame would be taken for one whose sender has been looked at.
#[test]
fn no_frame_from_outside_is_taken_for_a_groups() {
    let mut frame = crate::smf::wire::datagram(
        ([203, 0, 113, 9].into(), 7),
        ([10, 45, 0, 9].into(), 7),
        b"data",
    );
    let marked = [0x01, b'v', b'n', 0, 0, 0];
    for (is_marked, groups, why) in [
        (false, json!(["factory"]), Why::UnknownUe),
        (true, json!(["factory"]), Why::NotForUs),
        (true, json!([]), Why::UnknownUe),
    ] {
        let mut with_groups = settings();
        with_groups["groups"] = groups;
        let mut bench = NfBench::new(&KIND, &with_groups, &[]).unwrap();
        if is_marked {
            frame[6..12].copy_from_slice(&marked);
        }
        let verdict = bench.process_one(&frame).verdict;
        assert_eq!(verdict, Verdict::Drop(dropped(why)), "{is_marked}");
    }
}
