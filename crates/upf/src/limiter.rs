//! Limits of what the UPF sends by itself, per second: it must not be made to answer at will, and
//! one session must not use up what is for all.

use catena_flow::meter::{Gcra, GcraState};

/// Most advertisements per second, of all sessions.
pub const ADVERTISEMENTS_PER_S: u64 = 1000;

/// So many sessions at least it takes to use up a limit.
const SHARE_COUNT: u64 = 4;
/// Accounts of sessions: those with one number share one.
const ACCOUNT_COUNT: usize = 1024;

/// Limits how many messages of a kind are sent.
#[derive(Debug)]
pub struct Limiter {
    all: Option<Gcra>,
    state: GcraState,
    share: Option<Gcra>,
    /// What each session has used of its share; none where sessions have no shares.
    accounts: Vec<GcraState>,
}

impl Limiter {
    /// So many per second, none for 0.
    pub fn new(per_s: u64) -> Self {
        Self {
            all: Gcra::new(per_s, per_s.clamp(1, 100)).ok(),
            state: GcraState::default(),
            share: None,
            accounts: Vec::new(),
        }
    }

    /// So many per second, of which a session gets a fourth at most.
    pub fn shared(per_s: u64) -> Self {
        let share = per_s.div_ceil(SHARE_COUNT);
        Self {
            share: Gcra::new(share, share.clamp(1, 100 / SHARE_COUNT)).ok(),
            accounts: vec![GcraState::default(); ACCOUNT_COUNT],
            ..Self::new(per_s)
        }
    }

    pub(crate) fn passes(&mut self, now_ns: u64) -> bool {
        let all = self.all.as_ref();
        all.is_some_and(|all| all.passes(&mut self.state, now_ns, 1))
    }

    /// Whether one for the session in a slot may be sent; what its share stops costs the others
    /// nothing.
    pub(crate) fn passes_of(&mut self, slot: u32, now_ns: u64) -> bool {
        let account = self.accounts.get_mut(slot as usize % ACCOUNT_COUNT);
        let is_within = match (&self.share, account) {
            (Some(share), Some(account)) => share.passes(account, now_ns, 1),
            _ => true,
        };
        is_within && self.passes(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that asks without an end gets its share, and leaves the others theirs.
    #[test]
    fn a_session_gets_a_fourth_and_the_others_the_rest() {
        const SECOND_NS: u64 = 1_000_000_000;
        let mut limiter = Limiter::shared(100);
        let mut passed = [0_u32; 5];
        for ms in 0..4000 {
            for _ in 0..10 {
                passed[0] += u32::from(limiter.passes_of(7, ms * 1_000_000));
            }
            for (slot, passed) in (1..).zip(&mut passed[1..]) {
                // As many as the rest is enough for.
                if ms % 60 == 0 {
                    *passed += u32::from(limiter.passes_of(slot, ms * 1_000_000));
                }
            }
        }
        assert!((100..=4 * 25 + 25).contains(&passed[0]), "{passed:?}");
        assert!(passed[1..].iter().all(|one| *one == 67), "{passed:?}");
        assert!(!Limiter::shared(0).passes_of(1, SECOND_NS));
        assert!(Limiter::shared(1).passes_of(1, SECOND_NS));
    }
}
