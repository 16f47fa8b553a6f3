// SPDX-License-Identifier: Apache-2.0
//! Messages between nodes: heartbeats, associations, paths, and sets of sessions.

use super::sessions::{NODE, Sample, message, sample};
use catena_wire::pfcp::cause::Cause;
use catena_wire::pfcp::value::address::{
    AlternativeSmfIpAddress, CpIpAddress, FqCsid, FqCsidNode, NodeId, RemoteGtpUPeer, SmfSetId,
    SourceIpAddress,
};
use catena_wire::pfcp::value::flags::{
    AssociationReleaseRequest, AssociationSetupResponseFlags, AssociationUpdateRequestFlags,
    CpFunctionFeatures, NodeReportType, UpFunctionFeatures,
};
use catena_wire::pfcp::value::node::Timer;
use catena_wire::pfcp::value::{Name, Time};
use catena_wire::pfcp::{Full, IeType, MessageType, Writer, key};
use std::net::{Ipv4Addr, Ipv6Addr};

const NODE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

fn name(labels: &'static [u8]) -> Name<'static> {
    Name::new(labels).expect("they are labels")
}

fn heartbeat(message_type: MessageType) -> Vec<u8> {
    message(message_type, None, |writer| {
        writer.put(key::RECOVERY_TIME_STAMP, &Time(0xe800_0001))
    })
}

/// One that names where heartbeats come from: what takes one in another direction.
fn heartbeat_from() -> Vec<u8> {
    message(MessageType::HEARTBEAT_REQUEST, None, |writer| {
        writer.put(key::RECOVERY_TIME_STAMP, &Time(0xe800_0001))?;
        let from = SourceIpAddress {
            v4: Some(Ipv4Addr::new(192, 0, 2, 0)),
            v6: None,
            prefix_len: Some(24),
        };
        writer.put(key::SOURCE_IP_ADDRESS, &from)
    })
}

/// An SMF of a set.
fn association_of_a_set() -> Vec<u8> {
    message(MessageType::ASSOCIATION_SETUP_REQUEST, None, |writer| {
        writer.put(key::NODE_ID, &NodeId::Fqdn(name(b"\x03smf\x07example")))?;
        writer.put(key::RECOVERY_TIME_STAMP, &Time(0xe800_0001))?;
        let features = CpFunctionFeatures::LOAD
            | CpFunctionFeatures::OVRL
            | CpFunctionFeatures::EPFAR
            | CpFunctionFeatures::SSET
            | CpFunctionFeatures::MPAS;
        writer.put(key::CP_FUNCTION_FEATURES, &features)?;
        let other = AlternativeSmfIpAddress {
            v4: Some(Ipv4Addr::new(192, 0, 2, 9)),
            v6: Some(NODE_V6),
            is_preferred: false,
        };
        writer.put(key::ALTERNATIVE_SMF_IP_ADDRESS, &other)?;
        writer.put(key::SMF_SET_ID, &SmfSetId(name(b"\x04set1\x07example")))
    })
}

/// A UPF that still has its sessions, and can do what came with release 16.
fn association_kept() -> Vec<u8> {
    message(MessageType::ASSOCIATION_SETUP_RESPONSE, None, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(NODE))?;
        writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)?;
        writer.put(key::RECOVERY_TIME_STAMP, &Time(0xe800_0001))?;
        let features = UpFunctionFeatures::FTUP
            | UpFunctionFeatures::EMPU
            | UpFunctionFeatures::UEIP
            | UpFunctionFeatures::MPAS
            | UpFunctionFeatures::QFQM;
        writer.put(key::UP_FUNCTION_FEATURES, &features)?;
        writer.put(key::PFCPASRSP_FLAGS, &AssociationSetupResponseFlags::PSREI)
    })
}

fn association_update(
    release: AssociationReleaseRequest,
    more: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
) -> Vec<u8> {
    message(MessageType::ASSOCIATION_UPDATE_REQUEST, None, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(NODE))?;
        writer.put(key::PFCP_ASSOCIATION_RELEASE_REQUEST, &release)?;
        more(writer)
    })
}

/// A UPF that asks for the end of its association, in 20 minutes.
fn association_update_release() -> Vec<u8> {
    association_update(AssociationReleaseRequest::SARR, |writer| {
        // Two times ten minutes.
        writer.put(key::GRACEFUL_RELEASE_PERIOD, &Timer { unit: 2, value: 2 })
    })
}

/// One that has told all usage, and is to prepare for the end.
fn association_update_told() -> Vec<u8> {
    association_update(AssociationReleaseRequest::URSS, |writer| {
        writer.put(key::PFCPAUREQ_FLAGS, &AssociationUpdateRequestFlags::PARPS)
    })
}

fn association_update_response() -> Vec<u8> {
    message(MessageType::ASSOCIATION_UPDATE_RESPONSE, None, |writer| {
        writer.put(key::NODE_ID, &NodeId::V6(NODE_V6))?;
        writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)?;
        let features = CpFunctionFeatures::LOAD | CpFunctionFeatures::OVRL;
        writer.put(key::CP_FUNCTION_FEATURES, &features)
    })
}

fn association_release() -> Vec<u8> {
    message(MessageType::ASSOCIATION_RELEASE_REQUEST, None, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(NODE))
    })
}

/// A node, a cause, and what was wrong, if anything was.
fn answer(message_type: MessageType, cause: Cause, offending: Option<IeType>) -> Vec<u8> {
    message(message_type, None, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(NODE))?;
        writer.put(key::CAUSE, &cause)?;
        writer.put_some(key::OFFENDING_IE, offending.as_ref())
    })
}

fn pfds_refused() -> Vec<u8> {
    message(MessageType::PFD_MANAGEMENT_RESPONSE, None, |writer| {
        writer.put(key::CAUSE, &Cause::MANDATORY_IE_INCORRECT)?;
        writer.put(key::OFFENDING_IE, &IeType::PFD_CONTENTS)
    })
}

fn path(report_type: NodeReportType, group: IeType, peer: &RemoteGtpUPeer<'_>) -> Vec<u8> {
    message(MessageType::NODE_REPORT_REQUEST, None, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(NODE))?;
        writer.put(key::NODE_REPORT_TYPE, &report_type)?;
        writer.group(group, |report| report.put(key::REMOTE_GTP_U_PEER, peer))
    })
}

/// A path that no longer answers, to a peer of both versions.
fn path_failure() -> Vec<u8> {
    let peer = RemoteGtpUPeer {
        v4: Some(Ipv4Addr::new(192, 0, 2, 3)),
        v6: Some(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 3)),
        destination_interface: None,
        network_instance: None,
    };
    let group = IeType::USER_PLANE_PATH_FAILURE_REPORT;
    path(NodeReportType::UPFR, group, &peer)
}

/// A path that answers again, with where it is.
fn path_recovery() -> Vec<u8> {
    let peer = RemoteGtpUPeer {
        v4: Some(Ipv4Addr::new(192, 0, 2, 3)),
        v6: None,
        destination_interface: Some(&[0]),
        network_instance: Some(b"n3.example"),
    };
    let group = IeType::USER_PLANE_PATH_RECOVERY_REPORT;
    path(NodeReportType::UPRR, group, &peer)
}

/// The sessions of two sets at an SMF end.
fn set_deletion() -> Vec<u8> {
    set_deletion_of(&FqCsid {
        node: FqCsidNode::V4(NODE),
        csids: &[0, 1, 1, 2],
        node_type: None,
    })
}

/// The same where the node says what it is: a PGW-U, SGW-U or UPF.
fn set_deletion_of_a_upf() -> Vec<u8> {
    set_deletion_of(&FqCsid {
        node: FqCsidNode::V6(NODE_V6),
        csids: &[0, 7],
        node_type: Some(5),
    })
}

fn set_deletion_of(set: &FqCsid<'_>) -> Vec<u8> {
    message(MessageType::SESSION_SET_DELETION_REQUEST, None, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(NODE))?;
        writer.put(key::FQ_CSID, set)
    })
}

/// Sessions of a set, of a group and of an SMF's address go to another SMF.
fn set_modification() -> Vec<u8> {
    let message_type = MessageType::SESSION_SET_MODIFICATION_REQUEST;
    message(message_type, None, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(NODE))?;
        writer.group(IeType::PFCP_SESSION_CHANGE_INFO, |change| {
            let set = FqCsid {
                node: FqCsidNode::V4(NODE),
                csids: &[0, 1],
                node_type: Some(2),
            };
            change.put(key::FQ_CSID, &set)?;
            change.put(key::GROUP_ID, &&b"group"[..])?;
            let from = CpIpAddress {
                v4: Some(Ipv4Addr::new(192, 0, 2, 8)),
                v6: None,
            };
            change.put(key::CP_IP_ADDRESS, &from)?;
            let other = AlternativeSmfIpAddress {
                v4: Some(Ipv4Addr::new(192, 0, 2, 9)),
                v6: None,
                is_preferred: true,
            };
            change.put(key::ALTERNATIVE_SMF_IP_ADDRESS, &other)
        })
    })
}

pub(crate) fn all() -> [Sample; 21] {
    let accepted = |message_type| answer(message_type, Cause::REQUEST_ACCEPTED, None);
    let refused = |message_type, offending| {
        answer(message_type, Cause::MANDATORY_IE_INCORRECT, Some(offending))
    };
    let offending = IeType::PFCP_SESSION_CHANGE_INFO;
    let report_refused = refused(MessageType::NODE_REPORT_RESPONSE, IeType::NODE_REPORT_TYPE);
    let set_refused = refused(MessageType::SESSION_SET_DELETION_RESPONSE, IeType::FQ_CSID);
    let change_refused = refused(MessageType::SESSION_SET_MODIFICATION_RESPONSE, offending);
    let unknown = message(
        MessageType::VERSION_NOT_SUPPORTED_RESPONSE,
        None,
        |_| Ok(()),
    );
    let released = accepted(MessageType::ASSOCIATION_RELEASE_RESPONSE);
    [
        sample("heartbeat", 15, heartbeat(MessageType::HEARTBEAT_REQUEST)),
        sample(
            "heartbeat_response",
            15,
            heartbeat(MessageType::HEARTBEAT_RESPONSE),
        ),
        sample("heartbeat_from", 16, heartbeat_from()),
        sample("association_of_a_set", 16, association_of_a_set()),
        sample("association_kept", 16, association_kept()),
        sample(
            "association_update_release",
            15,
            association_update_release(),
        ),
        sample("association_update_told", 16, association_update_told()),
        sample(
            "association_update_response",
            15,
            association_update_response(),
        ),
        sample("association_release", 15, association_release()),
        sample("association_release_response", 15, released),
        sample("version_not_supported", 15, unknown),
        sample("pfds_refused", 15, pfds_refused()),
        sample("path_failure", 15, path_failure()),
        sample("path_recovery", 16, path_recovery()),
        sample("node_report_refused", 15, report_refused),
        sample("set_deletion", 15, set_deletion()),
        sample("set_deletion_of_a_upf", 16, set_deletion_of_a_upf()),
        sample("set_deletion_refused", 15, set_refused),
        sample(
            "set_deletion_response",
            15,
            accepted(MessageType::SESSION_SET_DELETION_RESPONSE),
        ),
        sample("set_modification", 17, set_modification()),
        sample("set_modification_refused", 17, change_refused),
    ]
}
