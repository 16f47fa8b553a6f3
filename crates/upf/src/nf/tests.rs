//! The NF on a bench.
