//! The sliding window of FlowBlaze's policer, as FB5G uses it.
//!
//! A flow has a window from Tmin to Tmax, `burst` intervals long. A packet behind Tmax opens a new
//! window that ends an interval after it; one within the window slides it on by an interval; one
//! not behind Tmin is dropped. Conditions are looked at before the update, and Tmin itself belongs
//! to neither side, so that up to `burst` + 1 packets pass that are close together but not at the
//! same instant: one more than an exact bucket would let pass, which [`Gcra`](super::Gcra) is.

use super::credit::MeterError;

/// An interval per packet, and how many of them a window is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    interval_ns: i64,
    length_ns: i64,
}

/// The window's ends. Zeros: no packet has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowState {
    t_min_ns: i64,
    t_max_ns: i64,
}

impl WindowState {
    /// As two words of a flow's state.
    pub fn words(self) -> [u64; 2] {
        [self.t_min_ns.cast_unsigned(), self.t_max_ns.cast_unsigned()]
    }

    /// From two words of a flow's state. Any words are a state.
    pub fn from_words([t_min, t_max]: [u64; 2]) -> Self {
        Self {
            t_min_ns: t_min.cast_signed(),
            t_max_ns: t_max.cast_signed(),
        }
    }
}

impl Window {
    /// A packet per `interval_ns`, and `burst` of them.
    ///
    /// # Errors
    /// An interval or a burst of 0, or a window longer than 2⁶² ns.
    pub fn new(interval_ns: u64, burst: u64) -> Result<Self, MeterError> {
        let interval = i64::try_from(interval_ns).map_err(|_| MeterError::Rate)?;
        if interval == 0 {
            return Err(MeterError::Rate);
        }
        let max = (1 << 62) / interval_ns;
        let count = i64::try_from(burst)
            .ok()
            .filter(|_| (1..=max).contains(&burst));
        let count = count.ok_or(MeterError::Burst { burst, max })?;
        Ok(Self {
            interval_ns: interval,
            length_ns: interval * count,
        })
    }

    /// An interval and the window's length, in ns; both above 0.
    pub fn terms(&self) -> [i64; 2] {
        [self.interval_ns, self.length_ns]
    }

    /// Whether a packet passes at `now_ns`, below 2⁶²; if so, the window moves.
    #[inline]
    pub fn passes(&self, state: &mut WindowState, now_ns: u64) -> bool {
        let now = i64::try_from(now_ns).unwrap_or(i64::MAX);
        let is_new = state.t_min_ns == state.t_max_ns;
        let t_max = if is_new || now > state.t_max_ns {
            now.saturating_add(self.interval_ns)
        } else if now > state.t_min_ns {
            state.t_max_ns.saturating_add(self.interval_ns)
        } else {
            return false;
        };
        *state = WindowState {
            t_min_ns: t_max.saturating_sub(self.length_ns),
            t_max_ns: t_max,
        };
        true
    }
}
