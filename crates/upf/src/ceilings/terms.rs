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

/// A slice as a number: SST in the highest octet, then the SD, all ones for none. Never 0.
pub const fn slice_number(sst: u8, sd: Option<u32>) -> u32 {
    let sd = match sd {
        Some(sd) => sd & 0xff_ffff,
        None => 0xff_ffff,
    };
    let number = (sst as u32) << 24 | sd;
    if number == 0 { 0xff_ffff } else { number }
}
