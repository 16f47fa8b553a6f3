//! What a receiver tells of each packet, and who is told: between the port `receiver` and what
//! judges loss and order.

use serde::{Deserialize, Serialize};

use crate::flow_quality::Quality;

/// One packet, as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Flow; 0 if the stamp is damaged.
    pub flow: u32,
    /// Number in its flow; 0 if the stamp is damaged.
    pub sequence: u64,
    /// Tick at which it should have been sent.
    pub intended: u64,
    /// Ticks from then on until it was sent.
    pub late: u64,
    /// Tick at which it was received.
    pub received: u64,
    /// Whether the stamp is whole. A damaged packet is one of its flow's lost ones too.
    pub is_valid: bool,
}

/// One flow and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowResult {
    /// Its number.
    pub flow: u32,
    /// What is known of it.
    pub quality: Quality,
}

/// Takes arrivals, in their order.
pub trait ArrivalSink: Send {
    /// Notes one packet of this trial. On the data path: no allocation.
    fn arrived(&mut self, arrival: &Arrival);

    /// Counters for the port's report.
    fn report(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// What became of the flows that were followed.
    fn flows(&self) -> Vec<FlowResult> {
        Vec::new()
    }
}

/// Forgets every arrival: for ports of which only the receiver's own counts are wanted.
impl ArrivalSink for () {
    fn arrived(&mut self, _arrival: &Arrival) {}
}
