//! A refused request changes nothing: random requests, right but for one part of each.
//!
//! What a UPF is, is written down before and behind a refused request and must be the same: its
//! sessions, what leads to them, its pools and ceilings, what is due and what waits to be said. The
//! same request without the part that is wrong is then accepted: so that part alone was refused.

use std::net::Ipv4Addr;

use catena_wire::pfcp::value::address::{Allocation, FTeid, UeIpAddress, UeIpAddressPoolIdentity};
use catena_wire::pfcp::value::detection::SdfFilter;
use catena_wire::pfcp::value::flags::{
    ApplyAction, MeasurementMethod, ReportingTriggers, SessionModificationRequestFlags,
};
use catena_wire::pfcp::value::forwarding::{
    DestinationInterface, OuterHeaderCreation, OuterHeaders, SourceInterface,
};
use catena_wire::pfcp::value::qos::GateStatus;
use catena_wire::pfcp::value::usage::Volume;
use catena_wire::pfcp::value::{BarId, FarId, PdrId, QerId, Seconds, TrafficEndpointId, UrrId};
use catena_wire::pfcp::{Cause, Full, IeType, MessageType, Writer, key};
use proptest::prelude::*;
use serde_json::json;

use crate::config;
use crate::public_failures::{Smf, begin};
use crate::store::memory_bytes;
use crate::upf::Upf;
use crate::usage::WallClock;

type Written = Result<(), Full>;

/// The tunnel and the network that another session has.
const OTHERS_TEID: u32 = 0x0dd;
const OTHERS_ROUTE: &[u8] = b"192.0.2.0/24";
/// A rule that no session has.
const NOBODYS: u32 = 9_999;

/// What of a request is right, whatever else is in it.
#[derive(Clone, Copy, Debug)]
enum Part {
    Far,
    Qer,
    Urr,
    Bar,
    /// A PDR with a tunnel, and with UE addresses of these versions, all chosen.
    Pdr(bool, bool),
    Endpoint(bool, bool),
    Route(u8),
    Inactivity(u32),
    /// An update of the first FAR: it buffers, or forwards elsewhere with end markers.
    Buffer,
    Forward(u32),
    UpdateQer,
    UpdateUrr,
    QueryAll,
    DropHeld,
}

/// What of a request is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    // What is created, also in an establishment.
    PdrOfNoFar,
    PdrOfNoQer,
    NoFilter,
    NoInstance,
    NoPool,
    OthersTeid,
    OthersRoute,
    TooMany,
    NoRoom,
    TwoFars,
    EndpointOfNoPool,
    Mar,
    // What is changed or removed.
    UpdatePdr,
    UpdateFar,
    UpdateUrr,
    UpdateEndpoint,
    RemoveFarInUse,
    RemoveUrr,
    QueryUrr,
}

const WRONG_ANYWHERE: &[Wrong] = &[
    Wrong::PdrOfNoFar,
    Wrong::PdrOfNoQer,
    Wrong::NoFilter,
    Wrong::NoInstance,
    Wrong::NoPool,
    Wrong::OthersTeid,
    Wrong::OthersRoute,
    Wrong::TooMany,
    Wrong::NoRoom,
    Wrong::TwoFars,
    Wrong::EndpointOfNoPool,
    Wrong::Mar,
];
const WRONG_IN_CHANGES: &[Wrong] = &[
    Wrong::UpdatePdr,
    Wrong::UpdateFar,
    Wrong::UpdateUrr,
    Wrong::UpdateEndpoint,
    Wrong::RemoveFarInUse,
    Wrong::RemoveUrr,
    Wrong::QueryUrr,
];

fn a_creation() -> impl Strategy<Value = Part> {
    prop_oneof![
        Just(Part::Far),
        Just(Part::Qer),
        Just(Part::Urr),
        Just(Part::Bar),
        any::<(bool, bool)>().prop_map(|(v4, v6)| Part::Pdr(v4, v6)),
        any::<(bool, bool)>().prop_map(|(v4, v6)| Part::Endpoint(v4, v6)),
        any::<u8>().prop_map(Part::Route),
        (1u32..1000).prop_map(Part::Inactivity),
    ]
}

fn a_part() -> impl Strategy<Value = Part> {
    prop_oneof![
        2 => a_creation(),
        1 => prop_oneof![
            Just(Part::Buffer),
            (1u32..1000).prop_map(Part::Forward),
            Just(Part::UpdateQer),
            Just(Part::UpdateUrr),
            Just(Part::QueryAll),
            Just(Part::DropHeld),
        ],
    ]
}

/// Parts, where among them the wrong one stands, and which it is.
type Request = (Vec<Part>, usize, Wrong);

fn an_establishment() -> impl Strategy<Value = Request> {
    let parts = prop::collection::vec(a_creation(), 0..6);
    (parts, 0usize..60, prop::sample::select(WRONG_ANYWHERE))
}

fn a_modification() -> impl Strategy<Value = Request> {
    let wrong = [WRONG_ANYWHERE, WRONG_IN_CHANGES].concat();
    let parts = prop::collection::vec(a_part(), 0..6);
    (parts, 0usize..60, prop::sample::select(wrong))
}

fn upf() -> Upf {
    let settings = json!({
        "node_id": "10.4.0.1",
        "n4": { "address": "10.4.0.1", "heartbeat": "0s" },
        "interfaces": [
            { "name": "n3", "side": "access", "address": "10.3.0.1" },
            { "name": "n6", "side": "core", "network_instance": "internet" },
        ],
        "pools": [{
            "network_instance": "internet", "v4": "10.45.0.0/24", "v6": "2001:db8:45::/56",
        }],
        "sessions": 8,
        "session_bytes": "8KiB",
    });
    let (_, settings, _) = config::read(&settings).unwrap();
    let bytes = memory_bytes(settings.session_bytes, settings.sessions);
    let clock = WallClock {
        zero_ns: 3_900_000_000_000_000_000,
    };
    Upf::new(settings, Box::new(vec![0; bytes]), clock, 0).unwrap()
}

/// All that a request may change, and a refused one must not.
#[derive(Debug, PartialEq)]
struct State(Vec<String>);

fn state(upf: &Upf) -> State {
    let slots: Vec<u32> = upf.store.slots().collect();
    let sessions: Vec<_> = slots.iter().map(|slot| upf.store.session(*slot)).collect();
    let keys = sessions.iter().flatten().flat_map(|session| {
        let keys = session.keys().into_iter().chain(session.remotes());
        keys.map(|key| (key, upf.index.find(key)))
            .collect::<Vec<_>>()
    });
    let counters = crate::upf::Counters {
        messages: 0,
        refused: 0,
        ..*upf.counters()
    };
    // Where a pool looks next is nobody's.
    let pools: Vec<_> = upf.pools.iter().map(|pool| pool.fill()).collect();
    State(vec![
        format!("sessions: {sessions:?}"),
        format!("next: {:?}", upf.store.next()),
        format!("keys: {} {:?}", upf.index.len(), keys.collect::<Vec<_>>()),
        format!("pools: {pools:?}"),
        format!("ceilings: {}", upf.ceilings.shown()),
        format!("tally: {}", upf.tally.shown(&upf.settings)),
        format!("paths: {:?}", upf.paths.iter().collect::<Vec<_>>()),
        format!("due: {:?}", upf.timers.next_ns()),
        format!("end markers: {:?}", upf.end_markers),
        format!("unadvertised: {:?}", upf.unadvertised),
        format!("released: {:?}", upf.released),
        format!("reports: {:?} {:?}", upf.unreported, upf.untold),
        format!("counters: {counters:?}"),
    ])
}

/// An SMF that counts the rules it has made.
struct Maker {
    smf: Smf,
    next_id: u16,
}

impl Maker {
    /// With a session that has what others must not get.
    fn new() -> Self {
        let mut maker = Self {
            smf: Smf::of(upf()),
            next_id: 10,
        };
        let (cause, ..) = maker.smf.ask(ESTABLISHMENT, Some(0), |writer| {
            begin(writer)?;
            far(writer, 1)?;
            pdr(writer, 1, 1, |writer| {
                given_teid(writer, OTHERS_TEID)?;
                writer.put(key::FRAMED_ROUTE, &OTHERS_ROUTE)
            })
        });
        assert_eq!(cause, Cause::REQUEST_ACCEPTED);
        maker
    }

    /// Asks for parts; those of an establishment stand beside a usual session's, which has a tunnel
    /// and no address yet.
    fn ask(
        &mut self,
        seid: Option<u64>,
        parts: &[Part],
        wrong: Option<(usize, Wrong)>,
    ) -> (Cause, Option<IeType>, u64) {
        let first_id = self.next_id;
        // A request that is made again has the rules of the first one.
        if wrong.is_none() {
            self.next_id += parts.len() as u16;
        }
        let kind = match seid {
            None => ESTABLISHMENT,
            Some(_) => MessageType::SESSION_MODIFICATION_REQUEST,
        };
        self.smf.ask(kind, Some(seid.unwrap_or(0)), |writer| {
            if seid.is_none() {
                begin(writer)?;
                usual(writer)?;
            }
            for (place, part) in parts.iter().enumerate() {
                if let Some((at, wrong)) = wrong.filter(|(at, _)| *at == place) {
                    put_wrong(writer, wrong, first_id + 1000 + at as u16)?;
                }
                put(writer, *part, first_id + place as u16)?;
            }
            match wrong.filter(|(at, _)| *at >= parts.len()) {
                Some((_, wrong)) => put_wrong(writer, wrong, first_id + 1000),
                None => Ok(()),
            }
        })
    }

    /// A request that is refused for its wrong part, and changes nothing, and one without it.
    fn ask_both(&mut self, seid: Option<u64>, (parts, at, wrong): &Request) -> u64 {
        // Flags are said once, and one FAR is updated once.
        let mut parts = parts.clone();
        let mut seen = Vec::new();
        parts.retain(|part| {
            let kind = match part {
                Part::Buffer | Part::Forward(_) => 1,
                Part::QueryAll | Part::DropHeld => 2,
                Part::Inactivity(_) => 3,
                _ => return true,
            };
            let is_first = !seen.contains(&kind);
            seen.push(kind);
            is_first
        });
        let before = state(&self.smf.upf);
        let at = at % (parts.len() + 1);
        let (cause, ..) = self.ask(seid, &parts, Some((at, *wrong)));
        assert_ne!(cause, Cause::REQUEST_ACCEPTED, "{wrong:?}");
        assert_eq!(
            state(&self.smf.upf),
            before,
            "{wrong:?} at {at} of {parts:?}"
        );
        let (cause, offending, seid) = self.ask(seid, &parts, None);
        assert_eq!(
            (cause, offending),
            (Cause::REQUEST_ACCEPTED, None),
            "{parts:?}"
        );
        seid
    }
}

const ESTABLISHMENT: MessageType = MessageType::SESSION_ESTABLISHMENT_REQUEST;

fn usual(writer: &mut Writer<'_>) -> Written {
    pdr(writer, 1, 1, chosen_teid)?;
    far(writer, 1)?;
    qer(writer, IeType::CREATE_QER, 1)?;
    urr(writer, IeType::CREATE_URR, 1)
}

fn pdr(
    writer: &mut Writer<'_>,
    id: u16,
    far: u32,
    pdi: impl Fn(&mut Writer<'_>) -> Written,
) -> Written {
    writer.group(IeType::CREATE_PDR, |writer| {
        writer.put(key::PDR_ID, &PdrId(id))?;
        writer.put(key::PRECEDENCE, &u32::from(id))?;
        writer.group(IeType::PDI, |writer| {
            writer.put(key::SOURCE_INTERFACE, &SourceInterface::ACCESS)?;
            pdi(writer)
        })?;
        writer.put(key::FAR_ID, &FarId(far))
    })
}

fn chosen_teid(writer: &mut Writer<'_>) -> Written {
    let choose = FTeid::Choose {
        v4: true,
        v6: false,
        choose_id: None,
    };
    writer.put(key::F_TEID, &choose)
}

fn given_teid(writer: &mut Writer<'_>, teid: u32) -> Written {
    let given = FTeid::Given {
        teid,
        v4: Some(Ipv4Addr::new(10, 3, 0, 1)),
        v6: None,
    };
    writer.put(key::F_TEID, &given)
}

fn chosen_ue(writer: &mut Writer<'_>, (v4, v6): (bool, bool)) -> Written {
    if !v4 && !v6 {
        return Ok(());
    }
    let address = UeIpAddress {
        v4: v4.then_some(Allocation::Choose),
        v6: v6.then_some(Allocation::Choose),
        ..UeIpAddress::default()
    };
    writer.put(key::UE_IP_ADDRESS, &address)
}

/// An address of a pool that there is not.
fn ue_of_no_pool(writer: &mut Writer<'_>) -> Written {
    chosen_ue(writer, (true, true))?;
    let pool = UeIpAddressPoolIdentity(b"nobody's");
    writer.put(key::UE_IP_ADDRESS_POOL_IDENTITY, &pool)
}

fn far(writer: &mut Writer<'_>, id: u32) -> Written {
    writer.group(IeType::CREATE_FAR, |writer| {
        writer.put(key::FAR_ID, &FarId(id))?;
        writer.put(key::APPLY_ACTION, &ApplyAction::FORW)?;
        writer.group(IeType::FORWARDING_PARAMETERS, |writer| {
            writer.put(key::DESTINATION_INTERFACE, &DestinationInterface::CORE)
        })
    })
}

fn qer(writer: &mut Writer<'_>, group: IeType, id: u32) -> Written {
    writer.group(group, |writer| {
        writer.put(key::QER_ID, &QerId(id))?;
        writer.put(key::GATE_STATUS, &GateStatus::OPEN)
    })
}

fn urr(writer: &mut Writer<'_>, group: IeType, id: u32) -> Written {
    writer.group(group, |writer| {
        writer.put(key::URR_ID, &UrrId(id))?;
        writer.put(key::MEASUREMENT_METHOD, &MeasurementMethod::VOLUM)?;
        writer.put(key::REPORTING_TRIGGERS, &ReportingTriggers::VOLTH)?;
        let volume = Volume {
            total: Some(u64::from(id) + 1000),
            ..Volume::default()
        };
        writer.put(key::VOLUME_THRESHOLD, &volume)
    })
}

fn put(writer: &mut Writer<'_>, part: Part, id: u16) -> Written {
    let wide = u32::from(id);
    match part {
        Part::Far => far(writer, wide),
        Part::Qer => qer(writer, IeType::CREATE_QER, wide),
        Part::Urr => urr(writer, IeType::CREATE_URR, wide),
        Part::Bar => writer.group(IeType::CREATE_BAR, |writer| {
            writer.put(key::BAR_ID, &BarId(id as u8))
        }),
        Part::Pdr(v4, v6) => pdr(writer, id, 1, |writer| {
            chosen_teid(writer)?;
            chosen_ue(writer, (v4, v6))
        }),
        Part::Endpoint(v4, v6) => writer.group(IeType::CREATE_TRAFFIC_ENDPOINT, |writer| {
            writer.put(key::TRAFFIC_ENDPOINT_ID, &TrafficEndpointId(id as u8))?;
            chosen_teid(writer)?;
            chosen_ue(writer, (v4, v6))
        }),
        Part::Route(net) => pdr(writer, id, 1, |writer| {
            chosen_teid(writer)?;
            let route = format!("198.51.{net}.0/24");
            writer.put(key::FRAMED_ROUTE, &route.as_bytes())
        }),
        Part::Inactivity(s) => writer.put(key::USER_PLANE_INACTIVITY_TIMER, &Seconds(s)),
        Part::Buffer => writer.group(IeType::UPDATE_FAR, |writer| {
            writer.put(key::FAR_ID, &FarId(1))?;
            writer.put(key::APPLY_ACTION, &(ApplyAction::BUFF | ApplyAction::NOCP))
        }),
        Part::Forward(teid) => forward(writer, teid),
        Part::UpdateQer => qer(writer, IeType::UPDATE_QER, 1),
        Part::UpdateUrr => urr(writer, IeType::UPDATE_URR, 1),
        Part::QueryAll => flags(writer, SessionModificationRequestFlags::QAURR),
        Part::DropHeld => flags(writer, SessionModificationRequestFlags::DROBU),
    }
}

fn flags(writer: &mut Writer<'_>, flags: SessionModificationRequestFlags) -> Written {
    writer.put(key::PFCPSMREQ_FLAGS, &flags)
}

/// The first FAR leads into another tunnel; the one before gets an end marker.
fn forward(writer: &mut Writer<'_>, teid: u32) -> Written {
    writer.group(IeType::UPDATE_FAR, |writer| {
        writer.put(key::FAR_ID, &FarId(1))?;
        writer.put(key::APPLY_ACTION, &ApplyAction::FORW)?;
        writer.group(IeType::UPDATE_FORWARDING_PARAMETERS, |writer| {
            writer.put(key::DESTINATION_INTERFACE, &DestinationInterface::ACCESS)?;
            let header = OuterHeaderCreation {
                headers: OuterHeaders::GTP_U_UDP_IPV4,
                teid: Some(teid),
                v4: Some(Ipv4Addr::new(10, 3, 0, 2)),
                ..OuterHeaderCreation::default()
            };
            writer.put(key::OUTER_HEADER_CREATION, &header)?;
            flags(writer, SessionModificationRequestFlags::SNDEM)
        })
    })
}

fn put_wrong(writer: &mut Writer<'_>, wrong: Wrong, id: u16) -> Written {
    let of_nobody = UrrId(NOBODYS);
    match wrong {
        Wrong::PdrOfNoFar => pdr(writer, id, NOBODYS, |writer| {
            chosen_teid(writer)?;
            chosen_ue(writer, (true, true))
        }),
        Wrong::PdrOfNoQer => writer.group(IeType::CREATE_PDR, |writer| {
            writer.put(key::PDR_ID, &PdrId(id))?;
            writer.put(key::PRECEDENCE, &1)?;
            writer.group(IeType::PDI, |writer| {
                writer.put(key::SOURCE_INTERFACE, &SourceInterface::ACCESS)?;
                chosen_ue(writer, (true, false))
            })?;
            writer.put(key::FAR_ID, &FarId(1))?;
            writer.put(key::QER_ID, &QerId(NOBODYS))
        }),
        Wrong::NoFilter => pdr(writer, id, 1, |writer| {
            chosen_ue(writer, (true, true))?;
            let filter = SdfFilter {
                flow_description: Some(b"permit nobody"),
                ..SdfFilter::default()
            };
            writer.put(key::SDF_FILTER, &filter)
        }),
        Wrong::NoInstance => pdr(writer, id, 1, |writer| {
            chosen_ue(writer, (true, true))?;
            writer.put(key::NETWORK_INSTANCE, &b"nobody's".as_slice())
        }),
        Wrong::NoPool => {
            // A v4 address of a pool that there is, then a v6 one of none.
            pdr(writer, id, 1, |writer| chosen_ue(writer, (true, false)))?;
            pdr(writer, id + 1, NOBODYS, ue_of_no_pool)
        }
        Wrong::OthersTeid => pdr(writer, id, 1, |writer| {
            given_teid(writer, OTHERS_TEID)?;
            chosen_ue(writer, (true, true))
        }),
        Wrong::OthersRoute => pdr(writer, id, 1, |writer| {
            chosen_ue(writer, (true, true))?;
            writer.put(key::FRAMED_ROUTE, &OTHERS_ROUTE)
        }),
        Wrong::TooMany => {
            pdr(writer, id, 1, |writer| chosen_ue(writer, (true, true)))?;
            (0..32).try_for_each(|more| urr(writer, IeType::CREATE_URR, 5000 + more))
        }
        // As many as there may be, and more than its slot takes.
        Wrong::NoRoom => {
            pdr(writer, id, 1, |writer| chosen_ue(writer, (true, true)))?;
            (0..200).try_for_each(|more| far(writer, 5000 + more))
        }
        Wrong::TwoFars => {
            far(writer, NOBODYS)?;
            far(writer, NOBODYS)
        }
        Wrong::EndpointOfNoPool => {
            pdr(writer, id, NOBODYS, |writer| {
                chosen_ue(writer, (true, true))
            })?;
            writer.group(IeType::CREATE_TRAFFIC_ENDPOINT, |writer| {
                writer.put(key::TRAFFIC_ENDPOINT_ID, &TrafficEndpointId(255))?;
                ue_of_no_pool(writer)
            })
        }
        Wrong::Mar => writer.group(IeType::CREATE_MAR, |_| Ok(())),
        Wrong::UpdatePdr => writer.group(IeType::UPDATE_PDR, |writer| {
            writer.put(key::PDR_ID, &PdrId(NOBODYS as u16))
        }),
        Wrong::UpdateFar => writer.group(IeType::UPDATE_FAR, |writer| {
            writer.put(key::FAR_ID, &FarId(NOBODYS))
        }),
        Wrong::UpdateUrr => urr(writer, IeType::UPDATE_URR, NOBODYS),
        Wrong::UpdateEndpoint => writer.group(IeType::UPDATE_TRAFFIC_ENDPOINT, |writer| {
            writer.put(key::TRAFFIC_ENDPOINT_ID, &TrafficEndpointId(255))
        }),
        Wrong::RemoveFarInUse => writer.group(IeType::REMOVE_FAR, |writer| {
            writer.put(key::FAR_ID, &FarId(1))
        }),
        Wrong::RemoveUrr => writer.group(IeType::REMOVE_URR, |writer| {
            writer.put(key::URR_ID, &of_nobody)
        }),
        Wrong::QueryUrr => writer.group(IeType::QUERY_URR, |writer| {
            writer.put(key::URR_ID, &of_nobody)
        }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_request_with_one_part_wrong_changes_nothing(
        established in an_establishment(),
        modified in prop::collection::vec(a_modification(), 1..4),
    ) {
        let mut maker = Maker::new();
        let seid = maker.ask_both(None, &established);
        for request in &modified {
            maker.ask_both(Some(seid), request);
        }
    }
}

/// The first address that a session gets is drawn by a change of it: one that is refused then must
/// give it back.
#[test]
fn each_wrong_part_gives_back_what_was_drawn_before_it() {
    for wrong in [WRONG_ANYWHERE, WRONG_IN_CHANGES].concat() {
        let mut maker = Maker::new();
        let (_, _, seid) = maker.ask(None, &[], None);
        let parts = vec![Part::Endpoint(true, true), Part::Pdr(true, true)];
        maker.ask_both(Some(seid), &(parts, 2, wrong));
    }
}

#[test]
fn a_query_of_a_urr_that_is_not_there_is_refused_beside_one_of_all() {
    let mut maker = Maker::new();
    let (_, _, seid) = maker.ask(None, &[], None);
    maker.ask_both(Some(seid), &(vec![Part::QueryAll], 0, Wrong::QueryUrr));
}
