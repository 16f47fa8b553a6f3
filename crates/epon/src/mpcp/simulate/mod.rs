//! A PON in simulated time: the state machines of [`super`] with fibres, clocks and traffic.
//!
//! A discrete-event simulation, the same for the same scenario. Light takes 4.9 ns per metre;
//! every ONU counts by an oscillator of its own; upstream bursts that overlap at the receiver are
//! both lost. Downstream, MPCPDUs follow each other at line rate; users' frames downstream wait
//! for nobody and are not simulated.
//!
//! Delay of a frame: from its arrival at the ONU to the arrival of its last octet at the OLT. An
//! ONU that is not registered drops what its users send: it has no link.

mod clock;
mod line;
mod report;
mod run;
mod scenario;
#[cfg(test)]
mod tests;
mod traffic;

pub use clock::{QUANTUM_PS, SECOND_PS};
pub use report::{OnuReport, Report};
pub use run::{mac_of, run};
pub use scenario::{FIBRE_PS_PER_M, OnuScenario, REGISTRATION_PS_MAX, Scenario};
pub use traffic::{Frame, Model, Source};
