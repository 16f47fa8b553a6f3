//! Load control: how full the UPF is, told to SMFs that want to know.
//!
//! In answers about sessions that come and go. The metric is the share of sessions in use; its
//! sequence number grows with each change, and beyond that of a predecessor. Specification: TS
//! 29.244 6.2.3, 7.5.3.3.

use catena_wire::pfcp::{Full, IeType, Writer, key};

/// Load Control Information.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    sequence: u32,
    /// In percent.
    metric: u8,
}

impl Load {
    /// Notes that so many of `room` sessions are in use, at an instant in seconds.
    pub(crate) fn note(&mut self, sessions: u32, room: u32, seconds: u32) {
        let percent = u64::from(sessions) * 100 / u64::from(room.max(1));
        let metric = u8::try_from(percent.min(100)).unwrap_or(100);
        if metric != self.metric || self.sequence == 0 {
            // Time goes on where this does not: in a successor that has no memory of it.
            self.sequence = seconds.max(self.sequence.saturating_add(1));
            self.metric = metric;
        }
    }

    pub(crate) fn put(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.group(IeType::LOAD_CONTROL_INFORMATION, |writer| {
            writer.put(key::SEQUENCE_NUMBER, &self.sequence)?;
            writer.put(key::METRIC, &self.metric)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
