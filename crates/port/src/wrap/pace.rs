//! `pace`: limits the rate of a port.
//!
//! Receiving, packets stay in the port inside until they are due: in a file they wait, from a
//! network they queue in the kernel, which drops what it has no room for. Sending, packets wait in
//! their link, and the back-pressure reaches the entry of the chain. The schedule is that of
//! `pacer`: kept on average, with at most 100 us made up for.
//!
//! By bits, the number of packets is judged by the longest of the last burst. What came too early
//! by that is made good: the next packet waits as long.

use std::os::fd::BorrowedFd;

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::packet::Packet;
use catena_engine::port::{Buffers, Port, PortError, RxBurst, RxState, TxBurst, WrapKind};
use catena_engine::units::Rate;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::opening::{parse, refused};
use crate::pacer::Pacer;

/// Length that the first packets are thought to have.
const LEN_AT_FIRST: usize = 1514;

/// How fast.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Most packets (`10kpps`) or bits (`1Gbps`) received per second; no limit without it.
    rx: Option<Rate>,
    /// Most packets or bits sent per second; no limit without it.
    tx: Option<Rate>,
}

impl Config {
    fn check(&self) -> Result<(), ConfigErrors> {
        if self.rx.is_none() && self.tx.is_none() {
            let repair = "give rx, tx or both";
            return Err(vec![ConfigError::new("", "no rate is limited", repair)]);
        }
        Ok(())
    }
}

/// The chain file's entry.
pub const KIND: WrapKind = WrapKind {
    name: "pace",
    summary: "Limits the rate at which packets are received and sent",
    counters: &["rx_paced"],
    schema: || schemars::schema_for!(Config),
    takes_singly: true,
    check: |config| parse_config::<Config>(config)?.check(),
    wrap: |config, _opening, inner| {
        let config: Config = parse(config)?;
        config.check().map_err(refused)?;
        Ok(Box::new(Pace {
            inner,
            rx: config.rx.map(Pacer::new),
            tx: config.tx.map(Pacer::new),
            rx_len: LEN_AT_FIRST,
            tx_len: LEN_AT_FIRST,
            rx_waits: 0,
        }))
    },
};

/// The wrapper.
struct Pace {
    inner: Box<dyn Port>,
    rx: Option<Pacer>,
    tx: Option<Pacer>,
    /// The longest packet of the last burst received.
    rx_len: usize,
    /// The longest packet of the last burst sent.
    tx_len: usize,
    rx_waits: u64,
}

impl Port for Pace {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        let Some(pacer) = &mut self.rx else {
            return self.inner.rx(burst, now);
        };
        pacer.begin(now, self.rx_len);
        let room = pacer.room(now, self.rx_len);
        if room == 0 {
            self.rx_waits += 1;
            return RxState::Until(pacer.due_at());
        }
        let before = burst.packets_mut().len();
        let state = self.inner.rx(&mut burst.narrowed(room), now);
        let received = &burst.packets_mut()[before..];
        if let Some(longest) = received.iter().map(Packet::len).max() {
            self.rx_len = longest;
        }
        for packet in received {
            pacer.spend(packet.len());
        }
        match state {
            RxState::More if !pacer.is_due(now) => RxState::Until(pacer.due_at()),
            RxState::Until(time) => RxState::Until(time.max(pacer.due_at())),
            state => state,
        }
    }

    fn blocked(&mut self, now: Nanos) {
        self.inner.blocked(now);
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, now: Nanos) -> usize {
        let packets = burst.packets();
        let sent = self.inner.tx(&mut TxBurst::of(packets), now);
        let sent = sent.min(packets.len());
        if let Some(pacer) = &mut self.tx
            && sent > 0
        {
            pacer.begin(now, self.tx_len);
            self.tx_len = 0;
            for packet in &packets[..sent] {
                pacer.spend(packet.len());
                self.tx_len = self.tx_len.max(packet.len());
            }
        }
        sent
    }

    fn reap(&mut self, buffers: &mut Buffers<'_>, now: Nanos) {
        self.inner.reap(buffers, now);
    }

    fn tx_room(&mut self, now: Nanos) -> usize {
        let inner = self.inner.tx_room(now);
        match &mut self.tx {
            None => inner,
            Some(pacer) => {
                pacer.begin(now, self.tx_len);
                inner.min(pacer.room(now, self.tx_len))
            }
        }
    }

    fn tx_room_at(&self) -> Option<Nanos> {
        let own = self.tx.as_ref().map(Pacer::due_at);
        own.max(self.inner.tx_room_at())
    }

    fn holds_packets(&self) -> bool {
        self.inner.holds_packets()
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.poll_fd()
    }

    fn close(&mut self) -> Result<(), PortError> {
        self.inner.close()
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        self.inner.counters(out);
        out.put("rx_paced", self.rx_waits);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::port_bench::PortBench;
    use crate::scripted_port::ScriptedPort;

    fn wrapped(config: &serde_json::Value, inner: ScriptedPort) -> PortBench {
        PortBench::wrap(&KIND, config, Path::new("."), Box::new(inner)).unwrap()
    }

    #[test]
    fn received_packets_wait_in_the_port_inside() {
        for rate in ["100kpps", "48Mbps"] {
            let inner = ScriptedPort::new((0..50).map(|_| (0, vec![0; 60])));
            let mut bench = wrapped(&json!({ "rx": rate }), inner);
            let (packets, state) = bench.rx_all(1);
            assert_eq!((packets.len(), state), (50, RxState::Finished));
            for (index, (time, _)) in packets.iter().enumerate() {
                assert_eq!(time.0, index as u64 * 10_000, "{rate}");
            }
        }
    }

    #[test]
    fn no_burst_comes_early() {
        for rate in ["100kpps", "48Mbps"] {
            let inner = ScriptedPort::new((0..256).map(|_| (0, vec![0; 60])));
            let mut bench = wrapped(&json!({ "rx": rate }), inner);
            let (packets, _) = bench.rx_all(64);
            assert_eq!(packets.len(), 256);
            for (index, (time, _)) in packets.iter().enumerate() {
                assert_eq!(time.0, index as u64 * 10_000, "{rate}");
            }
        }
    }

    #[test]
    fn long_packets_that_came_early_by_bits_are_made_good() {
        let lens = [60, 1500, 1500, 1500].into_iter().cycle().take(400);
        let inner = ScriptedPort::new(lens.map(|len| (0, vec![0; len])));
        let mut bench = wrapped(&json!({ "rx": "100Mbps" }), inner);
        let (packets, _) = bench.rx_all(64);
        let bits: usize = packets.iter().map(|(_, frame)| frame.len() * 8).sum();
        let (end, _) = packets.last().unwrap();
        let expected = u64::try_from(bits).unwrap() * 10;
        assert!(end.0.abs_diff(expected) < 300_000, "{bits} bits in {end:?}");
    }

    #[test]
    fn packets_to_send_are_let_in_when_they_are_due() {
        let mut bench = wrapped(&json!({ "tx": "100kpps" }), ScriptedPort::new([]));
        assert_eq!(bench.port().tx_room(Nanos(0)), 1);
        assert_eq!(bench.tx(&[[0; 60]]), 1);
        assert_eq!(bench.port().tx_room(Nanos(0)), 0);
        assert_eq!(bench.port().tx_room_at(), Some(Nanos(10_000)));
        assert_eq!(bench.port().tx_room(Nanos(9_999)), 0);
        assert_eq!(bench.port().tx_room(Nanos(30_000)), 3);
        // A long pause is not saved up.
        assert_eq!(bench.port().tx_room(Nanos(5_000_000)), 11);
    }

    #[test]
    fn a_bit_rate_is_kept_whatever_the_lengths() {
        let inner = ScriptedPort::new([]);
        let heard = inner.heard();
        let mut bench = wrapped(&json!({ "tx": "100Mbps" }), inner);
        let mut bits = 0;
        let mut lens = [60, 1514, 60, 60, 1514, 700].into_iter().cycle();
        while bench.now < Nanos(100_000_000) {
            let now = bench.now;
            let room = bench.port().tx_room(now).min(64);
            if room == 0 {
                bench.now = bench.port().tx_room_at().unwrap();
                continue;
            }
            let frames: Vec<_> = lens.by_ref().take(room).map(|len| vec![0; len]).collect();
            bits += frames.iter().map(|frame| frame.len() * 8).sum::<usize>();
            assert_eq!(bench.tx(&frames), room);
        }
        let expected = 10_000_000;
        assert!(
            bits.abs_diff(expected) < 12_112 * 2,
            "{bits} bits in 100 ms"
        );
        assert!(!heard.lock().unwrap().sent.is_empty());
    }

    #[test]
    fn no_rate_at_all_is_refused() {
        assert!((KIND.check)(&json!({})).is_err());
        let errors = (KIND.check)(&json!({ "rx": "10" })).unwrap_err();
        assert_eq!(errors[0].path, "rx");
    }
}
