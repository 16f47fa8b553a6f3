//! What an SMF wants to know of GTP-U paths: GTP-U Path QoS Control Information, read and kept.
//!
//! On N4, before anything is changed. What an update says takes the place of all that was said
//! before; one of null length ends it. Specification: TS 29.244 7.4.4.1.3, 7.4.4.3.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_wire::pfcp::value::address::RemoteGtpUPeer;
use catena_wire::pfcp::value::flags::QosReportTrigger;
use catena_wire::pfcp::value::forwarding::TrafficClass;
use catena_wire::pfcp::{Cause, Group, IeType, key};

use crate::model::Fault;
use crate::rules::NONE;
use crate::settings::{Interface, Settings};
use crate::stored;
use crate::stored::{List, Stored};

/// Most of them for an association.
pub const CONTROLS_MAX: usize = 4;
/// Most peers that one of them names.
pub const PEERS_MAX: usize = 8;
/// Most markings that one of them names.
pub const MARKINGS_MAX: usize = 8;

const INFORMATION: IeType = IeType::GTP_U_PATH_QOS_CONTROL_INFORMATION;
const SECOND_NS: u64 = 1_000_000_000;
/// Least time between two events of a path, where no Minimum Waiting Time says so.
const WAIT_S: u32 = 1;

stored! {
    /// When delays of a path are told.
    pub struct PathTerms {
        /// QoS Report Trigger.
        pub trigger: u8,
        /// Measurement Period, in seconds.
        pub period_s: Option<u32>,
        /// Average, minimum and maximum Packet Delay Threshold, in ms.
        pub thresholds_ms: [Option<u32>; 3],
        /// Minimum Waiting Time, in seconds; all ones for one without an end.
        pub wait_s: Option<u32>,
    }

    /// The peer of a path.
    pub struct PathPeer {
        /// Its address.
        pub v4: Option<Ipv4Addr>,
        /// Its address.
        pub v6: Option<Ipv6Addr>,
        /// The interface by which it is reached; [`NONE`] for the one that its sessions use.
        pub interface: u8,
    }

    /// GTP-U Path QoS Control Information.
    pub struct PathControl {
        /// When delays are told.
        pub terms: PathTerms,
        /// GTP-U Path Interface Type: all paths of these; 0 for the peers alone.
        pub interfaces: u8,
        /// Remote GTP-U Peers.
        pub peers: List<PathPeer, PEERS_MAX>,
        /// DSCPs; none for packets without a marking.
        pub markings: List<u8, MARKINGS_MAX>,
    }
}

/// All of an association.
pub type PathControls = List<PathControl, CONTROLS_MAX>;

impl Default for PathPeer {
    fn default() -> Self {
        Self::load(&[0; Self::LEN])
    }
}

impl Default for PathControl {
    fn default() -> Self {
        Self::load(&[0; Self::LEN])
    }
}

impl PathTerms {
    pub(super) fn tells(&self, trigger: QosReportTrigger) -> bool {
        QosReportTrigger::from_bits(self.trigger).contains(trigger)
    }

    /// Whether it tells by any of these.
    pub(super) fn tells_any(&self, triggers: QosReportTrigger) -> bool {
        QosReportTrigger::from_bits(self.trigger).intersects(triggers)
    }

    pub(super) fn period_ns(&self) -> Option<u64> {
        let seconds = self.period_s.filter(|_| self.tells(QosReportTrigger::PER));
        seconds.map(|seconds| u64::from(seconds.max(1)) * SECOND_NS)
    }

    /// For how long nothing is told behind an event.
    pub(super) fn wait_ns(&self) -> u64 {
        match self.wait_s.unwrap_or(WAIT_S) {
            u32::MAX => u64::MAX,
            seconds => u64::from(seconds) * SECOND_NS,
        }
    }

    /// Whether one of average, minimum and maximum is above its threshold.
    pub(super) fn is_exceeded(&self, delays_us: [u64; 3]) -> bool {
        let mut pairs = self.thresholds_ms.iter().zip(delays_us);
        pairs.any(|(limit, us)| limit.is_some_and(|limit_ms| us > u64::from(limit_ms) * 1000))
    }
}

impl PathControl {
    /// The DSCPs that are measured: 0 where none is named, of which reports say nothing.
    pub(super) fn dscps(&self) -> &[u8] {
        match self.markings.as_slice() {
            [] => &[0],
            markings => markings,
        }
    }

    /// Its peers, each address by itself, with the interface if it is known.
    pub(super) fn peer_addresses(&self) -> impl Iterator<Item = (u8, IpAddr)> + '_ {
        self.peers.as_slice().iter().flat_map(|peer| {
            let both = [peer.v4.map(IpAddr::V4), peer.v6.map(IpAddr::V6)];
            let addresses = both.into_iter().flatten();
            addresses.map(|address| (peer.interface, address))
        })
    }
}

const fn refused(cause: Cause, offending: IeType) -> Result<(), Fault> {
    Err(Fault {
        refusal: cause.because_of(offending),
        rule: None,
    })
}

/// What a message wants to know from now on; none if it says nothing of it.
///
/// # Errors
/// Why the message is refused.
pub(crate) fn read(ies: &Group<'_>, settings: &Settings) -> Result<Option<PathControls>, Fault> {
    if !ies.has(INFORMATION) {
        return Ok(None);
    }
    // Shards have the sessions, and so the paths, of a part each; answers come to all.
    if settings.shard.1 > 1 {
        refused(Cause::SERVICE_NOT_SUPPORTED, INFORMATION)?;
    }
    let mut all = PathControls::default();
    let said = ies.all(INFORMATION).filter(|ie| !ie.value.is_empty());
    for group in said.filter_map(|ie| ie.group()) {
        if !all.push(control(&group, settings)?) {
            refused(Cause::NO_RESOURCES_AVAILABLE, INFORMATION)?;
        }
    }
    Ok(Some(all))
}

fn control(group: &Group<'_>, settings: &Settings) -> Result<PathControl, Fault> {
    let mut control = PathControl {
        terms: terms(group)?,
        ..PathControl::default()
    };
    let interfaces = group.get(key::GTP_U_PATH_INTERFACE_TYPE)?;
    control.interfaces = interfaces.map_or(0, |interfaces| interfaces.bits());
    for peer in group.each(key::REMOTE_GTP_U_PEER) {
        let peer = peer_of(&peer?, settings)?;
        if !control.peers.push(peer) {
            refused(Cause::NO_RESOURCES_AVAILABLE, IeType::REMOTE_GTP_U_PEER)?;
        }
    }
    if control.peers.as_slice().is_empty() && control.interfaces == 0 {
        refused(Cause::CONDITIONAL_IE_MISSING, IeType::REMOTE_GTP_U_PEER)?;
    }
    for marking in group.each(key::TRANSPORT_LEVEL_MARKING) {
        let TrafficClass { value, mask } = marking?;
        let dscp = (value & mask) >> 2;
        let is_known = control.markings.as_slice().contains(&dscp);
        if !is_known && !control.markings.push(dscp) {
            let ie_type = IeType::TRANSPORT_LEVEL_MARKING;
            refused(Cause::NO_RESOURCES_AVAILABLE, ie_type)?;
        }
    }
    Ok(control)
}

fn terms(group: &Group<'_>) -> Result<PathTerms, Fault> {
    let trigger = group.require(key::QOS_REPORT_TRIGGER)?;
    let thresholds_ms = [
        group.get(key::AVERAGE_PACKET_DELAY)?.map(|one| one.0),
        group.get(key::MINIMUM_PACKET_DELAY)?.map(|one| one.0),
        group.get(key::MAXIMUM_PACKET_DELAY)?.map(|one| one.0),
    ];
    let period_s = group.get(key::MEASUREMENT_PERIOD)?.map(|one| one.0);
    let wait = group.get(key::TIMER)?;
    match (trigger.contains(QosReportTrigger::PER), period_s) {
        (true, None) => refused(Cause::CONDITIONAL_IE_MISSING, IeType::MEASUREMENT_PERIOD)?,
        (true, Some(0)) => refused(Cause::MANDATORY_IE_INCORRECT, IeType::MEASUREMENT_PERIOD)?,
        // It would be accepted, and nothing would come of it.
        (false, Some(_)) => refused(Cause::REQUEST_REJECTED, IeType::MEASUREMENT_PERIOD)?,
        _ => {}
    }
    let thresholds = [
        IeType::AVERAGE_PACKET_DELAY,
        IeType::MINIMUM_PACKET_DELAY,
        IeType::MAXIMUM_PACKET_DELAY,
    ];
    let mut there = thresholds.into_iter().filter(|one| group.has(*one));
    match (trigger.contains(QosReportTrigger::THR), there.next()) {
        (true, None) => refused(Cause::CONDITIONAL_IE_MISSING, IeType::AVERAGE_PACKET_DELAY)?,
        (false, Some(ie_type)) => refused(Cause::REQUEST_REJECTED, ie_type)?,
        (false, None) if wait.is_some() => refused(Cause::REQUEST_REJECTED, IeType::TIMER)?,
        _ => {}
    }
    Ok(PathTerms {
        trigger: trigger.bits(),
        period_s,
        thresholds_ms,
        wait_s: wait.map(|timer| timer.seconds().unwrap_or(u32::MAX)),
    })
}

/// A peer, and the interface that is meant, which must have an address of its version.
fn peer_of(peer: &RemoteGtpUPeer<'_>, settings: &Settings) -> Result<PathPeer, Fault> {
    let reaches = |one: &Interface| {
        peer.v4.is_some() && one.v4.is_some() || peer.v6.is_some() && one.v6.is_some()
    };
    let instance = peer.network_instance.map(|name| settings.instance(name));
    let destination = peer.destination_interface.and_then(|octets| octets.first());
    let place = match (destination, instance) {
        (_, Some(NONE)) => None,
        (Some(octet), _) => settings.interface_to(octet & 0xf, instance.unwrap_or(NONE)),
        (None, Some(instance)) => settings.interface_of(|one| one.instance == instance),
        (None, None) => settings.interface_of(reaches),
    };
    let interface = place.and_then(|place| settings.interfaces.get(usize::from(place)));
    if !interface.is_some_and(reaches) {
        refused(Cause::REQUEST_REJECTED, IeType::REMOTE_GTP_U_PEER)?;
    }
    let is_meant = destination.is_some() || instance.is_some();
    Ok(PathPeer {
        v4: peer.v4,
        v6: peer.v6,
        interface: place.filter(|_| is_meant).unwrap_or(NONE),
    })
}
