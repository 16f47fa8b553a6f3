//! How long a thread may be kept waiting for a core, where the kernel lets it say so.
//!
//! Control path. Since Linux 6.12 a thread of the ordinary policy may ask for shorter slices
//! (`sched_runtime` of `sched_setattr`): it then runs sooner after it wakes, and for no longer than
//! that at a time. It costs no privilege and takes nothing from others but the wait. What a thread
//! has asked for is inherited by the threads and processes it starts. Older kernels ignore it.
#![allow(unsafe_code, reason = "two system calls that no safe interface offers")]

use std::time::Duration;

/// The shortest slice that the kernel gives.
pub const SHORTEST_SLICE: Duration = Duration::from_micros(100);

/// The kernel's `struct sched_attr`, first version.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SIZE: u32 = 48;
const _: () = assert!(size_of::<SchedAttr>() == SIZE as usize);

/// Asks for slices of `slice` for this thread, or for the usual ones. Says whether the kernel took
/// it; threads of a real-time policy are left alone.
pub fn ask_for_slices(slice: Option<Duration>) -> bool {
    let Some(mut attr) = own_attr() else {
        return false;
    };
    if !matches!(
        attr.policy.cast_signed(),
        libc::SCHED_OTHER | libc::SCHED_BATCH
    ) {
        return false;
    }
    let nanos = slice.map_or(0, |slice| slice.as_nanos());
    attr.runtime = u64::try_from(nanos).unwrap_or(u64::MAX);
    // SAFETY: 0 is the calling thread; the kernel reads `SIZE` bytes of a live struct.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    result == 0
}

fn own_attr() -> Option<SchedAttr> {
    let mut attr = SchedAttr {
        size: SIZE,
        ..SchedAttr::default()
    };
    // SAFETY: 0 is the calling thread; the kernel writes at most `SIZE` bytes into a live struct of
    // integers.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, SIZE, 0) };
    (result == 0).then_some(attr)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_policy_and_gets_its_slice_where_the_kernel_can() {
        let before = own_attr().unwrap();
        assert!(ask_for_slices(Some(SHORTEST_SLICE)));
        let after = own_attr().unwrap();
        assert_eq!((after.policy, after.nice), (before.policy, before.nice));
        // An older kernel says 0.
        assert!([0, 100_000].contains(&after.runtime), "{after:?}");
        let inherited = std::thread::spawn(|| own_attr().unwrap().runtime).join();
        assert_eq!(inherited.unwrap(), after.runtime);
        assert!(ask_for_slices(None));
        assert_eq!(own_attr().unwrap().runtime, before.runtime);
    }
}
