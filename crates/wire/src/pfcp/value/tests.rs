// SPDX-License-Identifier: Apache-2.0
//! Tests of values: one row and more for each IE that has one. The bytes are as the figures of TS
//! 29.244, 8.2 draw them.

use crate::pfcp::element::Ie;
use crate::pfcp::ie_type::{Form, IeType};
use crate::pfcp::key::{self, Fault};
use crate::testing::hex;
use proptest::prelude::*;

/// An IE, its value, of which so many octets are needed, and how a trace shows it.
const TABLE: &[(IeType, &str, usize, &str)] = &[
    (IeType::CAUSE, "01", 1, "Request accepted (success)"),
    (IeType::CAUSE, "44", 1, "Invalid length"),
    (IeType::CAUSE, "fe", 1, "cause 254"),
    (IeType::OFFENDING_IE, "0015", 2, "F-TEID"),
    (
        IeType::OFFENDING_IE_INFORMATION,
        "0038 0001",
        2,
        "OffendingIeInformation { ie_type: PDR ID, value: [0, 1] }",
    ),
    (IeType::FAILED_RULE_ID, "00 0007", 3, "Pdr(PdrId(7))"),
    (IeType::FAILED_RULE_ID, "01 00000007", 5, "Far(FarId(7))"),
    (IeType::FAILED_RULE_ID, "02 00000007", 5, "Qer(QerId(7))"),
    (IeType::FAILED_RULE_ID, "03 00000007", 5, "Urr(UrrId(7))"),
    (IeType::FAILED_RULE_ID, "04 07", 2, "Bar(BarId(7))"),
    (IeType::FAILED_RULE_ID, "05 0007", 3, "Mar(MarId(7))"),
    (IeType::FAILED_RULE_ID, "06 07", 2, "Srr(SrrId(7))"),
    (IeType::NODE_ID, "00 c0000201", 5, "V4(192.0.2.1)"),
    (IeType::NODE_ID, "01 20010db8000000000000000000000001", 17, "V6(2001:db8::1)"),
    (IeType::NODE_ID, "02 03736d66 076578616d706c65", 1, "Fqdn(smf.example)"),
    (
        IeType::F_SEID,
        "03 0102030405060708 c0000201 20010db8000000000000000000000001",
        29,
        "FSeid { seid: 72623859790382856, v4: Some(192.0.2.1), v6: Some(2001:db8::1) }",
    ),
    (
        IeType::F_SEID,
        "02 0000000000000001 c0000201",
        13,
        "FSeid { seid: 1, v4: Some(192.0.2.1), v6: None }",
    ),
    (IeType::RECOVERY_TIME_STAMP, "e8000001", 4, "3892314113"),
    (IeType::UP_FUNCTION_FEATURES, "1010", 1, "FTUP|TRACE"),
    (IeType::UP_FUNCTION_FEATURES, "1000 0c01 0202 20", 1, "FTUP|UEIP|SSET|MPAS|QFQM|QUASF|UPIDP"),
    (IeType::CP_FUNCTION_FEATURES, "0302", 1, "LOAD|OVRL|RPGUR"),
    (IeType::PFCP_ASSOCIATION_RELEASE_REQUEST, "03", 1, "SARR|URSS"),
    (IeType::GRACEFUL_RELEASE_PERIOD, "25", 1, "Timer { unit: 1, value: 5 }"),
    (IeType::NODE_REPORT_TYPE, "21", 1, "UPFR|VSR"),
    (
        IeType::REMOTE_GTP_U_PEER,
        "0e c0000201 0001 00 0003 6e3362",
        15,
        "RemoteGtpUPeer { v4: Some(192.0.2.1), v6: None, destination_interface: Some([0]), \
         network_instance: Some([110, 51, 98]) }",
    ),
    (
        IeType::ALTERNATIVE_SMF_IP_ADDRESS,
        "06 c0000201",
        5,
        "AlternativeSmfIpAddress { v4: Some(192.0.2.1), v6: None, is_preferred: true }",
    ),
    (
        IeType::CP_PFCP_ENTITY_IP_ADDRESS,
        "02 c0000201",
        5,
        "CpIpAddress { v4: Some(192.0.2.1), v6: None }",
    ),
    (
        IeType::CP_IP_ADDRESS,
        "01 20010db8000000000000000000000001",
        17,
        "CpIpAddress { v4: None, v6: Some(2001:db8::1) }",
    ),
    (IeType::SMF_SET_ID, "00 03736574", 1, "SmfSetId(set)"),
    (
        IeType::FQ_CSID,
        "02 c0000201 0001 0002 02",
        9,
        "FqCsid { node: V4(192.0.2.1), csids: [0, 1, 0, 2], node_type: Some(2) }",
    ),
    (
        IeType::FQ_CSID,
        "21 01002003 0001",
        7,
        "FqCsid { node: Operator(16785411), csids: [0, 1], node_type: None }",
    ),
    (IeType::GROUP_ID, "6731", 0, "\"g1\""),
    (
        IeType::NF_INSTANCE_ID,
        "00010203040506070809 0a0b0c0d0e0f",
        16,
        "NfInstanceId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15])",
    ),
    (IeType::SEQUENCE_NUMBER, "00000009", 4, "9"),
    (IeType::METRIC, "64", 1, "100"),
    (IeType::TIMER, "e0", 1, "Timer { unit: 7, value: 0 }"),
    (IeType::VALIDITY_TIMER, "0e10", 2, "3600"),
    (IeType::OCI_FLAGS, "01", 1, "AOCI"),
    (IeType::PFCPSMREQ_FLAGS, "27", 1, "DROBU|SNDEM|QAURR|DETEID"),
    (IeType::PFCPSRRSP_FLAGS, "01", 1, "DROBU"),
    (IeType::PFCPSRREQ_FLAGS, "01", 1, "PSDBU"),
    (IeType::PFCPAUREQ_FLAGS, "01", 1, "PARPS"),
    (IeType::PFCPASRSP_FLAGS, "03", 1, "PSREI|UUPSI"),
    (IeType::PFCPASREQ_FLAGS, "01", 1, "UUPSI"),
    (IeType::PFCPSEREQ_FLAGS, "03", 1, "RESTI|SUMPC"),
    (IeType::PFCPSDRSP_FLAGS, "01", 1, "PURU"),
    (IeType::PDN_TYPE, "05", 1, "PdnType(5)"),
    (IeType::USER_PLANE_INACTIVITY_TIMER, "0000001e", 4, "30"),
    (IeType::USER_ID, "09 02 2143 01 61", 6, "UserId { imsi: \"!C\", nai: \"a\" }"),
    (IeType::APN_DNN, "08 696e7465726e6574", 0, "internet"),
    (IeType::S_NSSAI, "01 010203", 4, "SNssai { sst: 1, sd: Some(66051) }"),
    (IeType::S_NSSAI, "01 ffffff", 4, "SNssai { sst: 1, sd: None }"),
    (IeType::RAT_TYPE, "03", 1, "3"),
    (IeType::IP_VERSION, "03", 1, "V4|V6"),
    (
        IeType::NUMBER_OF_UE_IP_ADDRESSES,
        "03 00000001 00000002",
        9,
        "NumberOfUeIpAddresses { v4: Some(1), v6: Some(2) }",
    ),
    (IeType::REPORT_TYPE, "4b", 1, "DLDR|USAR|UPIR|UISR"),
    (IeType::APPLICATION_ID, "61707031", 0, "\"app1\""),
    (
        IeType::PFD_CONTENTS,
        "95 00 0001 61 0001 62 0001 63 0008 0001 64 0003 746370",
        21,
        "PfdContents { flow_description: \"a\", domain_name: \"b\", domain_name_protocol: \"c\", \
         additional_domain_names: \"\\x00\\x01d\\x00\\x03tcp\" }",
    ),
    (IeType::PDR_ID, "0001", 2, "1"),
    (IeType::PRECEDENCE, "000000ff", 4, "255"),
    (IeType::SOURCE_INTERFACE, "02", 1, "SGi-LAN/N6-LAN"),
    (IeType::SOURCE_INTERFACE, "09", 1, "9"),
    (IeType::INTERFACE_TYPE_3GPP, "0b", 1, "N3 3GPP Access"),
    (
        IeType::F_TEID,
        "03 00000001 c0000201 20010db8000000000000000000000001",
        25,
        "Given { teid: 1, v4: Some(192.0.2.1), v6: Some(2001:db8::1) }",
    ),
    (IeType::F_TEID, "05", 1, "Choose { v4: true, v6: false, choose_id: None }"),
    (IeType::F_TEID, "0f 07", 2, "Choose { v4: true, v6: true, choose_id: Some(7) }"),
    (IeType::NETWORK_INSTANCE, "6e36", 0, "\"n6\""),
    (
        IeType::UE_IP_ADDRESS,
        "06 0a000001",
        5,
        "UeIpAddress { v4: Some(Given(10.0.0.1)), v6: None, is_destination: true, \
         prefix_delegation_bits: None, prefix_len: None }",
    ),
    (
        IeType::UE_IP_ADDRESS,
        "0b 0a000001 20010db8000000000000000000000000 08",
        22,
        "UeIpAddress { v4: Some(Given(10.0.0.1)), v6: Some(Given(2001:db8::)), is_destination: \
         false, prefix_delegation_bits: Some(8), prefix_len: None }",
    ),
    (
        IeType::UE_IP_ADDRESS,
        "70 38",
        2,
        "UeIpAddress { v4: Some(Choose), v6: Some(Choose), is_destination: false, \
         prefix_delegation_bits: None, prefix_len: Some(56) }",
    ),
    (
        IeType::UE_IP_ADDRESS_POOL_IDENTITY,
        "0002 7031",
        4,
        "UeIpAddressPoolIdentity([112, 49])",
    ),
    (
        IeType::SDF_FILTER,
        "1f 00 0003 616263 b8fc 00000001 0f0002 00000003",
        20,
        "SdfFilter { flow_description: \"abc\", traffic_class: TrafficClass { value: 184, mask: \
         252 }, spi: 1, flow_label: 983042, filter_id: 3 }",
    ),
    (IeType::SDF_FILTER, "10 00 00000003", 6, "SdfFilter { filter_id: 3 }"),
    (IeType::TRAFFIC_ENDPOINT_ID, "05", 1, "5"),
    (IeType::ETHERNET_PDU_SESSION_INFORMATION, "01", 1, "ETHI"),
    (IeType::ETHERNET_FILTER_ID, "00000005", 4, "5"),
    (IeType::ETHERNET_FILTER_PROPERTIES, "01", 1, "BIDE"),
    (
        IeType::MAC_ADDRESS,
        "05 020000000001 020000000009",
        13,
        "MacAddresses { src: Some(MacAddr([2, 0, 0, 0, 0, 1])), dst: None, src_upper: \
         Some(MacAddr([2, 0, 0, 0, 0, 9])), dst_upper: None }",
    ),
    (IeType::ETHERTYPE, "0800", 2, "2048"),
    (IeType::C_TAG, "07 fd ab", 3, "VlanTag { pcp: Some(5), dei: Some(true), vid: Some(4011) }"),
    (IeType::S_TAG, "04 10 02", 3, "VlanTag { pcp: None, dei: None, vid: Some(258) }"),
    (IeType::QFI, "09", 1, "Qfi(9)"),
    (IeType::FRAMED_ROUTE, "31302e302e302e302f38", 0, "\"10.0.0.0/8\""),
    (IeType::FRAMED_ROUTING, "00000003", 4, "3"),
    (IeType::FRAMED_IPV6_ROUTE, "3a3a2f30", 0, "\"::/0\""),
    (
        IeType::SOURCE_IP_ADDRESS,
        "06 c0000200 18",
        6,
        "SourceIpAddress { v4: Some(192.0.2.0), v6: None, prefix_len: Some(24) }",
    ),
    (IeType::IP_MULTICAST_ADDRESS, "08", 1, "Any"),
    (IeType::IP_MULTICAST_ADDRESS, "06 ef000001 ef000009", 9, "V4(239.0.0.1, Some(239.0.0.9))"),
    (
        IeType::IP_MULTICAST_ADDRESS,
        "01 ff020000000000000000000000000001",
        17,
        "V6(ff02::1, None)",
    ),
    (IeType::ACTIVATE_PREDEFINED_RULES, "7231", 0, "\"r1\""),
    (IeType::DEACTIVATE_PREDEFINED_RULES, "7231", 0, "\"r1\""),
    (IeType::ACTIVATION_TIME, "00000001", 4, "1"),
    (IeType::DEACTIVATION_TIME, "00000001", 4, "1"),
    (
        IeType::PACKET_REPLICATION_AND_DETECTION_CARRY_ON_INFORMATION,
        "0f",
        1,
        "PRIUEAI|PRIN19I|PRIN6I|DCARONI",
    ),
    (
        IeType::OUTER_HEADER_REMOVAL,
        "06",
        1,
        "OuterHeaderRemoval { description: GTP-U/UDP/IP, extension_deletion: None }",
    ),
    (
        IeType::OUTER_HEADER_REMOVAL,
        "00 01",
        1,
        "OuterHeaderRemoval { description: GTP-U/UDP/IPv4, extension_deletion: Some(1) }",
    ),
    (IeType::FAR_ID, "80000001", 4, "2147483649"),
    (IeType::APPLY_ACTION, "02", 1, "FORW"),
    (IeType::APPLY_ACTION, "0c 02", 1, "BUFF|NOCP|BDPN"),
    (IeType::DESTINATION_INTERFACE, "04", 1, "LI Function"),
    (IeType::REDIRECT_INFORMATION, "02 0001 61", 4, "type 2 \"a\""),
    (
        IeType::REDIRECT_INFORMATION,
        "08 0007 312e312e312e31 0003 3a3a31 0050",
        17,
        "type 8 \"1.1.1.1\" \"::1\" port 80",
    ),
    (
        IeType::OUTER_HEADER_CREATION,
        "0300 00000001 c0000201 20010db8000000000000000000000001",
        26,
        "OuterHeaderCreation { headers: GTP_U_UDP_IPV4|GTP_U_UDP_IPV6, teid: Some(1), v4: \
         Some(192.0.2.1), v6: Some(2001:db8::1), port: None, c_tag: None, s_tag: None }",
    ),
    (
        IeType::OUTER_HEADER_CREATION,
        "c402 c0000201 0050 040001 040002",
        14,
        "OuterHeaderCreation { headers: UDP_IPV4|C_TAG|S_TAG|N6_INDICATION, teid: None, v4: \
         Some(192.0.2.1), v6: None, port: Some(80), c_tag: Some(VlanTag { pcp: None, dei: None, \
         vid: Some(1) }), s_tag: Some(VlanTag { pcp: None, dei: None, vid: Some(2) }) }",
    ),
    (
        IeType::TRANSPORT_LEVEL_MARKING,
        "b8fc",
        2,
        "TrafficClass { value: 184, mask: 252 }",
    ),
    (IeType::FORWARDING_POLICY, "02 7031", 3, "\"p1\""),
    (IeType::HEADER_ENRICHMENT, "00 01 61 02 6263", 6, "type 0 \"a\": \"bc\""),
    (IeType::PROXYING, "03", 1, "ARP|INS"),
    (IeType::DATA_NETWORK_ACCESS_IDENTIFIER, "6431", 0, "\"d1\""),
    (IeType::MAR_ID, "0001", 2, "1"),
    (IeType::STEERING_FUNCTIONALITY, "01", 1, "1"),
    (IeType::STEERING_MODE, "02", 1, "2"),
    (IeType::WEIGHT, "32", 1, "50"),
    (IeType::PRIORITY, "01", 1, "1"),
    (IeType::SRR_ID, "01", 1, "1"),
    (IeType::BAR_ID, "01", 1, "1"),
    (IeType::DOWNLINK_DATA_NOTIFICATION_DELAY, "04", 1, "4"),
    (IeType::SUGGESTED_BUFFERING_PACKETS_COUNT, "40", 1, "64"),
    (IeType::DL_BUFFERING_DURATION, "41", 1, "Timer { unit: 2, value: 1 }"),
    (IeType::DL_BUFFERING_SUGGESTED_PACKET_COUNT, "0101", 1, "PacketCount(257)"),
    (IeType::DL_BUFFERING_SUGGESTED_PACKET_COUNT, "40", 1, "PacketCount(64)"),
    (
        IeType::DOWNLINK_DATA_SERVICE_INFORMATION,
        "03 2e 09",
        3,
        "DownlinkDataServiceInformation { paging_policy_indication: Some(46), qfi: Some(9) }",
    ),
    (IeType::DL_DATA_PACKETS_SIZE, "05dc", 2, "1500"),
    (IeType::DATA_STATUS, "02", 1, "BUFF"),
    (IeType::QER_ID, "00000001", 4, "1"),
    (IeType::QER_CORRELATION_ID, "00000001", 4, "1"),
    (IeType::GATE_STATUS, "04", 1, "GateStatus { ul_open: false, dl_open: true }"),
    (
        IeType::MBR,
        "ffffffffff 0000989680",
        10,
        "BitRates { ul_kbps: 1099511627775, dl_kbps: 10000000 }",
    ),
    (IeType::GBR, "0000000001 0000000002", 10, "BitRates { ul_kbps: 1, dl_kbps: 2 }"),
    (
        IeType::PACKET_RATE,
        "05 01 0064 02 000a",
        7,
        "PacketRates { ul: Some(Rate { unit: 1, packets: 100 }), dl: None, additional: \
         Some(AdditionalRates { ul: Some(Rate { unit: 2, packets: 10 }), dl: None }) }",
    ),
    (
        IeType::PACKET_RATE_STATUS,
        "07 0001 0002 0003 0004 0000000000000005",
        17,
        "PacketRateStatus { ul: Some(Remaining { packets: 1, additional: Some(2) }), dl: \
         Some(Remaining { packets: 3, additional: Some(4) }), validity_time: Some(5) }",
    ),
    (
        IeType::DL_FLOW_LEVEL_MARKING,
        "03 b8fc 0100",
        5,
        "DlFlowLevelMarking { traffic_class: Some(TrafficClass { value: 184, mask: 252 }), \
         service_class_indicator: Some(256) }",
    ),
    (IeType::RQI, "01", 1, "Rqi(1)"),
    (IeType::PAGING_POLICY_INDICATOR, "05", 1, "PagingPolicyIndicator(5)"),
    (IeType::AVERAGING_WINDOW, "000007d0", 4, "2000"),
    (IeType::QER_CONTROL_INDICATIONS, "01", 1, "RCSR"),
    (IeType::QER_INDICATIONS, "01", 1, "IQFISN"),
    (IeType::URR_ID, "00000001", 4, "1"),
    (IeType::LINKED_URR_ID, "00000002", 4, "2"),
    (IeType::AGGREGATED_URR_ID, "00000002", 4, "2"),
    (
        IeType::MULTIPLIER,
        "0000000000000002 ffffffff",
        12,
        "Multiplier { digits: 2, exponent: -1 }",
    ),
    (IeType::MEASUREMENT_METHOD, "07", 1, "DURAT|VOLUM|EVENT"),
    (IeType::REPORTING_TRIGGERS, "0300", 1, "PERIO|VOLTH"),
    (IeType::REPORTING_TRIGGERS, "8081 02", 1, "LIUSA|VOLQU|QUVTI|UPINT"),
    (IeType::USAGE_REPORT_TRIGGER, "8048", 1, "IMMER|TERMR|MACAR"),
    (IeType::USAGE_REPORT_TRIGGER, "0000 21", 1, "EVEQU|UPINT"),
    (IeType::MEASUREMENT_PERIOD, "0000003c", 4, "60"),
    (IeType::MEASUREMENT_INFORMATION, "12", 1, "INAM|MNOP"),
    (
        IeType::VOLUME_THRESHOLD,
        "07 0000000000000001 0000000000000002 0000000000000003",
        25,
        "Volume { total: Some(1), ul: Some(2), dl: Some(3) }",
    ),
    (
        IeType::VOLUME_QUOTA,
        "04 0000000000000003",
        9,
        "Volume { total: None, ul: None, dl: Some(3) }",
    ),
    (
        IeType::SUBSEQUENT_VOLUME_THRESHOLD,
        "01 0000000000000003",
        9,
        "Volume { total: Some(3), ul: None, dl: None }",
    ),
    (
        IeType::SUBSEQUENT_VOLUME_QUOTA,
        "02 0000000000000003",
        9,
        "Volume { total: None, ul: Some(3), dl: None }",
    ),
    (IeType::TIME_THRESHOLD, "00000001", 4, "1"),
    (IeType::TIME_QUOTA, "00000001", 4, "1"),
    (IeType::SUBSEQUENT_TIME_THRESHOLD, "00000001", 4, "1"),
    (IeType::SUBSEQUENT_TIME_QUOTA, "00000001", 4, "1"),
    (IeType::EVENT_THRESHOLD, "00000001", 4, "1"),
    (IeType::EVENT_QUOTA, "00000001", 4, "1"),
    (IeType::SUBSEQUENT_EVENT_THRESHOLD, "00000001", 4, "1"),
    (IeType::SUBSEQUENT_EVENT_QUOTA, "00000001", 4, "1"),
    (
        IeType::DROPPED_DL_TRAFFIC_THRESHOLD,
        "03 0000000000000001 0000000000000002",
        17,
        "DroppedDlTraffic { packets: Some(1), octets: Some(2) }",
    ),
    (IeType::QUOTA_HOLDING_TIME, "00000001", 4, "1"),
    (IeType::QUOTA_VALIDITY_TIME, "00000001", 4, "1"),
    (IeType::MONITORING_TIME, "00000001", 4, "1"),
    (IeType::INACTIVITY_DETECTION_TIME, "00000001", 4, "1"),
    (IeType::ETHERNET_INACTIVITY_TIMER, "00000001", 4, "1"),
    (
        IeType::TIME_QUOTA_MECHANISM,
        "01 0000003c",
        5,
        "TimeQuotaMechanism { interval_type: 1, interval: 60 }",
    ),
    (IeType::NUMBER_OF_REPORTS, "0005", 2, "5"),
    (IeType::UR_SEQN, "00000005", 4, "5"),
    (
        IeType::VOLUME_MEASUREMENT,
        "3f 0000000000000001 0000000000000002 0000000000000003 0000000000000004 \
         0000000000000005 0000000000000006",
        49,
        "VolumeMeasurement { total: Some(1), ul: Some(2), dl: Some(3), total_packets: Some(4), \
         ul_packets: Some(5), dl_packets: Some(6) }",
    ),
    (IeType::DURATION_MEASUREMENT, "00000001", 4, "1"),
    (IeType::TIME_OF_FIRST_PACKET, "00000001", 4, "1"),
    (IeType::TIME_OF_LAST_PACKET, "00000001", 4, "1"),
    (IeType::START_TIME, "00000001", 4, "1"),
    (IeType::END_TIME, "00000001", 4, "1"),
    (IeType::TIME_STAMP, "00000001", 4, "1"),
    (IeType::USAGE_INFORMATION, "0a", 1, "AFT|UBE"),
    (IeType::QUERY_URR_REFERENCE, "00000001", 4, "1"),
    (IeType::ADDITIONAL_USAGE_REPORTS_INFORMATION, "8000", 2, "WillFollow"),
    (IeType::ADDITIONAL_USAGE_REPORTS_INFORMATION, "0102", 2, "Total(258)"),
    (IeType::APPLICATION_INSTANCE_ID, "69", 0, "\"i\""),
    (IeType::FLOW_INFORMATION, "02 0001 61", 4, "direction 2 \"a\""),
    (
        IeType::MAC_ADDRESSES_DETECTED,
        "01 020000000001 03 040001 00",
        7,
        "MacAddressList { addresses: [2, 0, 0, 0, 0, 1], c_tag: Some(VlanTag { pcp: None, dei: \
         None, vid: Some(1) }), s_tag: None }",
    ),
    (
        IeType::MAC_ADDRESSES_REMOVED,
        "00 00 00",
        1,
        "MacAddressList { addresses: [], c_tag: None, s_tag: None }",
    ),
];

#[test]
fn values_and_bytes_agree() {
    for &(ie_type, text, _, shown) in TABLE {
        let value = hex(text);
        assert_eq!(key::check(ie_type, &value), Ok(()), "{ie_type} {text}");
        let ie = Ie {
            ie_type,
            enterprise: None,
            value: &value,
        };
        assert_eq!(ie.to_string(), format!("{ie_type}: {shown}"));
        let mut written = [0xee; 64];
        let len = key::rewrite(ie_type, &value, &mut written);
        assert_eq!(len.map(|len| &written[..len]), Some(&value[..]), "{ie_type} {text}");
        let form = ie_type.definition().expect("it is in the table").form;
        assert!(form.allows(value.len()), "{ie_type} {text} {form:?}");
    }
}

#[test]
fn every_key_has_a_row() {
    for ie_type in key::TYPED {
        assert!(TABLE.iter().any(|row| row.0 == *ie_type), "{ie_type}");
    }
}

#[test]
fn short_values_have_an_invalid_length() {
    for &(ie_type, text, least, _) in TABLE {
        let value = hex(text);
        for len in 0..least {
            let cut = key::check(ie_type, &value[..len]);
            assert_eq!(cut, Err(Fault::Length), "{ie_type} {text} cut at {len}");
        }
        assert_eq!(key::check(ie_type, &value), Ok(()), "{ie_type} {text}");
    }
}

/// IEs whose last field takes what is there, or is there when there is more.
const OPEN_ENDED: &[IeType] = &[
    IeType::APPLY_ACTION,
    IeType::CP_FUNCTION_FEATURES,
    IeType::FQ_CSID,
    IeType::NODE_ID,
    IeType::OUTER_HEADER_REMOVAL,
    IeType::REPORTING_TRIGGERS,
    IeType::SMF_SET_ID,
    IeType::UP_FUNCTION_FEATURES,
    IeType::USAGE_REPORT_TRIGGER,
];

/// What later releases append is no error, and is not written again.
#[test]
fn octets_behind_an_extendable_value_are_ignored() {
    for &(ie_type, text, ..) in TABLE {
        let form = ie_type.definition().map(|definition| definition.form);
        let is_extendable = matches!(form, Some(Form::Extendable(_)));
        if !is_extendable || OPEN_ENDED.contains(&ie_type) {
            continue;
        }
        let value = hex(text);
        let longer = [&value[..], &[0xff, 0xff]].concat();
        let mut written = [0; 64];
        let len = key::rewrite(ie_type, &longer, &mut written).expect("it is readable");
        assert_eq!(written[..len], value, "{ie_type} {text}");
    }
}

#[test]
fn contradictions_and_reserved_values_are_refused() {
    let table = [
        (IeType::CAUSE, "00"),
        (IeType::NODE_ID, "03 c0000201"),
        (IeType::NODE_ID, "02"),
        (IeType::NODE_ID, "02 04736d66"),
        (IeType::NODE_ID, "02 40736d66"),
        (IeType::NODE_ID, "02 0000"),
        (IeType::F_SEID, "00 0000000000000001"),
        (IeType::F_TEID, "00 00000001"),
        (IeType::F_TEID, "04"),
        (IeType::F_TEID, "09 00000001 c0000201 07"),
        (IeType::UE_IP_ADDRESS, "04"),
        (IeType::UE_IP_ADDRESS, "12 0a000001"),
        (IeType::UE_IP_ADDRESS, "60 81"),
        (IeType::UE_IP_ADDRESS, "28 41"),
        (IeType::REMOTE_GTP_U_PEER, "00"),
        (IeType::CP_IP_ADDRESS, "00"),
        (IeType::IP_MULTICAST_ADDRESS, "03 00000000"),
        (IeType::FQ_CSID, "31 00000000 0001"),
        (IeType::OUTER_HEADER_CREATION, "0000"),
        (IeType::OUTER_HEADER_CREATION, "0080"),
        (IeType::APPLY_ACTION, "00"),
        (IeType::APPLY_ACTION, "03"),
        (IeType::APPLY_ACTION, "08"),
        (IeType::REPORTING_TRIGGERS, "0000"),
        (IeType::USAGE_REPORT_TRIGGER, "0000"),
        (IeType::MEASUREMENT_METHOD, "00"),
        (IeType::REPORT_TYPE, "00"),
        (IeType::NODE_REPORT_TYPE, "00"),
        (IeType::VOLUME_THRESHOLD, "00"),
        (IeType::VOLUME_MEASUREMENT, "00"),
        (IeType::PACKET_RATE, "04"),
    ];
    for (ie_type, text) in table {
        assert_eq!(key::check(ie_type, &hex(text)), Err(Fault::Value), "{ie_type} {text}");
    }
    let count = IeType::DL_BUFFERING_SUGGESTED_PACKET_COUNT;
    assert_eq!(key::check(count, &[0, 0, 1]), Err(Fault::Length), "one octet or two");
}

#[test]
fn timers_are_seconds() {
    use super::node::Timer;
    let table = [(0, 0), (1, 2), (62, 62), (63, 120), (1860, 1860), (1861, 2400), (1_116_000, 1_116_000)];
    for (seconds, shown) in table {
        assert_eq!(Timer::at_least(seconds).seconds(), Some(shown), "{seconds}");
    }
    assert_eq!(Timer::at_least(1_116_001), Timer::INFINITE);
    assert_eq!(Timer::INFINITE.seconds(), None);
    assert_eq!(Timer { unit: 6, value: 3 }.seconds(), Some(180), "spare units are minutes");
}

proptest! {
    /// Whatever can be read can be written and reads back the same; `rewrite` compares.
    #[test]
    fn emit_then_parse_is_identity(
        index in 0..key::TYPED.len(), value in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let ie_type = key::TYPED[index];
        let mut written = [0; 256];
        let len = key::rewrite(ie_type, &value, &mut written);
        prop_assert_eq!(len.is_some(), key::check(ie_type, &value).is_ok());
        if let Some(len) = len {
            let mut again = [0; 256];
            let second = key::rewrite(ie_type, &written[..len], &mut again);
            prop_assert_eq!(second.map(|len| &again[..len]), Some(&written[..len]));
        }
        let ie = Ie { ie_type, enterprise: None, value: &value };
        prop_assert!(ie.to_string().starts_with(&ie_type.to_string()));
    }

    /// The same near values that are right.
    #[test]
    fn spoiled_values_do_not_panic(index in 0..TABLE.len(), at: usize, octet: u8, cut: usize) {
        let (ie_type, text, ..) = TABLE[index];
        let mut value = hex(text);
        let len = value.len();
        value[at % len] = octet;
        value.truncate(cut % (len + 1));
        let mut written = [0; 256];
        let is_read = key::rewrite(ie_type, &value, &mut written).is_some();
        prop_assert_eq!(is_read, key::check(ie_type, &value).is_ok());
    }
}
