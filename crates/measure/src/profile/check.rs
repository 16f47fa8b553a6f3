//! What no profile may ask for: each refusal says where, why, and what to write instead.

use std::net::IpAddr;

use catena_engine::config::{ConfigError, ConfigErrors};
use catena_engine::units::Rate;

use super::{
    BURST_PACKETS_MAX, FLOW_COUNT_MAX, IpVersion, L1_OVERHEAD_LEN, Load, Offered, Pattern, Pick,
    Profile, STEP_COUNT_MAX, Timing, Transport,
};
use crate::stamp::{FLOW_END, STAMP_LEN};

/// Most sizes: their templates stay in the second-level cache.
const SIZE_COUNT_MAX: usize = 64;
/// Most parts of all sizes together.
const PART_COUNT_MAX: u32 = 4096;
/// Most replacements of flows in a second.
const CHURN_MAX: f64 = 1e9;

/// Everything that is wrong with a profile whose sections could be read.
pub(super) fn errors(profile: &Profile) -> ConfigErrors {
    let mut found = Found(Vec::new());
    if profile.replay.is_none() {
        sizes(profile, &mut found);
    }
    packet(profile, &mut found);
    flows(profile, &mut found);
    pattern(profile, &mut found);
    line(profile, &mut found);
    replay(profile, &mut found);
    found.0
}

struct Found(ConfigErrors);

impl Found {
    fn refuse(&mut self, path: &str, message: impl Into<String>, repair: impl Into<String>) {
        self.0.push(ConfigError::new(path, message, repair));
    }
}

fn sizes(profile: &Profile, found: &mut Found) {
    let sizes = &profile.sizes.0;
    let least = profile.packet.frame_len_min();
    let most = profile.packet.frame_len_max();
    if sizes.is_empty() || sizes.len() > SIZE_COUNT_MAX {
        let message = format!("there are {} sizes", sizes.len());
        found.refuse("sizes", message, format!("give 1 to {SIZE_COUNT_MAX}"));
    }
    for (index, share) in sizes.iter().enumerate() {
        let path = match sizes.len() {
            1 => "sizes".to_owned(),
            _ => format!("sizes[{index}]"),
        };
        if share.size < least {
            let message = format!(
                "{} bytes do not hold {} bytes of headers, a stamp of {STAMP_LEN} and the FCS",
                share.size,
                profile.packet.headers_len()
            );
            found.refuse(&path, message, format!("give {least} or more"));
        } else if share.size > most {
            let message = format!("{} bytes are more than a frame may have", share.size);
            let repair = match profile.packet.transport {
                Transport::Chunk => format!("give at most {most}"),
                _ => format!("give at most {most}, or set packet.transport: chunk"),
            };
            found.refuse(&path, message, repair);
        }
        if share.parts == 0 {
            found.refuse(&path, "a size with no part of the packets", "leave it out");
        }
    }
    let parts = sizes
        .iter()
        .map(|share| u64::from(share.parts))
        .sum::<u64>();
    if parts > u64::from(PART_COUNT_MAX) {
        let message = format!("the parts sum up to {parts}");
        found.refuse(
            "sizes",
            message,
            format!("keep the sum within {PART_COUNT_MAX}"),
        );
    }
}

fn packet(profile: &Profile, found: &mut Found) {
    let packet = &profile.packet;
    if packet.vlan.0.len() > 2 {
        let message = format!("there are {} VLAN tags", packet.vlan.0.len());
        found.refuse("packet.vlan", message, "give one or two");
    }
    for vlan in packet.vlan.0.iter().filter(|vlan| **vlan > 4094) {
        let message = format!("{vlan} is no VLAN identifier");
        found.refuse("packet.vlan", message, "give 0 to 4094");
    }
    if packet.transport == Transport::Chunk {
        let parts = [
            ("packet.src", packet.src.is_some()),
            ("packet.dst", packet.dst.is_some()),
            ("packet.gtpu", packet.gtpu.is_some()),
        ];
        for (path, _) in parts.iter().filter(|(_, is_there)| *is_there) {
            found.refuse(path, "a chunk has no IP header", "leave it out");
        }
        return;
    }
    let is_v6 = packet.ip == IpVersion::V6;
    if !packet.udp_checksum && packet.transport == Transport::TcpSyn {
        let message = "TCP always has a checksum";
        found.refuse("packet.udp_checksum", message, "leave it out");
    } else if !packet.udp_checksum && is_v6 {
        let message = "over IPv6, UDP must have a checksum (RFC 8200 8.1)";
        found.refuse(
            "packet.udp_checksum",
            message,
            "leave it out, or set ip: v4",
        );
    }
    address(found, "packet.src", packet.src, packet.ip);
    address(found, "packet.dst", packet.dst, packet.ip);
    let Some(gtpu) = &packet.gtpu else { return };
    address(found, "packet.gtpu.src", gtpu.src, gtpu.ip);
    address(found, "packet.gtpu.dst", gtpu.dst, gtpu.ip);
    if gtpu.qfi > 63 {
        let message = format!("{} is no QoS flow identifier", gtpu.qfi);
        found.refuse("packet.gtpu.qfi", message, "give 0 to 63");
    }
    if gtpu.teids == 0 || gtpu.teid.checked_add(gtpu.teids - 1).is_none() {
        let message = format!("there are no {} identifiers from {}", gtpu.teids, gtpu.teid);
        found.refuse(
            "packet.gtpu.teids",
            message,
            "give 1 or more, up to 2^32 in all",
        );
    }
}

fn address(found: &mut Found, path: &str, address: Option<IpAddr>, version: IpVersion) {
    let Some(address) = address else { return };
    if address.is_ipv6() != (version == IpVersion::V6) {
        let wanted = match version {
            IpVersion::V4 => "an IPv4 address, or set ip: v6",
            IpVersion::V6 => "an IPv6 address, or set ip: v4",
        };
        let message = format!("{address} is of the other IP version");
        found.refuse(path, message, format!("give {wanted}"));
    }
}

fn flows(profile: &Profile, found: &mut Found) {
    let flows = &profile.flows;
    if !(1..=FLOW_COUNT_MAX).contains(&flows.count) {
        let message = format!("{} is out of range", flows.count);
        found.refuse(
            "flows.count",
            message,
            format!("give 1 to {FLOW_COUNT_MAX}"),
        );
    }
    if !(0.0..=10.0).contains(&flows.exponent) {
        let message = format!("an exponent of {} is out of range", flows.exponent);
        found.refuse("flows.exponent", message, "give 0 to 10");
    }
    if flows.exponent != 1.0 && flows.pick != Pick::Zipf {
        let message = "only zipf has an exponent";
        found.refuse("flows.exponent", message, "leave it out, or set pick: zipf");
    }
    let Some(churn) = &flows.churn else { return };
    if !(churn.per_second > 0.0 && churn.per_second <= CHURN_MAX) {
        let message = format!("{} flows cannot be replaced in a second", churn.per_second);
        found.refuse(
            "flows.churn.per_second",
            message,
            "give more than 0, up to 1e9",
        );
    }
    let pool_least = flows.count.saturating_add(1);
    if !(pool_least..FLOW_END).contains(&churn.pool) {
        let message = format!("a pool of {} flow numbers does not do", churn.pool);
        let repair = format!("give {pool_least} to {}", FLOW_END - 1);
        found.refuse("flows.churn.pool", message, repair);
    }
}

fn pattern(profile: &Profile, found: &mut Found) {
    let load = &profile.load;
    let is_max = load.rate == Offered::Max;
    let is = |pattern| load.pattern == pattern;
    if is_max && (is(Pattern::Poisson) || is(Pattern::Bursts)) {
        let message = "this pattern needs a rate";
        found.refuse("load.pattern", message, "add rate, like rate: 1Mpps");
    }
    if is(Pattern::Bursts) {
        let packets = load.packets.unwrap_or(0);
        if !(1..=BURST_PACKETS_MAX).contains(&packets) {
            let message = format!("a burst has {packets} packets");
            let repair = format!("give packets, 1 to {BURST_PACKETS_MAX}");
            found.refuse("load.packets", message, repair);
        }
    } else {
        for (path, is_given) in [
            ("load.packets", load.packets.is_some()),
            ("load.spacing", load.spacing.is_some()),
        ] {
            if is_given {
                let repair = "leave it out, or set pattern: bursts";
                found.refuse(path, "only bursts have this", repair);
            }
        }
    }
    match (is(Pattern::Steps), load.steps.len()) {
        (true, 1..=STEP_COUNT_MAX) if !is_max => {
            found.refuse("load.rate", "steps have rates of their own", "leave it out");
        }
        (true, 1..=STEP_COUNT_MAX) | (false, 0) => {}
        (true, count) => {
            let message = format!("there are {count} steps");
            let repair = format!("give 1 to {STEP_COUNT_MAX}, like [{{rate: 1Mpps, for: 1s}}]");
            found.refuse("load.steps", message, repair);
        }
        (false, _) => {
            let repair = "leave them out, or set pattern: steps";
            found.refuse("load.steps", "only the pattern steps has steps", repair);
        }
    }
    for (index, step) in load.steps.iter().enumerate() {
        if step.span.ns == 0 {
            let path = format!("load.steps[{index}].for");
            found.refuse(&path, "a step of no length", "give a time, like 1s");
        }
    }
}

/// Nothing may be offered that the line cannot carry.
fn line(profile: &Profile, found: &mut Found) {
    let Some(line) = profile.line else { return };
    let Rate::BitsPerSecond(line_bps) = line else {
        let message = "the line's rate is one of bits";
        return found.refuse("line", message, "write it like 10Gbps");
    };
    let l1_bits = (profile.mean_frame_len() + L1_OVERHEAD_LEN as f64) * 8.0;
    let load = &profile.load;
    let mut limit = |path: &str, rate: Rate| {
        let l1_bps = profile.packets_per_second(rate) * l1_bits;
        // A rate that was computed from the line's own may differ in its last digits.
        if l1_bps > line_bps * (1.0 + 1e-9) {
            let most = line_bps / l1_bits;
            let message = format!("{l1_bps:.0} bps on layer 1 are more than the line's {line_bps}");
            let repair = match rate {
                Rate::PacketsPerSecond(_) => format!("give at most {}pps", most.floor()),
                Rate::BitsPerSecond(_) => {
                    let counted =
                        profile.mean_frame_len() + Load::counted_len(load.layer, 0) as f64;
                    format!("give at most {}bps", (most * counted * 8.0).floor())
                }
            };
            found.refuse(path, message, repair);
        }
    };
    if let Offered::Rate(rate) = load.rate {
        limit("load.rate", rate);
    }
    for (index, step) in load.steps.iter().enumerate() {
        limit(&format!("load.steps[{index}].rate"), step.rate);
    }
    if let Some(spacing) = load.spacing
        && spacing.ns as f64 * line_bps < l1_bits * 1e9 * (1.0 - 1e-9)
    {
        let message = format!(
            "frames {} ns apart are more than the line carries",
            spacing.ns
        );
        let repair = format!("give at least {:.0}ns", (l1_bits * 1e9 / line_bps).ceil());
        found.refuse("load.spacing", message, repair);
    }
}

fn replay(profile: &Profile, found: &mut Found) {
    let Some(replay) = &profile.replay else {
        return;
    };
    if !(replay.speed > 0.0 && replay.speed <= 1e6) {
        let message = format!("a speed of {} is out of range", replay.speed);
        found.refuse("replay.speed", message, "give more than 0, up to 1e6");
    }
    if replay.speed != 1.0 && replay.timing == Timing::Load {
        let message = "only recorded gaps have a speed";
        found.refuse(
            "replay.speed",
            message,
            "leave it out, or set timing: recorded",
        );
    }
    if replay.timing == Timing::Recorded && profile.load != Load::default() {
        let message = "recorded gaps leave no choice of load";
        found.refuse("load", message, "leave it out, or set replay.timing: load");
    }
}
