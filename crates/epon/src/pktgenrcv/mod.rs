//! `pktgenrcv`: sends chunks into a chain that leads back to it, and judges what comes back.
//!
//! First and last step of a chunk's life, in one port, so that one clock measures both ends:
//!
//! ```text
//!  pktgenrcv ──frames──> epon_phy ──line──> l1sim ──line──> epon_phy ──frames──┐
//!      ^                                                                       │
//!      └───────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A chunk is `chunk` long on the line and holds as many stamped frames as its codewords carry, or,
//! `raw`, octets that mean nothing, for chains without coding. At most `window` chunks are under
//! way. Sustained, the next one goes as soon as one has come back, and its time counts from when it
//! is handed over; at a rate, chunks have due times of their own, and their time counts from then
//! (open loop, no coordinated omission).
//!
//! - `sending`: which chunk goes when, and what is in it.
//! - `arriving`: which chunks and frames are back, and what is wrong with them.
//!
//! A chunk that does not return within `timeout` is lost: whoever held it was killed. The loop goes
//! on.

mod arriving;
mod config;
mod filling;
mod results;
mod sending;

use std::path::PathBuf;
use std::time::Duration;

use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::port::{
    Port, PortError, PortKind, PortNeeds, PortRole, RxBurst, RxState, TxBurst,
};
use catena_measure::traffic::TickRate;
use catena_port::buffer_wait::Buffer;
use catena_shm::tsc;

use crate::custody::{self, Usual};
use arriving::Arriving;
use config::Config;
use sending::{Next, Sending};

/// How long the clock is measured when the port opens.
const CALIBRATION: Duration = Duration::from_millis(20);

/// The chain file's entry.
pub const KIND: PortKind = PortKind {
    name: "pktgenrcv",
    summary: "Sends chunks of frames around a loop and judges what comes back",
    counters: results::COUNTERS,
    drop_reasons: &[],
    needs: PortNeeds::NONE,
    schema: || schemars::schema_for!(Config),
    check: |config| {
        Config::parse(config)?;
        Ok(PortRole::of(true, true))
    },
    open: |config, opening| {
        let config = Config::parse(config).map_err(|errors| {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            PortError(lines.join("; "))
        })?;
        let results = config.results.as_ref();
        let results = results.map(|path| opening.dir.join(path));
        let rate = TickRate::measure(CALIBRATION);
        Ok(Box::new(PktGenRcv::new(&config, rate, results)))
    },
};

/// The port.
#[derive(Debug)]
struct PktGenRcv {
    rate: TickRate,
    sending: Sending,
    arriving: Arriving,
    results: Option<PathBuf>,
    /// A tick of the time-stamp counter, and what the engine's clock showed then.
    anchor: (u64, Nanos),
    /// Whether nothing is sent but for its time not having come.
    is_early: bool,
    /// How late it is then.
    lateness: Usual,
}

impl PktGenRcv {
    fn new(config: &Config, rate: TickRate, results: Option<PathBuf>) -> Self {
        Self {
            rate,
            sending: Sending::new(config, rate),
            arriving: Arriving::new(config, rate),
            results,
            anchor: (0, Nanos(0)),
            is_early: false,
            lateness: Usual::default(),
        }
    }

    /// What may go at tick `ticks`; the time of the engine is the same instant.
    fn send(&mut self, burst: &mut RxBurst<'_>, ticks: u64, now: Nanos) -> RxState {
        self.arriving.give_up(ticks);
        let least = self.rate.ticks(custody::LEAST_NS);
        let was_early = std::mem::take(&mut self.is_early);
        while burst.room() > 0 {
            match self.sending.next(ticks, &self.arriving) {
                Next::Chunk => {}
                Next::At(due) => {
                    self.is_early = true;
                    return RxState::Until(self.engine_time(due, ticks, now));
                }
                Next::Wait => {
                    let Some(due) = self.arriving.next_timeout() else {
                        return RxState::Idle;
                    };
                    return RxState::Until(self.engine_time(due, ticks, now));
                }
                Next::End => return RxState::Finished,
            }
            let Some(mut packet) = burst.try_alloc(self.sending.buffer_len()) else {
                match Buffer::ask(burst, self.sending.buffer_len()) {
                    Buffer::Ready => continue,
                    Buffer::Busy => return RxState::Idle,
                    Buffer::Never => {
                        self.sending.set_too_large();
                        return RxState::Failed;
                    }
                }
            };
            let header = self.sending.fill(&mut packet, ticks);
            // Late although only its time was awaited: this loop was kept from running.
            let stalled = match was_early {
                true => {
                    let late = ticks.saturating_sub(header.due);
                    self.rate.ns(self.lateness.judge(late, least))
                }
                false => 0,
            };
            custody::begin(packet.bytes_mut(), now.0, stalled);
            self.arriving
                .expect(&header, ticks, self.sending.is_measured());
            burst.push(packet);
        }
        RxState::More
    }

    /// When it will be tick `due`, on the engine's clock.
    fn engine_time(&self, due: u64, ticks: u64, now: Nanos) -> Nanos {
        now.plus(self.rate.ns(due.saturating_sub(ticks)))
    }
}

impl Port for PktGenRcv {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        self.anchor = (tsc::ticks(), now);
        self.send(burst, self.anchor.0, now)
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, _now: Nanos) -> usize {
        burst.read(|bytes| {
            // One reading per chunk: what the one before took to be judged is not this one's time.
            let received = tsc::ticks();
            let (ticks, now) = self.anchor;
            let now_ns = self.engine_time(received, ticks, now).0;
            self.arriving.take(bytes, received, now_ns);
        });
        burst.count()
    }

    fn close(&mut self) -> Result<(), PortError> {
        if self.sending.is_too_large() {
            return Err(PortError(format!(
                "a chunk needs a buffer of {} bytes; add a larger size to run.buffers, or write a \
                 smaller chunk",
                self.sending.buffer_len()
            )));
        }
        match &self.results {
            Some(path) => results::write(path, &self.sending, &self.arriving),
            None => Ok(()),
        }
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        // Quantiles cost more than a load: they are told at the end.
        if out.is_live() {
            out.extend(results::counts(&self.sending, &self.arriving));
        } else {
            out.extend(results::report(&self.sending, &self.arriving));
        }
    }
}

#[cfg(test)]
mod limit_tests;
#[cfg(test)]
mod tests;
