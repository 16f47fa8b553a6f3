//! `catena pcs`: the coding sublayer of 10G-EPON on files. Captures to line bits and back, and a
//! look at the blocks.

mod decode;
mod encode;
mod inspect;

use std::io::Write;
use std::process::ExitCode;

use catena_pcs::llid::Accept;
use catena_pcs::params::Params;
use catena_pcs::stage::{Direction, Receive, Transmit};
use catena_pcs::{Simd, fast, reference};

use super::{Failure, Outcome};
use crate::line::judgement::Judgement;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Turn the frames of a capture into line bits
    Encode(encode::Args),
    /// Turn line bits into a capture, and judge them
    Decode(decode::Args),
    /// List the blocks of line bits, and judge them
    Inspect(inspect::Args),
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Encode(args) => encode::run(args),
        Command::Decode(args) => decode::run(args),
        Command::Inspect(args) => inspect::run(args),
    }
}

/// What all three take.
#[derive(Debug, clap::Args)]
struct Coding {
    /// Use the bit-by-bit reference: slow, same result
    #[arg(long)]
    reference: bool,
    /// Longest frame with its check sequence; the same at both ends
    #[arg(long, value_name = "SIZE", default_value = "2000B",
          value_parser = |text: &str| crate::quantity::size(text, 64..=16_384))]
    max_frame: u64,
}

impl Coding {
    fn params(&self) -> Params {
        Params {
            // Fits: at most 16384.
            frame_len_with_fcs_max: self.max_frame as usize,
            ..Params::default()
        }
    }

    fn name(&self) -> &'static str {
        match self.reference {
            true => "reference",
            false => "fast",
        }
    }

    fn transmitter(&self, direction: Direction, params: Params) -> Box<dyn Transmit> {
        match self.reference {
            true => Box::new(reference::Transmitter::new(direction, params)),
            false => Box::new(fast::Transmitter::new(direction, params, Simd::best())),
        }
    }

    fn receiver(&self, direction: Direction, accept: Accept, params: Params) -> Box<dyn Receive> {
        match self.reference {
            true => Box::new(reference::Receiver::new(direction, accept, params)),
            false => Box::new(fast::Receiver::new(direction, accept, params, Simd::best())),
        }
    }
}

/// The BER monitor, which counts wrong headers before correction.
#[derive(Debug, clap::Args)]
struct Monitor {
    /// Codewords of a window of the BER monitor; 630 take 125 us
    #[arg(long, value_name = "CODEWORDS", default_value_t = 630,
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    ber_window: u32,
    /// Wrong headers in a window from which the bit error rate is high
    #[arg(long, value_name = "HEADERS", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    ber_limit: u32,
    /// Give out no frames while the bit error rate is high
    #[arg(long)]
    withhold: bool,
}

impl Monitor {
    fn set(&self, params: Params) -> Params {
        Params {
            ber_window_codewords: self.ber_window,
            ber_headers_max: self.ber_limit,
            high_ber_withholds: self.withhold,
            ..params
        }
    }
}

/// An LLID with its mode bit, decimal or with 0x.
fn parse_llid(text: &str) -> Result<u16, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "an LLID is 0 to 65535, or 0x0 to 0xffff with the mode bit first".to_owned())
}

/// Writes to standard output. Whoever reads it may stop before the end.
fn print(text: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    tolerate(
        output
            .write_all(text.as_bytes())
            .and_then(|()| output.flush()),
    )
    .map(|_| ())
}

/// False if nobody reads any more.
fn tolerate(written: std::io::Result<()>) -> Result<bool, Failure> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::running(format!("standard output: {error}"))),
    }
}

fn print_json(schema: &str, value: &serde_json::Value) -> Result<(), Failure> {
    let text = crate::document::text(schema, value)?;
    print(&format!("{text}\n"))
}

/// The exit code of a judgement; why it is not zero goes to standard error.
fn judged(name: &str, judgement: &Judgement) -> ExitCode {
    if judgement.word.is_good() {
        return ExitCode::SUCCESS;
    }
    errln!("catena: {name}: {}", judgement.text());
    ExitCode::from(1)
}
