//! Each test is named by the report that it is of.

use super::*;

impl Smf {
    /// A session with another FAR, whose Forwarding Parameters are these.
    fn establish_forwarding(
        &mut self,
        parameters: impl Fn(&mut Writer<'_>) -> Result<(), Full>,
    ) -> Said {
        self.establish(nothing, |writer| {
            writer.group(IeType::CREATE_FAR, |writer| {
                writer.put(key::FAR_ID, &FarId(2))?;
                writer.put(key::APPLY_ACTION, &ApplyAction::FORW)?;
                writer.group(IeType::FORWARDING_PARAMETERS, |writer| parameters(writer))
            })
        })
    }
}

#[test]
fn open5gs_4423_outer_header_creation_of_no_length() {
    let mut smf = Smf::new();
    let said = smf.establish_forwarding(|writer| {
        writer.put(key::DESTINATION_INTERFACE, &DestinationInterface::ACCESS)?;
        writer.put_null(IeType::OUTER_HEADER_CREATION)
    });
    let wrong = Some(IeType::OUTER_HEADER_CREATION);
    assert_eq!(said, (Cause::INVALID_LENGTH, wrong, 0));
    smf.assert_empty();
}

#[test]
fn open5gs_4218_unknown_destination_interface() {
    let mut smf = Smf::new();
    let said = smf.establish_forwarding(|writer| {
        writer.put(key::DESTINATION_INTERFACE, &DestinationInterface(9))
    });
    let wrong = Some(IeType::DESTINATION_INTERFACE);
    assert_eq!(said, (Cause::MANDATORY_IE_INCORRECT, wrong, 0));
    smf.assert_empty();
}

#[test]
fn open5gs_4181_a_fifth_qer_and_a_ninth() {
    let with = |count: u32| {
        Smf::new().establish(
            |writer| (1..=count).try_for_each(|id| writer.put(key::QER_ID, &QerId(id))),
            |writer| (1..=count).try_for_each(|id| qer(writer, id)),
        )
    };
    assert_eq!(with(5).0, Cause::REQUEST_ACCEPTED);
    assert_eq!(with(8).0, Cause::REQUEST_ACCEPTED);
    let many = (Cause::NO_RESOURCES_AVAILABLE, Some(IeType::QER_ID), 0);
    assert_eq!(with(9), many);
}

#[test]
fn open5gs_4169_urr_id_65535() {
    let mut smf = Smf::new();
    let said = smf.establish(
        |writer| writer.put(key::URR_ID, &UrrId(65_535)),
        |writer| {
            writer.group(IeType::CREATE_URR, |writer| {
                writer.put(key::URR_ID, &UrrId(65_535))?;
                writer.put(key::MEASUREMENT_METHOD, &MeasurementMethod::VOLUM)?;
                writer.put(key::REPORTING_TRIGGERS, &ReportingTriggers::VOLTH)?;
                let volume = Volume {
                    total: Some(1),
                    ..Volume::default()
                };
                writer.put(key::VOLUME_THRESHOLD, &volume)
            })
        },
    );
    assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
}

#[test]
fn open5gs_4179_a_pdr_without_a_far() {
    let mut smf = Smf::new();
    let said = smf.ask(
        MessageType::SESSION_ESTABLISHMENT_REQUEST,
        Some(0),
        |writer| {
            begin(writer)?;
            writer.group(IeType::CREATE_PDR, |writer| {
                writer.put(key::PDR_ID, &PdrId(1))?;
                writer.put(key::PRECEDENCE, &100)?;
                writer.group(IeType::PDI, usual_pdi)
            })?;
            writer.group(IeType::CREATE_FAR, |writer| usual_far(writer, 1))
        },
    );
    assert_eq!(
        said,
        (Cause::CONDITIONAL_IE_MISSING, Some(IeType::FAR_ID), 0)
    );
    smf.assert_empty();
}

#[test]
fn open5gs_4151_a_bad_sdf_filter() {
    for text in [
        "permit out ip from any to",
        "permit out 999 from any to any",
        "\u{0}\u{ff}",
    ] {
        let mut smf = Smf::new();
        let filter = SdfFilter {
            flow_description: Some(text.as_bytes()),
            ..SdfFilter::default()
        };
        let said = smf.establish_at(|writer| writer.put(key::SDF_FILTER, &filter), nothing);
        let cause = Cause::RULE_CREATION_MODIFICATION_FAILURE;
        assert_eq!(said, (cause, Some(IeType::SDF_FILTER), 0), "{text}");
        smf.assert_empty();
    }
}

#[test]
fn open5gs_4153_an_mbr_of_a_wrong_length() {
    let mut smf = Smf::new();
    let said = smf.establish(nothing, |writer| {
        writer.group(IeType::CREATE_QER, |writer| {
            writer.put(key::QER_ID, &QerId(1))?;
            writer.put(key::GATE_STATUS, &GateStatus::OPEN)?;
            writer.put_ie(&catena_wire::pfcp::Ie {
                ie_type: IeType::MBR,
                enterprise: None,
                value: &[1, 2, 3],
            })
        })
    });
    assert_eq!(said, (Cause::INVALID_LENGTH, Some(IeType::MBR), 0));
    smf.assert_empty();
}

/// open5gs #3964, and the flood of SEIDs of oai-cn5g-upf #32.
#[test]
fn open5gs_3964_one_session_too_many() {
    let mut smf = Smf::new();
    for _ in 0..SESSIONS {
        assert_eq!(smf.establish(nothing, nothing).0, Cause::REQUEST_ACCEPTED);
    }
    for _ in 0..1000 {
        let said = smf.establish(nothing, nothing);
        assert_eq!(said, (Cause::NO_RESOURCES_AVAILABLE, None, 0));
    }
    assert_eq!(smf.upf.session_count(), SESSIONS);
    assert_eq!(smf.upf.pools[0].fill()[0], Some((SESSIONS.into(), 254)));
}

#[test]
fn open5gs_4699_no_state_is_left_over_by_a_long_sequence() {
    let mut smf = Smf::new();
    for round in 0..300 {
        let (cause, _, seid) = smf.establish(nothing, nothing);
        assert_eq!(cause, Cause::REQUEST_ACCEPTED, "round {round}");
        let (cause, ..) = smf.establish(nothing, |writer| qer(writer, 1).and(qer(writer, 1)));
        assert_eq!(cause, Cause::RULE_CREATION_MODIFICATION_FAILURE);
        let said = smf.ask(MessageType::SESSION_DELETION_REQUEST, Some(seid), nothing);
        assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
        smf.assert_empty();
    }
}

/// free5gc #1010, #1012: an update is in the data path's own records when it is answered; open5gs
/// PR #4700: octets of Reporting Triggers are not swapped in Update URR.
#[test]
fn free5gc_1010_an_accepted_update_is_applied() {
    let mut smf = Smf::new();
    let (_, _, seid) = smf.establish(
        |writer| {
            writer.put(key::URR_ID, &UrrId(4))?;
            writer.put(key::QER_ID, &QerId(1))
        },
        |writer| {
            qer(writer, 1)?;
            writer.group(IeType::CREATE_URR, |writer| {
                writer.put(key::URR_ID, &UrrId(4))?;
                writer.put(key::MEASUREMENT_METHOD, &MeasurementMethod::VOLUM)?;
                writer.put(key::REPORTING_TRIGGERS, &ReportingTriggers::START)
            })
        },
    );
    let said = smf.ask(
        MessageType::SESSION_MODIFICATION_REQUEST,
        Some(seid),
        |writer| {
            writer.group(IeType::UPDATE_QER, |writer| {
                writer.put(key::QER_ID, &QerId(1))?;
                let closed = GateStatus {
                    ul_open: false,
                    dl_open: true,
                };
                writer.put(key::GATE_STATUS, &closed)
            })?;
            writer.group(IeType::UPDATE_URR, |writer| {
                writer.put(key::URR_ID, &UrrId(4))?;
                writer.put(key::REPORTING_TRIGGERS, &ReportingTriggers::VOLQU)
            })
        },
    );
    assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
    let slot = smf.upf.store.slot_of(seid).unwrap();
    let image = smf.upf.store.image(slot).unwrap();
    assert!(!image.qer(0).unwrap().ul_open);
    let terms = image.urr(0).unwrap().terms;
    assert!(terms.wants(ReportingTriggers::VOLQU) && !terms.wants(ReportingTriggers::START));
}

/// What a data path cannot do is not accepted: the scenario of OAI's suite.
#[test]
fn oai_14_what_is_not_done_is_not_accepted() {
    let of_srr = IeType::ACCESS_AVAILABILITY_CONTROL_INFORMATION;
    for (ie_type, offending) in [
        (IeType::CREATE_MAR, IeType::CREATE_MAR),
        (IeType::CREATE_SRR, of_srr),
    ] {
        let mut smf = Smf::new();
        let said = smf.establish(nothing, |writer| {
            writer.group(ie_type, |writer| match ie_type {
                IeType::CREATE_SRR => {
                    writer.put(key::SRR_ID, &catena_wire::pfcp::value::SrrId(1))?;
                    writer.group(of_srr, |writer| {
                        writer.put_ie(&catena_wire::pfcp::Ie {
                            ie_type: IeType::REQUESTED_ACCESS_AVAILABILITY_INFORMATION,
                            enterprise: None,
                            value: &[1],
                        })
                    })
                }
                _ => {
                    writer.put(key::MAR_ID, &catena_wire::pfcp::value::MarId(1))?;
                    writer.put(key::STEERING_FUNCTIONALITY, &0)?;
                    writer.put(key::STEERING_MODE, &0)?;
                    writer.group(IeType::FORWARDING_ACTION_3GPP, |writer| {
                        writer.put(key::FAR_ID, &FarId(1))
                    })
                }
            })
        });
        assert_eq!(said, (Cause::SERVICE_NOT_SUPPORTED, Some(offending), 0));
        smf.assert_empty();
    }
}

/// open5gs #1578: sessions and associations outlive their UPF.
#[test]
fn open5gs_1578_a_restart_keeps_sessions() {
    let mut smf = Smf::new();
    let (_, _, seid) = smf.establish(nothing, nothing);
    let recovery = smf.upf.store.recovery();
    let (used, keys) = (smf.upf.pools[0].fill(), smf.upf.index.len());
    smf.upf = new(Some(smf.upf.into_memory()));
    assert_eq!(
        (smf.upf.session_count(), smf.upf.store.recovery()),
        (1, recovery)
    );
    assert_eq!((smf.upf.pools[0].fill(), smf.upf.index.len()), (used, keys));
    let said = smf.ask(
        MessageType::SESSION_MODIFICATION_REQUEST,
        Some(seid),
        |writer| writer.group(IeType::CREATE_FAR, |writer| usual_far(writer, 2)),
    );
    assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
    assert_eq!(smf.establish(nothing, nothing).0, Cause::REQUEST_ACCEPTED);
    smf.ask(MessageType::SESSION_DELETION_REQUEST, Some(seid), nothing);
    assert_eq!(smf.upf.session_count(), 1);
}

/// Peers that nobody named are not heard, and floods of them take no memory.
#[test]
fn n4_hijack_unknown_peers_are_not_heard() {
    let mut upf = new(None);
    upf.settings.peers = vec![(IpAddr::V4(Ipv4Addr::new(10, 4, 0, 0)), 24)];
    for byte in 0..=255 {
        let stranger = Peer {
            address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, byte)),
            port: 8805,
        };
        upf.datagram(
            &[0x20, 1, 0, 12, 0, 0, 1, 0, 0, 96, 0, 4, 0, 0, 0, 1],
            stranger,
            0,
        );
    }
    assert!(upf.next_message().is_none());
    assert_eq!(upf.counters().discarded, 256);
    upf.datagram(
        &[0x20, 1, 0, 12, 0, 0, 1, 0, 0, 96, 0, 4, 0, 0, 0, 1],
        SMF,
        0,
    );
    assert!(upf.next_message().is_some());
}

/// Any bytes, and any cut or changed message, are answered or discarded: never a panic, and what is
/// refused leaves nothing.
#[test]
fn free5gc_482_any_bytes_at_all() {
    let mut smf = Smf::new();
    let header = Header::new(MessageType::SESSION_ESTABLISHMENT_REQUEST, Some(0), 9);
    let whole = message(&header, |writer| {
        begin(writer)?;
        writer.group(IeType::CREATE_PDR, |writer| {
            writer.put(key::PDR_ID, &PdrId(1))?;
            writer.put(key::PRECEDENCE, &100)?;
            writer.group(IeType::PDI, usual_pdi)?;
            writer.put(key::FAR_ID, &FarId(1))
        })?;
        writer.group(IeType::CREATE_FAR, |writer| usual_far(writer, 1))
    })
    .unwrap();
    let mut now_ns = 0;
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0xff, whole[at] ^ 0x80] {
            now_ns += 60_000_000_000;
            let mut spoiled = whole.clone();
            spoiled[at] = value;
            smf.upf.datagram(&spoiled, SMF, now_ns);
            smf.upf.datagram(&spoiled[..at], SMF, now_ns);
            smf.upf.end_sessions(0, now_ns);
            while smf.upf.next_message().is_some() {}
            smf.assert_empty();
        }
    }
}

/// Whatever is wrong with a modification: refused, it changes nothing of the session, not a byte of
/// its slot, no key, no address.
#[test]
fn a_modification_of_which_any_octet_is_spoiled_changes_nothing() {
    let mut smf = Smf::new();
    let mut now_ns = 0;
    let mut refused = 0;
    let (_, _, mut seid) = smf.establish(nothing, |writer| qer(writer, 1));
    let modification = |seid| {
        let header = Header::new(
            MessageType::SESSION_MODIFICATION_REQUEST,
            Some(seid),
            0x90_0000,
        );
        message(&header, |writer| {
            writer.group(IeType::REMOVE_QER, |writer| {
                writer.put(key::QER_ID, &QerId(1))
            })?;
            writer.group(IeType::CREATE_FAR, |writer| usual_far(writer, 2))?;
            qer(writer, 2)?;
            writer.group(IeType::CREATE_PDR, |writer| {
                writer.put(key::PDR_ID, &PdrId(2))?;
                writer.put(key::PRECEDENCE, &100)?;
                writer.group(IeType::PDI, usual_pdi)?;
                writer.put(key::FAR_ID, &FarId(2))?;
                writer.put(key::QER_ID, &QerId(2))
            })
        })
        .unwrap()
    };
    for at in 16..modification(seid).len() {
        for change in [1, 0x40, 0xff] {
            now_ns += 60_000_000_000;
            let mut spoiled = modification(seid);
            spoiled[at] ^= change;
            let slot = smf.upf.store.slot_of(seid).unwrap();
            let state = |smf: &Smf| {
                let (keys, used) = (smf.upf.index.len(), smf.upf.pools[0].fill());
                (smf.upf.store.session(slot), keys, used)
            };
            let before = state(&smf);
            smf.upf.datagram(&spoiled, SMF, now_ns);
            let answer = smf.upf.next_message().expect("an answer");
            let view = View::parse(&answer.bytes[..]).unwrap();
            if view.ies().require(key::CAUSE).unwrap().is_accepted() {
                smf.upf.end_sessions(0, now_ns);
                seid = smf.establish(nothing, |writer| qer(writer, 1)).2;
            } else {
                refused += 1;
                assert_eq!(state(&smf), before, "byte {at} ^ {change}");
            }
        }
    }
    assert!(refused > 100, "{refused}");
}
