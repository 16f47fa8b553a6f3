//! QoS monitoring of the scripted SMF and gNB: rules as IEs, answers to marks, reports compared.

use catena_wire::gtpu::pdu_session::{PduSession, Uplink, UplinkTimes};
use catena_wire::pfcp::value::flags::{ReportingFrequency, RequestedQosMonitoring};
use catena_wire::pfcp::value::qos::{PacketDelayThresholds, PacketDelays, Qfi};
use catena_wire::pfcp::value::{Seconds, SrrId};
use catena_wire::pfcp::{Full, Group, IeType, Refusal, Writer, key};

use super::Player;
use super::scenario::{DelayReport, DelaysRule, FlowRule, Measured, Packets, Rules, SrrRule, When};
use crate::headers::Tunnel;

/// Writes the IEs of session reporting rules.
pub(super) fn rules(writer: &mut Writer<'_>, rules: &Rules) -> Result<(), Full> {
    for id in &rules.remove_srrs {
        writer.group(IeType::REMOVE_SRR, |writer| {
            writer.put(key::SRR_ID, &SrrId(*id))
        })?;
    }
    for (group, list) in [
        (IeType::CREATE_SRR, &rules.srrs),
        (IeType::UPDATE_SRR, &rules.update_srrs),
    ] {
        for rule in list {
            writer.group(group, |writer| srr(writer, rule))?;
        }
    }
    Ok(())
}

fn srr(writer: &mut Writer<'_>, rule: &SrrRule) -> Result<(), Full> {
    writer.put(key::SRR_ID, &SrrId(rule.id))?;
    let group = IeType::QOS_MONITORING_PER_QOS_FLOW_CONTROL_INFORMATION;
    let mut flows = rule.flows.iter();
    flows.try_for_each(|rule| writer.group(group, |writer| flow(writer, rule)))
}

fn flow(writer: &mut Writer<'_>, rule: &FlowRule) -> Result<(), Full> {
    let mut qfis = rule.qfis.iter();
    qfis.try_for_each(|qfi| writer.put(key::QFI, &Qfi(*qfi)))?;
    let measured = rule.measure.iter().map(|one| match one {
        Measured::Dl => RequestedQosMonitoring::DL,
        Measured::Ul => RequestedQosMonitoring::UL,
        Measured::Rp => RequestedQosMonitoring::RP,
    });
    let measured = measured.reduce(|all, one| all | one);
    writer.put_some(key::REQUESTED_QOS_MONITORING, measured.as_ref())?;
    let times = rule.tell.iter().map(|one| match one {
        When::Evett => ReportingFrequency::EVETT,
        When::Perio => ReportingFrequency::PERIO,
        When::Sesrl => ReportingFrequency::SESRL,
    });
    let times = times.reduce(|all, one| all | one);
    writer.put_some(key::REPORTING_FREQUENCY, times.as_ref())?;
    let limits = rule.thresholds.map(|DelaysRule { dl, ul, rp }| {
        PacketDelayThresholds(PacketDelays {
            dl_ms: dl,
            ul_ms: ul,
            rp_ms: rp,
        })
    });
    writer.put_some(key::PACKET_DELAY_THRESHOLDS, limits.as_ref())?;
    writer.put_some(key::MINIMUM_WAIT_TIME, rule.wait.map(Seconds).as_ref())?;
    writer.put_some(key::MEASUREMENT_PERIOD, rule.period.map(Seconds).as_ref())
}

/// The QoS Monitoring Reports of a message.
fn reports(ies: &Group<'_>) -> Result<Vec<DelayReport>, Refusal> {
    let mut all = Vec::new();
    for session in ies.groups(IeType::SESSION_REPORT) {
        for group in session.groups(IeType::QOS_MONITORING_REPORT) {
            let measured = group.require(key::QOS_MONITORING_MEASUREMENT)?;
            let at = group.require(key::TIME_STAMP)?.0;
            let since = group.get(key::START_TIME)?;
            all.push(DelayReport {
                srr: session.require(key::SRR_ID)?.0,
                qfi: group.require(key::QFI)?.0,
                delays: DelaysRule {
                    dl: measured.delays.dl_ms,
                    ul: measured.delays.ul_ms,
                    rp: measured.delays.rp_ms,
                },
                failed: measured.has_failed,
                seconds: since.map(|since| at.wrapping_sub(since.0)),
            });
        }
    }
    Ok(all)
}

/// Compares what a message reports with what is expected.
pub(super) fn compare(ies: &Group<'_>, expected: &[DelayReport]) -> Result<(), String> {
    let found = reports(ies).map_err(|refusal| refusal.to_string())?;
    match found == expected {
        true => Ok(()),
        false => Err(format!("{found:?} instead of {expected:?}")),
    }
}

/// A time of NTP so many ns behind another one.
fn behind(time: u64, ns: u64) -> u64 {
    let units = (u128::from(ns) << 32) / 1_000_000_000;
    time.wrapping_add(u64::try_from(units).unwrap_or(u64::MAX))
}

impl Player {
    /// A packet has come through a tunnel: whether and when its sender has marked it.
    pub(super) fn note_mark(&mut self, container: Option<PduSession>) {
        let time = match container {
            Some(PduSession::Downlink(frame)) => frame.sending_time,
            _ => None,
        };
        self.is_marked = time.is_some();
        self.mark = time.map(|time| (time, self.now_ns)).or(self.mark);
    }

    /// The tunnel of packets from the gNB, which may answer a marked one.
    pub(super) fn uplink_tunnel(&self, teid: u32, packets: &Packets) -> Result<Tunnel, String> {
        let Some(rule) = packets.answers else {
            return Ok(Tunnel::uplink(teid, packets.qfi));
        };
        let (sent, came_ns) = self.mark.ok_or("no packet was marked")?;
        let on_way_ns = self.now_ns.saturating_sub(came_ns);
        let sending_ns = on_way_ns.checked_sub(rule.ul.ns);
        let sending_ns = sending_ns.ok_or("it arrives sooner than it is on its way")?;
        let frame = Uplink {
            qfi: packets.qfi.ok_or("answers of a gNB have a qfi")?,
            times: Some(UplinkTimes {
                dl_sending: sent,
                dl_received: behind(sent, rule.dl.ns),
                ul_sending: behind(sent, sending_ns),
            }),
            dl_delay: rule.ran.map(|[dl, _]| dl),
            ul_delay: rule.ran.map(|[_, ul]| ul),
            ..Uplink::default()
        };
        Ok(Tunnel {
            teid,
            container: Some(PduSession::Uplink(frame)),
        })
    }
}
