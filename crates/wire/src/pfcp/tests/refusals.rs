// SPDX-License-Identifier: Apache-2.0
//! Tests of the check: what is refused, with which cause, and which IE is to blame.

use super::*;

/// The message of `establishment` without one IE, which stands inside the groups of `path`.
fn without(path: &[IeType], ie_type: IeType) -> Vec<u8> {
    fn copy(bytes: &[u8], path: &[IeType], ie_type: IeType, to: &mut Vec<u8>) {
        for ie in element::Ies::new(bytes).map(Result::unwrap) {
            if path.is_empty() && ie.ie_type == ie_type {
                continue;
            }
            let mut value = ie.value.to_vec();
            if path.first() == Some(&ie.ie_type) {
                value.clear();
                copy(ie.value, &path[1..], ie_type, &mut value);
            }
            to.extend(ie.ie_type.0.to_be_bytes());
            to.extend((value.len() as u16).to_be_bytes());
            to.extend(value);
        }
    }
    let whole = establishment();
    let view = View::parse(&whole[..]).unwrap();
    let mut bytes = whole[..view.header_len()].to_vec();
    copy(view.payload(), path, ie_type, &mut bytes);
    let len = (bytes.len() - 4) as u16;
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes
}

#[test]
fn each_missing_mandatory_ie_is_named() {
    use IeType as T;
    let table: &[(&[T], T)] = &[
        (&[], T::NODE_ID),
        (&[], T::F_SEID),
        (&[], T::CREATE_PDR),
        (&[], T::CREATE_FAR),
        (&[T::CREATE_PDR], T::PDR_ID),
        (&[T::CREATE_PDR], T::PRECEDENCE),
        (&[T::CREATE_PDR], T::PDI),
        (&[T::CREATE_PDR, T::PDI], T::SOURCE_INTERFACE),
        (&[T::CREATE_FAR], T::FAR_ID),
        (&[T::CREATE_FAR], T::APPLY_ACTION),
        (
            &[T::CREATE_FAR, T::FORWARDING_PARAMETERS],
            T::DESTINATION_INTERFACE,
        ),
        (&[T::CREATE_URR], T::MEASUREMENT_METHOD),
        (&[T::CREATE_URR], T::REPORTING_TRIGGERS),
        (&[T::CREATE_QER], T::GATE_STATUS),
    ];
    for &(path, ie_type) in table {
        let refusal = Cause::MANDATORY_IE_MISSING.because_of(ie_type);
        assert_eq!(check(&without(path, ie_type)), Err(refusal), "{path:?}");
    }
    assert_eq!(check(&without(&[], T::CREATE_QER)), Ok(()));
}

#[test]
fn conditions_inside_a_message_are_checked() {
    use IeType as T;
    let table: &[(&[T], T)] = &[
        (&[T::CREATE_PDR], T::FAR_ID),
        (&[T::CREATE_FAR], T::FORWARDING_PARAMETERS),
        (&[T::CREATE_URR], T::VOLUME_THRESHOLD),
    ];
    for &(path, ie_type) in table {
        let refusal = Cause::CONDITIONAL_IE_MISSING.because_of(ie_type);
        assert_eq!(check(&without(path, ie_type)), Err(refusal), "{path:?}");
    }
    let report = |kind: value::flags::ReportType| {
        message(&of_session(MessageType::SESSION_REPORT_REQUEST), |writer| {
            writer.put(key::REPORT_TYPE, &kind)
        })
    };
    use value::flags::ReportType;
    let table = [
        (ReportType::DLDR, Some(T::DOWNLINK_DATA_REPORT)),
        (ReportType::USAR, Some(T::USAGE_REPORT_REPORT)),
        (ReportType::ERIR, Some(T::ERROR_INDICATION_REPORT)),
        (ReportType::SESR, Some(T::SESSION_REPORT)),
        (ReportType::UPIR, None),
    ];
    for (kind, missing) in table {
        let refusal = missing.map(|ie_type| Cause::CONDITIONAL_IE_MISSING.because_of(ie_type));
        assert_eq!(check(&report(kind)).err(), refusal, "{kind:?}");
    }
    let node_report = message(&of_node(MessageType::NODE_REPORT_REQUEST), |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(PEER))?;
        writer.put(key::NODE_REPORT_TYPE, &value::flags::NodeReportType::UPFR)
    });
    let refusal = Cause::CONDITIONAL_IE_MISSING.because_of(T::USER_PLANE_PATH_FAILURE_REPORT);
    assert_eq!(check(&node_report), Err(refusal));
}

/// A session modification with one IE written by hand.
fn modification(ie: &str) -> Vec<u8> {
    let mut bytes = hex("21 34 0000 1112131415161718 010203 00");
    bytes.extend(hex(ie));
    let len = (bytes.len() - 4) as u16;
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes
}

#[test]
fn wrong_lengths_and_values_name_the_ie() {
    let length = |ie_type| Err(Cause::INVALID_LENGTH.because_of(ie_type));
    let value = |ie_type| Err(Cause::MANDATORY_IE_INCORRECT.because_of(ie_type));
    let table = [
        // One octet, type alone, length past the end, vendor's number cut.
        ("00", Err(Cause::INVALID_LENGTH.alone())),
        ("0031", length(IeType::PFCPSMREQ_FLAGS)),
        ("0031 0002 00", length(IeType::PFCPSMREQ_FLAGS)),
        ("8031 0001 00", length(IeType(0x8031))),
        // Remove PDR with a PDR ID of one octet, of null length, and of none.
        ("000f 0005 0038 0001 00", length(IeType::PDR_ID)),
        ("000f 0004 0038 0000", length(IeType::PDR_ID)),
        ("000f 0006 0038 0003 0001", length(IeType::PDR_ID)),
        (
            "000f 0000",
            Err(Cause::MANDATORY_IE_MISSING.because_of(IeType::PDR_ID)),
        ),
        // Trace Information has no typed value, and seven octets at least. Of null length it ends
        // the trace.
        ("0098 0006 010203040506", length(IeType::TRACE_INFORMATION)),
        ("0098 0000", Ok(())),
        // Update FAR with a contradicting action; an offending action in an update of a QER is not
        // expected there, and skipped.
        (
            "000a 000d 006c 0004 00000001 002c 0001 03",
            value(IeType::APPLY_ACTION),
        ),
        ("000e 000d 006d 0004 00000001 002c 0001 03", Ok(())),
        // Cause has exactly one octet, but is not expected in a modification.
        ("0013 0002 0101", Ok(())),
        // IEs that nobody knows, and of a vendor.
        ("7fff 0002 0101", Ok(())),
        ("8001 0003 28af 01", Ok(())),
    ];
    for (ie, expected) in table {
        assert_eq!(check(&modification(ie)), expected, "{ie}");
    }
}

#[test]
fn what_is_fixed_has_its_length() {
    let header = of_node(MessageType::ASSOCIATION_SETUP_REQUEST);
    let setup = |len: usize| {
        message(&header, |writer| {
            writer.put(key::NODE_ID, &NodeId::V4(PEER))?;
            writer.put(key::RECOVERY_TIME_STAMP, &Time(1))?;
            let value = &[7; 20][..len];
            let (ie_type, enterprise) = (IeType::NF_INSTANCE_ID, None);
            writer.put_ie(&Ie {
                ie_type,
                enterprise,
                value,
            })
        })
    };
    let refusal = Cause::INVALID_LENGTH.because_of(IeType::NF_INSTANCE_ID);
    assert_eq!(check(&setup(16)), Ok(()));
    assert_eq!(check(&setup(17)), Err(refusal));
    assert_eq!(check(&setup(15)), Err(refusal));
}

/// Open5GS #4423: an Outer Header Creation of null length. Null removes in an update and is an
/// error in what creates.
#[test]
fn null_length_removes_in_updates_only() {
    // Update FAR, Update Forwarding Parameters with null Outer Header Creation.
    let update = modification("000a 0010 006c 0004 00000001 000b 0004 0054 0000");
    assert_eq!(check(&update), Ok(()));
    let view = View::parse(&update[..]).unwrap();
    let far = view.ies().group(IeType::UPDATE_FAR).unwrap();
    let parameters = far.group(IeType::UPDATE_FORWARDING_PARAMETERS).unwrap();
    assert_eq!(
        parameters.change(key::OUTER_HEADER_CREATION),
        Ok(Change::Remove)
    );
    assert_eq!(parameters.change(key::FORWARDING_POLICY), Ok(Change::Keep));
    assert_eq!(far.change(key::FAR_ID), Ok(Change::Set(FarId(1))));
    // The same in Create FAR with Forwarding Parameters.
    let create =
        modification("0003 001a 006c 0004 00000001 002c 0001 02 0004 0009 002a 0001 01 0054 0000");
    let refusal = Cause::INVALID_LENGTH.because_of(IeType::OUTER_HEADER_CREATION);
    assert_eq!(check(&create), Err(refusal));
    // The specification says it of two groups of an association, and of no other.
    for (ie_type, expected) in [
        (IeType::CLOCK_DRIFT_CONTROL_INFORMATION, Ok(())),
        (
            IeType::UE_IP_ADDRESS_POOL_INFORMATION,
            Err(Cause::MANDATORY_IE_MISSING.because_of(IeType::UE_IP_ADDRESS_POOL_IDENTITY)),
        ),
    ] {
        let header = of_node(MessageType::ASSOCIATION_UPDATE_REQUEST);
        let bytes = message(&header, |writer| {
            writer.put(key::NODE_ID, &NodeId::V4(PEER))?;
            writer.put_null(ie_type)
        });
        assert_eq!(check(&bytes), expected, "{ie_type}");
    }
    // A rule's own number is never removed.
    let unnamed = modification("000a 0004 006c 0000");
    assert_eq!(
        check(&unnamed),
        Err(Cause::INVALID_LENGTH.because_of(IeType::FAR_ID))
    );
}

#[test]
fn optional_ies_that_mean_nothing_are_not_there() {
    // An F-TEID without addresses: optional in a PDI, so the PDI has none.
    let bytes = modification(
        "0001 0028 0038 0002 0001 001d 0004 00000064 0002 000e 0014 0001 00 0015 0005 00 00000001 \
         006c 0004 00000001",
    );
    assert_eq!(check(&bytes), Ok(()));
    let view = View::parse(&bytes[..]).unwrap();
    let pdr = view.ies().group(IeType::CREATE_PDR).unwrap();
    assert_eq!(pdr.group(IeType::PDI).unwrap().get(key::F_TEID), Ok(None));
    // In Created PDR it is conditional, and its error counts.
    let created = Group::new(Place::Group(IeType::CREATED_PDR), &bytes[43..52]);
    let refusal = Cause::MANDATORY_IE_INCORRECT.because_of(IeType::F_TEID);
    assert_eq!(created.get(key::F_TEID), Err(refusal));
}

#[test]
fn a_rejection_needs_its_cause_only() {
    let response = |cause| {
        message(
            &of_session(MessageType::SESSION_ESTABLISHMENT_RESPONSE),
            |writer| writer.put(key::CAUSE, &cause),
        )
    };
    assert_eq!(check(&response(Cause::NO_RESOURCES_AVAILABLE)), Ok(()));
    let refusal = Cause::MANDATORY_IE_MISSING.because_of(IeType::NODE_ID);
    assert_eq!(check(&response(Cause::REQUEST_ACCEPTED)), Err(refusal));
}

#[test]
fn of_repeated_ies_the_first_counts() {
    let bytes = message(&of_node(MessageType::HEARTBEAT_REQUEST), |writer| {
        writer.put(key::RECOVERY_TIME_STAMP, &Time(1))?;
        writer.put(key::RECOVERY_TIME_STAMP, &Time(2))
    });
    let view = View::parse(&bytes[..]).unwrap();
    assert_eq!(view.ies().get(key::RECOVERY_TIME_STAMP), Ok(Some(Time(1))));
    let all: Result<Vec<_>, _> = view.ies().each(key::RECOVERY_TIME_STAMP).collect();
    assert_eq!(all, Ok(vec![Time(1), Time(2)]));
    assert_eq!(Time::from_unix_epoch(0).0, 2_208_988_800);
    assert_eq!(Time(Time::UNIX_EPOCH + 7).since_unix_epoch(), 7);
}

#[test]
fn number_and_depth_of_ies_are_bounded() {
    for (count, is_ok) in [(IES_MAX - 1, true), (IES_MAX, false)] {
        let bytes = message(&of_node(MessageType::HEARTBEAT_REQUEST), |writer| {
            writer.put(key::RECOVERY_TIME_STAMP, &Time(1))?;
            (0..count).try_for_each(|_| writer.put_null(IeType::NODE_ID))
        });
        let refusal = Cause::NO_RESOURCES_AVAILABLE.because_of(IeType::NODE_ID);
        let expected = if is_ok { Ok(()) } else { Err(refusal) };
        assert_eq!(check(&bytes), expected, "{count}");
    }
    fn nest(writer: &mut Writer<'_>, depth: usize) -> Result<(), Full> {
        match depth {
            0 => Ok(()),
            _ => writer.group(IeType::PDI, |inner| nest(inner, depth - 1)),
        }
    }
    // Of a rejection only the lengths are read, to a depth that no message has.
    for (depth, is_ok) in [(DEPTH_MAX, true), (DEPTH_MAX + 1, false), (500, false)] {
        let header = of_node(MessageType::ASSOCIATION_SETUP_RESPONSE);
        let bytes = message(&header, |writer| {
            writer.put(key::CAUSE, &Cause::SYSTEM_FAILURE)?;
            nest(writer, depth)
        });
        let refusal = Cause::NO_RESOURCES_AVAILABLE.because_of(IeType::PDI);
        let expected = if is_ok { Ok(()) } else { Err(refusal) };
        assert_eq!(check(&bytes), expected, "{depth}");
        assert!(View::parse(&bytes[..]).unwrap().to_string().len() < 5000);
    }
}

/// Cut anywhere behind the header, the length filled in: there is a cause, and an IE to blame for
/// all but a cut inside a type.
#[test]
fn a_message_cut_anywhere_is_refused_with_a_cause() {
    let whole = establishment();
    assert_eq!(check(&whole), Ok(()));
    let ends: Vec<usize> = {
        let view = View::parse(&whole[..]).unwrap();
        let mut at = view.header_len();
        let sizes = view
            .ies()
            .ies()
            .map(|ie| IE_HEADER_LEN + ie.unwrap().value.len());
        sizes
            .map(|size| {
                at += size;
                at
            })
            .collect()
    };
    for len in HEADER_LEN_MAX..whole.len() {
        let mut bytes = whole[..len].to_vec();
        bytes[2..4].copy_from_slice(&((len - 4) as u16).to_be_bytes());
        let result = check(&bytes);
        // From the fourth IE on only what may be missing is cut off.
        if ends[3..].contains(&len) {
            assert_eq!(result, Ok(()), "cut at {len}");
            continue;
        }
        let refusal = result.expect_err("something is missing");
        let is_between = len == HEADER_LEN_MAX || ends.contains(&len);
        let cause = if is_between {
            Cause::MANDATORY_IE_MISSING
        } else {
            Cause::INVALID_LENGTH
        };
        assert_eq!(refusal.cause, cause, "cut at {len}");
    }
}
