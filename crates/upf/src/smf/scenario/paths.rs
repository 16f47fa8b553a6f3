//! GTP-U paths in scenario files: what the SMF wants to know of them, what it is told.
//!
//! Part of a scenario; `paths` of the scripted SMF writes and compares it.

use std::net::IpAddr;

use catena_engine::units::Span;
use serde::Deserialize;

/// GTP-U Path QoS Control Information.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathRule {
    /// Remote GTP-U Peers.
    #[serde(default)]
    pub peers: Vec<IpAddr>,
    /// GTP-U Path Interface Type.
    #[serde(default)]
    pub interfaces: Vec<PathInterface>,
    /// QoS Report Trigger.
    pub tell: Vec<PathTrigger>,
    /// DSCPs of Transport Level Markings.
    #[serde(default)]
    pub dscps: Vec<u8>,
    /// Measurement Period, in seconds.
    pub period: Option<u32>,
    /// Packet Delay Thresholds.
    pub thresholds: Option<PathDelays>,
    /// Minimum Waiting Time, in seconds.
    pub wait: Option<u32>,
}

/// An interface of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PathInterface {
    /// To gNBs.
    N3,
    /// To other UPFs.
    N9,
}

/// When a path's delays are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PathTrigger {
    /// Periodic.
    Per,
    /// By a threshold.
    Thr,
    /// At once.
    Ire,
}

/// Delays of a path, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathDelays {
    /// Average.
    pub average: Option<u32>,
    /// Minimum.
    pub minimum: Option<u32>,
    /// Maximum.
    pub maximum: Option<u32>,
    /// DSCP, of a report.
    pub dscp: Option<u8>,
}

/// A GTP-U Path QoS Report: all of it is compared.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathReport {
    /// Remote GTP-U Peer.
    pub peer: IpAddr,
    /// GTP-U Path Interface Type.
    pub interface: PathInterface,
    /// QoS Report Trigger.
    pub trigger: PathTrigger,
    /// QoS Information.
    pub delays: Vec<PathDelays>,
    /// Seconds from Start Time to Event Time Stamp; none of a report without Start Time.
    pub seconds: Option<u32>,
}

/// Echo Requests, which the gNB or another UPF answers.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EchoRule {
    /// How many; 1 if left out.
    #[serde(default = "one")]
    pub count: u32,
    /// DSCP of their packets.
    pub dscp: Option<u8>,
    /// The answer comes so long behind each; at once if left out.
    pub after: Option<Span>,
}

const fn one() -> u32 {
    1
}
