//! A UPF full of sessions, and the SMF that made them: what `bench upf` sends packets to.
//!
//! Messages are frames, as they come to the NF: Ethernet, IPv4, UDP, PFCP. Their making, and the
//! reading of answers, is no part of any figure.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_engine::packet::Packet;
use catena_shm::anonymous::Anonymous;
use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use catena_upf::config;
use catena_upf::decision::Decision;
use catena_upf::headers::{Datagram, Frame};
use catena_upf::store::memory_bytes;
use catena_upf::tunnel::Signal;
use catena_upf::upf::Upf;
use catena_upf::usage::WallClock;
use catena_wire::ethernet::MacAddr;
use catena_wire::pfcp::value::address::{Allocation, FSeid, FTeid, NodeId, UeIpAddress};
use catena_wire::pfcp::value::detection::SdfFilter;
use catena_wire::pfcp::value::flags::{ApplyAction, MeasurementMethod, ReportingTriggers};
use catena_wire::pfcp::value::forwarding::{
    DestinationInterface, OuterHeaderCreation, OuterHeaders, SourceInterface,
};
use catena_wire::pfcp::value::qos::{BitRates, GateStatus};
use catena_wire::pfcp::value::usage::Volume;
use catena_wire::pfcp::value::{FarId, PdrId, QerId, Time, UrrId};
use catena_wire::pfcp::{Cause, Full, Header, IeType, MessageType, PORT, View, Writer, key};
use serde_json::{Value, json};

use super::super::flow::workload::BURST;

pub(super) const N3: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 1);
pub(super) const GNB: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 2);
pub(super) const N4: Ipv4Addr = Ipv4Addr::new(10, 4, 0, 1);
pub(super) const SMF: Ipv4Addr = Ipv4Addr::new(10, 4, 0, 2);
/// The frames' MAC addresses decide nothing.
const FRAME: Frame = Frame {
    src: MacAddr([2, 0, 0, 0, 0, 2]),
    dst: MacAddr([2, 0, 0, 0, 0, 1]),
};
/// The time that each burst takes on the UPF's clock.
const BURST_NS: u64 = 5000;
/// Room in front of a packet, as a chain with a UPF has it.
const HEADROOM: u32 = 128;
/// 100 Gb/s: a rate that is metered and never reached.
const MBR_KBPS: u64 = 100_000_000;
/// A volume that is counted and never reached.
const THRESHOLD_BYTES: u64 = 1 << 60;

/// What sessions are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// A PDR and a FAR for each direction.
    Plain,
    /// With a QER that meters and a URR that counts, for both.
    Metered,
    /// The same, where UEs have addresses of IPv6.
    MeteredV6,
    /// With SDF filters too, of which the last one fits: three uplink, three downlink.
    Filtered,
    /// As plain, where downlink packets are held for the UE to be paged.
    Paged,
}

impl Rules {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PDR, FAR",
            Self::Metered => "PDR, FAR, QER, URR",
            Self::MeteredV6 => "IPv6, PDR, FAR, QER, URR",
            Self::Filtered => "3 SDF filters, QER, URR",
            Self::Paged => "buffering FAR",
        }
    }

    /// Bytes of a session's slot, enough for its rules.
    pub(super) const fn slot_bytes(self) -> usize {
        match self {
            Self::Plain | Self::Paged => 1024,
            Self::Metered | Self::MeteredV6 => 1536,
            Self::Filtered => 2304,
        }
    }

    const fn has_qer(self) -> bool {
        matches!(self, Self::Metered | Self::MeteredV6 | Self::Filtered)
    }
}

/// What the UPF chose for a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    pub(super) seid: u64,
    pub(super) teid: u32,
    pub(super) ue: IpAddr,
}

/// What is asked about a session that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Another tunnel for downlink packets, as at a handover.
    Modify,
    /// What its URR has counted.
    Query,
    /// Its end.
    Delete,
}

/// The settings of a UPF, as in a chain file.
pub(super) fn settings(sessions: u32, slot_bytes: usize) -> Value {
    json!({
        "node_id": N4.to_string(),
        "n4": { "address": N4.to_string(), "heartbeat": "0s" },
        "interfaces": [
            { "name": "n3", "side": "access", "address": N3.to_string(), "mtu": 9000 },
            { "name": "n6", "side": "core", "network_instance": "internet", "mtu": 9000 },
        ],
        "pools": [{ "network_instance": "internet", "v4": "16.0.0.0/8",
                     "v6": "2001:db8::/32" }],
        "sessions": sessions,
        "session_bytes": slot_bytes,
        "simulated_epoch": 1_700_000_000,
        "buffered": sessions,
    })
}

/// A frame with a UDP datagram.
pub(super) fn datagram<A: Into<IpAddr>>(from: (A, u16), to: (A, u16), payload: &[u8]) -> Vec<u8> {
    let headers = Datagram {
        frame: FRAME,
        src: from.0.into(),
        dst: to.0.into(),
        ports: Some((from.1, to.1)),
        traffic_class: 0,
        ident: 0,
    };
    headers.frame(payload)
}

/// A message as it leaves the SMF.
pub(super) fn framed(message: &[u8]) -> Vec<u8> {
    datagram((SMF, PORT), (N4, PORT), message)
}

fn message(
    header: &Header,
    fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; 2048];
    let wrote = || -> Result<usize, Full> {
        let mut writer = Writer::new(&mut bytes, header)?;
        fill(&mut writer)?;
        writer.finish()
    };
    let len = wrote().map_err(|full| full.to_string())?;
    bytes.truncate(len);
    Ok(bytes)
}

pub(super) fn set_up(sequence: u32) -> Result<Vec<u8>, String> {
    let header = Header::new(MessageType::ASSOCIATION_SETUP_REQUEST, None, sequence);
    message(&header, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(SMF))?;
        writer.put(key::RECOVERY_TIME_STAMP, &Time(1))
    })
}

pub(super) fn establishment(sequence: u32, rules: Rules) -> Result<Vec<u8>, String> {
    establishment_of(sequence, rules, None)
}

/// As [`establishment`], of a session whose TEID and UE address the SMF chooses.
pub(super) fn establishment_of(
    sequence: u32,
    rules: Rules,
    own: Option<(u32, Ipv4Addr)>,
) -> Result<Vec<u8>, String> {
    let header = Header::new(
        MessageType::SESSION_ESTABLISHMENT_REQUEST,
        Some(0),
        sequence,
    );
    message(&header, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(SMF))?;
        let f_seid = FSeid {
            seid: u64::from(sequence),
            v4: Some(SMF),
            v6: None,
        };
        writer.put(key::F_SEID, &f_seid)?;
        for is_uplink in [true, false] {
            writer.group(IeType::CREATE_PDR, |writer| {
                pdr(writer, rules, own, is_uplink)
            })?;
        }
        writer.group(IeType::CREATE_FAR, |writer| {
            writer.put(key::FAR_ID, &FarId(1))?;
            writer.put(key::APPLY_ACTION, &ApplyAction::FORW)?;
            writer.group(IeType::FORWARDING_PARAMETERS, |writer| {
                writer.put(key::DESTINATION_INTERFACE, &DestinationInterface::CORE)?;
                writer.put(key::NETWORK_INSTANCE, &&b"internet"[..])
            })
        })?;
        writer.group(IeType::CREATE_FAR, |writer| {
            writer.put(key::FAR_ID, &FarId(2))?;
            if rules == Rules::Paged {
                let held = ApplyAction::BUFF | ApplyAction::NOCP;
                return writer.put(key::APPLY_ACTION, &held);
            }
            writer.put(key::APPLY_ACTION, &ApplyAction::FORW)?;
            let group = IeType::FORWARDING_PARAMETERS;
            writer.group(group, |writer| tunnel(writer, sequence))
        })?;
        if !rules.has_qer() {
            return Ok(());
        }
        writer.group(IeType::CREATE_QER, |writer| {
            writer.put(key::QER_ID, &QerId(1))?;
            let gates = GateStatus {
                ul_open: true,
                dl_open: true,
            };
            writer.put(key::GATE_STATUS, &gates)?;
            let rates = BitRates {
                ul_kbps: MBR_KBPS,
                dl_kbps: MBR_KBPS,
            };
            writer.put(key::MBR, &rates)
        })?;
        writer.group(IeType::CREATE_URR, |writer| {
            writer.put(key::URR_ID, &UrrId(1))?;
            writer.put(key::MEASUREMENT_METHOD, &MeasurementMethod::VOLUM)?;
            writer.put(key::REPORTING_TRIGGERS, &ReportingTriggers::VOLTH)?;
            let threshold = Volume {
                total: Some(THRESHOLD_BYTES),
                ..Volume::default()
            };
            writer.put(key::VOLUME_THRESHOLD, &threshold)
        })
    })
}

fn pdr(
    writer: &mut Writer<'_>,
    rules: Rules,
    own: Option<(u32, Ipv4Addr)>,
    is_uplink: bool,
) -> Result<(), Full> {
    let number = if is_uplink { 1 } else { 2 };
    writer.put(key::PDR_ID, &PdrId(number))?;
    writer.put(key::PRECEDENCE, &100)?;
    writer.group(IeType::PDI, |writer| {
        let source = match is_uplink {
            true => SourceInterface::ACCESS,
            false => SourceInterface::CORE,
        };
        writer.put(key::SOURCE_INTERFACE, &source)?;
        if is_uplink {
            let choose = FTeid::Choose {
                v4: true,
                v6: false,
                choose_id: None,
            };
            let given = own.map(|(teid, _)| FTeid::Given {
                teid,
                v4: Some(N3),
                v6: None,
            });
            writer.put(key::F_TEID, &given.unwrap_or(choose))?;
        } else {
            writer.put(key::NETWORK_INSTANCE, &&b"internet"[..])?;
        }
        let is_v6 = rules == Rules::MeteredV6;
        let address = UeIpAddress {
            v4: match own {
                Some((_, ue)) => Some(Allocation::Given(ue)),
                None => (!is_v6).then_some(Allocation::Choose),
            },
            v6: is_v6.then_some(Allocation::Choose),
            is_destination: !is_uplink,
            ..UeIpAddress::default()
        };
        writer.put(key::UE_IP_ADDRESS, &address)?;
        if rules != Rules::Filtered {
            return Ok(());
        }
        for flow in [
            "permit out 6 from any 80,443 to assigned",
            "permit out 17 from 198.51.100.0/24 to assigned 5000-5999",
            "permit out 17 from any to assigned",
        ] {
            let filter = SdfFilter {
                flow_description: Some(flow.as_bytes()),
                ..SdfFilter::default()
            };
            writer.put(key::SDF_FILTER, &filter)?;
        }
        Ok(())
    })?;
    writer.put(key::FAR_ID, &FarId(number.into()))?;
    if rules.has_qer() {
        writer.put(key::URR_ID, &UrrId(1))?;
        writer.put(key::QER_ID, &QerId(1))?;
    }
    Ok(())
}

/// Forwarding parameters towards the gNB.
fn tunnel(writer: &mut Writer<'_>, teid: u32) -> Result<(), Full> {
    writer.put(key::DESTINATION_INTERFACE, &DestinationInterface::ACCESS)?;
    let header = OuterHeaderCreation {
        headers: OuterHeaders::GTP_U_UDP_IPV4,
        teid: Some(teid.max(1)),
        v4: Some(GNB),
        ..OuterHeaderCreation::default()
    };
    writer.put(key::OUTER_HEADER_CREATION, &header)
}

pub(super) fn request(what: Request, sequence: u32, seid: u64) -> Result<Vec<u8>, String> {
    let kind = match what {
        Request::Delete => MessageType::SESSION_DELETION_REQUEST,
        Request::Modify | Request::Query => MessageType::SESSION_MODIFICATION_REQUEST,
    };
    message(
        &Header::new(kind, Some(seid), sequence),
        |writer| match what {
            Request::Modify => writer.group(IeType::UPDATE_FAR, |writer| {
                writer.put(key::FAR_ID, &FarId(2))?;
                writer.put(key::APPLY_ACTION, &ApplyAction::FORW)?;
                let group = IeType::UPDATE_FORWARDING_PARAMETERS;
                writer.group(group, |writer| tunnel(writer, sequence))
            }),
            Request::Query => writer.group(IeType::QUERY_URR, |writer| {
                writer.put(key::URR_ID, &UrrId(1))
            }),
            Request::Delete => Ok(()),
        },
    )
}

/// Whether a message accepts, and what it chose for a session.
pub(super) fn read_answer(message: &[u8]) -> Result<Session, String> {
    let wrong = |what: &dyn std::fmt::Display| format!("an answer of the UPF: {what}");
    let view = View::parse(message).map_err(|error| wrong(&error))?;
    let ies = view.ies();
    let cause = ies.require(key::CAUSE).map_err(|error| wrong(&error))?;
    if cause != Cause::REQUEST_ACCEPTED {
        return Err(wrong(&view));
    }
    let mut session = Session {
        seid: 0,
        teid: 0,
        ue: Ipv4Addr::UNSPECIFIED.into(),
    };
    let f_seid = ies.get(key::F_SEID).map_err(|error| wrong(&error))?;
    session.seid = f_seid.map_or(0, |f_seid| f_seid.seid);
    for created in ies.groups(IeType::CREATED_PDR) {
        if let Ok(Some(FTeid::Given { teid, .. })) = created.get(key::F_TEID) {
            session.teid = teid;
        }
        let address = created.get(key::UE_IP_ADDRESS).ok().flatten();
        if let Some(Allocation::Given(v4)) = address.and_then(|address| address.v4) {
            session.ue = v4.into();
        }
        if let Some(Allocation::Given(prefix)) = address.and_then(|address| address.v6) {
            // Its first address behind that of the prefix.
            session.ue = Ipv6Addr::from_bits(prefix.to_bits() | 1).into();
        }
    }
    Ok(session)
}

/// A UPF and its SMF.
pub(super) struct Smf {
    pub(super) upf: Upf,
    pub(super) pool: PoolOwner,
    pub(super) sessions: Vec<Session>,
    pub(super) rules: Rules,
    pub(super) signals: VecDeque<Signal>,
    pub(super) now_ns: u64,
    sequence: u32,
}

impl Smf {
    /// A UPF with room for so many sessions, and an association.
    pub(super) fn new(rules: Rules, room: u32) -> Result<Self, String> {
        let read = config::read(&settings(room, rules.slot_bytes()));
        let (_, settings, _) = read.map_err(|errors| format!("{errors:?}"))?;
        // On huge pages, as an NF's lies where the machine has some.
        let memory = Anonymous::new(memory_bytes(rules.slot_bytes(), room));
        let memory = memory.map_err(|error| format!("the sessions' memory: {error}"))?;
        let clock = WallClock {
            zero_ns: 3_900_000_000_000_000_000,
        };
        let upf = Upf::new(settings, Box::new(memory), clock, 0)?;
        let geometry = PoolGeometry {
            log2_stride: 11,
            buffer_count: 4096,
            headroom: HEADROOM,
            bundles: false,
        };
        let pool = PoolOwner::create(1, geometry, Sharing::ReadWrite);
        let mut smf = Self {
            upf,
            pool: pool.map_err(|error| error.to_string())?,
            sessions: Vec::with_capacity(room as usize),
            rules,
            signals: VecDeque::new(),
            now_ns: 0,
            sequence: 0,
        };
        let sequence = smf.next_sequence();
        let packet = smf.packet(&framed(&set_up(sequence)?))?;
        smf.tell(packet)?;
        smf.answer()?;
        Ok(smf)
    }

    pub(super) fn next_sequence(&mut self) -> u32 {
        self.sequence = (self.sequence + 1) & 0xff_ffff;
        self.sequence
    }

    /// A packet with these bytes.
    pub(super) fn packet(&mut self, frame: &[u8]) -> Result<Packet, String> {
        let packet = self.pool.alloc(frame.len());
        let mut packet = packet.ok_or("no buffer is left")?;
        packet.bytes_mut().copy_from_slice(frame);
        Ok(packet)
    }

    /// Has the UPF handle a message.
    pub(super) fn tell(&mut self, mut packet: Packet) -> Result<(), String> {
        let decision = self.upf.packet(&mut packet, &mut self.signals, self.now_ns);
        self.pool.free(packet);
        match decision {
            Decision::Consumed => Ok(()),
            other => Err(format!("a message was not taken: {other:?}")),
        }
    }

    /// The answer to the oldest request that waits for one.
    pub(super) fn answer(&mut self) -> Result<Session, String> {
        let answer = self.upf.next_message().ok_or("a request has no answer")?;
        read_answer(&answer.bytes)
    }

    /// Advances the UPF's clock by the time of a burst.
    pub(super) fn pass(&mut self) {
        self.now_ns += BURST_NS;
    }

    /// Establishes sessions until there are so many.
    pub(super) fn fill(&mut self, sessions: u32) -> Result<(), String> {
        while self.sessions.len() < sessions as usize {
            let count = BURST.min(sessions as usize - self.sessions.len());
            self.pass();
            for _ in 0..count {
                let sequence = self.next_sequence();
                let packet = self.packet(&framed(&establishment(sequence, self.rules)?))?;
                self.tell(packet)?;
            }
            for _ in 0..count {
                let session = self.answer()?;
                self.sessions.push(session);
            }
        }
        Ok(())
    }
}
