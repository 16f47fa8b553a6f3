//! Traffic: from a profile to packets that are sent when they are due, and back to what arrived.
//!
//! ```text
//!  Profile ──> Plan ──> TrafficPort ══> chain or port ══> ReceiverPort ──> ArrivalSink
//!              (pure)   (one stamp per burst)              (one stamp per burst)
//! ```
//!
//! - [`schedule`], [`plan`]: pure; the same profile and seed give the same packets and times.
//! - [`entry_buffer`]: where packets wait, and are lost, while the chain takes nothing.
//! - [`generator`], [`receiver`]: the ports `traffic` and `receiver`, in chains and in trials.
//! - [`arrival`]: what the latter tells of each packet.
//! - [`send_record`]: what a generator did with its plan, and whether it kept up.
//! - [`stall_recorder`], [`latency_recorder`]: what the loops note, in bounded memory.
//! - [`slices`]: two generators take turns, so that both of their chains can stay up.
//! - [`conditions`]: what makes a trial invalid: clock step, migration, steal, throttling.
//! - [`trial`]: one measurement: a [`Trial`](trial::Trial) in, a
//!   [`TrialOutcome`](trial::TrialOutcome) out.

pub mod arrival;
pub mod conditions;
pub mod entry_buffer;
mod flow_picker;
pub mod generator;
pub mod latency_recorder;
pub mod plan;
pub mod receiver;
mod replay;
pub mod schedule;
pub mod send_record;
pub mod slices;
mod source;
pub mod stall_recorder;
mod template;
mod tick_rate;
pub mod trial;
mod window;

use catena_engine::port::PortKind;

pub use crate::profile::GTPU_LEN;
pub use tick_rate::TickRate;

/// Every kind of port of this crate.
pub const PORTS: &[&PortKind] = &[&generator::KIND, &receiver::KIND];
