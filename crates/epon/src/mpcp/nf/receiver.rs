//! The OLT's receiver: which bursts overlap, by stream time.
//!
//! Packets of different ONUs come over their links in any order. Frames of an ONU that follow each
//! other within its burst are one interval; the last [`KEPT`] of them are compared with what comes.
//! Requests of a discovery window may collide, and are judged when the window is over.

use catena_wire::ethernet::MacAddr;
use catena_wire::mpcp::Header;

use super::super::ONU_COUNT_MAX;

/// Bursts that are remembered: some cycles of all ONUs.
const KEPT: usize = 8 * ONU_COUNT_MAX;
/// Quanta between frames that are of one burst still: a gap, and rounding.
const JOIN: u64 = 4;
/// Requests that one window can hold; more are lost as if they had collided.
pub(super) const REQUESTS_MAX: usize = 4 * ONU_COUNT_MAX;

/// Who was heard, from when to when.
#[derive(Clone, Copy, Debug)]
struct Interval {
    llid: u16,
    from: u64,
    to: u64,
}

/// A request in a discovery window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Who asks.
    pub(super) src: MacAddr,
    /// What it says.
    pub(super) pdu: Header,
    /// When its first octet came.
    pub(super) arrival: u64,
    /// When the last one did.
    pub(super) end: u64,
}

/// What the OLT has heard lately.
#[derive(Debug)]
pub(super) struct Receiver {
    bursts: Vec<Interval>,
    /// Where the next burst goes.
    at: usize,
    requests: Vec<Request>,
}

impl Receiver {
    pub(super) fn new() -> Self {
        Self {
            bursts: Vec::with_capacity(KEPT),
            at: 0,
            requests: Vec::with_capacity(REQUESTS_MAX),
        }
    }

    /// Takes what `llid` sent from `from` to `to`; says whether somebody else sent meanwhile.
    pub(super) fn hear(&mut self, llid: u16, from: u64, to: u64) -> bool {
        let overlaps = self
            .bursts
            .iter()
            .any(|burst| burst.llid != llid && burst.from < to && from < burst.to);
        let joined = self
            .bursts
            .iter_mut()
            .find(|burst| burst.llid == llid && from >= burst.to && from <= burst.to + JOIN);
        if let Some(burst) = joined {
            burst.to = to;
            return overlaps;
        }
        let burst = Interval { llid, from, to };
        if self.bursts.len() < KEPT {
            self.bursts.push(burst);
        } else {
            self.bursts[self.at] = burst;
        }
        self.at = (self.at + 1) % KEPT;
        overlaps
    }

    /// Keeps a request until the window is over; false if there are too many.
    pub(super) fn keep(&mut self, request: Request) -> bool {
        let has_room = self.requests.len() < REQUESTS_MAX;
        if has_room {
            self.requests.push(request);
        }
        has_room
    }

    /// Whether requests wait to be judged.
    pub(super) fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// The window is over: gives those that nobody disturbed to `take`, and how many collided.
    pub(super) fn judge(&mut self, mut take: impl FnMut(&Request)) -> u64 {
        let mut lost = 0;
        for (index, request) in self.requests.iter().enumerate() {
            let is_hit = self.requests.iter().enumerate().any(|(other, with)| {
                other != index && with.arrival < request.end && request.arrival < with.end
            });
            if is_hit {
                lost += 1;
            } else {
                take(request);
            }
        }
        self.requests.clear();
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_wire::mpcp::{Message, RegisterReq};
    use proptest::prelude::*;

    proptest! {
        /// Goal: an overlap is found in whatever order bursts come. Method: all pairs, as long as
        /// no more come than are kept.
        #[test]
        fn overlaps_are_found_in_any_order(
            bursts in prop::collection::vec((1_u16..5, 0_u64..5_000, 5_u64..100), 1..60),
        ) {
            let mut receiver = Receiver::new();
            let mut heard: Vec<(u16, u64, u64)> = Vec::new();
            for (llid, from, len) in bursts {
                let to = from + len;
                let expected = heard.iter().any(|&(other, start, end)| {
                    other != llid && start < to && from < end
                });
                // Frames that are joined leave no gap, so nothing fits between them unnoticed that
                // is longer than the gap.
                let found = receiver.hear(llid, from, to);
                prop_assert!(found || !expected, "{} {} {}", llid, from, to);
                heard.push((llid, from, to));
            }
        }
    }

    #[test]
    fn frames_apart_are_bursts_apart_and_few_are_kept() {
        let mut receiver = Receiver::new();
        assert!(!receiver.hear(1, 0, 100));
        assert!(!receiver.hear(1, 104, 200), "of one burst");
        assert!(!receiver.hear(1, 400, 500), "of another");
        assert!(!receiver.hear(2, 300, 350), "between them");
        assert!(receiver.hear(2, 90, 110));
        for number in 0..1_000 {
            receiver.hear(3, 1_000 * (number + 1), 1_000 * (number + 1) + 10);
        }
        assert_eq!(receiver.bursts.len(), 256);
    }

    #[test]
    fn bursts_that_touch_do_not_overlap_and_frames_a_gap_apart_are_one() {
        let mut receiver = Receiver::new();
        assert!(!receiver.hear(1, 1_000, 1_100));
        assert!(!receiver.hear(2, 1_100, 1_200), "behind it");
        assert!(!receiver.hear(3, 900, 1_000), "before it");
        assert!(!receiver.hear(1, 1_010, 1_020), "its own");
        assert!(receiver.hear(4, 1_199, 1_250) && receiver.hear(4, 800, 901));
        let mut receiver = Receiver::new();
        receiver.hear(1, 0, 50);
        receiver.hear(1, 50, 100);
        receiver.hear(1, 104, 200);
        assert_eq!(receiver.bursts.len(), 1);
        receiver.hear(1, 205, 300);
        assert_eq!(receiver.bursts.len(), 2);
    }

    #[test]
    fn a_window_holds_so_many_requests() {
        let mut receiver = Receiver::new();
        let request = |number: u64| Request {
            src: MacAddr([2; 6]),
            pdu: Header {
                timestamp: 0,
                message: Message::RegisterReq(RegisterReq::default()),
            },
            arrival: 100 * number,
            end: 100 * number + 10,
        };
        for number in 0..128 {
            assert!(receiver.keep(request(number)));
        }
        assert!(!receiver.keep(request(9_999)));
    }

    #[test]
    fn requests_that_touch_are_taken_and_those_that_overlap_are_lost() {
        let mut receiver = Receiver::new();
        for (arrival, end) in [(0, 100), (100, 200), (300, 400), (350, 450), (449, 500)] {
            let request = Request {
                src: MacAddr([2; 6]),
                pdu: Header {
                    timestamp: 0,
                    message: Message::RegisterReq(RegisterReq::default()),
                },
                arrival,
                end,
            };
            assert!(receiver.keep(request));
        }
        let mut taken = Vec::new();
        assert_eq!(receiver.judge(|request| taken.push(request.arrival)), 3);
        assert_eq!(taken, [0, 100]);
        assert!(!receiver.has_requests());
    }
}
