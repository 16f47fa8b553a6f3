//! `l1sim`: a fibre with faults. Line bits go in and come out later, flipped, one too many or one
//! too few.
//!
//! Everything is drawn from a seed and lies in stream time: the same bits give the same faults,
//! however the chain is run. Errors cost work per error, not per bit. Of raw chunks and lists of
//! frames the payload's bits are flipped too, so that a chain without coding can be tried; they
//! neither slip nor are delayed.
//!
//! The delay is that of a fibre: as many bits as the line carries meanwhile. They come out with the
//! chunks that follow, so the last of them never come; downstream, idle follows anyway.

mod delay;

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::nf::{BuiltNf, Burst, DropReason, Nanos, Nf, NfKind, NfPlan, Verdict};
use catena_engine::own_counters::CounterSink;
use catena_engine::packet::Packet;
use catena_engine::units::Span;
use catena_pcs::params::LINE_RATE_BPS;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bit_errors::{BitErrors, Events, Random};
use crate::chunk::{Content, HEADER_LEN, Header};
use crate::custody::Custody;
use crate::line_bits::move_bits;
use delay::DelayLine;

/// Longest delay: 200 km of fibre.
const DELAY_NS_MAX: u64 = 1_000_000;
/// Longest run of an error burst.
const BURST_BITS_MAX: u32 = 1_000_000;

/// Settings of `l1sim`.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Bit errors per bit, independent of each other.
    #[serde(default)]
    ber: f64,
    /// Stretches in which every other bit, by chance, is wrong; none if left out.
    error_bursts: Option<ErrorBursts>,
    /// Bits per bit that are lost or come twice: the receiver has to find its place anew.
    #[serde(default)]
    slips: f64,
    /// How long the line is, in time.
    #[serde(default = "at_once")]
    delay: Span,
    /// Repeats everything.
    #[serde(default = "one")]
    seed: u64,
}

/// Stretches of errors.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ErrorBursts {
    /// How many begin per bit.
    rate: f64,
    /// How many bits each lasts.
    bits: u32,
}

const fn at_once() -> Span {
    Span { ns: 0 }
}

const fn one() -> u64 {
    1
}

fn rate_error(path: &str, rate: f64) -> Option<ConfigError> {
    (!(0.0..=0.5).contains(&rate)).then(|| {
        ConfigError::new(
            path,
            format!("{path} is {rate}"),
            "write a rate per bit from 0 to 0.5, such as 1e-4",
        )
    })
}

impl Config {
    fn parse(config: &Value) -> Result<Self, ConfigErrors> {
        let config: Self = parse_config(config)?;
        let errors = config.check();
        match errors.is_empty() {
            true => Ok(config),
            false => Err(errors),
        }
    }

    fn check(&self) -> ConfigErrors {
        let bursts = self.error_bursts;
        let mut errors: ConfigErrors = [
            rate_error("ber", self.ber),
            rate_error("slips", self.slips),
            bursts.and_then(|bursts| rate_error("error_bursts.rate", bursts.rate)),
        ]
        .into_iter()
        .flatten()
        .collect();
        if let Some(bits) = bursts
            .map(|bursts| bursts.bits)
            .filter(|bits| !(1..=BURST_BITS_MAX).contains(bits))
        {
            errors.push(ConfigError::new(
                "error_bursts.bits",
                format!("an error burst of {bits} bits"),
                format!("write 1 to {BURST_BITS_MAX}"),
            ));
        }
        if self.delay.ns > DELAY_NS_MAX {
            errors.push(ConfigError::new(
                "delay",
                format!("a line of {} ns", self.delay.ns),
                "write at most 1ms; for a delay in wall-clock time, wrap a port in fault",
            ));
        }
        errors
    }
}

/// A line.
#[derive(Debug)]
struct L1Sim {
    seed: u64,
    errors: BitErrors,
    bursts: Events,
    burst_bits: u32,
    /// How much of an error burst is left.
    burst_left: u32,
    slips: Events,
    chance: Random,
    delay: DelayLine,
    counts: Counts,
    custody: Custody,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    chunks: u64,
    malformed: u64,
    bits: u64,
    bit_errors: u64,
    bursts: u64,
    bits_inserted: u64,
    bits_deleted: u64,
}

impl L1Sim {
    fn new(config: &Config) -> Self {
        // Whole octets: chunks that are whole octets then pass without shifting.
        let octets = u128::from(config.delay.ns) * u128::from(LINE_RATE_BPS) / 8_000_000_000;
        let bursts = config.error_bursts;
        Self {
            seed: config.seed,
            errors: BitErrors::new(config.ber, config.seed),
            // Other numbers than those of single errors.
            bursts: Events::new(
                bursts.map_or(0.0, |bursts| bursts.rate),
                config.seed ^ 1 << 62,
            ),
            burst_bits: bursts.map_or(0, |bursts| bursts.bits),
            burst_left: 0,
            slips: Events::new(config.slips, config.seed ^ 1 << 63),
            chance: Random::new(!config.seed),
            // Fits: at most a millisecond.
            delay: DelayLine::new(8 * octets as usize),
            counts: Counts::default(),
            custody: Custody::default(),
        }
    }

    fn chunk(&mut self, packet: &mut Packet) -> Result<(), DropReason> {
        let Ok(mut header) = Header::parse(packet.bytes()) else {
            self.counts.malformed += 1;
            return Err(DropReason::Malformed);
        };
        let mut len = match header.content {
            Content::Line(_) => header.count as usize,
            Content::Raw | Content::Frames => 8 * (packet.len() - HEADER_LEN),
        };
        let start = usize::from(header.bit);
        if let Content::Line(_) = header.content {
            let line = &mut packet.bytes_mut()[HEADER_LEN..];
            self.delay.pass(line, start, len);
            len = self.slip(packet, start, len);
            if len != header.count as usize {
                // Fits: it changes by a few.
                header.count = len as u32;
                header.write(packet.bytes_mut());
            }
        }
        let line = &mut packet.bytes_mut()[HEADER_LEN..];
        self.counts.bit_errors += self.errors.flip(line, start, len);
        self.burst_errors(line, start, len);
        self.counts.chunks += 1;
        self.counts.bits += len as u64;
        Ok(())
    }

    /// Loses bits and sends bits twice; gives how many there are now.
    fn slip(&mut self, packet: &mut Packet, start: usize, before: usize) -> usize {
        let (mut at, mut len) = (0, before);
        let slips_before = self.counts.bits_inserted + self.counts.bits_deleted;
        while let Some(event) = self.slips.next_in(at, len) {
            let bit = start + event;
            let is_insertion = self.chance.bits() >> 63 == 1;
            let fits = packet.len() - HEADER_LEN >= (start + len + 1).div_ceil(8)
                || packet.set_len(packet.len() + 1).is_ok();
            let line = &mut packet.bytes_mut()[HEADER_LEN..];
            if is_insertion && fits {
                move_bits(line, bit, bit + 1, len - event);
                len += 1;
                self.counts.bits_inserted += 1;
                at = event + 2;
            } else {
                // Also where the buffer has no room for one more.
                move_bits(line, bit + 1, bit, len - event - 1);
                len -= 1;
                self.counts.bits_deleted += 1;
                at = event;
            }
            at = at.min(len);
        }
        if self.counts.bits_inserted + self.counts.bits_deleted != slips_before {
            // At most what it has.
            let _ = packet.set_len(HEADER_LEN + (start + len).div_ceil(8));
        }
        len
    }

    /// Goes on with an error burst, and begins others.
    fn burst_errors(&mut self, line: &mut [u8], start: usize, len: usize) {
        let mut at = 0;
        loop {
            while self.burst_left > 0 && at < len {
                if self.chance.bits() >> 63 == 1 {
                    line[(start + at) / 8] ^= 1 << ((start + at) % 8);
                    self.counts.bit_errors += 1;
                }
                self.burst_left -= 1;
                at += 1;
            }
            match self.bursts.next_in(at, len) {
                Some(event) => {
                    self.burst_left = self.burst_bits;
                    self.counts.bursts += 1;
                    at = event;
                }
                None => return,
            }
        }
    }

    fn set(&mut self, request: &Value) -> Result<Value, String> {
        let ber = request["ber"].as_f64();
        let ber = ber.ok_or("write {\"set\": {\"ber\": 1e-4}}, with a number")?;
        if let Some(error) = rate_error("ber", ber) {
            return Err(error.to_string());
        }
        self.errors = BitErrors::new(ber, self.seed);
        Ok(json!({}))
    }
}

impl Nf for L1Sim {
    fn process(&mut self, burst: &mut Burst<'_>, now: Nanos) {
        for (packet, verdict) in burst.iter_mut() {
            let held = self.custody.take(packet.bytes(), now.0);
            if let Err(reason) = self.chunk(packet) {
                *verdict = Verdict::Drop(reason);
            } else if let Some(held) = held {
                Custody::hand_on(held, packet.bytes_mut(), now.0);
            }
        }
    }

    fn control(&mut self, request: &Value) -> Result<Value, String> {
        let one = request.as_object().filter(|keys| keys.len() == 1);
        match one.and_then(|keys| keys.iter().next()) {
            Some((key, value)) if key == "show" && value == "counts" => {
                Ok(Value::from_iter(self.report()))
            }
            Some((key, value)) if key == "set" => self.set(value),
            _ => Err(
                "l1sim answers {\"show\": \"counts\"} and {\"set\": {\"ber\": 1e-4}}".to_owned(),
            ),
        }
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        let counts = &self.counts;
        out.extend([
            ("chunks", counts.chunks),
            ("chunks_malformed", counts.malformed),
            ("bits", counts.bits),
            ("bit_errors", counts.bit_errors),
            ("error_bursts", counts.bursts),
            ("bits_inserted", counts.bits_inserted),
            ("bits_deleted", counts.bits_deleted),
        ]);
        out.extend(self.custody.report());
    }
}

/// Names of its counters.
const COUNTERS: &[&str] = &[
    "chunks",
    "chunks_malformed",
    "bits",
    "bit_errors",
    "error_bursts",
    "bits_inserted",
    "bits_deleted",
    "stalls",
    "stalled_ns",
];

/// A rate of bit errors is a setting.
fn amend(config: &mut Value, requests: &[Value]) -> Vec<Result<Option<String>, String>> {
    let amended = requests.iter().map(|request| {
        let ber = request.get("set")?.get("ber")?;
        config["ber"] = ber.clone();
        Some("ber".to_owned())
    });
    amended.map(Ok).collect()
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "l1sim",
    summary: "A fibre: bit errors, error bursts, bit slips and delay, repeated by a seed",
    example: "{}",
    schema: || schemars::schema_for!(Config),
    plan: |config, _outputs| {
        Config::parse(config)?;
        let plan = NfPlan::new().writes().counters(COUNTERS);
        let plan = plan.amended_by(amend);
        Ok(plan.requests([
            (r#"{"show": "counts"}"#, "what it has counted"),
            (
                r#"{"set": {"ber": 1e-4}}"#,
                "another rate of bit errors from now on",
            ),
        ]))
    },
    build: |config, _context| Ok(BuiltNf::new(L1Sim::new(&Config::parse(config)?))),
};

#[cfg(test)]
mod tests;
