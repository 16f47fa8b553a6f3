//! The upstream of a simulated PON at the OLT's receiver: what overlaps is lost.

/// A burst on its way, or just received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OnLine {
    /// Its number.
    pub(super) id: u64,
    /// The ONU that sends it.
    pub(super) onu: usize,
    /// Light from here, in picoseconds at the receiver.
    pub(super) from_ps: u64,
    /// To here.
    pub(super) to_ps: u64,
    /// Whether another burst overlaps it.
    pub(super) is_hit: bool,
}

/// How long a burst is remembered after its end: it is judged then at the latest.
const KEPT_PS: u64 = 1_000_000_000;

/// Bursts that may still overlap with one to come.
#[derive(Debug, Default)]
pub(super) struct Line {
    bursts: Vec<OnLine>,
    next_id: u64,
    /// Bursts that overlapped with others.
    pub(super) hits: u64,
}

impl Line {
    /// A burst that will arrive from `from_ps` to `to_ps`. `now_ps` is not after any burst to come.
    pub(super) fn add(&mut self, onu: usize, from_ps: u64, to_ps: u64, now_ps: u64) -> u64 {
        self.bursts.retain(|burst| burst.to_ps + KEPT_PS > now_ps);
        let mut is_hit = false;
        for other in &mut self.bursts {
            if other.from_ps < to_ps && from_ps < other.to_ps {
                is_hit = true;
                self.hits += u64::from(!std::mem::replace(&mut other.is_hit, true));
            }
        }
        self.hits += u64::from(is_hit);
        self.next_id += 1;
        self.bursts.push(OnLine {
            id: self.next_id,
            onu,
            from_ps,
            to_ps,
            is_hit,
        });
        self.next_id
    }

    /// Whether the burst is whole, as far as is known now.
    pub(super) fn is_whole(&self, id: u64) -> bool {
        let burst = self.bursts.iter().find(|burst| burst.id == id);
        burst.is_none_or(|burst| !burst.is_hit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_that_touch_are_whole_and_those_that_overlap_are_not() {
        let mut line = Line::default();
        let first = line.add(0, 100, 200, 0);
        let second = line.add(1, 200, 300, 0);
        let third = line.add(2, 299, 400, 0);
        assert!(line.is_whole(first));
        assert!(!line.is_whole(second) && !line.is_whole(third));
        assert_eq!(line.hits, 2);
        line.add(3, 350, 360, 0);
        assert_eq!(line.hits, 3, "the third was hit before");
        let before = line.add(4, 50, 100, 0);
        assert!(line.is_whole(before) && line.is_whole(first));
    }

    #[test]
    fn a_burst_is_remembered_for_a_millisecond_behind_its_end() {
        for (now_ps, left) in [(1_000_000_199, 2), (1_000_000_200, 1)] {
            let mut line = Line::default();
            line.add(0, 100, 200, 0);
            line.add(1, now_ps, now_ps + 1, now_ps);
            assert_eq!(line.bursts.len(), left, "{now_ps}");
        }
    }
}
