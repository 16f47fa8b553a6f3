//! `trace`: one line of text for each of the first packets that pass a port.
//!
//! ```text
//! 1234.000001500 rx 74 10.0.0.1 > 10.0.0.2 udp 5353 > 53
//! ```
//!
//! The time of the engine in seconds, the direction, the length in bytes without FCS, and what the
//! headers say. Lines are formatted on the data path, so their number is bounded; after the last
//! one the wrapper costs nothing. A failing file ends the trace, never the port.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use catena_engine::config::parse_config;
use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::packet::Packet;
use catena_engine::port::{Buffers, Opening, Port, PortError, RxBurst, RxState, TxBurst, WrapKind};
use catena_wire::dissect::Dissected;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Directions;
use crate::capture::Direction;
use crate::opening::{parse, resolve};

/// Bytes of text put together before they are written; a burst of lines fits.
const TEXT_CAPACITY: usize = 64 << 10;

/// What to trace, and where to.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The file that lines go to, replaced if there is one; the standard error without it.
    file: Option<PathBuf>,
    /// How many packets to show.
    #[serde(default = "one_hundred")]
    count: u64,
    /// Which packets: `rx`, `tx` or `both`.
    #[serde(default)]
    direction: Directions,
}

fn one_hundred() -> u64 {
    100
}

/// The chain file's entry.
pub const KIND: WrapKind = WrapKind {
    name: "trace",
    summary: "Shows the first packets that pass, a line each",
    counters: &["traced"],
    schema: || schemars::schema_for!(Config),
    takes_singly: false,
    check: |config| parse_config::<Config>(config).map(drop),
    wrap: |config, opening, inner| {
        let config: Config = parse(config)?;
        let to: Box<dyn Write + Send> = match &config.file {
            None => Box::new(io::stderr()),
            Some(file) => {
                let path = resolve(opening.dir, file);
                let goes_on = opening.goes_on_in(file);
                let created = match goes_on {
                    true => go_on(opening, &path),
                    false => opening.create(&path),
                };
                let created = created.map_err(|error| {
                    PortError(format!("{}: cannot be created: {error}", path.display()))
                })?;
                Box::new(created)
            }
        };
        Ok(Box::new(Trace::new(&config, to, inner)))
    },
};

fn go_on(opening: &Opening<'_>, path: &Path) -> io::Result<File> {
    let file = File::options().append(true).create(true).open(path)?;
    opening.check_free(&file.metadata()?)?;
    Ok(file)
}

/// The wrapper.
struct Trace {
    inner: Box<dyn Port>,
    to: Box<dyn Write + Send>,
    text: String,
    left: u64,
    shown: u64,
    directions: Directions,
    failure: Option<PortError>,
}

impl Trace {
    fn new(config: &Config, to: Box<dyn Write + Send>, inner: Box<dyn Port>) -> Self {
        Self {
            inner,
            to,
            text: String::with_capacity(TEXT_CAPACITY),
            left: config.count,
            shown: 0,
            directions: config.direction,
            failure: None,
        }
    }

    fn see(&mut self, packets: &[Packet], direction: Direction, now: Nanos) {
        if self.left == 0 || packets.is_empty() || !self.directions.has(direction) {
            return;
        }
        self.text.clear();
        for packet in packets {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            self.shown += 1;
            put_line(&mut self.text, packet.bytes(), direction, now);
        }
        if let Err(error) = self.to.write_all(self.text.as_bytes()) {
            self.left = 0;
            self.failure = Some(PortError(format!("the trace ended: {error}")));
        }
    }
}

fn put_line(text: &mut String, bytes: &[u8], direction: Direction, now: Nanos) {
    let word = match direction {
        Direction::Received => "rx",
        Direction::Sent => "tx",
    };
    let (seconds, fraction) = (now.0 / 1_000_000_000, now.0 % 1_000_000_000);
    let len = bytes.len();
    let written = match Dissected::parse(bytes) {
        Ok(found) => writeln!(text, "{seconds}.{fraction:09} {word} {len} {found}"),
        Err(error) => writeln!(
            text,
            "{seconds}.{fraction:09} {word} {len} malformed: {error}"
        ),
    };
    debug_assert!(written.is_ok(), "a string takes any text");
}

impl Port for Trace {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        let before = burst.packets_mut().len();
        let state = self.inner.rx(burst, now);
        self.see(&burst.packets_mut()[before..], Direction::Received, now);
        state
    }

    fn blocked(&mut self, now: Nanos) {
        self.inner.blocked(now);
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, now: Nanos) -> usize {
        let packets = burst.packets();
        let sent = self.inner.tx(&mut TxBurst::of(packets), now);
        let sent = sent.min(packets.len());
        self.see(&packets[..sent], Direction::Sent, now);
        sent
    }

    fn reap(&mut self, buffers: &mut Buffers<'_>, now: Nanos) {
        self.inner.reap(buffers, now);
    }

    fn tx_room(&mut self, now: Nanos) -> usize {
        self.inner.tx_room(now)
    }

    fn tx_room_at(&self) -> Option<Nanos> {
        self.inner.tx_room_at()
    }

    fn holds_packets(&self) -> bool {
        self.inner.holds_packets()
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.poll_fd()
    }

    fn close(&mut self) -> Result<(), PortError> {
        let flushed = self
            .to
            .flush()
            .map_err(|error| PortError(format!("the trace ended: {error}")));
        let inner = self.inner.close();
        inner.and(self.failure.take().map_or(flushed, Err))
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        self.inner.counters(out);
        out.put("traced", self.shown);
    }
}

#[cfg(test)]
mod tests {
    use catena_engine::port::Opening;
    use serde_json::json;

    use super::*;
    use crate::generator;
    use crate::port_bench::PortBench;
    use crate::scripted_port::ScriptedPort;

    #[test]
    fn first_packets_are_shown_and_the_rest_passes() {
        let dir = tempfile::tempdir().unwrap();
        let config = json!({ "count": 9, "vlan": 7, "protocol": "udp6", "size": 100 });
        let generator = (generator::KIND.open)(&config, &Opening::alone(dir.path())).unwrap();
        let config = json!({ "file": "trace.txt", "count": 3 });
        let mut bench = PortBench::wrap(&KIND, &config, dir.path(), generator).unwrap();
        bench.now = Nanos(1_000_000_020);
        assert_eq!(bench.rx(2).packets.len(), 2);
        assert_eq!(bench.rx(64).packets.len(), 7);
        assert_eq!((bench.counter("traced"), bench.counter("made")), (3, 9));
        assert_eq!(bench.close(), Ok(()));
        let text = std::fs::read_to_string(dir.path().join("trace.txt")).unwrap();
        let line = "1.000000020 rx 100 vlan 7 2001:2::1 > 2001:2:0:8000::1 udp 49152 > 9\n";
        assert_eq!(text, line.repeat(3));
    }

    #[test]
    fn sent_packets_and_malformed_ones_have_their_line() {
        let dir = tempfile::tempdir().unwrap();
        let config = json!({ "file": "t", "direction": "tx" });
        let inner = ScriptedPort::new([(0, vec![0; 60])]);
        let mut bench = PortBench::wrap(&KIND, &config, dir.path(), Box::new(inner)).unwrap();
        bench.rx(1);
        assert_eq!(bench.tx(&[vec![0; 5], vec![0x88; 60]]), 2);
        let text = std::fs::read_to_string(dir.path().join("t")).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].starts_with("0.000000000 tx 5 malformed: "),
            "{text}"
        );
        assert!(lines[1].starts_with("0.000000000 tx 60 "), "{text}");
    }

    #[derive(Debug)]
    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_failing_file_ends_the_trace_and_not_the_port() {
        let config: Config = serde_json::from_value(json!({})).unwrap();
        let inner = ScriptedPort::new([]);
        let heard = inner.heard();
        let mut bench = PortBench::new(Box::new(Trace::new(
            &config,
            Box::new(Broken),
            Box::new(inner),
        )));
        for _ in 0..3 {
            assert_eq!(bench.tx(&[[0; 60]]), 1);
        }
        assert_eq!(heard.lock().unwrap().sent.len(), 3);
        assert_eq!(bench.counter("traced"), 1);
        assert!(bench.close().unwrap_err().0.contains("trace ended"));
    }
}
