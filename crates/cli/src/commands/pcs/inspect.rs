//! `catena pcs inspect`: where codewords are in a line file, and every block in them.
//!
//! The file is gone over twice: once by a receiver, which finds the codewords and judges them, and
//! once for the listing, which shows the line as it is. Memory is bounded by the number of bursts.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use catena_pcs::line_file::{Listed, Listing};
use catena_pcs::llid::Accept;
use catena_pcs::params::{BLOCKS, CODEWORD_BITS};
use catena_pcs::stage::Direction;
use serde_json::{Value, json};

use super::super::{Failure, Outcome};
use super::{Coding, tolerate};
use crate::line::before_lock;
use crate::line::judgement::{Judgement, counters_json, counters_text, direction_name};
use crate::line::progress::Progress;
use crate::line::reading::LineReader;
use crate::line::stretches::{self, Stretch};

/// Codewords that are read at once.
const WINDOW: u64 = 64;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Line file
    line: PathBuf,
    /// List no block that begins before this bit of the line
    #[arg(long, value_name = "BIT", default_value_t = 0)]
    from: u64,
    /// List at most so many blocks
    #[arg(long, value_name = "COUNT")]
    blocks: Option<u64>,
    #[command(flatten)]
    coding: Coding,
    /// Print listing, verdict and counts as JSON
    #[arg(long)]
    json: bool,
}

/// Where a listing goes.
struct Output<'a> {
    to: BufWriter<std::io::StdoutLock<'a>>,
    is_json: bool,
    left: u64,
    count: u64,
    /// Nobody reads it any more.
    is_closed: bool,
}

impl Output<'_> {
    fn put(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.to.write_all(text.as_bytes());
        self.is_closed |= !tolerate(written)?;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_closed || self.left == 0
    }

    fn block(&mut self, listed: &Listed) -> Result<(), Failure> {
        let text = if self.is_json {
            let comma = if self.count > 0 { "," } else { "" };
            format!("{comma}\n    {}", block_json(listed))
        } else {
            let (columns, kind) = columns_and_kind(listed);
            format!("{columns} {kind}\n")
        };
        self.count += 1;
        self.left -= 1;
        self.put(&text)
    }

    /// Says what lies between the codewords, to people.
    fn gap(&mut self, from: u64, to: u64, what: &str) -> Result<(), Failure> {
        if self.is_json || self.is_done() || from >= to {
            return Ok(());
        }
        self.put(&format!("{from:>10}        {} bits {what}\n", to - from))
    }
}

/// The listing's own text, in two parts. The first block behind the beginning has none before it
/// that would descramble it, so that its kind is not known.
fn columns_and_kind(listed: &Listed) -> (String, String) {
    let text = listed.to_string();
    let payload = format!("{:016x}", listed.block.payload);
    let (place, kind) = text.split_once(&payload).unwrap_or((&text, ""));
    let kind = match listed.place {
        (0, 0) if listed.header_fits => "not descrambled",
        _ => kind.trim_start(),
    };
    (format!("{place}{payload}"), kind.to_owned())
}

fn block_json(listed: &Listed) -> Value {
    let (codeword, block) = listed.place;
    let header = listed.block.header;
    let (_, kind) = columns_and_kind(listed);
    json!({
        "bit": listed.bit,
        "codeword": codeword,
        "block": block,
        "header": format!("{}{}", header & 1, header >> 1 & 1),
        "payload": format!("{:016x}", listed.block.payload),
        "kind": kind.strip_suffix(", wrong header").unwrap_or(&kind),
        "header_fits": listed.header_fits,
    })
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut reader = LineReader::open(&args.line)?;
    let direction = reader.header().direction;
    let params = args.coding.params();
    let mut receiver = args.coding.receiver(direction, Accept::Any, params);
    let present_bits = reader.present_bits();
    let mut progress = Progress::new(format!("reading {}", reader.name()), present_bits);
    let stretches = stretches::find(&mut reader, receiver.as_mut(), &mut progress)?;
    drop(progress);
    let (header, counters) = (*reader.header(), *receiver.counters());
    let before = before_lock::find(&mut reader, &counters)?;
    let mut judgement = Judgement::new(&header, present_bits, &counters, receiver.verdict());
    judgement.add_surroundings(before, reader.trailing_octets());
    let mut output = Output {
        to: BufWriter::new(std::io::stdout().lock()),
        is_json: args.json,
        left: args.blocks.unwrap_or(u64::MAX),
        count: 0,
        is_closed: false,
    };
    if args.json {
        let places: Vec<Value> = stretches
            .iter()
            .map(|stretch| json!({ "bit": stretch.start, "codewords": stretch.codewords }))
            .collect();
        let front = json!({
            "line": reader.name(),
            "implementation": args.coding.name(),
            "direction": direction_name(direction),
            "declared_bits": header.bit_count,
            "present_bits": present_bits,
            "verdict": judgement.word.name(),
            "reasons": judgement.reasons(),
            "counters": counters_json(&counters),
            "stretches": places,
        });
        // The listing may be longer than memory: it is written into the open object.
        let front = crate::document::text("catena.pcs.inspect/1", &front)?;
        let front = front.strip_suffix("\n}").unwrap_or(&front);
        output.put(&format!("{front},\n  \"blocks\": ["))?;
    } else {
        output.put(&format!(
            "{}: {}\n",
            reader.name(),
            direction_name(direction)
        ))?;
        let title = "       bit  codeword.block header payload (hexadecimal) kind\n";
        output.put(title)?;
    }
    list(&mut reader, &stretches, args.from, direction, &mut output)?;
    if args.json {
        output.put("\n  ]\n}\n")?;
    } else {
        let counts = counters_text(&header, &counters);
        output.put(&format!("\n{counts}verdict: {}\n", judgement.word.name()))?;
    }
    tolerate(output.to.flush())?;
    drop(output);
    Ok(super::judged(reader.name(), &judgement))
}

/// Lists every stretch, and what lies between.
fn list(
    reader: &mut LineReader,
    stretches: &[Stretch],
    from: u64,
    direction: Direction,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    let before = match direction {
        Direction::Downstream => "before lock",
        Direction::Upstream => "before codewords, the last 66 of them a burst delimiter",
    };
    let mut at = 0;
    for stretch in stretches {
        if stretch.start >= from {
            output.gap(at.max(from), stretch.start, before)?;
        }
        list_stretch(reader, stretch, from, output)?;
        if output.is_done() {
            return Ok(());
        }
        at = stretch.end();
    }
    let present_bits = reader.present_bits();
    output.gap(at.max(from), present_bits, "behind the last whole codeword")
}

fn list_stretch(
    reader: &mut LineReader,
    stretch: &Stretch,
    from: u64,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    let codeword_bits = CODEWORD_BITS as u64;
    let mut next = from.saturating_sub(stretch.start) / codeword_bits;
    while next < stretch.codewords && !output.is_done() {
        // Descrambling needs the payload block before.
        let first = next.saturating_sub(1);
        let end = (next + WINDOW).min(stretch.codewords);
        let start = stretch.start + first * codeword_bits;
        let bits = reader.bits(start, (end - first) * codeword_bits)?;
        let skipped = (next - first) as usize * BLOCKS;
        let listing = Listing::new(bits.bytes, bits.offset, bits.offset + bits.len);
        for mut listed in listing.skip(skipped) {
            listed.bit = (start as usize).saturating_add(listed.bit - bits.offset);
            listed.place.0 += first as usize;
            if output.is_done() {
                return Ok(());
            }
            if listed.bit as u64 >= from {
                output.block(&listed)?;
            }
        }
        next = end;
    }
    Ok(())
}

// A window must fit what is read at once.
const _: () = assert!((WINDOW + 1) * CODEWORD_BITS as u64 <= 8 << 20);
