// SPDX-License-Identifier: Apache-2.0
//! Messages of PFCP as a control plane and a UPF exchange them: of sessions here, of nodes, rules
//! and reports beside. Others make the same ones with their own codecs, in `tests/oracle`.

use catena_wire::pfcp::cause::Cause;
use catena_wire::pfcp::value::address::{
    Allocation, FSeid, FTeid, NodeId, RemoteGtpUPeer, UeIpAddress,
};
use catena_wire::pfcp::value::detection::{PfdContents, SdfFilter};
use catena_wire::pfcp::value::flags::{
    ApplyAction, GtpUPathInterfaceType, MeasurementMethod, NodeReportType, QosReportTrigger,
    ReportType, ReportingTriggers, SessionModificationRequestFlags, UpFunctionFeatures,
    UsageReportTrigger,
};
use catena_wire::pfcp::value::forwarding::{
    DestinationInterface, OuterHeaderCreation, OuterHeaderRemoval, OuterHeaders, RemovedHeader,
    SourceInterface, TrafficClass,
};
use catena_wire::pfcp::value::node::Timer;
use catena_wire::pfcp::value::qos::{BitRates, GateStatus, Qfi};
use catena_wire::pfcp::value::usage::{Volume, VolumeMeasurement};
use catena_wire::pfcp::value::{
    BarId, FarId, Milliseconds, NotificationDelay, PdrId, QerId, Seconds, Time, UrrId,
};
use catena_wire::pfcp::{Full, Header, IeType, MessageType, Writer, key};
use std::net::Ipv4Addr;

pub(crate) const NODE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// One message.
pub(crate) struct Sample {
    /// As the other codecs call it.
    #[allow(dead_code, reason = "some tests want bytes alone")]
    pub(crate) name: &'static str,
    /// The first release in which it means what it says: not all codecs know the later ones.
    #[allow(dead_code, reason = "some tests want bytes alone")]
    pub(crate) release: u8,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn sample(name: &'static str, release: u8, bytes: Vec<u8>) -> Sample {
    Sample {
        name,
        release,
        bytes,
    }
}

pub(crate) fn message(
    message_type: MessageType,
    seid: Option<u64>,
    fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
) -> Vec<u8> {
    let header = Header::new(message_type, seid, 0x01_0203);
    let mut bytes = vec![0; 2000];
    let mut writer = Writer::new(&mut bytes, &header).expect("there is room");
    fill(&mut writer).expect("there is room");
    let len = writer.finish().expect("it is short");
    bytes.truncate(len);
    bytes
}

fn association_setup() -> Vec<u8> {
    message(MessageType::ASSOCIATION_SETUP_RESPONSE, None, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(NODE))?;
        writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)?;
        writer.put(key::RECOVERY_TIME_STAMP, &Time(0xe800_0001))?;
        let features = UpFunctionFeatures::FTUP | UpFunctionFeatures::EMPU;
        writer.put(key::UP_FUNCTION_FEATURES, &features)
    })
}

fn create_pdr(writer: &mut Writer<'_>) -> Result<(), Full> {
    writer.group(IeType::CREATE_PDR, |pdr| {
        pdr.put(key::PDR_ID, &PdrId(1))?;
        pdr.put(key::PRECEDENCE, &100)?;
        pdr.group(IeType::PDI, |pdi| {
            pdi.put(key::SOURCE_INTERFACE, &SourceInterface::ACCESS)?;
            let tunnel = FTeid::Given {
                teid: 0x0102_0304,
                v4: Some(Ipv4Addr::new(192, 0, 2, 2)),
                v6: None,
            };
            pdi.put(key::F_TEID, &tunnel)?;
            // As the labels of a name: what scapy writes, and others pass on.
            pdi.put(key::NETWORK_INSTANCE, &&b"\x02n3"[..])?;
            let address = UeIpAddress {
                v4: Some(Allocation::Given(Ipv4Addr::new(10, 0, 0, 1))),
                ..UeIpAddress::default()
            };
            pdi.put(key::UE_IP_ADDRESS, &address)?;
            let filter = SdfFilter {
                flow_description: Some(b"permit out ip from any to assigned"),
                traffic_class: Some(TrafficClass {
                    value: 0xb8,
                    mask: 0xfc,
                }),
                spi: Some(0x0a0b_0c0d),
                flow_label: Some(0x1_2345),
                filter_id: Some(3),
            };
            pdi.put(key::SDF_FILTER, &filter)?;
            pdi.put(key::QFI, &Qfi(9))
        })?;
        let removal = OuterHeaderRemoval {
            description: RemovedHeader::GTP_U_UDP_IP,
            extension_deletion: None,
        };
        pdr.put(key::OUTER_HEADER_REMOVAL, &removal)?;
        pdr.put(key::FAR_ID, &FarId(1))?;
        pdr.put(key::URR_ID, &UrrId(1))?;
        pdr.put(key::QER_ID, &QerId(1))
    })
}

fn establishment() -> Vec<u8> {
    message(
        MessageType::SESSION_ESTABLISHMENT_REQUEST,
        Some(0),
        |writer| {
            writer.put(key::NODE_ID, &NodeId::V4(NODE))?;
            let seid = FSeid {
                seid: 0x0102_0304_0506_0708,
                v4: Some(NODE),
                v6: None,
            };
            writer.put(key::F_SEID, &seid)?;
            create_pdr(writer)?;
            writer.group(IeType::CREATE_FAR, |far| {
                far.put(key::FAR_ID, &FarId(1))?;
                far.put(key::APPLY_ACTION, &ApplyAction::FORW)?;
                far.group(IeType::FORWARDING_PARAMETERS, |parameters| {
                    parameters.put(key::DESTINATION_INTERFACE, &DestinationInterface::CORE)?;
                    let outer = OuterHeaderCreation {
                        headers: OuterHeaders::GTP_U_UDP_IPV4,
                        teid: Some(7),
                        v4: Some(Ipv4Addr::new(192, 0, 2, 3)),
                        ..OuterHeaderCreation::default()
                    };
                    parameters.put(key::OUTER_HEADER_CREATION, &outer)
                })
            })?;
            writer.group(IeType::CREATE_URR, |urr| {
                urr.put(key::URR_ID, &UrrId(1))?;
                urr.put(key::MEASUREMENT_METHOD, &MeasurementMethod::VOLUM)?;
                let triggers = ReportingTriggers::VOLTH | ReportingTriggers::VOLQU;
                urr.put(key::REPORTING_TRIGGERS, &triggers)?;
                let volume = |total| Volume {
                    total: Some(total),
                    ..Volume::default()
                };
                urr.put(key::VOLUME_THRESHOLD, &volume(1 << 40))?;
                urr.put(key::VOLUME_QUOTA, &volume(1 << 41))
            })?;
            writer.group(IeType::CREATE_QER, |qer| {
                qer.put(key::QER_ID, &QerId(1))?;
                let gates = GateStatus {
                    ul_open: true,
                    dl_open: false,
                };
                qer.put(key::GATE_STATUS, &gates)?;
                // Above 32 bits of bit/s, and of kbit/s.
                let rates = BitRates {
                    ul_kbps: 5_000_000,
                    dl_kbps: 5_000_000_000,
                };
                qer.put(key::MBR, &rates)?;
                qer.put(key::QFI, &Qfi(9))
            })
        },
    )
}

fn report() -> Vec<u8> {
    message(MessageType::SESSION_REPORT_REQUEST, Some(7), |writer| {
        writer.put(key::REPORT_TYPE, &(ReportType::DLDR | ReportType::USAR))?;
        writer.group(IeType::DOWNLINK_DATA_REPORT, |data| {
            data.put(key::PDR_ID, &PdrId(2))
        })?;
        writer.group(IeType::USAGE_REPORT_REPORT, |report| {
            report.put(key::URR_ID, &UrrId(1))?;
            report.put(key::UR_SEQN, &3)?;
            report.put(key::USAGE_REPORT_TRIGGER, &UsageReportTrigger::VOLTH)?;
            report.put(key::START_TIME, &Time(0xe800_0001))?;
            report.put(key::END_TIME, &Time(0xe800_0003))?;
            let volume = VolumeMeasurement {
                total: Some(3 << 40),
                ul: Some(1 << 40),
                dl: Some(2 << 40),
                ..VolumeMeasurement::default()
            };
            report.put(key::VOLUME_MEASUREMENT, &volume)?;
            report.put(key::DURATION_MEASUREMENT, &Seconds(2))
        })
    })
}

/// A handover among other changes: a tunnel that moves, with an end marker.
fn modification() -> Vec<u8> {
    message(
        MessageType::SESSION_MODIFICATION_REQUEST,
        Some(7),
        |writer| {
            writer.group(IeType::REMOVE_PDR, |pdr| pdr.put(key::PDR_ID, &PdrId(2)))?;
            writer.group(IeType::CREATE_BAR, |bar| {
                bar.put(key::BAR_ID, &BarId(1))?;
                bar.put(key::DOWNLINK_DATA_NOTIFICATION_DELAY, &NotificationDelay(3))?;
                bar.put(key::SUGGESTED_BUFFERING_PACKETS_COUNT, &20)
            })?;
            writer.group(IeType::UPDATE_FAR, |far| {
                far.put(key::FAR_ID, &FarId(1))?;
                far.put(key::APPLY_ACTION, &ApplyAction::FORW)?;
                far.group(IeType::UPDATE_FORWARDING_PARAMETERS, |parameters| {
                    parameters.put(key::DESTINATION_INTERFACE, &DestinationInterface::ACCESS)?;
                    let outer = OuterHeaderCreation {
                        headers: OuterHeaders::GTP_U_UDP_IPV4,
                        teid: Some(8),
                        v4: Some(Ipv4Addr::new(192, 0, 2, 4)),
                        ..OuterHeaderCreation::default()
                    };
                    parameters.put(key::OUTER_HEADER_CREATION, &outer)?;
                    parameters.put(
                        key::PFCPSMREQ_FLAGS,
                        &SessionModificationRequestFlags::SNDEM,
                    )
                })?;
                far.put(key::BAR_ID, &BarId(1))
            })?;
            writer.group(IeType::QUERY_URR, |urr| urr.put(key::URR_ID, &UrrId(1)))
        },
    )
}

/// What a session's end answers: its last usage.
fn deletion() -> Vec<u8> {
    message(MessageType::SESSION_DELETION_RESPONSE, Some(7), |writer| {
        writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)?;
        writer.group(IeType::USAGE_REPORT_DELETION, |report| {
            report.put(key::URR_ID, &UrrId(1))?;
            report.put(key::UR_SEQN, &4)?;
            report.put(key::USAGE_REPORT_TRIGGER, &UsageReportTrigger::TERMR)?;
            report.put(key::START_TIME, &Time(0xe800_0001))?;
            report.put(key::END_TIME, &Time(0xe800_0003))?;
            let volume = VolumeMeasurement {
                total: Some(3),
                ul: Some(1),
                dl: Some(2),
                ..VolumeMeasurement::default()
            };
            report.put(key::VOLUME_MEASUREMENT, &volume)
        })
    })
}

/// What an application is known by.
fn pfds() -> Vec<u8> {
    message(MessageType::PFD_MANAGEMENT_REQUEST, None, |writer| {
        writer.group(IeType::APPLICATION_ID_PFDS, |pfds| {
            pfds.put(key::APPLICATION_ID, &&b"video"[..])?;
            pfds.group(IeType::PFD_CONTEXT, |context| {
                let contents = PfdContents {
                    flow_description: Some(b"permit out 6 from 192.0.2.0/24 443 to assigned"),
                    url: Some(b"https://example.com/video"),
                    domain_name: Some(b"example.com"),
                    ..PfdContents::default()
                };
                context.put(key::PFD_CONTENTS, &contents)
            })
        })
    })
}

/// The peer of a GTP-U path.
const PEER: RemoteGtpUPeer<'_> = RemoteGtpUPeer {
    v4: Some(Ipv4Addr::new(192, 0, 2, 3)),
    v6: None,
    destination_interface: None,
    network_instance: None,
};

const fn dscp(value: u8) -> TrafficClass {
    TrafficClass {
        value: value << 2,
        mask: 0xfc,
    }
}

/// What an SMF wants to know of GTP-U paths.
fn path_control() -> Vec<u8> {
    message(MessageType::ASSOCIATION_UPDATE_REQUEST, None, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(NODE))?;
        let group = IeType::GTP_U_PATH_QOS_CONTROL_INFORMATION;
        writer.group(group, |control| {
            control.put(key::REMOTE_GTP_U_PEER, &PEER)?;
            let interfaces = GtpUPathInterfaceType::N3;
            control.put(key::GTP_U_PATH_INTERFACE_TYPE, &interfaces)?;
            let trigger = QosReportTrigger::PER | QosReportTrigger::THR;
            control.put(key::QOS_REPORT_TRIGGER, &trigger)?;
            control.put(key::TRANSPORT_LEVEL_MARKING, &dscp(46))?;
            control.put(key::TRANSPORT_LEVEL_MARKING, &dscp(10))?;
            control.put(key::MEASUREMENT_PERIOD, &Seconds(60))?;
            control.put(key::AVERAGE_PACKET_DELAY, &Milliseconds(5))?;
            control.put(key::MINIMUM_PACKET_DELAY, &Milliseconds(3))?;
            control.put(key::MAXIMUM_PACKET_DELAY, &Milliseconds(258))?;
            control.put(key::TIMER, &Timer::at_least(20))
        })
    })
}

/// What a UPF tells of a GTP-U path.
fn path_report() -> Vec<u8> {
    message(MessageType::NODE_REPORT_REQUEST, None, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(NODE))?;
        writer.put(key::NODE_REPORT_TYPE, &NodeReportType::GPQR)?;
        writer.group(IeType::GTP_U_PATH_QOS_REPORT, |report| {
            report.put(key::REMOTE_GTP_U_PEER, &PEER)?;
            let interfaces = GtpUPathInterfaceType::N9;
            report.put(key::GTP_U_PATH_INTERFACE_TYPE, &interfaces)?;
            report.put(key::QOS_REPORT_TRIGGER, &QosReportTrigger::IRE)?;
            report.put(key::TIME_STAMP, &Time(0xe800_0003))?;
            report.put(key::START_TIME, &Time(0xe800_0001))?;
            report.group(IeType::QOS_INFORMATION, |information| {
                information.put(key::AVERAGE_PACKET_DELAY, &Milliseconds(4))?;
                information.put(key::MINIMUM_PACKET_DELAY, &Milliseconds(1))?;
                information.put(key::MAXIMUM_PACKET_DELAY, &Milliseconds(70_000))?;
                information.put(key::TRANSPORT_LEVEL_MARKING, &dscp(46))
            })
        })
    })
}

pub(crate) fn all() -> [Sample; 8] {
    [
        sample("association_setup", 15, association_setup()),
        sample("establishment", 15, establishment()),
        sample("report", 15, report()),
        sample("modification", 15, modification()),
        sample("deletion", 15, deletion()),
        sample("pfds", 15, pfds()),
        sample("path_control", 17, path_control()),
        sample("path_report", 17, path_report()),
    ]
}
