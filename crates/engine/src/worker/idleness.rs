//! How long a worker has had nothing to do, and how often it gives way before it sleeps.
//!
//! Between two turns that moved nothing. Falling asleep and being woken cost more than what they
//! save where the next burst is on its way. While bursts are full, a worker therefore gives way
//! more often first; while they are not, it sleeps soon: a sleeper that is woken goes before those
//! that only gave way, and that is what keeps the tail of a light load short.

use crate::wait::WaitPolicy;

/// How often a worker gives way before it sleeps while bursts are full (ADR 7).
const YIELDS_UNDER_LOAD: u32 = 20;

/// How long a worker that waits for a near instant keeps its core from others at a time.
const AWAKE_ALONE_NS: u64 = 100_000;

/// How long nothing has moved.
#[derive(Debug, Default)]
pub(super) struct Idleness {
    since_ns: Option<u64>,
    yields: u32,
    yielded_at_ns: u64,
    /// Known from the first question on.
    yields_max: Option<u32>,
    /// Packets and busy turns when that was last asked.
    packets: u64,
    busy_turns: u64,
}

impl Idleness {
    /// Something moved.
    pub(super) fn end(&mut self) {
        self.since_ns = None;
        self.yields = 0;
        self.yields_max = None;
    }

    /// Nothing moves at `now`; for how long already.
    pub(super) fn go_on(&mut self, now: u64) -> u64 {
        now.saturating_sub(*self.since_ns.get_or_insert(now))
    }

    /// Whether to give way once more before sleeping. `sums` are packets and busy turns since the
    /// start, asked for only the first time, after spinning: adding up is no part of a lone
    /// packet's way. `burst` is the most packets of a turn.
    pub(super) fn may_yield(
        &mut self,
        policy: WaitPolicy,
        burst: usize,
        sums: impl FnOnce() -> (u64, u64),
    ) -> bool {
        let max = self.yields_max.unwrap_or_else(|| {
            let (packets, busy_turns) = sums();
            let turns = busy_turns.saturating_sub(self.busy_turns);
            let moved = packets.saturating_sub(self.packets);
            (self.packets, self.busy_turns) = (packets, busy_turns);
            // Half of a burst, since turns that only take buffers back count too.
            let is_loaded = turns > 0 && moved >= turns * burst as u64 / 2;
            match policy.yields {
                0 => 0,
                yields if is_loaded => yields.max(YIELDS_UNDER_LOAD),
                yields => yields,
            }
        });
        self.yields_max = Some(max);
        self.yields < max
    }

    /// Whether to give way at `now`, while a near instant is waited for awake: at first, so that
    /// those who were woken may run, and from time to time.
    pub(super) fn owes_a_yield(&self, now: u64) -> bool {
        self.yields == 0 || now.saturating_sub(self.yielded_at_ns) >= AWAKE_ALONE_NS
    }

    /// It gave way, at `now`.
    pub(super) fn yielded(&mut self, now: u64) {
        self.yields = self.yields.saturating_add(1);
        self.yielded_at_ns = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: WaitPolicy = WaitPolicy {
        spin_ns: 0,
        yields: 3,
        sleeps: true,
    };

    fn yields(idle: &mut Idleness, policy: WaitPolicy, sums: (u64, u64)) -> u32 {
        let mut count = 0;
        loop {
            idle.go_on(7);
            if !idle.may_yield(policy, 64, || sums) {
                break;
            }
            idle.yielded(7);
            count += 1;
        }
        idle.end();
        count
    }

    #[test]
    fn full_bursts_keep_a_worker_awake_for_longer() {
        let mut idle = Idleness::default();
        assert_eq!(yields(&mut idle, POLICY, (0, 0)), 3);
        assert_eq!(yields(&mut idle, POLICY, (64, 1)), YIELDS_UNDER_LOAD);
        assert_eq!(yields(&mut idle, POLICY, (128, 3)), YIELDS_UNDER_LOAD);
        // A packet per turn, then none at all.
        assert_eq!(yields(&mut idle, POLICY, (138, 13)), 3);
        assert_eq!(yields(&mut idle, POLICY, (138, 13)), 3);
    }

    #[test]
    fn a_policy_that_only_sleeps_is_kept() {
        let policy = WaitPolicy {
            yields: 0,
            ..POLICY
        };
        assert_eq!(yields(&mut Idleness::default(), policy, (6400, 100)), 0);
    }

    #[test]
    fn time_counts_from_when_it_began() {
        let mut idle = Idleness::default();
        assert_eq!(idle.go_on(100), 0);
        assert_eq!(idle.go_on(150), 50);
        idle.end();
        assert_eq!(idle.go_on(200), 0);
    }

    #[test]
    fn whoever_waits_awake_gives_way_at_first_and_from_time_to_time() {
        let mut idle = Idleness::default();
        idle.go_on(7);
        assert!(idle.owes_a_yield(7));
        idle.yielded(7);
        assert!(!idle.owes_a_yield(8));
        assert!(!idle.owes_a_yield(AWAKE_ALONE_NS + 6));
        assert!(idle.owes_a_yield(AWAKE_ALONE_NS + 7));
        idle.end();
        assert!(idle.owes_a_yield(AWAKE_ALONE_NS + 8));
    }
}
