//! Measurement as data and decisions: searches, statistics, comparisons, plots and reports.
//!
//! Nothing here reads a clock, sends a packet or opens a file: what runs trials is given loads and
//! durations, and gives back counts and samples. A number that Catena prints comes through here.
//!
//! - [`plot`]: figures as SVG text.

#![forbid(unsafe_code)]

pub mod plot;
