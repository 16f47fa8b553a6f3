//! Traffic profiles: what to send and when, as a YAML document or as part of a chain file.
//!
//! A profile is passive data. [`Profile::KIND`] reads one and finds everything that is wrong with
//! it at once, with line, column and repair; `traffic` makes a schedule of it. The reference with
//! examples is `docs/reference/profile.md`.
//!
//! Frame sizes count the 4 bytes of the FCS, as RFC 2544 9 and every IMIX do; the rest of Catena
//! counts packets without it.

mod check;
mod fields;
pub(crate) mod parse;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

pub use catena_engine::config::Mac;
use catena_engine::units::{Rate, Span};
pub use catena_port::offered::Offered;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use fields::{Sizes, Vlans};

use crate::stamp::STAMP_LEN;

/// Bytes of the Ethernet frame check sequence.
pub const FCS_LEN: usize = 4;
/// Bytes of a GTP-U header with a PDU session container.
pub const GTPU_LEN: usize = 16;
/// Bytes that a frame occupies on layer 1 beyond layer 2: preamble, start delimiter, gap
/// (IEEE 802.3 3.2.1, 4.4.2).
pub const L1_OVERHEAD_LEN: usize = 20;
/// Shortest frame, with FCS (IEEE 802.3 4.4.2).
pub const FRAME_LEN_MIN: usize = 64;
/// Longest frame, with FCS.
pub const FRAME_LEN_MAX: usize = 9216;
/// Longest chunk, header and FCS counted: what NTT's chains hand over at once (OFC 2024).
pub const CHUNK_LEN_MAX: usize = 128 * 1024;
/// EtherType of chunks: the first for local experiments (IEEE Std 802-2014 9.2.3).
pub const CHUNK_ETHER_TYPE: u16 = 0x88b5;
/// Most flows at a time; the receiver keeps some 40 bytes for each.
pub const FLOW_COUNT_MAX: u32 = 1 << 20;
/// Most packets in a burst of the `bursts` pattern.
pub const BURST_PACKETS_MAX: u32 = 1 << 20;
/// Most steps.
pub const STEP_COUNT_MAX: usize = 1024;

/// What to send and when.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Profile {
    /// What it is called in reports.
    #[schemars(default)]
    pub name: String,
    /// Seed of everything random in it; the same seed gives the same packets at the same times.
    #[schemars(default)]
    pub seed: u64,
    /// Layer-1 rate of the line, which no load may exceed, like `10Gbps`; none for links.
    pub line: Option<Rate>,
    /// The headers.
    #[schemars(default)]
    pub packet: PacketShape,
    /// Frame sizes with FCS.
    #[schemars(default)]
    pub sizes: Sizes,
    /// Whether the sizes come in a fixed order or by chance.
    #[schemars(default)]
    pub size_order: SizeOrder,
    /// How many flows, and whose turn it is.
    #[schemars(default)]
    pub flows: Flows,
    /// When packets are due.
    #[schemars(default)]
    pub load: Load,
    /// Frames of a capture instead of made ones; without it, they are made.
    pub replay: Option<Replay>,
}

/// Whether sizes come in a fixed order or by chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SizeOrder {
    /// Spread evenly by their shares, the same order again and again.
    #[default]
    Cycle,
    /// Each packet by chance, by their shares.
    Random,
}

/// The headers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PacketShape {
    /// IP version of the packet, or inside the tunnel.
    pub ip: IpVersion,
    /// What IP carries.
    pub transport: Transport,
    /// VLAN identifiers, outermost first; one number or a list of at most two.
    pub vlan: Vlans,
    /// Source address of flow 0; without it, 198.18.0.1 or 2001:2:0:0:12::1.
    pub src: Option<IpAddr>,
    /// Destination address of flow 0; without it, 198.19.0.1 or 2001:2:0:8000:12::1.
    pub dst: Option<IpAddr>,
    /// Destination port.
    pub dst_port: u16,
    /// Source Ethernet address.
    pub src_mac: Mac,
    /// Destination Ethernet address.
    pub dst_mac: Mac,
    /// Whether UDP has a checksum; without one only over IPv4 (RFC 768, RFC 8200 8.1).
    pub udp_checksum: bool,
    /// Put the packet into a GTP-U tunnel; it is in none without it.
    pub gtpu: Option<Gtpu>,
}

impl Default for PacketShape {
    fn default() -> Self {
        Self {
            ip: IpVersion::V4,
            transport: Transport::Udp,
            vlan: Vlans::default(),
            src: None,
            dst: None,
            dst_port: 9,
            src_mac: Mac([2, 0, 0, 0, 0, 1]),
            dst_mac: Mac([2, 0, 0, 0, 0, 2]),
            udp_checksum: true,
            gtpu: None,
        }
    }
}

/// IP version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IpVersion {
    /// Version 4.
    #[default]
    V4,
    /// Version 6.
    V6,
}

/// What IP carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// UDP datagrams.
    #[default]
    Udp,
    /// TCP segments that open a connection; the stamp is data of the segment (RFC 9293 3.4).
    TcpSyn,
    /// No IP: a chunk of bytes behind an Ethernet header with [`CHUNK_ETHER_TYPE`], for what is
    /// larger than a frame of any network. All flows have the same bytes but for their stamps.
    Chunk,
}

/// A GTP-U tunnel (3GPP TS 29.281) with a PDU session container (TS 38.415).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gtpu {
    /// IP version of the tunnel.
    pub ip: IpVersion,
    /// Address of the sending end; without it, 192.0.2.1 or 2001:2:0:0:64::1.
    pub src: Option<IpAddr>,
    /// Address of the receiving end; without it, 192.0.2.2 or 2001:2:0:8000:64::1.
    pub dst: Option<IpAddr>,
    /// First tunnel endpoint identifier.
    pub teid: u32,
    /// Number of tunnels; flow `f` uses identifier `teid + f mod teids`.
    pub teids: u32,
    /// QoS flow identifier, 0 to 63.
    pub qfi: u8,
    /// Which PDU SESSION INFORMATION the container holds.
    pub direction: Direction,
}

impl Default for Gtpu {
    fn default() -> Self {
        Self {
            ip: IpVersion::V4,
            src: None,
            dst: None,
            teid: 1,
            teids: 1,
            qfi: 9,
            direction: Direction::Uplink,
        }
    }
}

/// Which way a tunnelled packet goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Towards the user: PDU type 0.
    Downlink,
    /// From the user: PDU type 1.
    #[default]
    Uplink,
}

/// How many flows, and whose turn it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Flows {
    /// Flows at a time.
    pub count: u32,
    /// Whose turn it is.
    pub pick: Pick,
    /// Exponent of `zipf`: flow k gets a share in proportion to 1/(k+1)^exponent.
    pub exponent: f64,
    /// Flows that end and others that begin; none do without it.
    pub churn: Option<Churn>,
}

impl Default for Flows {
    fn default() -> Self {
        Self {
            count: 1,
            pick: Pick::Cycle,
            exponent: 1.0,
            churn: None,
        }
    }
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pick {
    /// One after the other.
    #[default]
    Cycle,
    /// By chance, all alike.
    Uniform,
    /// By chance, few of them often.
    Zipf,
}

/// Flows that end and others that begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Churn {
    /// Flows replaced in a second, the oldest first.
    pub per_second: f64,
    /// Flow numbers in use over time; then the first is used again. 2^20 without it.
    #[serde(default = "churn_pool")]
    pub pool: u32,
}

fn churn_pool() -> u32 {
    FLOW_COUNT_MAX
}

/// When packets are due.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// Mean rate in packets (`1Mpps`) or bits (`10Gbps`), or `max`: whenever there is room.
    pub rate: Offered,
    /// Which bits a bit rate counts.
    pub layer: Layer,
    /// How packets are spread over time.
    pub pattern: Pattern,
    /// Packets in a burst; for `bursts`, which are not without it.
    pub packets: Option<u32>,
    /// From the start of one packet of a burst to the next; for `bursts`. Without it the time that
    /// a frame takes on the line, or nothing where the profile has no line.
    pub spacing: Option<Span>,
    /// Rates one after the other, the last for ever; for `steps`.
    pub steps: Vec<Step>,
}

/// Which bits a bit rate counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// The frame with FCS, and preamble and gap: 20 bytes more.
    L1,
    /// The frame with FCS.
    #[default]
    L2,
}

/// How packets are spread over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Evenly.
    #[default]
    Constant,
    /// With exponential gaps, as a Poisson process has (RFC 2330 11.1.1).
    Poisson,
    /// Bursts with pauses between them.
    Bursts,
    /// At rates that change.
    Steps,
}

/// One rate for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The rate.
    pub rate: Rate,
    /// How long.
    #[serde(rename = "for")]
    pub span: Span,
}

/// Frames of a capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// The capture, pcap or pcapng; relative to the profile's folder.
    pub file: std::path::PathBuf,
    /// Whether packets are due by their recorded gaps, or by the profile's load.
    #[serde(default)]
    pub timing: Timing,
    /// How much faster than recorded.
    #[serde(default = "one")]
    pub speed: f64,
    /// Whether to overwrite the end of payloads that have room with a stamp, and repair checksums.
    #[serde(default = "yes")]
    pub stamp: bool,
}

fn one() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

/// When replayed packets are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Timing {
    /// By the profile's load.
    #[default]
    Load,
    /// By their recorded gaps, again and again.
    Recorded,
}

impl PacketShape {
    /// Bytes in front of the payload.
    pub fn headers_len(&self) -> usize {
        let ethernet = 14 + 4 * self.vlan.0.len();
        let transport = match self.transport {
            Transport::Udp => 8,
            Transport::TcpSyn => 20,
            Transport::Chunk => return ethernet,
        };
        let tunnel = self
            .gtpu
            .as_ref()
            .map_or(0, |gtpu| gtpu.ip.header_len() + 8 + GTPU_LEN);
        ethernet + tunnel + self.ip.header_len() + transport
    }

    /// The longest frame, FCS counted.
    pub const fn frame_len_max(&self) -> usize {
        match self.transport {
            Transport::Udp | Transport::TcpSyn => FRAME_LEN_MAX,
            Transport::Chunk => CHUNK_LEN_MAX,
        }
    }

    /// The shortest frame with FCS that holds the headers and a stamp.
    pub fn frame_len_min(&self) -> usize {
        (self.headers_len() + STAMP_LEN + FCS_LEN).max(FRAME_LEN_MIN)
    }
}

impl IpVersion {
    /// Bytes of a header without options.
    pub const fn header_len(self) -> usize {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }
}

impl Load {
    /// Bytes counted of a frame of `frame_len` bytes, FCS included.
    pub fn counted_len(layer: Layer, frame_len: usize) -> usize {
        match layer {
            Layer::L1 => frame_len + L1_OVERHEAD_LEN,
            Layer::L2 => frame_len,
        }
    }
}

impl Profile {
    /// The same profile at another constant rate: what a search varies.
    #[must_use]
    pub fn at_rate(&self, rate: Rate) -> Self {
        let mut profile = self.clone();
        profile.load.rate = Offered::Rate(rate);
        profile
    }

    /// Mean frame length with FCS; of made packets.
    pub fn mean_frame_len(&self) -> f64 {
        self.sizes.mean()
    }

    /// Packets per second that a rate means for this profile's mean frame length.
    pub fn packets_per_second(&self, rate: Rate) -> f64 {
        match rate {
            Rate::PacketsPerSecond(pps) => pps,
            Rate::BitsPerSecond(bps) => {
                let overhead = Load::counted_len(self.load.layer, 0) as f64;
                bps / 8.0 / (self.mean_frame_len() + overhead)
            }
        }
    }

    /// How many flow numbers packets may carry.
    pub fn flow_number_end(&self) -> u32 {
        self.flows
            .churn
            .as_ref()
            .map_or(self.flows.count, |churn| churn.pool.max(self.flows.count))
    }
}
