//! Echo Requests to paths that are followed, and what SMFs are told of them.
//!
//! Beside packets, as `echoes`. News are taken only once they are written; what there is no room to
//! tell waits, and what is measured meanwhile is in it. Specification: TS 29.244 7.4.5.1.

use std::collections::VecDeque;

use catena_wire::pfcp::value::flags::{GtpUPathInterfaceType, NodeReportType};
use catena_wire::pfcp::value::forwarding::TrafficClass;
use catena_wire::pfcp::value::{Milliseconds, Time};
use catena_wire::pfcp::{Full, IeType, MessageType as PfcpType, Writer, key};
use serde_json::{Value, json};

use super::measured::{Delays, News};
use super::{Wanted, interface_type};
use crate::association::ASSOCIATION_COUNT;
use crate::echoes::remote_peer;
use crate::settings::node_id_of;
use crate::transactions::Subject;
use crate::tunnel::Signal;
use crate::upf::Upf;
use crate::usage::WallClock;

/// Most paths that one request tells of: their reports fit into a message.
const TOLD_COUNT_MAX: usize = 8;
/// After so long, what there was no room to tell is tried again.
const AGAIN_NS: u64 = 1_000_000_000;

/// The nearest millisecond.
fn in_ms(us: u64) -> Milliseconds {
    Milliseconds(u32::try_from(us.saturating_add(500) / 1000).unwrap_or(u32::MAX))
}

fn put_delays(
    writer: &mut Writer<'_>,
    [average_us, least_us, greatest_us]: Delays,
    dscp: Option<u8>,
) -> Result<(), Full> {
    writer.group(IeType::QOS_INFORMATION, |writer| {
        writer.put(key::AVERAGE_PACKET_DELAY, &in_ms(average_us))?;
        writer.put(key::MINIMUM_PACKET_DELAY, &in_ms(least_us))?;
        writer.put(key::MAXIMUM_PACKET_DELAY, &in_ms(greatest_us))?;
        let marking = dscp.map(|dscp| TrafficClass {
            value: dscp << 2,
            mask: 0xfc,
        });
        writer.put_some(key::TRANSPORT_LEVEL_MARKING, marking.as_ref())
    })
}

/// What a report says of its path beside delays.
struct About {
    wanted: Wanted,
    instance: Option<Vec<u8>>,
    kind: Option<GtpUPathInterfaceType>,
    /// Whether DSCPs were named.
    is_marked: bool,
}

fn put_report(
    writer: &mut Writer<'_>,
    about: &About,
    news: &News,
    (clock, now_ns): (WallClock, u64),
) -> Result<(), Full> {
    let time = |ns| Time(clock.seconds(ns));
    let ((_, peer), ..) = about.wanted;
    writer.group(IeType::GTP_U_PATH_QOS_REPORT, |writer| {
        let peer = remote_peer(peer, about.instance.as_deref());
        writer.put(key::REMOTE_GTP_U_PEER, &peer)?;
        writer.put_some(key::GTP_U_PATH_INTERFACE_TYPE, about.kind.as_ref())?;
        writer.put(key::QOS_REPORT_TRIGGER, &news.trigger)?;
        writer.put(key::TIME_STAMP, &time(now_ns))?;
        writer.put_some(key::START_TIME, news.since_ns.map(time).as_ref())?;
        let mut all = news.delays.iter();
        all.try_for_each(|(dscp, delays)| {
            put_delays(writer, *delays, about.is_marked.then_some(*dscp))
        })
    })
}

impl Upf {
    /// Goes on with what SMFs wanted of a predecessor.
    pub(crate) fn adopt_path_qos(&mut self) {
        // Shards do not follow paths, and their number may have changed.
        let numbers = 0..ASSOCIATION_COUNT;
        for number in numbers.filter(|_| self.settings.shard.1 == 1) {
            if self.store.association(number).is_some() {
                let controls = self.store.path_controls(number);
                let number = u8::try_from(number).unwrap_or(0);
                self.path_qos.set(number, &controls);
            }
        }
    }

    /// Asks paths that are due, and tells SMFs what there is to tell; gives when to do so again.
    pub(crate) fn check_path_qos(
        &mut self,
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> Option<u64> {
        self.path_qos.look(&self.paths, &self.settings, now_ns);
        for ((end, dscp), sequence) in self.path_qos.due(&mut self.paths, now_ns) {
            self.ask_peer(end, sequence, dscp, signals);
        }
        self.path_qos.wake(now_ns);
        let is_told = self.tell_path_qos(now_ns);
        let again_ns = (!is_told).then_some(now_ns.saturating_add(AGAIN_NS));
        let next_ns = self.path_qos.next_ns(&self.paths);
        [next_ns, again_ns].into_iter().flatten().min()
    }

    /// Tells SMFs what there is to tell; false if there is no room now.
    pub(crate) fn tell_path_qos(&mut self, now_ns: u64) -> bool {
        while let Some((_, association, _)) = self.path_qos.news.first().copied() {
            if !self.transactions.has_room() {
                return false;
            }
            let all = self.path_qos.news.iter();
            let its = all.filter(|(_, one, _)| *one == association);
            let its: Vec<Wanted> = its.take(TOLD_COUNT_MAX).copied().collect();
            self.report_path_qos(association, &its, now_ns);
            for wanted in its {
                self.path_qos.news.remove(&wanted);
                if let Some(monitor) = self.path_qos.monitors.get_mut(&wanted) {
                    monitor.told(now_ns);
                    // Somebody may not have to be asked any more.
                    if !monitor.wants_more() {
                        self.path_qos.looked.1 = 0;
                    }
                }
            }
        }
        true
    }

    fn report_path_qos(&mut self, association: u8, its: &[Wanted], now_ns: u64) {
        let Some(smf) = self.store.association(association.into()).peer() else {
            return;
        };
        let clock = self.clock;
        let reports: Vec<(About, Vec<News>)> = its
            .iter()
            .filter_map(|wanted| {
                let news = self.path_qos.monitors.get(wanted)?.news();
                Some((self.about_path(*wanted), news))
            })
            .collect();
        let (name, address) = (self.settings.node_name.clone(), self.settings.node_address);
        let request = PfcpType::NODE_REPORT_REQUEST;
        let subject = Subject::Path(association);
        let is_sent = self.request(smf, request, None, subject, now_ns, |writer| {
            writer.put(key::NODE_ID, &node_id_of(&name, address))?;
            writer.put(key::NODE_REPORT_TYPE, &NodeReportType::GPQR)?;
            reports.iter().try_for_each(|(about, news)| {
                let mut all = news.iter();
                all.try_for_each(|one| put_report(writer, about, one, (clock, now_ns)))
            })
        });
        self.counters.reports += u64::from(is_sent);
        self.counters.unsent += u64::from(!is_sent);
    }

    fn about_path(&self, wanted: Wanted) -> About {
        let (end, association, at) = wanted;
        let controls = self.path_qos.controls.get(&association);
        let control = controls.and_then(|all| all.as_slice().get(usize::from(at)));
        let interface = self.settings.interfaces.get(usize::from(end.0));
        let instance = interface.and_then(|one| self.instance_name(one.instance));
        About {
            wanted,
            instance: instance.map(<[u8]>::to_vec),
            kind: interface_type(&self.settings, end),
            is_marked: control.is_some_and(|one| !one.markings.as_slice().is_empty()),
        }
    }

    /// For `catena upf peers`: a row for each path and DSCP.
    pub(crate) fn show_path_qos(&self) -> Value {
        let all = self.path_qos.monitors.iter();
        let shown = all.flat_map(|(((place, address), association, _), monitor)| {
            let interface = self.settings.interfaces.get(usize::from(*place));
            let smf = self.store.association(usize::from(*association)).peer();
            monitor.shown().map(move |(dscp, count, average_us)| {
                json!({
                    "address": address, "interface": interface.map(|one| &one.name), "smf": smf,
                    "dscp": dscp, "measured": count, "average_us": average_us,
                })
            })
        });
        shown.collect()
    }
}
