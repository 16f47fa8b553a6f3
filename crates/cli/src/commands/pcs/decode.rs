//! `catena pcs decode`: line bits to a capture, with a judgement of the line.

use std::collections::BTreeMap;
use std::path::PathBuf;

use catena_pcs::llid::Accept;
use catena_pcs::stage::{Direction, Received};
use catena_port::capture::{CaptureError, CaptureFormat, CaptureWriter};
use serde_json::json;

use super::super::{Failure, Outcome};
use super::{Coding, Monitor};
use crate::line::judgement::{Judgement, counters_json, counters_text, direction_name};
use crate::line::progress::Progress;
use crate::line::reading::LineReader;
use crate::line::{before_lock, check_distinct};
use crate::overwrite::Overwrite;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Line file
    line: PathBuf,
    /// Capture to write: pcapng if its name says so, pcap otherwise
    capture: PathBuf,
    /// Take only frames for the ONU with this LLID, broadcasts among them
    #[arg(long, value_name = "LLID", value_parser = super::parse_llid)]
    onu: Option<u16>,
    /// Upstream: bursts that were granted; another number of them is damage
    #[arg(long, value_name = "COUNT")]
    grants: Option<u64>,
    #[command(flatten)]
    coding: Coding,
    #[command(flatten)]
    overwrite: Overwrite,
    #[command(flatten)]
    monitor: Monitor,
    /// Print verdict and counts as JSON
    #[arg(long)]
    json: bool,
}

/// Time of a line bit, from the first one on: 10.3125 Gb/s are 165 bits in 16 ns.
fn line_ns(bit: u64) -> u64 {
    // Fits: a 165th of 16 times as much.
    (u128::from(bit) * 16 / 165) as u64
}

/// Frames on their way into a capture.
struct Sink {
    writer: CaptureWriter,
    by_llid: BTreeMap<u16, u64>,
    failure: Option<CaptureError>,
}

impl Sink {
    fn take(&mut self, frame: &Received<'_>) {
        *self.by_llid.entry(frame.llid).or_default() += 1;
        if self.failure.is_none() {
            // Fits: frames have at most some thousand octets.
            let len = frame.bytes.len() as u32;
            let written = self.writer.write(line_ns(frame.bit), frame.bytes, len);
            self.failure = written.err();
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut reader = LineReader::open(&args.line)?;
    check_distinct(&args.line, &args.capture)?;
    args.overwrite.check(&args.capture)?;
    let direction = reader.header().direction;
    if direction == Direction::Downstream && args.grants.is_some() {
        return Err(Failure::input(format!(
            "--grants is for upstream, and {} is downstream, one stream without end; leave it out",
            reader.name()
        )));
    }
    let accept = args.onu.map_or(Accept::Any, Accept::Onu);
    let params = args.monitor.set(args.coding.params());
    let mut receiver = args.coding.receiver(direction, accept, params);
    let format = CaptureFormat::from_path(&args.capture);
    let mut sink = Sink {
        writer: CaptureWriter::create(&args.capture, format).map_err(Failure::running)?,
        by_llid: BTreeMap::new(),
        failure: None,
    };
    let mut progress = Progress::new(format!("decoding {}", reader.name()), reader.present_bits());
    // The reference is slow, and progress is to be seen.
    let step = if args.coding.reference {
        1 << 16
    } else {
        u64::MAX
    };
    let mut at = 0;
    while at < reader.present_bits() {
        let bits = reader.bits(at, step)?;
        at += bits.len as u64;
        let mut take = |frame: &Received<'_>| sink.take(frame);
        receiver.receive(bits.bytes, bits.offset, bits.len, &mut take);
        if let Some(failure) = sink.failure {
            return Err(Failure::running(failure));
        }
        progress.at(at);
    }
    receiver.finish(&mut |frame: &Received<'_>| sink.take(frame));
    drop(progress);
    sink.failure.map_or(Ok(()), Err).map_err(Failure::running)?;
    sink.writer.finish().map_err(Failure::running)?;
    let counters = receiver.counters();
    let before = before_lock::find(&mut reader, counters)?;
    let header = reader.header();
    let mut judgement = Judgement::new(header, reader.present_bits(), counters, receiver.verdict());
    judgement.add_surroundings(before, reader.trailing_octets());
    if let Some(granted) = args.grants {
        judgement.add_grants(granted, counters);
    }
    if args.json {
        let llids = sink.by_llid.iter();
        let llids: BTreeMap<String, u64> = llids
            .map(|(llid, count)| (format!("0x{llid:04x}"), *count))
            .collect();
        let body = json!({
            "line": reader.name(),
            "capture": args.capture.display().to_string(),
            "implementation": args.coding.name(),
            "direction": direction_name(direction),
            "declared_bits": header.bit_count,
            "present_bits": reader.present_bits(),
            "verdict": judgement.word.name(),
            "reasons": judgement.reasons(),
            "high_ber": receiver.is_high_ber(),
            "counters": counters_json(counters),
            "frames_by_llid": llids,
        });
        super::print_json("catena.pcs.decode/1", &body)?;
    } else {
        let mut text = format!("{}: {}\n", reader.name(), direction_name(direction));
        text += &counters_text(header, counters);
        for (llid, count) in &sink.by_llid {
            text += &format!("LLID 0x{llid:04x}: {count} frames\n");
        }
        super::print(&format!("{text}verdict: {}\n", judgement.word.name()))?;
    }
    Ok(super::judged(reader.name(), &judgement))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_codewords_take_the_time_of_1023_octets() {
        // 198.4 ns a codeword, of which 6.4 ns a block.
        assert_eq!(line_ns(0), 0);
        assert_eq!(line_ns(66), 6);
        assert_eq!(line_ns(2046), 198);
        assert_eq!(line_ns(2046 * 5), 992);
        assert_eq!(line_ns(2046 * 5_040_323), 1_000_000_083);
        assert_eq!(line_ns(u64::MAX), 1_788_775_182_905_168_641);
    }
}
