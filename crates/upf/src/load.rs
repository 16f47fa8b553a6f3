//! Load and overload control: how full the UPF is, told to SMFs that want to know.
//!
//! In answers about sessions that come, change and go. The load is the share of sessions in use.
//! From [`OVERLOAD_PERCENT`] of them on there is an overload, by which SMFs are to send so many
//! percent less: none at that share, all at the end of the room; what is told holds for
//! [`VALIDITY_S`], so that it ends by itself. Sequence numbers grow with each change, in time for
//! an overload that lasts, and beyond those of a predecessor: who hears the same number hears
//! nothing new. Specification: TS 29.244 6.2.3, 6.2.4, 7.5.3.3, 7.5.3.4.

use catena_wire::pfcp::value::flags::CpFunctionFeatures;
use catena_wire::pfcp::value::node::Timer;
use catena_wire::pfcp::{Full, IeType, Writer, key};

/// Share of sessions in use above which there is an overload, in percent.
const OVERLOAD_PERCENT: u8 = 90;
/// How long what is told of it holds, in seconds.
const VALIDITY_S: u32 = 60;

/// What an SMF is told in an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    load: Option<Load>,
    overload: Option<Load>,
}

impl Told {
    /// To one with these features, of the load at hand.
    pub(crate) fn of(features: CpFunctionFeatures, load: Load) -> Self {
        let wants = |feature| features.contains(feature).then_some(load);
        let overload = wants(CpFunctionFeatures::OVRL);
        Self {
            load: wants(CpFunctionFeatures::LOAD),
            overload: overload.filter(|load| load.reduction() > 0),
        }
    }

    /// It without the load, which only comings and goings tell.
    pub(crate) const fn of_change(self) -> Self {
        Self { load: None, ..self }
    }

    pub(crate) fn put(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        if let Some(load) = &self.load {
            load.put(writer)?;
        }
        let Some(overload) = &self.overload else {
            return Ok(());
        };
        writer.group(IeType::OVERLOAD_CONTROL_INFORMATION, |writer| {
            writer.put(key::SEQUENCE_NUMBER, &overload.sequence)?;
            writer.put(key::METRIC, &overload.reduction())?;
            writer.put(key::TIMER, &Timer::at_least(VALIDITY_S))
        })
    }
}

/// Load Control Information.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    sequence: u32,
    /// In percent.
    metric: u8,
    /// Since when it has this number, in seconds.
    since_s: u32,
}

impl Load {
    /// Notes that so many of `room` sessions are in use, at an instant in seconds.
    pub(crate) fn note(&mut self, sessions: u32, room: u32, seconds: u32) {
        let percent = u64::from(sessions) * 100 / u64::from(room.max(1));
        let metric = u8::try_from(percent.min(100)).unwrap_or(100);
        let age_s = seconds.saturating_sub(self.since_s);
        let is_to_last = self.reduction() > 0 && age_s >= VALIDITY_S / 2;
        if metric != self.metric || self.sequence == 0 || is_to_last {
            // Time goes on where this does not: in a successor that has no memory of it.
            self.sequence = seconds.max(self.sequence.saturating_add(1));
            self.metric = metric;
            self.since_s = seconds;
        }
    }

    /// How many percent less SMFs are to send.
    fn reduction(&self) -> u8 {
        let above = self.metric.saturating_sub(OVERLOAD_PERCENT);
        above * (100 / (100 - OVERLOAD_PERCENT))
    }

    fn put(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.group(IeType::LOAD_CONTROL_INFORMATION, |writer| {
            writer.put(key::SEQUENCE_NUMBER, &self.sequence)?;
            writer.put(key::METRIC, &self.metric)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_wire::pfcp::View;
    use catena_wire::pfcp::{Header, MessageType};

    /// An SMF hears what it wants to hear, and of an overload only while there is one.
    #[test]
    fn an_overload_is_told_from_ninety_percent_on() {
        let told = |features, sessions| {
            let mut load = Load::default();
            load.note(sessions, 100, 1000);
            let header = Header::new(MessageType::SESSION_DELETION_RESPONSE, Some(1), 1);
            let bytes = crate::node::message(&header, |writer| {
                writer.put(key::CAUSE, &catena_wire::pfcp::Cause::REQUEST_ACCEPTED)?;
                Told::of(features, load).put(writer)
            });
            let bytes = bytes.unwrap();
            let view = View::parse(&bytes[..]).unwrap();
            assert_eq!(view.check(), Ok(()), "{view}");
            let metric = |group| view.ies().group(group)?.get(key::METRIC).unwrap();
            let overload = IeType::OVERLOAD_CONTROL_INFORMATION;
            (metric(IeType::LOAD_CONTROL_INFORMATION), metric(overload))
        };
        let both = CpFunctionFeatures::LOAD | CpFunctionFeatures::OVRL;
        assert_eq!(told(both, 90), (Some(90), None));
        assert_eq!(told(both, 91), (Some(91), Some(10)));
        assert_eq!(told(CpFunctionFeatures::OVRL, 100), (None, Some(100)));
        assert_eq!(told(CpFunctionFeatures::LOAD, 100), (Some(100), None));
        assert_eq!(told(CpFunctionFeatures::NONE, 100), (None, None));
    }

    #[test]
    fn a_metric_that_changes_has_a_new_number_and_a_successor_a_larger_one() {
        let mut load = Load::default();
        load.note(0, 3, 1000);
        assert_eq!((load.metric, load.sequence), (0, 1000));
        load.note(0, 3, 1001);
        assert_eq!(load.sequence, 1000);
        load.note(1, 3, 1001);
        assert_eq!((load.metric, load.sequence), (33, 1001));
        load.note(2, 3, 1001);
        assert_eq!((load.metric, load.sequence), (66, 1002));
        load.note(3, 3, 1002);
        assert_eq!((load.metric, load.sequence), (100, 1003));
        let mut successor = Load::default();
        successor.note(0, 3, 1010);
        assert_eq!((successor.metric, successor.sequence), (0, 1010));
        load.note(9, 0, 1010);
        assert_eq!(load.metric, 100);
    }

    /// What is told ends by itself unless it is told anew, which an SMF knows by its number.
    #[test]
    fn an_overload_that_lasts_is_told_anew_before_it_is_over() {
        let mut load = Load::default();
        let mut told = |sessions, seconds| {
            load.note(sessions, 100, seconds);
            load.sequence
        };
        let half = VALIDITY_S / 2;
        assert_eq!(told(95, 1000), 1000);
        assert_eq!(told(95, 1000 + half - 1), 1000);
        assert_eq!(told(95, 1000 + half), 1000 + half);
        assert_eq!(told(95, 1001 + half), 1000 + half);
        // A load does not end.
        assert_eq!(told(90, 1002 + half), 1002 + half);
        assert_eq!(told(90, 9000), 1002 + half);
    }
}
