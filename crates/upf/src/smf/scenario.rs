//! Scenario files: what a scripted SMF, gNB and data network do, and what must come back.
//!
//! For tests, and for users who try a UPF. A file is YAML; `docs/guide/upf.md` explains it. Rules
//! have the names of their IEs in lower case; what is left out is not sent.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_engine::units::Span;
use catena_wire::pfcp::value::node::FailedRuleId;
use catena_wire::pfcp::value::{BarId, FarId, PdrId, QerId, SrrId, UrrId};
use serde::Deserialize;

mod monitoring;
mod paths;
mod rules;

pub use monitoring::{AnswerRule, DelayReport, DelaysRule, FlowRule, Measured, SrrRule, When};
pub use paths::{EchoRule, PathDelays, PathInterface, PathReport, PathRule, PathTrigger};
pub use rules::{
    Action, BarRule, CopyRule, EndpointRule, FarRule, FrameRule, PacketRateRule, PdrRule, QerRule,
    RateStatusRule, Rules, Side, UrrRule,
};

/// A scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// One sentence: what it shows.
    pub about: String,
    /// Settings of the UPF, as in a chain file without `type`: for runs in simulated time.
    pub upf: Option<serde_json::Value>,
    /// The SMF's address.
    pub smf: IpAddr,
    /// The UPF's address of N4.
    pub n4: IpAddr,
    /// The gNB's address.
    pub ran: IpAddr,
    /// The UPF's address of N3.
    pub n3: IpAddr,
    /// The UPF's address of N9; that of N3 if left out.
    pub n9: Option<IpAddr>,
    /// Other UPFs, with which it has tunnels.
    #[serde(default)]
    pub upfs: Vec<IpAddr>,
    /// A host of the data network.
    pub host: Ipv4Addr,
    /// Its IPv6 address.
    pub host_v6: Option<Ipv6Addr>,
    /// What happens, one after the other.
    pub steps: Vec<Step>,
    /// What the UPF has counted by the end, drops by reason among it: for runs in simulated time,
    /// which alone have the UPF at hand.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
}

/// One step: something is done, then everything that is expected has to come, and nothing else.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What is done; nothing but to wait for what is expected if left out.
    #[serde(rename = "do")]
    pub act: Option<Act>,
    /// What comes, in this order for each kind.
    #[serde(default)]
    pub expect: Vec<Expect>,
}

/// What a step does.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Act {
    /// Association Setup Request.
    Associate,
    /// Association Setup Request, of an SMF that wants to know the UPF's load.
    AssociateForLoad,
    /// Association Setup Request, of an SMF that wants to know this of GTP-U paths.
    AssociateForPaths(Vec<PathRule>),
    /// Association Setup Request, of an SMF that gets all usage before it releases (EPFAR).
    AssociateForRelease,
    /// Association Update Request: it prepares the release (PARPS).
    PrepareRelease,
    /// Association Update Request: it wants to know this of GTP-U paths from now on.
    UpdatePaths(Vec<PathRule>),
    /// Association Release Request.
    Release,
    /// Heartbeat Request.
    Heartbeat,
    /// Session Establishment Request.
    Establish(Rules),
    /// Session Modification Request.
    Modify(Rules),
    /// Session Deletion Request, of the session that the SMF calls so.
    Delete(u64),
    /// The last request, byte by byte.
    Repeat,
    /// A datagram to N4, in hexadecimal and words: see `raw`.
    Raw(String),
    /// As `Raw`, from the gNB to the tunnels of N3.
    RawGtpu(String),
    /// User's packets through the tunnel of a session.
    Uplink(Packets),
    /// Packets of the data network to the UE of a session.
    Downlink(Packets),
    /// A Router Solicitation of the UE of a session, through its tunnel.
    Solicit(u64),
    /// A browser of the UE of a session asks a host for a page.
    Browse(Browse),
    /// PFD Management Request; without applications all PFDs end.
    Pfds(Vec<PfdRule>),
    /// A GTP-U Echo Request.
    Echo,
    /// A GTP-U Error Indication of the gNB about this TEID of its own.
    ErrorIndication(u32),
    /// An end marker of another UPF.
    EndMarker(EndMarker),
    /// Time passes.
    Wait(Span),
}

/// An end marker of another UPF.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndMarker {
    /// The session into whose tunnel of N9 it is sent.
    pub session: u64,
    /// Who sends it.
    pub upf: IpAddr,
}

/// A browser of a UE.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Browse {
    /// The session of its UE.
    pub session: u64,
    /// Port of the host; 80 if left out.
    #[serde(default = "http")]
    pub port: u16,
    /// Whether it asks over IPv6.
    #[serde(default)]
    pub v6: bool,
}

const fn http() -> u16 {
    80
}

/// Application ID's PFDs: all kinds in one PFD. Without any, the application's PFDs end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PfdRule {
    /// Application ID.
    pub application: String,
    /// Flow descriptions.
    #[serde(default)]
    pub flows: Vec<String>,
    /// Domain names.
    #[serde(default)]
    pub domains: Vec<String>,
    /// URLs.
    #[serde(default)]
    pub urls: Vec<String>,
    /// Domain Name Protocol.
    pub protocol: Option<String>,
    /// Custom PFD Content.
    pub custom: Option<String>,
}

/// Packets that are sent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packets {
    /// The session whose tunnel or UE address is used.
    pub session: u64,
    /// How many; 1 if left out.
    #[serde(default = "one")]
    pub count: u32,
    /// Bytes of each, from the IP header on; 100 if left out.
    #[serde(default = "hundred")]
    pub bytes: usize,
    /// Another TEID than the session's.
    pub teid: Option<u32>,
    /// Another UE address than the session's.
    pub ue: Option<IpAddr>,
    /// They are for this UE, not for the data network's host.
    pub peer: Option<IpAddr>,
    /// Whether they are of IPv6.
    #[serde(default)]
    pub v6: bool,
    /// Whether a UE sends bytes that are no packet of IP.
    #[serde(default)]
    pub opaque: bool,
    /// They are frames from the first of these addresses to the second one.
    pub frame: Option<[String; 2]>,
    /// Their VLAN.
    pub vlan: Option<u16>,
    /// Their service's VLAN, around that.
    pub s_vlan: Option<u16>,
    /// They come in an IP packet to this address, downlink.
    pub around: Option<IpAddr>,
    /// Flow label of IPv6.
    #[serde(default)]
    pub flow_label: u32,
    /// Whether they must not be fragmented.
    #[serde(default)]
    pub dont_fragment: bool,
    /// They open a TCP connection, and offer this maximum segment size.
    pub mss: Option<u16>,
    /// They come in fragments of at most so many bytes, the last one first.
    pub cut: Option<usize>,
    /// The packets of their tunnel do.
    pub cut_outside: Option<usize>,
    /// So many of these do not come, the first ones of a packet.
    #[serde(default)]
    pub lose: usize,
    /// QFI in the PDU session container.
    pub qfi: Option<u8>,
    /// Reflective QoS Indicator beside it, of what this UPF sends downlink.
    #[serde(default)]
    pub rqi: bool,
    /// Paging Policy Indicator beside it.
    pub ppi: Option<u8>,
    /// They come by N9 from this UPF, whichever way they go.
    pub upf: Option<IpAddr>,
    /// Their container answers the last marked packet that came.
    pub answers: Option<AnswerRule>,
    /// They are TCP segments, with a number in each.
    #[serde(default)]
    pub tcp: bool,
    /// What these segments do to their connection, beside confirming: they open it alone.
    pub flag: Option<Flag>,
    /// They are TLS hellos to this server; to nobody if it is empty.
    pub tls: Option<String>,
    /// They are QUIC hellos to this server, in Initials.
    pub quic: Option<String>,
    /// Whether these are of version 2.
    #[serde(default)]
    pub quic_v2: bool,
    /// Bytes in front of a hello's server name.
    #[serde(default)]
    pub padding: u16,
    /// They are HTTP requests to this host for this target.
    pub http: Option<[String; 2]>,
    /// A hello or request comes in segments of at most so many bytes, the first one first; of QUIC
    /// in Initials, the last one first.
    pub segment: Option<usize>,
    /// Port of the data network's host; 7 if left out.
    #[serde(default = "seven")]
    pub port: u16,
}

/// What a segment does to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Flag {
    /// It opens it.
    Syn,
    /// It takes it, which begins elsewhere than all that was said before.
    #[serde(rename = "SYN_ACK")]
    SynAck,
    /// Its sender has said all.
    Fin,
    /// It resets it.
    Rst,
}

const fn one() -> u32 {
    1
}
const fn hundred() -> usize {
    100
}
const fn seven() -> u16 {
    7
}

/// What comes back.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Expect {
    /// The answer to the request.
    Answer(Answer),
    /// A Session Report Request; it is answered.
    Report(Report),
    /// Packets of a user that leave.
    Packets(Leaving),
    /// A GTP-U message of this type, by number.
    Gtpu {
        /// Message type.
        message: u8,
        /// TEID in its header, or in TEID Data I.
        teid: Option<u32>,
        /// The other UPF that it goes to; the gNB if left out.
        upf: Option<IpAddr>,
    },
    /// A Router Solicitation of a UE, which this UPF is to answer.
    Solicitation {
        /// TEID of its tunnel.
        teid: u32,
        /// The other UPF.
        upf: IpAddr,
    },
    /// GTP-U Echo Requests, which the gNB answers; with `gtpu` it does not.
    Echo(EchoRule),
    /// A Node Report Request with these GTP-U Path QoS Reports; it is answered.
    PathQos(Vec<PathReport>),
    /// A Node Report Request about a GTP-U path; it is answered.
    Path {
        /// The peer.
        peer: IpAddr,
        /// Whether the path has failed, or is there again.
        is_down: bool,
    },
    /// A browser is sent to this location.
    Redirected(String),
    /// What opens a TCP connection leaves, and offers this.
    Segment {
        /// Maximum segment size.
        size: u16,
        /// TEID of its tunnel.
        teid: Option<u32>,
    },
    /// The sender of a packet is told that it is too big.
    TooBig {
        /// How long it may be.
        mtu: u32,
        /// TEID of the tunnel by which a UE is told.
        teid: Option<u32>,
    },
    /// A Router Advertisement.
    Advertisement {
        /// TEID of its tunnel.
        teid: u32,
        /// Its MTU.
        mtu: u32,
        /// Its prefixes; the one that was chosen for the session if left out.
        #[serde(default)]
        prefixes: Vec<Ipv6Addr>,
    },
    /// An Association Update Request that wants the release; it is accepted.
    Parting {
        /// Whether all usage was reported (URSS).
        #[serde(default)]
        said_all: bool,
        /// Whether the UPF itself wants it (SARR).
        #[serde(default)]
        is_wanted: bool,
    },
    /// A message of PFCP of this type, by number; a Heartbeat Request is answered.
    Message(u8),
}

/// The answer to a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Cause; 1 if left out.
    #[serde(default = "accepted")]
    pub cause: u8,
    /// Offending IE, by number; it must have none if left out.
    pub offending: Option<u16>,
    /// Failed Rule ID; not looked at if left out.
    pub rule: Option<FailedRule>,
    /// Its usage reports.
    #[serde(default)]
    pub usage: Vec<UsageReport>,
    /// Its reports of packet rates.
    #[serde(default)]
    pub rates: Vec<RateStatus>,
    /// Its QoS Monitoring Reports.
    #[serde(default)]
    pub monitoring: Vec<DelayReport>,
    /// The metric of its Load Control Information.
    pub load: Option<u8>,
}

const fn accepted() -> u8 {
    1
}

/// The rule that a request failed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedRule {
    /// A PDR.
    Pdr(u16),
    /// A FAR.
    Far(u32),
    /// A QER.
    Qer(u32),
    /// A URR.
    Urr(u32),
    /// A BAR.
    Bar(u8),
    /// An SRR.
    Srr(u8),
}

impl FailedRule {
    /// Whether it is the one that an answer names.
    pub fn is(self, named: FailedRuleId) -> bool {
        match named {
            FailedRuleId::Pdr(PdrId(id)) => self == Self::Pdr(id),
            FailedRuleId::Far(FarId(id)) => self == Self::Far(id),
            FailedRuleId::Qer(QerId(id)) => self == Self::Qer(id),
            FailedRuleId::Urr(UrrId(id)) => self == Self::Urr(id),
            FailedRuleId::Bar(BarId(id)) => self == Self::Bar(id),
            FailedRuleId::Srr(SrrId(id)) => self == Self::Srr(id),
            _ => false,
        }
    }
}

/// Packet Rate Status of a QER.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateStatus {
    /// QER ID.
    pub qer: u32,
    /// Packets that may still be sent, uplink.
    pub ul: Option<u16>,
    /// Packets that may still be sent, downlink.
    pub dl: Option<u16>,
}

/// A Session Report Request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Report Type, by its name in the specification.
    pub kind: String,
    /// PDR ID of a Downlink Data Report.
    pub pdr: Option<u16>,
    /// Whether the session has ended with it (PSDBU).
    #[serde(default)]
    pub is_last: bool,
    /// Cause of the SMF's answer; 1 if left out.
    #[serde(default = "accepted")]
    pub cause: u8,
    /// Update BAR of the SMF's answer.
    #[serde(default)]
    pub update_bars: Vec<BarRule>,
    /// Its usage reports.
    #[serde(default)]
    pub usage: Vec<UsageReport>,
    /// Its QoS Monitoring Reports.
    #[serde(default)]
    pub monitoring: Vec<DelayReport>,
}

/// A usage report; what is left out is not compared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsageReport {
    /// URR ID.
    pub urr: u32,
    /// Usage Report Trigger: one that must be set, by its name in the specification.
    pub trigger: Option<String>,
    /// Octets uplink.
    pub ul: Option<u64>,
    /// Octets downlink.
    pub dl: Option<u64>,
    /// Packets of both directions.
    pub packets: Option<u64>,
    /// Duration in seconds.
    pub seconds: Option<u32>,
    /// How many events it tells the times of.
    pub events: Option<u64>,
    /// Application ID of its Application Detection Information.
    pub application: Option<String>,
}

/// Packets of a user that leave.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leaving {
    /// How many; 1 if left out.
    #[serde(default = "one")]
    pub count: u32,
    /// TEID of their tunnel; none for plain packets.
    pub teid: Option<u32>,
    /// The other UPF at the end of their tunnel; the gNB if left out.
    pub upf: Option<IpAddr>,
    /// QFI in their PDU session container.
    pub qfi: Option<u8>,
    /// Whether they have a PDU session container.
    pub container: Option<bool>,
    /// Whether it has the Reflective QoS Indicator.
    pub rqi: Option<bool>,
    /// Its Paging Policy Indicator.
    pub ppi: Option<u8>,
    /// DSCP of the tunnel's packet.
    pub dscp: Option<u8>,
    /// Destination of their frames, as `02:00:00:00:00:01`: by which interface they leave.
    pub next_hop: Option<String>,
    /// Destination of the IP packet around them, if they leave in one.
    pub around: Option<IpAddr>,
    /// Tags of a frame, from outside, as they are written; not looked at if left out.
    pub tags: Option<Vec<u16>>,
    /// Numbers that the sender gave them, the first one; they count on from it.
    pub first: Option<u32>,
    /// How many of them are marked with the time at which they left.
    pub marked: Option<u32>,
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// What is wrong, with line and column.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }
}
