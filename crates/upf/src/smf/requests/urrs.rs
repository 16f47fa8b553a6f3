//! URRs of the scripted SMF.
//!
//! Beside `requests`: usage reporting rules of a scenario as IEs.

use catena_wire::pfcp::value::flags::{
    MeasurementInformation, MeasurementMethod, ReportingTriggers,
};
use catena_wire::pfcp::value::usage::{DroppedDlTraffic, TimeQuotaMechanism, Volume};
use catena_wire::pfcp::value::{Seconds, Time, UrrId};
use catena_wire::pfcp::{Full, IeType, Writer, key};

use crate::smf::scenario::{Rules, UrrRule};

/// Flags by their names in the specification; none of one that nobody knows.
pub(in crate::smf) fn triggers(names: &[String]) -> Option<ReportingTriggers> {
    let mut all = ReportingTriggers::NONE;
    for name in names {
        let one = (0..24).map(|bit| ReportingTriggers::from_bits(1 << bit));
        let mut known = one.filter(|one| one.count() == 1);
        all = all | known.find(|one| format!("{one:?}") == *name)?;
    }
    Some(all)
}

/// Writes all that a request says of URRs.
pub(super) fn rules(writer: &mut Writer<'_>, rules: &Rules) -> Result<(), Full> {
    for (group, list) in [
        (IeType::REMOVE_URR, &rules.remove_urrs),
        (IeType::QUERY_URR, &rules.query_urrs),
    ] {
        for id in list {
            writer.group(group, |writer| writer.put(key::URR_ID, &UrrId(*id)))?;
        }
    }
    for (group, list) in [
        (IeType::CREATE_URR, &rules.urrs),
        (IeType::UPDATE_URR, &rules.update_urrs),
    ] {
        for rule in list {
            writer.group(group, |writer| urr(writer, rule))?;
        }
    }
    Ok(())
}

fn urr(writer: &mut Writer<'_>, rule: &UrrRule) -> Result<(), Full> {
    writer.put(key::URR_ID, &UrrId(rule.id))?;
    let method = [
        (rule.duration, MeasurementMethod::DURAT),
        (rule.event, MeasurementMethod::EVENT),
        (rule.volume, MeasurementMethod::VOLUM),
    ];
    let method = method.into_iter().filter(|(is_so, _)| *is_so);
    let method = method.fold(MeasurementMethod::NONE, |all, (_, one)| all | one);
    writer.put(key::MEASUREMENT_METHOD, &method)?;
    let triggers = triggers(&rule.triggers).filter(|triggers| triggers.count() > 0);
    writer.put_some(key::REPORTING_TRIGGERS, triggers.as_ref())?;
    writer.put_some(key::MEASUREMENT_PERIOD, rule.period.map(Seconds).as_ref())?;
    let total = |octets: Option<u64>| {
        octets.map(|octets| Volume {
            total: Some(octets),
            ..Volume::default()
        })
    };
    let each = rule.volume_thresholds.map(|[ul, dl]| Volume {
        total: rule.volume_threshold,
        ul: Some(ul),
        dl: Some(dl),
    });
    let threshold = each.or(total(rule.volume_threshold));
    writer.put_some(key::VOLUME_THRESHOLD, threshold.as_ref())?;
    writer.put_some(key::VOLUME_QUOTA, total(rule.volume_quota).as_ref())?;
    writer.put_some(
        key::TIME_THRESHOLD,
        rule.time_threshold.map(Seconds).as_ref(),
    )?;
    writer.put_some(key::TIME_QUOTA, rule.time_quota.map(Seconds).as_ref())?;
    writer.put_some(key::QUOTA_HOLDING_TIME, rule.holding.map(Seconds).as_ref())?;
    let at = rule.monitoring.map(Time::from_unix_epoch);
    writer.put_some(key::MONITORING_TIME, at.as_ref())?;
    writer.put_some(
        key::QUOTA_VALIDITY_TIME,
        rule.validity.map(Seconds).as_ref(),
    )?;
    writer.put_some(key::EVENT_THRESHOLD, rule.event_threshold.as_ref())?;
    writer.put_some(key::EVENT_QUOTA, rule.event_quota.as_ref())?;
    let continuous = rule.continuous.map(|interval| (0, interval));
    let period = continuous.or(rule.discrete.map(|interval| (1, interval)));
    let mechanism = period.map(|(interval_type, interval)| TimeQuotaMechanism {
        interval_type,
        interval,
    });
    writer.put_some(key::TIME_QUOTA_MECHANISM, mechanism.as_ref())?;
    let dropped = rule.dropped_packets.map(|packets| DroppedDlTraffic {
        packets: Some(packets),
        octets: None,
    });
    writer.put_some(key::DROPPED_DL_TRAFFIC_THRESHOLD, dropped.as_ref())?;
    let inactivity = rule.inactivity.map(Seconds);
    writer.put_some(key::INACTIVITY_DETECTION_TIME, inactivity.as_ref())?;
    writer.put_some(key::LINKED_URR_ID, rule.linked.map(UrrId).as_ref())?;
    let information = rule.packets.then_some(MeasurementInformation::MNOP);
    writer.put_some(key::MEASUREMENT_INFORMATION, information.as_ref())
}
