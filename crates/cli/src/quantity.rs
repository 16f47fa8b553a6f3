//! Quantities on the command line, by the grammar of chain files: a number and its unit, `250us`,
//! `10kpps`, `2.5%`, `128KiB`. On the way from an argument to a verb; pure.
//!
//! A number without a unit is taken where the option's name or value name says the unit
//! (`--seconds 5`), as a share, and as bytes. Everywhere else it is refused.

use std::ops::RangeInclusive;
use std::time::Duration;

use catena_engine::units::{ByteSize, Rate, Share, Span};

/// A time with its unit, such as `250us`.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    Span::parse(text).map(|span| Duration::from_nanos(span.ns))
}

/// A time above 0 with its unit.
pub(crate) fn length(text: &str) -> Result<Duration, String> {
    let span = span(text)?;
    if span.is_zero() {
        return Err("give more than 0s".to_owned());
    }
    Ok(span)
}

/// A time; a bare number is of `unit`. It must be in `range`, which counts in `unit` too.
pub(crate) fn time_in(
    text: &str,
    unit: &str,
    range: RangeInclusive<f64>,
) -> Result<Duration, String> {
    let is_bare = text.parse::<f64>().is_ok();
    let one = span(&format!("1{unit}"))?.as_secs_f64();
    let (low, high) = (range.start(), range.end());
    let wrong = || format!("write a time from {low}{unit} to {high}{unit}, like {high}{unit}");
    let time = match is_bare {
        true => {
            let number: f64 = text.parse().map_err(|_| wrong())?;
            Duration::try_from_secs_f64(one * number).map_err(|_| wrong())?
        }
        false => span(text)?,
    };
    // A range may be of less than a nanosecond's precision.
    let number = time.as_secs_f64() / one;
    if (low * (1.0 - 1e-9)..=high * (1.0 + 1e-9)).contains(&number) {
        Ok(time)
    } else {
        Err(wrong())
    }
}

/// A time in seconds within `range`; a bare number is seconds.
pub(crate) fn seconds(text: &str, range: RangeInclusive<f64>) -> Result<Duration, String> {
    time_in(text, "s", range)
}

/// A time as a whole number of `unit`; a bare number is of `unit`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "within a range of whole numbers below 2^53"
)]
pub(crate) fn whole(text: &str, unit: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    let one = span(&format!("1{unit}"))?.as_secs_f64();
    let time = time_in(
        text,
        unit,
        f64::from(*range.start())..=f64::from(*range.end()),
    )?;
    let number = time.as_secs_f64() / one;
    if (number - number.round()).abs() > 1e-6 {
        return Err(format!("write a whole number of {unit}"));
    }
    Ok(number.round() as u32)
}

/// A share within `range`: `2.5%` or `0.025`, also as `1e-4`.
pub(crate) fn share(text: &str, range: RangeInclusive<f64>) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse().map(|number: f64| number / 100.0),
        None => text.parse(),
    };
    // What is within all shares is read by the grammar of files, so that both agree.
    let number = match Share::parse(text) {
        Ok(share) => Ok(share.0),
        Err(_) => number,
    };
    match number {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => {
            let (low, high) = (range.start(), range.end());
            Err(format!(
                "write a share from {low} to {high}, like 2% or 0.02"
            ))
        }
    }
}

/// A rate: `10kpps`, `1.5Gbps`.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    Rate::parse(text)
}

/// A size in bytes within `range`: `1500`, `2kB`, `128KiB`.
pub(crate) fn size(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let size = ByteSize::parse(text)?.bytes;
    if range.contains(&size) {
        return Ok(size);
    }
    let (low, high) = (range.start(), range.end());
    Err(format!("write a size from {low}B to {high}B"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    #[test]
    fn a_bare_number_is_of_the_unit_that_the_option_names() {
        let half = Duration::from_millis(500);
        assert_eq!(seconds("0.5", 0.05..=60.0), Ok(half));
        assert_eq!(seconds("500ms", 0.05..=60.0), Ok(half));
        assert_eq!(seconds("0.05", 0.05..=60.0), Ok(Duration::from_millis(50)));
        assert_eq!(whole("60", "us", 50..=1000), Ok(60));
        assert_eq!(whole("0.06ms", "us", 50..=1000), Ok(60));
        assert_eq!(
            span("5").unwrap_err(),
            "\"5\" is not a time; write it like 250us, 10ms or 2s"
        );
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_the_range() {
        let wrong = "write a time from 0.05s to 60s, like 60s";
        for text in ["61", "61s", "0", "-1", "nan", "inf", "1e400"] {
            assert_eq!(seconds(text, 0.05..=60.0), Err(wrong.to_owned()), "{text}");
        }
        assert!(seconds("a while", 0.05..=60.0).is_err());
        assert!(whole("60.5us", "us", 50..=1000).is_err());
        assert!(share("101%", 0.0..=1.0).is_err());
        assert!(size("20kB", 64..=16_384).is_err());
    }

    #[test]
    fn shares_are_written_either_way() {
        for text in ["2%", "0.02", "2e-2", "2.0 %"] {
            assert_eq!(share(text, 0.0..=1.0), Ok(0.02), "{text}");
        }
        assert_eq!(share("150%", 0.0..=10.0), Ok(1.5));
        assert_eq!(share("1e-4", 0.0..=0.5), Ok(1e-4));
    }

    /// Every option, with the words that lead to it.
    fn options(command: &clap::Command, words: &str) -> Vec<(String, clap::Arg)> {
        let own = command
            .get_arguments()
            .filter(|arg| arg.get_long().is_some());
        let mut all: Vec<_> = own.map(|arg| (words.to_owned(), arg.clone())).collect();
        for inner in command.get_subcommands() {
            all.extend(options(inner, &format!("{words} {}", inner.get_name())));
        }
        all
    }

    /// Whether the option takes this text; what else its verb needs may be missing.
    fn takes(words: &str, arg: &clap::Arg, text: &str) -> bool {
        let option = format!("--{}={text}", arg.get_long().unwrap());
        let line = words.split(' ').chain([option.as_str()]);
        let parsed = crate::Cli::command().try_get_matches_from(line);
        parsed.map_or_else(|error| error.kind() != ErrorKind::ValueValidation, |_| true)
    }

    #[test]
    fn every_option_that_is_a_quantity_takes_it_with_its_unit() {
        let mut found = [0; 4];
        for (words, arg) in options(&crate::Cli::command(), "catena") {
            let name = arg.get_value_names().map_or("", |names| names[0].as_str());
            let texts: &[&str] = match name {
                "SPAN" => &["100ns", "300us", "200ms", "1s"],
                "SHARE" | "SHARES" => &["10%"],
                "RATE" => &["10kpps"],
                "SIZE" => &["2kB"],
                "SECONDS" | "US" | "NS" | "MS" | "OCTETS" | "PERCENT" => {
                    panic!("{words}: write SPAN, SIZE or SHARE, and take units")
                }
                _ => continue,
            };
            let which = ["SPAN", "SHARE", "RATE", "SIZE"];
            let which = which
                .iter()
                .position(|kind| name.starts_with(kind))
                .unwrap();
            found[which] += 1;
            let is_taken = texts.iter().any(|text| takes(&words, &arg, text));
            let option = arg.get_long();
            assert!(is_taken, "{words} {option:?} takes none of {texts:?}");
        }
        let [spans, shares, rates, sizes] = found;
        assert!(
            spans > 15 && shares > 5 && rates > 4 && sizes > 0,
            "{found:?}"
        );
    }
}
