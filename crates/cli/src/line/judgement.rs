//! What a receiver made of a line file: counts and one word, for people and for machines.

use std::fmt::Write;

use catena_pcs::counters::Counters;
use catena_pcs::line_file::Header;
use catena_pcs::stage::{Direction, Verdict};
use serde_json::{Value, json};

use super::before_lock::BeforeLock;

/// One word for a whole file, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Word {
    /// No bit error that the code sees.
    Clean,
    /// Bit errors, and every one corrected.
    Corrected,
    /// Codewords or frames were lost.
    Damaged,
    /// The file ends before the line did.
    CutOff,
    /// Lock or a burst was lost and never found again.
    Lost,
    /// There never was a lock or a burst.
    NoLock,
}

impl Word {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Corrected => "corrected",
            Self::Damaged => "damaged",
            Self::CutOff => "cut off",
            Self::Lost => "lost",
            Self::NoLock => "no lock",
        }
    }

    /// Whether everything that was sent has arrived, as far as can be known.
    pub(crate) fn is_good(self) -> bool {
        matches!(self, Self::Clean | Self::Corrected)
    }
}

/// A word, and why.
#[derive(Clone, Debug)]
pub(crate) struct Judgement {
    pub(crate) word: Word,
    /// Those that lead to a word.
    reasons: Vec<(Word, String)>,
}

impl Judgement {
    /// Judges a file with this header and so many line bits in it.
    pub(crate) fn new(
        header: &Header,
        present_bits: u64,
        counters: &Counters,
        verdict: Verdict,
    ) -> Self {
        let mut judgement = Self {
            word: match counters.codewords_corrected {
                0 => Word::Clean,
                _ => Word::Corrected,
            },
            reasons: Vec::new(),
        };
        judgement.look_for_damage(counters);
        if present_bits < header.bit_count {
            let reason = format!(
                "the file holds {present_bits} of {} line bits; copy or record it again",
                // What a writer sets that has not come to its end.
                match header.bit_count {
                    u64::MAX => "an unknown number of".to_owned(),
                    count => count.to_string(),
                }
            );
            judgement.add(Word::CutOff, reason);
        }
        if header.direction == Direction::Upstream && verdict == Verdict::InStep {
            judgement.add(Word::CutOff, "the last burst has no end".to_owned());
        }
        if counters.codewords == 0 && verdict != Verdict::NeverLocked {
            let reason = format!("burst delimiters and no codeword: {}", counters.bursts);
            judgement.add(Word::NoLock, reason);
        }
        match verdict {
            Verdict::NeverLocked => judgement.add(Word::NoLock, no_lock(header, present_bits)),
            Verdict::Lost => {
                let what = match header.direction {
                    Direction::Downstream => "lock was lost and not found again",
                    Direction::Upstream => "the last burst was lost before its end",
                };
                judgement.add(Word::Lost, what.to_owned());
            }
            Verdict::InStep | Verdict::BetweenBursts => {}
        }
        judgement
    }

    fn look_for_damage(&mut self, counters: &Counters) {
        let lost = [
            (
                counters.codewords_uncorrectable,
                "codewords with more errors than can be corrected",
            ),
            (counters.lock_losses, "losses of lock"),
            (counters.bursts_lost, "bursts lost before their end"),
            (
                counters.bursts_missed,
                "sync patterns without a burst delimiter, whose bursts were not received",
            ),
            // Frames for others are no damage.
            (
                counters.drops.total() - counters.drops.llid,
                "frames not given out",
            ),
        ];
        for (count, what) in lost {
            if count > 0 {
                self.add(Word::Damaged, format!("{what}: {count}"));
            }
        }
    }

    /// Adds what the receiver does not know: what it passed over before lock, and what follows the
    /// line.
    pub(crate) fn add_surroundings(&mut self, before: BeforeLock, trailing_octets: u64) {
        if before.frames > 0 {
            self.add(
                Word::Damaged,
                format!(
                    "frames begun before lock: {}, in {} codewords in which headers are wrong",
                    before.frames, before.codewords
                ),
            );
        }
        if trailing_octets > 0 {
            self.add(
                Word::Damaged,
                format!(
                    "octets behind the end of the line: {trailing_octets}; a file holds one line, \
                     so split it where the next one begins"
                ),
            );
        }
    }

    /// Compares bursts with those that were granted.
    pub(crate) fn add_grants(&mut self, granted: u64, counters: &Counters) {
        if counters.bursts != granted {
            let reason = format!("bursts received: {} of {granted} granted", counters.bursts);
            self.add(Word::Damaged, reason);
        }
    }

    /// Adds a reason; the worst word stays.
    fn add(&mut self, word: Word, reason: String) {
        self.word = self.word.max(word);
        self.reasons.push((word, reason));
    }

    /// Why the word is what it is, the worst first.
    pub(crate) fn reasons(&self) -> Vec<&str> {
        let mut reasons: Vec<_> = self.reasons.iter().collect();
        reasons.sort_by_key(|(word, _)| std::cmp::Reverse(*word));
        reasons.iter().map(|(_, reason)| reason.as_str()).collect()
    }

    /// `word: reasons`.
    pub(crate) fn text(&self) -> String {
        format!("{}: {}", self.word.name(), self.reasons().join("; "))
    }
}

fn no_lock(header: &Header, present_bits: u64) -> String {
    if present_bits == 0 {
        return "the file holds no line bits".to_owned();
    }
    let (searched, other) = match header.direction {
        Direction::Downstream => ("two codewords with the headers of codewords", "upstream"),
        Direction::Upstream => ("a burst delimiter", "downstream"),
    };
    format!(
        "{present_bits} line bits hold nowhere {searched}: noise, too many errors, or {other} bits \
         under a header that says {}",
        direction_name(header.direction)
    )
}

pub(crate) fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Downstream => "downstream",
        Direction::Upstream => "upstream",
    }
}

/// The counters under their own names.
pub(crate) fn counters_json(counters: &Counters) -> Value {
    json!({
        "line_bits": counters.line_bits,
        "hunted_bits": counters.hunted_bits,
        "first_hunt_bits": counters.first_hunt_bits,
        "locks": counters.locks,
        "lock_losses": counters.lock_losses,
        "bursts": counters.bursts,
        "bursts_ended": counters.bursts_ended,
        "bursts_lost": counters.bursts_lost,
        "bursts_missed": counters.bursts_missed,
        "codewords": counters.codewords,
        "codewords_corrected": counters.codewords_corrected,
        "codewords_uncorrectable": counters.codewords_uncorrectable,
        "symbols_corrected": counters.symbols_corrected,
        "ones_corrected": counters.ones_corrected,
        "zeros_corrected": counters.zeros_corrected,
        "ber": counters.ber(),
        "header_errors": counters.header_errors,
        "high_ber_windows": counters.high_ber_windows,
        "blocks_invalid": counters.blocks_invalid,
        "frames": counters.frames,
        "octets": counters.octets,
        "drops": drops(counters).into_iter().collect::<std::collections::BTreeMap<_, _>>(),
    })
}

fn drops(counters: &Counters) -> [(&'static str, u64); 9] {
    let drops = &counters.drops;
    [
        ("coding", drops.coding),
        ("cut", drops.cut),
        ("runt", drops.runt),
        ("oversize", drops.oversize),
        ("sld", drops.sld),
        ("crc8", drops.crc8),
        ("llid", drops.llid),
        ("fcs", drops.fcs),
        ("high_ber", drops.high_ber),
    ]
}

/// The counters for people.
pub(crate) fn counters_text(header: &Header, counters: &Counters) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "line bits: {}, {} of them outside of codewords",
        counters.line_bits, counters.hunted_bits
    );
    let _ = match header.direction {
        Direction::Downstream => writeln!(
            text,
            "lock: gained {}, lost {}",
            counters.locks, counters.lock_losses
        ),
        Direction::Upstream => writeln!(
            text,
            "bursts: {}, ended {}, lost {}, missed {}",
            counters.bursts, counters.bursts_ended, counters.bursts_lost, counters.bursts_missed
        ),
    };
    let _ = writeln!(
        text,
        "codewords: {}, corrected {}, uncorrectable {}",
        counters.codewords, counters.codewords_corrected, counters.codewords_uncorrectable
    );
    let bits = counters.ones_corrected + counters.zeros_corrected;
    let ber = counters
        .ber()
        .map_or_else(String::new, |ber| format!(" (bit error rate {ber:.2e})"));
    let _ = writeln!(
        text,
        "corrected: {bits} bits in {} symbols{ber}; wrong headers {}; invalid blocks {}",
        counters.symbols_corrected, counters.header_errors, counters.blocks_invalid
    );
    let reasons: Vec<String> = drops(counters)
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    let reasons = match reasons.as_slice() {
        [] => "none".to_owned(),
        reasons => reasons.join(", "),
    };
    let _ = writeln!(
        text,
        "frames: {} of {} octets in all; not given out: {reasons}",
        counters.frames, counters.octets
    );
    text
}
