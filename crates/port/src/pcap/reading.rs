//! The reading `pcap` port: records become packets, when they are due and a buffer is free.
//!
//! A record that cannot be received yet is kept in a buffer of the port's own, because the reader's
//! next step would overwrite it. Recorded gaps are kept over laps: the next lap starts one mean gap
//! after the last packet. A recorded time before its predecessor's is due at once. Records without
//! bytes are no packets: they are counted and left out. After a lap of which nothing was received
//! there is no other.

use std::path::Path;

use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::port::{Port, PortError, RxBurst, RxState};

use super::config::{Config, Laps, Pace};
use crate::buffer_wait::Buffer;
use crate::capture::{CaptureReader, MAX_RECORD_LEN};
use crate::opening::failed;
use crate::pacer::Pacer;

#[derive(Debug)]
pub(super) struct Reading {
    reader: CaptureReader,
    clock: Clock,
    /// Laps still to be started; `None` without end.
    laps_left: Option<u64>,
    packets_left: Option<u64>,
    /// The record that waits for its time or a buffer; empty if none does.
    kept: Vec<u8>,
    kept_due: Nanos,
    cut_short: u64,
    /// Records without bytes.
    empty: u64,
    laps: u64,
    /// Whether a packet of this lap was received.
    has_given: bool,
    failure: Option<PortError>,
}

/// Records that are looked at in one turn, at most, whatever comes of them.
const RECORDS_AT_A_TIME: usize = 4096;

#[derive(Debug)]
enum Clock {
    Max,
    Recorded(Recorded),
    Rate(Pacer),
}

/// Recorded times, moved so that the first packet is received at once.
#[derive(Debug, Default)]
struct Recorded {
    /// Engine time that belongs to the recorded time 0.
    offset_ns: Option<i128>,
    first_ns: u64,
    last_ns: u64,
    records: u64,
}

impl Recorded {
    /// When the record of `timestamp_ns`, which is the next, is due.
    fn due(&mut self, timestamp_ns: u64, now: Nanos) -> Nanos {
        let time = i128::from(timestamp_ns);
        let offset = *self.offset_ns.get_or_insert(i128::from(now.0) - time);
        if self.records == 0 {
            self.first_ns = timestamp_ns;
            self.last_ns = timestamp_ns;
        }
        self.records += 1;
        self.last_ns = self.last_ns.max(timestamp_ns);
        Nanos(u64::try_from(time + offset).unwrap_or(0))
    }

    /// Moves the times of the next lap behind this one's.
    fn next_lap(&mut self) {
        let span = self.last_ns.saturating_sub(self.first_ns);
        let mean_gap = span / self.records.saturating_sub(1).max(1);
        if let Some(offset) = &mut self.offset_ns {
            *offset += i128::from(span) + i128::from(mean_gap);
        }
        self.records = 0;
    }
}

impl Clock {
    /// When the next record, of this time and length, is due.
    fn due(&mut self, timestamp_ns: u64, len: usize, now: Nanos) -> Nanos {
        match self {
            Self::Max => now,
            Self::Recorded(recorded) => recorded.due(timestamp_ns, now),
            Self::Rate(pacer) => {
                pacer.begin(now, len);
                let due = pacer.due_at();
                pacer.spend(len);
                due
            }
        }
    }
}

impl Reading {
    pub(super) fn open(config: &Config, path: &Path) -> Result<Self, PortError> {
        let reader = CaptureReader::open(path).map_err(failed)?;
        Ok(Self {
            reader,
            clock: match config.pace.unwrap_or_default() {
                Pace::Max => Clock::Max,
                Pace::Recorded => Clock::Recorded(Recorded::default()),
                Pace::Rate(rate) => Clock::Rate(Pacer::new(rate)),
            },
            laps_left: match config.laps {
                None => Some(0),
                Some(Laps::Count(count)) => Some(count.get() - 1),
                Some(Laps::Word(_)) => None,
            },
            packets_left: config.limit,
            kept: Vec::with_capacity(MAX_RECORD_LEN),
            kept_due: Nanos(0),
            cut_short: 0,
            empty: 0,
            laps: 0,
            has_given: false,
            failure: None,
        })
    }

    /// Starts the next lap, or says why there is none.
    fn next_lap(&mut self) -> Result<(), RxState> {
        self.laps += 1;
        if !std::mem::take(&mut self.has_given) || self.laps_left == Some(0) {
            // Keeps the end an end, should somebody ask again.
            self.packets_left = Some(0);
            return Err(RxState::Finished);
        }
        self.laps_left = self.laps_left.map(|left| left - 1);
        if let Clock::Recorded(recorded) = &mut self.clock {
            recorded.next_lap();
        }
        self.reader.rewind().map_err(|error| {
            self.failure = Some(failed(error));
            RxState::Failed
        })
    }

    /// Notes that one more packet has left the file for good.
    fn finish_packet(&mut self) {
        self.packets_left = self.packets_left.map(|left| left - 1);
    }
}

impl Port for Reading {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        for _ in 0..RECORDS_AT_A_TIME {
            if self.failure.is_some() {
                return RxState::Failed;
            }
            if self.packets_left == Some(0) {
                return RxState::Finished;
            }
            if burst.room() == 0 {
                return RxState::More;
            }
            if self.kept.is_empty() {
                match self.reader.next() {
                    Ok(Some(record)) => {
                        let len = record.data.len();
                        if len == 0 {
                            self.empty += 1;
                            continue;
                        }
                        self.cut_short += u64::from(len < record.original_len as usize);
                        let due = self.clock.due(record.timestamp_ns, len, now);
                        if due <= now && burst.has_buffer(len) {
                            self.has_given |= burst.push_copy(record.data);
                            self.finish_packet();
                            continue;
                        }
                        self.kept.extend_from_slice(record.data);
                        self.kept_due = due;
                    }
                    Ok(None) => match self.next_lap() {
                        Ok(()) => continue,
                        Err(state) => return state,
                    },
                    Err(error) => {
                        self.failure = Some(failed(error));
                        return RxState::Failed;
                    }
                }
            }
            if self.kept_due > now {
                return RxState::Until(self.kept_due);
            }
            match Buffer::ask(burst, self.kept.len()) {
                Buffer::Busy => return RxState::More,
                Buffer::Ready => self.has_given |= burst.push_copy(&self.kept),
                Buffer::Never => {}
            }
            self.kept.clear();
            self.finish_packet();
        }
        RxState::More
    }

    fn close(&mut self) -> Result<(), PortError> {
        self.failure.take().map_or(Ok(()), Err)
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        out.extend([
            ("laps", self.laps),
            ("cut_short", self.cut_short),
            ("empty", self.empty),
        ]);
    }
}
