//! What made public UPFs crash, hang, leak or lie: one test for each, by the name of its report.
//!
//! Each test gives the UPF the bytes of the report, or the rules that failed there, and says what
//! TS 29.244 wants. `chains/upf/scenarios` has more, which need packets and time.

use std::net::{IpAddr, Ipv4Addr};

use catena_wire::pfcp::value::address::{Allocation, FSeid, FTeid, NodeId, UeIpAddress};
use catena_wire::pfcp::value::detection::SdfFilter;
use catena_wire::pfcp::value::flags::{ApplyAction, MeasurementMethod, ReportingTriggers};
use catena_wire::pfcp::value::forwarding::{DestinationInterface, SourceInterface};
use catena_wire::pfcp::value::usage::Volume;
use catena_wire::pfcp::value::{FarId, PdrId, QerId, Time, UrrId, qos::GateStatus};
use catena_wire::pfcp::{Cause, Full, Header, IeType, MessageType, View, Writer, key};
use serde_json::json;

use crate::config;
use crate::node::message;
use crate::store::{Memory, memory_bytes};
use crate::transactions::Peer;
use crate::upf::Upf;
use crate::usage::WallClock;

pub(crate) const SMF: Peer = Peer {
    address: IpAddr::V4(Ipv4Addr::new(10, 4, 0, 2)),
    port: 8805,
};
const CLOCK: WallClock = WallClock {
    zero_ns: 3_900_000_000_000_000_000,
};
pub(crate) const SESSIONS: u32 = 8;

pub(crate) fn new(memory: Option<Memory>) -> Upf {
    sized(SESSIONS, "10.45.0.0/24", "4KiB", memory)
}

/// A UPF with room for so many sessions, these UE addresses, and so much room for a session.
pub(crate) fn sized(sessions: u32, addresses: &str, slot: &str, memory: Option<Memory>) -> Upf {
    let settings = json!({
        "node_id": "10.4.0.1",
        "n4": { "address": "10.4.0.1", "heartbeat": "0s" },
        "interfaces": [
            { "name": "n3", "side": "access", "address": "10.3.0.1" },
            { "name": "n6", "side": "core", "network_instance": "internet" },
        ],
        "pools": [{ "network_instance": "internet", "v4": addresses }],
        "sessions": sessions,
        "session_bytes": slot,
    });
    let (_, settings, _) = config::read(&settings).unwrap();
    let bytes = memory_bytes(settings.session_bytes, settings.sessions);
    let memory = memory.unwrap_or_else(|| Box::new(vec![0; bytes]));
    Upf::new(settings, memory, CLOCK, 0).unwrap()
}

pub(crate) struct Smf {
    pub(crate) upf: Upf,
    sequence: u32,
}

/// What an answer says: cause, offending IE, UP SEID.
pub(crate) type Said = (Cause, Option<IeType>, u64);

impl Smf {
    pub(crate) fn new() -> Self {
        Self::of(new(None))
    }

    /// With a UPF that has room for so many sessions.
    pub(crate) fn with_room(sessions: u32) -> Self {
        Self::of(sized(sessions, "10.45.0.0/16", "4KiB", None))
    }

    /// With a UPF whose sessions have so much room.
    pub(crate) fn with_slots(slot: &str) -> Self {
        Self::of(sized(SESSIONS, "10.45.0.0/24", slot, None))
    }

    pub(crate) fn of(upf: Upf) -> Self {
        let mut smf = Self { upf, sequence: 0 };
        let (cause, ..) = smf.ask(MessageType::ASSOCIATION_SETUP_REQUEST, None, |writer| {
            writer.put(key::NODE_ID, &NodeId::V4(Ipv4Addr::new(10, 4, 0, 2)))?;
            writer.put(key::RECOVERY_TIME_STAMP, &Time(1))
        });
        assert_eq!(cause, Cause::REQUEST_ACCEPTED);
        smf
    }

    pub(crate) fn ask(
        &mut self,
        message_type: MessageType,
        seid: Option<u64>,
        fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
    ) -> Said {
        let answer = self.answered(message_type, seid, fill);
        let view = View::parse(&answer[..]).unwrap();
        let ies = view.ies();
        let cause = ies.get(key::CAUSE).unwrap().unwrap();
        let offending = ies.get(key::OFFENDING_IE).unwrap();
        let seid = ies.get(key::F_SEID).unwrap().map_or(0, |id| id.seid);
        (cause, offending, seid)
    }

    /// As [`Smf::ask`]; the answer as it came, which is right itself.
    fn answered(
        &mut self,
        message_type: MessageType,
        seid: Option<u64>,
        fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
    ) -> Vec<u8> {
        self.sequence += 1;
        let header = Header::new(message_type, seid, self.sequence);
        let bytes = message(&header, fill).unwrap();
        self.upf.datagram(&bytes, SMF, 0);
        let answer = self.upf.next_message().expect("one answer");
        assert!(self.upf.next_message().is_none(), "one answer only");
        let view = View::parse(&answer.bytes[..]).unwrap();
        assert_eq!(view.check(), Ok(()), "the answer is right itself: {view}");
        assert_eq!(view.header().sequence, self.sequence);
        answer.bytes
    }

    /// A session with these rules beside a usual uplink PDR and its FAR; `pdr` goes into the PDR.
    pub(crate) fn establish(
        &mut self,
        pdr: impl Fn(&mut Writer<'_>) -> Result<(), Full>,
        rules: impl Fn(&mut Writer<'_>) -> Result<(), Full>,
    ) -> Said {
        self.ask(
            MessageType::SESSION_ESTABLISHMENT_REQUEST,
            Some(0),
            |writer| {
                begin(writer)?;
                writer.group(IeType::CREATE_PDR, |writer| {
                    writer.put(key::PDR_ID, &PdrId(1))?;
                    writer.put(key::PRECEDENCE, &100)?;
                    writer.group(IeType::PDI, usual_pdi)?;
                    writer.put(key::FAR_ID, &FarId(1))?;
                    pdr(writer)
                })?;
                writer.group(IeType::CREATE_FAR, |writer| usual_far(writer, 1))?;
                rules(writer)
            },
        )
    }

    /// A session whose PDI has more than the usual.
    pub(crate) fn establish_at(
        &mut self,
        pdi: impl Fn(&mut Writer<'_>) -> Result<(), Full>,
        rules: impl Fn(&mut Writer<'_>) -> Result<(), Full>,
    ) -> Said {
        let message_type = MessageType::SESSION_ESTABLISHMENT_REQUEST;
        self.ask(message_type, Some(0), |writer| {
            begin(writer)?;
            writer.group(IeType::CREATE_PDR, |writer| {
                writer.put(key::PDR_ID, &PdrId(1))?;
                writer.put(key::PRECEDENCE, &100)?;
                writer.group(IeType::PDI, |writer| {
                    usual_pdi(writer)?;
                    pdi(writer)
                })?;
                writer.put(key::FAR_ID, &FarId(1))
            })?;
            writer.group(IeType::CREATE_FAR, |writer| usual_far(writer, 1))?;
            rules(writer)
        })
    }

    /// What all refused and ended sessions must leave behind: nothing.
    pub(crate) fn assert_empty(&self) {
        self.assert_nothing_is_left();
        assert_eq!(self.upf.pools[0].fill()[0], Some((0, 254)));
    }

    /// As [`Smf::assert_empty`], whatever the pool.
    pub(crate) fn assert_nothing_is_left(&self) {
        assert_eq!(self.upf.session_count(), 0);
        assert_eq!(self.upf.index.len(), 0);
        assert!(self.upf.pools[0].fill()[0].is_some_and(|(used, _)| used == 0));
        assert_eq!(self.upf.timers.next_ns(), None);
    }
}

/// What an establishment begins with.
pub(crate) fn begin(writer: &mut Writer<'_>) -> Result<(), Full> {
    let smf = Ipv4Addr::new(10, 4, 0, 2);
    writer.put(key::NODE_ID, &NodeId::V4(smf))?;
    let f_seid = FSeid {
        seid: 77,
        v4: Some(smf),
        v6: None,
    };
    writer.put(key::F_SEID, &f_seid)
}

fn usual_pdi(writer: &mut Writer<'_>) -> Result<(), Full> {
    writer.put(key::SOURCE_INTERFACE, &SourceInterface::ACCESS)?;
    let choose = FTeid::Choose {
        v4: true,
        v6: false,
        choose_id: None,
    };
    writer.put(key::F_TEID, &choose)?;
    let address = UeIpAddress {
        v4: Some(Allocation::Choose),
        ..UeIpAddress::default()
    };
    writer.put(key::UE_IP_ADDRESS, &address)
}

/// A second PDR, for downlink packets; `pdi` goes into its PDI.
pub(crate) fn downlink_pdr(
    writer: &mut Writer<'_>,
    pdi: impl Fn(&mut Writer<'_>) -> Result<(), Full>,
) -> Result<(), Full> {
    writer.group(IeType::CREATE_PDR, |writer| {
        writer.put(key::PDR_ID, &PdrId(2))?;
        writer.put(key::PRECEDENCE, &100)?;
        writer.group(IeType::PDI, |writer| {
            writer.put(key::SOURCE_INTERFACE, &SourceInterface::CORE)?;
            let address = UeIpAddress {
                v4: Some(Allocation::Choose),
                is_destination: true,
                ..UeIpAddress::default()
            };
            writer.put(key::UE_IP_ADDRESS, &address)?;
            pdi(writer)
        })?;
        writer.put(key::FAR_ID, &FarId(1))
    })
}

fn usual_far(writer: &mut Writer<'_>, id: u32) -> Result<(), Full> {
    writer.put(key::FAR_ID, &FarId(id))?;
    writer.put(key::APPLY_ACTION, &ApplyAction::FORW)?;
    writer.group(IeType::FORWARDING_PARAMETERS, |writer| {
        writer.put(key::DESTINATION_INTERFACE, &DestinationInterface::CORE)
    })
}

pub(crate) fn nothing(_: &mut Writer<'_>) -> Result<(), Full> {
    Ok(())
}

fn qer(writer: &mut Writer<'_>, id: u32) -> Result<(), Full> {
    writer.group(IeType::CREATE_QER, |writer| {
        writer.put(key::QER_ID, &QerId(id))?;
        writer.put(key::GATE_STATUS, &GateStatus::OPEN)
    })
}

#[cfg(test)]
mod changes;
#[cfg(test)]
mod octets;
#[cfg(test)]
mod tests;
