//! What every NF is: called with a burst, when its time has come, and when it is asked.
//!
//! In the middle of a packet's life; `Turn` is who calls.

use super::burst::Burst;
use super::hand_over::HandOver;
use super::keep::{Emission, Kept};
use super::nanos::Nanos;
use crate::own_counters::CounterSink;

/// A network function.
///
/// `process` runs on the data path: it must not allocate, lock, log, block or read a clock.
pub trait Nf: Send {
    /// Decides what becomes of each packet of the burst, at time `now`.
    fn process(&mut self, burst: &mut Burst<'_>, now: Nanos);

    /// Called about every 10 ms between bursts, for timers and slow work.
    fn tick(&mut self, _now: Nanos) {}

    /// Whether every packet's way ends here: the NF copies what it needs of a packet, drops it as
    /// [`DropReason::Consumed`](super::DropReason::Consumed) or with the reason for which it
    /// refuses it, or keeps it, and what leaves does so by [`Nf::emit`]. Its kind says
    /// [`Inputs::Ending`](super::Inputs::Ending).
    fn ends_paths(&self) -> bool {
        false
    }

    /// Whether it keeps packets, or makes some of its own: then [`Nf::emit`] is called. Always the
    /// same answer.
    fn emits(&self) -> bool {
        self.ends_paths()
    }

    /// Sends packets that it holds and packets of its own making, at time `now`. Gives the instant
    /// at which it is to be called again.
    ///
    /// Called first when the worker begins; then when that instant has come, after a burst or a
    /// control request, at every tick, and when there may be room or a buffer that it found missing
    /// the last time.
    fn emit(&mut self, _out: &mut Emission<'_>, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// Whether it has something that must leave before the chain may end, beside packets that it
    /// has kept.
    fn holds_packets(&self) -> bool {
        false
    }

    /// Gives up what it has kept, with the instants at which each came, in the order in which they
    /// are to leave: another NF comes in its place between two turns (`catena apply`). What it does
    /// not name is dropped as [`DropReason::Unsent`](super::DropReason::Unsent).
    fn hand_over(&mut self) -> HandOver {
        HandOver::default()
    }

    /// Takes what the NF before it has handed over. What it gives back is dropped as
    /// [`DropReason::Unsent`](super::DropReason::Unsent).
    fn take_over(&mut self, handed: HandOver) -> Vec<(Nanos, Kept)> {
        handed.held
    }

    /// Takes up to `budget` values that its control half has sent, between two turns; gives whether
    /// more may wait (see [`exchange`](super::exchange)).
    fn exchange(&mut self, _budget: usize) -> bool {
        false
    }

    /// Answers a control request (`catena nf control`), between bursts.
    ///
    /// # Errors
    /// A sentence for the person who asked; the NF's state is as before.
    fn control(&mut self, _request: &serde_json::Value) -> Result<serde_json::Value, String> {
        Err("this NF takes no control requests".to_owned())
    }

    /// Gives the values of what it counts itself, by the names of its plan and in their order:
    /// called on the data path, when the node's other counters are stored.
    fn counters(&self, _out: &mut CounterSink<'_>) {}

    /// All that it counts itself, by name; in an NF's status once the chain has ended.
    fn report(&self) -> Vec<(&'static str, u64)> {
        let mut list = Vec::new();
        self.counters(&mut CounterSink::list(&mut list));
        list
    }
}
