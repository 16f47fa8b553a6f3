//! The rules of a session, as they lie in its slot.
//!
//! What N4 writes and packets read. Each is a record of fixed layout; fields have the names of
//! their IEs. Rules name each other by ID and, once a session is linked, by place in its slot
//! (`_at`, [`NONE`] for none). What packets read and write stands first in each record, so that it
//! is few lines of memory. Specification: TS 29.244 5.2, 7.5.2.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_wire::pfcp::value::flags::ApplyAction;
use catena_wire::pfcp::value::forwarding::OuterHeaders;

use crate::room::Room;
use crate::stored;
use crate::stored::List;

/// No rule, no interface.
pub const NONE: u8 = u8::MAX;
/// Beside an Outer Header Removal Description: the PDU session container goes too.
pub const DELETES_CONTAINER: u8 = 0x80;
/// Kinds of records of a session.
pub const KINDS: usize = 12;
/// Reasons for which packets of sessions are dropped.
pub const DROP_KINDS: usize = 16;
/// Most QERs of a PDR.
pub const QERS_MAX: usize = 8;
/// Longest location that requests are redirected to, in bytes.
pub const LOCATION_LEN_MAX: usize = 240;
/// Most events between two usage reports: each is told with its time.
pub const EVENTS_MAX: usize = 8;
/// Most URRs of a PDR.
pub const URRS_MAX: usize = 8;

stored! {
    /// What is common to a session.
    pub struct Head {
        /// How many PDRs, FARs, QERs, URRs, BARs, filters, framed routes, copies, redirections,
        /// Traffic Endpoints, Ethernet packet filters and monitors follow, in this order.
        pub counts: [u8; KINDS],
        /// Whether a PDR wants to know a packet's application.
        pub looks_inside: bool,
        /// Whether inactivity was reported, and no packet has passed since.
        pub is_inactive: bool,
        /// Whether its packets are none of IP.
        pub is_unstructured: bool,
        /// The UE's IPv4 address.
        pub ue_v4: Option<Ipv4Addr>,
        /// Its slice, as [`slice_number`](crate::ceilings::slice_number) has it; 0 for none.
        pub slice: u32,
        /// When the last packet passed, on the engine's clock.
        pub last_packet_ns: u64,
        /// Packets and bytes of the UE that were forwarded, uplink.
        pub ul: [u64; 2],
        /// As `ul`, downlink.
        pub dl: [u64; 2],
        /// The UP function's SEID; 0 in a slot that nobody uses.
        pub seid: u64,
        /// Whether packets that are none of IP are frames of Ethernet.
        pub is_ethernet: bool,
        /// The UE's IPv6 prefix of 64 bits; the first one, if PDRs name several.
        pub ue_v6: Option<Ipv6Addr>,
        /// The CP function's SEID.
        pub cp_seid: u64,
        /// Where the CP function is reached.
        pub cp_v4: Option<Ipv4Addr>,
        /// Where the CP function is reached.
        pub cp_v6: Option<Ipv6Addr>,
        /// Number of its association.
        pub association: u8,
        /// PDN Type, 0 if the SMF named none.
        pub pdn_type: u8,
        /// User Plane Inactivity Timer, in seconds.
        pub inactivity_s: Option<u32>,
        /// Its FQ-CSIDs, by their keys; 0 for none.
        pub csids: [u64; 2],
        /// Its Group ID, by its key; 0 for none.
        pub group: u64,
        /// How many sweeps had begun when it was established: it is none of theirs.
        pub sweeps: u32,
        /// Of which names its places are, as the store counts them.
        pub places: u8,
        /// Packets of the session that were dropped, by reason, as the tally has them.
        pub dropped: [u32; DROP_KINDS],
    }

    /// Packet detection rule.
    pub struct Pdr {
        /// TEID of the local F-TEID; 0 for none.
        pub teid: u32,
        /// QFIs, one bit each; 0 for all packets.
        pub qfis: u64,
        /// Source Interface.
        pub source_interface: u8,
        /// Whether the UE's address is the packet's destination (S/D).
        pub ue_is_destination: bool,
        /// UE IP Address.
        pub ue_v4: Option<Ipv4Addr>,
        /// First filter, and how many; none for all packets.
        pub filters: [u8; 2],
        /// Application ID, as [`number`](crate::application::number) has it; 0 for none.
        pub application: u64,
        /// Network Instance, by place in the settings.
        pub instance: u8,
        /// Place of the FAR.
        pub far_at: u8,
        /// Places of the QERs.
        pub qers_at: List<u8, QERS_MAX>,
        /// Places of the URRs.
        pub urrs_at: List<u8, URRS_MAX>,
        /// PDR ID.
        pub id: u16,
        /// Packets that it was chosen for.
        pub packets: u64,
        /// Outer Header Removal Description, [`DELETES_CONTAINER`] beside it; [`NONE`] for none.
        pub removal: u8,
        /// UE IP Address: prefix of 64 bits.
        pub ue_v6: Option<Ipv6Addr>,
        /// Precedence: the lowest comes first.
        pub precedence: u32,
        /// Whether the UPF chose the TEID.
        pub is_teid_ours: bool,
        /// Traffic Endpoint ID, of which it has what a PDI says of where packets come to.
        pub endpoint: Option<u8>,
        /// FAR ID.
        pub far_id: u32,
        /// QER IDs.
        pub qer_ids: List<u32, QERS_MAX>,
        /// URR IDs.
        pub urr_ids: List<u32, URRS_MAX>,
    }

    /// Forwarding action rule.
    pub struct Far {
        /// FAR ID.
        pub id: u32,
        /// Apply Action.
        pub action: u16,
        /// Destination Interface; [`NONE`] without forwarding parameters.
        pub destination: u8,
        /// Network Instance, by place in the settings; [`NONE`] for that of the destination.
        pub instance: u8,
        /// Interface by which packets leave; [`NONE`] without forwarding parameters.
        pub interface: u8,
        /// Outer Header Creation Description; 0 for none.
        pub headers: u16,
        /// TEID of the outer header; of tags, that of the service and that of the customer.
        pub teid: u32,
        /// Address of the outer header.
        pub v4: Option<Ipv4Addr>,
        /// Address of the outer header.
        pub v6: Option<Ipv6Addr>,
        /// Port of the outer header, without GTP-U.
        pub port: u16,
        /// Transport Level Marking: ToS and mask.
        pub marking: Option<[u8; 2]>,
        /// BAR ID.
        pub bar_id: Option<u8>,
        /// Place of the BAR.
        pub bar_at: u8,
        /// Forwarding Policy, by place in the settings; [`NONE`] for none.
        pub policy: u8,
    }

    /// Packet Rate of one direction, and what of it is used.
    pub struct PacketRate {
        /// Packets in each unit of time; none for no limit.
        pub packets: Option<u16>,
        /// Time Unit, as the number of the IE.
        pub unit: u8,
        /// When the unit ends in which packets are counted.
        pub ends_ns: u64,
        /// Packets that have passed in it.
        pub passed: u16,
    }

    /// QoS enforcement rule.
    pub struct Qer {
        /// Gate Status.
        pub ul_open: bool,
        /// Gate Status.
        pub dl_open: bool,
        /// MBR uplink and downlink, in kbit/s; none for no limit.
        pub mbr_kbps: Option<[u64; 2]>,
        /// Averaging Window, in ms; none for the one of the UPF.
        pub window_ms: Option<u32>,
        /// What the meter remembers, uplink.
        pub ul_meter: [u64; 2],
        /// What the meter remembers, downlink.
        pub dl_meter: [u64; 2],
        /// QFI that downlink packets are marked with.
        pub qfi: Option<u8>,
        /// Whether downlink packets carry the reflective QoS indicator.
        pub rqi: bool,
        /// Paging Policy Indicator of downlink packets.
        pub ppi: Option<u8>,
        /// Whether there is a packet rate.
        pub counts_packets: bool,
        /// QER ID.
        pub id: u32,
        /// QER Correlation ID.
        pub correlation: Option<u32>,
        /// GBR uplink and downlink, in kbit/s: what is taken of ceilings' guarantees.
        pub gbr_kbps: Option<[u64; 2]>,
        /// Packet Rate, uplink.
        pub ul_packets: PacketRate,
        /// Packet Rate, downlink.
        pub dl_packets: PacketRate,
        /// Whether its packet rate is told with the session's end (RCSR).
        pub tells_rate: bool,
    }

    /// Total, uplink, downlink.
    pub struct Volumes {
        /// Of both directions.
        pub total: Option<u64>,
        /// Uplink.
        pub ul: Option<u64>,
        /// Downlink.
        pub dl: Option<u64>,
    }

    /// What was counted: uplink and downlink.
    pub struct Usage {
        /// Octets.
        pub octets: [u64; 2],
        /// Packets.
        pub packets: [u64; 2],
        /// Time that counts, in ns.
        pub duration_ns: u64,
        /// When the first packet came.
        pub first_ns: Option<u64>,
        /// When it began to be counted.
        pub start_ns: u64,
        /// When the last packet came, in ns of the engine's clock; none yet of what is still
        /// counted, of which it is the URR's `active_ns`.
        pub last_ns: Option<u64>,
    }

    /// Usage reporting rule: what is wanted.
    pub struct UrrTerms {
        /// Measurement Method, as the octet of the IE.
        pub method: u8,
        /// Reporting Triggers, the first octet lowest.
        pub triggers: u32,
        /// Measurement Information, as the octet of the IE.
        pub information: u8,
        /// Volume Threshold.
        pub volume_threshold: Volumes,
        /// Volume Quota.
        pub volume_quota: Volumes,
        /// Time Threshold, in seconds.
        pub time_threshold: Option<u32>,
        /// Time Quota, in seconds.
        pub time_quota: Option<u32>,
        /// Inactivity Detection Time, in seconds.
        pub inactivity: Option<u32>,
        /// Measurement Period, in seconds.
        pub period: Option<u32>,
        /// Quota Holding Time, in seconds.
        pub holding: Option<u32>,
        /// Quota Validity Time, in seconds.
        pub validity: Option<u32>,
        /// Monitoring Time, in seconds since 1900.
        pub monitoring_time: Option<u32>,
        /// Subsequent Volume Threshold.
        pub later_volume_threshold: Volumes,
        /// Subsequent Volume Quota.
        pub later_volume_quota: Volumes,
        /// Subsequent Time Threshold, in seconds.
        pub later_time_threshold: Option<u32>,
        /// Subsequent Time Quota, in seconds.
        pub later_time_quota: Option<u32>,
        /// Dropped DL Traffic Threshold: packets.
        pub dropped_packets: Option<u64>,
        /// Dropped DL Traffic Threshold: octets.
        pub dropped_octets: Option<u64>,
        /// Event Threshold.
        pub event_threshold: Option<u32>,
        /// Event Quota.
        pub event_quota: Option<u32>,
        /// Subsequent Event Threshold.
        pub later_event_threshold: Option<u32>,
        /// Subsequent Event Quota.
        pub later_event_quota: Option<u32>,
        /// Time Quota Mechanism: Base Time Interval Type.
        pub is_discrete: bool,
        /// Time Quota Mechanism: Base Time Interval, in seconds; none without the IE.
        pub base_interval: Option<u32>,
    }

    /// Usage reporting rule.
    pub struct Urr {
        /// How many octets may pass before anything but counting is to be done.
        pub room: Room,
        /// When its last packet came.
        pub active_ns: u64,
        /// What of the quotas is used: octets uplink and downlink.
        pub quota_octets: [u64; 2],
        /// Since the last report.
        pub usage: Usage,
        /// Whether a quota is used up, or was given back: packets of the URR are dropped.
        pub is_exhausted: bool,
        /// Whether traffic has started and not stopped.
        pub is_started: bool,
        /// What of the time quota is used, in ns.
        pub quota_ns: u64,
        /// Until when time was counted, while it is.
        pub counted_to_ns: u64,
        /// What is wanted.
        pub terms: UrrTerms,
        /// URR ID.
        pub id: u32,
        /// Linked URR IDs.
        pub linked: List<u32, 4>,
        /// UR-SEQN of the next report.
        pub sequence: u32,
        /// Before the monitoring time, if that has passed since the last report.
        pub before: Option<Usage>,
        /// When the quotas were granted.
        pub quota_at_ns: u64,
        /// Dropped downlink packets and octets since the last report of them.
        pub dropped: [u64; 2],
        /// Whether the end of the quota's validity was reported.
        pub is_invalid: bool,
        /// When the last periodic report was due.
        pub period_at_ns: u64,
        /// Octets and packets reported so far, uplink and downlink: what a check of conservation
        /// compares with what was forwarded.
        pub reported: [u64; 4],
        /// Why a report is to be made for which there was no room yet: Usage Report Trigger, the
        /// first octet lowest.
        pub untold: u32,
        /// What of the event quota is used.
        pub quota_events: u32,
        /// When each event since the last report was, in seconds of the engine's clock.
        pub events: List<u32, EVENTS_MAX>,
        /// How many of them were before the monitoring time.
        pub early_events: u8,
        /// The end of the base time interval in which its last packet came, while the envelope is
        /// open.
        pub envelope_ns: Option<u64>,
    }

    /// Buffering action rule, and the account of what was held by its FARs.
    pub struct Bar {
        /// BAR ID.
        pub id: u8,
        /// Downlink Data Notification Delay, in units of 50 ms; 0 for none.
        pub delay: u8,
        /// Suggested Buffering Packets Count; none for the limit of the settings.
        pub suggested: Option<u8>,
    }

    /// Duplicating Parameters of a FAR.
    pub struct Copied {
        /// FAR ID.
        pub far_id: u32,
        /// Destination Interface.
        pub destination: u8,
        /// Forwarding Policy, by place in the settings; [`NONE`] for none.
        pub policy: u8,
        /// Interface by which copies leave.
        pub interface: u8,
        /// Outer Header Creation Description; 0 for none.
        pub headers: u16,
        /// TEID of the outer header.
        pub teid: u32,
        /// Address of the outer header.
        pub v4: Option<Ipv4Addr>,
        /// Address of the outer header.
        pub v6: Option<Ipv6Addr>,
        /// Transport Level Marking: ToS and mask.
        pub marking: Option<[u8; 2]>,
    }

    /// A Traffic Endpoint.
    pub struct Endpoint {
        /// Traffic Endpoint ID.
        pub id: u8,
        /// Source Interface of the PDRs that name it.
        pub source_interface: u8,
        /// Network Instance, by place in the settings.
        pub instance: u8,
        /// TEID of the local F-TEID; 0 for none.
        pub teid: u32,
        /// Whether the UPF chose the TEID.
        pub is_teid_ours: bool,
        /// UE IP Address.
        pub ue_v4: Option<Ipv4Addr>,
        /// UE IP Address: prefix of 64 bits.
        pub ue_v6: Option<Ipv6Addr>,
        /// QFIs, one bit each; 0 for those of the PDR.
        pub qfis: u64,
    }

    /// Where a FAR redirects requests to.
    pub struct Redirection {
        /// FAR ID.
        pub far_id: u32,
        /// What Location says.
        pub location: List<u8, LOCATION_LEN_MAX>,
    }
}

impl Head {
    /// A session without rules.
    pub const fn empty() -> Self {
        Self {
            seid: 0,
            cp_seid: 0,
            cp_v4: None,
            cp_v6: None,
            association: 0,
            pdn_type: 0,
            ue_v4: None,
            ue_v6: None,
            inactivity_s: None,
            csids: [0; 2],
            group: 0,
            sweeps: 0,
            places: 0,
            slice: 0,
            last_packet_ns: 0,
            is_inactive: false,
            is_unstructured: false,
            is_ethernet: false,
            ul: [0; 2],
            dl: [0; 2],
            dropped: [0; DROP_KINDS],
            counts: [0; KINDS],
            looks_inside: false,
        }
    }
}

impl Pdr {
    /// A PDR that fits every packet of an interface and does nothing.
    pub fn empty(id: u16) -> Self {
        Self {
            id,
            precedence: 0,
            source_interface: 0,
            instance: NONE,
            teid: 0,
            is_teid_ours: false,
            ue_v4: None,
            ue_v6: None,
            ue_is_destination: false,
            qfis: 0,
            filters: [0; 2],
            application: 0,
            removal: NONE,
            endpoint: None,
            far_id: 0,
            far_at: NONE,
            qer_ids: List::default(),
            qers_at: List::default(),
            urr_ids: List::default(),
            urrs_at: List::default(),
            packets: 0,
        }
    }

    /// Whether its packets come from the UE: the direction in which they are counted and metered.
    #[inline]
    pub const fn is_uplink(&self) -> bool {
        self.source_interface == 0
    }
}

impl Endpoint {
    /// One to which nothing comes.
    pub const fn empty(id: u8) -> Self {
        Self {
            id,
            source_interface: 0,
            instance: NONE,
            teid: 0,
            is_teid_ours: false,
            ue_v4: None,
            ue_v6: None,
            qfis: 0,
        }
    }
}

impl Far {
    /// A FAR without forwarding parameters.
    pub const fn empty(id: u32) -> Self {
        Self {
            id,
            action: 0,
            destination: NONE,
            instance: NONE,
            interface: NONE,
            headers: 0,
            teid: 0,
            v4: None,
            v6: None,
            port: 0,
            marking: None,
            bar_id: None,
            bar_at: NONE,
            policy: NONE,
        }
    }

    /// Where the tunnel of the outer header ends.
    pub fn peer(&self) -> Option<IpAddr> {
        let v4 = self.v4.map(IpAddr::V4);
        v4.or(self.v6.map(IpAddr::V6))
    }

    /// Whether its outer header is UDP alone.
    #[inline]
    pub fn is_udp(&self) -> bool {
        self.has_header(OuterHeaders::UDP_IPV4.union(OuterHeaders::UDP_IPV6))
    }

    /// Whether its outer header is IP alone.
    #[inline]
    pub fn is_ip(&self) -> bool {
        self.has_header(OuterHeaders::IPV4.union(OuterHeaders::IPV6))
    }

    /// Whether its outer header is a tunnel of GTP-U.
    #[inline]
    pub fn is_tunnel(&self) -> bool {
        self.has_header(OuterHeaders::GTP_U_UDP_IPV4.union(OuterHeaders::GTP_U_UDP_IPV6))
    }

    /// Whether frames get tags.
    #[inline]
    pub fn is_tagging(&self) -> bool {
        self.has_header(OuterHeaders::C_TAG.union(OuterHeaders::S_TAG))
    }

    #[inline]
    fn has_header(&self, headers: OuterHeaders) -> bool {
        OuterHeaders::from_bits(self.headers).intersects(headers)
    }

    /// The tags that frames get, outermost first: that of the service, and that of the customer.
    pub fn tags(&self) -> [Option<u16>; 2] {
        let has = |tag| self.has_header(tag);
        let [service, customer] = [(self.teid >> 16) as u16, self.teid as u16];
        [
            has(OuterHeaders::S_TAG).then_some(service),
            has(OuterHeaders::C_TAG).then_some(customer),
        ]
    }

    /// Whether the action has this flag.
    #[inline]
    pub fn does(&self, flag: ApplyAction) -> bool {
        ApplyAction::from_bits(self.action).contains(flag)
    }
}

impl Copied {
    /// A copy that does not know yet where to.
    pub const fn of(far_id: u32) -> Self {
        Self {
            far_id,
            destination: NONE,
            policy: NONE,
            interface: NONE,
            headers: 0,
            teid: 0,
            v4: None,
            v6: None,
            marking: None,
        }
    }
}

impl Qer {
    /// A QER with open gates and no limit.
    pub const fn open(id: u32) -> Self {
        Self {
            id,
            correlation: None,
            ul_open: true,
            dl_open: true,
            mbr_kbps: None,
            window_ms: None,
            gbr_kbps: None,
            qfi: None,
            rqi: false,
            ppi: None,
            ul_meter: [0; 2],
            dl_meter: [0; 2],
            counts_packets: false,
            ul_packets: PacketRate::NONE,
            dl_packets: PacketRate::NONE,
            tells_rate: false,
        }
    }
}
