//! QoS monitoring: how long packets of a QoS flow take between UPF and UE, told to the SMF.
//!
//! On a packet's way behind its charge (`mark`), and where a tunnel's packet is read
//! (`hear_delays`): few downlink packets of a flow leave with the time at which they do, and the
//! access network says in an uplink packet when it got one and when it answered. What is wanted
//! comes by session reporting rules (SRRs), `request` reads them; `reports` tells what was
//! measured. Specification: TS 29.244 5.24.4, 7.5.2.9, 7.5.8.6; TS 38.415 5.4; TS 23.501 5.33.3.
//!
//! Round trips need one clock only. Delays of one direction trust the access network's clock: where
//! it is so far from the UPF's own that one would be negative, each direction has half of the
//! round trip. What the access network says of its own part (DL and UL Delay Result) is added.
//!
//! Limits: [`MONITORS_MAX`](monitor::MONITORS_MAX) flows of a session; a flow's packet is marked at
//! most each [`MARK_NS`](monitor::MARK_NS), and none while an answer is awaited, which is given up
//! after [`ANSWER_NS`]; a packet that would be too long with its mark leaves without one.

use catena_engine::packet::Packet;

use crate::decision::Found;
use crate::enforce::Ruled;
use crate::forward::Departure;
use crate::model::{Image, Session};
use crate::stored::Fields;
use crate::usage::WallClock;
use monitor::{ANSWER_NS, M, Monitor, MonitorTerms};

pub mod monitor;
mod reports;
mod request;
#[cfg(test)]
mod tests;

pub(crate) use reports::put_released;
pub(crate) use request::{create, remove, update};

/// Marks a packet that leaves, if one of its flow is to be marked.
pub(crate) fn mark(
    image: &mut Image<'_>,
    (packet, found): (&Packet, &Found),
    ruled: &Ruled,
    departure: &mut Departure<'_>,
    (clock, now_ns): (WallClock, u64),
) {
    let Some(qfi) = ruled.marking.0 else { return };
    let waits = |record: &[u8]| {
        let of_flow = M::terms().then(Fields::<MonitorTerms>::qfi()).get(record) == qfi;
        of_flow && M::next_mark_ns().get(record) <= now_ns
    };
    let mut places = 0..image.monitor_count();
    if !places.any(|place| image.record::<Monitor>(place).is_some_and(waits)) {
        return;
    }
    let stamp = clock.ntp(now_ns);
    if !departure.stamp(packet, found, stamp) {
        return;
    }
    for place in 0..image.monitor_count() {
        if let Some(record) = image.record_mut::<Monitor>(place).filter(|one| waits(one)) {
            M::marked().set(record, &Some(stamp));
            M::next_mark_ns().set(record, &(now_ns + ANSWER_NS));
        }
    }
}

/// Moves the instants of a session's monitors to another run of the engine's clock; answers from
/// before are not awaited.
pub(crate) fn shift(session: &mut Session, of: impl Fn(u64) -> u64) {
    for one in &mut session.monitors {
        one.marked = None;
        one.next_mark_ns = 0;
        one.since_ns = of(one.since_ns);
        one.period_at_ns = of(one.period_at_ns);
        one.event_ns = one.event_ns.map(&of);
    }
}
