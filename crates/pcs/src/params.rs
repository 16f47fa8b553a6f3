// SPDX-License-Identifier: Apache-2.0
//! Constants of the coding, and the parameters of which the source is not certain.
//!
//! Each field of [`Params`] says which clause of IEEE 802.3-2022 settles it. The defaults are what
//! public sources and the state machines suggest; conformance is not claimed before that check.

/// Payload blocks of a codeword (IEEE 802.3 76.3.2.4).
pub const DATA_BLOCKS: usize = 27;
/// Parity blocks of a codeword.
pub const PARITY_BLOCKS: usize = 4;
/// All blocks of a codeword.
pub const BLOCKS: usize = DATA_BLOCKS + PARITY_BLOCKS;
/// Bits of a block on the line.
pub const BLOCK_BITS: usize = 66;
/// Bits of a codeword on the line: four codewords are 1023 bytes.
pub const CODEWORD_BITS: usize = BLOCKS * BLOCK_BITS;
/// Bits of a codeword that the code protects: 27 blocks without one header bit each, and 32
/// octets of parity. The headers of parity blocks, and one of each other, are not among them.
pub const PROTECTED_BITS: usize = DATA_BLOCKS * 65 + PARITY_BLOCKS * 64;
/// Line rate in bits per second.
pub const LINE_RATE_BPS: u64 = 10_312_500_000;
/// Sync headers of the four parity blocks, first bit on the line in bit 0: 00, 11, 11, 00.
pub const PARITY_HEADERS: [u8; PARITY_BLOCKS] = [0b00, 0b11, 0b11, 0b00];
/// Zero bits in front of the 27 · 65 bits that the code protects; not sent.
pub const PAD_BITS: usize = 29;
/// Which of the two header bits the code protects: the second. Its complement is the first.
///
/// Uncertain: 76.3.2.4.2 and the example of Annex 76A decide. 10GBASE-KR (Clause 74) keeps the
/// second.
pub const KEPT_HEADER_BIT: u32 = 1;
/// Header that marks blocks of an uncorrectable codeword.
///
/// Uncertain: 76.3.3.3 may mark with 00 or with 11. Both are invalid, so decoding is the same.
pub const FAILED_HEADER: u8 = 0b00;
/// Shortest Ethernet frame with its check sequence, in octets.
pub const FRAME_LEN_WITH_FCS_MIN: usize = 64;
/// Octets of a preamble.
pub const PREAMBLE_LEN: usize = 8;
/// Octets of a frame check sequence.
pub const FCS_LEN: usize = 4;
/// Average gap between frames, /T/ included, in octets (IEEE 802.3 46.3.1.4).
pub const GAP_LEN: usize = 12;

/// Thresholds and lengths. The defaults suit 10GBASE-PR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Consecutive codewords whose 31 headers must fit before an ONU is locked. 76.3.3.2.
    pub lock_codewords: usize,
    /// Consecutive bad codewords after which lock or burst is lost. 76.3.3.2 and 76.3.3.1.
    pub loss_codewords: usize,
    /// Wrong headers from which a codeword is bad even if it was corrected. 76.3.3.2.
    pub loss_headers: usize,
    /// Bits in which a burst delimiter may differ. 76.3.3.1.
    pub delimiter_errors_max: u32,
    /// Ones that a terminator of 198 zeros may have. 76.3.2.5.1 gives the terminator itself; a
    /// codeword has some 99 ones in as many bits, seven standard deviations away.
    pub terminator_ones_max: u32,
    /// Blocks of sync pattern in front of a burst: SyncTime of discovery. 77.3.3.
    pub sync_blocks: usize,
    /// DelayBound: a burst ends at the first codeword's end at which more idle blocks than this
    /// have gone into the data detector's FIFO. None is [`Params::fifo_blocks`], the least that
    /// makes sense: bursts then end with 0 to 26 idle blocks. 76.3.2.5.
    pub delay_bound: Option<usize>,
    /// Idle blocks that open a burst, the first for the descrambler, the second as gap. 76.3.2.1.
    pub opening_idles: usize,
    /// Codewords over which the BER monitor counts wrong headers. Uncertain: 76.3.3.4. Here 125 us,
    /// the window of Clause 49.
    pub ber_window_codewords: u32,
    /// Wrong headers in that time from which BER is high. Uncertain: 76.3.3.4. Clause 49 has 16,
    /// which a line at the design point of the PMDs (1e-3, 39 wrong headers) would always exceed;
    /// here 64, a bit error rate of 1.6e-3.
    pub ber_headers_max: u32,
    /// Whether frames are withheld while BER is high, as Figure 49-15 does. Uncertain: 76.3.3.4
    /// may only report it.
    pub high_ber_withholds: bool,
    /// Longest frame with its check sequence, in octets. The envelope frame of 3.2.7 has 2000.
    pub frame_len_with_fcs_max: usize,
    /// Whether a start block ends the error state of the receiver. Figure 49-15 is read as: only
    /// idle, data and termination do.
    pub start_leaves_error: bool,
}

impl Params {
    /// Blocks that wait in the data detector's FIFO while a burst is sent: what comes while the
    /// sync pattern goes out, two idle blocks, delimiter, start and the block behind it.
    pub const fn fifo_blocks(&self) -> usize {
        self.sync_blocks + 5
    }
}

impl Default for Params {
    fn default() -> Self {
        Self {
            lock_codewords: 2,
            loss_codewords: 3,
            loss_headers: 16,
            delimiter_errors_max: 11,
            terminator_ones_max: 40,
            sync_blocks: 64,
            delay_bound: None,
            opening_idles: 2,
            ber_window_codewords: 630,
            ber_headers_max: 64,
            high_ber_withholds: false,
            frame_len_with_fcs_max: 2000,
            start_leaves_error: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: document and code name the same parameters with the same defaults. Method: rows of the
    /// page's table against what `Debug` shows, so that no field can be left out of either.
    #[test]
    fn the_defaults_are_those_that_are_documented() {
        let page = include_str!("../../../docs/internals/pcs.md");
        let (_, section) = page.split_once("\n## Parameters\n").unwrap();
        let section = section.split("\n## ").next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        let documented: Vec<String> = rows
            .map(|row| {
                let mut cells = row.trim_matches('|').split('|').map(str::trim);
                let name = cells.next().unwrap().trim_matches('`');
                format!("{name}: {},", cells.next().unwrap())
            })
            .collect();
        let shown = format!("{:#?}", Params::default());
        let fields = shown.lines().filter(|line| line.starts_with("    "));
        let fields: Vec<&str> = fields.map(str::trim).collect();
        assert_eq!(documented, fields, "docs/internals/pcs.md, Parameters");
    }

    #[test]
    fn the_fifo_holds_what_comes_while_a_burst_opens() {
        let params = Params {
            sync_blocks: 64,
            ..Params::default()
        };
        // Sync pattern, two idle blocks, delimiter, start, and the block behind it.
        assert_eq!(params.fifo_blocks(), 64 + 2 + 1 + 1 + 1);
    }
}
