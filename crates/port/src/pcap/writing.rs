//! The writing `pcap` port: packets become records of the time at which they were sent.
//!
//! Records gather in the writer and go to the file in large pieces, and at the latest
//! [`FLUSH_AFTER_NS`] after they were sent if traffic goes on. What gathers when the disk fills up
//! is lost after it was counted as sent; the error at the end says how many records the file holds.
//! The successor of a port goes on in the file; what had gathered when a worker was killed is lost
//! after it was counted as sent, 64 KiB or a second's packets at most.

use std::path::Path;

use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::port::{Opening, Port, PortError, RxBurst, RxState, TxBurst};

use super::config::Config;
use crate::capture::{CaptureWriter, Resumption};
use crate::opening::{begin, check_free, failed};
use crate::wall_clock::WallClock;

/// So long a record may stay in memory while traffic goes on: what a person who looks at the
/// growing file will wait.
const FLUSH_AFTER_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Writing {
    writer: Option<CaptureWriter>,
    /// The file of a predecessor, until the first packet: that one has it until then.
    resumed: Option<Resumption>,
    wall_clock: WallClock,
    snap_len: usize,
    flushed_at: Nanos,
    /// Records in the file once it is closed.
    in_file: u64,
    refused: u64,
    failure: Option<PortError>,
}

impl Writing {
    /// Writes to `path`, by which the configuration's `named` is meant; in a file that a
    /// predecessor wrote, behind what is there.
    pub(super) fn open(
        config: &Config,
        (path, named): (&Path, &Path),
        opening: &Opening<'_>,
    ) -> Result<Self, PortError> {
        let format = config.format(path);
        let snap_len = config.snaplen.map_or(usize::MAX, |len| len as usize);
        let mut port = Self::begin(snap_len, WallClock::read());
        if opening.goes_on_in(named) {
            check_free(opening, path)?;
            port.resumed = Some(Resumption::look(path, format).map_err(failed)?);
        } else {
            port.writer = Some(begin(opening, path, format)?);
        }
        Ok(port)
    }

    #[cfg(test)]
    pub(super) fn new(writer: CaptureWriter, snap_len: usize, wall_clock: WallClock) -> Self {
        let mut port = Self::begin(snap_len, wall_clock);
        port.writer = Some(writer);
        port
    }

    fn begin(snap_len: usize, wall_clock: WallClock) -> Self {
        Self {
            writer: None,
            resumed: None,
            wall_clock,
            snap_len,
            flushed_at: Nanos(0),
            in_file: 0,
            refused: 0,
            failure: None,
        }
    }
}

impl Port for Writing {
    fn rx(&mut self, _burst: &mut RxBurst<'_>, _now: Nanos) -> RxState {
        RxState::Finished
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, now: Nanos) -> usize {
        if let Some(resumed) = self.resumed.take() {
            match resumed.take_up() {
                Ok(writer) => self.writer = Some(writer),
                Err(error) => self.failure = Some(failed(error)),
            }
        }
        let timestamp_ns = self.wall_clock.at(now);
        let mut sent = 0;
        burst.read(|bytes| {
            let Some(writer) = self.writer.as_mut().filter(|writer| !writer.is_closed()) else {
                return;
            };
            let written = &bytes[..bytes.len().min(self.snap_len)];
            // Fits: a pool, and so a packet, is below 4 GiB.
            match writer.write(timestamp_ns, written, bytes.len() as u32) {
                Ok(()) => sent += 1,
                Err(error) => {
                    self.failure.get_or_insert_with(|| failed(error));
                }
            }
        });
        if now.since(self.flushed_at) >= FLUSH_AFTER_NS {
            self.flushed_at = now;
            if let Some(writer) = self.writer.as_mut().filter(|writer| !writer.is_closed())
                && let Err(error) = writer.flush()
            {
                self.failure.get_or_insert_with(|| failed(error));
            }
        }
        self.refused += (burst.count() - sent) as u64;
        sent
    }

    fn close(&mut self) -> Result<(), PortError> {
        if let Some(Err(error)) = self.resumed.take().map(Resumption::close) {
            self.failure.get_or_insert_with(|| failed(error));
        }
        let finished = match self.writer.take().map(CaptureWriter::finish) {
            Some(Ok(summary)) => {
                self.in_file = summary.record_count;
                Ok(())
            }
            Some(Err(error)) => {
                self.in_file = error.record_count();
                Err(failed(error))
            }
            None => Ok(()),
        };
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => finished,
        }
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        let open = self.writer.as_ref();
        let written = open.map_or(self.in_file, CaptureWriter::written_record_count);
        out.extend([("in_file", written), ("refused", self.refused)]);
    }
}
