//! What an operator says of ceilings, checked.
//!
//! Before any packet: `config` makes it of a chain file.

/// Most ceilings.
pub const CEILING_COUNT_MAX: usize = 64;
/// Whose ceiling it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A network instance, by place in the settings.
    Instance(u8),
    /// A slice, as [`Head::slice`](crate::rules::Head::slice) has it.
    Slice(u32),
}

/// What an operator says of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How it is shown.
    pub name: String,
    /// Whose it is.
    pub scope: Scope,
    /// Bytes per second uplink and downlink; none for no limit.
    pub bytes_per_s: [Option<u64>; 2],
    /// What QERs may guarantee in all, in kbit/s uplink and downlink.
    pub guaranteed_kbps: [Option<u64>; 2],
}

/// The SD of a slice that has none.
const NO_SD: u32 = 0xff_ffff;

/// A slice as a number: SST in the highest octet, then the SD, all ones for none. Never 0.
pub const fn slice_number(sst: u8, sd: Option<u32>) -> u32 {
    let sd = match sd {
        Some(sd) => sd & NO_SD,
        None => NO_SD,
    };
    let number = (sst as u32) << 24 | sd;
    if number == 0 { NO_SD } else { number }
}

/// The slice of a number as an operator writes it.
pub fn slice_name(number: u32) -> String {
    match number & NO_SD {
        NO_SD => (number >> 24).to_string(),
        sd => format!("{}-{sd:06x}", number >> 24),
    }
}

/// The number of a slice as an operator writes it, which is an S-NSSAI.
pub fn slice_named(text: &str) -> Option<u32> {
    let (sst, sd) = match text.split_once('-') {
        Some((sst, sd)) => (sst, Some(sd)),
        None => (text, None),
    };
    let is_sd = |sd: &&str| sd.len() == 6 && sd.bytes().all(|byte| byte.is_ascii_hexdigit());
    let sd = match sd {
        Some(sd) => Some(u32::from_str_radix(Some(sd).filter(is_sd)?, 16).ok()?),
        None => None,
    };
    Some(slice_number(sst.parse().ok()?, sd))
}
