//! Measurement as data and decisions: traffic, searches, statistics, comparisons, plots, reports.
//!
//! What runs trials is given loads and durations, and gives back counts and samples. A number that
//! Catena prints comes through here.
//!
//! - [`doctor`]: what this machine is and lacks as a place to measure; its P and C states.
//! - [`profile`]: traffic profiles as YAML, and all that is wrong with one.
//! - [`stamp`]: flow, sequence number and intended send time in a packet's last bytes.
//! - [`traffic`]: the schedule of a profile, the ports that send and receive it, and trials.

#![forbid(unsafe_code)]

pub mod doctor;
pub mod profile;
pub mod stamp;
pub mod traffic;
