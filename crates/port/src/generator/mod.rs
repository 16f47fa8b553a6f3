//! `generator`: makes UDP packets at a rate, so that a chain can be tried without a network.
//!
//! First step of a packet's life. Open loop: packets are due by the clock, whatever becomes of the
//! ones before. When the chain has no room, packets are held back: up to 100 us of the rate is made
//! up for, the rest is given up and counted, so that the rate is never exceeded (see `pacer`). The
//! cost per packet is a copy of a template and a few stores.
//!
//! Limits: lengths 60..=9000, [`SIZE_COUNT_MAX`] of them, [`FLOW_COUNT_MAX`] flows. Not supported:
//! TCP, other layers above UDP, distributions of lengths other than a list in turn.

mod config;
mod template;
#[cfg(test)]
mod tests;

use catena_engine::config::parse_config;
use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::port::{Port, PortKind, PortNeeds, PortRole, RxBurst, RxState};

pub use config::{Config, FLOW_COUNT_MAX, SIZE_COUNT_MAX, SIZE_MAX, SIZE_MIN};
pub use template::{MARK, MARK_LEN, numbers_in};

use crate::buffer_wait::Buffer;
use crate::offered::Offered;
use crate::pacer::Pacer;
use template::Template;

/// The chain file's entry.
pub const KIND: PortKind = PortKind {
    name: "generator",
    summary: "Makes numbered UDP packets at a rate",
    counters: &["made", "held_back", "numbered"],
    drop_reasons: &[],
    needs: PortNeeds::NONE,
    schema: || schemars::schema_for!(Config),
    check: |config| {
        parse_config::<Config>(config)?.check()?;
        Ok(PortRole::of(true, false))
    },
    open: |config, _| {
        let config: Config = crate::opening::parse(config)?;
        config.check().map_err(crate::opening::refused)?;
        Ok(Box::new(Generator::new(&config)))
    },
};

/// The port.
#[derive(Debug)]
struct Generator {
    templates: Vec<Template>,
    /// Template of the next packet.
    next: usize,
    pacer: Option<Pacer>,
    left: Option<u64>,
    flow: u32,
    flow_count: u32,
    /// Sequence number of the next packet of `flow`: the number of rounds through all flows.
    sequence: u64,
    made: u64,
}

impl Generator {
    fn new(config: &Config) -> Self {
        let sizes = config.size.as_slice();
        Self {
            templates: sizes
                .iter()
                .map(|&len| Template::new(config, len))
                .collect(),
            next: 0,
            pacer: match config.rate {
                Offered::Max => None,
                Offered::Rate(rate) => Some(Pacer::new(rate)),
            },
            left: config.count,
            flow: 0,
            flow_count: config.flows,
            sequence: 0,
            made: 0,
        }
    }

    /// Goes on to the next packet.
    #[inline]
    fn advance(&mut self, len: usize) {
        if let Some(pacer) = &mut self.pacer {
            pacer.spend(len);
        }
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        self.next += 1;
        if self.next == self.templates.len() {
            self.next = 0;
        }
        self.flow += 1;
        if self.flow == self.flow_count {
            self.flow = 0;
            self.sequence += 1;
        }
    }
}

impl Port for Generator {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        let len = self.templates[self.next].len();
        if let Some(pacer) = &mut self.pacer {
            pacer.begin(now, len);
        }
        loop {
            if self.left == Some(0) {
                return RxState::Finished;
            }
            if let Some(pacer) = &self.pacer
                && !pacer.is_due(now)
            {
                return RxState::Until(pacer.due_at());
            }
            if burst.room() == 0 {
                return RxState::More;
            }
            let len = self.templates[self.next].len();
            match Buffer::ask(burst, len) {
                Buffer::Ready => {}
                Buffer::Busy => return RxState::More,
                Buffer::Never => {
                    self.advance(len);
                    continue;
                }
            }
            let Ok(mut packet) = burst.alloc(len) else {
                return RxState::More;
            };
            self.templates[self.next].write(packet.bytes_mut(), self.flow, self.sequence);
            burst.push(packet);
            self.made += 1;
            self.advance(len);
        }
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        let sum: usize = self.templates.iter().map(Template::len).sum();
        let len = sum / self.templates.len();
        let held_back = self.pacer.map_or(0, |pacer| pacer.missed(len));
        let numbered = self.templates.iter().all(Template::is_numbered);
        out.extend([
            ("made", self.made),
            ("held_back", held_back),
            ("numbered", u64::from(numbered)),
        ]);
    }
}
