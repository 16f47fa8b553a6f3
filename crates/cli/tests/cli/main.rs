//! The command as people use it: the real binary, real files, a runtime folder of its own per test.

mod documents;
mod files;
mod harness;
mod measure;
mod measuring;
mod metrics;
mod running;
mod terminal;
