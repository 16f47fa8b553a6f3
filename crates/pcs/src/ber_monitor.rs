// SPDX-License-Identifier: Apache-2.0
//! The BER monitor: wrong headers before correction, counted over windows of codewords
//! (IEEE 802.3 76.3.3.4; Figure 49-13).
//!
//! | state | left for | when |
//! |---|---|---|
//! | low | high | the window has as many wrong headers as the limit |
//! | high | low | a whole window ends with fewer |

use crate::params::Params;

/// Watches one receiver's headers.
#[derive(Clone, Debug)]
pub(crate) struct BerMonitor {
    window: u32,
    limit: u32,
    codewords: u32,
    headers: u32,
    is_high: bool,
}

impl BerMonitor {
    pub(crate) fn new(params: &Params) -> Self {
        Self {
            window: params.ber_window_codewords,
            limit: params.ber_headers_max,
            codewords: 0,
            headers: 0,
            is_high: false,
        }
    }

    /// Whether BER is high.
    pub(crate) fn is_high(&self) -> bool {
        self.is_high
    }

    /// Takes a codeword's wrong headers. True if by them the window has too many.
    #[inline]
    pub(crate) fn step(&mut self, wrong_headers: u32) -> bool {
        let was_below = self.headers < self.limit;
        self.headers = self.headers.saturating_add(wrong_headers);
        let is_beyond = self.headers >= self.limit;
        self.is_high |= is_beyond;
        self.codewords += 1;
        if self.codewords >= self.window {
            self.is_high = is_beyond;
            (self.codewords, self.headers) = (0, 0);
        }
        was_below && is_beyond
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ber_is_high_from_the_limit_on_until_a_window_below_it_ends() {
        let mut monitor = BerMonitor::new(&Params {
            ber_window_codewords: 4,
            ber_headers_max: 3,
            ..Params::default()
        });
        let mut steps =
            |wrong: [u32; 4]| wrong.map(|wrong| (monitor.step(wrong), monitor.is_high()));
        let (new, high, low) = ((true, true), (false, true), (false, false));
        assert_eq!(steps([1, 1, 0, 0]), [low; 4], "one below the limit");
        assert_eq!(steps([1, 1, 1, 5]), [low, low, new, high]);
        assert_eq!(steps([0, 2, 0, 0]), [high, high, high, low]);
        assert_eq!(
            steps([0, 0, 0, 3]),
            [low, low, low, new],
            "with the last of a window"
        );
    }
}
