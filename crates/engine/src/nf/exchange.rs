//! Two halves of an NF: values pass between its control thread and its data path.
//!
//! An NF that changes while packets flow has a control half ([`NfControl`]), which runs on its
//! worker's control thread, does what takes time there, and sends the data half boxed values ready
//! for use. The data half takes a bounded number of them between two turns
//! ([`Nf::exchange`](super::Nf::exchange)) and sends back what it does not need any more, so that
//! it neither allocates nor frees. Both queues are bounded: a full one is said to whoever asked
//! ([`BUSY`]) and waits for nobody. Nothing is locked.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use serde_json::Value;

/// What whoever asks is told while the data half has not taken what it was sent before.
pub const BUSY: &str = "busy: it has not taken what was asked before; ask again";

/// Values that a data half takes between two turns.
pub const BUDGET: usize = 64;

/// What a control half makes of a request.
#[derive(Debug)]
pub enum Handled {
    /// It is answered; an error changes nothing.
    Answered(Result<Value, String>),
    /// The data half answers ([`Nf::control`](super::Nf::control)), after it has taken what it was
    /// sent before, as far as that is not more than [`BUDGET`].
    Passed,
}

/// The control half of an NF.
pub trait NfControl: Send {
    /// Answers a control request, on the control thread. It may take its time, but for every
    /// request to its worker; after 30 s of one the worker is taken for stuck, and replaced.
    fn control(&mut self, request: &Value) -> Handled;
}

/// The end of a control half: sends `Down`, gets `Up` back.
#[derive(Debug)]
pub struct ControlEnd<Down, Up> {
    down: SyncSender<Box<Down>>,
    up: Receiver<Box<Up>>,
}

/// The end of a data half.
#[derive(Debug)]
pub struct DataEnd<Down, Up> {
    down: Receiver<Box<Down>>,
    up: SyncSender<Box<Up>>,
}

/// Two queues of `capacity` values each, 1 or more.
pub fn exchange<Down, Up>(capacity: usize) -> (ControlEnd<Down, Up>, DataEnd<Down, Up>) {
    let (to_data, down) = sync_channel(capacity.max(1));
    let (to_control, up) = sync_channel(capacity.max(1));
    let control = ControlEnd { down: to_data, up };
    let data = DataEnd {
        down,
        up: to_control,
    };
    (control, data)
}

impl<Down, Up> ControlEnd<Down, Up> {
    /// Sends a value to the data half, which takes it between two turns.
    ///
    /// # Errors
    /// The value, if the queue is full or the data half is gone.
    pub fn send(&self, value: Box<Down>) -> Result<(), Box<Down>> {
        self.down.try_send(value).map_err(|error| match error {
            TrySendError::Full(value) | TrySendError::Disconnected(value) => value,
        })
    }

    /// A value that the data half has sent, if there is one.
    pub fn receive(&self) -> Option<Box<Up>> {
        self.up.try_recv().ok()
    }
}

impl<Down, Up> DataEnd<Down, Up> {
    /// Takes up to `budget` values, each with a way to send one back. Gives whether more may wait.
    ///
    /// `act` gets a value and gives one back, or none. One that finds the way back full is freed
    /// here: a control half that receives before it sends never lets that happen.
    pub fn drain(&self, budget: usize, mut act: impl FnMut(Box<Down>) -> Option<Box<Up>>) -> bool {
        for _ in 0..budget {
            let Ok(value) = self.down.try_recv() else {
                return false;
            };
            if let Some(back) = act(value) {
                let _ = self.up.try_send(back);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_full_queue_is_said_and_the_budget_is_kept() {
        let (control, data) = exchange::<u32, u32>(4);
        for value in 0..4 {
            assert!(control.send(Box::new(value)).is_ok());
        }
        assert_eq!(control.send(Box::new(4)), Err(Box::new(4)));
        let mut taken = Vec::new();
        let mut act = |value: Box<u32>| {
            taken.push(*value);
            Some(value)
        };
        assert!(data.drain(3, &mut act));
        assert!(!data.drain(3, &mut act));
        assert_eq!(taken, [0, 1, 2, 3]);
        assert_eq!(control.receive(), Some(Box::new(0)));
        drop(data);
        assert!(control.send(Box::new(5)).is_err());
    }

    /// Each value arrives once, in order, and comes back, at the pace of two threads.
    #[test]
    fn all_values_arrive_in_order_and_come_back() {
        const COUNT: u64 = 100_000;
        let (control, data) = exchange::<u64, u64>(256);
        let data_half = std::thread::spawn(move || {
            let mut next = 0;
            while next < COUNT {
                data.drain(BUDGET, |value| {
                    assert_eq!(*value, next);
                    next += 1;
                    Some(value)
                });
            }
            data
        });
        let (mut sent, mut back) = (0, 0);
        while back < COUNT {
            while let Some(value) = control.receive() {
                assert_eq!(*value, back);
                back += 1;
            }
            // As many as there is room for on the way back.
            if sent < COUNT && sent - back < 256 && control.send(Box::new(sent)).is_ok() {
                sent += 1;
            }
        }
        data_half.join().unwrap();
    }
}
