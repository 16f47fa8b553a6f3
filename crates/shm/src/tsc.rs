//! The clock: the processor's time-stamp counter, calibrated to nanoseconds.
//!
//! Read once per turn by the worker; everything below is given the time. Where the counter is not
//! invariant, or on another architecture, the kernel's monotonic clock is used instead. Both count
//! from an arbitrary start, the same for all processes of a machine, and never run backwards.
#![allow(unsafe_code, reason = "the time-stamp counter is read by an intrinsic")]

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A calibrated clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Nanoseconds per tick, as a fraction of 2^32; 0: use the kernel's clock.
    scale: u64,
    /// Kernel time that belongs to tick `base`.
    base_ns: u64,
    base: u64,
}

/// The raw counter, for differences between stamps of any two processes of this machine.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: RDTSC exists on every x86-64 processor and has no other effect.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The raw counter, read after all earlier loads are done: for timing a single step.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn ticks_after_loads() -> u64 {
    // SAFETY: LFENCE is part of SSE2, which every x86-64 processor has; it accesses no memory.
    unsafe { core::arch::x86_64::_mm_lfence() };
    ticks()
}

/// Without a counter: the kernel's clock.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub fn ticks_after_loads() -> u64 {
    kernel_ns()
}

/// Without a counter: the kernel's clock.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub fn ticks() -> u64 {
    kernel_ns()
}

/// Nanoseconds per tick, measured over `span`.
pub fn ns_per_tick(span: Duration) -> f64 {
    let (start_ns, start) = (kernel_ns(), ticks());
    let since = Instant::now();
    while since.elapsed() < span {
        std::hint::spin_loop();
    }
    let (end_ns, end) = (kernel_ns(), ticks());
    #[expect(clippy::cast_precision_loss, reason = "a ratio of spans")]
    let ratio = (end_ns - start_ns) as f64 / (end - start).max(1) as f64;
    ratio
}

/// Nanoseconds on the kernel's monotonic clock.
pub fn kernel_ns() -> u64 {
    u64::try_from(ns_of(ClockId::Monotonic)).unwrap_or(0)
}

/// Nanoseconds since 1970 when the kernel's monotonic clock showed 0. Whoever tells the time of day
/// takes it once: a step of the wall clock does not make later times jump.
pub fn epoch_ns() -> i128 {
    ns_of(ClockId::Realtime) - ns_of(ClockId::Monotonic)
}

fn ns_of(clock: ClockId) -> i128 {
    let time = clock_gettime(clock);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// Whether the kernel itself trusts the counter.
fn is_invariant() -> bool {
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        )
        .is_ok_and(|source| source.trim() == "tsc" || source.trim() == "kvm-clock")
        && std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|info| info.contains("nonstop_tsc"))
}

impl Clock {
    /// A clock calibrated over `span`; 10 ms give about 10 ppm.
    pub fn calibrate(span: Duration) -> Self {
        if !is_invariant() {
            return Self {
                scale: 0,
                base_ns: 0,
                base: 0,
            };
        }
        let pair = || {
            // The closest of several readings, so that an interruption does not count.
            (0..5)
                .map(|_| {
                    let before = ticks();
                    let ns = kernel_ns();
                    let after = ticks();
                    (after - before, before + (after - before) / 2, ns)
                })
                .min()
                .map_or((0, 0), |(_, tick, ns)| (tick, ns))
        };
        let (base, base_ns) = pair();
        let start = Instant::now();
        while start.elapsed() < span {
            std::hint::spin_loop();
        }
        let (end, end_ns) = pair();
        let ratio = u128::from(end_ns - base_ns) << 32;
        let scale = ratio / u128::from((end - base).max(1));
        Self {
            scale: u64::try_from(scale).unwrap_or(0),
            base_ns,
            base,
        }
    }

    /// The same clock from its parts, as another process calibrated it.
    pub fn from_parts([scale, base_ns, base]: [u64; 3]) -> Self {
        Self {
            scale,
            base_ns,
            base,
        }
    }

    /// The parts, to be passed to another process of this machine.
    pub fn parts(&self) -> [u64; 3] {
        [self.scale, self.base_ns, self.base]
    }

    /// Nanoseconds now.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        if self.scale == 0 {
            return kernel_ns();
        }
        let elapsed = ticks().saturating_sub(self.base);
        #[expect(clippy::cast_possible_truncation, reason = "584 years of nanoseconds")]
        let ns = ((u128::from(elapsed) * u128::from(self.scale)) >> 32) as u64;
        self.base_ns + ns
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_kernel_and_never_runs_backwards() {
        let clock = Clock::calibrate(Duration::from_millis(20));
        let mut last = 0;
        for _ in 0..1000 {
            let before = kernel_ns();
            let now = clock.now_ns();
            let after = kernel_ns();
            assert!(now >= last);
            last = now;
            // 0.5 ms of slack for a calibration that was interrupted.
            assert!(
                now + 500_000 > before && now < after + 500_000,
                "{before} {now} {after}"
            );
        }
    }
}
