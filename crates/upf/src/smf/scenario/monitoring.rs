//! QoS monitoring in scenario files: what the SMF asks for, what the gNB says, what is reported.
//!
//! Part of a scenario; `monitoring` of the scripted SMF writes and compares it.

use catena_engine::units::Span;
use serde::Deserialize;

/// Create SRR or Update SRR.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SrrRule {
    /// SRR ID.
    pub id: u8,
    /// QoS Monitoring per QoS flow Control Information.
    #[serde(default)]
    pub flows: Vec<FlowRule>,
}

/// QoS Monitoring per QoS flow Control Information.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowRule {
    /// QFIs.
    pub qfis: Vec<u8>,
    /// Requested QoS Monitoring.
    pub measure: Vec<Measured>,
    /// Reporting Frequency.
    pub tell: Vec<When>,
    /// Packet Delay Thresholds.
    pub thresholds: Option<DelaysRule>,
    /// Minimum Wait Time, in seconds.
    pub wait: Option<u32>,
    /// Measurement Period, in seconds.
    pub period: Option<u32>,
}

/// A packet delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Measured {
    /// Downlink.
    Dl,
    /// Uplink.
    Ul,
    /// Round trip.
    Rp,
}

/// When it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum When {
    /// Event triggered.
    Evett,
    /// Periodic.
    Perio,
    /// When the session is released.
    Sesrl,
}

/// Packet delays, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelaysRule {
    /// Downlink.
    pub dl: Option<u32>,
    /// Uplink.
    pub ul: Option<u32>,
    /// Round trip.
    pub rp: Option<u32>,
}

/// What a gNB says of a marked packet: the packet that says so arrives now.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerRule {
    /// How long the marked packet was on its way, by the gNB's clock.
    pub dl: Span,
    /// How long the answer is on its way, by the gNB's clock.
    pub ul: Span,
    /// DL and UL Delay Result, in ms: the gNB's own part.
    pub ran: Option<[u32; 2]>,
    /// Whether it comes without a user's packet.
    #[serde(default)]
    pub alone: bool,
}

/// A QoS Monitoring Report: all of it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayReport {
    /// SRR ID.
    pub srr: u8,
    /// QFI.
    pub qfi: u8,
    /// Delays in ms.
    #[serde(default)]
    pub delays: DelaysRule,
    /// Whether the measurement has failed (PLMF).
    #[serde(default)]
    pub failed: bool,
    /// Seconds from Start Time to Event Time Stamp; none of a report without Start Time.
    pub seconds: Option<u32>,
}
