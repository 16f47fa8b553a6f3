//! `catena pcs encode`: a capture to line bits, by the same transmitter that a chain has.

use std::path::PathBuf;
use std::process::ExitCode;

use catena_pcs::params::Params;
use catena_pcs::stage::{Direction, PushError, Transmit};
use catena_port::capture::{CaptureError, CaptureReader};
use serde_json::json;

use super::super::{Failure, Outcome};
use super::Coding;
use crate::line::bit_errors::{BitErrors, Random};
use crate::line::check_distinct;
use crate::line::judgement::direction_name;
use crate::line::progress::Progress;
use crate::line::writing::LineWriter;
use crate::overwrite::Overwrite;
use crate::quantity;

/// Most bits of noise or silence: a millisecond and more.
const FILL_MAX: u64 = 100_000_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// pcap or pcapng file
    capture: PathBuf,
    /// Line file to write
    line: PathBuf,
    /// From OLT to ONU, or in bursts from ONU to OLT
    #[arg(long, value_enum, default_value_t = Way::Downstream)]
    direction: Way,
    /// LLID of all frames, with the mode bit, such as 5 or 0xfffe
    #[arg(long, default_value = "1", value_parser = super::parse_llid)]
    llid: u16,
    /// Bits of noise on the line in front of the first codeword or burst
    #[arg(long, value_name = "BITS", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(..=FILL_MAX))]
    offset: u64,
    /// Bit of the file's first byte where the line begins
    #[arg(long, value_name = "BIT", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(..=7))]
    first_bit: u8,
    /// Bit errors per bit, such as 1e-4
    #[arg(long, value_name = "SHARE", default_value = "0",
          value_parser = |text: &str| quantity::share(text, 0.0..=0.5))]
    ber: f64,
    /// Repeats errors and noise
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Codewords of idle in front of the first frame, in which an ONU finds lock
    #[arg(long, value_name = "COUNT", default_value_t = 16,
          value_parser = clap::value_parser!(u64).range(..=100_000))]
    lead: u64,
    /// Upstream: frames in a burst; without it, one burst holds all
    #[arg(long, value_name = "COUNT")]
    burst: Option<std::num::NonZeroU64>,
    /// Upstream: bits without light behind each burst
    #[arg(long, value_name = "BITS", default_value_t = 1024,
          value_parser = clap::value_parser!(u64).range(..=FILL_MAX))]
    silence: u64,
    /// Upstream: blocks of sync pattern in front of a burst (SyncTime)
    #[arg(long, value_name = "BLOCKS", default_value_t = 64,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    sync_blocks: u16,
    /// Upstream: idle blocks into the FIFO after which a burst ends (DelayBound); without it, a
    /// burst ends with the codeword of its last frame
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u16).range(1..=4096))]
    delay_bound: Option<u16>,
    #[command(flatten)]
    coding: Coding,
    #[command(flatten)]
    overwrite: Overwrite,
    /// Print the counts as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Way {
    Downstream,
    Upstream,
}

impl From<Way> for Direction {
    fn from(way: Way) -> Self {
        match way {
            Way::Downstream => Self::Downstream,
            Way::Upstream => Self::Upstream,
        }
    }
}

impl Args {
    fn params(&self) -> Params {
        Params {
            sync_blocks: self.sync_blocks.into(),
            delay_bound: self.delay_bound.map(usize::from),
            ..self.coding.params()
        }
    }
}

/// Frames by what became of them.
#[derive(Debug, Default)]
struct Counts {
    frames: u64,
    octets: u64,
    /// Sent, though the capture does not hold all of them.
    cut_short: u64,
    padded: u64,
    empty: u64,
    too_long: u64,
    too_long_max: usize,
    bursts: u64,
}

struct Encoding<'a> {
    args: &'a Args,
    direction: Direction,
    transmitter: Box<dyn Transmit>,
    writer: LineWriter,
    counts: Counts,
    in_burst: u64,
}

impl Encoding<'_> {
    fn is_upstream(&self) -> bool {
        self.direction == Direction::Upstream
    }

    /// What stands in front of the first frame.
    fn begin(&mut self) -> Result<(), Failure> {
        // Noise and errors must not be made of the same numbers.
        let noise = Random::new(!self.args.seed);
        self.writer.fill(self.args.offset, Some(noise))?;
        if !self.is_upstream() {
            self.pull(self.args.lead)?;
        }
        Ok(())
    }

    /// So many codewords.
    fn pull(&mut self, codewords: u64) -> Result<(), Failure> {
        for _ in 0..codewords {
            self.writer.pull(self.transmitter.as_mut(), 1)?;
        }
        Ok(())
    }

    fn frame(&mut self, frame: &[u8]) -> Result<(), Failure> {
        if frame.is_empty() {
            self.counts.empty += 1;
            return Ok(());
        }
        loop {
            match self.transmitter.push(frame, self.args.llid) {
                Ok(()) => break,
                Err(PushError::Full) => {
                    // All but a codeword's worth, so that no idles come between frames.
                    let codewords = self.transmitter.waiting_blocks() / 27;
                    self.writer
                        .pull(self.transmitter.as_mut(), codewords.max(1))?;
                }
                Err(PushError::TooLong { len_with_fcs, .. }) => {
                    self.counts.too_long += 1;
                    self.counts.too_long_max = self.counts.too_long_max.max(len_with_fcs);
                    return Ok(());
                }
            }
        }
        self.counts.frames += 1;
        self.counts.octets += frame.len().max(60) as u64;
        self.counts.padded += u64::from(frame.len() < 60);
        self.in_burst += 1;
        if self
            .args
            .burst
            .is_some_and(|most| self.in_burst >= most.get())
        {
            self.end_burst()?;
        }
        Ok(())
    }

    /// Sends what waits; upstream, goes on until the laser is off.
    fn end_burst(&mut self) -> Result<(), Failure> {
        if !self.is_upstream() || self.in_burst == 0 {
            return Ok(());
        }
        while self.writer.pull(self.transmitter.as_mut(), 64)? > 0 {}
        self.in_burst = 0;
        self.counts.bursts += 1;
        self.writer.fill(self.args.silence, None)
    }

    fn end(&mut self) -> Result<(), Failure> {
        if self.is_upstream() {
            return self.end_burst();
        }
        while self.transmitter.waiting_blocks() > 0 {
            self.pull(1)?;
        }
        // A receiver gives a frame out when it has seen the block behind it.
        self.pull(2)
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let direction = Direction::from(args.direction);
    if direction == Direction::Downstream && args.burst.is_some() {
        return Err(Failure::input(
            "--burst is for upstream: downstream is one stream without end; add --direction \
             upstream, or leave it out",
        ));
    }
    let mut reader = CaptureReader::open(&args.capture).map_err(Failure::running)?;
    check_distinct(&args.capture, &args.line)?;
    args.overwrite.check(&args.line)?;
    let errors = BitErrors::new(args.ber, args.seed);
    let mut encoding = Encoding {
        args,
        direction,
        transmitter: args.coding.transmitter(direction, args.params()),
        writer: LineWriter::create(&args.line, direction, args.first_bit, errors)?,
        counts: Counts::default(),
        in_burst: 0,
    };
    encoding.begin()?;
    let damage = read_all(args, &mut reader, &mut encoding)?;
    encoding.end()?;
    let Encoding { writer, counts, .. } = encoding;
    let (bits, flipped) = writer.counts();
    writer.finish()?;
    report(args, direction, &counts, (bits, flipped), damage.as_ref())?;
    if let Some(damage) = damage {
        return Err(Failure::running(format!(
            "{damage}; {} holds the {} frames before it",
            args.line.display(),
            counts.frames
        )));
    }
    if counts.too_long + counts.empty > 0 {
        errln!("catena: {}: {}", args.capture.display(), left_out(&counts));
        return Ok(ExitCode::from(1));
    }
    Ok(ExitCode::SUCCESS)
}

/// Encodes every record; gives what ended the capture before its end.
fn read_all(
    args: &Args,
    reader: &mut CaptureReader,
    encoding: &mut Encoding<'_>,
) -> Result<Option<CaptureError>, Failure> {
    let len = std::fs::metadata(&args.capture).map_or(0, |metadata| metadata.len());
    let mut progress = Progress::new(format!("encoding {}", args.capture.display()), len);
    // Headers of records have 16 bytes in pcap, and some more in pcapng.
    let mut done = 24;
    loop {
        match reader.next() {
            Ok(None) => return Ok(None),
            Err(damage) => return Ok(Some(damage)),
            Ok(Some(record)) => {
                let is_cut = record.data.len() < record.original_len as usize;
                encoding.counts.cut_short += u64::from(is_cut);
                done += 16 + record.data.len() as u64;
                encoding.frame(record.data)?;
            }
        }
        progress.at(done);
    }
}

fn left_out(counts: &Counts) -> String {
    let mut reasons = Vec::new();
    if counts.too_long > 0 {
        reasons.push(format!(
            "{} frames left out as too long, the longest of {} octets with check sequence; raise \
             --max-frame here and when decoding",
            counts.too_long, counts.too_long_max
        ));
    }
    if counts.empty > 0 {
        reasons.push(format!("{} empty records left out", counts.empty));
    }
    reasons.join("; ")
}

fn report(
    args: &Args,
    direction: Direction,
    counts: &Counts,
    (bits, flipped): (u64, u64),
    damage: Option<&CaptureError>,
) -> Result<(), Failure> {
    if args.json {
        let body = json!({
            "capture": args.capture.display().to_string(),
            "line": args.line.display().to_string(),
            "implementation": args.coding.name(),
            "direction": direction_name(direction),
            "line_bits": bits,
            "bit_errors": flipped,
            "bursts": counts.bursts,
            "frames": counts.frames,
            "octets": counts.octets,
            "padded": counts.padded,
            "cut_short": counts.cut_short,
            "left_out": { "too_long": counts.too_long, "empty": counts.empty },
            "damage": damage.map(ToString::to_string),
        });
        return super::print_json("catena.pcs.encode/1", &body);
    }
    let mut text = format!(
        "{}: {}, {bits} line bits with {flipped} bit errors\n\
         frames: {} of {} octets in all; padded to 60 octets: {}; cut short in the capture: {}\n",
        args.line.display(),
        direction_name(direction),
        counts.frames,
        counts.octets,
        counts.padded,
        counts.cut_short
    );
    if direction == Direction::Upstream {
        text += &format!("bursts: {}\n", counts.bursts);
    }
    super::print(&text)
}
