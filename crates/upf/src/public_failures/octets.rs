//! Octets as they are on the wire, of N4 and of users: each test is named by its report.

use catena_engine::nf::{DropReason, Verdict};
use catena_engine::nf_bench::NfBench;
use catena_wire::gtpu;
use catena_wire::pfcp::Ie;
use catena_wire::pfcp::value::flags::MeasurementInformation;

use super::*;
use crate::decision::Why;
use crate::headers::Tunnel;
use crate::smf::wire;

fn raw(ie_type: IeType, value: &[u8]) -> Ie<'_> {
    Ie {
        ie_type,
        enterprise: None,
        value,
    }
}

/// The heartbeat of the report, by another number: its Recovery Time Stamp has no length, and an IE
/// of a vendor reaches beyond it.
#[test]
fn free5gc_483_a_heartbeat_whose_time_stamp_has_no_length() {
    let mut smf = Smf::new();
    smf.establish(nothing, nothing);
    let heartbeat = [
        0x20, 1, 0, 12, 0, 9, 2, 0, 0, 96, 0, 0, 0xe8, 0x1f, 0xe7, 0xb4,
    ];
    smf.upf.datagram(&heartbeat, SMF, 0);
    let answer = smf.upf.next_message().expect("it is answered (7.6.6)");
    let view = View::parse(&answer.bytes[..]).unwrap();
    assert_eq!(view.header().message_type, MessageType::HEARTBEAT_RESPONSE);
    assert_eq!(view.header().sequence, 0x00_0902);
    let recovery = Time(smf.upf.store.recovery());
    assert_eq!(view.ies().require(key::RECOVERY_TIME_STAMP), Ok(recovery));
    // Nobody has said that the SMF has started again.
    assert_eq!(smf.upf.session_count(), 1);
    assert_eq!(smf.establish(nothing, nothing).0, Cause::REQUEST_ACCEPTED);
}

/// What the UPF chose is in Created PDR, not in Create PDR.
#[test]
fn go_upf_54_what_was_chosen_is_in_created_pdr() {
    let mut smf = Smf::new();
    let message_type = MessageType::SESSION_ESTABLISHMENT_REQUEST;
    let answer = smf.answered(message_type, Some(0), |writer| {
        begin(writer)?;
        writer.group(IeType::CREATE_PDR, |writer| {
            writer.put(key::PDR_ID, &PdrId(7))?;
            writer.put(key::PRECEDENCE, &100)?;
            writer.group(IeType::PDI, usual_pdi)?;
            writer.put(key::FAR_ID, &FarId(1))
        })?;
        writer.group(IeType::CREATE_FAR, |writer| usual_far(writer, 1))
    });
    let view = View::parse(&answer[..]).unwrap();
    let ies = view.ies();
    assert!(!ies.has(IeType::CREATE_PDR));
    let created: Vec<_> = ies.groups(IeType::CREATED_PDR).collect();
    let [created] = created[..] else {
        panic!("{} groups", created.len());
    };
    assert_eq!(created.require(key::PDR_ID), Ok(PdrId(7)));
    let seid = ies.require(key::F_SEID).unwrap().seid;
    let slot = smf.upf.store.slot_of(seid).unwrap();
    let pdr = smf.upf.store.session(slot).unwrap().pdrs[0].pdr;
    let chosen = FTeid::Given {
        teid: pdr.teid,
        v4: Some(Ipv4Addr::new(10, 3, 0, 1)),
        v6: None,
    };
    assert_eq!(created.require(key::F_TEID), Ok(chosen));
    let address = created.require(key::UE_IP_ADDRESS).unwrap();
    assert_eq!(address.v4, pdr.ue_v4.map(Allocation::Given));
    assert!(pdr.teid != 0 && pdr.ue_v4.is_some());
}

/// Numbers of a URR are in network order both ways. Told as octets, since a codec that swaps them
/// twice agrees with itself.
#[test]
fn open5gs_pr_1433_numbers_of_a_urr_are_in_network_order() {
    let mut smf = Smf::new();
    let volumes = [
        &[7][..],
        &[1, 2, 3, 4, 5, 6, 7, 8],
        &[0, 2, 3, 4, 5, 6, 7, 8],
        &[0, 0, 3, 4, 5, 6, 7, 8],
    ];
    let volumes = volumes.concat();
    let (cause, _, seid) = smf.establish(
        |writer| writer.put(key::URR_ID, &UrrId(4)),
        |writer| {
            writer.group(IeType::CREATE_URR, |writer| {
                writer.put_ie(&raw(IeType::URR_ID, &[0, 0, 0, 4]))?;
                // Duration and volume; VOLTH and TIMTH; from now on.
                writer.put_ie(&raw(IeType::MEASUREMENT_METHOD, &[3]))?;
                writer.put_ie(&raw(IeType::REPORTING_TRIGGERS, &[6, 0, 0]))?;
                writer.put_ie(&raw(IeType::VOLUME_THRESHOLD, &volumes))?;
                writer.put_ie(&raw(IeType::TIME_THRESHOLD, &[0, 1, 2, 3]))?;
                writer.put(key::MEASUREMENT_INFORMATION, &MeasurementInformation::ISTM)
            })
        },
    );
    assert_eq!(cause, Cause::REQUEST_ACCEPTED);
    let slot = smf.upf.store.slot_of(seid).unwrap();
    let mut image = smf.upf.store.image(slot).unwrap();
    let mut urr = image.urr(0).unwrap();
    let threshold = urr.terms.volume_threshold;
    let wanted = [
        0x0102_0304_0506_0708,
        0x0002_0304_0506_0708,
        0x0000_0304_0506_0708,
    ];
    let found = [threshold.total, threshold.ul, threshold.dl];
    assert_eq!(found, wanted.map(Some));
    assert_eq!(urr.terms.time_threshold, Some(0x0001_0203));
    assert!(urr.terms.wants(ReportingTriggers::VOLTH));
    assert!(urr.terms.wants(ReportingTriggers::TIMTH));
    urr.usage.octets = [0x0102, 0x0304];
    image.set_urr(0, &urr);
    // A time whose octets differ: 258 s.
    let header = Header::new(MessageType::SESSION_DELETION_REQUEST, Some(seid), 0x9000);
    let deletion = message(&header, nothing).unwrap();
    smf.upf.datagram(&deletion, SMF, 0x0102 * 1_000_000_000);
    let answer = smf.upf.next_message().expect("an answer");
    let view = View::parse(&answer.bytes[..]).unwrap();
    let report = view.ies().group(IeType::USAGE_REPORT_DELETION).unwrap();
    let value = |ie_type| report.find(ie_type).map(|ie| ie.value).unwrap();
    assert_eq!(value(IeType::URR_ID), [0, 0, 0, 4]);
    assert_eq!(value(IeType::UR_SEQN), [0, 0, 0, 0]);
    assert_eq!(value(IeType::DURATION_MEASUREMENT), [0, 0, 1, 2]);
    let volumes = [
        &[7][..],
        &[0, 0, 0, 0, 0, 0, 4, 6],
        &[0, 0, 0, 0, 0, 0, 1, 2],
        &[0, 0, 0, 0, 0, 0, 3, 4],
    ];
    assert_eq!(value(IeType::VOLUME_MEASUREMENT), volumes.concat());
}

/// A packet of IPv6 without a payload in a tunnel, whose header says that one of UDP follows, for a
/// session with an SDF filter: its ports would have to be read.
#[test]
fn open5gs_4180_ipv6_whose_payload_has_no_length() {
    let settings: serde_json::Value = serde_json::from_str(crate::nf::KIND.example).unwrap();
    let mut bench = NfBench::new(&crate::nf::KIND, &settings, &[]).unwrap();
    let [n4, n3, gnb] = [[10, 4, 0, 1], [10, 3, 0, 1], [10, 3, 0, 2]].map(IpAddr::from);
    let association = Header::new(MessageType::ASSOCIATION_SETUP_REQUEST, None, 1);
    let association = message(&association, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(Ipv4Addr::new(10, 4, 0, 2)))?;
        writer.put(key::RECOVERY_TIME_STAMP, &Time(1))
    });
    let establishment = Header::new(MessageType::SESSION_ESTABLISHMENT_REQUEST, Some(0), 2);
    let filter = SdfFilter {
        flow_description: Some(b"permit out ip from any to any"),
        ..SdfFilter::default()
    };
    let establishment = message(&establishment, |writer| {
        begin(writer)?;
        writer.group(IeType::CREATE_PDR, |writer| {
            writer.put(key::PDR_ID, &PdrId(1))?;
            writer.put(key::PRECEDENCE, &100)?;
            writer.group(IeType::PDI, |writer| {
                writer.put(key::SOURCE_INTERFACE, &SourceInterface::ACCESS)?;
                let tunnel = FTeid::Given {
                    teid: 0x101,
                    v4: Some(Ipv4Addr::new(10, 3, 0, 1)),
                    v6: None,
                };
                writer.put(key::F_TEID, &tunnel)?;
                writer.put(key::SDF_FILTER, &filter)
            })?;
            writer.put(key::FAR_ID, &FarId(1))
        })?;
        writer.group(IeType::CREATE_FAR, |writer| usual_far(writer, 1))
    });
    for request in [association, establishment] {
        let from = (SMF.address, SMF.port);
        bench.process_one(&wire::datagram(from, (n4, SMF.port), &request.unwrap()));
        bench.emit(8, false);
    }
    let mut verdict = |next_header: u8, payload_len: u8, behind: usize| {
        let mut packet = vec![0; 40 + behind];
        (packet[0], packet[5], packet[6], packet[7]) = (0x60, payload_len, next_header, 64);
        (packet[8], packet[24]) = (0x20, 0x20);
        // Of UDP, the length.
        if let Some(len) = packet.get_mut(45) {
            *len = 8;
        }
        let tunnel = Tunnel::uplink(0x101, None);
        let mut message = vec![0; tunnel.len()];
        tunnel.emit(&mut message, gtpu::MessageType::G_PDU, packet.len());
        message.extend_from_slice(&packet);
        let (from, to) = ((gnb, gtpu::PORT), (n3, gtpu::PORT));
        bench
            .process_one(&wire::datagram(from, to, &message))
            .verdict
    };
    let malformed = Verdict::Drop(DropReason::own(Why::Malformed as u8));
    const UDP: u8 = 17;
    const NOTHING: u8 = 59;
    assert_eq!(verdict(UDP, 0, 0), malformed);
    // What lies behind it is none of its payload.
    assert_eq!(verdict(UDP, 0, 8), malformed);
    // One that says so may have none, and the UPF goes on.
    assert_eq!(verdict(NOTHING, 0, 0), Verdict::Output(1));
    assert_eq!(verdict(UDP, 8, 8), Verdict::Output(1));
}
