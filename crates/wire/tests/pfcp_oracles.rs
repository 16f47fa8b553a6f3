// SPDX-License-Identifier: Apache-2.0
//! Goal: PFCP means here what it means to others. Method: the messages of `packets` are also made
//! by scapy (those of release 15), pycrate (those that need release 16) and go-pfcp (all), from
//! values that are written down there again, and must be the same bytes. Ours are read by all
//! three, which build them again from the values that they found; and by tshark, field by field.
//! Faults of theirs are listed: one that is no longer there fails the test too.

#[path = "oracle/asked.rs"]
mod asked;
#[path = "packets/nodes.rs"]
mod nodes;
#[path = "packets/reports.rs"]
mod reports;
#[path = "packets/rules.rs"]
mod rules;
#[path = "packets/sessions.rs"]
mod sessions;

use asked::{Fault, ask_go, ask_python, bytes, complaints, has_tshark, hex, tshark};
use catena_wire::pfcp::{self, Full, Group, Ie, IeType, Writer, key};
use sessions::Sample;

/// All messages, in the order of the modules.
fn samples() -> Vec<Sample> {
    let nodes = sessions::all().into_iter().chain(nodes::all());
    nodes.chain(rules::all()).chain(reports::all()).collect()
}

fn up_to(release: u8) -> Vec<Sample> {
    let mut samples = samples();
    samples.retain(|sample| sample.release <= release);
    samples
}

/// What we read of a message, written again; and the IEs that we keep as octets.
fn by_us(message: &[u8]) -> (Vec<u8>, Vec<u16>) {
    let view = pfcp::View::parse(message).expect("it has a header");
    assert_eq!(view.check(), Ok(()), "{view}");
    let (mut bytes, mut kept) = (vec![0; 2000], Vec::new());
    let mut writer = Writer::new(&mut bytes, view.header()).expect("there is room");
    write_again(&mut writer, view.ies(), &mut kept).expect("there is room");
    let len = writer.finish().expect("it is short");
    bytes.truncate(len);
    (bytes, kept)
}

fn write_again(writer: &mut Writer<'_>, group: Group<'_>, kept: &mut Vec<u16>) -> Result<(), Full> {
    for ie in group.ies() {
        let ie = ie.expect("it was checked");
        let mut room = [0; 300];
        if let Some(inner) = ie.group() {
            writer.group(ie.ie_type, |writer| write_again(writer, inner, kept))?;
        } else if let Some(len) = key::rewrite(ie.ie_type, ie.value, &mut room) {
            let value = &room[..len];
            writer.put_ie(&Ie { value, ..ie })?;
        } else {
            kept.push(ie.ie_type.0);
            writer.put_ie(&ie)?;
        }
    }
    Ok(())
}

#[test]
fn we_read_our_own_messages() {
    let mut unread = Vec::new();
    for Sample { name, bytes, .. } in samples() {
        let (again, kept) = by_us(&bytes);
        assert_eq!(hex(&again), hex(&bytes), "{name}");
        unread.extend(kept);
    }
    // A trace of OAM, which a UPF here does not make.
    assert_eq!(unread, [IeType::TRACE_INFORMATION.0, UNKNOWN.0, VENDORS.0]);
}

/// What is known of the others.
const FAULTS: [Fault; 6] = [
    (
        "read by scapy",
        "buffered_for_long",
        "a packet count that was read from two octets is written in one (8.2.30)",
    ),
    (
        "made by pycrate",
        "told_of_stations",
        "a usage report in a report has the list of another group there (7.5.8.3)",
    ),
    (
        "read by pycrate",
        "tags",
        "the priority of a tag has one bit there, and not three (8.2.94)",
    ),
    (
        "read by tshark",
        "heartbeat_from",
        "the length of a prefix is asked for behind the message's end (8.2.138)",
    ),
    ("read by tshark", "packet_rates", VALIDITY_TIME),
    ("read by tshark", "queried_packets", VALIDITY_TIME),
];
const VALIDITY_TIME: &str = "a time of eight octets is read as a number of four (8.2.139)";

/// IEs that a codec keeps as octets and does not read, and why.
const UNREAD_BY_SCAPY: [(u16, &str); 2] = [UNKNOWN, VENDORS];
const UNREAD_BY_PYCRATE: [(u16, &str); 8] = [
    (65, "an FQ-CSID must have a node type there (8.2.43)"),
    (
        80,
        "a usage report in a report has the list of another group there",
    ),
    (
        95,
        "value 6 must have the octet that deletes extensions there (8.2.64)",
    ),
    (
        98,
        "the length of a header's value has two octets there (8.2.67)",
    ),
    (134, "see the faults"),
    (135, "see the faults"),
    UNKNOWN,
    VENDORS,
];
const UNREAD_BY_GO_PFCP: [(u16, &str); 23] = [
    (37, OCTETS),
    (
        38,
        "a second address has the place and the length of the first (8.2.20)",
    ),
    (43, OCTETS),
    (44, OCTETS),
    (
        61,
        "the length before a field is asked for behind it (8.2.39)",
    ),
    (63, OCTETS),
    (65, OCTETS),
    (72, "flags alone"),
    (84, "tags by the flags of the second octet (8.2.56)"),
    (94, "no additional rates (8.2.63)"),
    (115, OCTETS),
    (126, "AURI is part of the number (8.2.91)"),
    (133, "read into no room (8.2.93)"),
    (
        134,
        "the upper bits of an identifier are not moved to their place (8.2.94)",
    ),
    (135, "the same (8.2.95)"),
    (144, "one address too many (8.2.103)"),
    (145, "the same (8.2.104)"),
    (152, "read into no room (8.2.115)"),
    (177, OCTETS),
    (193, "a time stamp of NTP as seconds (8.2.139)"),
    (290, "of release 17"),
    UNKNOWN,
    VENDORS,
];
const OCTETS: &str = "handed out as octets";
const UNKNOWN: (u16, &str) = (0x7000, "nobody has this number");
const VENDORS: (u16, &str) = (0x8001, "a vendor's");

/// Theirs must be ours, and is read by us.
fn compare(samples: &[Sample], answers: &[String], who: &str) {
    let messages = samples
        .iter()
        .map(|sample| (sample.name, &sample.bytes[..]));
    asked::compare(who, &FAULTS, messages, answers);
    for (Sample { name, .. }, theirs) in samples.iter().zip(answers) {
        if !asked::is_faulty(&FAULTS, who, name) {
            assert_eq!(&hex(&by_us(&bytes(theirs)).0), theirs, "{who} {name}");
        }
    }
}

fn questions(verb: &str, samples: &[Sample]) -> Vec<String> {
    let names = samples.iter().map(|sample| sample.name);
    names.map(|name| format!("{verb} {name}")).collect()
}

/// What `verb` reads of ours and writes again: the same bytes; and it only keeps as octets the IEs
/// `unread`, each for a reason.
fn read_again(verb: &str, samples: &[Sample], answers: &[String], unread: &[(u16, &str)]) {
    let (found, kept) = asked::split(answers);
    compare(samples, &found, &format!("read by {verb}"));
    let unread: Vec<u16> = unread.iter().map(|(number, _)| *number).collect();
    assert_eq!(kept, unread, "kept as octets by {verb}");
}

/// Values that no message here has: a UPF here does nothing by them, but for refusing some.
const UNCOMPARED: &[IeType] = &[
    IeType::OFFENDING_IE_INFORMATION,
    IeType::CP_PFCP_ENTITY_IP_ADDRESS,
    IeType::NF_INSTANCE_ID,
    IeType::VALIDITY_TIMER,
    IeType::PFCPASREQ_FLAGS,
    IeType::PFCPSDRSP_FLAGS,
    IeType::RAT_TYPE,
    IeType::IP_VERSION,
    IeType::NUMBER_OF_UE_IP_ADDRESSES,
    IeType::IP_MULTICAST_ADDRESS,
    IeType::ACTIVATE_PREDEFINED_RULES,
    IeType::DEACTIVATE_PREDEFINED_RULES,
    IeType::ACTIVATION_TIME,
    IeType::DEACTIVATION_TIME,
    IeType::PACKET_REPLICATION_AND_DETECTION_CARRY_ON_INFORMATION,
    IeType::DATA_NETWORK_ACCESS_IDENTIFIER,
    IeType::MAR_ID,
    IeType::STEERING_FUNCTIONALITY,
    IeType::STEERING_MODE,
    IeType::WEIGHT,
    IeType::PRIORITY,
    IeType::DL_DATA_PACKETS_SIZE,
    IeType::QER_INDICATIONS,
];

#[test]
fn all_values_that_a_upf_acts_on_are_compared() {
    fn walk(group: Group<'_>, seen: &mut Vec<IeType>) {
        for ie in group.ies().flatten() {
            seen.push(ie.ie_type);
            if let Some(inner) = ie.group() {
                walk(inner, seen);
            }
        }
    }
    let mut seen = Vec::new();
    for Sample { bytes, .. } in samples() {
        let view = pfcp::View::parse(&bytes[..]).expect("it has a header");
        walk(view.ies(), &mut seen);
    }
    let typed = key::TYPED.iter().copied();
    let missing: Vec<_> = typed.filter(|ie_type| !seen.contains(ie_type)).collect();
    assert_eq!(missing, UNCOMPARED);
}

#[test]
fn scapy_makes_the_same_messages_and_reads_ours() {
    let samples = up_to(15);
    let build = questions("scapy-build", &samples);
    let again = samples
        .iter()
        .map(|sample| format!("scapy {}", hex(&sample.bytes)));
    let all: Vec<_> = build.into_iter().chain(again).collect();
    let test = "scapy_makes_the_same_messages_and_reads_ours";
    let Some(answers) = ask_python(test, &all) else {
        return;
    };
    let (made, read) = answers.split_at(samples.len());
    compare(&samples, made, "made by scapy");
    read_again("scapy", &samples, read, &UNREAD_BY_SCAPY);
}

#[test]
fn pycrate_makes_the_same_messages_and_reads_ours() {
    let samples = up_to(16);
    let is_of_16 = |sample: &Sample| sample.release == 16;
    let of_16: Vec<_> = samples.iter().filter(|sample| is_of_16(sample)).collect();
    let build = of_16
        .iter()
        .map(|sample| format!("pycrate-build {}", sample.name));
    let again = samples
        .iter()
        .map(|sample| format!("pycrate {}", hex(&sample.bytes)));
    let all: Vec<_> = build.chain(again).collect();
    let test = "pycrate_makes_the_same_messages_and_reads_ours";
    let Some(answers) = ask_python(test, &all) else {
        return;
    };
    let (made, read) = answers.split_at(of_16.len());
    read_again("pycrate", &samples, read, &UNREAD_BY_PYCRATE);
    let of_16: Vec<_> = up_to(16).into_iter().filter(is_of_16).collect();
    compare(&of_16, made, "made by pycrate");
}

/// Groups of which pycrate (of release 16) wants something else, and why.
const OTHER_MEMBERS: [(IeType, &str); 3] = [
    (IeType::DUPLICATING_PARAMETERS, "mandatory on Sxa only"),
    (IeType::AGGREGATED_URRS, "mandatory on Sxb only"),
    (
        IeType::USAGE_REPORT_REPORT,
        "it has the list of another group there",
    ),
];

#[test]
fn pycrate_wants_the_same_mandatory_ies() {
    let groups = IeType::ALL.iter().copied();
    let groups: Vec<_> = groups.filter(|ie_type| ie_type.is_grouped()).collect();
    let questions: Vec<_> = groups
        .iter()
        .map(|group| format!("mandatory {}", group.0))
        .collect();
    let test = "pycrate_wants_the_same_mandatory_ies";
    let Some(answers) = ask_python(test, &questions) else {
        return;
    };
    let mut compared = 0;
    for (group, answer) in groups.iter().zip(answers) {
        let is_other = OTHER_MEMBERS.iter().any(|(other, _)| other == group);
        if answer == "unknown" || is_other {
            continue;
        }
        let members = pfcp::grammar::Members::of_group(*group).expect("it is a group");
        let mut ours: Vec<u16> = members.mandatory.iter().map(|ie_type| ie_type.0).collect();
        ours.sort_unstable();
        let ours: Vec<_> = ours.iter().map(u16::to_string).collect();
        assert_eq!(ours.join(" "), answer, "{group}, table {}", members.table);
        compared += 1;
    }
    assert!(compared > 80, "only {compared} groups were compared");
}

#[test]
fn go_pfcp_makes_the_same_messages_and_reads_ours() {
    let samples = samples();
    let build = questions("build", &samples);
    let again = samples
        .iter()
        .map(|sample| format!("go-pfcp {}", hex(&sample.bytes)));
    let all: Vec<_> = build.into_iter().chain(again).collect();
    let test = "go_pfcp_makes_the_same_messages_and_reads_ours";
    let Some(answers) = ask_go("go-pfcp", test, &all) else {
        return;
    };
    let (made, read) = answers.split_at(samples.len());
    compare(&samples, made, "made by go-pfcp");
    read_again("go-pfcp", &samples, read, &UNREAD_BY_GO_PFCP);
}

/// What tshark finds in a message: fields of `pfcp`, and all that each says.
const FIELDS: [(&str, &[(&str, &str)]); 39] = [
    (
        "establishment",
        &[
            ("f_teid.teid", "0x01020304"),
            ("ue_ip_addr_ipv4", "10.0.0.1"),
            ("flow_desc", "permit out ip from any to assigned"),
            ("sdf_filter_id", "3"),
            ("out_hdr_desc", "6"),
            ("outer_hdr_creation.teid", "0x00000007"),
            ("volume_threshold.tovol", "1099511627776"),
            ("dl_mbr", "5000000000"),
            ("gate_status.dlgate", "1"),
        ],
    ),
    (
        "report",
        &[
            ("volume_measurement.dlvol", "2199023255552"),
            ("ur_seqn", "3"),
        ],
    ),
    ("modification", &[("outer_hdr_creation.teid", "0x00000008")]),
    (
        "deletion",
        &[("volume_measurement.dlvol", "2"), ("ur_seqn", "4")],
    ),
    (
        "association_of_a_set",
        &[
            ("node_id_fqdn", "smf.example,set1.example"),
            ("alternative_smf_ip_address.ipv6", "2001:db8::1"),
        ],
    ),
    (
        "association_update_release",
        &[
            ("assoc_rel_req.sarr", "1"),
            ("timer_unit", "2"),
            ("timer_value", "2"),
        ],
    ),
    (
        "association_update_response",
        &[("node_id_ipv6", "2001:db8::1")],
    ),
    (
        "path_failure",
        &[
            ("node_report_type.upfr", "1"),
            ("node_id_ipv4", "192.0.2.1,192.0.2.3"),
        ],
    ),
    (
        "path_recovery",
        &[
            ("node_report_type.uprr", "1"),
            ("network_instance", "n3.example"),
        ],
    ),
    ("node_report_refused", &[("offending_ie", "101")]),
    ("set_deletion", &[("csid", "1,258")]),
    ("set_deletion_of_a_upf", &[("fq_csid_node_type", "5")]),
    (
        "set_modification",
        &[
            ("group_id", "group"),
            ("cp_ip_address.ipv4", "192.0.2.8"),
            ("alternative_smf_ip_address.ipv4", "192.0.2.9"),
        ],
    ),
    ("set_modification_refused", &[("offending_ie", "290")]),
    (
        "endpoints",
        &[
            ("traffic_endpoint_id", "1,2,1,2"),
            ("f_teid.choose_id", "05"),
            ("framed_route", "192.168.1.0/24 0.0.0.0 1"),
            ("framed_ipv6_route", "2001:db8:7::/48 :: 1"),
        ],
    ),
    ("endpoints_changed", &[("f_teid.ipv6_addr", "2001:db8::5")]),
    (
        "addresses",
        &[
            ("ue_ip_address_flag.chv4", "1,0,0"),
            ("ue_ip_addr_ipv6_prefix", "8"),
            ("ue_ip_addr_ipv6_prefix_length", "128"),
        ],
    ),
    (
        "ethernet",
        &[
            ("mac_address.udes", "020000000012"),
            ("ethertype", "0x0800"),
        ],
    ),
    (
        "tags",
        &[
            ("c_tag.cvid", "0x0123,0x0fff"),
            ("s_tag.svid", "0x0fff,0x0123"),
            ("s_tag.dei_flag", "0,1"),
        ],
    ),
    (
        "charging",
        &[
            ("event_threshold", "5"),
            ("event_quota", "50,52"),
            ("time_quota_mechanism_bti_type", "1"),
            ("time_quota_mechanism_bti", "15"),
            ("bytes_downlink_data", "8589934592"),
            ("subsequent_time_quota", "601,602"),
        ],
    ),
    (
        "charging_that_ends",
        &[("validity_time_value", "86400"), ("number_of_reports", "3")],
    ),
    (
        "qos",
        &[
            ("dl_gbr", "4328719365"),
            ("max_ul_pr", "10"),
            ("dl_time_unit", "3"),
            ("ppi", "7"),
        ],
    ),
    ("packet_rates", &[("packet_rate_status.apr_tovol", "2")]),
    (
        "redirection",
        &[
            ("redirect_server_address", "http://portal.example/"),
            ("forwarding_policy_id", "706f6c696379"),
        ],
    ),
    (
        "redirection_of_both",
        &[("other_redirect_server_address", "2001:db8::5")],
    ),
    (
        "outer_headers",
        &[
            ("outer_hdr_creation.port", "4789,4789"),
            ("outer_hdr_creation.ipv4", "192.0.2.5,192.0.2.5"),
        ],
    ),
    (
        "unknown_ies",
        &[("enterprise_id", "32473"), ("apn_dnn", "internet")],
    ),
    (
        "monitoring",
        &[
            ("srr_id_value", "2,1"),
            ("packet_delay_thresholds.roundtrip", "70000"),
            ("minimum_wait_time.seconds", "5"),
        ],
    ),
    (
        "established",
        &[
            ("f_teid.teid", "0x01020304,0x01020305,0x01020304"),
            ("metric", "40,60"),
            ("timer_value", "20"),
        ],
    ),
    (
        "established_with_addresses",
        &[("ue_ip_addr_ipv6_prefix_length", "56")],
    ),
    (
        "refused",
        &[("failed_rule_id_type", "0"), ("pdr_id", "515")],
    ),
    (
        "queried",
        &[
            ("query_urr_reference", "168496141,168496141"),
            ("additional_usage_reports_information_value", "300"),
        ],
    ),
    ("queried_packets", &[("volume_measurement.ulnop", "6")]),
    (
        "told",
        &[
            ("flow_dir", "3"),
            ("ppi", "46"),
            ("application_instance_id_str", "1"),
        ],
    ),
    (
        "told_of_stations",
        &[
            ("mac_addresses_detected.length_of_ctag", "3"),
            ("mac_addresses_removed.mac_addresses", "020000000003"),
        ],
    ),
    (
        "monitored",
        &[("qos_monitoring_measurement.roundtrip", "70001")],
    ),
    ("buffered", &[("packet_count", "200")]),
    ("buffered_for_long", &[("packet_count", "300")]),
    (
        "redirected",
        &[("alternative_smf_ip_address.ipv6", "2001:db8::5")],
    ),
];

#[test]
fn tshark_reads_our_pfcp() {
    if !has_tshark("tshark_reads_our_pfcp") {
        return;
    }
    let samples = samples();
    let payloads: Vec<_> = samples.iter().map(|sample| sample.bytes.clone()).collect();
    let mut fields = vec![
        "pfcp.msg_type",
        "pfcp.seqno",
        "_ws.malformed",
        "_ws.expert.severity",
    ];
    let first = fields.len();
    let names = FIELDS.iter().flat_map(|(_, fields)| *fields);
    let mut names: Vec<_> = names.map(|(field, _)| format!("pfcp.{field}")).collect();
    names.sort_unstable();
    names.dedup();
    fields.extend(names.iter().map(String::as_str));
    let rows = tshark("pfcp.pcap", pfcp::PORT, &payloads, &fields);
    assert_eq!(rows.len(), samples.len());
    let mut wrong = Vec::new();
    for (Sample { name, bytes, .. }, row) in samples.iter().zip(&rows) {
        assert_eq!(
            (&row[0], &*row[1]),
            (&bytes[1].to_string(), "66051"),
            "{name}"
        );
        let is_bad = !row[2].is_empty() || complaints(&row[3]) != 0;
        if is_bad != asked::is_faulty(&FAULTS, "read by tshark", name) {
            wrong.push(format!("{name}: {} {}", row[2], row[3]));
        }
        let mut expected = FIELDS.iter().filter(|(of, _)| of == name);
        for (field, value) in expected.next().map_or(&[][..], |(_, fields)| *fields) {
            let column = names.binary_search(&format!("pfcp.{field}"));
            let found = &row[first + column.expect("it is asked for")];
            if found != value {
                wrong.push(format!("{name} {field}: {found}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
