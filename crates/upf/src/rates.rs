//! Packet Rate Status: what is left of the packet rates of QERs, as SMFs ask for it and hand it on.
//!
//! On N4. A UE's rate goes on where it was when its session comes to another UPF: the SMF asks what
//! is left (a query, or RCSR for what a session leaves behind), and says so where it creates a QER.
//! Specification: TS 29.244 5.4.4, 7.5.2.5, 7.5.4.22, 8.2.139, 8.2.174. Exceptional reports are not
//! told apart from other packets, so nothing is said of them.

use catena_wire::pfcp::value::QerId;
use catena_wire::pfcp::value::node::FailedRuleId;
use catena_wire::pfcp::value::qos::{PacketRateStatus, Remaining};
use catena_wire::pfcp::{Cause, Full, Group, IeType, Refusal, Writer, key};

use crate::model::{Fault, Session};
use crate::rules::{PacketRate, Qer};
use crate::usage::WallClock;

impl PacketRate {
    /// Packets that may still pass, and until when that holds; none without a limit.
    fn left(&self, now_ns: u64) -> Option<(u16, u64)> {
        let packets = self.packets?;
        Some(match now_ns < self.ends_ns {
            true => (packets.saturating_sub(self.passed), self.ends_ns),
            // The unit begins with the next packet.
            false => (packets, now_ns.saturating_add(self.unit_ns())),
        })
    }

    /// As many may still pass, until `ends_ns`: the unit has begun elsewhere, so it ends no later
    /// than one that begins now.
    fn resume(&mut self, left: Remaining, ends_ns: u64, now_ns: u64) {
        self.passed = self.packets.unwrap_or(0).saturating_sub(left.packets);
        self.ends_ns = ends_ns.min(now_ns.saturating_add(self.unit_ns()));
    }
}

/// What is left of a QER's packet rates.
fn status(qer: &Qer, now_ns: u64, clock: WallClock) -> PacketRateStatus {
    let (ul, dl) = (qer.ul_packets.left(now_ns), qer.dl_packets.left(now_ns));
    let remaining = |left: Option<(u16, u64)>| {
        left.map(|(packets, _)| Remaining {
            packets,
            additional: None,
        })
    };
    let ends = [ul, dl].into_iter().flatten().map(|(_, ends_ns)| ends_ns);
    PacketRateStatus {
        ul: remaining(ul),
        dl: remaining(dl),
        validity_time: ends.min().map(|ends_ns| clock.ntp(ends_ns)),
    }
}

/// Until when a status holds; one without a time is over.
fn ends_ns(status: &PacketRateStatus, now_ns: u64, clock: WallClock) -> u64 {
    let stamp = status.validity_time.filter(|stamp| *stamp > 0);
    stamp.map_or(0, |stamp| clock.of_ntp(stamp, now_ns))
}

/// Writes the status of a QER's packet rates as a group of this type.
pub(crate) fn put(
    writer: &mut Writer<'_>,
    group: IeType,
    qer: &Qer,
    now_ns: u64,
    clock: WallClock,
) -> Result<(), Full> {
    writer.group(group, |writer| {
        writer.put(key::QER_ID, &QerId(qer.id))?;
        writer.put(key::PACKET_RATE_STATUS, &status(qer, now_ns, clock))
    })
}

/// Places of the QERs whose status a request asks for.
///
/// # Errors
/// One that is not there.
pub(crate) fn queried(ies: &Group<'_>, session: &Session) -> Result<Vec<usize>, Fault> {
    let mut places = Vec::new();
    for group in ies.groups(IeType::QUERY_PACKET_RATE_STATUS) {
        let id = group.require(key::QER_ID)?;
        let fault = Fault::of_rule(FailedRuleId::Qer(id), IeType::QER_ID);
        let place = session.qers.iter().position(|one| one.id == id.0);
        places.push(place.ok_or(fault)?);
    }
    Ok(places)
}

/// Reads Packet Rate Status of a QER that is created: what its UE has left from elsewhere.
///
/// # Errors
/// It is of exceptional reports, or of a direction without a rate.
pub(crate) fn read_status(
    group: &Group<'_>,
    rule: &mut Qer,
    now_ns: u64,
    clock: WallClock,
) -> Result<(), Refusal> {
    let Some(status) = group.get(key::PACKET_RATE_STATUS)? else {
        return Ok(());
    };
    let both = [status.ul, status.dl];
    if both.iter().flatten().any(|one| one.additional.is_some()) {
        return Err(Cause::SERVICE_NOT_SUPPORTED.because_of(IeType::PACKET_RATE_STATUS));
    }
    let ends_ns = ends_ns(&status, now_ns, clock);
    for (left, rate) in both
        .into_iter()
        .zip([&mut rule.ul_packets, &mut rule.dl_packets])
    {
        let Some(left) = left else { continue };
        if rate.packets.is_none() {
            return Err(Cause::CONDITIONAL_IE_MISSING.because_of(IeType::PACKET_RATE));
        }
        // One that is over says nothing of what follows.
        if ends_ns > now_ns {
            rate.resume(left, ends_ns, now_ns);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: WallClock = WallClock {
        zero_ns: 3_900_000_000_500_000_000,
    };

    #[test]
    fn an_instant_reads_back_from_its_timestamp() {
        for now_ns in [0, 1, 999_999_999, 86_400_000_000_000] {
            let back = CLOCK.of_ntp(CLOCK.ntp(now_ns), now_ns);
            assert!(back.abs_diff(now_ns) <= 1, "{now_ns} {back}");
        }
        assert_eq!(CLOCK.ntp(500_000_000) >> 32, 3_900_000_001);
        assert_eq!(CLOCK.ntp(0) as u32, 1 << 31);
    }

    /// Whatever a peer writes: nothing is spent for longer than a unit.
    #[test]
    fn a_unit_from_elsewhere_ends_no_later_than_one_that_begins_now() {
        const S: u64 = 1_000_000_000;
        for (stamp, wanted) in [
            (Some(CLOCK.ntp(40 * S)), 40 * S),
            (Some(CLOCK.ntp(71 * S)), 70 * S),
            (Some(CLOCK.ntp(10_000_000 * S)), 70 * S),
            // The year 2036.
            (Some(1), 70 * S),
            (Some(0), 0),
            (None, 0),
        ] {
            let status = PacketRateStatus {
                validity_time: stamp,
                ..PacketRateStatus::default()
            };
            let mut rate = PacketRate {
                packets: Some(5),
                ..PacketRate::NONE
            };
            let none_left = Remaining {
                packets: 0,
                additional: None,
            };
            rate.resume(none_left, ends_ns(&status, 10 * S, CLOCK), 10 * S);
            assert!(
                rate.ends_ns.abs_diff(wanted) <= 1,
                "{stamp:?}: {}",
                rate.ends_ns
            );
            assert!(rate.ends_ns <= 10 * S || rate.left(11 * S).map(|left| left.0) == Some(0));
        }
    }

    #[test]
    fn a_rate_goes_on_where_it_was_elsewhere() {
        let of = |packets| PacketRate {
            packets: Some(packets),
            ..PacketRate::NONE
        };
        let mut qer = Qer::open(1);
        qer.ul_packets = of(10);
        let left = status(&qer, 5, CLOCK);
        assert_eq!(left.ul.map(|one| one.packets), Some(10));
        assert_eq!(left.dl, None);
        let minute = CLOCK.of_ntp(left.validity_time.unwrap(), 5);
        assert!(minute.abs_diff(60_000_000_005) <= 1, "{minute}");
        let some = Remaining {
            packets: 3,
            additional: None,
        };
        qer.ul_packets.resume(some, 1_000_000_000, 5);
        assert_eq!(qer.ul_packets.left(5), Some((3, 1_000_000_000)));
        assert_eq!(
            qer.ul_packets.left(2_000_000_000),
            Some((10, 62_000_000_000))
        );
    }
}
