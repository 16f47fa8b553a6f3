// SPDX-License-Identifier: Apache-2.0
//! Requests with rules of every kind: traffic endpoints, Ethernet, charging, QoS, forwarding.

use super::sessions::{NODE, Sample, message, sample};
use catena_wire::ethernet::MacAddr;
use catena_wire::pfcp::value::address::{
    Allocation, FSeid, FTeid, NodeId, UeIpAddress, UeIpAddressPoolIdentity,
};
use catena_wire::pfcp::value::detection::{MacAddresses, SNssai, UserId};
use catena_wire::pfcp::value::flags::{
    ApplyAction, EthernetFilterProperties, EthernetPduSessionInformation, MeasurementInformation,
    MeasurementMethod, Proxying, QerControlIndications, ReportingFrequency, ReportingTriggers,
    RequestedQosMonitoring, SessionEstablishmentRequestFlags,
};
use catena_wire::pfcp::value::forwarding::{
    DestinationInterface, ForwardingPolicy, HeaderEnrichment, InterfaceType, OuterHeaderCreation,
    OuterHeaders, RedirectInformation, SourceInterface, TrafficClass, VlanTag,
};
use catena_wire::pfcp::value::node::PdnType;
use catena_wire::pfcp::value::qos::{
    AdditionalRates, BitRates, DlFlowLevelMarking, GateStatus, PacketDelayThresholds, PacketDelays,
    PacketRateStatus, PacketRates, PagingPolicyIndicator, Qfi, Rate, Remaining, Rqi,
};
use catena_wire::pfcp::value::usage::{DroppedDlTraffic, Multiplier, TimeQuotaMechanism, Volume};
use catena_wire::pfcp::value::{
    FarId, Milliseconds, PdrId, QerId, Seconds, SrrId, Time, TrafficEndpointId, UrrId,
};
use catena_wire::pfcp::{Full, Ie, IeType, MessageType, Writer, key};
use std::net::{Ipv4Addr, Ipv6Addr};

const CORE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 5);

/// A modification with `rules`.
fn modify(rules: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>) -> Vec<u8> {
    let message_type = MessageType::SESSION_MODIFICATION_REQUEST;
    message(message_type, Some(7), rules)
}

/// An establishment with `rules`.
fn establish(rules: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>) -> Vec<u8> {
    let message_type = MessageType::SESSION_ESTABLISHMENT_REQUEST;
    message(message_type, Some(0), |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(NODE))?;
        let seid = FSeid {
            seid: 0x0102_0304_0506_0708,
            v4: Some(NODE),
            v6: None,
        };
        writer.put(key::F_SEID, &seid)?;
        rules(writer)
    })
}

fn pdr(
    writer: &mut Writer<'_>,
    id: u16,
    pdi: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
) -> Result<(), Full> {
    writer.group(IeType::CREATE_PDR, |pdr| {
        pdr.put(key::PDR_ID, &PdrId(id))?;
        pdr.put(key::PRECEDENCE, &u32::from(id))?;
        pdr.group(IeType::PDI, pdi)?;
        pdr.put(key::FAR_ID, &FarId(1))
    })
}

fn far(
    writer: &mut Writer<'_>,
    id: u32,
    parameters: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
) -> Result<(), Full> {
    writer.group(IeType::CREATE_FAR, |far| {
        far.put(key::FAR_ID, &FarId(id))?;
        far.put(key::APPLY_ACTION, &ApplyAction::FORW)?;
        far.group(IeType::FORWARDING_PARAMETERS, |forwarding| {
            forwarding.put(key::DESTINATION_INTERFACE, &DestinationInterface::CORE)?;
            parameters(forwarding)
        })
    })
}

fn drop_all(writer: &mut Writer<'_>) -> Result<(), Full> {
    writer.group(IeType::CREATE_FAR, |far| {
        far.put(key::FAR_ID, &FarId(1))?;
        far.put(key::APPLY_ACTION, &ApplyAction::DROP)
    })
}

/// Two endpoints, which PDIs name: a tunnel that the UPF chooses, and a UE with networks behind it.
fn endpoints() -> Vec<u8> {
    establish(|writer| {
        pdr(writer, 1, |pdi| {
            pdi.put(key::SOURCE_INTERFACE, &SourceInterface::ACCESS)?;
            pdi.put(key::TRAFFIC_ENDPOINT_ID, &TrafficEndpointId(1))?;
            pdi.put(key::QFI, &Qfi(9))
        })?;
        pdr(writer, 2, |pdi| {
            pdi.put(key::SOURCE_INTERFACE, &SourceInterface::CORE)?;
            pdi.put(key::TRAFFIC_ENDPOINT_ID, &TrafficEndpointId(2))
        })?;
        drop_all(writer)?;
        writer.group(IeType::CREATE_TRAFFIC_ENDPOINT, |endpoint| {
            endpoint.put(key::TRAFFIC_ENDPOINT_ID, &TrafficEndpointId(1))?;
            let tunnel = FTeid::Choose {
                v4: true,
                v6: true,
                choose_id: Some(5),
            };
            endpoint.put(key::F_TEID, &tunnel)?;
            endpoint.put(key::NETWORK_INSTANCE, &&b"\x02n3"[..])?;
            endpoint.put(key::INTERFACE_TYPE_3GPP, &InterfaceType::N3_3GPP_ACCESS)
        })?;
        writer.group(IeType::CREATE_TRAFFIC_ENDPOINT, |endpoint| {
            endpoint.put(key::TRAFFIC_ENDPOINT_ID, &TrafficEndpointId(2))?;
            let address = UeIpAddress {
                v4: Some(Allocation::Given(Ipv4Addr::new(10, 0, 0, 1))),
                v6: Some(Allocation::Given(CORE_V6)),
                is_destination: true,
                ..UeIpAddress::default()
            };
            endpoint.put(key::UE_IP_ADDRESS, &address)?;
            endpoint.put(key::FRAMED_ROUTE, &&b"192.168.1.0/24 0.0.0.0 1"[..])?;
            endpoint.put(key::FRAMED_ROUTING, &3)?;
            endpoint.put(key::FRAMED_IPV6_ROUTE, &&b"2001:db8:7::/48 :: 1"[..])
        })
    })
}

/// One endpoint changes, another one goes.
fn endpoints_changed() -> Vec<u8> {
    let message_type = MessageType::SESSION_MODIFICATION_REQUEST;
    message(message_type, Some(7), |writer| {
        writer.group(IeType::REMOVE_TRAFFIC_ENDPOINT, |endpoint| {
            endpoint.put(key::TRAFFIC_ENDPOINT_ID, &TrafficEndpointId(2))
        })?;
        writer.group(IeType::UPDATE_TRAFFIC_ENDPOINT, |endpoint| {
            endpoint.put(key::TRAFFIC_ENDPOINT_ID, &TrafficEndpointId(1))?;
            let tunnel = FTeid::Given {
                teid: 0x0102_0304,
                v4: Some(Ipv4Addr::new(192, 0, 2, 2)),
                v6: Some(CORE_V6),
            };
            endpoint.put(key::F_TEID, &tunnel)?;
            endpoint.put(key::NETWORK_INSTANCE, &&b"\x02n9"[..])?;
            endpoint.put(key::QFI, &Qfi(5))
        })
    })
}

/// A session that is restored: addresses that the UPF chooses, of a pool, and prefixes of other
/// lengths.
fn addresses() -> Vec<u8> {
    establish(|writer| {
        let pdi = |pdi: &mut Writer<'_>, address: &UeIpAddress| {
            pdi.put(key::SOURCE_INTERFACE, &SourceInterface::CORE)?;
            pdi.put(key::UE_IP_ADDRESS, address)
        };
        let chosen = UeIpAddress {
            v4: Some(Allocation::Choose),
            v6: Some(Allocation::Choose),
            is_destination: true,
            ..UeIpAddress::default()
        };
        writer.group(IeType::CREATE_PDR, |pdr| {
            pdr.put(key::PDR_ID, &PdrId(1))?;
            pdr.put(key::PRECEDENCE, &1)?;
            pdr.group(IeType::PDI, |inner| pdi(inner, &chosen))?;
            pdr.put(key::FAR_ID, &FarId(1))?;
            let pool = UeIpAddressPoolIdentity(b"pool");
            pdr.put(key::UE_IP_ADDRESS_POOL_IDENTITY, &pool)
        })?;
        let delegated = UeIpAddress {
            v6: Some(Allocation::Given(CORE_V6)),
            prefix_delegation_bits: Some(8),
            ..UeIpAddress::default()
        };
        pdr(writer, 2, |inner| pdi(inner, &delegated))?;
        let longer = UeIpAddress {
            v6: Some(Allocation::Given(CORE_V6)),
            prefix_len: Some(128),
            ..UeIpAddress::default()
        };
        pdr(writer, 3, |inner| pdi(inner, &longer))?;
        drop_all(writer)?;
        let flags = SessionEstablishmentRequestFlags::RESTI;
        writer.put(key::PFCPSEREQ_FLAGS, &flags)
    })
}

/// Frames by their addresses and type.
fn ethernet() -> Vec<u8> {
    establish(|writer| {
        pdr(writer, 1, |pdi| {
            pdi.put(key::SOURCE_INTERFACE, &SourceInterface::ACCESS)?;
            let information = EthernetPduSessionInformation::ETHI;
            pdi.put(key::ETHERNET_PDU_SESSION_INFORMATION, &information)?;
            pdi.group(IeType::ETHERNET_PACKET_FILTER, |filter| {
                filter.put(key::ETHERNET_FILTER_ID, &7)?;
                let properties = EthernetFilterProperties::BIDE;
                filter.put(key::ETHERNET_FILTER_PROPERTIES, &properties)?;
                let addresses = MacAddresses {
                    src: Some(MacAddr([2, 0, 0, 0, 0, 1])),
                    dst: Some(MacAddr([2, 0, 0, 0, 0, 2])),
                    src_upper: Some(MacAddr([2, 0, 0, 0, 0, 0x11])),
                    dst_upper: Some(MacAddr([2, 0, 0, 0, 0, 0x12])),
                };
                filter.put(key::MAC_ADDRESS, &addresses)?;
                filter.put(key::ETHERTYPE, &0x0800)
            })
        })?;
        far(writer, 1, |forwarding| {
            forwarding.put(key::PROXYING, &(Proxying::ARP | Proxying::INS))
        })?;
        writer.group(IeType::CREATE_URR, |urr| {
            urr.put(key::URR_ID, &UrrId(1))?;
            urr.put(key::MEASUREMENT_METHOD, &MeasurementMethod::EVENT)?;
            urr.put(key::REPORTING_TRIGGERS, &ReportingTriggers::MACAR)?;
            urr.put(key::ETHERNET_INACTIVITY_TIMER, &Seconds(60))
        })?;
        writer.put(key::PDN_TYPE, &PdnType::ETHERNET)
    })
}

const C_TAG: VlanTag = VlanTag {
    pcp: Some(1),
    dei: Some(true),
    vid: Some(0x123),
};
const S_TAG: VlanTag = VlanTag {
    pcp: Some(1),
    dei: Some(false),
    vid: Some(0xfff),
};

/// Frames by their tags, which get others.
fn tags() -> Vec<u8> {
    modify(|writer| {
        pdr(writer, 1, |pdi| {
            pdi.put(key::SOURCE_INTERFACE, &SourceInterface::ACCESS)?;
            pdi.group(IeType::ETHERNET_PACKET_FILTER, |filter| {
                filter.put(key::C_TAG, &C_TAG)?;
                filter.put(key::S_TAG, &S_TAG)
            })
        })?;
        far(writer, 1, |forwarding| {
            let outer = OuterHeaderCreation {
                headers: OuterHeaders::C_TAG | OuterHeaders::S_TAG,
                c_tag: Some(S_TAG),
                s_tag: Some(C_TAG),
                ..OuterHeaderCreation::default()
            };
            forwarding.put(key::OUTER_HEADER_CREATION, &outer)
        })
    })
}

/// Usage by events and time.
fn charging() -> Vec<u8> {
    let octets = |total, ul, dl| Volume { total, ul, dl };
    modify(|writer| {
        writer.group(IeType::CREATE_URR, |urr| {
            urr.put(key::URR_ID, &UrrId(1))?;
            let method = MeasurementMethod::EVENT | MeasurementMethod::DURAT;
            urr.put(key::MEASUREMENT_METHOD, &method)?;
            let triggers = ReportingTriggers::PERIO
                | ReportingTriggers::TIMTH
                | ReportingTriggers::QUHTI
                | ReportingTriggers::START
                | ReportingTriggers::STOPT
                | ReportingTriggers::DROTH
                | ReportingTriggers::LIUSA
                | ReportingTriggers::TIMQU
                | ReportingTriggers::ENVCL
                | ReportingTriggers::EVETH
                | ReportingTriggers::EVEQU;
            urr.put(key::REPORTING_TRIGGERS, &triggers)?;
            urr.put(key::MEASUREMENT_PERIOD, &Seconds(3600))?;
            urr.put(key::EVENT_THRESHOLD, &5)?;
            urr.put(key::EVENT_QUOTA, &50)?;
            urr.put(key::TIME_THRESHOLD, &Seconds(300))?;
            urr.put(key::TIME_QUOTA, &Seconds(600))?;
            urr.put(key::QUOTA_HOLDING_TIME, &Seconds(30))?;
            let dropped = DroppedDlTraffic {
                packets: Some(1000),
                octets: Some(1 << 33),
            };
            urr.put(key::DROPPED_DL_TRAFFIC_THRESHOLD, &dropped)?;
            urr.put(key::MONITORING_TIME, &Time(0xe800_1000))?;
            urr.put(
                key::SUBSEQUENT_VOLUME_THRESHOLD,
                &octets(None, Some(9), Some(8)),
            )?;
            urr.put(key::SUBSEQUENT_TIME_THRESHOLD, &Seconds(301))?;
            urr.put(
                key::SUBSEQUENT_VOLUME_QUOTA,
                &octets(Some(17), None, Some(8)),
            )?;
            urr.put(key::SUBSEQUENT_TIME_QUOTA, &Seconds(601))?;
            urr.put(key::SUBSEQUENT_EVENT_THRESHOLD, &6)?;
            urr.put(key::SUBSEQUENT_EVENT_QUOTA, &51)?;
            urr.put(key::INACTIVITY_DETECTION_TIME, &Seconds(20))?;
            urr.put(key::LINKED_URR_ID, &UrrId(2))?;
            let information = MeasurementInformation::INAM
                | MeasurementInformation::RADI
                | MeasurementInformation::ISTM;
            urr.put(key::MEASUREMENT_INFORMATION, &information)?;
            let discrete = TimeQuotaMechanism {
                interval_type: 1,
                interval: 15,
            };
            urr.put(key::TIME_QUOTA_MECHANISM, &discrete)?;
            urr.group(IeType::AGGREGATED_URRS, |aggregated| {
                aggregated.put(key::AGGREGATED_URR_ID, &UrrId(3))?;
                let multiplier = Multiplier {
                    digits: 25,
                    exponent: -1,
                };
                aggregated.put(key::MULTIPLIER, &multiplier)
            })?;
            urr.put(key::FAR_ID, &FarId(1))?;
            urr.group(IeType::ADDITIONAL_MONITORING_TIME, |second| {
                second.put(key::MONITORING_TIME, &Time(0xe800_2000))?;
                second.put(key::SUBSEQUENT_TIME_QUOTA, &Seconds(602))?;
                second.put(key::EVENT_QUOTA, &52)
            })
        })
    })
}

/// What release 16 adds: quotas that end, and no more than so many reports.
fn charging_that_ends() -> Vec<u8> {
    modify(|writer| {
        writer.group(IeType::CREATE_URR, |urr| {
            urr.put(key::URR_ID, &UrrId(1))?;
            urr.put(key::MEASUREMENT_METHOD, &MeasurementMethod::VOLUM)?;
            let triggers = ReportingTriggers::QUVTI | ReportingTriggers::REEMR;
            urr.put(key::REPORTING_TRIGGERS, &triggers)?;
            urr.put(key::QUOTA_VALIDITY_TIME, &Seconds(86_400))?;
            urr.put(key::NUMBER_OF_REPORTS, &3)?;
            urr.put(key::MEASUREMENT_INFORMATION, &MeasurementInformation::MNOP)
        })
    })
}

const UL: Rate = Rate {
    unit: 0,
    packets: 10,
};
const DL: Rate = Rate {
    unit: 3,
    packets: 0x0102,
};

/// Rates, markings and what is reflected.
fn qos() -> Vec<u8> {
    modify(|writer| {
        writer.group(IeType::CREATE_QER, |qer| {
            qer.put(key::QER_ID, &QerId(1))?;
            qer.put(key::QER_CORRELATION_ID, &0x0a0b_0c0d)?;
            qer.put(key::GATE_STATUS, &GateStatus::OPEN)?;
            let rates = BitRates {
                ul_kbps: 1,
                dl_kbps: 0x01_0203_0405,
            };
            qer.put(key::GBR, &rates)?;
            let packets = PacketRates {
                ul: Some(UL),
                dl: Some(DL),
                additional: None,
            };
            qer.put(key::PACKET_RATE, &packets)?;
            let marking = DlFlowLevelMarking {
                traffic_class: Some(TrafficClass {
                    value: 0xb8,
                    mask: 0xfc,
                }),
                service_class_indicator: Some(0x0700),
            };
            qer.put(key::DL_FLOW_LEVEL_MARKING, &marking)?;
            qer.put(key::QFI, &Qfi(63))?;
            qer.put(key::RQI, &Rqi(1))?;
            qer.put(key::PAGING_POLICY_INDICATOR, &PagingPolicyIndicator(7))?;
            qer.put(key::AVERAGING_WINDOW, &Milliseconds(2000))
        })
    })
}

/// Rates of exceptional reports, and a status from elsewhere.
fn packet_rates() -> Vec<u8> {
    modify(|writer| {
        writer.group(IeType::CREATE_QER, |qer| {
            qer.put(key::QER_ID, &QerId(1))?;
            qer.put(key::GATE_STATUS, &GateStatus::OPEN)?;
            let packets = PacketRates {
                ul: Some(UL),
                dl: Some(DL),
                additional: Some(AdditionalRates {
                    ul: Some(DL),
                    dl: Some(UL),
                }),
            };
            qer.put(key::PACKET_RATE, &packets)?;
            let left = |packets, additional| Remaining {
                packets,
                additional: Some(additional),
            };
            let status = PacketRateStatus {
                ul: Some(left(1, 2)),
                dl: Some(left(3, 4)),
                validity_time: Some(0xe800_0001 << 32),
            };
            qer.put(key::PACKET_RATE_STATUS, &status)?;
            qer.put(key::QER_CONTROL_INDICATIONS, &QerControlIndications::RCSR)
        })
    })
}

/// Requests that are redirected and enriched, and traffic that is steered by a name.
fn redirection() -> Vec<u8> {
    modify(|writer| {
        far(writer, 1, |forwarding| {
            let to = RedirectInformation {
                address_type: RedirectInformation::URL,
                address: b"http://portal.example/",
                other_address: None,
                port: None,
            };
            forwarding.put(key::REDIRECT_INFORMATION, &to)?;
            let marking = TrafficClass {
                value: 0x28,
                mask: 0xfc,
            };
            forwarding.put(key::TRANSPORT_LEVEL_MARKING, &marking)?;
            forwarding.put(key::FORWARDING_POLICY, &ForwardingPolicy(b"policy"))?;
            let field = HeaderEnrichment {
                header_type: 0,
                name: b"X-Name",
                value: b"value",
            };
            forwarding.put(key::HEADER_ENRICHMENT, &field)
        })
    })
}

/// A portal at two addresses.
fn redirection_of_both() -> Vec<u8> {
    modify(|writer| {
        far(writer, 1, |forwarding| {
            let to = RedirectInformation {
                address_type: RedirectInformation::IPV4_AND_IPV6,
                address: b"192.0.2.5",
                other_address: Some(b"2001:db8::5"),
                port: None,
            };
            forwarding.put(key::REDIRECT_INFORMATION, &to)
        })
    })
}

/// Outer headers other than GTP-U over IPv4.
fn outer_headers() -> Vec<u8> {
    let (v4, v6) = (Some(Ipv4Addr::new(192, 0, 2, 5)), Some(CORE_V6));
    let kinds = [
        (OuterHeaders::GTP_U_UDP_IPV6, Some(7), None, v6, None),
        (OuterHeaders::UDP_IPV4, None, v4, None, Some(4789)),
        (OuterHeaders::UDP_IPV6, None, None, v6, Some(4789)),
        (OuterHeaders::IPV4, None, v4, None, None),
        (OuterHeaders::IPV6, None, None, v6, None),
    ];
    modify(|writer| {
        for (id, (headers, teid, v4, v6, port)) in (1..).zip(kinds) {
            far(writer, id, |forwarding| {
                let outer = OuterHeaderCreation {
                    headers,
                    teid,
                    v4,
                    v6,
                    port,
                    ..OuterHeaderCreation::default()
                };
                forwarding.put(key::OUTER_HEADER_CREATION, &outer)
            })?;
        }
        Ok(())
    })
}

/// Who and what a session is, and IEs that mean nothing here: a trace of OAM, one of a number that
/// nobody has, and a vendor's.
fn unknown_ies() -> Vec<u8> {
    establish(|writer| {
        pdr(writer, 1, |pdi| {
            pdi.put(key::SOURCE_INTERFACE, &SourceInterface::CP_FUNCTION)
        })?;
        drop_all(writer)?;
        writer.put(key::USER_PLANE_INACTIVITY_TIMER, &Seconds(1800))?;
        let user = UserId {
            imsi: Some(&[0x00, 0x01, 0x01, 0x21, 0x43, 0x65, 0x87, 0xf9]),
            ..UserId::default()
        };
        writer.put(key::USER_ID, &user)?;
        let trace = [
            &[0x00, 0xf1, 0x10, 0, 0, 1, 1, 0x02, 3, 1, 0x04, 4][..],
            &[192, 0, 2, 7],
        ]
        .concat();
        writer.put_ie(&Ie {
            ie_type: IeType::TRACE_INFORMATION,
            enterprise: None,
            value: &trace,
        })?;
        writer.put(key::APN_DNN, &&b"\x08internet"[..])?;
        let ies = [
            (IeType(0x7000), None, &b"what?"[..]),
            (IeType(0x8001), Some(32473), b"vendor"),
        ];
        for (ie_type, enterprise, value) in ies {
            writer.put_ie(&Ie {
                ie_type,
                enterprise,
                value,
            })?;
        }
        Ok(())
    })
}

fn slice() -> Vec<u8> {
    modify(|writer| {
        let slice = SNssai {
            sst: 1,
            sd: Some(0x01_0203),
        };
        writer.put(key::S_NSSAI, &slice)
    })
}

/// Delays of a QoS flow that are to be measured.
fn monitoring() -> Vec<u8> {
    modify(|writer| {
        writer.group(IeType::REMOVE_SRR, |srr| srr.put(key::SRR_ID, &SrrId(2)))?;
        writer.group(IeType::CREATE_SRR, |srr| {
            srr.put(key::SRR_ID, &SrrId(1))?;
            let group = IeType::QOS_MONITORING_PER_QOS_FLOW_CONTROL_INFORMATION;
            srr.group(group, |control| {
                control.put(key::QFI, &Qfi(9))?;
                let wanted = RequestedQosMonitoring::DL
                    | RequestedQosMonitoring::UL
                    | RequestedQosMonitoring::RP;
                control.put(key::REQUESTED_QOS_MONITORING, &wanted)?;
                let frequency = ReportingFrequency::EVETT | ReportingFrequency::PERIO;
                control.put(key::REPORTING_FREQUENCY, &frequency)?;
                let thresholds = PacketDelays {
                    dl_ms: Some(10),
                    ul_ms: Some(20),
                    rp_ms: Some(70_000),
                };
                let thresholds = PacketDelayThresholds(thresholds);
                control.put(key::PACKET_DELAY_THRESHOLDS, &thresholds)?;
                control.put(key::MINIMUM_WAIT_TIME, &Seconds(5))?;
                control.put(key::MEASUREMENT_PERIOD, &Seconds(60))
            })
        })
    })
}

pub(crate) fn all() -> [Sample; 15] {
    [
        sample("endpoints", 15, endpoints()),
        sample("endpoints_changed", 15, endpoints_changed()),
        sample("addresses", 16, addresses()),
        sample("ethernet", 15, ethernet()),
        sample("tags", 15, tags()),
        sample("charging", 15, charging()),
        sample("charging_that_ends", 16, charging_that_ends()),
        sample("qos", 15, qos()),
        sample("packet_rates", 16, packet_rates()),
        sample("redirection", 15, redirection()),
        sample("redirection_of_both", 16, redirection_of_both()),
        sample("outer_headers", 15, outer_headers()),
        sample("unknown_ies", 15, unknown_ies()),
        sample("slice", 16, slice()),
        sample("monitoring", 16, monitoring()),
    ]
}
