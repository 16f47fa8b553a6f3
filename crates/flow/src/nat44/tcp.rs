//! How far a TCP connection has come, as far as its timeout depends on it.
//!
//! Asked for each segment of a session by `translator`; eight bits, kept in the session. Sequence
//! numbers are not followed: whoever guesses addresses and ports can shorten a connection's timeout
//! by a RST, but the next packet from inside makes it long again. Specification: RFC 5382 section
//! 5, RFC 7857 section 2.

use catena_wire::tcp::Flags;

/// What was seen of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress(pub(super) u8);

const SYN_OUT: u8 = 1;
const SYN_IN: u8 = 2;
const OPEN: u8 = 4;
const FIN_OUT: u8 = 8;
const FIN_IN: u8 = 16;
const RESET: u8 = 32;

impl Progress {
    /// After the first segment from inside; none if it opens no connection.
    pub(super) fn begin(flags: Flags) -> Option<Self> {
        let opens = flags.contains(Flags::SYN) && !flags.contains(Flags::RST);
        // Whoever acknowledges a SYN has been sent one, which passed without a session.
        let answers = if flags.contains(Flags::ACK) {
            SYN_IN
        } else {
            0
        };
        opens.then_some(Self(SYN_OUT | answers))
    }

    /// After one more segment.
    pub(super) fn next(self, flags: Flags, from_inside: bool) -> Self {
        let (syn, fin) = match from_inside {
            true => (SYN_OUT, FIN_OUT),
            false => (SYN_IN, FIN_IN),
        };
        if flags.contains(Flags::RST) {
            return Self(self.0 | RESET);
        }
        if flags.contains(Flags::SYN) {
            // The same ports again, once the connection before is over (RFC 7857 section 2.3). From
            // outside not behind a reset alone, which whoever guesses ports can send.
            let is_over = match from_inside {
                true => self.is_over(),
                false => self.is_closed(),
            };
            let begins_anew = is_over && !flags.contains(Flags::ACK);
            return Self(if begins_anew { syn } else { self.0 | syn });
        }
        let mut seen = self.0;
        if from_inside {
            seen &= !RESET;
        }
        if seen & (SYN_OUT | SYN_IN) == SYN_OUT | SYN_IN && flags.contains(Flags::ACK) {
            seen |= OPEN;
        }
        if flags.contains(Flags::FIN) {
            seen |= fin;
        }
        Self(seen)
    }

    /// Whether both sides have closed it.
    const fn is_closed(self) -> bool {
        self.0 & (FIN_OUT | FIN_IN) == FIN_OUT | FIN_IN
    }

    const fn is_over(self) -> bool {
        self.0 & RESET != 0 || self.is_closed()
    }

    /// Whether it is open both ways and not closed from both: then its timeout is the long one.
    pub(super) const fn is_established(self) -> bool {
        self.0 & OPEN != 0 && !self.is_over()
    }

    /// For people.
    pub(super) const fn name(self) -> &'static str {
        match (self.is_established(), self.is_over()) {
            (true, _) => "established",
            (_, true) => "closing",
            _ => "opening",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYN: Flags = Flags::SYN;
    const ACK: Flags = Flags::ACK;
    const FIN: Flags = Flags(0x011);
    const SYN_ACK: Flags = Flags(0x012);

    fn after(segments: &[(Flags, bool)]) -> Progress {
        let (first, rest) = segments.split_first().unwrap();
        let begun = Progress::begin(first.0).unwrap();
        rest.iter().fold(begun, |progress, (flags, inside)| {
            progress.next(*flags, *inside)
        })
    }

    #[test]
    fn a_connection_is_established_by_its_handshake_and_until_both_sides_close() {
        let mut segments = vec![(SYN, true), (SYN_ACK, false)];
        assert!(!after(&segments).is_established());
        segments.push((ACK, true));
        assert!(after(&segments).is_established());
        segments.push((FIN, true));
        assert!(after(&segments).is_established(), "half closed");
        segments.push((FIN, false));
        assert!(!after(&segments).is_established());
        segments.push((ACK, true));
        assert_eq!(after(&segments).name(), "closing");
        segments.push((SYN, true));
        assert_eq!(after(&segments).name(), "opening");
    }

    #[test]
    fn one_that_both_have_closed_begins_anew_from_either_side() {
        let closed = [
            (SYN, true),
            (SYN_ACK, false),
            (ACK, true),
            (FIN, true),
            (FIN, false),
        ];
        for is_inside in [true, false] {
            let again = [(SYN, is_inside), (SYN_ACK, !is_inside)];
            let again = [&closed[..], &again].concat();
            assert_eq!(after(&again).name(), "opening");
            let again = [&again[..], &[(ACK, is_inside)]].concat();
            assert_eq!(after(&again).name(), "established", "{is_inside}");
        }
        // From outside neither a late answer nor a SYN behind a reset alone.
        for more in [(SYN_ACK, false), (Flags::RST, false)] {
            let still = [&closed[..], &[more]].concat();
            assert_eq!(after(&still).name(), "closing");
        }
        let reset = [&closed[..3], &[(Flags::RST, false), (SYN, false)]].concat();
        assert_eq!(after(&reset).name(), "closing");
    }

    #[test]
    fn simultaneous_open_and_a_server_inside_are_established_too() {
        let crossing = [(SYN, true), (SYN, false), (SYN_ACK, true), (SYN_ACK, false)];
        assert!(!after(&crossing).is_established());
        assert!(after(&[&crossing[..], &[(ACK, true)]].concat()).is_established());
        assert!(after(&[(SYN_ACK, true), (ACK, false)]).is_established());
    }

    #[test]
    fn a_reset_is_undone_by_whoever_goes_on_inside() {
        let open = [(SYN, true), (SYN_ACK, false), (ACK, true)];
        let reset = [&open[..], &[(Flags::RST, false), (ACK, false)]].concat();
        assert_eq!(after(&reset).name(), "closing");
        assert!(after(&[&reset[..], &[(ACK, true)]].concat()).is_established());
    }

    #[test]
    fn only_a_syn_begins() {
        for flags in [ACK, FIN, Flags::RST, Flags(0), Flags(0x006)] {
            assert_eq!(Progress::begin(flags), None, "{flags}");
        }
    }
}
