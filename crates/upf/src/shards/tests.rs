//! A UPF in several shards behind its splitter: thousands of sessions, each whole in one of them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use catena_engine::nf::{BuildContext, NfMemory, NfState};
use catena_wire::pfcp::value::address::{FSeid, NodeId, UeIpAddress};
use catena_wire::pfcp::value::flags::ApplyAction;
use catena_wire::pfcp::value::forwarding::{
    DestinationInterface, OuterHeaderCreation, OuterHeaders, SourceInterface,
};
use catena_wire::pfcp::value::{FarId, PdrId, Time, TrafficEndpointId};
use catena_wire::pfcp::{Cause, Header, Writer};
use serde_json::{Value, json};

use super::*;
use crate::application::number;
use crate::association::Association;
use crate::floods::in_tunnel;
use crate::node::message;
use crate::pfds::tests::{FLOW, put};
use crate::smf::wire;
use crate::store::memory_bytes;
use crate::sweep::{Fate, Sweep};
use crate::transactions::Peer;
use crate::upf::Upf;
use crate::usage::WallClock;

const CLOCK: WallClock = WallClock {
    zero_ns: 3_900_000_000_000_000_000,
};

const SESSIONS: u32 = 4000;
const SMF: [u8; 4] = [10, 4, 0, 2];

fn settings_of(sessions: u32) -> Value {
    json!({
        "node_id": "10.4.0.1",
        "n4": { "address": "10.4.0.1", "heartbeat": "0s" },
        "interfaces": [
            { "name": "n3", "side": "access", "address": "10.3.0.1" },
            { "name": "n6", "side": "core", "network_instance": "internet" },
        ],
        "pools": [{ "network_instance": "internet", "v4": "10.45.0.0/19", "v6": "2001:db8::/48" }],
        "sessions": sessions,
    })
}

/// All shards and what splits frames among them.
struct Node {
    shards: Vec<Upf>,
    chooser: Shards,
    sequence: u32,
}

/// What the SMF learned.
struct Known {
    seid: u64,
    teid: u32,
    v4: Ipv4Addr,
    v6: std::net::Ipv6Addr,
}

impl Node {
    fn new(count: u16) -> Self {
        let (_, settings, _) = config::read(&settings_of(SESSIONS)).unwrap();
        let shards = (0..count).map(|shard| {
            let mut settings = settings.clone();
            settings.shard = (shard, count);
            let memory = vec![0; memory_bytes(settings.session_bytes, settings.sessions)];
            Upf::new(settings, Box::new(memory), CLOCK, 0).unwrap()
        });
        let mut node = Self {
            shards: shards.collect(),
            chooser: Shards::new(&settings, count),
            sequence: 0,
        };
        let answers = node.ask(MessageType::ASSOCIATION_SETUP_REQUEST, None, |writer| {
            writer.put(key::NODE_ID, &NodeId::V4(SMF.into()))?;
            writer.put(key::RECOVERY_TIME_STAMP, &Time(1))
        });
        assert_eq!(answers.len(), 1, "one shard answers for the node");
        node
    }

    /// The shards that a frame goes to.
    fn targets(&self, frame: &[u8]) -> Vec<usize> {
        match self.chooser.of_frame(frame) {
            Some(ALL_SHARDS) => (0..self.shards.len()).collect(),
            shard => vec![shard.unwrap_or(0).into()],
        }
    }

    /// Asks, and gives the answers of all shards.
    fn ask(
        &mut self,
        message_type: MessageType,
        seid: Option<u64>,
        fill: impl FnOnce(&mut Writer<'_>) -> Result<(), pfcp::Full>,
    ) -> Vec<Vec<u8>> {
        self.sequence += 1;
        let header = Header::new(message_type, seid, self.sequence);
        let bytes = message(&header, fill).unwrap();
        let frame = framed(SMF.into(), [10, 4, 0, 1].into(), pfcp::PORT, &bytes);
        let from = Peer {
            address: IpAddr::V4(SMF.into()),
            port: pfcp::PORT,
        };
        let mut answers = Vec::new();
        for shard in self.targets(&frame) {
            let upf = &mut self.shards[shard];
            upf.datagram(&bytes, from, 0);
            answers.extend(std::iter::from_fn(|| upf.next_message()).map(|one| one.bytes));
        }
        answers
    }

    fn establish(&mut self, session: u64, given: Option<Ipv4Addr>) -> (Cause, Option<Known>) {
        let answers = self.ask(
            MessageType::SESSION_ESTABLISHMENT_REQUEST,
            Some(0),
            |writer| {
                writer.put(key::NODE_ID, &NodeId::V4(SMF.into()))?;
                let f_seid = FSeid {
                    seid: session,
                    v4: Some(SMF.into()),
                    v6: None,
                };
                writer.put(key::F_SEID, &f_seid)?;
                rules(writer, given)
            },
        );
        assert_eq!(answers.len(), 1);
        let view = View::parse(&answers[0][..]).unwrap();
        let ies = view.ies();
        let cause = ies.require(key::CAUSE).unwrap();
        let Some(f_seid) = ies.get(key::F_SEID).unwrap() else {
            return (cause, None);
        };
        let mut known = Known {
            seid: f_seid.seid,
            teid: 0,
            v4: Ipv4Addr::UNSPECIFIED,
            v6: std::net::Ipv6Addr::UNSPECIFIED,
        };
        for created in ies.groups(IeType::CREATED_PDR) {
            if let Some(FTeid::Given { teid, .. }) = created.get(key::F_TEID).unwrap() {
                known.teid = teid;
            }
            let ue = created.get(key::UE_IP_ADDRESS).unwrap().unwrap_or_default();
            if let Some(Allocation::Given(v4)) = ue.v4 {
                known.v4 = v4;
            }
            if let Some(Allocation::Given(v6)) = ue.v6 {
                known.v6 = v6;
            }
        }
        (cause, Some(known))
    }
}

fn rules(writer: &mut Writer<'_>, given: Option<Ipv4Addr>) -> Result<(), pfcp::Full> {
    let v4 = given.map_or(Allocation::Choose, Allocation::Given);
    let ue = UeIpAddress {
        v4: Some(v4),
        v6: given.is_none().then_some(Allocation::Choose),
        ..UeIpAddress::default()
    };
    let sides = [SourceInterface::ACCESS, SourceInterface::CORE];
    for (id, side) in (1..).zip(sides) {
        writer.group(IeType::CREATE_PDR, |writer| {
            writer.put(key::PDR_ID, &PdrId(id))?;
            writer.put(key::PRECEDENCE, &100)?;
            writer.group(IeType::PDI, |writer| {
                writer.put(key::SOURCE_INTERFACE, &side)?;
                if side == SourceInterface::ACCESS {
                    let choose = FTeid::Choose {
                        v4: true,
                        v6: false,
                        choose_id: None,
                    };
                    writer.put(key::F_TEID, &choose)?;
                }
                writer.put(key::UE_IP_ADDRESS, &ue)
            })?;
            writer.put(key::FAR_ID, &FarId(id.into()))
        })?;
    }
    let sides = [DestinationInterface::CORE, DestinationInterface::ACCESS];
    for (id, side) in (1..).zip(sides) {
        writer.group(IeType::CREATE_FAR, |writer| {
            writer.put(key::FAR_ID, &FarId(id))?;
            writer.put(key::APPLY_ACTION, &ApplyAction::FORW)?;
            writer.group(IeType::FORWARDING_PARAMETERS, |writer| {
                writer.put(key::DESTINATION_INTERFACE, &side)?;
                let header = OuterHeaderCreation {
                    headers: OuterHeaders::GTP_U_UDP_IPV4,
                    teid: Some(id),
                    v4: Some([10, 3, 0, 2].into()),
                    ..OuterHeaderCreation::default()
                };
                let is_tunnel = side == DestinationInterface::ACCESS;
                writer.put_some(key::OUTER_HEADER_CREATION, is_tunnel.then_some(&header))
            })
        })?;
    }
    Ok(())
}

/// One shard answers for the node, another one may still be ending sessions of before: its SMF asks
/// again, and is not told that it has no association.
#[test]
fn a_session_that_is_wanted_before_its_shard_is_ready_waits_for_its_repetition() {
    let mut node = Node::new(2);
    let upf = &mut node.shards[1];
    let new = upf.store.association(0);
    upf.sweeps.push_back(Sweep::of(0, Fate::End, new));
    let header = Header::new(MessageType::SESSION_ESTABLISHMENT_REQUEST, Some(0), 77);
    let request = message(&header, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(SMF.into()))?;
        let f_seid = FSeid {
            seid: 1,
            v4: Some(SMF.into()),
            v6: None,
        };
        writer.put(key::F_SEID, &f_seid)?;
        rules(writer, None)
    });
    let request = request.unwrap();
    let from = Peer {
        address: IpAddr::V4(SMF.into()),
        port: pfcp::PORT,
    };
    upf.datagram(&request, from, 0);
    assert_eq!((upf.next_message(), upf.counters().discarded), (None, 1));
    upf.wake(1);
    upf.datagram(&request, from, 2);
    let answer = upf.next_message().expect("an answer");
    let view = View::parse(&answer.bytes[..]).unwrap();
    let cause = view.ies().require(key::CAUSE).unwrap();
    assert_eq!(cause, Cause::REQUEST_ACCEPTED);
    // Where nothing comes in its place, there is none to wait for.
    let none = Association::none();
    upf.sweeps.push_back(Sweep::of(0, Fate::End, none));
    let header = Header {
        sequence: 78,
        ..header
    };
    let other = message(&header, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(SMF.into()))
    });
    upf.datagram(&other.unwrap(), from, 3);
    assert!(upf.next_message().is_some());
}

fn framed(src: IpAddr, dst: IpAddr, port: u16, payload: &[u8]) -> Vec<u8> {
    wire::datagram((src, port), (dst, port), payload)
}

/// Both directions of each session, its messages, and messages of the node.
#[test]
fn everything_of_a_session_comes_to_the_shard_that_serves_it() {
    for count in [2, 3, 4] {
        let mut node = Node::new(count);
        let mut sessions = BTreeMap::new();
        let mut teids = std::collections::BTreeSet::new();
        for session in 1..=SESSIONS.into() {
            let (cause, known) = node.establish(session, None);
            assert_eq!(cause, Cause::REQUEST_ACCEPTED);
            let known = known.unwrap();
            let shard = usize::try_from(known.seid >> SEID_SHIFT).unwrap();
            let host = IpAddr::V4([203, 0, 113, 9].into());
            let down = framed(host, known.v4.into(), 7, &[]);
            let host_v6 = "2001:db8:9::9".parse().unwrap();
            let v6: IpAddr = std::net::Ipv6Addr::from_bits(known.v6.to_bits() | 9).into();
            let down_v6 = framed(host_v6, v6, 7, &[]);
            for frame in [&in_tunnel(known.teid), &down, &down_v6] {
                assert_eq!(node.targets(frame), [shard], "session {session} of {count}");
            }
            assert!(teids.insert(known.teid), "each TEID once, in all shards");
            sessions.insert(session, known);
        }
        for upf in &node.shards {
            let share = SESSIONS / u32::from(count);
            let own = upf.session_count();
            assert!(
                own.abs_diff(share) < share / 5,
                "{own} instead of about {share}"
            );
        }
        for (session, known) in sessions.iter().filter(|(session, _)| **session % 2 == 0) {
            let answers = node.ask(
                MessageType::SESSION_DELETION_REQUEST,
                Some(known.seid),
                |_| Ok(()),
            );
            let view = View::parse(&answers[0][..]).unwrap();
            assert_eq!(view.header().seid, Some(*session));
            let cause = view.ies().require(key::CAUSE).unwrap();
            assert_eq!(cause, Cause::REQUEST_ACCEPTED);
        }
        let live: u32 = node.shards.iter().map(Upf::session_count).sum();
        assert_eq!(live, SESSIONS / 2);
        // Another start of the SMF, told to one and heard by all.
        let answers = node.ask(MessageType::HEARTBEAT_REQUEST, None, |writer| {
            writer.put(key::RECOVERY_TIME_STAMP, &Time(2))
        });
        assert_eq!(answers.len(), 1);
        for upf in &mut node.shards {
            while !upf.sweeps.is_empty() {
                upf.wake(0);
            }
        }
        assert!(node.shards.iter().all(|upf| upf.session_count() == 0));
    }
}

#[test]
fn what_an_smf_chooses_itself_decides_the_shard() {
    let mut node = Node::new(4);
    for (session, last) in (1..).zip([3, 60, 130, 200]) {
        for ue in [
            Ipv4Addr::new(10, 45, 7, last),
            Ipv4Addr::new(172, 16, 0, last),
        ] {
            let (cause, known) = node.establish(session, Some(ue));
            assert_eq!(cause, Cause::REQUEST_ACCEPTED);
            let shard = usize::try_from(known.unwrap().seid >> SEID_SHIFT).unwrap();
            let down = framed([8, 8, 8, 8].into(), ue.into(), 7, &[]);
            assert_eq!(node.targets(&down), [shard]);
        }
    }
    // A shard that is asked for an address of another refuses: packets would not find it.
    let ue = Ipv4Addr::new(10, 45, 0, 9);
    let own = node.chooser.of_key(Key::V4(ue)).unwrap();
    let other = &mut node.shards[usize::from(own) ^ 1];
    let header = Header::new(MessageType::SESSION_ESTABLISHMENT_REQUEST, Some(0), 9999);
    let bytes = message(&header, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(SMF.into()))?;
        let f_seid = FSeid {
            seid: 9,
            v4: Some(SMF.into()),
            v6: None,
        };
        writer.put(key::F_SEID, &f_seid)?;
        rules(writer, Some(ue))
    });
    let from = Peer {
        address: IpAddr::V4(SMF.into()),
        port: pfcp::PORT,
    };
    other.datagram(&bytes.unwrap(), from, 0);
    let answer = other.next_message().unwrap();
    let view = View::parse(&answer.bytes[..]).unwrap();
    let cause = view.ies().require(key::CAUSE).unwrap();
    assert_eq!(cause, Cause::RULE_CREATION_MODIFICATION_FAILURE);
    let offending = view.ies().get(key::OFFENDING_IE).unwrap();
    assert_eq!(offending, Some(IeType::UE_IP_ADDRESS));
}

/// The NF is built as the shard that the engine says, and its plan names the key.
#[test]
fn the_nf_is_sharded_by_its_own_key() {
    let settings = settings_of(10);
    let plan = (crate::nf::KIND.plan)(&settings, &[]).unwrap();
    assert!(matches!(
        plan.sharding,
        catena_engine::shard::Sharding::Own(_)
    ));
    let mut context = BuildContext {
        shard: 3,
        shard_count: 4,
        state: vec![NfState {
            name: plan.state[0].name.clone(),
            memory: NfMemory::new(plan.state[0].bytes),
            is_taken_over: false,
        }],
        ..BuildContext::alone(&plan.outputs)
    };
    let mut built = (crate::nf::KIND.build)(&settings, &mut context).unwrap();
    let pools = built.nf.control(&json!({ "show": "pools" })).unwrap();
    let count = pools["pools"][0]["v4"]["count"].as_u64().unwrap();
    assert!((2047..=2048).contains(&count), "a quarter of 8190: {count}");
}

/// Each shard has all PFDs, since its sessions may name any; one of them answers.
#[test]
fn pfds_reach_every_shard_and_framed_routes_are_refused() {
    let mut node = Node::new(3);
    let answers = node.ask(MessageType::PFD_MANAGEMENT_REQUEST, None, |writer| {
        put(writer, b"a", FLOW)
    });
    assert_eq!(answers.len(), 1);
    assert!(
        node.shards
            .iter()
            .all(|upf| upf.application_id(number(b"a")).is_some())
    );
    // What goes to a network behind a UE says nothing of its shard.
    let answers = node.ask(
        MessageType::SESSION_ESTABLISHMENT_REQUEST,
        Some(0),
        |writer| {
            writer.put(key::NODE_ID, &NodeId::V4(SMF.into()))?;
            let f_seid = FSeid {
                seid: 1,
                v4: Some(SMF.into()),
                v6: None,
            };
            writer.put(key::F_SEID, &f_seid)?;
            writer.group(IeType::CREATE_PDR, |writer| {
                writer.put(key::PDR_ID, &PdrId(1))?;
                writer.put(key::PRECEDENCE, &100)?;
                writer.group(IeType::PDI, |writer| {
                    writer.put(key::SOURCE_INTERFACE, &SourceInterface::CORE)?;
                    writer.put(key::FRAMED_ROUTE, &&b"192.0.2.0/24"[..])
                })?;
                writer.put(key::FAR_ID, &FarId(1))
            })?;
            writer.group(IeType::CREATE_FAR, |writer| {
                writer.put(key::FAR_ID, &FarId(1))?;
                writer.put(key::APPLY_ACTION, &ApplyAction::DROP)
            })
        },
    );
    let view = View::parse(&answers[0][..]).unwrap();
    let said = (
        view.ies().require(key::CAUSE).unwrap(),
        view.ies().get(key::OFFENDING_IE).unwrap(),
    );
    let refused = (Cause::SERVICE_NOT_SUPPORTED, Some(IeType::FRAMED_ROUTE));
    assert_eq!(said, refused);
}

/// As with a PDR's own: a session is made where the tunnel of its endpoint ends.
#[test]
fn an_endpoint_whose_tunnel_an_smf_chose_says_the_shard() {
    const ENDPOINT: TrafficEndpointId = TrafficEndpointId(1);
    let mut node = Node::new(4);
    for teid in [0x1000_0000, 0x5000_0000, 0x9000_0000, 0xd000_0000] {
        let message_type = MessageType::SESSION_ESTABLISHMENT_REQUEST;
        let answers = node.ask(message_type, Some(0), |writer| {
            writer.put(key::NODE_ID, &NodeId::V4(SMF.into()))?;
            let (v4, v6) = (Some(SMF.into()), None);
            writer.put(key::F_SEID, &FSeid { seid: 1, v4, v6 })?;
            writer.group(IeType::CREATE_TRAFFIC_ENDPOINT, |writer| {
                writer.put(key::TRAFFIC_ENDPOINT_ID, &ENDPOINT)?;
                let v4 = Some([10, 3, 0, 1].into());
                writer.put(key::F_TEID, &FTeid::Given { teid, v4, v6: None })
            })?;
            writer.group(IeType::CREATE_PDR, |writer| {
                writer.put(key::PDR_ID, &PdrId(1))?;
                writer.put(key::PRECEDENCE, &100)?;
                writer.group(IeType::PDI, |writer| {
                    writer.put(key::SOURCE_INTERFACE, &SourceInterface::ACCESS)?;
                    writer.put(key::TRAFFIC_ENDPOINT_ID, &ENDPOINT)
                })?;
                writer.put(key::FAR_ID, &FarId(1))
            })?;
            writer.group(IeType::CREATE_FAR, |writer| {
                writer.put(key::FAR_ID, &FarId(1))?;
                writer.put(key::APPLY_ACTION, &ApplyAction::DROP)
            })
        });
        let view = View::parse(&answers[0][..]).unwrap();
        let cause = view.ies().require(key::CAUSE).unwrap();
        assert_eq!(cause, Cause::REQUEST_ACCEPTED, "{teid:#x}: {view}");
    }
    let counts = node.shards.iter().map(Upf::session_count);
    assert_eq!(counts.collect::<Vec<_>>(), [1; 4]);
}
