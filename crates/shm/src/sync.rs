//! Atomics, real or model-checked: the one place that chooses.
//!
//! Everything that is handed over between threads or processes uses these types, so that loom
//! models of `ring`, `bell` and attach/detach run the code that ships (`RUSTFLAGS="--cfg loom"`).

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
