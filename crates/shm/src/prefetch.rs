//! Fetching cache lines before they are needed.
//!
//! Beside a packet's life: a line that the other side of a link has written or read last takes a
//! hundred nanoseconds to come; a dozen are under way at once if they are asked for in time.
//! JUSTIFICATION: `cargo xtask bench link`.
#![allow(
    unsafe_code,
    reason = "a prefetch is an intrinsic or an instruction of the processor"
)]

use std::ptr::NonNull;

/// Starts to fetch the line in which `value` begins, for reading.
#[inline(always)]
pub fn line<T>(value: &T) {
    for_reading(NonNull::from(value).cast());
}

/// Starts to fetch the line at `address` for reading.
#[inline(always)]
pub(crate) fn for_reading(address: NonNull<u8>) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing the program could see and cannot fault.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(
            address.as_ptr().cast_const().cast(),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Starts to fetch the line at `address` for writing: nobody else has it then.
///
/// An instruction of its own, because the intrinsic becomes a prefetch for reading unless the whole
/// build requires newer processors, and the line then has to be fetched twice. Processors without
/// it take it for no operation.
#[inline(always)]
pub(crate) fn for_writing(address: NonNull<u8>) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch changes nothing the program could see and cannot fault.
    unsafe {
        core::arch::asm!(
            "prefetchw [{at}]",
            at = in(reg) address.as_ptr(),
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
