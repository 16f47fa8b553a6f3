//! Rules as scenario files have them: those of a request, with the names of their IEs.
//!
//! Part of a scenario; `requests` writes them as IEs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Deserialize;

use super::monitoring::SrrRule;

/// Rules of a request. In a modification a rule whose ID is known is updated.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// The SMF's SEID.
    pub session: u64,
    /// S-NSSAI: SST and SD.
    pub slice: Option<(u8, u32)>,
    /// PDN Type: Ethernet.
    #[serde(default)]
    pub ethernet: bool,
    /// PDN Type: Non-IP, of an unstructured session.
    #[serde(default)]
    pub unstructured: bool,
    /// Create PDR.
    #[serde(default)]
    pub pdrs: Vec<PdrRule>,
    /// Create FAR.
    #[serde(default)]
    pub fars: Vec<FarRule>,
    /// Create QER.
    #[serde(default)]
    pub qers: Vec<QerRule>,
    /// Create URR.
    #[serde(default)]
    pub urrs: Vec<UrrRule>,
    /// Create BAR.
    #[serde(default)]
    pub bars: Vec<BarRule>,
    /// Update BAR.
    #[serde(default)]
    pub update_bars: Vec<BarRule>,
    /// Update PDR.
    #[serde(default)]
    pub update_pdrs: Vec<PdrRule>,
    /// Update FAR.
    #[serde(default)]
    pub update_fars: Vec<FarRule>,
    /// Update QER.
    #[serde(default)]
    pub update_qers: Vec<QerRule>,
    /// Update URR.
    #[serde(default)]
    pub update_urrs: Vec<UrrRule>,
    /// Create Traffic Endpoint.
    #[serde(default)]
    pub endpoints: Vec<EndpointRule>,
    /// Update Traffic Endpoint.
    #[serde(default)]
    pub update_endpoints: Vec<EndpointRule>,
    /// Remove Traffic Endpoint.
    #[serde(default)]
    pub remove_endpoints: Vec<u8>,
    /// Query Packet Rate Status, of QERs.
    #[serde(default)]
    pub query_rates: Vec<u32>,
    /// Remove PDR.
    #[serde(default)]
    pub remove_pdrs: Vec<u16>,
    /// Remove FAR.
    #[serde(default)]
    pub remove_fars: Vec<u32>,
    /// Remove QER.
    #[serde(default)]
    pub remove_qers: Vec<u32>,
    /// Remove URR.
    #[serde(default)]
    pub remove_urrs: Vec<u32>,
    /// Query URR.
    #[serde(default)]
    pub query_urrs: Vec<u32>,
    /// Create SRR.
    #[serde(default)]
    pub srrs: Vec<SrrRule>,
    /// Update SRR.
    #[serde(default)]
    pub update_srrs: Vec<SrrRule>,
    /// Remove SRR.
    #[serde(default)]
    pub remove_srrs: Vec<u8>,
    /// User Plane Inactivity Timer, in seconds.
    pub inactivity: Option<u32>,
    /// PFCPSMReq-Flags: drop buffered packets.
    #[serde(default)]
    pub drop_buffered: bool,
}

/// An interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Access.
    Access,
    /// Core.
    Core,
    /// 5G VN internal: from other UEs of the group.
    Group,
}

/// Create PDR or Update PDR.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PdrRule {
    /// PDR ID.
    pub id: u16,
    /// Precedence.
    pub precedence: Option<u32>,
    /// Source Interface; without one there is no PDI.
    pub source: Option<Side>,
    /// Network Instance.
    pub network_instance: Option<String>,
    /// Traffic Endpoint ID.
    pub endpoint: Option<u8>,
    /// F-TEID: the UPF chooses.
    #[serde(default)]
    pub choose_teid: bool,
    /// F-TEID: this one.
    pub teid: Option<u32>,
    /// F-TEID: of N9; what the UPF chooses for N3 is another one.
    #[serde(default)]
    pub n9: bool,
    /// UE IP Address: the UPF chooses an IPv4 address.
    #[serde(default)]
    pub choose_ue: bool,
    /// UE IP Address: this one.
    pub ue: Option<Ipv4Addr>,
    /// UE IP Address: the UPF chooses an IPv6 prefix.
    #[serde(default)]
    pub choose_prefix: bool,
    /// UE IP Address: this IPv6 prefix.
    pub prefix: Option<Ipv6Addr>,
    /// UE IP Address: IPv6 Prefix Length.
    pub prefix_len: Option<u8>,
    /// UE IP Address: IPv6 Prefix Delegation Bits.
    pub delegated: Option<u8>,
    /// QFIs.
    #[serde(default)]
    pub qfis: Vec<u8>,
    /// Flow descriptions of SDF filters.
    #[serde(default)]
    pub sdf: Vec<String>,
    /// Application ID.
    pub application: Option<String>,
    /// Framed routes of IPv4.
    #[serde(default)]
    pub framed_routes: Vec<String>,
    /// Framed routes of IPv6.
    #[serde(default)]
    pub framed_v6_routes: Vec<String>,
    /// Ethernet Packet Filters.
    #[serde(default)]
    pub frames: Vec<FrameRule>,
    /// SDF filter by an IPv6 flow label.
    pub flow_label: Option<u32>,
    /// Outer Header Removal Description.
    pub removal: Option<u8>,
    /// GTP-U Extension Header Deletion: the PDU session container.
    #[serde(default)]
    pub deletes_container: bool,
    /// FAR ID.
    pub far: Option<u32>,
    /// QER IDs.
    #[serde(default)]
    pub qers: Vec<u32>,
    /// URR IDs.
    #[serde(default)]
    pub urrs: Vec<u32>,
}

/// Ethernet Packet Filter.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FrameRule {
    /// Ethernet Filter ID.
    pub id: Option<u32>,
    /// Whether the filter is bidirectional (BIDE).
    pub both: bool,
    /// Source, as `02:00:00:00:00:01`.
    pub src: Option<String>,
    /// Destination.
    pub dst: Option<String>,
    /// Ethertype.
    pub ether_type: Option<u16>,
    /// VLAN identifier of the C-TAG.
    pub vlan: Option<u16>,
}

/// Create Traffic Endpoint or Update Traffic Endpoint.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointRule {
    /// Traffic Endpoint ID.
    pub id: u8,
    /// Network Instance.
    pub network_instance: Option<String>,
    /// F-TEID: the UPF chooses.
    #[serde(default)]
    pub choose_teid: bool,
    /// UE IP Address: the UPF chooses an IPv4 address.
    #[serde(default)]
    pub choose_ue: bool,
    /// QFIs.
    #[serde(default)]
    pub qfis: Vec<u8>,
    /// Framed routes of IPv4.
    #[serde(default)]
    pub framed_routes: Vec<String>,
}

/// Apply Action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// FORW.
    Forward,
    /// DROP.
    Drop,
    /// BUFF.
    Buffer,
    /// BUFF and NOCP.
    BufferNotify,
    /// FORW and DUPL.
    ForwardDuplicate,
    /// DROP and DUPL.
    DropDuplicate,
}

/// Create FAR or Update FAR.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FarRule {
    /// FAR ID.
    pub id: u32,
    /// Apply Action.
    pub action: Option<Action>,
    /// Destination Interface.
    pub to: Option<Side>,
    /// Destination Interface, by number.
    pub destination: Option<u8>,
    /// Network Instance.
    pub network_instance: Option<String>,
    /// Outer Header Creation: GTP-U/UDP/IP to the gNB with this TEID.
    pub teid: Option<u32>,
    /// Outer Header Creation: to this UPF, not to the gNB.
    pub upf: Option<IpAddr>,
    /// Transport Level Marking: ToS or Traffic Class, and its mask.
    pub marking: Option<[u8; 2]>,
    /// Outer Header Creation: UDP/IP to this port of the host.
    pub udp: Option<u16>,
    /// Outer Header Creation: IP to this address.
    pub ip: Option<IpAddr>,
    /// Outer Header Creation: a tag of the service with this VLAN identifier and priority.
    pub s_tag: Option<[u16; 2]>,
    /// Outer Header Creation: a tag of the customer with them.
    pub c_tag: Option<[u16; 2]>,
    /// Outer Header Creation: that of this address, not of the host's.
    pub host: Option<Ipv6Addr>,
    /// Linked Traffic Endpoint ID.
    pub endpoint: Option<u8>,
    /// Duplicating Parameters: each with its own tunnel to the gNB's address, or none.
    pub copies: Option<Vec<CopyRule>>,
    /// Forwarding Policy, by its identifier. Empty to remove it.
    pub policy: Option<String>,
    /// Redirect Information: a URL, or an IPv4 address. Empty to remove it.
    pub redirect: Option<String>,
    /// BAR ID.
    pub bar: Option<u8>,
    /// PFCPSMReq-Flags: send end markers.
    #[serde(default)]
    pub end_marker: bool,
}

/// Duplicating Parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyRule {
    /// Destination Interface, by number.
    pub destination: Option<u8>,
    /// Outer Header Creation: GTP-U/UDP/IP to the gNB's address with this TEID.
    pub teid: Option<u32>,
    /// Forwarding Policy, by its identifier.
    pub policy: Option<String>,
}

/// Create QER or Update QER.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QerRule {
    /// QER ID.
    pub id: u32,
    /// Gate Status.
    #[serde(default = "open")]
    pub ul_open: bool,
    /// Gate Status.
    #[serde(default = "open")]
    pub dl_open: bool,
    /// MBR, uplink and downlink, in kbit/s.
    pub mbr_kbps: Option<[u64; 2]>,
    /// GBR, uplink and downlink, in kbit/s.
    pub gbr_kbps: Option<[u64; 2]>,
    /// Averaging Window, in ms.
    pub window_ms: Option<u32>,
    /// Packet Rate, of one direction or both.
    pub packet_rate: Option<PacketRateRule>,
    /// Packet Rate Status: what is left from elsewhere.
    pub rate_status: Option<RateStatusRule>,
    /// QER Control Indications: RCSR.
    #[serde(default)]
    pub tells_rate: bool,
    /// QFI.
    pub qfi: Option<u8>,
    /// RQI.
    pub rqi: Option<bool>,
    /// Paging Policy Indicator.
    pub ppi: Option<u8>,
}

/// Packet Rate Status.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateStatusRule {
    /// Packets uplink.
    pub ul: Option<u16>,
    /// Packets downlink.
    pub dl: Option<u16>,
    /// Until when, in seconds since 1970.
    pub until: u32,
}

/// Packet Rate.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PacketRateRule {
    /// Packets uplink.
    pub ul: Option<u16>,
    /// Packets downlink.
    pub dl: Option<u16>,
    /// Time Unit, by number; minutes if left out.
    #[serde(default)]
    pub unit: u8,
}

const fn open() -> bool {
    true
}

/// Create URR or Update URR.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UrrRule {
    /// URR ID.
    pub id: u32,
    /// Measurement Method: volume.
    #[serde(default = "open")]
    pub volume: bool,
    /// Measurement Method: duration.
    #[serde(default)]
    pub duration: bool,
    /// Measurement Method: events.
    #[serde(default)]
    pub event: bool,
    /// Event Threshold.
    pub event_threshold: Option<u32>,
    /// Event Quota.
    pub event_quota: Option<u32>,
    /// Time Quota Mechanism: Base Time Interval, of continuous time periods.
    pub continuous: Option<u32>,
    /// Time Quota Mechanism: Base Time Interval, of discrete time periods.
    pub discrete: Option<u32>,
    /// Reporting Triggers, by their names in the specification.
    #[serde(default)]
    pub triggers: Vec<String>,
    /// Volume Threshold, total.
    pub volume_threshold: Option<u64>,
    /// Volume Threshold, uplink and downlink.
    pub volume_thresholds: Option<[u64; 2]>,
    /// Volume Quota, total.
    pub volume_quota: Option<u64>,
    /// Time Threshold.
    pub time_threshold: Option<u32>,
    /// Time Quota.
    pub time_quota: Option<u32>,
    /// Quota Holding Time.
    pub holding: Option<u32>,
    /// Monitoring Time, in seconds since 1970.
    pub monitoring: Option<u32>,
    /// Measurement Period.
    pub period: Option<u32>,
    /// Quota Validity Time.
    pub validity: Option<u32>,
    /// Inactivity Detection Time.
    pub inactivity: Option<u32>,
    /// Linked URR ID.
    pub linked: Option<u32>,
    /// Dropped DL Traffic Threshold, packets.
    pub dropped_packets: Option<u64>,
    /// Measurement Information: MNOP.
    #[serde(default)]
    pub packets: bool,
}

/// Create BAR or Update BAR.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BarRule {
    /// BAR ID.
    pub id: u8,
    /// Suggested Buffering Packets Count.
    pub packets: Option<u8>,
    /// Downlink Data Notification Delay, in units of 50 ms.
    pub delay: Option<u8>,
}
