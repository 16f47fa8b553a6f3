//! Measurement as data and decisions: searches, statistics, comparisons, plots and reports.
//!
//! Nothing here reads a clock, sends a packet or opens a file: what runs trials is given loads and
//! durations, and gives back counts and samples. A number that Catena prints comes through here.
//!
//! - [`blame`]: which component of a path takes the time.
//! - [`compare`]: whether B differs from A, by interleaving.
//! - [`flow_quality`]: loss, duplicates, reordering, corruption.
//! - [`latency`]: latency and its variation by name, and the machine's stalls apart.
//! - [`plot`]: figures as SVG text.
//! - [`report`]: a document of results as JSON, CSV and one HTML page.
//! - [`search`]: which trial to run next, and what the results say.
//! - [`stats`]: statistics of samples that are neither independent nor normal.

#![forbid(unsafe_code)]

pub mod blame;
pub mod compare;
pub mod flow_quality;
pub mod latency;
pub mod plot;
pub mod report;
pub mod search;
pub mod stats;
