//! What was measured, told: Session Reports.
//!
//! Behind an answer of the access network that is an event, and by timers. A report is taken from
//! the session's monitors only once it is written; else it waits there, through a kill, too, and
//! is tried again: what is measured meanwhile is in it.

use catena_wire::gtpu::pdu_session::Uplink;
use catena_wire::pfcp::value::flags::{ReportType, ReportingFrequency};
use catena_wire::pfcp::value::qos::{PacketDelays, Qfi, QosMonitoringMeasurement};
use catena_wire::pfcp::value::{SrrId, Time};
use catena_wire::pfcp::{Full, IeType, Writer, key};

use super::monitor::{M, Monitor};
use crate::stored::Stored;
use crate::upf::Upf;
use crate::usage::WallClock;

/// What was measured, as it is told: nothing measured has failed.
fn measurement(monitor: &Monitor, delays: Option<[u64; 3]>) -> QosMonitoringMeasurement {
    let Some(delays) = delays else {
        return QosMonitoringMeasurement {
            has_failed: true,
            ..QosMonitoringMeasurement::default()
        };
    };
    // The nearest millisecond.
    let in_ms = delays.map(|us| u32::try_from(us.saturating_add(500) / 1000).unwrap_or(u32::MAX));
    let [dl_ms, ul_ms, rp_ms] = monitor.terms.asked(in_ms);
    QosMonitoringMeasurement {
        delays: PacketDelays {
            dl_ms,
            ul_ms,
            rp_ms,
        },
        has_failed: false,
    }
}

/// Writes a QoS Monitoring Report: of an event, or of the time since an instant.
fn put(
    writer: &mut Writer<'_>,
    monitor: &Monitor,
    delays: Option<[u64; 3]>,
    (since, at): (Option<Time>, Time),
) -> Result<(), Full> {
    writer.group(IeType::QOS_MONITORING_REPORT, |writer| {
        writer.put(key::QFI, &Qfi(monitor.terms.qfi))?;
        let measured = measurement(monitor, delays);
        writer.put(key::QOS_MONITORING_MEASUREMENT, &measured)?;
        writer.put(key::TIME_STAMP, &at)?;
        writer.put_some(key::START_TIME, since.as_ref())
    })
}

/// Writes the Session Reports of SRRs, each once, in which `each` writes of its monitors.
fn put_all(
    writer: &mut Writer<'_>,
    monitors: &[Monitor],
    each: impl Fn(&mut Writer<'_>, &Monitor) -> Result<(), Full>,
) -> Result<(), Full> {
    for (at, first) in monitors.iter().enumerate() {
        let is_its = |one: &&Monitor| one.srr_id == first.srr_id;
        if monitors[..at].iter().any(|one| is_its(&one)) {
            continue;
        }
        writer.group(IeType::SESSION_REPORT, |writer| {
            writer.put(key::SRR_ID, &SrrId(first.srr_id))?;
            let mut own = monitors.iter().filter(is_its);
            own.try_for_each(|one| each(writer, one))
        })?;
    }
    Ok(())
}

/// Writes what the end of a session tells of its monitors (SESRL).
pub(crate) fn put_released(
    writer: &mut Writer<'_>,
    monitors: &[Monitor],
    now_ns: u64,
    clock: WallClock,
) -> Result<(), Full> {
    let tells = |one: &&Monitor| one.terms.tells(ReportingFrequency::SESRL);
    let own: Vec<Monitor> = monitors.iter().filter(tells).copied().collect();
    let time = |ns| Time(clock.seconds(ns));
    put_all(writer, &own, |writer, one| {
        let times = (Some(time(one.since_ns)), time(now_ns));
        put(writer, one, one.mean_us(), times)
    })
}

impl Upf {
    /// The access network answers marks of a flow of the session in a slot.
    pub(crate) fn hear_delays(&mut self, slot: u32, frame: &Uplink, now_ns: u64) {
        let Some(times) = frame.times else { return };
        let heard = self.clock.ntp(now_ns);
        let Some(mut image) = self.store.image(slot) else {
            return;
        };
        let mut has_event = false;
        for place in 0..image.monitor_count() {
            let Some(record) = image.record_mut::<Monitor>(place) else {
                continue;
            };
            // Whoever has not seen the mark cannot answer it.
            if M::marked().get(record) != Some(times.dl_sending) {
                continue;
            }
            let mut monitor = Monitor::load(record);
            if monitor.terms.qfi == frame.qfi {
                let ran_ms = [frame.dl_delay, frame.ul_delay].map(Option::unwrap_or_default);
                has_event |= monitor.take(&times, ran_ms, (heard, now_ns));
                monitor.store(record);
            }
        }
        if has_event {
            self.tell_measured(slot, now_ns);
            self.arm(slot, now_ns);
        }
    }

    /// Periods of a session's monitors may have ended.
    pub(crate) fn wake_monitors(&mut self, slot: u32, now_ns: u64) {
        let Some(mut image) = self.store.image(slot) else {
            return;
        };
        let mut has_news = false;
        for place in 0..image.monitor_count() {
            if let Some(record) = image.record_mut::<Monitor>(place) {
                let mut monitor = Monitor::load(record);
                has_news |= monitor.wake(now_ns);
                monitor.store(record);
            }
        }
        if has_news {
            self.tell_measured(slot, now_ns);
        }
    }

    /// Tells what there is to tell, all in one request, or has it wait.
    fn tell_measured(&mut self, slot: u32, now_ns: u64) {
        if !self.has_room_for(slot) {
            return;
        }
        let clock = self.clock;
        let Some(image) = self.store.image(slot) else {
            return;
        };
        let all = (0..image.monitor_count()).filter_map(|place| image.monitor(place));
        let news: Vec<Monitor> = all.filter(Monitor::has_news).collect();
        let time = |ns| Time(clock.seconds(ns));
        let is_sent = self.report_request(slot, ReportType::SESR, now_ns, |writer| {
            put_all(writer, &news, |writer, one| {
                if let Some((delays, at_ns)) = one.event_us.zip(one.event_ns) {
                    put(writer, one, Some(delays), (None, time(at_ns)))?;
                }
                if one.is_due {
                    let times = (Some(time(one.since_ns)), time(now_ns));
                    put(writer, one, one.mean_us(), times)?;
                }
                Ok(())
            })
        });
        self.counters.unsent += u64::from(!is_sent);
        // Whom nobody hears does not tell for ever.
        let Some(mut image) = self.store.image(slot) else {
            return;
        };
        for place in 0..image.monitor_count() {
            if let Some(record) = image.record_mut::<Monitor>(place) {
                let mut monitor = Monitor::load(record);
                monitor.told(now_ns);
                monitor.store(record);
            }
        }
    }
}
