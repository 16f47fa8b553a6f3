//! `capture`: writes every packet that passes a port to a pcapng file, with its direction.
//!
//! A sent packet is captured when the port inside has taken it. The file is bounded; when it is
//! full, or the disk fails, the port works on and packets are counted as not captured. The error of
//! the disk is told when the port closes, unless the port itself has one. The successor of a port
//! goes on in the file, within what is left of its limits.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::packet::Packet;
use catena_engine::port::{Buffers, Port, PortError, RxBurst, RxState, TxBurst, WrapKind};
use catena_engine::units::ByteSize;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Directions;
use crate::capture::{CaptureFormat, CaptureSummary, CaptureWriter, Direction, Resumption};
use crate::opening::{begin, check_free, failed, parse, refused, resolve};
use crate::wall_clock::WallClock;

/// Bytes of a record beside its data: header, padding, direction, end.
const RECORD_OVERHEAD: u64 = 52;
/// So long a record may stay in memory while traffic goes on.
const FLUSH_AFTER_NS: u64 = 1_000_000_000;

/// What to capture, and where to.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The pcapng file; one from before the chain was started is replaced.
    file: PathBuf,
    /// Which packets: `rx`, `tx` or `both`.
    #[serde(default)]
    direction: Directions,
    /// Most bytes captured of a packet; all without it.
    snaplen: Option<u32>,
    /// Most packets captured; without end without it.
    limit: Option<u64>,
    /// Most bytes of the file.
    #[serde(default = "one_gibibyte")]
    size_limit: ByteSize,
}

fn one_gibibyte() -> ByteSize {
    ByteSize { bytes: 1 << 30 }
}

impl Config {
    fn check(&self) -> Result<(), ConfigErrors> {
        if self.snaplen == Some(0) {
            let message = "nothing would be captured";
            return Err(vec![ConfigError::new("snaplen", message, "give 1 or more")]);
        }
        Ok(())
    }
}

/// The chain file's entry.
pub const KIND: WrapKind = WrapKind {
    name: "capture",
    summary: "Writes the packets that pass to a pcapng file",
    counters: &["captured", "not_captured"],
    schema: || schemars::schema_for!(Config),
    takes_singly: false,
    check: |config| parse_config::<Config>(config)?.check(),
    wrap: |config, opening, inner| {
        let config: Config = parse(config)?;
        config.check().map_err(refused)?;
        let path = resolve(opening.dir, &config.file);
        let mut capture = Capture::new(&config, inner);
        if opening.goes_on_in(&config.file) {
            check_free(opening, &path)?;
            let resumed = Resumption::look(path, CaptureFormat::PcapNg).map_err(failed)?;
            capture.resumed = Some(resumed);
        } else {
            capture.writer = Some(begin(opening, &path, CaptureFormat::PcapNg)?);
        }
        Ok(Box::new(capture))
    },
};

/// The wrapper.
struct Capture {
    inner: Box<dyn Port>,
    writer: Option<CaptureWriter>,
    /// The file of a predecessor, until the first packet: that one has it until then.
    resumed: Option<Resumption>,
    directions: Directions,
    wall_clock: WallClock,
    snap_len: usize,
    packets_left: u64,
    bytes_left: u64,
    flushed_at: Nanos,
    captured: u64,
    not_captured: u64,
    failure: Option<PortError>,
}

impl Capture {
    fn new(config: &Config, inner: Box<dyn Port>) -> Self {
        Self {
            inner,
            writer: None,
            resumed: None,
            directions: config.direction,
            wall_clock: WallClock::read(),
            snap_len: config.snaplen.map_or(usize::MAX, |len| len as usize),
            packets_left: config.limit.unwrap_or(u64::MAX),
            bytes_left: config.size_limit.bytes,
            flushed_at: Nanos(0),
            captured: 0,
            not_captured: 0,
            failure: None,
        }
    }

    /// What a file holds already is within its limits.
    fn count_in(&mut self, found: CaptureSummary) {
        self.packets_left = self.packets_left.saturating_sub(found.record_count);
        self.bytes_left = self.bytes_left.saturating_sub(found.file_len);
    }

    fn take_up(&mut self) {
        if let Some(resumed) = self.resumed.take() {
            match resumed.take_up() {
                Ok(writer) => {
                    self.count_in(writer.held_before());
                    self.writer = Some(writer);
                }
                Err(error) => self.failure = Some(failed(error)),
            }
        }
    }

    fn see(&mut self, packets: &[Packet], direction: Direction, now: Nanos) {
        if packets.is_empty() || !self.directions.has(direction) {
            return;
        }
        self.take_up();
        let timestamp_ns = self.wall_clock.at(now);
        for packet in packets {
            if self.write(packet.bytes(), timestamp_ns, direction) {
                self.captured += 1;
            } else {
                self.not_captured += 1;
            }
        }
        if now.since(self.flushed_at) >= FLUSH_AFTER_NS {
            self.flushed_at = now;
            if let Some(writer) = self.writer.as_mut().filter(|writer| !writer.is_closed())
                && let Err(error) = writer.flush()
            {
                self.failure = Some(failed(error));
            }
        }
    }

    fn write(&mut self, bytes: &[u8], timestamp_ns: u64, direction: Direction) -> bool {
        let Some(writer) = self.writer.as_mut().filter(|writer| !writer.is_closed()) else {
            return false;
        };
        let written = &bytes[..bytes.len().min(self.snap_len)];
        let cost = written.len() as u64 + RECORD_OVERHEAD;
        if self.packets_left == 0 || self.bytes_left < cost {
            return false;
        }
        // Fits: a pool, and so a packet, is below 4 GiB.
        let len = bytes.len() as u32;
        match writer.write_directed(timestamp_ns, written, len, Some(direction)) {
            Ok(()) => {
                self.packets_left -= 1;
                self.bytes_left -= cost;
                true
            }
            Err(error) => {
                self.failure.get_or_insert_with(|| failed(error));
                false
            }
        }
    }
}

impl Port for Capture {
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
        let inner = self.inner.close();
        if let Some(Err(error)) = self.resumed.take().map(Resumption::close) {
            self.failure.get_or_insert_with(|| failed(error));
        }
        let finished = match self.writer.take() {
            Some(writer) => writer.finish().map(drop).map_err(failed),
            None => Ok(()),
        };
        inner.and(self.failure.take().map_or(finished, Err))
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        self.inner.counters(out);
        out.put("captured", self.captured);
        out.put("not_captured", self.not_captured);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use catena_engine::port::Opening;
    use serde_json::json;

    use super::*;
    use crate::capture::CaptureReader;
    use crate::port_bench::PortBench;
    use crate::scripted_port::ScriptedPort;
    use crate::small_disk::SmallDisk;

    fn wrapped(dir: &Path, config: &serde_json::Value, inner: ScriptedPort) -> PortBench {
        PortBench::wrap(&KIND, config, dir, Box::new(inner)).unwrap()
    }

    fn lens(path: &Path) -> Vec<usize> {
        let mut reader = CaptureReader::open(path).unwrap();
        let mut lens = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            lens.push(record.original_len as usize);
        }
        lens
    }

    #[test]
    fn packets_of_the_chosen_direction_are_captured() {
        for (direction, expected) in [
            ("both", vec![60, 61, 70, 71]),
            ("rx", vec![60, 61]),
            ("tx", vec![70, 71]),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let mut inner = ScriptedPort::new([(0, vec![1; 60]), (0, vec![2; 61])]);
            inner.takes = Some(2);
            let config = json!({ "file": "c.pcapng", "direction": direction, "snaplen": 20 });
            let mut bench = wrapped(dir.path(), &config, inner);
            assert_eq!(bench.rx(64).packets.len(), 2);
            let frames = [vec![3; 70], vec![4; 71], vec![5; 72]];
            assert_eq!(bench.tx(&frames), 2, "the third was not sent");
            assert_eq!(bench.close(), Ok(()));
            assert_eq!(lens(&dir.path().join("c.pcapng")), expected);
            assert_eq!(bench.counter("captured"), expected.len() as u64);
            assert_eq!(bench.counter("scripted"), 1);
        }
    }

    #[test]
    fn the_file_is_bounded_and_the_port_works_on() {
        for (limits, expected) in [
            (json!({ "limit": 3 }), 3),
            (json!({ "size_limit": 560 }), 5),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let inner = ScriptedPort::new([]);
            let heard = inner.heard();
            let mut config = limits;
            config["file"] = json!("c.pcapng");
            let mut bench = wrapped(dir.path(), &config, inner);
            assert_eq!(bench.tx(&vec![vec![0; 60]; 10]), 10);
            assert_eq!(bench.close(), Ok(()));
            assert_eq!(lens(&dir.path().join("c.pcapng")).len(), expected);
            assert_eq!(bench.counter("not_captured"), 10 - expected as u64);
            assert_eq!(heard.lock().unwrap().sent.len(), 10);
        }
    }

    /// One that goes on where another has written.
    fn going_on(dir: &Path, config: &serde_json::Value) -> PortBench {
        let goes_on = ["c.pcapng".to_owned()];
        let opening = Opening {
            goes_on: &goes_on,
            ..Opening::alone(dir)
        };
        let inner = Box::new(ScriptedPort::new([]));
        PortBench::new((KIND.wrap)(config, &opening, inner).unwrap())
    }

    /// The one before writes on until its successor is given a packet.
    #[test]
    fn what_was_written_last_by_the_one_before_is_within_the_limits_too() {
        let dir = tempfile::tempdir().unwrap();
        let frames = |count| vec![vec![0; 60]; count];
        let config = json!({ "file": "c.pcapng", "limit": 7 });
        let mut old = wrapped(dir.path(), &config, ScriptedPort::new([]));
        old.tx(&frames(2));
        let mut new = going_on(dir.path(), &config);
        old.tx(&frames(3));
        assert_eq!(old.close(), Ok(()));
        new.tx(&frames(10));
        assert_eq!(new.close(), Ok(()));
        assert_eq!(lens(&dir.path().join("c.pcapng")).len(), 7);
        assert_eq!(new.counter("not_captured"), 8);
    }

    #[test]
    fn a_file_that_was_cut_off_is_whole_in_the_end_also_if_no_packet_came() {
        let dir = tempfile::tempdir().unwrap();
        let config = json!({ "file": "c.pcapng" });
        let mut old = wrapped(dir.path(), &config, ScriptedPort::new([]));
        old.tx(&vec![vec![0; 60]; 3]);
        old.close().unwrap();
        let path = dir.path().join("c.pcapng");
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(going_on(dir.path(), &config).close(), Ok(()));
        assert_eq!(lens(&path), [60, 60]);
    }

    #[test]
    fn a_full_disk_ends_the_capture_and_not_the_port() {
        let disk = SmallDisk::new(100_000);
        let sink = Box::new(disk.clone());
        let writer = CaptureWriter::start("small".into(), sink, CaptureFormat::PcapNg, "");
        let config: Config = serde_json::from_value(json!({ "file": "small" })).unwrap();
        let inner = ScriptedPort::new((0..300).map(|_| (0, vec![0; 1000])));
        let mut capture = Capture::new(&config, Box::new(inner));
        capture.writer = Some(writer.unwrap());
        let mut bench = PortBench::new(Box::new(capture));
        let (packets, _) = bench.rx_all(64);
        assert_eq!(packets.len(), 300);
        assert!(bench.counter("not_captured") > 100);
        let error = bench.close().unwrap_err().0;
        assert!(
            error.contains("writing stopped after 95 records"),
            "{error}"
        );
        assert!(disk.len() < 100_000);
    }

    #[test]
    fn the_error_of_the_port_inside_comes_first_and_both_are_closed() {
        let dir = tempfile::tempdir().unwrap();
        let mut inner = ScriptedPort::new([]);
        let heard = inner.heard();
        inner.close_error = Some(PortError("inside".to_owned()));
        let mut bench = wrapped(dir.path(), &json!({ "file": "c.pcapng" }), inner);
        bench.tx(&[[0; 60]]);
        assert_eq!(bench.close(), Err(PortError("inside".to_owned())));
        assert!(heard.lock().unwrap().is_closed);
        assert_eq!(lens(&dir.path().join("c.pcapng")), [60]);
    }

    #[test]
    fn wrong_configurations_name_the_field() {
        for (config, path) in [
            (json!({}), "file"),
            (json!({ "file": "a", "snaplen": 0 }), "snaplen"),
            (json!({ "file": "a", "direction": "up" }), "direction"),
            (
                json!({ "file": "a", "size_limit": "5 apples" }),
                "size_limit",
            ),
        ] {
            let error = &(KIND.check)(&config).unwrap_err()[0];
            assert!(
                error.path == path || error.message.contains(path),
                "{config}: {error}"
            );
        }
        let missing = json!({ "file": "no/such/folder" });
        let inner = Box::new(ScriptedPort::new([]));
        let error = PortBench::wrap(&KIND, &missing, Path::new("/dev/null"), inner).unwrap_err();
        assert!(error.0.contains("cannot be created"), "{error}");
    }
}
