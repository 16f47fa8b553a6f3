//! Measurement as data and decisions: traffic, searches, statistics, comparisons, plots, reports.
//!
//! What runs trials is given loads and durations, and gives back counts and samples. Only the
//! doctor, the ports and the trials touch a clock or the machine. A number that Catena prints comes
//! through here.
//!
//! - [`blame`]: which component of a path takes the time.
//! - [`compare`]: whether B differs from A, by interleaving.
//! - [`device`]: a chain as the device under test, trial by trial.
//! - [`doctor`]: what this machine is and lacks as a place to measure; its P and C states.
//! - [`flow_quality`]: loss, duplicates, reordering, corruption.
//! - [`latency`]: latency and its variation by name, and the machine's stalls apart.
//! - [`plot`]: figures as SVG text.
//! - [`profile`]: traffic profiles as YAML, and all that is wrong with one.
//! - [`report`]: a document of results as JSON, CSV and one HTML page.
//! - [`search`]: which trial to run next, and what the results say.
//! - [`stamp`]: flow, sequence number and intended send time in a packet's last bytes.
//! - [`stats`]: statistics of samples that are neither independent nor normal.
//! - [`study`]: factors crossed with each other, measured in turns.
//! - [`traffic`]: the schedule of a profile, the ports that send and receive it, and trials.

#![forbid(unsafe_code)]

pub mod blame;
pub mod compare;
mod csv;
pub mod device;
pub mod doctor;
pub mod flow_quality;
pub mod latency;
pub mod plot;
pub mod probes;
pub mod profile;
pub mod report;
pub mod search;
pub mod stamp;
pub mod stats;
pub mod study;
pub mod traffic;
