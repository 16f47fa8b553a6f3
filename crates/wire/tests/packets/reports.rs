// SPDX-License-Identifier: Apache-2.0
//! What a UPF answers and tells: what it chose, its load, usage, and the answers to its reports.

use super::sessions::{NODE, Sample, message, sample};
use catena_wire::pfcp::cause::Cause;
use catena_wire::pfcp::value::address::{
    Allocation, AlternativeSmfIpAddress, FSeid, FTeid, FqCsid, FqCsidNode, NodeId, UeIpAddress,
};
use catena_wire::pfcp::value::detection::{FlowInformation, MacAddressList};
use catena_wire::pfcp::value::flags::{
    DataStatus, OciFlags, ReportType, SessionReportRequestFlags, SessionReportResponseFlags,
    UsageInformation, UsageReportTrigger,
};
use catena_wire::pfcp::value::forwarding::VlanTag;
use catena_wire::pfcp::value::node::{
    DownlinkDataServiceInformation, FailedRuleId, PacketCount, Timer,
};
use catena_wire::pfcp::value::qos::{
    PacketDelays, PacketRateStatus, Qfi, QosMonitoringMeasurement, Remaining,
};
use catena_wire::pfcp::value::usage::{AdditionalUsageReports, VolumeMeasurement};
use catena_wire::pfcp::value::{
    BarId, NotificationDelay, PdrId, QerId, Seconds, SrrId, Time, TrafficEndpointId, UrrId,
};
use catena_wire::pfcp::{Full, IeType, MessageType, Writer, key};
use std::net::{Ipv4Addr, Ipv6Addr};

const PEER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 5);
const TUNNEL: FTeid = FTeid::Given {
    teid: 0x0102_0304,
    v4: Some(Ipv4Addr::new(192, 0, 2, 2)),
    v6: None,
};

/// What was chosen, and how busy the UPF is.
fn established() -> Vec<u8> {
    let message_type = MessageType::SESSION_ESTABLISHMENT_RESPONSE;
    message(message_type, Some(7), |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(NODE))?;
        writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)?;
        let seid = FSeid {
            seid: 0x0807_0605_0403_0201,
            v4: Some(NODE),
            v6: Some(PEER_V6),
        };
        writer.put(key::F_SEID, &seid)?;
        writer.group(IeType::CREATED_PDR, |pdr| {
            pdr.put(key::PDR_ID, &PdrId(1))?;
            pdr.put(key::F_TEID, &TUNNEL)
        })?;
        writer.group(IeType::CREATED_PDR, |pdr| {
            pdr.put(key::PDR_ID, &PdrId(2))?;
            let tunnel = FTeid::Given {
                teid: 0x0102_0305,
                v4: None,
                v6: Some(PEER_V6),
            };
            pdr.put(key::F_TEID, &tunnel)
        })?;
        writer.group(IeType::LOAD_CONTROL_INFORMATION, |load| {
            load.put(key::SEQUENCE_NUMBER, &0xe800_0002)?;
            load.put(key::METRIC, &40)
        })?;
        writer.group(IeType::OVERLOAD_CONTROL_INFORMATION, |overload| {
            overload.put(key::SEQUENCE_NUMBER, &0xe800_0003)?;
            overload.put(key::METRIC, &60)?;
            overload.put(key::TIMER, &Timer::at_least(40))?;
            overload.put(key::OCI_FLAGS, &OciFlags::AOCI)
        })?;
        writer.group(IeType::CREATED_TRAFFIC_ENDPOINT, |endpoint| {
            endpoint.put(key::TRAFFIC_ENDPOINT_ID, &TrafficEndpointId(1))?;
            endpoint.put(key::F_TEID, &TUNNEL)
        })
    })
}

/// Addresses that were chosen (release 16), and the set that the session is in.
fn established_with_addresses() -> Vec<u8> {
    let message_type = MessageType::SESSION_ESTABLISHMENT_RESPONSE;
    message(message_type, Some(7), |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(NODE))?;
        writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)?;
        writer.group(IeType::CREATED_PDR, |pdr| {
            pdr.put(key::PDR_ID, &PdrId(1))?;
            let address = UeIpAddress {
                v4: Some(Allocation::Given(Ipv4Addr::new(10, 0, 0, 1))),
                v6: Some(Allocation::Given(PEER_V6)),
                is_destination: true,
                prefix_delegation_bits: None,
                prefix_len: Some(56),
            };
            pdr.put(key::UE_IP_ADDRESS, &address)
        })?;
        let set = FqCsid {
            node: FqCsidNode::V4(NODE),
            csids: &[0, 1],
            node_type: Some(5),
        };
        writer.put(key::FQ_CSID, &set)
    })
}

fn refused() -> Vec<u8> {
    let message_type = MessageType::SESSION_MODIFICATION_RESPONSE;
    message(message_type, Some(7), |writer| {
        writer.put(key::CAUSE, &Cause::RULE_CREATION_MODIFICATION_FAILURE)?;
        writer.put(key::FAILED_RULE_ID, &FailedRuleId::Pdr(PdrId(0x0203)))
    })
}

/// One usage report, with what comes between the reason and its end.
fn usage(
    writer: &mut Writer<'_>,
    group: IeType,
    trigger: UsageReportTrigger,
    fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
) -> Result<(), Full> {
    writer.group(group, |report| {
        report.put(key::URR_ID, &UrrId(1))?;
        report.put(key::UR_SEQN, &3)?;
        report.put(key::USAGE_REPORT_TRIGGER, &trigger)?;
        report.put(key::START_TIME, &Time(0xe800_0001))?;
        report.put(key::END_TIME, &Time(0xe800_0003))?;
        fill(report)
    })
}

/// Usage that was asked for, on both sides of a monitoring time.
fn queried() -> Vec<u8> {
    let message_type = MessageType::SESSION_MODIFICATION_RESPONSE;
    message(message_type, Some(7), |writer| {
        writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)?;
        writer.group(IeType::CREATED_PDR, |pdr| {
            pdr.put(key::PDR_ID, &PdrId(1))?;
            pdr.put(key::F_TEID, &TUNNEL)
        })?;
        let sides = [UsageInformation::BEF, UsageInformation::AFT];
        for side in sides {
            let trigger = UsageReportTrigger::IMMER | UsageReportTrigger::MONIT;
            usage(
                writer,
                IeType::USAGE_REPORT_MODIFICATION,
                trigger,
                |report| {
                    let volume = VolumeMeasurement {
                        ul: Some(1 << 40),
                        dl: Some(2),
                        ..VolumeMeasurement::default()
                    };
                    report.put(key::VOLUME_MEASUREMENT, &volume)?;
                    report.put(key::DURATION_MEASUREMENT, &Seconds(2))?;
                    report.put(key::TIME_OF_FIRST_PACKET, &Time(0xe800_0001))?;
                    report.put(key::TIME_OF_LAST_PACKET, &Time(0xe800_0002))?;
                    report.put(key::USAGE_INFORMATION, &(side | UsageInformation::UAE))?;
                    report.put(key::QUERY_URR_REFERENCE, &0x0a0b_0c0d)
                },
            )?;
        }
        let more = AdditionalUsageReports::Total(300);
        writer.put(key::ADDITIONAL_USAGE_REPORTS_INFORMATION, &more)
    })
}

/// Packets beside octets (release 16), and what is left of a packet rate.
fn queried_packets() -> Vec<u8> {
    let message_type = MessageType::SESSION_MODIFICATION_RESPONSE;
    message(message_type, Some(7), |writer| {
        writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)?;
        let trigger = UsageReportTrigger::QUVTI | UsageReportTrigger::EVEQU;
        usage(
            writer,
            IeType::USAGE_REPORT_MODIFICATION,
            trigger,
            |report| {
                let volume = VolumeMeasurement {
                    total: Some(7),
                    ul: Some(3),
                    dl: Some(4),
                    total_packets: Some(0x10),
                    ul_packets: Some(6),
                    dl_packets: Some(10),
                };
                report.put(key::VOLUME_MEASUREMENT, &volume)
            },
        )?;
        let more = AdditionalUsageReports::WillFollow;
        writer.put(key::ADDITIONAL_USAGE_REPORTS_INFORMATION, &more)?;
        let group = IeType::PACKET_RATE_STATUS_REPORT_MODIFICATION;
        writer.group(group, |report| {
            report.put(key::QER_ID, &QerId(1))?;
            let status = PacketRateStatus {
                ul: None,
                dl: Some(Remaining {
                    packets: 3,
                    additional: None,
                }),
                validity_time: Some(0xe800_0001 << 32),
            };
            report.put(key::PACKET_RATE_STATUS, &status)
        })
    })
}

/// A downlink packet that waits, an unknown tunnel at a gNB, silence, and an application.
fn told() -> Vec<u8> {
    message(MessageType::SESSION_REPORT_REQUEST, Some(7), |writer| {
        let kinds = ReportType::DLDR | ReportType::USAR | ReportType::ERIR | ReportType::UPIR;
        writer.put(key::REPORT_TYPE, &kinds)?;
        writer.group(IeType::DOWNLINK_DATA_REPORT, |data| {
            data.put(key::PDR_ID, &PdrId(2))?;
            let service = DownlinkDataServiceInformation {
                paging_policy_indication: Some(46),
                qfi: Some(9),
            };
            data.put(key::DOWNLINK_DATA_SERVICE_INFORMATION, &service)
        })?;
        let trigger = UsageReportTrigger::START;
        usage(writer, IeType::USAGE_REPORT_REPORT, trigger, |report| {
            report.group(IeType::APPLICATION_DETECTION_INFORMATION, |application| {
                application.put(key::APPLICATION_ID, &&b"video"[..])?;
                application.put(key::APPLICATION_INSTANCE_ID, &&b"1"[..])?;
                let flow = FlowInformation {
                    direction: 3,
                    description: b"permit out 17 from 192.0.2.5 443 to 10.0.0.1 4000",
                };
                application.put(key::FLOW_INFORMATION, &flow)
            })?;
            report.put(key::NETWORK_INSTANCE, &&b"\x02n6"[..])?;
            report.put(key::TIME_STAMP, &Time(0xe800_0002))
        })?;
        writer.group(IeType::ERROR_INDICATION_REPORT, |report| {
            report.put(key::F_TEID, &TUNNEL)
        })
    })
}

/// Stations at a UE, with the tags of their frames (release 16), and whether a packet was held.
fn told_of_stations() -> Vec<u8> {
    message(MessageType::SESSION_REPORT_REQUEST, Some(7), |writer| {
        writer.put(key::REPORT_TYPE, &(ReportType::USAR | ReportType::DLDR))?;
        writer.group(IeType::DOWNLINK_DATA_REPORT, |data| {
            data.put(key::PDR_ID, &PdrId(2))?;
            data.put(key::DATA_STATUS, &DataStatus::BUFF)
        })?;
        let trigger = UsageReportTrigger::MACAR;
        usage(writer, IeType::USAGE_REPORT_REPORT, trigger, |report| {
            report.group(IeType::ETHERNET_TRAFFIC_INFORMATION, |traffic| {
                let seen = MacAddressList {
                    addresses: &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2],
                    c_tag: Some(VlanTag {
                        pcp: Some(1),
                        dei: None,
                        vid: Some(0x123),
                    }),
                    s_tag: None,
                };
                traffic.put(key::MAC_ADDRESSES_DETECTED, &seen)?;
                let gone = MacAddressList {
                    addresses: &[2, 0, 0, 0, 0, 3],
                    c_tag: None,
                    s_tag: None,
                };
                traffic.put(key::MAC_ADDRESSES_REMOVED, &gone)
            })
        })
    })
}

/// Delays that were measured.
fn monitored() -> Vec<u8> {
    message(MessageType::SESSION_REPORT_REQUEST, Some(7), |writer| {
        writer.put(key::REPORT_TYPE, &ReportType::SESR)?;
        writer.group(IeType::SESSION_REPORT, |report| {
            report.put(key::SRR_ID, &SrrId(1))?;
            report.group(IeType::QOS_MONITORING_REPORT, |monitored| {
                monitored.put(key::QFI, &Qfi(9))?;
                let measured = QosMonitoringMeasurement {
                    delays: PacketDelays {
                        dl_ms: Some(11),
                        ul_ms: Some(21),
                        rp_ms: Some(70_001),
                    },
                    has_failed: false,
                };
                monitored.put(key::QOS_MONITORING_MEASUREMENT, &measured)?;
                monitored.put(key::TIME_STAMP, &Time(0xe800_0003))?;
                monitored.put(key::START_TIME, &Time(0xe800_0001))
            })
        })
    })
}

/// An answer that says how long a UPF shall hold packets, and to forget those it holds.
fn buffered(count: u16) -> Vec<u8> {
    message(MessageType::SESSION_REPORT_RESPONSE, Some(7), |writer| {
        writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)?;
        writer.group(IeType::UPDATE_BAR_REPORT_RESPONSE, |bar| {
            bar.put(key::BAR_ID, &BarId(1))?;
            bar.put(key::DOWNLINK_DATA_NOTIFICATION_DELAY, &NotificationDelay(3))?;
            bar.put(key::DL_BUFFERING_DURATION, &Timer { unit: 2, value: 1 })?;
            bar.put(
                key::DL_BUFFERING_SUGGESTED_PACKET_COUNT,
                &PacketCount(count),
            )?;
            bar.put(key::SUGGESTED_BUFFERING_PACKETS_COUNT, &20)
        })?;
        let flags = SessionReportResponseFlags::DROBU;
        writer.put(key::PFCPSRRSP_FLAGS, &flags)
    })
}

/// An answer that names another SMF of the set.
fn redirected() -> Vec<u8> {
    message(MessageType::SESSION_REPORT_RESPONSE, Some(7), |writer| {
        writer.put(key::CAUSE, &Cause::REDIRECTION_REQUESTED)?;
        let seid = FSeid {
            seid: 9,
            v4: Some(Ipv4Addr::new(192, 0, 2, 9)),
            v6: None,
        };
        writer.put(key::F_SEID, &seid)?;
        let other = AlternativeSmfIpAddress {
            v4: None,
            v6: Some(PEER_V6),
            is_preferred: false,
        };
        writer.put(key::ALTERNATIVE_SMF_IP_ADDRESS, &other)
    })
}

/// A session has ended.
fn ended() -> Vec<u8> {
    message(MessageType::SESSION_REPORT_REQUEST, Some(7), |writer| {
        writer.put(key::REPORT_TYPE, &ReportType::UISR)?;
        writer.put(key::PFCPSRREQ_FLAGS, &SessionReportRequestFlags::PSDBU)
    })
}

pub(crate) fn all() -> [Sample; 12] {
    [
        sample("established", 15, established()),
        sample(
            "established_with_addresses",
            16,
            established_with_addresses(),
        ),
        sample("refused", 15, refused()),
        sample("queried", 15, queried()),
        sample("queried_packets", 16, queried_packets()),
        sample("told", 15, told()),
        sample("told_of_stations", 16, told_of_stations()),
        sample("ended", 16, ended()),
        sample("monitored", 16, monitored()),
        sample("buffered", 15, buffered(200)),
        sample("buffered_for_long", 15, buffered(300)),
        sample("redirected", 16, redirected()),
    ]
}
